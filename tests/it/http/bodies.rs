//! A body is exactly what a route takes, or the place where it is not is named.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::service::{Answer, Service, call, with};

async fn decide_text(service: &Service, text: &str) -> Answer {
    service.request(Method::POST, "/decide").key("bot").text(text).send().await
}

fn good() -> Value {
    call("get_order", json!({ "order_id": "A-1" }), "t1")
}

#[tokio::test]
async fn text_that_is_not_strict_json_is_refused_with_its_place() {
    let service = Service::start().await;
    for (text, line, column) in [
        ("", 1, 0),
        ("{", 1, 1),
        ("{}{}", 1, 3),
        ("{\"tool\":\"a\",\n\"tool\":\"b\"}", 2, 6),
        (r#"{"args":{"a":1,"\u0061":2}}"#, 1, 23),
        (r#"{"args":{"a":9007199254740993}}"#, 1, 14),
        (r#"{"args":{"a":1e400}}"#, 1, 18),
        (r#"{"args":{"a":"\ud800"}}"#, 1, 21),
        ("{\"args\":NaN}", 1, 9),
        ("{\"args\":{},}", 1, 12),
        ("{/* no */}", 1, 2),
        ("\u{feff}{}", 1, 1),
    ] {
        let answer = decide_text(&service, text).await;
        assert_eq!(answer.problem(400), "invalid_json", "{text}");
        let document = answer.json();
        assert_eq!((&document["line"], &document["column"]), (&json!(line), &json!(column)), "{text}: {document}");
    }
}

#[tokio::test]
async fn a_field_of_the_envelope_that_does_not_fit_is_named() {
    let service = Service::start().await;
    for (change, field) in [
        (json!({ "tool": 7 }), "tool"),
        (json!({ "tool": "" }), "tool"),
        (json!({ "tool": "a\u{0}b" }), "tool"),
        (json!({ "tool": "x".repeat(257) }), "tool"),
        (json!({ "args": [] }), "args"),
        (json!({ "args": "{}" }), "args"),
        (json!({ "args": null }), "args"),
        (json!({ "run_id": "" }), "run_id"),
        (json!({ "run_id": "run 1" }), "run_id"),
        (json!({ "run_id": "r\u{fc}n" }), "run_id"),
        (json!({ "run_id": "x".repeat(129) }), "run_id"),
        (json!({ "tool_use_id": 1 }), "tool_use_id"),
        (json!({ "tool_use_id": "a/b" }), "tool_use_id"),
        (json!({ "turn": -1 }), "turn"),
        (json!({ "turn": 1.5 }), "turn"),
        (json!({ "turn": "1" }), "turn"),
        (json!({ "turn": 4_294_967_296_u64 }), "turn"),
        (json!({ "context": [] }), "context"),
        (json!({ "rationale": 1 }), "rationale"),
        (json!({ "rationale": "x".repeat(4_097) }), "rationale"),
        (json!({ "claim": "true" }), "claim"),
        (json!({ "join": 1 }), "join"),
        (json!({ "permit": null }), "permit"),
        (json!({ "agent": "other-bot" }), "agent"),
        (json!({ "verdict": "allow" }), "verdict"),
    ] {
        let answer = service.post("bot", "/decide", &with(good(), change.clone())).await;
        assert_eq!(answer.problem(400), "invalid_field", "{change}");
        let document = answer.json();
        assert!(document["detail"].as_str().unwrap().contains(&format!("`{field}`")), "{change}: {document}");
    }
}

#[tokio::test]
async fn a_missing_field_is_named() {
    let service = Service::start().await;
    for field in ["tool", "args", "run_id", "tool_use_id"] {
        let mut body = good();
        body.as_object_mut().unwrap().remove(field);
        let answer = service.post("bot", "/decide", &body).await;
        assert_eq!(answer.problem(400), "invalid_field");
        assert!(answer.json()["detail"].as_str().unwrap().contains(&format!("`{field}`")));
    }
}

#[tokio::test]
async fn what_a_document_repeats_of_a_body_is_bounded() {
    let service = Service::start().await;
    let answer = service.post("bot", "/decide", &with(good(), json!({ "args": "\u{e9}".repeat(50_000) }))).await;
    assert_eq!(answer.problem(400), "invalid_field");
    assert!(answer.body.len() < 1_000);
}

#[tokio::test]
async fn a_body_that_is_no_object_is_refused() {
    let service = Service::start().await;
    for text in ["[]", "1", "null", "\"x\"", "true"] {
        assert_eq!(decide_text(&service, text).await.problem(400), "invalid_field", "{text}");
    }
}

#[tokio::test]
async fn a_body_is_as_large_as_the_setting_says_and_not_a_byte_larger() {
    let body = good().to_string();
    let size = body.len();
    let service = Service::start_with(|settings| settings.body_bytes = size).await;
    assert_eq!(decide_text(&service, &body).await.status, 200);
    let answer = decide_text(&service, &format!("{body} ")).await;
    assert_eq!(answer.problem(413), "body_too_large");
    assert_eq!(answer.json()["limit"], size);
}

#[tokio::test]
async fn a_body_of_another_type_is_refused() {
    let service = Service::start().await;
    let body = good().to_string();
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", "", "json"] {
        let request = service.request(Method::POST, "/decide").key("bot").bytes(body.as_bytes());
        let answer = request.header("content-type", content_type).send().await;
        assert_eq!(answer.problem(415), "not_json", "{content_type}");
    }
    let latin = "application/json; charset=iso-8859-1";
    let request = service.request(Method::POST, "/decide").key("bot").bytes(body.as_bytes());
    assert_eq!(request.header("content-type", latin).send().await.problem(415), "not_json");
    for content_type in ["application/json", "Application/JSON; charset=UTF-8", "application/json;charset=\"utf-8\""] {
        let request = service.request(Method::POST, "/decide").key("bot").bytes(body.as_bytes());
        assert_eq!(request.header("content-type", content_type).send().await.status, 200, "{content_type}");
    }
}

#[tokio::test]
async fn a_body_that_may_be_left_out_may_be_left_out() {
    let service = Service::start().await;
    let path = crate::support::service::approval_path(&service.held("t1").await);
    let answer = service.request(Method::POST, &format!("{path}/cancel")).key("bot").send().await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let unknown = service.post("bot", &format!("{path}/cancel"), &json!({ "why": "x" })).await;
    assert_eq!(unknown.problem(400), "invalid_field");
}

#[tokio::test]
async fn an_idempotency_key_is_one_header_of_visible_characters() {
    let service = Service::start().await;
    let request = || service.request(Method::POST, "/decide").key("bot").json(&good());
    for key in ["", "a b", "\u{e9}", &"k".repeat(256)] {
        let answer = request().header("idempotency-key", key).send().await;
        assert_eq!(answer.problem(400), "invalid_header", "{key}");
    }
    let twice = request().header("idempotency-key", "a").header("idempotency-key", "a").send().await;
    assert_eq!(twice.problem(400), "invalid_header");
    assert_eq!(request().header("idempotency-key", &"k".repeat(255)).send().await.status, 200);
}

#[tokio::test]
async fn a_parameter_of_the_query_that_is_unknown_or_ill_typed_is_refused() {
    let service = Service::start().await;
    for query in [
        "state=open",
        "states=pending",
        "limit=0",
        "limit=201",
        "limit=x",
        "cursor=%00",
        "cursor=AAAA",
        "agent=a%20b",
        "unsettled=yes",
        "state=pending&state=denied",
    ] {
        let answer = service.get("ana", &format!("/approvals?{query}")).await;
        assert_eq!(answer.problem(400), "invalid_query", "{query}");
    }
    for query in ["verdict=maybe", "event=x", "approval=AP-1", "from=yesterday", "tool=a%00b", "limit=1000", "x=1"] {
        let answer = service.get("iris", &format!("/audit?{query}")).await;
        assert_eq!(answer.problem(400), "invalid_query", "{query}");
    }
}
