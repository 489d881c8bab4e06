//! A tool's JSON Schema: checked against a closed list of keywords, closed to unknown properties, compiled once.
//!
//! JSON Schema 2020-12 (<https://json-schema.org/draft/2020-12>) without what reaches out of the document or sets
//! names in it. It knows values and pointers, and nothing of files and tools.

use std::collections::BTreeSet;

use jsonschema::{PatternOptions, Validator, error::ValidationErrorKind};
use serde_json::Value;

mod closing;
mod keywords;
mod places;
mod work;

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

impl JsonType {
    /// Its name in schemas.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }
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
    /// Whether every number that is possible is zero or more.
    pub non_negative: bool,
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
pub struct Schema {
    /// As it was written.
    source: Value,
    /// Whether it is used as written: nothing in it is closed.
    open: bool,
    validator: Validator,
}

/// Something wrong with a schema, found when the policy is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaFault {
    /// JSON Pointer into the schema.
    pub pointer: String,
    /// Whether the key at the end of the pointer is meant, and not its value.
    pub key: bool,
    /// What is wrong.
    pub message: String,
    /// How to mend it.
    pub hint: String,
}

/// Something wrong with the arguments of a call. It names no value.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ArgumentFault {
    /// JSON Pointer into the arguments.
    pub pointer: String,
    /// What is wrong.
    pub message: String,
}

/// The most faults that are told about one call.
const MAX_ARGUMENT_FAULTS: usize = 20;

impl Schema {
    /// Checks and compiles the schema of a tool's arguments. With `open` it is used as it was written; otherwise every
    /// object in it that says nothing about additional properties admits none.
    ///
    /// # Errors
    /// Every fault at once.
    pub fn compile(source: &Value, open: bool) -> Result<Self, Vec<SchemaFault>> {
        let mut faults = keywords::check(source);
        if faults.is_empty() {
            faults.extend(work::check(source));
        }
        if faults.is_empty() && !open && closing::admits_unknown(source, source) {
            faults.push(SchemaFault {
                pointer: String::new(),
                key: false,
                message: "the arguments admit properties that are not named".to_owned(),
                hint: "name them all, or say so with open = true beside the schema".to_owned(),
            });
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let compiled = if open { closing::as_written(source) } else { closing::closed(source) };
        let validator = jsonschema::draft202012::options()
            .with_pattern_options(PatternOptions::regex().size_limit(keywords::MAX_PATTERN_SIZE))
            .should_validate_formats(true)
            .should_ignore_unknown_formats(false)
            .offline()
            .build(&compiled);
        match validator {
            Ok(validator) => Ok(Self { source: source.clone(), open, validator }),
            Err(error) => Err(vec![SchemaFault {
                pointer: String::new(),
                key: false,
                message: format!("not a JSON Schema: {}", error.masked()),
                hint: "see https://json-schema.org/draft/2020-12".to_owned(),
            }]),
        }
    }

    /// The schema as it was written.
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// Checks the arguments of one call.
    ///
    /// # Errors
    /// What is wrong, where, and without repeating a value: the first 20 faults.
    pub fn validate(&self, args: &Value) -> Result<(), Vec<ArgumentFault>> {
        if self.validator.is_valid(args) {
            return Ok(());
        }
        let faults: Vec<_> = self.validator.iter_errors(args).take(MAX_ARGUMENT_FAULTS).map(argument_fault).collect();
        if faults.is_empty() {
            // The two ways of asking must agree; if they ever do not, the answer is no.
            return Err(vec![ArgumentFault { pointer: String::new(), message: "not valid".to_owned() }]);
        }
        Err(faults)
    }

    /// What the schema says about the value that `path` leads to from the arguments as a whole.
    pub fn at(&self, path: &[Step]) -> Place {
        places::at(&self.source, self.open, path)
    }

    /// Whether the value that `path` leads to can be a list without items.
    pub fn can_be_empty_list(&self, path: &[Step]) -> bool {
        places::can_be_empty_list(&self.source, self.open, path)
    }

    /// The regular expressions that texts must match, with their pointers.
    pub fn patterns(&self) -> Vec<(String, &str)> {
        let all = keywords::subschemas(&self.source).into_iter();
        all.filter_map(|(at, schema)| Some((format!("{at}/pattern"), schema.get("pattern")?.as_str()?))).collect()
    }

    /// The names of the properties that the arguments as a whole can have, as far as they are declared.
    pub fn properties(&self) -> BTreeSet<String> {
        places::property_names(&self.source)
    }

    /// Pointers to the schemas marked `writeOnly` or `x-secret`.
    pub fn secrets(&self) -> Vec<String> {
        let marked =
            |schema: &Value| ["writeOnly", "x-secret"].iter().any(|key| schema.get(key) == Some(&Value::Bool(true)));
        keywords::subschemas(&self.source).into_iter().filter(|(_, schema)| marked(schema)).map(|(at, _)| at).collect()
    }

    /// Pointers to the objects below the top that admit properties they do not name.
    pub fn nested_open_objects(&self) -> Vec<String> {
        let all = keywords::subschemas(&self.source);
        let says = |schema: &Value| closing::says_open(schema);
        all.into_iter().filter(|(at, schema)| !at.is_empty() && says(schema)).map(|(at, _)| at).collect()
    }
}

/// The fault without the value: `jsonschema` would print it.
#[expect(clippy::wildcard_enum_match_arm, reason = "the crate's messages serve wherever they mask the value")]
fn argument_fault(error: jsonschema::ValidationError<'_>) -> ArgumentFault {
    let pointer = error.instance_path().as_str().to_owned();
    let message = match error.kind() {
        ValidationErrorKind::AdditionalProperties { .. }
        | ValidationErrorKind::UnevaluatedProperties { .. }
        | ValidationErrorKind::FalseSchema => "has a property or item that the tool does not know".to_owned(),
        ValidationErrorKind::UnevaluatedItems { .. } | ValidationErrorKind::AdditionalItems { .. } => {
            "has an item that the tool does not know".to_owned()
        }
        ValidationErrorKind::Required { property } => format!("lacks the required property {property}"),
        ValidationErrorKind::AnyOf { .. } | ValidationErrorKind::OneOfNotValid { .. } => {
            "fits none of the forms the tool takes".to_owned()
        }
        ValidationErrorKind::OneOfMultipleValid { .. } => {
            "fits more than one form, where the tool takes one".to_owned()
        }
        ValidationErrorKind::PropertyNames { .. } => "has a property whose name the tool does not take".to_owned(),
        _ => error.masked_with("the value").to_string(),
    };
    ArgumentFault { pointer, message }
}

/// What `$ref` leads to; `None` unless it is `#` or `#/..` and stands in this document.
fn referenced<'s>(root: &'s Value, reference: &str) -> Option<&'s Value> {
    root.pointer(reference_pointer(reference)?)
}

/// The JSON Pointer in a local `$ref`. Percent-encoding, which could spell one name in two ways, is not taken.
fn reference_pointer(reference: &str) -> Option<&str> {
    let pointer = reference.strip_prefix('#')?;
    ((pointer.is_empty() || pointer.starts_with('/')) && !pointer.contains('%')).then_some(pointer)
}
