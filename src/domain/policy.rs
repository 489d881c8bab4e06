//! The policy: files parsed strictly, compiled once into one immutable bundle.

pub mod condition;
pub mod schema;
