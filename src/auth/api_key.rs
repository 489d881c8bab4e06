//! The text of an API key: `cs_<random>_<checksum>`. It must not know who holds one; see `domain::identity`.
//!
//! * `random` is 32 random bytes as one big-endian number in base 62 (digits, upper case, lower case), 43 characters.
//! * `checksum` is the first 6 characters of SHA-256 over the ASCII text of `random`, written the same way.
//!
//! The prefix and the checksum let secret scanners tell a key from other text without asking the service, and let the
//! service turn away a mistyped or cut key without asking the store. The checksum protects nothing: anyone can make a
//! key that has the form. Neither part holds an underscore or a hyphen, so that a double click takes a part whole.
//!
//! The store keeps SHA-256 of the whole text and looks a caller up by it. Plain SHA-256 is enough because 256 random
//! bits cannot be guessed, however fast the hash; and the look-up need not take constant time: what its time may tell is
//! how far a stored hash agrees with the hash of a guess, and nobody can choose a guess by its hash.

use std::fmt;

use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

const PREFIX: &str = "cs_";
const RANDOM_LENGTH: usize = 43;
const CHECKSUM_LENGTH: usize = 6;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A key's text, in the right form. Whether it opens anything only the store can say.
///
/// Its memory is wiped when it is dropped, and no `Debug` or `Display` shows it.
#[derive(Clone)]
pub struct ApiKeyText(SecretString);

/// Text that has not the form of a key: another prefix, length or character, or a checksum that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an API key of the form cs_<random>_<checksum>, or mistyped")]
pub struct NotAnApiKey;

impl ApiKeyText {
    /// The key over 32 bytes, which must come from a cryptographic source of randomness.
    pub fn generate(entropy: &[u8; 32]) -> Self {
        let random = base62(entropy);
        let checksum = checksum(&random);
        Self(SecretString::from(format!("{PREFIX}{random}_{checksum}")))
    }

    /// Takes text that a caller showed.
    ///
    /// # Errors
    ///
    /// [`NotAnApiKey`], which says nothing about the text.
    pub fn parse(text: &str) -> Result<Self, NotAnApiKey> {
        let (random, given) = text.strip_prefix(PREFIX).and_then(|rest| rest.split_once('_')).ok_or(NotAnApiKey)?;
        let well_formed = random.len() == RANDOM_LENGTH && random.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if well_formed && given == checksum(random) { Ok(Self(SecretString::from(text))) } else { Err(NotAnApiKey) }
    }

    /// SHA-256 of the whole text, as a key's record keeps it.
    pub fn sha256(&self) -> [u8; 32] {
        Sha256::digest(self.0.expose_secret()).into()
    }

    /// The text itself, to be shown once to whom it is made for.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl fmt::Debug for ApiKeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKeyText(..)")
    }
}

fn checksum(random: &str) -> String {
    let digest: [u8; 32] = Sha256::digest(random).into();
    base62(&digest).chars().take(CHECKSUM_LENGTH).collect()
}

/// 32 bytes as one big-endian number in base 62, most significant digit first, always 43 digits (62^43 > 2^256).
fn base62(bytes: &[u8; 32]) -> String {
    let mut number = *bytes;
    let mut digits = [b'0'; RANDOM_LENGTH];
    for digit in digits.iter_mut().rev() {
        let mut remainder = 0_u16;
        for byte in &mut number {
            let dividend = (remainder << 8) | u16::from(*byte);
            // The remainder is below 62, so the quotient is below 256.
            *byte = u8::try_from(dividend / 62).unwrap_or(u8::MAX);
            remainder = dividend % 62;
        }
        *digit = ALPHABET.get(usize::from(remainder)).copied().unwrap_or(b'0');
    }
    digits.iter().map(|digit| char::from(*digit)).collect()
}
