//! The API's description, which what is sent must fit.

use countersign::http::openapi;
use serde_json::{Value, json};

/// Fails unless `value` is as the description says under `name`, and has no member there that it does not name.
pub(crate) fn assert_as_described(name: &str, value: &Value) {
    let document: Value = serde_json::from_str(&openapi::document()).unwrap();
    let schemas = &document["components"]["schemas"];
    let root = json!({ "$ref": format!("#/components/schemas/{name}"), "components": { "schemas": schemas } });
    let validator = jsonschema::draft202012::new(&root).unwrap();
    let faults: Vec<String> = validator.iter_errors(value).map(|fault| fault.to_string()).collect();
    assert!(faults.is_empty(), "{value}: {faults:?}");
    assert_only_named(schemas, &schemas[name], value);
}

fn assert_only_named(schemas: &Value, schema: &Value, value: &Value) {
    let Some(members) = value.as_object() else { return };
    for (name, member) in members {
        let schema = &schema["properties"][name];
        assert!(!schema.is_null(), "{name} is not described");
        let named = schema["$ref"].as_str().and_then(|to| to.strip_prefix("#/components/schemas/"));
        assert_only_named(schemas, named.map_or(schema, |named| &schemas[named]), member);
    }
}
