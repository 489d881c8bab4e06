//! Mirrors `src/domain`.

mod identity;
mod ids;
mod policy;
mod time;
