//! Mirrors `src/domain`.

mod approval;
mod audit;
mod canon;
mod identity;
mod ids;
mod policy;
mod review;
mod time;
