//! Tests of the kind `email`.

use countersign::domain::canon::Kind;
use serde_json::{Value, json};

use super::{fault, kind, named, obligations, resolved, unresolvable};

fn recipients() -> Kind {
    kind(json!({ "kind": "email" }))
}

fn addresses(value: impl Into<Value>) -> Vec<String> {
    let list = resolved(&recipients(), value);
    list.as_array().expect("a list").iter().map(|r| r["address"].as_str().expect("a string").to_owned()).collect()
}

#[test]
fn a_plain_address_is_a_list_of_one() {
    assert_eq!(
        resolved(&recipients(), "Ana.Lee@Acme.EXAMPLE"),
        json!([{ "address": "ana.lee@acme.example", "local": "ana.lee", "domain": "acme.example", "display": "" }])
    );
}

#[test]
fn lists_and_objects_are_read_alike() {
    assert_eq!(
        addresses(json!(["a@x.example", { "email": "b@x.example", "name": "B" }])),
        ["a@x.example", "b@x.example"]
    );
    assert_eq!(addresses(json!({ "email": "x@evil.test" })), ["x@evil.test"]);
    assert_eq!(addresses(json!([])), [""; 0]);
}

#[test]
fn several_addresses_in_one_string_are_all_resolved() {
    assert_eq!(addresses("a@corp.example; x@evil.test"), ["a@corp.example", "x@evil.test"]);
    assert_eq!(addresses("Ann <a@corp.example>,x@evil.test"), ["a@corp.example", "x@evil.test"]);
    for text in
        ["a@corp.example,", "a@corp.example,,b@corp.example", "Dana, a@corp.example", "a@corp.example x@evil.test"]
    {
        let refusal = super::resolve(&recipients(), text).expect_err(text);
        assert!(matches!(refusal.code(), "no_address" | "two_at_signs" | "host_character"), "{text}: {refusal:?}");
    }
}

#[test]
fn a_display_name_is_kept_apart_from_the_address() {
    assert_eq!(resolved(&recipients(), "Ana Lée <ana@acme.example>")[0]["display"], "Ana Lée");
    assert_eq!(resolved(&recipients(), "\"Ana Lee\" <ana@acme.example>")[0]["display"], "Ana Lee");
    assert_eq!(addresses("<ana@acme.example>"), ["ana@acme.example"]);
}

#[test]
fn the_domain_is_compared_in_its_ascii_form() {
    assert_eq!(resolved(&recipients(), "a@bücher.de")[0]["domain"], "xn--bcher-kva.de");
}

#[test]
fn tags_are_stripped_only_when_the_policy_says_so() {
    assert_eq!(addresses("Ops+x@CORP.example"), ["ops+x@corp.example"]);
    let stripping = kind(json!({ "kind": "email", "strip_tags": true }));
    assert_eq!(resolved(&stripping, "Ops+x+y@CORP.example")[0]["address"], "ops@corp.example");
    assert_eq!(unresolvable(&stripping, "+x@corp.example"), "local_part");
}

#[test]
fn what_is_left_without_its_tag_must_itself_be_an_address() {
    let stripping = kind(json!({ "kind": "email", "strip_tags": true }));
    assert_eq!(unresolvable(&stripping, "ops.+x@corp.example"), "local_part");
    assert_eq!(addresses("ops.+x@corp.example"), ["ops.+x@corp.example"]);
}

#[test]
fn what_mailers_read_differently_is_refused() {
    for (text, code) in [
        ("", "empty"),
        ("Dana", "no_address"),
        ("emma@corp.example@evil.test", "two_at_signs"),
        ("\"a@corp.example\"@evil.test", "two_at_signs"),
        ("\"x@evil.test\"@corp.example", "two_at_signs"),
        ("\"x\"@corp.example", "local_part"),
        ("a(x)@corp.example", "local_part"),
        ("a@evil.test(@corp.example)", "two_at_signs"),
        ("a.@corp.example", "local_part"),
        (".a@corp.example", "local_part"),
        ("a..b@corp.example", "local_part"),
        ("a%evil.test@corp.example", "local_part"),
        ("evil.test!a@corp.example", "local_part"),
        ("é@corp.example", "local_part"),
        ("=?utf-8?q?emma?=@evil.test", "encoded_word"),
        ("a@corp.example\r\nBcc: x@evil.test", "control_character"),
        (" a@corp.example", "surrounding_space"),
        ("a@\u{200b}corp.example", "invisible_character"),
        ("a@corp.example.", "trailing_dot"),
        ("a@localhost", "local_domain"),
        ("a@[127.0.0.1]", "address_spelling"),
        ("a@127.0.0.1", "address_literal"),
        ("a@c\u{43e}rp.example", "mixed_script"),
        ("@corp.example", "local_part"),
        ("a@", "empty_host"),
        ("a@corp.example <x@evil.test>", "display_name"),
        ("\"a@corp.example\" <x@evil.test>", "display_name"),
        ("a\u{ff20}corp.example <x@evil.test>", "display_name"),
        ("=?utf-8?q?x?= <x@evil.test>", "display_name"),
        ("\"A\" B <x@evil.test>", "display_name"),
        ("A <x@evil.test> b", "angle_brackets"),
        ("A <<x@evil.test>>", "local_part"),
        ("group: a@corp.example, x@evil.test;", "local_part"),
    ] {
        assert_eq!(unresolvable(&recipients(), text), code, "{text:?}");
    }
    assert_eq!(unresolvable(&recipients(), format!("{}@corp.example", "a".repeat(65))), "too_long");
    // The domain fits as it is written and in ASCII; the address does as it is written alone.
    let label = format!("{}\u{fc}", "a".repeat(40));
    let domain = vec![label; 5].join(".");
    assert_eq!(addresses(format!("a@{domain}")).len(), 1);
    assert_eq!(unresolvable(&recipients(), format!("{}@{domain}", "a".repeat(20))), "too_long");
}

#[test]
fn objects_without_a_plain_address_are_refused() {
    for (value, code) in [
        (json!({ "contact": "Dana" }), "recipient_object"),
        (json!({ "email": "a@x.example", "bcc": "b@x.example" }), "recipient_object"),
        (json!({ "name": "Dana" }), "no_address"),
        (json!({ "email": ["a@x.example"] }), "no_address"),
        (json!({ "email": "a@x.example, b@x.example" }), "two_at_signs"),
        (json!({ "email": "A <a@x.example>" }), "local_part"),
        (json!({ "email": "a@x.example", "name": "b@y.example" }), "display_name"),
        (json!([["a@x.example"]]), "not_text"),
        (json!([null]), "not_text"),
        (json!(1), "not_text"),
        (json!([""]), "empty"),
    ] {
        assert_eq!(unresolvable(&recipients(), value.clone()), code, "{value}");
    }
}

#[test]
fn there_is_a_most_of_addresses() {
    assert_eq!(addresses(vec!["a@x.example"; 1000].join(",")).len(), 1000);
    assert_eq!(unresolvable(&recipients(), vec!["a@x.example"; 1001].join(",")), "too_many_addresses");
}

#[test]
fn there_is_nothing_the_executor_must_keep_to() {
    assert_eq!(obligations(&recipients(), "a@x.example"), json!({}));
}

#[test]
fn options_of_the_wrong_type_are_faults() {
    assert_eq!(fault(json!({ "kind": "email", "strip_tags": "yes" })), named("strip_tags"));
}
