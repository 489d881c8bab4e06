//! Mirrors `src/domain`.

mod approval;
mod audit;
mod canon;
mod identity;
mod ids;
mod judge;
mod policy;
mod review;
mod settle;
mod time;
