//! Mirrors `src/domain/policy`.

mod argument;
mod compile;
mod condition;
mod limits;
mod lint;
mod lookup;
mod manifest;
mod schema;
mod terms;
