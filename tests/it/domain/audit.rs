//! Mirrors `src/domain/audit`.

mod chain;
mod merkle;
mod payload;
