//! What auditors and administrators read.

use axum::http::Method;
use countersign::domain::{
    audit::{chain, entry::EventKind},
    ids::DecisionId,
};
use serde_json::json;

use crate::support::service::{Service, approval_path, call, decision};

#[tokio::test]
async fn an_entry_is_shown_with_its_place_and_hashes_and_without_arguments() {
    let service = Service::start().await;
    service.decide("add_note", json!({ "text": "hunter2" }), "t1").await;
    let answer = service.get("iris", "/audit?event=decision").await;
    assert!(!answer.text().contains("hunter2"));
    let entry = answer.json()["items"][0].clone();
    let sealed = &service.logged(EventKind::Decision).await[0];
    assert_eq!(entry["seq"], sealed.seq);
    assert_eq!(entry["leaf"], hex::encode(sealed.leaf));
    assert_eq!(entry["chain"], hex::encode(sealed.chain));
    assert_eq!(entry["at"], service.in_the_future(std::time::Duration::ZERO));
    assert_eq!((&entry["actor"], &entry["agent"], &entry["tool"]), (&json!("bot"), &json!("bot"), &json!("add_note")));
    assert_eq!((&entry["verdict"], &entry["reason_code"]), (&json!("allow_audited"), &json!("default")));
    assert!(entry["payload"].is_string());
}

#[tokio::test]
async fn every_filter_finds_what_it_names_and_nothing_else() {
    let service = Service::start().await;
    let asked = call("get_order", json!({ "order_id": "A" }), "t1");
    service.request(Method::POST, "/decide").key("bot").json(&asked).header("x-request-id", "req-1").send().await;
    service.decide("issue_refund", json!({ "order_id": "A", "amount": 7 }), "t2").await;
    let held = service.held("t3").await;
    let path = approval_path(&held);
    service.post("ana", &format!("{path}/decision"), &decision("approve")).await;
    let count = async |query: &str| {
        service.get("iris", &format!("/audit?{query}")).await.json()["items"].as_array().unwrap().len()
    };
    let code = held["code"].as_str().unwrap();
    let id = held["id"].as_str().unwrap();
    assert_eq!(count("run_id=run-1").await, 6);
    assert_eq!(count("run_id=run-2").await, 0);
    assert_eq!(count("tool=get_order").await, 1);
    assert_eq!(count("agent=bot&event=decision").await, 3);
    assert_eq!(count("actor=ana").await, 2);
    assert_eq!(count("verdict=allow_audited").await, 1);
    assert_eq!(count("rule=small-refund").await, 1);
    assert_eq!(count("event=approval.approved").await, 1);
    assert_eq!(count(&format!("approval={code}")).await, 4);
    assert_eq!(count(&format!("approval={}", code.to_lowercase())).await, 4);
    assert_eq!(count(&format!("approval={id}")).await, 4);
    assert_eq!(count("request_id=req-1").await, 1);
    assert_eq!(count("run_id=run-1&from=2026-11-30T12:00:00Z").await, 6);
    assert_eq!(count("run_id=run-1&until=2026-11-30T12:00:00Z").await, 0);
}

#[tokio::test]
async fn the_log_is_read_page_by_page_newest_first() {
    let service = Service::start().await;
    for id in ["t1", "t2", "t3", "t4", "t5"] {
        service.decide("get_order", json!({ "order_id": "A" }), id).await;
    }
    let mut seen = Vec::new();
    let mut path = "/audit?event=decision&limit=2".to_owned();
    loop {
        let page = service.get("iris", &path).await.json();
        seen.extend(page["items"].as_array().unwrap().iter().map(|item| item["tool_use_id"].clone()));
        // What comes in between moves nothing.
        service.decide("get_order", json!({ "order_id": "A" }), "later").await;
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/audit?event=decision&limit=2&cursor={cursor}");
    }
    assert_eq!(seen, ["t5", "t4", "t3", "t2", "t1"]);
}

#[tokio::test]
async fn the_whole_log_is_checked() {
    let service = Service::start().await;
    service.decide("get_order", json!({ "order_id": "A" }), "t1").await;
    let head = service.store.head().await.unwrap();
    assert_eq!(
        service.get("iris", "/audit/verify").await.json(),
        json!({
            "ok": true,
            "checked": head.seq,
            "head": { "seq": head.seq, "chain": hex::encode(head.chain) },
            "fault": null,
        })
    );
}

#[tokio::test]
async fn checkpoints_are_listed_with_the_text_that_is_signed() {
    let service = Service::start().await;
    let made = service.app.make_checkpoint(None).await.unwrap().unwrap();
    let listed = service.get("iris", "/audit/checkpoints").await.json();
    let item = &listed["items"][0];
    assert_eq!((&item["size"], &item["root"]), (&json!(made.size), &json!(hex::encode(made.root))));
    assert_eq!(item["signed_text"], made.signed_text());
    assert_eq!(item["signature"], json!(null));
}

#[tokio::test]
async fn why_tells_the_whole_story_of_a_call() {
    let service = Service::start().await;
    let held = service.held("t1").await;
    let path = approval_path(&held);
    service.post("ana", &format!("{path}/decision"), &decision("approve")).await;
    let story = service.get("iris", &format!("/why/{}", held["id"].as_str().unwrap())).await.json();
    let events: Vec<&str> =
        story["entries"].as_array().unwrap().iter().map(|entry| entry["entry"]["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["decision", "approval.requested", "approval.vote", "approval.approved"]);
    assert_eq!(story["entries"][0]["payload"]["args"], json!({ "customer": "c-17" }));
}

#[tokio::test]
async fn a_decision_is_explained_with_every_rule() {
    let service = Service::start().await;
    let decided = service.decide("issue_refund", json!({ "order_id": "A", "amount": 7 }), "t1").await.json();
    let id = decided["decision_id"].as_str().unwrap();
    assert!(DecisionId::parse(id).is_ok());
    let explained = service.get("iris", &format!("/decisions/{id}")).await.json();
    assert_eq!(explained["entry"]["rule"], "small-refund");
    assert_eq!(explained["entry"]["detail"]["rules"], json!({ "small-refund": "true", "absurd-refund": "false" }));
    assert_eq!(explained["payload"]["args"]["amount"], 7);
    let why = service.get("iris", &format!("/why/{id}")).await.json();
    assert_eq!(why["entries"][0], explained);
    for path in ["/why/x", "/why/dec_01980d5e-7a4c-7f3e-9a55-0a3c1d2e4f60", "/decisions/apr_1"] {
        assert_eq!(service.get("iris", path).await.problem(404), "not_found");
    }
}

#[tokio::test]
async fn the_policy_in_force_is_shown_to_administrators() {
    let service = Service::start().await;
    let policy = service.get("root", "/policy").await.json();
    assert_eq!(policy["version"], service.app.policy().version().as_str());
    assert_eq!(policy["files"], json!([{ "path": "policy.toml", "text": crate::support::service::POLICY }]));
    assert!(policy["accepted_at"].is_string());
    assert_eq!(policy["agents"], json!(["bot", "other-bot"]));
    let tools = policy["tools"].as_array().unwrap();
    let refund = tools.iter().find(|tool| tool["name"] == "issue_refund").unwrap();
    assert_eq!(refund["rules"], json!(["small-refund", "absurd-refund"]));
    assert_eq!((&refund["risk"], &refund["default"]), (&json!("send"), &json!("require_approval")));
}

#[tokio::test]
async fn the_log_stays_one_chain_whatever_is_asked() {
    let service = Service::start().await;
    service.approved("t1").await;
    service.get("bot", "/audit").await;
    service.decide("no_such_tool", json!({}), "t2").await;
    let entries = service.store.entries_after(0, 10_000).await.unwrap();
    let end = entries.iter().try_fold(chain::Head::EMPTY, chain::check).unwrap();
    assert_eq!(end, service.store.head().await.unwrap());
}
