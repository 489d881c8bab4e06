//! Mirrors `src/domain`.

mod identity;
mod ids;
mod time;
