//! A tool's JSON Schema: checked against a closed list of keywords, closed to unknown properties, compiled once.

use std::collections::BTreeSet;

/// One step from a value to a value inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// To the property of this name.
    Property(String),
    /// To any item of the list.
    Item,
}

/// A JSON type as schemas name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JsonType {
    /// `null`
    Null,
    /// `boolean`
    Boolean,
    /// `integer`: a number without a fraction.
    Integer,
    /// `number`
    Number,
    /// `string`
    String,
    /// `array`
    Array,
    /// `object`
    Object,
}

/// What the schema says about the values at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed {
    /// The types a value there can have; all of them when the schema fixes none.
    pub types: BTreeSet<JsonType>,
    /// `maxItems`, when every way to be valid has one.
    pub max_items: Option<u64>,
    /// `maxLength`, when every way to be valid has one.
    pub max_length: Option<u64>,
    /// Whether every object and property on the way is required.
    pub required: bool,
    /// Marked `writeOnly` or `x-secret`, or below such a property.
    pub secret: bool,
}

/// The answer to "what stands at this place?".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The schema admits no such property.
    Unknown,
    /// It is declared, and this is what is known.
    Known(Typed),
    /// It is not declared, and the object there admits unknown properties.
    Open,
}

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {}
impl Schema {
    pub fn validate(&self, _: &serde_json::Map<String, serde_json::Value>) -> Result<(), Vec<ArgumentFault>> {
        Err(vec![])
    }
}

/// Where arguments do not fit the schema. It repeats no value.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ArgumentFault {
    /// JSON Pointer (RFC 6901) into the arguments.
    pub pointer: String,
    /// What is wrong there.
    pub message: String,
}
