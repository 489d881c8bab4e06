//! Held calls: deciding, claiming, reporting.

use axum::http::Method;
use countersign::domain::audit::entry::EventKind;
use serde_json::{Value, json};

use crate::support::service::{Answer, DELETION_HASH, LEASE, Service, approval_path, call, decision, deletion, with};

async fn act(service: &Service, holder: &str, path: &str, act: &str, body: Value) -> Answer {
    service.post(holder, &format!("{path}/{act}"), &body).await
}

#[tokio::test]
async fn a_reviewer_sees_what_to_decide_on() {
    let service = Service::start().await;
    let asked = with(call("delete_customer", deletion(), "t1"), json!({ "rationale": "the customer \u{202e}asked" }));
    let path = approval_path(&service.post("bot", "/decide", &asked).await.json()["approval"]);
    let seen = service.get("ana", &path).await;
    assert_eq!(seen.status, 200);
    let seen = seen.json();
    assert_eq!(seen["state"], "pending");
    assert_eq!((&seen["agent"], &seen["run_id"], &seen["tool_use_id"]), (&json!("bot"), &json!("run-1"), &json!("t1")));
    assert_eq!((&seen["tool"], &seen["args_hash"]), (&json!("delete_customer"), &json!(DELETION_HASH)));
    let requirement = json!({
        "groups": {}, "need": 1, "double_confirm": false, "decide_in": "any", "step_up": false, "grace_seconds": 0,
        "allow_self_approval": false, "escalation": []
    });
    assert_eq!(seen["requirement"], requirement);
    assert_eq!(seen["missing_text"], "one more from anyone");
    assert_eq!(seen["args"], deletion());
    assert_eq!(seen["review"]["arguments"], json!([{ "at": "/customer", "kind": "string", "shown": "c-17" }]));
    assert!(seen["review_hash"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(seen["rationale"], json!({ "text": "the customer \u{202e}asked", "verified": false }));
}

#[tokio::test]
async fn the_agent_sees_nothing_of_the_review() {
    let service = Service::start().await;
    let path = approval_path(&service.held("t1").await);
    let seen = service.get("bot", &path).await.json();
    for field in ["review", "args", "requirement", "policy_version", "reason"] {
        assert!(seen.get(field).is_none(), "{field}");
    }
}

#[tokio::test]
async fn another_agents_approval_does_not_exist() {
    let service = Service::start().await;
    let path = service.approved("t1").await;
    assert_eq!(service.get("other-bot", &path).await.problem(404), "not_found");
    for (name, body) in [
        ("claim", json!({ "args": deletion() })),
        ("heartbeat", json!({})),
        ("outcome", json!({ "status": "succeeded" })),
        ("cancel", json!({})),
    ] {
        assert_eq!(act(&service, "other-bot", &path, name, body).await.problem(404), "not_found", "{name}");
    }
}

#[tokio::test]
async fn text_that_is_no_id_names_nothing() {
    let service = Service::start().await;
    for id in ["1", "apr_1", "dec_01980d5e-7a4c-7f3e-9a55-0a3c1d2e4f60", "APR_01980D5E-7A4C-7F3E-9A55-0A3C1D2E4F60"] {
        assert_eq!(service.get("bot", &format!("/approvals/{id}")).await.problem(404), "not_found", "{id}");
    }
}

#[tokio::test]
async fn a_decision_is_about_the_arguments_that_were_shown() {
    let service = Service::start().await;
    let path = approval_path(&service.held("t1").await);
    let other = format!("sha256:{}", "0".repeat(64));
    let stale = json!({ "decision": "approve", "args_hash": other });
    let answer = act(&service, "ana", &path, "decision", stale).await;
    assert_eq!(answer.problem(409), "stale_args");
    assert_eq!(answer.json()["current"], DELETION_HASH);
    let stale = with(decision("approve"), json!({ "review_hash": other }));
    let answer = act(&service, "ana", &path, "decision", stale).await;
    assert_eq!(answer.problem(409), "stale_review");
    assert_eq!(answer.json()["current"], service.get("ana", &path).await.json()["review_hash"]);
    for wrong in [
        json!({ "decision": "approve" }),
        json!({ "decision": "maybe", "args_hash": DELETION_HASH }),
        json!({ "decision": "approve", "args_hash": "abc" }),
        with(decision("approve"), json!({ "grant": {} })),
        with(decision("deny"), json!({ "message_to_agent": "x".repeat(4_097) })),
    ] {
        assert_eq!(
            act(&service, "ana", &path, "decision", wrong.clone()).await.problem(400),
            "invalid_field",
            "{wrong}"
        );
    }
}

#[tokio::test]
async fn the_second_reviewer_is_told_who_was_first_and_when() {
    let service = Service::start().await;
    let path = service.approved("t1").await;
    let late = act(&service, "ben", &path, "decision", decision("deny")).await;
    assert_eq!(late.problem(409), "decided");
    assert_eq!(late.json()["by"], "ana");
    assert_eq!(late.json()["at"], service.in_the_future(std::time::Duration::ZERO));
    let again = act(&service, "ana", &path, "decision", decision("approve")).await;
    assert_eq!((again.status, &again.json()["state"]), (200, &json!("approved")));
    assert_eq!(service.logged(EventKind::ApprovalVote).await.len(), 1);
}

#[tokio::test]
async fn exactly_one_of_two_claims_wins() {
    let service = Service::start().await;
    let path = service.approved("t1").await;
    let claim = || async { act(&service, "bot", &path, "claim", json!({ "args": deletion() })).await };
    let (one, other) = tokio::join!(claim(), claim());
    let (won, lost) = if one.status == 200 { (one, other) } else { (other, one) };
    assert_eq!(won.status, 200, "{won:?}");
    assert_eq!(lost.problem(409), "already_claimed");
    let won = won.json();
    let mut fields: Vec<&String> = won.as_object().unwrap().keys().collect();
    fields.sort();
    assert_eq!(fields, ["args", "claim_id", "idempotency_key", "lease_expires_at", "obligations", "permit"]);
    assert_eq!(won["args"], deletion());
    assert_eq!(format!("/approvals/{}", won["idempotency_key"].as_str().unwrap()), path);
}

#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_answered_again() {
    let service = Service::start().await;
    let path = service.approved("t1").await;
    let claim = json!({ "args": deletion(), "claim_id": "worker-3:1" });
    let first = act(&service, "bot", &path, "claim", claim.clone()).await;
    assert_eq!(first.status, 200);
    assert_eq!(first.json()["claim_id"], "worker-3:1");
    assert_eq!(act(&service, "bot", &path, "claim", claim).await.json(), first.json());
}

#[tokio::test]
async fn a_claim_before_people_have_decided_is_a_conflict() {
    let service = Service::start().await;
    let path = approval_path(&service.held("t1").await);
    let early = act(&service, "bot", &path, "claim", json!({ "args": deletion() })).await;
    assert_eq!(early.problem(409), "approval_pending");
    assert_eq!(early.json()["state"], "pending");
}

#[tokio::test]
async fn a_claim_with_other_arguments_is_the_end_of_the_approval() {
    let service = Service::start().await;
    let path = service.approved("t1").await;
    let other = act(&service, "bot", &path, "claim", json!({ "args": { "customer": "c-18" } })).await;
    assert_eq!(other.problem(409), "args_mismatch");
    let right = act(&service, "bot", &path, "claim", json!({ "args": deletion() })).await;
    assert_eq!(right.problem(409), "approval_denied");
    assert_eq!(service.get("ana", &path).await.json()["denial"]["cause"], "args_mismatch");
}

#[tokio::test]
async fn the_first_outcome_stands_and_the_same_one_is_no_conflict() {
    let service = Service::start().await;
    let path = service.approved("t1").await;
    let early = act(&service, "bot", &path, "outcome", json!({ "status": "succeeded" })).await;
    assert_eq!(early.problem(409), "approval_approved");
    let claimed = act(&service, "bot", &path, "claim", json!({ "args": deletion() })).await.json();
    let outcome = json!({ "claim_id": claimed["claim_id"], "status": "failed", "detail": "no such customer" });
    for _ in 0..2 {
        let answer = act(&service, "bot", &path, "outcome", outcome.clone()).await;
        assert_eq!((answer.status, answer.text()), (204, ""));
    }
    let other = with(outcome, json!({ "status": "succeeded" }));
    assert_eq!(act(&service, "bot", &path, "outcome", other).await.problem(409), "outcome_stands");
    assert_eq!(service.get("bot", &path).await.json()["outcome"], "failed");
    assert_eq!(service.logged(EventKind::Outcome).await.len(), 1);
}

#[tokio::test]
async fn a_heartbeat_extends_the_lease_until_it_is_over() {
    let service = Service::start().await;
    let path = service.approved("t1").await;
    let claimed = act(&service, "bot", &path, "claim", json!({ "args": deletion() })).await.json();
    service.clock.advance(LEASE / 2);
    let extended = act(&service, "bot", &path, "heartbeat", json!({ "claim_id": claimed["claim_id"] })).await;
    assert_eq!(extended.json(), json!({ "lease_expires_at": service.in_the_future(LEASE) }));
    let other = act(&service, "bot", &path, "heartbeat", json!({ "claim_id": "another" })).await;
    assert_eq!(other.problem(409), "other_claim");
    service.clock.advance(LEASE);
    let late = service.request(Method::POST, &format!("{path}/heartbeat")).key("bot").send().await;
    assert_eq!(late.problem(409), "lease_over");
}

#[tokio::test]
async fn an_outcome_that_nobody_reported_is_listed_and_settled_by_people() {
    let service = Service::start().await;
    let path = service.approved("t1").await;
    act(&service, "bot", &path, "claim", json!({ "args": deletion() })).await;
    service.clock.advance(LEASE);
    service.app.record_elapsed().await.unwrap();
    let unsettled = service.get("ana", "/approvals?unsettled=true").await.json();
    assert_eq!(approval_path(&unsettled["items"][0]), path);
    assert_eq!(unsettled["items"][0]["execution"]["outcome"], "unknown");
    let unknown = act(&service, "ana", &path, "settle", json!({ "status": "unknown" })).await;
    assert_eq!(unknown.problem(400), "invalid_field");
    let settled = act(&service, "ana", &path, "settle", json!({ "status": "succeeded", "reason": "I looked" })).await;
    assert_eq!(settled.json()["execution"]["settled_by"], "ana");
    assert_eq!(
        act(&service, "ana", &path, "settle", json!({ "status": "failed" })).await.problem(409),
        "nothing_to_settle"
    );
    assert_eq!(service.get("ana", "/approvals?unsettled=true").await.json()["items"], json!([]));
}

#[tokio::test]
async fn an_approve_is_taken_back_before_the_claim() {
    let service = Service::start().await;
    let path = service.approved("t1").await;
    let revoked = act(&service, "ben", &path, "revoke", json!({ "reason": "wrong customer" })).await;
    assert_eq!(revoked.json()["denial"]["reviewer"], "ben");
    let claim = act(&service, "bot", &path, "claim", json!({ "args": deletion() })).await;
    assert_eq!(claim.problem(409), "approval_denied");
    assert_eq!(act(&service, "ana", &path, "revoke", json!({})).await.problem(409), "approval_denied");
}

#[tokio::test]
async fn a_denial_is_lifted_by_who_denied_and_by_nobody_else() {
    let service = Service::start().await;
    let path = approval_path(&service.held("t1").await);
    act(&service, "ana", &path, "decision", decision("deny")).await;
    let other = act(&service, "ben", &path, "lift", json!({})).await;
    assert_eq!(other.problem(403), "not_eligible");
    let recorded = service.logged(EventKind::RequestRefused).await;
    assert_eq!(recorded[0].entry.reason_code.as_deref(), Some("not_eligible"));
    assert_eq!(recorded[0].entry.actor.name, "ben");
    let lifted = act(&service, "ana", &path, "lift", json!({})).await;
    assert_eq!(lifted.status, 200);
    assert!(lifted.json()["denial"]["lifted_at"].is_string());
    assert_eq!(service.decide("delete_customer", deletion(), "t2").await.status, 202);
}

#[tokio::test]
async fn a_list_is_read_page_by_page_without_a_gap() {
    let service = Service::start().await;
    let mut held = Vec::new();
    for id in ["t1", "t2", "t3", "t4", "t5"] {
        // A new millisecond each, so that the order of ids is the order of time.
        service.clock.advance(std::time::Duration::from_millis(1));
        let asked = call("delete_customer", json!({ "customer": id }), id);
        held.push(service.post("bot", "/decide", &asked).await.json()["approval"]["id"].clone());
    }
    held.reverse();
    let mut seen = Vec::new();
    let mut path = "/approvals?state=pending&agent=bot&run_id=run-1&limit=2".to_owned();
    loop {
        let page = service.get("ana", &path).await.json();
        seen.extend(page["items"].as_array().unwrap().iter().map(|item| item["id"].clone()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/approvals?state=pending&agent=bot&run_id=run-1&limit=2&cursor={cursor}");
    }
    assert_eq!(seen, held);
    assert_eq!(service.get("ana", "/approvals?agent=other-bot").await.json()["items"], json!([]));
    assert_eq!(service.get("ana", "/approvals?state=denied").await.json()["items"], json!([]));
}

#[tokio::test]
async fn what_came_of_an_allowed_call_is_reported_by_its_decision() {
    let service = Service::start().await;
    let decided = service.decide("add_note", json!({ "text": "x" }), "t1").await.json();
    let path = format!("/decisions/{}/outcome", decided["decision_id"].as_str().unwrap());
    let outcome = json!({ "status": "succeeded", "result": { "note": 7 } });
    assert_eq!(service.post("other-bot", &path, &outcome).await.problem(404), "not_found");
    for _ in 0..2 {
        assert_eq!(service.post("bot", &path, &outcome).await.status, 204);
    }
    let other = service.post("bot", &path, &json!({ "status": "failed" })).await;
    assert_eq!(other.problem(409), "outcome_stands");
}
