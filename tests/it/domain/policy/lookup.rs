//! What a policy may say of lookups and business keys, and the address that arguments make of a lookup.

use countersign::domain::{
    lookup::{LookupFailure, LookupRequest},
    policy::{Policy, SourceFile},
    subject::Subject,
};
use serde_json::{Value, json};

use crate::support::world::{object, policy};

const SCHEMA: &str = "parameters = { type = \"object\", required = [\"id\", \"n\", \"yes\", \"list\", \"maybe_null\"], properties = { \
     id = { type = \"string\" }, n = { type = \"number\" }, yes = { type = \"boolean\" }, list = { type = \"array\" }, \
     maybe_null = { type = [\"string\", \"null\"] }, optional = { type = \"string\" }, \
     inner = { type = \"object\", properties = { id = { type = \"string\" } } } } }";

fn with(more: &str) -> String {
    format!("schema = 1\n[tools.t]\nrisk = \"send\"\n{SCHEMA}\n{more}\n")
}

fn with_url(url: &str) -> String {
    with(&format!("[tools.t.lookups.o]\nurl = \"{url}\"\nshow = {{ status = \"/status\" }}"))
}

#[track_caller]
fn refused(text: &str, message: &str) {
    let files = [SourceFile { path: "policy.toml".to_owned(), text: text.to_owned() }];
    let faults = Policy::load(&files).expect_err(text);
    assert!(faults.iter().any(|fault| fault.message.contains(message)), "{message}\n{faults:#?}");
    assert!(faults.iter().all(|fault| !fault.hint.is_empty() && fault.line > 1), "{faults:#?}");
}

fn prepared(url: &str, args: Value) -> Result<LookupRequest, (String, LookupFailure)> {
    let policy = policy(&with_url(url));
    policy.tool("t").unwrap().lookups[0].prepare(&object(args))
}

fn address(url: &str, args: Value) -> Option<String> {
    prepared(url, args).ok().map(|request| request.url)
}

#[test]
fn a_lookup_has_what_it_says_and_else_the_built_in_values() {
    let plain = policy(&with_url("https://orders.internal/orders/{id}"));
    let plain = &plain.tool("t").unwrap().lookups[0];
    assert_eq!((plain.timeout.as_millis(), plain.allow_private, plain.credential.as_deref()), (2_000, false, None));
    let request = plain.prepare(&object(json!({ "id": "A-17" }))).unwrap();
    assert_eq!((request.url.as_str(), request.dry_run), ("https://orders.internal/orders/A-17", None));
    let full = policy(&with(
        "[tools.t.lookups.o]\nurl = \"http://10.0.0.7:8080/dry-run\"\nmethod = \"POST\"\ntimeout = \"250ms\"\n\
         show = { total = \"/total\", all = \"\" }\nunchanged = [\"total\"]\ncredential = \"env:TOKEN\"\nallow_private = true",
    ));
    let full = full.tool("t").unwrap();
    let request = full.lookups[0].prepare(&object(json!({ "id": "A-17" }))).unwrap();
    assert_eq!(request.dry_run, Some(json!({ "id": "A-17" })));
    assert_eq!((request.timeout.as_millis(), request.credential.as_deref()), (250, Some("env:TOKEN")));
}

#[test]
fn a_placeholder_stands_for_a_whole_segment_or_a_whole_value_of_a_required_scalar() {
    for (url, message) in [
        ("https://x.example/a-{id}", "a placeholder stands alone"),
        ("https://x.example/{id}.json", "a placeholder stands alone"),
        ("https://x.example/{}", "the name of a property in braces"),
        ("https://x.example/?q=x{id}", "a placeholder stands alone"),
        ("https://x.example/?{id}=x", "a key of the query is fixed"),
        ("https://x.example/?{id}", "written `key=value`"),
        ("https://{id}.example/", "the host is fixed"),
        ("https://x.example:{n}/", "the host is fixed"),
        ("https://x.example/{other}", "is not declared by the schema"),
        ("https://x.example/{optional}", "is not required"),
        ("https://x.example/{list}", "is not always a string, a number or a boolean"),
        ("https://x.example/{maybe_null}", "is not always a string, a number or a boolean"),
    ] {
        refused(&with_url(url), message);
    }
}

#[test]
fn an_address_is_https_in_its_normal_form_with_nothing_hidden_in_it() {
    for (url, message) in [
        ("x.example/a", "no absolute address"),
        ("ftp://x.example/a", "not https"),
        ("http://x.example/a", "not https"),
        ("https://user:pass@x.example/a", "a name or password"),
        ("https://user@x.example/a", "a name or password"),
        ("https://x.example/a#b", "a fragment"),
        ("https://x.example", "not followed by a path"),
        ("https://X.example/a", "normal form"),
        ("https://x.example:443/a", "normal form"),
        ("https://x.example/a/../b", "normal form"),
        ("https://x.example/a b", "normal form"),
    ] {
        refused(&with_url(url), message);
    }
}

#[test]
fn what_is_held_to_is_shown_and_a_secret_is_never_written_or_read() {
    let lookup = |more: &str| with(&format!("[tools.t.lookups.o]\nurl = \"https://x.example/\"\n{more}"));
    refused(&lookup("show = { a = \"/a\" }\nunchanged = [\"b\"]"), "`b` is not in `show`");
    refused(&lookup("show = { a = \"a\" }"), "`a` is no JSON Pointer");
    refused(&lookup("show = {}"), "shows nothing");
    refused(&lookup(""), "has no `show`");
    refused(&lookup("show = { a = \"/a\" }\ncredential = \"hunter2\""), "is no reference");
    refused(&lookup("show = { a = \"/a\" }\ntimeout = \"11s\""), "`timeout`");
    refused(&lookup("show = { a = \"/a\" }\nmethod = \"PUT\""), "`method`");
    refused(&lookup("show = { a = \"/a\" }\ntimout = \"1s\""), "unknown key `timout`");
    let secret = |lookup: &str| {
        format!(
            "schema = 1\n[tools.t]\nrisk = \"send\"\nparameters = {{ type = \"object\", required = [\"k\"], properties = {{ k = {{ \
             type = \"string\", writeOnly = true }} }} }}\n[tools.t.lookups.o]\nshow = {{ a = \"/a\" }}\n{lookup}\n"
        )
    };
    refused(&secret("url = \"https://x.example/{k}\""), "is a secret property");
    refused(&secret("url = \"https://x.example/\"\nmethod = \"POST\""), "would send a secret property");
}

#[test]
fn values_are_encoded_into_the_one_place_they_stand_for() {
    let path = "https://x.example/orders/{id}/items";
    for (id, there) in [
        ("A-17", "https://x.example/orders/A-17/items"),
        ("a b", "https://x.example/orders/a%20b/items"),
        ("ä", "https://x.example/orders/%C3%A4/items"),
        ("a@b:c,d", "https://x.example/orders/a%40b%3Ac%2Cd/items"),
        ("..a", "https://x.example/orders/..a/items"),
    ] {
        assert_eq!(address(path, json!({ "id": id })).as_deref(), Some(there));
    }
    let query = "https://x.example/find?q={id}&n={n}&yes={yes}";
    assert_eq!(
        address(query, json!({ "id": "a&b=c#d+e/f", "n": 12.5, "yes": true })).as_deref(),
        Some("https://x.example/find?q=a%26b%3Dc%23d%2Be%2Ff&n=12.5&yes=true")
    );
}

#[test]
fn a_value_that_could_steer_makes_the_lookup_fail() {
    let path = "https://x.example/orders/{id}/items";
    let long = "x".repeat(513);
    for id in [
        "",
        " ",
        ".",
        "..",
        "a/b",
        "a\\b",
        "%2e%2e",
        "%2F",
        "a?b",
        "a#b",
        "a;b",
        "a\0",
        "a\nb",
        "\u{ff0e}\u{ff0e}",
        "a\u{ff0f}b",
        &long,
    ] {
        let failed = prepared(path, json!({ "id": id })).unwrap_err();
        assert_eq!(failed, ("o".to_owned(), LookupFailure::UnfitArgument), "{id:?}");
    }
    for args in [json!({}), json!({ "id": null }), json!({ "id": ["a"] }), json!({ "id": { "a": 1 } })] {
        assert!(prepared(path, args.clone()).is_err(), "{args}");
    }
    for id in ["", "..", "a\r\nHost: evil"] {
        assert_eq!(address("https://x.example/?q={id}", json!({ "id": id })), None, "{id:?}");
    }
}

#[test]
fn business_keys_are_scalars_that_the_schema_declares() {
    let found = policy(&with("subject = { order = \"/id\", deep = \"/inner/id\", n = \"/n\" }"));
    let subjects = found.tool("t").unwrap().subjects(&json!({ "id": "A-17", "n": 3, "inner": {} }));
    let subject = |name: &str, value: &str| Subject { name: name.to_owned(), value: value.to_owned() };
    assert_eq!(subjects, [subject("n", "3"), subject("order", "A-17")]);
    assert!(found.tool("t").unwrap().is_settled_under_locks());
    for (pointer, message) in [
        ("id", "is no JSON Pointer"),
        ("/other", "has nothing at `/other`"),
        ("/list", "is no string, number or boolean"),
        ("/list/*", "leads to many values"),
    ] {
        refused(&with(&format!("subject = {{ order = \"{pointer}\" }}")), message);
    }
    refused(&with("subject = { \"a:b\" = \"/id\" }"), "is no name for a subject");
    refused(&with("subject = { order = 1 }"), "is not a string");
}
