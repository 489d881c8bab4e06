//! The rules of the business, pure: no I/O, no clock, no randomness, no environment, no async.
//!
//! Everything here is a value or a total function over values; time, ids and randomness come in as arguments.

pub mod canon;
pub mod identity;
pub mod ids;
pub mod policy;
pub mod time;
pub mod verdict;
