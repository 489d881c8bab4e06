//! Mirrors `src/domain`.

mod approval;
mod audit;
mod canon;
mod grant;
mod identity;
mod ids;
mod judge;
mod limit;
mod lookup;
mod policy;
mod requested;
mod review;
mod run;
mod settle;
mod subject;
mod time;
