//! `/decide/batch`: the calls of one model turn.

use std::collections::BTreeSet;

use axum::http::Method;
use countersign::domain::audit::entry::EventKind;
use serde_json::{Value, json};

use crate::support::service::{DELETION_HASH, Service, approval_path, decision, deletion, with};

fn batched(tool: &str, args: Value, id: &str) -> Value {
    json!({ "tool": tool, "args": args, "tool_use_id": id })
}

fn order(id: &str) -> Value {
    batched("get_order", json!({ "order_id": "A-1" }), id)
}

fn batch(calls: &[Value]) -> Value {
    json!({ "run_id": "run-1", "calls": calls })
}

fn statuses(body: &Value) -> Vec<u64> {
    body["results"].as_array().unwrap().iter().map(|result| result["status"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn calls_that_may_all_run_are_answered_with_200() {
    let service = Service::start().await;
    let answer = service.post("bot", "/decide/batch", &batch(&[order("t1"), order("t2")])).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let body = answer.json();
    assert_eq!(statuses(&body), [200, 200]);
    assert_eq!(body["results"][1]["verdict"], "allow");
    assert_ne!(body["results"][0]["decision_id"], body["results"][1]["decision_id"]);
}

#[tokio::test]
async fn what_is_held_is_reviewed_together_and_the_others_run_at_once() {
    let service = Service::start().await;
    let calls = [
        batched("delete_customer", deletion(), "t1"),
        order("t2"),
        batched("delete_customer", json!({ "customer": "B-2" }), "t3"),
        batched("nobody_knows_this", json!({}), "t4"),
        batched("get_order", json!({ "order": 7 }), "t5"),
    ];
    let answer = service.post("bot", "/decide/batch", &batch(&calls)).await;
    assert_eq!(answer.status, 207);
    let body = answer.json();
    assert_eq!(statuses(&body), [202, 200, 202, 403, 422]);
    let results = body["results"].as_array().unwrap();
    assert_eq!(results[0]["args_hash"], DELETION_HASH);
    let unavailable = json!({
        "status": 403, "error": "tool unavailable",
        "tool_result": { "is_error": true, "content": "tool unavailable" },
    });
    assert_eq!(results[3], unavailable);
    assert_eq!(results[4]["error"], "invalid arguments");
    let seen = service.get("ana", &approval_path(&results[0]["approval"])).await.json();
    let together = service.get("ana", &format!("/approvals?batch_id={}", seen["batch_id"].as_str().unwrap())).await;
    let together = together.json();
    let ids = together["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap());
    let held = [&results[0], &results[2]].map(|result| result["approval"]["id"].as_str().unwrap());
    assert_eq!(ids.collect::<BTreeSet<_>>(), held.into());
}

#[tokio::test]
async fn each_held_call_of_a_batch_is_decided_by_itself() {
    let service = Service::start().await;
    let calls = [
        batched("delete_customer", deletion(), "t1"),
        batched("delete_customer", json!({ "customer": "B-2" }), "t2"),
        order("t3"),
    ];
    let body = service.post("bot", "/decide/batch", &batch(&calls)).await.json();
    let (first, second) = (&body["results"][0], &body["results"][1]);
    let path = |held: &Value| format!("{}/decision", approval_path(&held["approval"]));
    assert_eq!(service.post("ana", &path(first), &decision("approve")).await.status, 200);
    let denial = with(decision("deny"), json!({ "args_hash": second["args_hash"] }));
    assert_eq!(service.post("ana", &path(second), &denial).await.status, 200);
    let claim = format!("{}/claim", approval_path(&first["approval"]));
    assert_eq!(service.post("bot", &claim, &json!({ "args": deletion() })).await.status, 200);
}

#[tokio::test]
async fn a_batch_asked_again_holds_nothing_twice() {
    let service = Service::start().await;
    let calls = batch(&[batched("delete_customer", deletion(), "t1"), order("t2")]);
    let first = service.post("bot", "/decide/batch", &calls).await.json();
    let again = service.post("bot", "/decide/batch", &calls).await.json();
    assert_eq!(first["results"][0], again["results"][0]);
    assert_eq!(service.logged(EventKind::ApprovalRequested).await.len(), 1);
}

#[tokio::test]
async fn a_batch_with_the_same_idempotency_key_is_decided_once() {
    let service = Service::start().await;
    let send = async |body: &Value| {
        let request = service.request(Method::POST, "/decide/batch").key("bot").header("idempotency-key", "k1");
        request.json(body).send().await
    };
    let calls = batch(&[order("t1"), order("t2")]);
    let first = send(&calls).await.json();
    assert_eq!(first, send(&calls).await.json());
    assert_eq!(service.logged(EventKind::Decision).await.len(), 2);
    let other = send(&batch(&[order("t1"), order("t3")])).await.json();
    assert_eq!(statuses(&other), [409, 409]);
    assert_eq!(other["results"][0]["code"], "idempotency_conflict");
}

#[tokio::test]
async fn a_batch_that_is_none_is_refused_whole_with_the_place() {
    let service = Service::start().await;
    let many: Vec<Value> = (0..65).map(|index| order(&format!("t{index}"))).collect();
    for (calls, told) in [
        (vec![], "`calls`"),
        (many, "`calls`"),
        (vec![order("t1"), order("t1")], "`calls[1].tool_use_id`"),
        (vec![order("t1"), batched("", json!({}), "t2")], "`calls[1].tool`"),
        (vec![with(order("t1"), json!({ "claim": true }))], "claim"),
    ] {
        let answer = service.post("bot", "/decide/batch", &batch(&calls)).await;
        assert_eq!(answer.problem(400), "invalid_field");
        assert!(answer.text().contains(told), "{}", answer.text());
    }
    assert!(service.logged(EventKind::Decision).await.is_empty());
    assert_eq!(service.post("ana", "/decide/batch", &batch(&[order("t1")])).await.status, 403);
}
