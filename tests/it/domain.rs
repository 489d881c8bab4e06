//! Mirrors `src/domain`.

mod time;
