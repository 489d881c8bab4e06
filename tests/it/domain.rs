//! Mirrors `src/domain`.

mod canon;
mod identity;
mod ids;
mod policy;
mod time;
