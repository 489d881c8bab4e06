//! What holds for any schema and any arguments: schemas made at random, and those of public tool servers.

use std::path::Path;

use countersign::domain::policy::schema::{JsonType, Place, Schema, Step};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// A schema that names the properties `a`, `b` and `c`, never says anything about additional ones and holds no `oneOf`.
fn schemas() -> impl Strategy<Value = Value> {
    let name = || prop_oneof![Just("a"), Just("b"), Just("c")];
    let leaf = prop_oneof![
        Just(json!({})),
        Just(json!(true)),
        Just(json!({ "type": "string", "maxLength": 3 })),
        Just(json!({ "type": ["integer", "null"] })),
        Just(json!({ "type": "array", "maxItems": 2 })),
        Just(json!({ "type": "object" })),
        Just(json!({ "const": 1 })),
        Just(json!({ "enum": ["x", 1, [1]] })),
        Just(json!({ "$ref": "#/$defs/one" })),
        Just(json!({ "$ref": "#/$defs/two" })),
    ];
    leaf.prop_recursive(4, 40, 4, move |inner| {
        let properties = || prop::collection::btree_map(name(), inner.clone(), 0..3);
        let one = || inner.clone();
        prop_oneof![
            (properties(), prop::collection::btree_set(name(), 0..2))
                .prop_map(|(properties, required)| json!({ "properties": properties, "required": required })),
            properties().prop_map(|properties| json!({ "type": "object", "properties": properties })),
            one().prop_map(|items| json!({ "items": items, "maxItems": 3 })),
            (one(), one()).prop_map(|(first, rest)| json!({ "prefixItems": [first], "items": rest })),
            one().prop_map(|first| json!({ "prefixItems": [first] })),
            (one(), one()).prop_map(|(items, some)| json!({ "items": items, "contains": some })),
            (one(), one()).prop_map(|(one, other)| json!({ "anyOf": [one, other] })),
            (one(), one()).prop_map(|(one, other)| json!({ "allOf": [one, other] })),
            (properties(), one(), one())
                .prop_map(|(properties, one, other)| json!({ "properties": properties, "anyOf": [one, other] })),
            (properties(), one()).prop_map(|(properties, one)| json!({ "properties": properties, "allOf": [one] })),
            (properties(), one()).prop_map(|(properties, not)| json!({ "properties": properties, "not": not })),
            (properties(), one(), one(), one()).prop_map(|(properties, test, then, or)| json!({
                "properties": properties, "if": test, "then": then, "else": or })),
            (properties(), one())
                .prop_map(|(properties, one)| json!({ "properties": properties, "dependentSchemas": { "a": one } })),
        ]
    })
}

fn documents() -> impl Strategy<Value = Value> {
    (schemas(), schemas(), schemas()).prop_map(|(top, one, two)| {
        json!({ "allOf": [top], "properties": { "a": one.clone() }, "$defs": { "one": one, "two": two } })
    })
}

/// Arguments with the properties `a`, `b`, `c` and, now and then, `z`, which no schema names.
fn arguments() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!("x")),
        Just(json!(1)),
        Just(json!(1.5)),
        Just(Value::Null),
        Just(json!({})),
        Just(json!([]))
    ];
    let value = leaf.prop_recursive(4, 20, 3, |inner| {
        let name = prop_oneof![6 => Just("a"), 6 => Just("b"), 6 => Just("c"), 1 => Just("z")];
        prop_oneof![
            prop::collection::btree_map(name, inner.clone(), 1..3).prop_map(|properties| json!(properties)),
            prop::collection::vec(inner, 1..4).prop_map(|items| json!(items)),
        ]
    });
    let name = prop_oneof![6 => Just("a"), 6 => Just("b"), 6 => Just("c"), 1 => Just("z")];
    prop::collection::btree_map(name, value, 0..3).prop_map(|properties| json!(properties))
}

fn mentions(value: &Value, unknown: &str) -> bool {
    match value {
        Value::Object(members) => members.iter().any(|(name, value)| name == unknown || mentions(value, unknown)),
        Value::Array(items) => items.iter().any(|item| mentions(item, unknown)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn type_of(value: &Value) -> JsonType {
    match value {
        Value::Null => JsonType::Null,
        Value::Bool(_) => JsonType::Boolean,
        Value::Number(number) if number.is_i64() || number.is_u64() => JsonType::Integer,
        Value::Number(_) => JsonType::Number,
        Value::String(_) => JsonType::String,
        Value::Array(_) => JsonType::Array,
        Value::Object(_) => JsonType::Object,
    }
}

/// Checks what the schema says about every place in arguments that it takes.
fn places_fit(schema: &Schema, value: &Value, path: &mut Vec<Step>) -> Result<(), TestCaseError> {
    let place = schema.at(path);
    let Place::Known(typed) = &place else { return Err(TestCaseError::fail(format!("{path:?} is {place:?}"))) };
    prop_assert!(typed.types.contains(&type_of(value)), "{path:?} {value} {typed:?}");
    match value {
        Value::String(text) => {
            prop_assert!(typed.max_length.is_none_or(|most| text.len() as u64 <= most), "{path:?} {value} {typed:?}");
        }
        Value::Array(items) => {
            prop_assert!(typed.max_items.is_none_or(|most| items.len() as u64 <= most), "{path:?} {value} {typed:?}");
            prop_assert!(!items.is_empty() || schema.can_be_empty_list(path), "{path:?} {value}");
            for item in items {
                path.push(Step::Item);
                places_fit(schema, item, path)?;
                path.pop();
            }
        }
        Value::Object(members) => {
            for name in ["a", "b", "c"] {
                path.push(Step::Property(name.to_owned()));
                match members.get(name) {
                    Some(value) => places_fit(schema, value, path)?,
                    None => {
                        let required = matches!(schema.at(path), Place::Known(typed) if typed.required);
                        prop_assert!(!required, "{path:?} is not there");
                    }
                }
                path.pop();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn closing_only_ever_takes_less_and_lets_nothing_undeclared_in(document in documents(), all in prop::collection::vec(arguments(), 8)) {
        let (Ok(closed), Ok(open)) = (Schema::compile(&document, false), Schema::compile(&document, true)) else {
            return Ok(());
        };
        for args in all {
            if closed.validate(&args).is_ok() {
                prop_assert!(open.validate(&args).is_ok(), "{document} takes {args} only when closed");
                prop_assert!(!mentions(&args, "z"), "{document} takes {args}");
                places_fit(&closed, &args, &mut Vec::new())?;
            }
        }
    }
}

#[test]
fn the_schemas_of_public_tool_servers_load_and_are_closed() {
    let Some(folder) = std::env::var_os("COUNTERSIGN_CORPORA") else {
        println!("SKIPPED mcp_tools.jsonl: COUNTERSIGN_CORPORA is not set, so nothing was checked");
        return;
    };
    let text = std::fs::read_to_string(Path::new(&folder).join("mcp_tools.jsonl")).unwrap();
    for line in text.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let schema =
            Schema::compile(&row["inputSchema"], false).unwrap_or_else(|faults| panic!("{}: {faults:?}", row["id"]));
        let unknown: Map<_, _> = [("surely_unknown".to_owned(), json!(1))].into_iter().collect();
        assert!(schema.validate(&Value::Object(unknown)).is_err(), "{}", row["id"]);
    }
}
