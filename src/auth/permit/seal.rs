//! Sealing of a private key that is kept in the store, so that whoever reads the store cannot sign. It must not know
//! what the sealed bytes mean.
//!
//! Format: one version byte, 1; a nonce of 12 bytes; then the ciphertext of AES-256-GCM (NIST SP 800-38D) with its tag of
//! 16 bytes. The additional data is the ASCII text `countersign permit key` followed by the version byte, so that
//! neither a sealed value of another purpose nor another version can be put in its place. A key kept in the clear is
//! PKCS#8 in DER, which begins with 0x30: neither form can be taken for the other.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

const VERSION: u8 = 1;
const NONCE_LENGTH: usize = 12;
const ADDITIONAL_DATA: &[u8] = b"countersign permit key\x01";

/// The key that seals: `[permits] seal_key`. No `Debug` shows it.
pub struct SealKey(LessSafeKey);

/// Why bytes could not be sealed or unsealed. It says nothing about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// They were not sealed with this key, were changed since, or are of a version this service does not know.
    #[error("not sealed with this key, or changed since")]
    Broken,
    /// The cryptographic library failed.
    #[error("the cryptographic library failed")]
    Library,
}

impl SealKey {
    /// The sealing key over 32 secret bytes.
    ///
    /// # Errors
    ///
    /// [`SealError::Library`]; no 32 bytes are refused as such.
    pub fn new(key: &[u8; 32]) -> Result<Self, SealError> {
        UnboundKey::new(&AES_256_GCM, key).map(|key| Self(LessSafeKey::new(key))).map_err(|_| SealError::Library)
    }

    /// Seals `plain`. The nonce must be fresh random bytes: with one key it may never be used for two plaintexts. The
    /// handful of keys a service ever seals is far below the 2^32 that random nonces bear.
    ///
    /// # Errors
    ///
    /// [`SealError::Library`].
    pub fn seal(&self, plain: &[u8], nonce: [u8; NONCE_LENGTH]) -> Result<Vec<u8>, SealError> {
        let mut ciphertext = plain.to_vec();
        let aad = Aad::from(ADDITIONAL_DATA);
        self.0
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut ciphertext)
            .map_err(|_| SealError::Library)?;
        Ok([&[VERSION][..], &nonce, &ciphertext].concat())
    }

    /// Opens what [`SealKey::seal`] sealed. Bytes in the clear are refused like any others: whoever may write to the
    /// store must not be able to put a key of his own in the sealed one's place.
    ///
    /// # Errors
    ///
    /// [`SealError::Broken`] for anything else.
    pub fn unseal(&self, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        let (&version, rest) = sealed.split_first().ok_or(SealError::Broken)?;
        let (nonce, ciphertext) = rest.split_first_chunk::<NONCE_LENGTH>().ok_or(SealError::Broken)?;
        if version != VERSION {
            return Err(SealError::Broken);
        }
        let mut plain = ciphertext.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length =
            self.0.open_in_place(nonce, Aad::from(ADDITIONAL_DATA), &mut plain).map_err(|_| SealError::Broken)?.len();
        plain.truncate(length);
        Ok(plain)
    }
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey(..)")
    }
}
