//! Mirrors `src/storage`.

mod contract;
mod postgres;
mod sqlite;
