//! Closing a schema: an object that says nothing about additional properties takes none, at every depth.
//!
//! `additionalProperties: false` sees only the `properties` beside it, so writing it into every object would break
//! `allOf` and its like. Each schema is therefore rewritten by the part it plays:
//! - *whole*: it alone describes a value. It is closed, with `additionalProperties: false` where nothing beside it
//!   (through `$ref`, `allOf`, ...) names properties of the same value, with `unevaluatedProperties: false` otherwise.
//!   A plain union or reference is closed by closing what it leads to.
//! - *part*: another schema that looks at the same value closes it. It stays open, and what is inside it is whole.
//! - *test*: below `if`, `not`, `contains` and `propertyNames`. It stays as written at every depth: closing it would
//!   turn "this holds" into "this does not". An `if` is wrapped into a double `not`, so that naming a property there
//!   does not declare it.
//!
//! A definition is rewritten once for each part it plays. The same goes for items that nothing describes: they may be
//! anything but objects with properties.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::referenced;

/// The keywords through which another schema looks at the same value and can declare its properties.
pub(super) const IN_PLACE_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// The same, for a single schema.
pub(super) const IN_PLACE: [&str; 2] = ["then", "else"];
/// What describes the properties or items of a value.
const DECLARING: [&str; 8] = [
    "properties",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "items",
    "prefixItems",
    "unevaluatedItems",
    "dependentSchemas",
];
/// Where a value that nothing describes is defined.
const UNDESCRIBED: &str = "undescribed";

/// The part a schema plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Whole,
    Part,
    Test,
}

/// `root` rewritten so that nothing undeclared is taken.
pub(super) fn closed(root: &Value) -> Value {
    Rewriting { root, definitions: BTreeMap::new(), names: BTreeMap::new() }.document(Role::Whole)
}

/// `root` with the same meaning, without what is no keyword of JSON Schema.
pub(super) fn as_written(root: &Value) -> Value {
    Rewriting { root, definitions: BTreeMap::new(), names: BTreeMap::new() }.document(Role::Test)
}

/// Whether this one schema says itself that it admits properties it does not name.
pub(super) fn says_open(schema: &Value) -> bool {
    let says = |keyword| schema.get(keyword).is_some_and(|value| *value != Value::Bool(false));
    says("additionalProperties") || says("unevaluatedProperties") || has_patterns(schema)
}

/// Whether the value that `schema` describes can have properties nobody named, by its own word or by that of a schema
/// that looks at the same value.
pub(super) fn admits_unknown(root: &Value, schema: &Value) -> bool {
    if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
        return has_patterns(schema);
    }
    says_open(schema) || in_place(root, schema).into_iter().any(|part| admits_unknown(root, part))
}

/// The schemas beside `schema` that look at the same value, by every way but `if` and `not`.
///
/// Following them ends: a schema that leads back to the same value is refused when the policy is loaded.
pub(super) fn in_place<'s>(root: &'s Value, schema: &'s Value) -> Vec<&'s Value> {
    let lists = IN_PLACE_LISTS.iter().filter_map(|keyword| schema.get(keyword)?.as_array()).flatten();
    let single = IN_PLACE.iter().filter_map(|keyword| schema.get(keyword));
    let named = schema.get("dependentSchemas").and_then(Value::as_object).into_iter().flatten().map(|(_, part)| part);
    let reference = schema.get("$ref").and_then(Value::as_str).and_then(|reference| referenced(root, reference));
    lists.chain(single).chain(named).chain(reference).collect()
}

fn has_patterns(schema: &Value) -> bool {
    schema.get("patternProperties").and_then(Value::as_object).is_some_and(|patterns| !patterns.is_empty())
}

struct Rewriting<'s> {
    root: &'s Value,
    /// The rewritten definitions by generated name.
    definitions: BTreeMap<String, Value>,
    names: BTreeMap<(String, Role), String>,
}

impl Rewriting<'_> {
    fn document(mut self, role: Role) -> Value {
        let rewritten = self.schema(self.root, role);
        let Value::Object(mut document) = rewritten else { return rewritten };
        let mut definitions: Map<String, Value> = self.definitions.into_iter().collect();
        let undescribed = reference_to(UNDESCRIBED);
        definitions.insert(UNDESCRIBED.to_owned(), json!({ "additionalProperties": false, "items": undescribed }));
        document.insert("$defs".to_owned(), Value::Object(definitions));
        Value::Object(document)
    }

    fn schema(&mut self, schema: &Value, role: Role) -> Value {
        match (schema, role) {
            (Value::Object(keywords), _) => Value::Object(self.object(schema, keywords, role)),
            (Value::Bool(true), Role::Whole) => reference_to(UNDESCRIBED),
            (other, _) => other.clone(),
        }
    }

    fn object(&mut self, schema: &Value, keywords: &Map<String, Value>, role: Role) -> Map<String, Value> {
        let inside = if role == Role::Test { Role::Test } else { Role::Whole };
        let passes_on = role == Role::Whole && passes_on(keywords);
        let beside = match role {
            Role::Whole if passes_on => Role::Whole,
            Role::Whole | Role::Part => Role::Part,
            Role::Test => Role::Test,
        };
        let mut written = Map::new();
        for (keyword, value) in keywords {
            let rewritten = match (keyword.as_str(), value) {
                ("$schema" | "$defs" | "definitions" | "x-secret", _) => continue,
                ("$ref", Value::String(reference)) => {
                    let Value::Object(reference) = self.reference(reference, beside) else { continue };
                    written.extend(reference);
                    continue;
                }
                ("allOf" | "anyOf" | "oneOf", Value::Array(parts)) => {
                    Value::Array(parts.iter().map(|part| self.schema(part, beside)).collect())
                }
                ("then" | "else", part) => self.schema(part, beside),
                ("dependentSchemas", Value::Object(parts)) => self.named(parts, beside),
                ("properties", Value::Object(properties)) => self.named(properties, inside),
                ("patternProperties", Value::Object(properties)) => {
                    let rewrite = |(name, value): (&String, &Value)| (name.clone(), self.at_its_word(value, inside));
                    Value::Object(properties.iter().map(rewrite).collect())
                }
                ("additionalProperties" | "unevaluatedProperties", value) => self.at_its_word(value, inside),
                ("items" | "unevaluatedItems", items) => self.schema(items, inside),
                ("prefixItems", Value::Array(items)) => {
                    Value::Array(items.iter().map(|item| self.schema(item, inside)).collect())
                }
                ("if", test) if role != Role::Test => json!({ "not": { "not": self.schema(test, Role::Test) } }),
                ("if" | "not" | "contains" | "propertyNames", test) => self.schema(test, Role::Test),
                (_, data) => data.clone(),
            };
            written.insert(keyword.clone(), rewritten);
        }
        if role == Role::Whole && !passes_on {
            self.close(schema, keywords, &mut written);
        }
        written
    }

    /// Adds what a whole schema lacks to take nothing undeclared.
    fn close(&self, schema: &Value, keywords: &Map<String, Value>, written: &mut Map<String, Value>) {
        // Values that are listed whole have nothing unknown in them.
        if keywords.contains_key("const") || keywords.contains_key("enum") {
            return;
        }
        let said = |by: [&str; 2]| by.iter().any(|keyword| keywords.contains_key(*keyword));
        let helped = in_place(self.root, schema).into_iter().any(|part| declares(self.root, part));
        if can_be(keywords, "object") && !said(["additionalProperties", "unevaluatedProperties"]) {
            let keyword = if helped { "unevaluatedProperties" } else { "additionalProperties" };
            written.insert(keyword.to_owned(), Value::Bool(false));
        }
        if can_be(keywords, "array") && !said(["items", "unevaluatedItems"]) {
            let keyword = if helped { "unevaluatedItems" } else { "items" };
            written.insert(keyword.to_owned(), reference_to(UNDESCRIBED));
        }
    }

    /// What an object says about further properties is taken as it is meant: `true` and `{}` are anything at all.
    fn at_its_word(&mut self, value: &Value, inside: Role) -> Value {
        let anything = *value == Value::Bool(true) || value.as_object().is_some_and(Map::is_empty);
        if anything { Value::Bool(true) } else { self.schema(value, inside) }
    }

    fn named(&mut self, schemas: &Map<String, Value>, role: Role) -> Value {
        Value::Object(schemas.iter().map(|(name, schema)| (name.clone(), self.schema(schema, role))).collect())
    }

    /// A reference to what `reference` leads to, rewritten for `role`.
    fn reference(&mut self, reference: &str, role: Role) -> Value {
        let key = (reference.to_owned(), role);
        if let Some(name) = self.names.get(&key) {
            return reference_to(name);
        }
        let name = self.names.len().to_string();
        self.names.insert(key, name.clone());
        let target = referenced(self.root, reference).map_or(Value::Bool(false), |target| self.schema(target, role));
        self.definitions.insert(name.clone(), target);
        reference_to(&name)
    }
}

fn reference_to(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

/// Whether a whole schema is nothing but a union, a reference or a list of one, so that it is closed by closing those.
fn passes_on(keywords: &Map<String, Value>) -> bool {
    if DECLARING.iter().any(|keyword| keywords.contains_key(*keyword)) || keywords.contains_key("if") {
        return false;
    }
    let combined =
        ["$ref", "anyOf", "oneOf", "allOf"].iter().filter(|keyword| keywords.contains_key(**keyword)).count();
    let all_of_several = keywords.get("allOf").and_then(Value::as_array).is_some_and(|parts| parts.len() > 1);
    combined == 1 && !all_of_several
}

/// Whether a part, or one beside it, says anything about the properties or items of the value.
fn declares(root: &Value, part: &Value) -> bool {
    DECLARING.iter().any(|keyword| part.get(keyword).is_some())
        || in_place(root, part).into_iter().any(|part| declares(root, part))
}

fn can_be(keywords: &Map<String, Value>, wanted: &str) -> bool {
    match keywords.get("type") {
        Some(Value::String(only)) => only == wanted,
        Some(Value::Array(some)) => some.iter().any(|one| one == wanted),
        Some(_) | None => true,
    }
}
