//! Mirrors `src/domain/canon`.

mod json;
