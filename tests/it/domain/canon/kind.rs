//! Tests of what all kinds have in common.

use serde_json::json;

use super::{fault, faults, kind, named};

#[test]
fn a_declaration_without_a_kind_is_a_fault() {
    assert_eq!(fault(json!({ "base": "/srv" })), (None, None));
}

#[test]
fn an_unknown_kind_is_a_fault_that_names_the_known_ones() {
    let faults = faults(json!({ "kind": "filename" }));
    assert_eq!(faults[0].option.as_deref(), Some("kind"));
    assert!(faults[0].hint.contains("path"));
}

#[test]
fn a_kind_that_is_no_string_is_a_fault() {
    assert_eq!(fault(json!({ "kind": 1 })), named("kind"));
}

#[test]
fn every_fault_is_told_at_once() {
    let faults = faults(
        json!({ "kind": "path", "base": "/srv", "root": ["a"], "roots": [], "never": ["a//b", 1], "resolve": "no" }),
    );
    assert_eq!(faults.len(), 5, "{faults:?}");
}

#[test]
fn an_option_of_another_kind_is_a_fault() {
    assert_eq!(fault(json!({ "kind": "email", "hosts": ["a.example"] })), named("hosts"));
    assert_eq!(fault(json!({ "kind": "command", "base": "/srv" })), named("base"));
    assert_eq!(fault(json!({ "kind": "hostname", "ports": [1] })), named("ports"));
}

#[test]
fn a_kind_knows_its_name() {
    for name in ["command", "email", "hostname", "sql", "text", "url"] {
        assert_eq!(kind(json!({ "kind": name })).name(), name);
    }
}

#[test]
fn only_a_text_stands_beside_its_raw_value() {
    for name in ["command", "email", "hostname", "sql", "url"] {
        assert!(kind(json!({ "kind": name })).replaces_raw_value(), "{name}");
    }
    assert!(!kind(json!({ "kind": "text" })).replaces_raw_value());
}
