//! Payloads: what people or agents wrote, kept beside the log so that it can be erased without breaking the chain.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Random bytes that keep a payload from being guessed by its digest.
pub type Salt = [u8; 16];

/// `SHA-256(salt || payload)`: how an entry names a payload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PayloadDigest([u8; 32]);

impl PayloadDigest {
    /// The digest with these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads 64 hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Self(bytes))
    }
}

impl fmt::Display for PayloadDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for PayloadDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for PayloadDigest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PayloadDigest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("expected 64 hex digits"))
    }
}

/// A payload with its salt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    digest: PayloadDigest,
    salt: Salt,
    body: String,
}

impl Payload {
    /// A payload of this text.
    pub fn new(body: String, salt: Salt) -> Self {
        Self { digest: salted_hash(&salt, body.as_bytes()), salt, body }
    }

    /// How entries name it.
    pub const fn digest(&self) -> PayloadDigest {
        self.digest
    }

    /// The salt, erased with the body.
    pub const fn salt(&self) -> &Salt {
        &self.salt
    }

    /// The text: JSON.
    pub fn body(&self) -> &str {
        &self.body
    }
}

/// `SHA-256(salt || bytes)`: proves later what the bytes were, and does not tell them.
pub fn salted_hash(salt: &Salt, bytes: &[u8]) -> PayloadDigest {
    let mut hasher = Sha256::new();
    hasher.update(salt);
    hasher.update(bytes);
    PayloadDigest(hasher.finalize().into())
}
