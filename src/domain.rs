//! The rules of the business, pure: no I/O, no clock, no randomness, no environment, no async.
//!
//! Everything here is a value or a total function over values; time, ids and randomness come in as arguments.

pub mod approval;
pub mod audit;
pub mod call;
pub mod canon;
pub mod channel;
pub mod decision;
pub mod facts;
pub mod grant;
pub mod identity;
pub mod ids;
pub mod judge;
pub mod limit;
pub mod lookup;
pub mod notice;
pub mod policy;
pub mod requested;
pub mod review;
pub mod run;
pub mod session;
pub mod settle;
pub mod subject;
pub mod time;
pub mod verdict;
