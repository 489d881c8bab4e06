//! Mirrors `src/channels`.

mod slack;
