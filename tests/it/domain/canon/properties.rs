//! Properties that hold for every kind and any text.

use countersign::domain::canon::{Kind, Refusal};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{kind, resolve};

fn every_kind() -> Vec<Kind> {
    [
        json!({ "kind": "path", "base": "/srv/data", "roots": ["."], "never": ["*.pem", "private/**"] }),
        json!({ "kind": "path", "base": "/srv/data", "case_insensitive": true }),
        json!({ "kind": "url", "schemes": ["https", "http"], "default_scheme": "https", "allow_ips": true }),
        json!({ "kind": "url", "urls": ["https://a.example/*", "https://b.example/**?*"] }),
        json!({ "kind": "hostname", "hosts": ["*"], "allow_ips": true }),
        json!({ "kind": "email" }),
        json!({ "kind": "email", "strip_tags": true }),
        json!({ "kind": "command" }),
        json!({ "kind": "money", "currency": "USD", "allow_negative": true }),
        json!({ "kind": "sql", "dialect": "postgres" }),
        json!({ "kind": "sql", "dialect": "mysql" }),
        json!({ "kind": "sql", "dialect": "sqlite" }),
        json!({ "kind": "sql", "dialect": "mssql" }),
        json!({ "kind": "sql" }),
        json!({ "kind": "text" }),
    ]
    .into_iter()
    .map(kind)
    .collect()
}

/// Texts near what the kinds take, so that properties do not only meet refusals.
fn near_misses() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[a-zA-Z0-9./~%:@_ -]{0,40}",
        "(\\.\\.?/|/srv/data/|[a-z]{1,4}/|//|%2e|\u{ff0e}|é|e\u{301}|\\\\){0,8}",
        "(https?:)?/{0,3}[a-z0-9.@:%\\[\\]-]{0,20}(/[a-z0-9.%;-]{0,8}){0,3}(\\?[a-z=&%]{0,8})?",
        "[a-zA-Z0-9.+\"%!]{0,8}@[a-z0-9.-]{0,12}([,;] ?[a-z]{0,4}@[a-z]{0,4}\\.[a-z]{0,3}){0,2}",
        "-?[0-9]{0,20}\\.?[0-9]{0,4}",
        "(select|from|where|with|as|a|b|1|\\(|\\)|,|;|\\*|=|--|/\\*|'|\"|union|in|delete|into|case|\\[|\\$| ){0,30}",
        "([a-z]{1,5}|[|&;<>()`'\" $\\\\]{1,2}){0,12}",
    ]
}

/// The part of a resolved value that is itself a value of the kind.
fn again(kind: &Kind, value: &Value) -> Option<Value> {
    match kind.name() {
        "path" => Some(value["path"].clone()),
        "hostname" => Some(value["host"].clone()),
        "money" => Some(value["amount"].clone()),
        "email" => Some(value.as_array()?.iter().map(|recipient| recipient["address"].clone()).collect()),
        "url" => {
            let text = |part: &str| value[part].as_str().unwrap_or_default().to_owned();
            let after = |mark: &str, part: &str| {
                if text(part).is_empty() { String::new() } else { format!("{mark}{}", text(part)) }
            };
            Some(json!(format!(
                "{}://{}:{}{}{}{}",
                text("scheme"),
                text("host"),
                value["port"],
                text("path"),
                after("?", "query"),
                after("#", "fragment")
            )))
        }
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_text_makes_a_kind_panic(text in near_misses()) {
        for kind in every_kind() {
            let _ = resolve(&kind, text.as_str());
            let _ = resolve(&kind, json!([text, { "email": text, "name": text }]));
        }
    }

    #[test]
    fn resolving_is_idempotent(text in near_misses()) {
        for kind in every_kind() {
            let Ok(value) = resolve(&kind, text.as_str()) else { continue };
            let Some(resolved) = again(&kind, &value) else { continue };
            let second = resolve(&kind, resolved.clone());
            prop_assert_eq!(second.as_ref().ok().and_then(|value| again(&kind, value)), Some(resolved), "{:?}", second);
        }
    }

    #[test]
    fn a_refusal_never_repeats_the_value(text in "[q-z]{12}[\u{0}-\u{ff}]{0,4}") {
        for kind in every_kind() {
            if let Err(Refusal::Unresolvable { detail, .. } | Refusal::Constraint { detail, .. }) = resolve(&kind, text.as_str()) {
                prop_assert!(!detail.contains(&text));
            }
        }
    }

    #[test]
    fn no_disguise_makes_a_forbidden_path_acceptable(
        (plain, places, disguise) in (hostile_path(), proptest::collection::vec(any::<prop::sample::Index>(), 1..4), 0..DISGUISES.len())
    ) {
        let kind = kind(json!({ "kind": "path", "base": "/srv/data", "never": ["secret*", "*.pem", "café/**"] }));
        prop_assert!(resolve(&kind, plain.as_str()).is_err());
        let mutated = disguised(&plain, &places, DISGUISES[disguise]);
        prop_assert!(resolve(&kind, mutated.as_str()).is_err(), "{mutated:?}");
    }

    #[test]
    fn no_disguise_makes_a_foreign_host_acceptable(
        (places, disguise) in (proptest::collection::vec(any::<prop::sample::Index>(), 1..4), 0..DISGUISES.len())
    ) {
        let kind = kind(json!({ "kind": "url", "hosts": ["good.example"] }));
        for plain in ["https://evil.test/good.example", "https://good.example.evil.test/", "https://10.0.0.1/", "https://évil.test/"] {
            prop_assert!(resolve(&kind, plain).is_err());
            let mutated = disguised(plain, &places, DISGUISES[disguise]);
            prop_assert!(resolve(&kind, mutated.as_str()).is_err(), "{mutated:?}");
        }
    }

    #[test]
    fn no_disguise_gives_an_address_another_domain(
        (places, disguise) in (proptest::collection::vec(any::<prop::sample::Index>(), 1..4), 0..DISGUISES.len())
    ) {
        let kind = kind(json!({ "kind": "email" }));
        for plain in ["x@evil.test", "good.example <x@evil.test>", "good.example@évil.test"] {
            let mutated = disguised(plain, &places, DISGUISES[disguise]);
            if let Ok(resolution) = kind.resolve(&json!(mutated), &Map::new()) {
                let good = resolution.value.as_array().is_some_and(|all| all.iter().any(|one| one["domain"] == "good.example"));
                prop_assert!(!good, "{mutated:?}");
            }
        }
    }
}

fn hostile_path() -> impl Strategy<Value = String> {
    prop_oneof![
        "(a/){0,2}(\\.\\./){3}[a-z]{1,4}",
        "/etc/[a-z]{1,4}",
        "([a-z]{1,3}/){0,2}secret[a-z]{0,3}(/[a-z]{1,3}){0,2}",
        "([a-z]{1,3}/){0,2}[a-z]{1,3}\\.pem",
        "([a-z]{1,3}/){0,2}café(/[a-z]{1,3}){0,2}",
    ]
}

/// Ways to spell one character of a text differently.
const DISGUISES: [fn(char) -> String; 9] = [
    |c| format!("%{:02X}", u32::from(c).min(255)),
    |c| format!("%25{:02x}", u32::from(c).min(255)),
    |c| c.to_uppercase().collect(),
    |c| if c == '.' { "./.".to_owned() } else { c.to_string() },
    |c| if c == '/' { "/./".to_owned() } else { c.to_string() },
    |c| if c == '/' { "//".to_owned() } else { c.to_string() },
    |c| if c == 'é' { "e\u{301}".to_owned() } else { c.to_string() },
    |c| char::from_u32(u32::from(c) + 0xfee0).filter(|_| c.is_ascii_graphic()).unwrap_or(c).to_string(),
    |c| format!("{c}\u{200b}"),
];

fn disguised(plain: &str, places: &[prop::sample::Index], disguise: fn(char) -> String) -> String {
    let length = plain.chars().count();
    let chosen: Vec<usize> = places.iter().map(|place| place.index(length)).collect();
    plain.chars().enumerate().map(|(at, c)| if chosen.contains(&at) { disguise(c) } else { c.to_string() }).collect()
}
