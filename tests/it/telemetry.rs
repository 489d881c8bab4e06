//! The form of log lines.

use countersign::telemetry::{Format, TelemetryError, subscriber};
use serde_json::{Value, json};

use crate::support::log::Lines;

fn logged(format: Format, filter: &str) -> String {
    let lines = Lines::default();
    let guard = lines.collect(format, filter);
    tracing::info!(request_id = "r-1", "two\nlines");
    tracing::debug!("detail");
    drop(guard);
    lines.text()
}

#[test]
fn json_is_one_object_a_line_with_its_fields_at_the_top() {
    let text = logged(Format::Json, "info");
    assert_eq!(text.lines().count(), 1);
    let line: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&line["level"], &line["message"]), (&json!("INFO"), &json!("two\nlines")));
    assert_eq!(line["request_id"], "r-1");
    assert!(line["timestamp"].is_string());
}

#[test]
fn text_has_the_fields_and_no_colours() {
    let text = logged(Format::Text, "info");
    assert!(text.contains("INFO") && text.contains("request_id=\"r-1\""), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn the_filter_says_what_is_logged() {
    assert!(!logged(Format::Json, "info").contains("detail"));
    assert!(logged(Format::Json, "warn,it=debug").contains("detail"));
    assert!(logged(Format::Json, "off").is_empty());
}

#[test]
fn text_that_is_no_filter_is_refused() {
    let refused = subscriber(Format::Text, "countersign=loud", std::io::sink);
    assert!(matches!(refused, Err(TelemetryError::Filter(_))));
}
