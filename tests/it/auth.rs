//! Mirrors `src/auth`.

mod api_key;
mod permit;
