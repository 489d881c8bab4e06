//! Mirrors `src/domain/policy`.

mod argument;
mod compile;
mod condition;
mod lint;
mod manifest;
mod schema;
mod terms;
