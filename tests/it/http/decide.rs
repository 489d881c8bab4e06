//! `/decide` and `/approvals`: what a stack is answered about a call.

use axum::http::Method;
use serde_json::json;

use crate::support::service::{DELETION_HASH, PUBLIC_URL, Service, approval_path, call, decision, deletion, with};

#[tokio::test]
async fn an_allowed_call_is_answered_with_all_it_takes_to_run_it() {
    let service = Service::start().await;
    let answer = service.decide("get_order", json!({ "order_id": "A-1" }), "t1").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
    let body = answer.json();
    assert!(body["decision_id"].as_str().unwrap().starts_with("dec_"));
    assert_eq!(body["verdict"], "allow");
    // Computed with Python's hashlib over {"order_id":"A-1"}.
    assert_eq!(body["args_hash"], "sha256:04f09fff81934b741613ccd0a1a607f7bb99b055cb56d787e0ec34f4abd75345");
    assert_eq!(body["obligations"], json!({}));
    assert_eq!(body.as_object().unwrap().len(), 4);
    let audited = service.decide("add_note", json!({ "text": "x" }), "t2").await.json();
    assert_eq!(audited["verdict"], "allow_audited");
}

#[tokio::test]
async fn an_alias_is_the_same_tool() {
    let service = Service::start().await;
    assert_eq!(service.decide("mcp__shop__get_order", json!({ "order_id": "A-1" }), "t1").await.status, 200);
}

#[tokio::test]
async fn a_permit_is_handed_out_when_it_is_asked_for() {
    let service = Service::start().await;
    let asked = with(call("get_order", json!({ "order_id": "A-1" }), "t1"), json!({ "permit": true }));
    let body = service.post("bot", "/decide", &asked).await.json();
    assert_eq!(body["permit"].as_str().unwrap().split('.').count(), 3);
}

#[tokio::test]
async fn a_held_call_is_answered_with_its_approval() {
    let service = Service::start().await;
    let answer = service.decide("delete_customer", deletion(), "t1").await;
    assert_eq!(answer.status, 202);
    let body = answer.json();
    assert_eq!((&body["verdict"], &body["args_hash"]), (&json!("require_approval"), &json!(DELETION_HASH)));
    let approval = &body["approval"];
    let id = approval["id"].as_str().unwrap();
    let code = approval["code"].as_str().unwrap();
    assert_eq!(
        *approval,
        json!({
            "id": id,
            "code": code,
            "state": "pending",
            "url": format!("{PUBLIC_URL}/review/approvals/{id}"),
            "expires_at": service.in_the_future(std::time::Duration::from_secs(4 * 3_600)),
            "votes": { "have": 0, "need": 1 },
            "attempt": 1,
            "tool_result": { "is_error": true, "content": format!("awaiting approval {code}") },
        })
    );
    assert_eq!(service.decide("delete_customer", deletion(), "t1").await.json()["approval"], *approval);
}

#[tokio::test]
async fn a_call_that_policy_would_allow_is_held_when_the_stack_asks_for_people() {
    let service = Service::start().await;
    let asked = call("get_order", json!({ "order_id": "A-1" }), "t1");
    let answer = service.post("bot", "/approvals", &asked).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    // Once held, it never runs without them, whichever route is asked.
    assert_eq!(service.post("bot", "/decide", &asked).await.status, 202);
}

#[tokio::test]
async fn an_approved_call_can_be_claimed_from_now_on() {
    let service = Service::start().await;
    service.approved("t1").await;
    let answer = service.decide("delete_customer", deletion(), "t1").await;
    assert_eq!(answer.status, 202);
    let approval = &answer.json()["approval"];
    assert_eq!(approval["state"], "approved");
    assert_eq!(approval["votes"], json!({ "have": 1, "need": 1 }));
    assert_eq!(approval["claim_after"], service.in_the_future(std::time::Duration::ZERO));
    assert!(approval.get("tool_result").is_none());
}

#[tokio::test]
async fn an_approved_call_is_claimed_in_the_same_request_when_the_stack_says_so() {
    let service = Service::start().await;
    service.approved("t1").await;
    let asked = with(call("delete_customer", deletion(), "t1"), json!({ "claim": true }));
    let answer = service.post("bot", "/decide", &asked).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let body = answer.json();
    assert_eq!(body["verdict"], "require_approval");
    assert_eq!(body["args_hash"], DELETION_HASH);
    assert_eq!(body["args"], deletion());
    assert_eq!(body["approval"]["state"], "executed");
    assert_eq!(body["idempotency_key"], body["approval"]["id"]);
    assert_eq!(body["lease_expires_at"], service.in_the_future(crate::support::service::LEASE));
    for field in ["decision_id", "claim_id", "permit"] {
        assert!(!body[field].as_str().unwrap().is_empty());
    }
    assert!(body["obligations"].is_object());

    let again = service.post("bot", "/decide", &asked).await;
    assert_eq!(again.problem(409), "already_executed");
    let document = again.json();
    assert_eq!(document["approval"]["id"], body["approval"]["id"]);
    assert_eq!((&document["outcome"], &document["result"]), (&json!(null), &json!(null)));
    assert_eq!(document["tool_result"]["is_error"], true);
}

#[tokio::test]
async fn an_executed_call_is_answered_with_what_came_of_it() {
    let service = Service::start().await;
    let path = service.approved("t1").await;
    let claimed = service.post("bot", &format!("{path}/claim"), &json!({ "args": deletion() })).await.json();
    let outcome = json!({ "claim_id": claimed["claim_id"], "status": "succeeded", "result": "gone" });
    assert_eq!(service.post("bot", &format!("{path}/outcome"), &outcome).await.status, 204);
    let answer = service.decide("delete_customer", deletion(), "t1").await;
    assert_eq!(answer.problem(409), "already_executed");
    let document = answer.json();
    assert_eq!((&document["outcome"], &document["result"]), (&json!("succeeded"), &json!("gone")));
    assert_eq!(document["tool_result"], json!({ "is_error": false, "content": "gone" }));
}

#[tokio::test]
async fn the_id_of_a_held_call_with_other_arguments_is_refused() {
    let service = Service::start().await;
    service.held("t1").await;
    let other = service.decide("delete_customer", json!({ "customer": "c-18" }), "t1").await;
    assert_eq!(other.problem(409), "tool_use_id_reused");
    let asked = with(call("delete_customer", json!({ "customer": "c-18" }), "t1"), json!({ "turn": 1 }));
    assert_eq!(service.post("bot", "/decide", &asked).await.status, 202);
}

#[tokio::test]
async fn an_expired_approval_is_followed_by_another_attempt() {
    let service = Service::start().await;
    let first = service.held("t1").await;
    service.clock.advance(std::time::Duration::from_secs(4 * 3_600));
    let seen = service.get("bot", &approval_path(&first)).await.json();
    assert_eq!((&seen["state"], &seen["tool_result"]["content"]), (&json!("expired"), &json!("approval expired")));
    let second = service.held("t1").await;
    assert_eq!(second["attempt"], 2);
    assert_ne!(second["id"], first["id"]);
}

#[tokio::test]
async fn a_call_may_join_an_open_approval_of_the_same_run_tool_and_arguments() {
    let service = Service::start().await;
    let first = service.held("t1").await;
    let asked = with(call("delete_customer", deletion(), "t2"), json!({ "join": true }));
    let joined = service.post("bot", "/decide", &asked).await;
    assert_eq!(joined.status, 202);
    assert_eq!(joined.json()["approval"], first);
}

#[tokio::test]
async fn an_idempotency_key_finds_the_answer_again_and_no_other_body() {
    let service = Service::start().await;
    let send = |body: serde_json::Value, path: &'static str| {
        service.request(Method::POST, path).key("bot").json(&body).header("idempotency-key", "k-1").send()
    };
    let asked = call("issue_refund", json!({ "order_id": "A", "amount": 100 }), "t1");
    let first = send(asked.clone(), "/decide").await;
    assert_eq!(first.status, 200, "{first:?}");
    let reordered = json!({ "tool_use_id": "t1", "run_id": "run-1", "args": { "amount": 1e2, "order_id": "A" }, "tool": "issue_refund" });
    assert_eq!(send(reordered, "/decide").await.json(), first.json());
    let other = with(asked.clone(), json!({ "permit": true }));
    assert_eq!(send(other, "/decide").await.problem(409), "idempotency_conflict");
    // The key is one of this route.
    assert_eq!(send(call("delete_customer", deletion(), "t2"), "/approvals").await.status, 202);
}

#[tokio::test]
async fn decisions_are_counted_by_verdict_and_reason() {
    let service = Service::start().await;
    service.decide("get_order", json!({ "order_id": "A-1" }), "t1").await;
    service.decide("no_such_tool", json!({}), "t2").await;
    service.held("t3").await;
    let figures = service.request(Method::GET, "/metrics").send().await;
    for line in [
        r#"countersign_decisions_total{verdict="allow",reason=""} 1"#,
        r#"countersign_decisions_total{verdict="deny",reason="unknown_tool"} 1"#,
        r#"countersign_decisions_total{verdict="require_approval",reason=""} 1"#,
        r#"countersign_http_requests_total{method="POST",route="/decide",status="403"} 1"#,
    ] {
        assert!(figures.text().contains(line), "{line} in {}", figures.text());
    }
}

#[tokio::test]
async fn the_tools_of_an_agent_are_listed_with_the_hints_that_clients_know() {
    let service = Service::start().await;
    let body = service.get("other-bot", "/tools").await.json();
    let names: Vec<&str> =
        body["items"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["delete_customer", "format_disk", "get_order"]);
    let order = &body["items"][2];
    assert_eq!(order["risk"], "read");
    assert_eq!(order["may_require_approval"], false);
    assert_eq!(order["inputSchema"]["required"], json!(["order_id"]));
    assert_eq!(
        order["annotations"],
        json!({ "readOnlyHint": true, "destructiveHint": false, "idempotentHint": false, "openWorldHint": false })
    );
    assert_eq!(body["items"][1]["annotations"]["destructiveHint"], true);
    assert_eq!(decision("approve")["args_hash"], DELETION_HASH);
}
