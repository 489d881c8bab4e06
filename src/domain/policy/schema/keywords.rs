//! The closed list of keywords, and what this service asks of a schema beyond the meta-schema of JSON Schema 2020-12.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{SchemaFault, reference_pointer};
use crate::domain::policy::document::push_token;

/// The longest regular expression, in characters.
const MAX_PATTERN: usize = 512;
/// The largest compiled regular expression, in bytes.
pub(super) const MAX_PATTERN_SIZE: usize = 1 << 20;
/// The most schemas in one document.
const MAX_SCHEMAS: usize = 5_000;

/// The formats that are checked. `regex` and those for internationalised names are not among them.
const FORMATS: [&str; 16] = [
    "date",
    "date-time",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "iri",
    "iri-reference",
    "json-pointer",
    "relative-json-pointer",
    "time",
    "uri",
    "uri-reference",
    "uri-template",
    "uuid",
];

/// What stands behind a keyword.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    /// A value that is no schema.
    Data,
    /// A schema.
    One,
    /// A list of schemas.
    List,
    /// Schemas by name.
    Named,
}

/// Every keyword that is taken, and what stands behind it.
const KEYWORDS: [(&str, Holds); 50] = [
    ("$schema", Holds::Data),
    ("$comment", Holds::Data),
    ("$ref", Holds::Data),
    ("$defs", Holds::Named),
    ("definitions", Holds::Named),
    ("type", Holds::Data),
    ("enum", Holds::Data),
    ("const", Holds::Data),
    ("multipleOf", Holds::Data),
    ("maximum", Holds::Data),
    ("exclusiveMaximum", Holds::Data),
    ("minimum", Holds::Data),
    ("exclusiveMinimum", Holds::Data),
    ("maxLength", Holds::Data),
    ("minLength", Holds::Data),
    ("pattern", Holds::Data),
    ("format", Holds::Data),
    ("maxItems", Holds::Data),
    ("minItems", Holds::Data),
    ("uniqueItems", Holds::Data),
    ("maxContains", Holds::Data),
    ("minContains", Holds::Data),
    ("maxProperties", Holds::Data),
    ("minProperties", Holds::Data),
    ("required", Holds::Data),
    ("dependentRequired", Holds::Data),
    ("properties", Holds::Named),
    ("patternProperties", Holds::Named),
    ("additionalProperties", Holds::One),
    ("unevaluatedProperties", Holds::One),
    ("propertyNames", Holds::One),
    ("items", Holds::One),
    ("prefixItems", Holds::List),
    ("unevaluatedItems", Holds::One),
    ("contains", Holds::One),
    ("allOf", Holds::List),
    ("anyOf", Holds::List),
    ("oneOf", Holds::List),
    ("not", Holds::One),
    ("if", Holds::One),
    ("then", Holds::One),
    ("else", Holds::One),
    ("dependentSchemas", Holds::Named),
    ("title", Holds::Data),
    ("description", Holds::Data),
    ("default", Holds::Data),
    ("examples", Holds::Data),
    ("deprecated", Holds::Data),
    ("readOnly", Holds::Data),
    ("writeOnly", Holds::Data),
];
/// This service's own keyword: a secret property, as `writeOnly`.
const SECRET: &str = "x-secret";

/// What stands behind `keyword`; `None` if it is not taken.
pub(super) fn holds(keyword: &str) -> Option<Holds> {
    if keyword == SECRET {
        return Some(Holds::Data);
    }
    KEYWORDS.iter().find(|(known, _)| *known == keyword).map(|(_, holds)| *holds)
}

/// The schemas directly inside `schema` with their pointers, which begin with `pointer`.
pub(super) fn children<'s>(pointer: &str, schema: &'s Value) -> Vec<(String, &'s Value)> {
    let mut found = Vec::new();
    for (keyword, value) in schema.as_object().into_iter().flatten() {
        let mut at = pointer.to_owned();
        push_token(&mut at, keyword);
        match (holds(keyword), value) {
            (Some(Holds::One), schema) => found.push((at, schema)),
            (Some(Holds::List), Value::Array(schemas)) => {
                found.extend(schemas.iter().enumerate().map(|(index, schema)| (format!("{at}/{index}"), schema)));
            }
            (Some(Holds::Named), Value::Object(schemas)) => found.extend(schemas.iter().map(|(name, schema)| {
                let mut at = at.clone();
                push_token(&mut at, name);
                (at, schema)
            })),
            (Some(Holds::Data | Holds::List | Holds::Named) | None, _) => {}
        }
    }
    found
}

/// Every schema of the document with its pointer, the document itself first.
pub(super) fn subschemas(root: &Value) -> Vec<(String, &Value)> {
    let mut found = vec![(String::new(), root)];
    let mut next = 0;
    while let Some((pointer, schema)) = found.get(next) {
        let inside = children(pointer, schema);
        found.extend(inside);
        next += 1;
    }
    found
}

/// Everything wrong with `root` as the schema of a tool's arguments.
pub(super) fn check(root: &Value) -> Vec<SchemaFault> {
    let all = subschemas(root);
    let pointers: BTreeSet<&str> = all.iter().map(|(pointer, _)| pointer.as_str()).collect();
    let mut faults = Faults(Vec::new());
    if all.len() > MAX_SCHEMAS {
        faults.value("", format!("more than {MAX_SCHEMAS} schemas in one"), "split the tool");
        return faults.0;
    }
    for (pointer, schema) in &all {
        match schema {
            Value::Bool(_) if !pointer.is_empty() => {}
            Value::Object(keywords) => object(pointer, keywords, &pointers, &mut faults),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                let hint = "a schema is a table of keywords, or true or false where a value is taken or refused whole";
                faults.value(pointer, "not a schema".to_owned(), hint);
            }
        }
    }
    if !admits_objects(root) {
        faults.value("/type", "arguments are always an object".to_owned(), "write type = \"object\"");
    }
    if faults.0.is_empty() {
        for error in jsonschema::draft202012::meta::validator().iter_errors(root) {
            let pointer = error.instance_path().as_str().to_owned();
            let message = format!("not what this keyword takes: {}", error.masked());
            faults.value(&pointer, message, "see https://json-schema.org/draft/2020-12");
        }
    }
    faults.0
}

fn admits_objects(root: &Value) -> bool {
    match root.get("type") {
        Some(Value::String(only)) => only == "object",
        Some(Value::Array(some)) => some.iter().any(|one| one == "object"),
        Some(_) | None => true,
    }
}

struct Faults(Vec<SchemaFault>);

impl Faults {
    fn value(&mut self, pointer: &str, message: String, hint: impl Into<String>) {
        self.0.push(SchemaFault { pointer: pointer.to_owned(), key: false, message, hint: hint.into() });
    }

    fn key(&mut self, pointer: &str, message: String, hint: impl Into<String>) {
        self.0.push(SchemaFault { pointer: pointer.to_owned(), key: true, message, hint: hint.into() });
    }
}

fn object(pointer: &str, schema: &Map<String, Value>, pointers: &BTreeSet<&str>, faults: &mut Faults) {
    for (keyword, value) in schema {
        let mut at = pointer.to_owned();
        push_token(&mut at, keyword);
        match holds(keyword) {
            None => faults.key(&at, format!("unknown schema keyword `{keyword}`"), unknown_keyword_hint(keyword)),
            Some(Holds::List) if !value.is_array() => {
                faults.value(&at, format!("`{keyword}` is not a list of schemas"), "write a list");
            }
            Some(Holds::Named) if !value.is_object() => {
                faults.value(&at, format!("`{keyword}` is not a table of schemas"), "write a table");
            }
            Some(Holds::Data | Holds::One | Holds::List | Holds::Named) => {}
        }
        match (keyword.as_str(), value) {
            ("$schema", Value::String(uri)) => schema_uri(&at, pointer, uri, faults),
            ("$ref", Value::String(reference)) => local_reference(&at, reference, pointers, faults),
            ("format", Value::String(format)) if !FORMATS.contains(&format.as_str()) => {
                faults.value(&at, format!("unknown format `{format}`"), format!("known are {}", FORMATS.join(", ")));
            }
            ("pattern", Value::String(pattern)) => regular_expression(&at, pattern, faults),
            ("patternProperties", Value::Object(named)) => {
                for pattern in named.keys() {
                    let mut at = at.clone();
                    push_token(&mut at, pattern);
                    regular_expression(&at, pattern, faults);
                }
            }
            ("x-secret", value) if !value.is_boolean() => {
                faults.value(&at, "`x-secret` is not true or false".to_owned(), "write true");
            }
            _ => {}
        }
    }
    for (keyword, needed) in [
        ("then", "if"),
        ("else", "if"),
        ("minContains", "contains"),
        ("maxContains", "contains"),
        // Without it an item that `contains` matches would be looked at by nothing else.
        ("contains", "items"),
    ] {
        if schema.contains_key(keyword) && !schema.contains_key(needed) {
            let message = format!("`{keyword}` without `{needed}`");
            faults.key(&format!("{pointer}/{keyword}"), message, format!("write `{needed}` beside it"));
        }
    }
}

fn schema_uri(at: &str, pointer: &str, uri: &str, faults: &mut Faults) {
    let known = uri.trim_end_matches('#') == "https://json-schema.org/draft/2020-12/schema";
    if !known || !pointer.is_empty() {
        let hint = "take `$schema` out; at the top it may be https://json-schema.org/draft/2020-12/schema";
        faults.value(at, "not the JSON Schema that is read here".to_owned(), hint);
    }
}

fn local_reference(at: &str, reference: &str, pointers: &BTreeSet<&str>, faults: &mut Faults) {
    let Some(pointer) = reference_pointer(reference) else {
        let hint = "write the schema under $defs and \"#/$defs/NAME\" here; nothing is ever fetched";
        faults.value(at, "a `$ref` out of this schema".to_owned(), hint);
        return;
    };
    if !pointers.contains(pointer) {
        faults.value(at, "a `$ref` to a schema that is not there".to_owned(), "check the name under $defs");
    }
}

fn regular_expression(at: &str, pattern: &str, faults: &mut Faults) {
    if pattern.chars().count() > MAX_PATTERN {
        let hint = format!("regular expressions go to {MAX_PATTERN} characters");
        faults.value(at, "this regular expression is too long".to_owned(), hint);
        return;
    }
    match regex::RegexBuilder::new(pattern).size_limit(MAX_PATTERN_SIZE).build() {
        Ok(_) => {}
        Err(regex::Error::CompiledTooBig(_)) => {
            faults.value(at, "this regular expression is too large".to_owned(), "count less, or nest counts less deep");
        }
        Err(_) => {
            let hint = "the syntax is that of the Rust crate `regex`: no look-around and no back-references";
            faults.value(at, "not a regular expression".to_owned(), hint);
        }
    }
}

fn unknown_keyword_hint(keyword: &str) -> String {
    match keyword {
        "$id" | "$anchor" | "$dynamicRef" | "$dynamicAnchor" | "$recursiveRef" | "$recursiveAnchor" | "$vocabulary" => {
            return "schemas are named under $defs and referred to as \"#/$defs/NAME\"".to_owned();
        }
        "nullable" => return "write type = [.., \"null\"]".to_owned(),
        "additionalItems" => return "write the first items as prefixItems and the others as items".to_owned(),
        "dependencies" => return "write dependentRequired or dependentSchemas".to_owned(),
        "contentSchema" | "contentMediaType" | "contentEncoding" => {
            return "nothing would look inside the string; say so in the description".to_owned();
        }
        _ => {}
    }
    let closest = KEYWORDS.iter().map(|(known, _)| *known).min_by_key(|known| strsim::osa_distance(known, keyword));
    match closest {
        Some(closest) if strsim::osa_distance(closest, keyword) <= 1 + closest.len() / 4 => {
            format!("did you mean `{closest}`?")
        }
        Some(_) | None => "the keywords are those of JSON Schema 2020-12 and x-secret".to_owned(),
    }
}
