//! The short code of an approval, such as `AP-7Q4K-2M`: the same everywhere, and easy to say aloud.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Crockford's base 32: no I, L, O or U.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// `AP-` and six characters of Crockford's base 32: 30 bits, unique in the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ApprovalCode(String);

impl ApprovalCode {
    /// The code of the low 30 bits of `random`.
    pub fn from_bits(random: u32) -> Self {
        let mut text = String::from("AP-");
        for place in 0..6_u32 {
            if place == 4 {
                text.push('-');
            }
            let index = (random >> (25 - 5 * place)) & 31;
            text.push(char::from(ALPHABET.get(index as usize).copied().unwrap_or(b'0')));
        }
        Self(text)
    }

    /// Reads a code as a person types it: case does not matter, O reads as 0, I and L as 1.
    pub fn parse(text: &str) -> Option<Self> {
        let upper = text.trim().to_ascii_uppercase();
        let mut characters = upper.strip_prefix("AP-")?.chars();
        let mut code = String::from("AP-");
        for place in 0..7 {
            let character = characters.next()?;
            if place == 4 {
                (character == '-').then_some(())?;
                code.push('-');
                continue;
            }
            let character = match character {
                'O' => '0',
                'I' | 'L' => '1',
                other => other,
            };
            ALPHABET.contains(&u8::try_from(character).ok()?).then_some(())?;
            code.push(character);
        }
        characters.next().is_none().then_some(Self(code))
    }

    /// The code as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ApprovalCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ApprovalCode {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not an approval code"))
    }
}
