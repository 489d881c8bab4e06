//! JSON values that remember where in a policy's files each of their parts was written.

use std::{collections::BTreeMap, fmt, ops::Range};

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::{Map, Number, Value, value::RawValue};
use toml::{Spanned, de::DeValue};

use super::fault::{Faults, Place};

/// How deep values in a policy may nest.
const MAX_DEPTH: usize = 64;
/// The largest integer that every JSON reader takes exactly (2^53 - 1).
const MAX_INTEGER: i64 = 9_007_199_254_740_991;

/// A JSON value and the place of each of its parts by JSON Pointer (RFC 6901).
#[derive(Clone, Debug)]
pub(super) struct Document {
    /// The value.
    pub(super) value: Value,
    /// The whole value's place.
    pub(super) at: Place,
    values: BTreeMap<String, Range<usize>>,
    keys: BTreeMap<String, Range<usize>>,
}

impl Document {
    /// Where the value at `pointer` stands; that of its nearest known ancestor when it is not there.
    pub(super) fn value_at(&self, pointer: &str) -> Place {
        self.nearest(&self.values, pointer)
    }

    /// Where the key that leads to `pointer` stands, or else the value.
    pub(super) fn key_at(&self, pointer: &str) -> Place {
        match self.keys.get(pointer) {
            Some(span) => Place { file: self.at.file, span: span.clone() },
            None => self.value_at(pointer),
        }
    }

    fn nearest(&self, places: &BTreeMap<String, Range<usize>>, pointer: &str) -> Place {
        let mut pointer = pointer;
        loop {
            if let Some(span) = places.get(pointer) {
                return Place { file: self.at.file, span: span.clone() };
            }
            match pointer.rsplit_once('/') {
                Some((parent, _)) => pointer = parent,
                None => return self.at.clone(),
            }
        }
    }

    /// Reads a TOML value as JSON; dates, infinities and integers beyond 2^53 - 1 are faults.
    pub(super) fn from_toml(value: &Spanned<DeValue<'_>>, at: &Place, faults: &mut Faults<'_>) -> Option<Self> {
        let mut reading = TomlReading { file: at.file, values: BTreeMap::new(), keys: BTreeMap::new(), faults };
        let before = reading.faults.count();
        let read = reading.value(value, &mut String::new(), 0);
        let TomlReading { values, keys, faults, .. } = reading;
        (faults.count() == before).then(|| Self { value: read, at: at.clone(), values, keys })
    }

    /// Reads the whole text of file number `file` as JSON; a key that stands twice is a fault.
    pub(super) fn from_json(file: usize, faults: &mut Faults<'_>) -> Option<Self> {
        let text = faults.files().get(file)?.text.as_str();
        let mut reading = JsonReading { text, values: BTreeMap::new(), keys: BTreeMap::new(), fault: None };
        let read = match serde_json::from_str::<&RawValue>(text) {
            Ok(raw) => reading.value(raw.get(), &mut String::new(), 0),
            Err(error) => {
                let start = byte_at(text, error.line(), error.column());
                reading.fault = Some((start..start, error.to_string()));
                Value::Null
            }
        };
        let JsonReading { values, keys, fault, .. } = reading;
        let at = Place { file, span: 0..text.len() };
        match fault {
            None => Some(Self { value: read, at, values, keys }),
            Some((span, message)) => {
                faults.error(&Place { file, span }, format!("not JSON that can be read in one way: {message}"), "");
                None
            }
        }
    }
}

/// Appends one reference token to a JSON Pointer, escaped.
pub(super) fn push_token(pointer: &mut String, token: &str) {
    pointer.push('/');
    pointer.push_str(&token.replace('~', "~0").replace('/', "~1"));
}

struct TomlReading<'r, 's> {
    file: usize,
    values: BTreeMap<String, Range<usize>>,
    keys: BTreeMap<String, Range<usize>>,
    faults: &'r mut Faults<'s>,
}

impl TomlReading<'_, '_> {
    fn value(&mut self, value: &Spanned<DeValue<'_>>, pointer: &mut String, depth: usize) -> Value {
        self.values.insert(pointer.clone(), value.span());
        let at = Place { file: self.file, span: value.span() };
        if depth > MAX_DEPTH {
            self.faults.error(&at, format!("nested deeper than {MAX_DEPTH}"), "make it flatter");
            return Value::Null;
        }
        let length = pointer.len();
        match value.get_ref() {
            DeValue::String(text) => Value::String(text.to_string()),
            DeValue::Boolean(flag) => Value::Bool(*flag),
            DeValue::Integer(digits) => match i64::from_str_radix(digits.as_str(), digits.radix()) {
                Ok(number) if (-MAX_INTEGER..=MAX_INTEGER).contains(&number) => Value::Number(number.into()),
                Ok(_) | Err(_) => {
                    let hint = "integers go to 2^53 - 1, beyond which JSON readers disagree";
                    self.faults.error(&at, "an integer that JSON does not carry exactly", hint);
                    Value::Null
                }
            },
            DeValue::Float(digits) => match digits.as_str().parse().ok().and_then(Number::from_f64) {
                Some(number) => Value::Number(number),
                None => {
                    self.faults.error(&at, "a number that is not finite", "JSON has finite numbers only");
                    Value::Null
                }
            },
            DeValue::Datetime(_) => {
                self.faults.error(&at, "a date or time, which JSON does not have", "write it as a string");
                Value::Null
            }
            DeValue::Array(items) => {
                let read = items.iter().enumerate().map(|(index, item)| {
                    push_token(pointer, &index.to_string());
                    let item = self.value(item, pointer, depth + 1);
                    pointer.truncate(length);
                    item
                });
                Value::Array(read.collect())
            }
            DeValue::Table(entries) => {
                let read = entries.iter().map(|(key, entry)| {
                    push_token(pointer, key.get_ref());
                    self.keys.insert(pointer.clone(), key.span());
                    let entry = self.value(entry, pointer, depth + 1);
                    pointer.truncate(length);
                    (key.get_ref().to_string(), entry)
                });
                Value::Object(read.collect())
            }
        }
    }
}

struct JsonReading<'t> {
    text: &'t str,
    values: BTreeMap<String, Range<usize>>,
    keys: BTreeMap<String, Range<usize>>,
    /// The first thing wrong.
    fault: Option<(Range<usize>, String)>,
}

impl<'t> JsonReading<'t> {
    fn value(&mut self, raw: &'t str, pointer: &mut String, depth: usize) -> Value {
        let span = self.span(raw);
        self.values.insert(pointer.clone(), span.clone());
        if depth > MAX_DEPTH {
            return self.fail(span, format!("nested deeper than {MAX_DEPTH}"));
        }
        let length = pointer.len();
        match raw.bytes().next() {
            Some(b'{') => {
                let members = match serde_json::from_str::<Members<'t>>(raw) {
                    Ok(Members(members)) => members,
                    Err(error) => return self.fail(span, error.to_string()),
                };
                let mut read = Map::new();
                for (raw_key, member) in members {
                    let key_span = self.span(raw_key.get());
                    let Ok(key) = serde_json::from_str::<String>(raw_key.get()) else {
                        return self.fail(key_span, "a key that is no text".to_owned());
                    };
                    push_token(pointer, &key);
                    self.keys.insert(pointer.clone(), key_span.clone());
                    let member = self.value(member.get(), pointer, depth + 1);
                    pointer.truncate(length);
                    if read.insert(key, member).is_some() {
                        return self.fail(key_span, "this key stands twice".to_owned());
                    }
                }
                Value::Object(read)
            }
            Some(b'[') => match serde_json::from_str::<Vec<&'t RawValue>>(raw) {
                Ok(items) => {
                    let read = items.into_iter().enumerate().map(|(index, item)| {
                        push_token(pointer, &index.to_string());
                        let item = self.value(item.get(), pointer, depth + 1);
                        pointer.truncate(length);
                        item
                    });
                    Value::Array(read.collect())
                }
                Err(error) => self.fail(span, error.to_string()),
            },
            _ => match serde_json::from_str::<Value>(raw) {
                Ok(scalar) => scalar,
                Err(error) => self.fail(span, error.to_string()),
            },
        }
    }

    /// Where `part`, a slice of the text, stands in it.
    fn span(&self, part: &str) -> Range<usize> {
        let start = (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        start..start + part.len()
    }

    fn fail(&mut self, span: Range<usize>, message: String) -> Value {
        self.fault.get_or_insert((span, message));
        Value::Null
    }
}

/// The members of one object in the order of the text, doubled keys included.
struct Members<'t>(Vec<(&'t RawValue, &'t RawValue)>);

impl<'de> serde::Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Gather;
        impl<'de> Visitor<'de> for Gather {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Gather)
    }
}

/// The byte at a line and column as `serde_json` counts them: lines from 1, columns in bytes.
fn byte_at(text: &str, line: usize, column: usize) -> usize {
    let lines = text.split_inclusive('\n').take(line.saturating_sub(1));
    lines.map(str::len).sum::<usize>() + column.saturating_sub(1)
}
