//! What is known of an expression's value before any call: its types, how large it can be, and what stands below it.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::domain::{
    canon::FieldType,
    policy::schema::{JsonType, Step, Typed},
};

/// The items that a list of unknown length is taken to have at most.
pub(super) const LIST_WITHOUT_BOUND: u64 = 1_000;
/// The largest body of a request, in bytes: no text in it is longer, nor are all the texts of a list together.
pub(super) const LARGEST_BODY: u64 = 256 * 1024;
/// The longest identifier or label, in bytes.
const LONGEST_NAME: u64 = 256;

/// A set of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Types(u8);

impl Types {
    pub(super) const NONE: Self = Self(0);
    pub(super) const NULL: Self = Self(1);
    pub(super) const BOOL: Self = Self(2);
    pub(super) const INT: Self = Self(4);
    pub(super) const NUMBER: Self = Self(4 | 8);
    pub(super) const TEXT: Self = Self(16);
    pub(super) const LIST: Self = Self(32);
    pub(super) const MAP: Self = Self(64);
    pub(super) const ANY: Self = Self(127);

    pub(super) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(super) const fn within(self, other: Self) -> bool {
        self.without(other).0 == 0
    }

    pub(super) const fn meets(self, other: Self) -> bool {
        self.and(other).0 != 0
    }

    /// The names of its members, for people.
    pub(super) fn names(self) -> String {
        let named = [
            (Self::BOOL, "a boolean"),
            (Self::NUMBER, if self.meets(Self::NUMBER.without(Self::INT)) { "a number" } else { "a whole number" }),
            (Self::TEXT, "a text"),
            (Self::LIST, "a list"),
            (Self::MAP, "an object"),
            (Self::NULL, "null"),
        ];
        let names: Vec<_> = named.iter().filter(|(types, _)| self.meets(*types)).map(|(_, name)| *name).collect();
        names.join(" or ")
    }

    fn of_schema(types: &BTreeSet<JsonType>) -> Self {
        types.iter().fold(Self::NONE, |all, json_type| {
            all.or(match json_type {
                JsonType::Null => Self::NULL,
                JsonType::Boolean => Self::BOOL,
                JsonType::Integer => Self::INT,
                JsonType::Number => Self::NUMBER,
                JsonType::String => Self::TEXT,
                JsonType::Array => Self::LIST,
                JsonType::Object => Self::MAP,
            })
        })
    }

    fn of_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOL,
            Value::Number(number) if number.is_i64() => Self::INT,
            Value::Number(_) => Self::NUMBER,
            Value::String(_) => Self::TEXT,
            Value::Array(_) => Self::LIST,
            Value::Object(_) => Self::MAP,
        }
    }
}

/// Where a value comes from, which tells what stands below it.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    /// This place in the arguments.
    Argument(Vec<Step>),
    /// `resolved` itself.
    Resolved,
    /// A record with these fields.
    Record(&'static [(&'static str, FieldType)]),
    /// A list of such records.
    Records(&'static [(&'static str, FieldType)]),
    /// `agent` itself.
    Agent,
    /// The labels of an agent: texts by any name.
    AgentLabels,
    /// `run` itself.
    Run,
    /// A list of texts.
    Texts,
    /// `now` itself.
    Now,
    /// `vars` itself.
    Vars,
    /// One of these constants.
    OneOf(Vec<Value>),
    /// A list written out, with items of which this is known.
    Written(Box<Known>),
    /// `context` and what is in it: anything at all.
    Free,
    /// Nothing stands below it.
    Scalar,
}

/// What is known of a value.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// The types it can have.
    pub(super) types: Types,
    /// No schema speaks of it, so that its types are only seen when it is there.
    pub(super) free: bool,
    pub(super) origin: Origin,
    /// The most items, if it is a list.
    pub(super) most_items: u64,
    /// The most bytes, if it is a text.
    pub(super) most_bytes: u64,
    /// If it is a part of a macro's item: the most bytes over all items together.
    pub(super) bytes_of_all_items: Option<u64>,
    /// It names a host, whose levels are parted by dots.
    pub(super) host: bool,
}

impl Known {
    /// A value that nothing stands below.
    pub(super) fn scalar(types: Types) -> Self {
        Self {
            types,
            free: false,
            origin: Origin::Scalar,
            most_items: LIST_WITHOUT_BOUND,
            most_bytes: LONGEST_NAME,
            bytes_of_all_items: None,
            host: false,
        }
    }

    /// An identifier or label.
    pub(super) fn name() -> Self {
        Self::scalar(Types::TEXT)
    }

    /// A value that no schema speaks of.
    pub(super) fn free() -> Self {
        Self { free: true, most_bytes: LARGEST_BODY, ..Self::of(Types::ANY, Origin::Free) }
    }

    /// A value with something below it.
    pub(super) fn of(types: Types, origin: Origin) -> Self {
        Self { origin, ..Self::scalar(types) }
    }

    /// The value at a place in the arguments that the schema declares.
    pub(super) fn argument(typed: &Typed, path: Vec<Step>) -> Self {
        Self {
            most_items: typed.max_items.unwrap_or(LIST_WITHOUT_BOUND),
            // `maxLength` counts characters, of up to four bytes each.
            most_bytes: typed.max_length.map_or(LARGEST_BODY, |length| length.saturating_mul(4).min(LARGEST_BODY)),
            ..Self::of(Types::of_schema(&typed.types), Origin::Argument(path))
        }
    }

    /// The value at a place in the arguments that the schema does not describe.
    pub(super) fn undescribed_argument(path: Vec<Step>) -> Self {
        Self { most_bytes: LARGEST_BODY, ..Self::of(Types::ANY, Origin::Argument(path)) }
    }

    /// The field of a resolved argument.
    pub(super) fn field(name: &str, field_type: FieldType) -> Self {
        let host = matches!(name, "host" | "hosts" | "domain" | "registrable_domain");
        let known = match field_type {
            FieldType::Text => Self::scalar(Types::TEXT),
            FieldType::Int => Self::scalar(Types::INT),
            FieldType::Bool => Self::scalar(Types::BOOL),
            FieldType::TextList => Self::of(Types::LIST, Origin::Texts),
        };
        Self { host, most_bytes: LARGEST_BODY, ..known }
    }

    /// One of several constants.
    pub(super) fn constants(values: Vec<Value>) -> Self {
        let types = values.iter().fold(Types::NONE, |all, value| all.or(Types::of_value(value)));
        let bytes = values.iter().filter_map(Value::as_str).map(str::len).max().unwrap_or(0);
        let items = values.iter().filter_map(Value::as_array).map(Vec::len).max().unwrap_or(0);
        Self {
            most_bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
            most_items: u64::try_from(items).unwrap_or(u64::MAX),
            ..Self::of(types, Origin::OneOf(values))
        }
    }

    /// A scalar that is either of two.
    pub(super) fn either(self, other: Self) -> Self {
        let origin = match (self.origin, other.origin) {
            (Origin::Free, Origin::Free) => Origin::Free,
            _ => Origin::Scalar,
        };
        Self {
            types: self.types.or(other.types),
            free: self.free || other.free,
            origin,
            most_items: self.most_items.max(other.most_items),
            most_bytes: self.most_bytes.max(other.most_bytes),
            bytes_of_all_items: match (self.bytes_of_all_items, other.bytes_of_all_items) {
                (Some(a), Some(b)) => Some(a.saturating_add(b)),
                (Some(_) | None, None) | (None, Some(_)) => None,
            },
            host: self.host && other.host,
        }
    }
}
