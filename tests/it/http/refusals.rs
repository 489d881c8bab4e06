//! What agents are told of refused calls: the same bytes whatever the reason.

use std::time::Duration;

use axum::http::{HeaderMap, Method};
use countersign::domain::audit::entry::EventKind;
use serde_json::json;

use crate::support::{
    broken_store::BrokenStore,
    service::{Answer, Service, approval_path, call, decision, deletion, with},
};

const TOOL_UNAVAILABLE: &str =
    r#"{"error":"tool unavailable","tool_result":{"is_error":true,"content":"tool unavailable"}}"#;

/// The headers but for the request's id.
fn headers(answer: &Answer) -> HeaderMap {
    let mut headers = answer.headers.clone();
    assert!(headers.remove("x-request-id").is_some());
    headers
}

#[tokio::test]
async fn refusals_by_policy_are_equal_byte_for_byte_whatever_the_reason() {
    let service = Service::start().await;
    let dead = service.approved("dead").await;
    let stolen = service.post("bot", &format!("{dead}/claim"), &json!({ "args": { "customer": "c-18" } })).await;
    assert_eq!(stolen.problem(409), "args_mismatch");
    let refusals = [
        ("unknown_tool", service.decide("no_such_tool", json!({}), "t1").await),
        ("tool_not_granted", service.decide("format_disk", json!({}), "t2").await),
        (
            "tool_not_granted",
            service.post("other-bot", "/decide", &call("add_note", json!({ "text": "x" }), "t3")).await,
        ),
        ("constraint", service.decide("read_file", json!({ "path": "private/a.txt" }), "t4").await),
        ("constraint", service.decide("read_file", json!({ "path": "public/key.pem" }), "t5").await),
        ("unresolvable_argument", service.decide("read_file", json!({ "path": "public/%2e%2e/a" }), "t6").await),
        ("rule", service.decide("issue_refund", json!({ "order_id": "A", "amount": 50_001 }), "t7").await),
        ("denied by the service", service.decide("delete_customer", deletion(), "dead").await),
        ("held", service.post("bot", "/approvals", &call("no_such_tool", json!({}), "t8")).await),
    ];
    let (_, first) = &refusals[0];
    for (reason, answer) in &refusals {
        assert_eq!(answer.status, 403, "{reason}: {answer:?}");
        assert_eq!(answer.text(), TOOL_UNAVAILABLE, "{reason}");
        assert_eq!(headers(answer), headers(first), "{reason}");
    }
    let mut names: Vec<&str> = first.headers.keys().map(|name| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["cache-control", "content-length", "content-type", "x-content-type-options", "x-request-id"]);
}

#[tokio::test]
async fn the_reason_is_in_the_log() {
    let service = Service::start().await;
    service.decide("no_such_tool", json!({ "secret": "hunter2" }), "t1").await;
    let decided = service.logged(EventKind::Decision).await;
    assert_eq!(decided[0].entry.reason_code.as_deref(), Some("unknown_tool"));
    assert!(!serde_json::to_string(&decided[0].entry).unwrap().contains("hunter2"));
}

#[tokio::test]
async fn an_installation_may_say_it_in_other_words_but_always_the_same() {
    let service = Service::start_with(|settings| settings.refusal_text = Some("ask \"Ana\"".to_owned())).await;
    let expected = r#"{"error":"tool unavailable","tool_result":{"is_error":true,"content":"ask \"Ana\""}}"#;
    assert_eq!(service.decide("no_such_tool", json!({}), "t1").await.text(), expected);
    assert_eq!(service.decide("format_disk", json!({}), "t2").await.text(), expected);
}

#[tokio::test]
async fn a_call_that_cannot_be_decided_is_refused_in_the_same_bytes() {
    let service = Service::without_store();
    let held = call("delete_customer", deletion(), "t2");
    for answer in [
        service.decide("get_order", json!({ "order_id": "A" }), "t1").await,
        service.decide("delete_customer", deletion(), "t2").await,
        service.decide("no_such_tool", json!({}), "t3").await,
        service.post("bot", "/approvals", &held).await,
        service.post("bot", "/approvals/apr_01980d5e-7a4c-7f3e-9a55-0a3c1d2e4f60/claim", &json!({ "args": {} })).await,
    ] {
        assert_eq!(answer.status, 503, "{answer:?}");
        assert_eq!(answer.text(), TOOL_UNAVAILABLE);
        assert_eq!(answer.header("content-type"), "application/json");
        assert_eq!(answer.header("retry-after"), "1");
    }
    let elsewhere = service.get("bot", "/approvals/apr_01980d5e-7a4c-7f3e-9a55-0a3c1d2e4f60").await;
    assert_eq!(elsewhere.problem(503), "store_unavailable");
    assert!(!elsewhere.text().contains("cable"));
    assert_eq!(elsewhere.header("retry-after"), "1");
}

#[tokio::test]
async fn without_the_writer_of_decisions_nothing_is_permitted() {
    let mut service = Service::start().await;
    service.stop_writer().await;
    let answer = service.decide("get_order", json!({ "order_id": "A" }), "t1").await;
    assert_eq!((answer.status, answer.text()), (503, TOOL_UNAVAILABLE));
    assert!(service.logged(EventKind::Decision).await.is_empty());
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_refused_in_the_same_bytes() {
    let service = Service::on_broken(BrokenStore::Silent, |settings| {
        settings.request_timeout = Duration::from_millis(1);
    });
    let answer = service.decide("get_order", json!({ "order_id": "A" }), "t1").await;
    assert_eq!((answer.status, answer.text()), (503, TOOL_UNAVAILABLE));
    assert_eq!(service.get("iris", "/audit").await.problem(503), "timeout");
}

#[tokio::test]
async fn a_fault_of_the_service_is_no_permission_and_tells_nothing() {
    let service = Service::on_broken(BrokenStore::Panicking, |_| {});
    let answer = service.decide("delete_customer", deletion(), "t1").await;
    assert_eq!((answer.status, answer.text()), (503, TOOL_UNAVAILABLE));
    let elsewhere = service.get("iris", "/audit").await;
    assert_eq!(elsewhere.problem(500), "internal");
    assert!(!elsewhere.text().contains("driver"));
}

#[tokio::test]
async fn arguments_that_do_not_fit_the_schema_are_told_with_their_place() {
    let service = Service::start().await;
    let args = json!({ "order_id": 7, "note": "x" });
    let answer = service.decide("get_order", args, "t1").await;
    assert_eq!((answer.status, answer.header("content-type")), (422, "application/json"));
    let body = answer.json();
    assert_eq!(body["error"], "invalid arguments");
    let pointers: Vec<&str> =
        body["faults"].as_array().unwrap().iter().map(|fault| fault["pointer"].as_str().unwrap()).collect();
    assert!(pointers.contains(&"/order_id"), "{body}");
    assert_eq!(body["tool_result"]["is_error"], true);
    assert!(body["tool_result"]["content"].as_str().unwrap().starts_with("invalid arguments\n"));
}

#[tokio::test]
async fn the_schema_of_a_tool_that_the_agent_may_not_use_is_not_told() {
    let service = Service::start().await;
    let wrong = call("add_note", json!({ "nonsense": 1 }), "t1");
    let answer = service.post("other-bot", "/decide", &wrong).await;
    assert_eq!((answer.status, answer.text()), (403, TOOL_UNAVAILABLE));
}

#[tokio::test]
async fn a_denial_by_a_reviewer_is_told_with_its_message() {
    let service = Service::start().await;
    let path = approval_path(&service.held("t1").await);
    let denied = with(decision("deny"), json!({ "message_to_agent": "ask the customer first" }));
    assert_eq!(service.post("ana", &format!("{path}/decision"), &denied).await.status, 200);
    for id in ["t1", "t2"] {
        // The same call under another id is the same denial.
        let answer = service.decide("delete_customer", deletion(), id).await;
        assert_eq!((answer.status, answer.header("content-type")), (403, "application/json"), "{answer:?}");
        assert_eq!(
            answer.json(),
            json!({
                "error": "declined by reviewer",
                "approval": { "id": path.strip_prefix("/approvals/") },
                "message": "ask the customer first",
                "tool_result": { "is_error": true, "content": "declined by reviewer: ask the customer first" },
            })
        );
    }
    let seen = service.get("bot", &path).await.json();
    assert_eq!(seen["message"], "ask the customer first");
    assert_eq!(seen["tool_result"]["content"], "declined by reviewer: ask the customer first");
}

#[tokio::test]
async fn a_cancelled_call_is_told_as_cancelled() {
    let service = Service::start().await;
    let path = approval_path(&service.held("t1").await);
    let cancelled = service.post("bot", &format!("{path}/cancel"), &json!({ "reason": "changed my mind" })).await;
    assert_eq!(cancelled.json()["state"], "cancelled");
    let answer = service.decide("delete_customer", deletion(), "t1").await;
    assert_eq!(answer.status, 403);
    assert_eq!(answer.json()["error"], "cancelled");
    assert_eq!(answer.json()["tool_result"], json!({ "is_error": true, "content": "cancelled" }));
    let logged = service.logged(EventKind::ApprovalCancelled).await;
    let reason = service.store.payload(logged[0].entry.payload.unwrap()).await.unwrap().unwrap();
    assert_eq!(reason.body(), r#"{"reason":"changed my mind"}"#);
}

#[tokio::test]
async fn a_route_that_is_none_is_a_problem_for_integrators() {
    let service = Service::start().await;
    let answer = service.request(Method::GET, "/decide/nothing").send().await;
    assert_eq!(answer.problem(404), "no_such_route");
}
