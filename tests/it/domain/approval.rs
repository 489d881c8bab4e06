//! Mirrors `src/domain/approval`.

mod code;
mod confirmation;
mod requesters;
mod requirement;
mod state;
