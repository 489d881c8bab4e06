//! Mirrors `src/domain/approval`.

mod code;
mod requirement;
mod state;
