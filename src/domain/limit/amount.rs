//! Exact decimal numbers for sums: what cannot be told exactly is no amount, and nothing is ever rounded.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// An exact decimal number: `units` times ten to the power of minus `scale`.
///
/// Always in the fewest digits, so that equal numbers are equal values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Amount {
    units: i128,
    scale: u32,
}

/// The most digits after the point. The product of a unit and a power of ten of this size is checked all the same.
const MOST_FRACTION_DIGITS: usize = 30;

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self { units: 0, scale: 0 };

    /// Reads `["-"] digits ["." digits]`; `None` for anything else, and for more digits than are held exactly.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(unsigned) => (true, unsigned),
            None => (false, text),
        };
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(fraction) {
            return None;
        }
        let fraction = fraction.trim_end_matches('0');
        if fraction.len() > MOST_FRACTION_DIGITS {
            return None;
        }
        let units: i128 = format!("{whole}{fraction}").parse().ok()?;
        let scale = u32::try_from(fraction.len()).ok()?;
        Some(Self { units: if negative { units.checked_neg()? } else { units }, scale }.in_fewest_digits())
    }

    /// The number that a JSON value is; `None` for what is no number. Of a fraction it is the shortest decimal text
    /// that reads back as the same number, which is the one that was written.
    pub fn of(value: &Value) -> Option<Self> {
        match value {
            // Its text has an exponent where it is very large or small; the one of a float never has.
            Value::Number(number) if number.is_f64() => Self::parse(&number.as_f64()?.to_string()),
            Value::Number(number) => Self::parse(&number.to_string()),
            Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// The exact sum; `None` when it has more digits than are held.
    pub fn plus(self, other: Self) -> Option<Self> {
        let scale = self.scale.max(other.scale);
        let units = self.units_at(scale)?.checked_add(other.units_at(scale)?)?;
        Some(Self { units, scale }.in_fewest_digits())
    }

    /// `count` times the amount, exactly; `None` when it has more digits than are held.
    pub fn times(self, count: u64) -> Option<Self> {
        let units = self.units.checked_mul(i128::from(count))?;
        Some(Self { units, scale: self.scale }.in_fewest_digits())
    }

    /// Whether it is greater than `other`; `None` when the two cannot be compared exactly.
    pub fn exceeds(self, other: Self) -> Option<bool> {
        let scale = self.scale.max(other.scale);
        Some(self.units_at(scale)? > other.units_at(scale)?)
    }

    /// Whether it is less than nothing.
    pub const fn is_negative(self) -> bool {
        self.units < 0
    }

    fn units_at(self, scale: u32) -> Option<i128> {
        self.units.checked_mul(10_i128.checked_pow(scale.checked_sub(self.scale)?)?)
    }

    fn in_fewest_digits(mut self) -> Self {
        while self.scale > 0 && self.units % 10 == 0 {
            self.units /= 10;
            self.scale -= 1;
        }
        self
    }
}

/// As [`Amount::parse`] reads it.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.units < 0 { "-" } else { "" };
        let unsigned = self.units.unsigned_abs();
        let one = 10_u128.checked_pow(self.scale).unwrap_or(u128::MAX);
        match self.scale {
            0 => write!(f, "{sign}{unsigned}"),
            scale => {
                let width = usize::try_from(scale).unwrap_or_default();
                write!(f, "{sign}{}.{:0width$}", unsigned / one, unsigned % one)
            }
        }
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not an exact decimal number"))
    }
}
