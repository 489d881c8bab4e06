//! Mirrors `src/domain/policy`.

mod argument;
mod compile;
mod condition;
mod limits;
mod lint;
mod manifest;
mod schema;
