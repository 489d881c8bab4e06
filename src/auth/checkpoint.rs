//! The key that signs checkpoints: Ed25519 (RFC 8032), never in the store. It must not know what a checkpoint says.

use std::fmt;

use aws_lc_rs::signature::Ed25519KeyPair;
use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::permit::{InvalidKey, SigningKey};
use crate::app::ports::{CheckpointSigner, SigningError};

/// The private key that signs checkpoints. No `Debug` shows it.
pub struct CheckpointKey {
    pair: Ed25519KeyPair,
    kid: String,
}

impl CheckpointKey {
    /// Reads PKCS#8 (RFC 5958) in PEM, as `openssl genpkey -algorithm ed25519` writes it.
    ///
    /// # Errors
    ///
    /// [`InvalidKey::Private`] for anything else.
    pub fn from_pkcs8_pem(pem: &str) -> Result<Self, InvalidKey> {
        let key = SigningKey::from_pkcs8_pem(pem)?;
        let pair = Ed25519KeyPair::from_pkcs8(key.expose_pkcs8_der()).map_err(|_| InvalidKey::Private)?;
        Ok(Self { pair, kid: key.public().kid().to_owned() })
    }

    /// The RFC 7638 thumbprint of its public half, which is the key's id.
    pub fn kid(&self) -> &str {
        &self.kid
    }
}

impl CheckpointSigner for CheckpointKey {
    fn sign(&self, text: &[u8]) -> Result<(String, String), SigningError> {
        Ok((STANDARD.encode(self.pair.sign(text)), self.kid.clone()))
    }
}

impl fmt::Debug for CheckpointKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckpointKey").field("kid", &self.kid).finish_non_exhaustive()
    }
}
