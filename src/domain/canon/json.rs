//! Strict JSON in, canonical JSON out: a body has one reading, and its arguments one hash in every language.
//!
//! Reading follows RFC 8259, and refuses what I-JSON (RFC 7493) calls ambiguous: duplicate names, lone surrogates,
//! numbers that a double cannot hold. Writing is the JSON Canonicalization Scheme (RFC 8785).

use std::fmt;

use serde::{
    Deserialize,
    de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};

/// How deep arrays and objects may stand inside each other.
pub const MAX_DEPTH: usize = 64;

/// The largest integer that every JSON implementation holds exactly: 2^53 - 1 (RFC 7493, section 2.2).
pub const MAX_INTEGER: u64 = 9_007_199_254_740_991;

/// More significant digits than this never survive a double (IEEE 754 binary64).
const MAX_SIGNIFICANT_DIGITS: usize = 17;

/// From here on RFC 8785 writes a whole number with an exponent (section 3.2.2.3, as ECMAScript does).
const FIRST_WITH_EXPONENT: f64 = 1e21;

/// Why a text is not exactly one JSON value, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} at line {line} column {column}")]
pub struct JsonFault {
    /// What is wrong. It may repeat a property name, never a value.
    pub message: String,
    /// 1-based line.
    pub line: usize,
    /// 1-based column, in bytes.
    pub column: usize,
}

/// Reads exactly one JSON value.
///
/// # Errors
/// A [`JsonFault`] for everything RFC 8259 refuses, and for duplicate names at any depth, lone surrogates, a byte
/// order mark, integers beyond ±(2^53 - 1) that are written as digits or would be in the canonical form, numbers of more than 17 significant digits, numbers that
/// overflow a double or become zero in it, and nesting deeper than [`MAX_DEPTH`].
pub fn parse(bytes: &[u8]) -> Result<Value, JsonFault> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = StrictValue { depth: 0 }
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| syntax_fault(&error))?;
    check_numbers(bytes)?;
    Ok(value)
}

/// The canonical text of `value` (RFC 8785).
///
/// # Errors
/// None for a value that [`parse`] returned; for others, a number that JSON cannot express.
pub fn canonical(value: &impl serde::Serialize) -> Result<Vec<u8>, serde_json::Error> {
    serde_json_canonicalizer::to_vec(value)
}

/// SHA-256 of the canonical arguments: what an approval is bound to, as `sha256:` and 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArgsHash([u8; 32]);

impl ArgsHash {
    /// The hash of these arguments: `SHA-256(JCS(args))`.
    ///
    /// # Errors
    /// As [`canonical`].
    pub fn of(args: &Map<String, Value>) -> Result<Self, serde_json::Error> {
        Ok(Self(Sha256::digest(canonical(args)?).into()))
    }

    /// Reads the text form; `None` when it is not exactly that.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("sha256:")?;
        if digits.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return None;
        }
        let mut bytes = [0; 32];
        hex::decode_to_slice(digits, &mut bytes).ok()?;
        Some(Self(bytes))
    }

    /// The 32 bytes of the hash.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for ArgsHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex::encode(self.0))
    }
}

impl fmt::Debug for ArgsHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl serde::Serialize for ArgsHash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ArgsHash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("expected `sha256:` and 64 lower-case hex digits"))
    }
}

fn syntax_fault(error: &serde_json::Error) -> JsonFault {
    // The crate's message ends in the place, which has fields of its own here.
    let text = error.to_string();
    let message = text.split(" at line ").next().unwrap_or_default().to_owned();
    JsonFault { message, line: error.line(), column: error.column() }
}

/// Builds a [`Value`], refusing duplicate names and deep nesting on the way.
#[derive(Clone, Copy)]
struct StrictValue {
    depth: usize,
}

impl StrictValue {
    fn inside<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth >= MAX_DEPTH {
            return Err(E::custom(format_args!("nesting deeper than {MAX_DEPTH}")));
        }
        Ok(Self { depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for StrictValue {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        // Minus zero is zero in RFC 8785; making it so here leaves one value for rules as well.
        let value = if value == 0.0 { 0.0 } else { value };
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inside = self.inside()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(inside)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let inside = self.inside()?;
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if object.contains_key(&name) {
                return Err(A::Error::custom(format_args!("duplicate name {name:?}")));
            }
            let value = members.next_value_seed(inside)?;
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

/// Checks the literals themselves, which a parser's `f64` no longer shows. `bytes` are known to be JSON.
fn check_numbers(bytes: &[u8]) -> Result<(), JsonFault> {
    let mut rest = bytes.iter().copied().enumerate().peekable();
    while let Some((start, byte)) = rest.next() {
        match byte {
            b'"' => {
                while let Some((_, byte)) = rest.next() {
                    match byte {
                        b'\\' => drop(rest.next()),
                        b'"' => break,
                        _ => {}
                    }
                }
            }
            b'-' | b'0'..=b'9' => {
                let mut literal = vec![byte];
                while let Some((_, byte)) =
                    rest.next_if(|(_, b)| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'))
                {
                    literal.push(byte);
                }
                if let Some(message) = number_fault(&literal) {
                    let before = bytes.get(..start).unwrap_or_default();
                    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
                    let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
                    return Err(JsonFault { message: message.to_owned(), line, column });
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn number_fault(literal: &[u8]) -> Option<&'static str> {
    let mantissa: Vec<u8> =
        literal.iter().copied().take_while(|byte| !matches!(byte, b'e' | b'E')).filter(u8::is_ascii_digit).collect();
    let significant = mantissa.iter().skip_while(|digit| **digit == b'0').count();
    let whole = !literal.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
    let text = std::str::from_utf8(literal).unwrap_or_default();
    if whole {
        let magnitude = text.trim_start_matches('-').parse::<u64>();
        return match magnitude {
            Ok(magnitude) if magnitude <= MAX_INTEGER => None,
            Ok(_) | Err(_) => Some("integer beyond 2^53 - 1"),
        };
    }
    if significant > MAX_SIGNIFICANT_DIGITS {
        return Some("number of more than 17 significant digits");
    }
    // Overflow was refused by the parser; underflow to zero is silent there.
    match text.parse::<f64>() {
        Ok(value) if value == 0.0 && significant > 0 => Some("number too small for a double"),
        // All doubles of this size are whole: the canonical text would be digits, which are refused.
        Ok(value) if value.abs() > MAX_INTEGER as f64 && value.abs() < FIRST_WITH_EXPONENT => {
            Some("integer beyond 2^53 - 1")
        }
        Ok(value) if value.is_finite() => None,
        Ok(_) | Err(_) => Some("number out of range"),
    }
}
