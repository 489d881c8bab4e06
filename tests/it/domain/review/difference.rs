//! What differs from the last similar call.

use countersign::domain::review::{
    ShownLookup, ShownValue,
    difference::{Difference, differences},
};
use serde_json::json;

use super::shown;

/// Each difference in a word.
fn told(found: &[Difference]) -> Vec<String> {
    let one = |difference: &Difference| match difference {
        Difference::Changed { was, is } => format!("{} {} -> {}", is.at, was.shown, is.shown),
        Difference::Added { is } => format!("{} + {}", is.at, is.shown),
        Difference::Gone { was } => format!("{} - {}", was.at, was.shown),
    };
    found.iter().map(one).collect()
}

#[test]
fn the_same_call_differs_in_nothing() {
    let review = shown(&json!({ "a": [1, "x"], "b": null }));
    assert_eq!(differences(&review, &review), []);
}

#[test]
fn what_changed_is_told_and_what_is_new_or_gone() {
    let before = shown(&json!({ "amount": 90, "to": ["a@x.example", "b@x.example"], "urgent": true }));
    let now = shown(&json!({ "amount": 900, "note": "now", "to": ["a@x.example"] , "urgent": true }));
    assert_eq!(told(&differences(&before, &now)), ["/amount 90 -> 900", "/note + now", "/to/1 - b@x.example"]);
}

#[test]
fn a_text_that_reads_like_the_number_before_is_another_value() {
    let found = differences(&shown(&json!({ "id": 7 })), &shown(&json!({ "id": "7" })));
    assert_eq!(told(&found), ["/id 7 -> 7"]);
}

#[test]
fn what_the_service_looked_up_differs_as_well() {
    let lookup = |status: &str, failed: Option<&str>| ShownLookup {
        name: "order".to_owned(),
        preview: false,
        failed: failed.map(str::to_owned),
        values: vec![ShownValue { at: "/status".to_owned(), kind: "string".to_owned(), shown: status.to_owned() }],
    };
    let mut before = shown(&json!({}));
    let mut now = before.clone();
    before.lookups = vec![lookup("paid", None)];
    now.lookups = vec![lookup("refunded", Some("timed_out"))];
    let found = differences(&before, &now);
    assert_eq!(told(&found), ["/order/status paid -> refunded", "/order + timed_out"]);
}
