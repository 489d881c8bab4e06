//! Mirrors `src/domain/policy`.

mod compile;
mod condition;
mod lint;
mod manifest;
mod schema;
