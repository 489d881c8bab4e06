//! Credentials: how they are written, recognised, signed and sealed. It must not know what their holders ask for.

pub mod api_key;
pub mod checkpoint;
pub mod issuer;
pub mod jwt;
pub mod key_ring;
pub mod oidc;
pub mod permit;
pub mod session;
