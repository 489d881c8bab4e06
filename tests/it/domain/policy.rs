//! Mirrors `src/domain/policy`.

mod argument;
mod compile;
mod condition;
mod lint;
mod lookup;
mod manifest;
mod schema;
mod terms;
