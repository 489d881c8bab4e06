//! Ed25519 keys that sign permits, and their public halves as JWKs. It must not know where they are kept.

use std::fmt;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{DecodingKey, EncodingKey};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Bytes or text that hold no usable Ed25519 key. It repeats nothing of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// Not an unencrypted Ed25519 private key.
    #[error("not an unencrypted Ed25519 private key in PKCS#8 (openssl genpkey -algorithm ed25519)")]
    Private,
    /// Neither an Ed25519 public key nor a private key to take it from.
    #[error("neither an Ed25519 public key in PEM nor a private key in PKCS#8")]
    Public,
}

/// The private key that signs permits. No `Debug` shows it.
pub struct SigningKey {
    encoding: EncodingKey,
    public: PublicKey,
}

impl SigningKey {
    /// Reads PKCS#8 (RFC 5958) in PEM, as `openssl genpkey -algorithm ed25519` writes it.
    ///
    /// # Errors
    ///
    /// [`InvalidKey::Private`] for anything else, a key of another algorithm or an encrypted one included.
    pub fn from_pkcs8_pem(pem: &str) -> Result<Self, InvalidKey> {
        let encoding = EncodingKey::from_ed_pem(pem.as_bytes()).map_err(|_| InvalidKey::Private)?;
        Self::from_pkcs8_der(encoding.as_bytes())
    }

    /// Reads PKCS#8 in DER.
    ///
    /// # Errors
    ///
    /// [`InvalidKey::Private`] as above.
    pub fn from_pkcs8_der(der: &[u8]) -> Result<Self, InvalidKey> {
        let pair = Ed25519KeyPair::from_pkcs8(der).map_err(|_| InvalidKey::Private)?;
        Ok(Self { encoding: EncodingKey::from_ed_der(der), public: PublicKey::of(&pair)? })
    }

    /// The key over `seed` (the private key of RFC 8032 section 5.1.5), which must be 32 bytes from a cryptographic
    /// source of randomness.
    ///
    /// # Errors
    ///
    /// [`InvalidKey::Private`] when the cryptographic library fails.
    pub fn generate(seed: &[u8; 32]) -> Result<Self, InvalidKey> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| InvalidKey::Private)?;
        let der = pair.to_pkcs8v1().map_err(|_| InvalidKey::Private)?;
        Self::from_pkcs8_der(der.as_ref())
    }

    /// The private key as PKCS#8 in DER, to be kept; see [`SealKey`](super::SealKey).
    pub fn expose_pkcs8_der(&self) -> &[u8] {
        self.encoding.as_bytes()
    }

    /// Its public half.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    pub(super) fn encoding(&self) -> &EncodingKey {
        &self.encoding
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("kid", &self.public.kid).finish_non_exhaustive()
    }
}

/// The public half of a key that signs or signed permits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    bytes: [u8; 32],
    kid: String,
}

impl PublicKey {
    /// Reads a public key (SubjectPublicKeyInfo, RFC 8410) in PEM; of a private key in PKCS#8 PEM, its public half.
    ///
    /// # Errors
    ///
    /// [`InvalidKey::Public`] for anything else.
    pub fn from_pem(pem: &str) -> Result<Self, InvalidKey> {
        if let Ok(private) = SigningKey::from_pkcs8_pem(pem) {
            return Ok(private.public);
        }
        let key = DecodingKey::from_ed_pem(pem.as_bytes()).map_err(|_| InvalidKey::Public)?;
        Self::from_bytes(key.try_get_as_bytes().map_err(|_| InvalidKey::Public)?)
    }

    /// The RFC 7638 thumbprint (SHA-256, base64url), which is the key's id.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// The key as a JWK (RFC 8037 section 2).
    pub fn jwk(&self) -> Value {
        json!({
            "kty": "OKP",
            "crv": "Ed25519",
            "x": URL_SAFE_NO_PAD.encode(self.bytes),
            "use": "sig",
            "alg": "EdDSA",
            "kid": self.kid,
        })
    }

    pub(super) fn decoding(&self) -> DecodingKey {
        DecodingKey::from_ed_der(&self.bytes)
    }

    fn of(pair: &Ed25519KeyPair) -> Result<Self, InvalidKey> {
        Self::from_bytes(pair.public_key().as_ref())
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, InvalidKey> {
        let bytes: [u8; 32] = bytes.try_into().map_err(|_| InvalidKey::Public)?;
        // The members that RFC 8037 appendix A.3 names, in the order and without the space that RFC 7638 asks for.
        let members = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#, URL_SAFE_NO_PAD.encode(bytes));
        Ok(Self { bytes, kid: URL_SAFE_NO_PAD.encode(Sha256::digest(members)) })
    }
}
