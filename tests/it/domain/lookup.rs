//! What an answer shows, and what a claim is compared with.

use std::{collections::BTreeMap, time::Duration};

use countersign::domain::lookup::{
    Looked, LookupFailure, LookupObjection, LookupRequest, LookupResults, unchanged_since,
};
use serde_json::{Value, json};

fn request(show: &[(&str, &str)]) -> LookupRequest {
    LookupRequest {
        name: "order".to_owned(),
        url: "https://x.example/".to_owned(),
        dry_run: None,
        timeout: Duration::from_secs(1),
        credential: None,
        allow_private: false,
        show: show.iter().map(|(name, pointer)| ((*name).to_owned(), (*pointer).to_owned())).collect(),
    }
}

fn found(shown: &[(&str, Value)]) -> LookupResults {
    let shown: BTreeMap<_, _> = shown.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    [("order".to_owned(), Looked::Answered(shown))].into_iter().collect()
}

fn failed() -> LookupResults {
    [("order".to_owned(), Looked::Failed(LookupFailure::TimedOut))].into_iter().collect()
}

#[test]
fn an_answer_shows_what_was_asked_for_and_nothing_else() {
    let request = request(&[("status", "/order/status"), ("first", "/items/0")]);
    let shown = request.read(br#"{"order":{"status":"paid","secret":"x"},"items":["a","b"]}"#);
    let expected = [("first".to_owned(), json!("a")), ("status".to_owned(), json!("paid"))];
    assert_eq!(shown, Looked::Answered(expected.into()));
}

#[test]
fn an_answer_that_lacks_a_value_or_has_two_meanings_shows_nothing() {
    let request = request(&[("status", "/status")]);
    let long = format!("{{\"status\":\"{}\"}}", "x".repeat(5_000));
    for (body, failure) in [
        ("{}", LookupFailure::NotShowable),
        ("[]", LookupFailure::NotShowable),
        (long.as_str(), LookupFailure::NotShowable),
        ("", LookupFailure::NotJson),
        ("<html>", LookupFailure::NotJson),
        (r#"{"status":"paid","status":"open"}"#, LookupFailure::NotJson),
        (r#"{"status":12345678901234567890}"#, LookupFailure::NotJson),
    ] {
        assert_eq!(request.read(body.as_bytes()), Looked::Failed(failure), "{body}");
    }
}

#[test]
fn a_claim_is_carried_by_an_answer_whose_held_values_are_those_that_were_seen() {
    let held_to = ["total".to_owned()].into();
    let then = found(&[("status", json!("paid")), ("total", json!(10))]);
    let now = found(&[("status", json!("shipped")), ("total", json!(10))]);
    assert_eq!(unchanged_since("order", &held_to, &then, &now), Ok(()));
    let changed = Err(LookupObjection::Changed { lookup: "order".to_owned(), name: "total".to_owned() });
    assert_eq!(unchanged_since("order", &held_to, &then, &found(&[("total", json!(11))])), changed);
    // What nobody saw cannot be what was approved.
    assert_eq!(unchanged_since("order", &held_to, &failed(), &now), changed);
    assert_eq!(unchanged_since("order", &held_to, &LookupResults::default(), &now), changed);
    assert_eq!(unchanged_since("order", &[].into(), &failed(), &now), Ok(()));
}

#[test]
fn a_lookup_that_fails_carries_no_claim() {
    let then = found(&[("total", json!(10))]);
    let failure = |failure| Err(LookupObjection::Failed { lookup: "order".to_owned(), failure });
    assert_eq!(unchanged_since("order", &[].into(), &then, &failed()), failure(LookupFailure::TimedOut));
    let nothing = LookupResults::default();
    assert_eq!(unchanged_since("order", &[].into(), &then, &nothing), failure(LookupFailure::Unreachable));
}
