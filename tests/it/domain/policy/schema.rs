//! What a tool's schema takes, what it tells conditions, and what is refused as a schema.

mod properties;

use std::collections::BTreeSet;

use countersign::domain::policy::schema::{JsonType, Place, Schema, Step, Typed};
use serde_json::{Value, json};

fn compile(schema: &Value) -> Schema {
    Schema::compile(schema, false).unwrap_or_else(|faults| panic!("{schema}: {faults:?}"))
}

fn takes(schema: &Value, args: &Value) -> bool {
    compile(schema).validate(args).is_ok()
}

fn faults(schema: &Value) -> Vec<(String, String)> {
    let faults = Schema::compile(schema, false).expect_err("a faulty schema");
    faults.into_iter().map(|fault| (fault.pointer, fault.message)).collect()
}

fn at(schema: &Value, path: &[&str]) -> Place {
    let steps: Vec<_> =
        path.iter().map(|step| if *step == "*" { Step::Item } else { Step::Property((*step).to_owned()) }).collect();
    compile(schema).at(&steps)
}

fn known(schema: &Value, path: &[&str]) -> Typed {
    match at(schema, path) {
        Place::Known(typed) => typed,
        other @ (Place::Unknown | Place::Open) => panic!("{path:?}: {other:?}"),
    }
}

fn types(schema: &Value, path: &[&str]) -> BTreeSet<JsonType> {
    known(schema, path).types
}

#[test]
fn an_unknown_property_is_refused_at_every_depth() {
    let schema = json!({ "type": "object", "properties": {
        "a": { "type": "object", "properties": { "b": { "type": "array", "items": {
            "type": "object", "properties": { "c": { "type": "string" } } } } } } } });
    assert!(takes(&schema, &json!({ "a": { "b": [{ "c": "x" }] } })));
    assert!(!takes(&schema, &json!({ "z": 1 })));
    assert!(!takes(&schema, &json!({ "a": { "z": 1 } })));
    assert!(!takes(&schema, &json!({ "a": { "b": [{ "c": "x", "z": 1 }] } })));
}

#[test]
fn a_value_nothing_describes_hides_no_properties() {
    let schema = json!({ "properties": {
        "any": {}, "yes": true, "list": { "type": "array" }, "tuple": { "prefixItems": [{ "type": "string" }] } } });
    assert!(takes(&schema, &json!({ "any": "text", "yes": 1, "list": [1, [2]], "tuple": ["a", 1] })));
    assert!(takes(&schema, &json!({ "any": {}, "list": [{}] })));
    for hidden in [
        json!({ "any": { "x": 1 } }),
        json!({ "any": [{ "x": 1 }] }),
        json!({ "yes": { "x": 1 } }),
        json!({ "yes": [[{ "x": 1 }]] }),
        json!({ "list": [{ "x": 1 }] }),
        json!({ "tuple": ["a", { "x": 1 }] }),
    ] {
        assert!(!takes(&schema, &hidden), "{hidden}");
    }
}

#[test]
fn all_of_closes_over_the_properties_of_all_parts() {
    let schema = json!({ "properties": { "a": { "type": "string" } }, "allOf": [
        { "properties": { "b": { "type": "string" } } }, { "$ref": "#/$defs/more" } ],
        "$defs": { "more": { "properties": { "c": { "type": "object", "properties": { "d": {} } } } } } });
    assert!(takes(&schema, &json!({ "a": "x", "b": "x", "c": { "d": 1 } })));
    assert!(!takes(&schema, &json!({ "a": "x", "z": 1 })));
    assert!(!takes(&schema, &json!({ "c": { "z": 1 } })));
}

#[test]
fn a_property_counts_only_with_an_alternative_that_holds() {
    let schema = json!({ "properties": { "n": { "type": "integer" } }, "anyOf": [
        { "properties": { "a": { "type": "string" } }, "required": ["a"] },
        { "properties": { "b": { "type": "string" } }, "required": ["b"] } ] });
    assert!(takes(&schema, &json!({ "n": 1, "a": "x" })));
    assert!(takes(&schema, &json!({ "a": "x", "b": "x" })));
    assert!(!takes(&schema, &json!({ "a": "x", "b": 5 })), "b is declared only where it is text");
    assert!(!takes(&schema, &json!({ "a": "x", "z": 5 })));
    assert!(!takes(&schema, &json!({ "n": 1 })));
}

#[test]
fn each_alternative_of_a_plain_union_is_closed_by_itself() {
    let schema = json!({ "properties": { "target": { "oneOf": [
        { "type": "object", "properties": { "user": { "type": "string" } }, "required": ["user"] },
        { "type": "object", "properties": { "group": { "type": "string" } } },
        { "type": "null" } ] } } });
    assert!(takes(&schema, &json!({ "target": { "user": "ana" } })));
    assert!(takes(&schema, &json!({ "target": { "group": "staff" } })));
    assert!(takes(&schema, &json!({ "target": null })));
    assert!(!takes(&schema, &json!({ "target": { "user": "ana", "group": "staff" } })));
    assert!(!takes(&schema, &json!({ "target": { "user": "ana", "z": 1 } })));
}

#[test]
fn naming_a_property_in_a_condition_does_not_declare_it() {
    let schema = json!({ "properties": { "kind": { "type": "string" }, "box": { "type": "object", "properties": { "a": {}, "b": {} } } },
        "if": { "properties": { "kind": { "const": "x" }, "extra": true, "box": { "properties": { "a": { "const": 1 } } } } },
        "then": { "properties": { "only_x": { "type": "string" } } },
        "else": { "required": ["never"] } });
    assert!(takes(&schema, &json!({ "kind": "x", "only_x": "text" })));
    assert!(!takes(&schema, &json!({ "kind": "x", "extra": 1 })));
    assert!(!takes(&schema, &json!({ "kind": "y" })));
    assert!(takes(&schema, &json!({ "kind": "x", "box": { "a": 1, "b": 2 } })), "the test itself is not closed");
    assert!(!takes(&schema, &json!({ "kind": "x", "box": { "a": 1, "z": 2 } })));
}

#[test]
fn closing_never_weakens_a_not() {
    let schema = json!({ "properties": { "a": { "type": "object", "properties": { "b": {}, "c": {} } } },
        "not": { "properties": { "a": { "properties": { "b": { "const": 1 } }, "required": ["b"] } }, "required": ["a"] } });
    assert!(takes(&schema, &json!({ "a": { "b": 2, "c": 1 } })));
    assert!(!takes(&schema, &json!({ "a": { "b": 1, "c": 1 } })));
}

#[test]
fn a_definition_is_closed_where_it_stands_alone_and_open_where_it_is_extended() {
    let schema = json!({
        "$defs": { "base": { "type": "object", "properties": { "id": { "type": "string" } } } },
        "properties": {
            "plain": { "$ref": "#/$defs/base" },
            "extended": { "allOf": [{ "$ref": "#/$defs/base" }], "properties": { "note": { "type": "string" } } } } });
    assert!(takes(&schema, &json!({ "plain": { "id": "1" }, "extended": { "id": "1", "note": "n" } })));
    assert!(!takes(&schema, &json!({ "plain": { "id": "1", "note": "n" } })));
    assert!(!takes(&schema, &json!({ "extended": { "id": "1", "z": "n" } })));
}

#[test]
fn a_recursive_schema_is_closed_all_the_way_down() {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" }, "children": { "type": "array", "items": { "$ref": "#" } } } });
    assert!(takes(&schema, &json!({ "children": [{ "name": "a", "children": [{ "name": "b" }] }] })));
    assert!(!takes(&schema, &json!({ "children": [{ "name": "a", "children": [{ "z": "b" }] }] })));
}

#[test]
fn a_nested_object_that_says_so_is_taken_at_its_word() {
    for says in [
        json!({ "additionalProperties": true }),
        json!({ "additionalProperties": {} }),
        json!({ "unevaluatedProperties": true }),
    ] {
        let schema = json!({ "properties": { "free": says } });
        assert!(takes(&schema, &json!({ "free": { "x": { "y": 1 } } })), "{says}");
        assert!(!takes(&schema, &json!({ "x": 1 })), "{says}");
    }
    let schema =
        json!({ "properties": { "map": { "additionalProperties": { "type": "object", "properties": { "a": {} } } } } });
    assert!(takes(&schema, &json!({ "map": { "x": { "a": 1 } } })));
    assert!(!takes(&schema, &json!({ "map": { "x": { "z": 1 } } })));
    assert_eq!(compile(&schema).nested_open_objects(), ["/properties/map"]);
}

#[test]
fn listed_values_are_taken_whole() {
    let schema =
        json!({ "properties": { "mode": { "enum": [{ "x": 1 }, "off"] }, "only": { "const": { "y": [1] } } } });
    assert!(takes(&schema, &json!({ "mode": { "x": 1 }, "only": { "y": [1] } })));
    assert!(!takes(&schema, &json!({ "mode": { "x": 2 } })));
}

#[test]
fn admitting_unknown_arguments_needs_open() {
    for schema in [
        json!({ "additionalProperties": true }),
        json!({ "additionalProperties": { "type": "string" } }),
        json!({ "unevaluatedProperties": {} }),
        json!({ "patternProperties": { "^x-": {} } }),
        json!({ "allOf": [{ "additionalProperties": true }] }),
        json!({ "anyOf": [{ "properties": { "a": {} } }, { "$ref": "#/$defs/free" }], "$defs": { "free": { "additionalProperties": true } } }),
        json!({ "additionalProperties": false, "patternProperties": { ".": {} } }),
    ] {
        let found = faults(&schema);
        assert_eq!(
            found,
            [(String::new(), "the arguments admit properties that are not named".to_owned())],
            "{schema}"
        );
        let open = Schema::compile(&schema, true).unwrap();
        assert!(open.validate(&json!({ "x-any": "text" })).is_ok(), "{schema}");
    }
    let said_no = json!({ "allOf": [{ "additionalProperties": true }], "additionalProperties": false });
    assert!(!takes(&said_no, &json!({ "a": 1 })));
}

#[test]
fn open_closes_nothing() {
    let schema = json!({ "properties": { "a": { "type": "object", "properties": { "b": { "type": "string" } } } } });
    let open = Schema::compile(&schema, true).unwrap();
    assert!(open.validate(&json!({ "z": { "y": 1 }, "a": { "z": 1 } })).is_ok());
    assert!(open.validate(&json!({ "a": { "b": 1 } })).is_err());
    assert_eq!(open.at(&[Step::Property("z".to_owned())]), Place::Open);
}

#[test]
fn a_fault_names_the_place_and_never_the_value() {
    let schema = json!({ "required": ["to", "subject"], "properties": {
        "to": { "type": "array", "items": { "type": "string", "format": "email", "maxLength": 30 } },
        "subject": { "type": "string" },
        "amount": { "type": "number", "exclusiveMinimum": 0 },
        "mode": { "enum": ["a", "b"] },
        "code": { "type": "string", "pattern": "^[a-z]+$" },
        "either": { "anyOf": [{ "type": "string", "maxLength": 3 }, { "type": "null" }] } } });
    let args = json!({ "to": ["hunter2", "hunter2@hunter2.example.com.hunter2.example"], "amount": -42.125, "mode": "hunter2", "code": "HUNTER2", "either": "hunter2", "hunter2": "hunter2" });
    let found = compile(&schema).validate(&args).unwrap_err();
    let pointers: BTreeSet<_> = found.iter().map(|fault| fault.pointer.as_str()).collect();
    assert_eq!(pointers, BTreeSet::from(["", "/amount", "/code", "/either", "/mode", "/to/0", "/to/1"]));
    for fault in found {
        let message = fault.message.to_lowercase();
        assert!(!message.contains("hunter2") && !message.contains("42.125"), "{message}");
    }
}

#[test]
fn formats_are_checked_and_patterns_are_not_anchored() {
    let schema = json!({ "properties": { "day": { "format": "date" }, "code": { "pattern": "b" } } });
    assert!(takes(&schema, &json!({ "day": "2026-11-30", "code": "abc" })));
    assert!(!takes(&schema, &json!({ "day": "30.11.2026" })));
    assert!(!takes(&schema, &json!({ "code": "xyz" })));
}

#[test]
fn every_fault_of_a_schema_is_told_with_its_pointer() {
    let schema = json!({ "type": "object", "propertys": {}, "properties": {
        "a": { "typ": "string" }, "b": { "$ref": "https://example.com/x.json" }, "c": { "$ref": "#/$defs/none" },
        "d": { "format": "phone" }, "e": { "pattern": "(" }, "f": { "contains": {} }, "g": { "then": {} },
        "h": 5, "i": { "$id": "x" }, "j": { "pattern": "a".repeat(600) }, "k": { "pattern": "((a{1,100}){1,100}){1,100}" },
        "l": { "patternProperties": { "(?=a)": {} } } } });
    let pointers: Vec<_> = faults(&schema).into_iter().map(|(pointer, _)| pointer).collect();
    let pointers: BTreeSet<_> = pointers.iter().map(String::as_str).collect();
    assert_eq!(
        pointers,
        BTreeSet::from([
            "/propertys",
            "/properties/a/typ",
            "/properties/b/$ref",
            "/properties/c/$ref",
            "/properties/d/format",
            "/properties/e/pattern",
            "/properties/f/contains",
            "/properties/g/then",
            "/properties/h",
            "/properties/i/$id",
            "/properties/j/pattern",
            "/properties/k/pattern",
            "/properties/l/patternProperties/(?=a)",
        ])
    );
}

#[test]
fn the_meta_schema_is_asked_too() {
    let found = faults(
        &json!({ "properties": { "a": { "type": "text" }, "b": { "minLength": -1 }, "c": { "required": "x" } } }),
    );
    let pointers: BTreeSet<_> = found.iter().map(|(pointer, _)| pointer.as_str()).collect();
    assert_eq!(pointers, BTreeSet::from(["/properties/a/type", "/properties/b/minLength", "/properties/c/required"]));
}

#[test]
fn arguments_are_an_object() {
    assert_eq!(faults(&json!({ "type": "string" }))[0].0, "/type");
    assert_eq!(faults(&json!(true))[0].0, "");
}

#[test]
fn a_property_named_like_a_keyword_is_a_property() {
    let schema = json!({ "properties": { "$ref": { "type": "string" }, "properties": { "type": "string" }, "if": { "type": "string" } } });
    assert!(takes(&schema, &json!({ "$ref": "x", "properties": "y", "if": "z" })));
    assert!(!takes(&schema, &json!({ "$ref": 1 })));
}

#[test]
fn a_schema_that_leads_back_to_the_same_value_is_refused() {
    for schema in [
        json!({ "$ref": "#" }),
        json!({ "$ref": "#/$defs/a", "$defs": { "a": { "anyOf": [{ "type": "string" }, { "$ref": "#/$defs/b" }] }, "b": { "$ref": "#/$defs/a" } } }),
        json!({ "properties": { "a": { "not": { "$ref": "#/properties/a" } } } }),
    ] {
        assert!(faults(&schema)[0].1.contains("leads back to itself"), "{schema}");
    }
}

#[test]
fn recursion_that_multiplies_the_work_is_refused() {
    let twice = json!({ "properties": { "tree": { "$ref": "#/$defs/tree" } }, "$defs": { "tree": { "anyOf": [
        { "properties": { "left": { "$ref": "#/$defs/tree" }, "a": { "type": "string" } }, "required": ["a"] },
        { "properties": { "left": { "$ref": "#/$defs/tree" }, "b": { "type": "string" } }, "required": ["b"] } ] } } });
    assert!(faults(&twice)[0].1.contains("looked at too often"));
    let once = json!({ "properties": { "filter": { "$ref": "#/$defs/filter" } }, "$defs": { "filter": { "anyOf": [
        { "type": "object", "properties": { "and": { "type": "array", "items": { "$ref": "#/$defs/filter" } } }, "required": ["and"] },
        { "type": "object", "properties": { "or": { "type": "array", "items": { "$ref": "#/$defs/filter" } } }, "required": ["or"] },
        { "type": "string" } ] } } });
    assert!(takes(&once, &json!({ "filter": { "and": [{ "or": ["a", "b"] }, "c"] } })));
    assert!(!takes(&once, &json!({ "filter": { "and": [{ "or": ["a", 1] }] } })));
}

#[test]
fn a_deep_value_in_a_recursive_composed_schema_is_still_looked_at() {
    let schema = json!({ "properties": { "node": { "$ref": "#/$defs/node" } }, "$defs": { "node": {
        "properties": { "name": { "type": "string" } },
        "anyOf": [{ "properties": { "child": { "$ref": "#/$defs/node" } }, "required": ["child"] },
                  { "properties": { "leaf": { "type": "string" } }, "required": ["leaf"] }] } } });
    for (leaf, good) in
        [(json!({ "leaf": "x" }), true), (json!({ "leaf": "x", "z": 1 }), false), (json!({ "leaf": 1 }), false)]
    {
        let node = (0..60).fold(leaf, |node, _| json!({ "name": "n", "child": node }));
        assert_eq!(takes(&schema, &json!({ "node": node })), good);
    }
}

#[test]
fn places_are_found_through_references_and_combinations() {
    let schema = json!({ "type": "object", "required": ["to", "choice"], "properties": {
        "to": { "$ref": "#/$defs/addresses" },
        "amount": { "anyOf": [{ "type": "number" }, { "type": "null" }] },
        "choice": { "type": "object", "oneOf": [
            { "properties": { "id": { "type": "string", "maxLength": 5 } }, "required": ["id"] },
            { "properties": { "id": { "type": "integer" } }, "required": ["id"] } ] } },
        "allOf": [{ "properties": { "note": { "type": "string", "maxLength": 10 } } }],
        "$defs": { "addresses": { "type": "array", "maxItems": 50, "items": { "type": "string", "maxLength": 254 } } } });
    let to = known(&schema, &["to"]);
    assert_eq!((to.types, to.max_items, to.required), (BTreeSet::from([JsonType::Array]), Some(50), true));
    let item = known(&schema, &["to", "*"]);
    assert_eq!((item.types, item.max_length), (BTreeSet::from([JsonType::String]), Some(254)));
    let numbers = BTreeSet::from([JsonType::Integer, JsonType::Number, JsonType::Null]);
    assert_eq!(types(&schema, &["amount"]), numbers);
    let id = known(&schema, &["choice", "id"]);
    assert_eq!((id.types, id.required), (BTreeSet::from([JsonType::String, JsonType::Integer]), true));
    assert_eq!(id.max_length, Some(5));
    assert_eq!(known(&schema, &["note"]).max_length, Some(10));
    assert!(!known(&schema, &["note"]).required);
    assert_eq!(at(&schema, &["z"]), Place::Unknown);
    assert_eq!(at(&schema, &["note", "z"]), Place::Unknown);
    assert_eq!(at(&schema, &["choice", "z"]), Place::Unknown);
}

#[test]
fn an_alternative_that_is_silent_about_a_property_leaves_it_to_the_others() {
    let schema = json!({ "properties": { "a": {} }, "anyOf": [{ "properties": { "a": { "type": "object" } } }, {}] });
    assert!(takes(&schema, &json!({ "a": "text" })));
    assert_eq!(types(&schema, &["a"]).len(), 7);
    let alone = json!({ "anyOf": [{ "properties": { "a": { "type": "boolean" } } }, { "properties": { "b": {} } }] });
    assert_eq!(types(&alone, &["a"]), BTreeSet::from([JsonType::Boolean]));
}

#[test]
fn a_place_says_open_only_where_unknown_properties_are_taken() {
    let schema = json!({ "properties": { "free": { "additionalProperties": true, "properties": { "a": { "type": "string" } } }, "list": { "type": "array" } } });
    assert_eq!(at(&schema, &["free", "z"]), Place::Open);
    assert_eq!(types(&schema, &["free", "a"]), BTreeSet::from([JsonType::String]));
    assert_eq!(types(&schema, &["list", "*"]).len(), 7);
}

#[test]
fn bounds_hold_only_if_every_way_to_be_valid_has_one() {
    let schema = json!({ "properties": {
        "some": { "anyOf": [{ "type": "array", "maxItems": 3 }, { "type": "array" }] },
        "all": { "anyOf": [{ "type": "array", "maxItems": 3 }, { "type": "array", "maxItems": 9 }, { "type": "string" }] },
        "listed": { "enum": ["abc", "abcdef", 7] },
        "both": { "maxItems": 9, "allOf": [{ "maxItems": 4 }] } } });
    assert_eq!(known(&schema, &["some"]).max_items, None);
    assert_eq!(known(&schema, &["all"]).max_items, Some(9));
    assert_eq!(known(&schema, &["listed"]).max_length, Some(6));
    assert_eq!(known(&schema, &["both"]).max_items, Some(4));
}

#[test]
fn secret_properties_are_found() {
    let schema = json!({ "properties": { "token": { "type": "string", "writeOnly": true }, "box": { "x-secret": true, "properties": { "pin": { "type": "string" } } } } });
    assert!(known(&schema, &["token"]).secret);
    assert!(known(&schema, &["box", "pin"]).secret);
    assert_eq!(compile(&schema).secrets(), ["/properties/box", "/properties/token"]);
}
