//! Mirrors `src/auth`.

mod api_key;
mod key_ring;
mod permit;
mod session;
