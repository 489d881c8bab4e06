//! Runs over HTTP: declaring, asking, parking, resuming, ending, stopping; and pausing agents.

use std::time::Duration;

use axum::http::Method;
use countersign::domain::audit::entry::EventKind;
use serde_json::{Value, json};

use crate::support::{
    clock::START,
    service::{Answer, LEASE, Service, call, decision, deletion, with},
};

/// A service in which `desk` is the orchestrator of `bot` and `other-bot`, and `scribe` that of `bot` alone.
async fn start() -> Service {
    let service = Service::start().await;
    service.add_orchestrator("desk", &["bot", "other-bot"]).await;
    service.add_orchestrator("scribe", &["bot"]).await;
    service
}

async fn put(service: &Service, holder: &str, path: &str, body: Value) -> Answer {
    service.request(Method::PUT, path).key(holder).json(&body).send().await
}

async fn park(service: &Service, bytes: &[u8], if_match: Option<&str>) -> Answer {
    let request = service.request(Method::PUT, "/runs/run-1/parked").key("bot").bytes(bytes);
    let request = request.header("content-type", "application/x-state");
    match if_match {
        Some(tag) => request.header("if-match", tag).send().await,
        None => request.send().await,
    }
}

async fn resume(service: &Service) -> Answer {
    service.request(Method::POST, "/runs/run-1/resume").key("bot").send().await
}

async fn decide_held(service: &Service, id: &str, word: &str) -> String {
    let path = crate::support::service::approval_path(&service.held(id).await);
    let answer = service.post("ana", &format!("{path}/decision"), &decision(word)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    path
}

#[tokio::test]
async fn a_run_is_declared_once_and_told_what_differs() {
    let service = start().await;
    let body = json!({ "agent": "bot", "request": "refund order 7", "on_behalf_of": "cy" });
    for _ in 0..2 {
        let answer = put(&service, "desk", "/runs/run-1", body.clone()).await;
        assert_eq!((answer.status, answer.text()), (204, ""));
    }
    let answer = put(&service, "scribe", "/runs/run-1", json!({ "request": "refund order 8" })).await;
    assert_eq!(answer.problem(409), "written_once");
    assert_eq!(answer.json()["field"], "request");
    assert_eq!(put(&service, "scribe", "/runs/run-1", json!({})).await.status, 204);
    assert_eq!(service.get("bot", "/runs/run-1").await.json()["status"], "running");
    assert_eq!(service.logged(EventKind::RunDeclared).await.len(), 1);
}

#[tokio::test]
async fn a_declaration_that_cannot_be_says_what_is_wrong() {
    let service = start().await;
    for (body, field) in [
        (json!({}), "agent"),
        (json!({ "agent": "no agent" }), "agent"),
        (json!({ "agent": "bot", "request": " \n" }), "request"),
        (json!({ "agent": "bot", "on_behalf_of": "" }), "on_behalf_of"),
        (json!({ "agent": "bot", "on_behalf_of": "x".repeat(257) }), "on_behalf_of"),
        (json!({ "agent": "bot", "parent_agent": "bot" }), "parent_agent"),
        (json!({ "agent": "bot", "labels": [] }), "labels"),
    ] {
        let answer = put(&service, "desk", "/runs/run-1", body.clone()).await;
        assert_eq!(answer.problem(400), "invalid_field", "{body}");
        assert!(answer.json()["detail"].as_str().unwrap().contains(field), "{answer:?}");
    }
    assert_eq!(put(&service, "desk", "/runs/no%20run", json!({ "agent": "bot" })).await.problem(400), "invalid_path");
    assert_eq!(put(&service, "scribe", "/runs/r", json!({ "agent": "other-bot" })).await.problem(404), "not_found");
    let parent = json!({ "agent": "bot", "parent_run_id": "nowhere" });
    assert_eq!(put(&service, "desk", "/runs/r", parent).await.problem(409), "parent_unknown");
    let itself = json!({ "agent": "bot", "parent_run_id": "r" });
    assert_eq!(put(&service, "desk", "/runs/r", itself).await.problem(409), "parent_refused");
    for agent in ["bot", "other-bot"] {
        assert_eq!(put(&service, "desk", "/runs/both", json!({ "agent": agent })).await.status, 204);
    }
    let either = json!({ "agent": "bot", "parent_run_id": "both" });
    assert_eq!(put(&service, "desk", "/runs/r", either.clone()).await.problem(409), "parent_ambiguous");
    let one = with(either, json!({ "parent_agent": "other-bot" }));
    assert_eq!(put(&service, "desk", "/runs/r", one).await.status, 204);
}

#[tokio::test]
async fn later_words_of_the_human_are_added_until_the_run_ends() {
    let service = start().await;
    let more = json!({ "text": "and order 8" });
    assert_eq!(service.post("scribe", "/runs/run-1/requests", &more).await.status, 204);
    assert_eq!(service.post("desk", "/runs/run-1/requests", &more).await.problem(400), "invalid_query");
    assert_eq!(service.post("desk", "/runs/run-1/requests?agent=bot", &more).await.status, 204);
    assert_eq!(service.post("scribe", "/runs/run-1/requests?agent=other-bot", &more).await.problem(404), "not_found");
    let long = json!({ "text": "x".repeat(65_536) });
    assert_eq!(service.post("scribe", "/runs/run-1/requests", &long).await.problem(413), "request_too_long");
    let blank = json!({ "text": "" });
    assert_eq!(service.post("scribe", "/runs/run-1/requests", &blank).await.problem(400), "invalid_field");
    let end = service.request(Method::POST, "/runs/run-1/end").key("scribe").send().await;
    assert_eq!(end.status, 204);
    assert_eq!(service.post("scribe", "/runs/run-1/requests", &more).await.problem(409), "run_ended");
    let log = serde_json::to_string(&service.logged(EventKind::RunRequested).await[0].entry).unwrap();
    assert!(!log.contains("order 8"));
}

#[tokio::test]
async fn bytes_are_parked_and_replaced_by_who_has_seen_them() {
    let service = start().await;
    assert_eq!(park(&service, b"a", Some("\"0\"")).await.problem(412), "parked_differs");
    assert_eq!(park(&service, b"a", Some("*")).await.problem(412), "parked_differs");
    let first = park(&service, b"first", None).await;
    assert_eq!((first.status, first.text()), (204, ""));
    let etag = first.header("etag").to_owned();
    assert_eq!(park(&service, b"second", None).await.problem(428), "if_match_required");
    assert_eq!(park(&service, b"second", Some("\"0\"")).await.problem(412), "parked_differs");
    assert_eq!(park(&service, b"second", Some(&format!("W/{etag}"))).await.problem(412), "parked_differs");
    assert_eq!(park(&service, b"second", Some("no quotes")).await.problem(400), "invalid_header");
    let second = park(&service, b"\xff\x00", Some(&format!("\"0\", {etag}"))).await;
    assert_eq!(second.status, 204);
    assert_eq!(park(&service, b"third", Some(&etag)).await.problem(412), "parked_differs");
    let seen = service.get("bot", "/runs/run-1").await.json();
    let etag = second.header("etag");
    assert_eq!(seen["parked"], json!({ "content_type": "application/x-state", "etag": etag, "base64": "/wA=" }));
    assert_eq!(park(&service, b"text", Some("*")).await.status, 204);
    assert_eq!(service.get("bot", "/runs/run-1").await.json()["parked"]["text"], "text");
}

#[tokio::test]
async fn a_mebibyte_can_be_parked_and_no_byte_more() {
    let service = start().await;
    let most = vec![b'x'; 1024 * 1024];
    let answer = park(&service, &[most.as_slice(), b"x"].concat(), None).await;
    assert_eq!(answer.problem(413), "body_too_large");
    assert_eq!(park(&service, &most, None).await.status, 204);
}

#[tokio::test]
async fn another_agents_run_does_not_exist() {
    let service = start().await;
    park(&service, b"state", None).await;
    decide_held(&service, "t1", "approve").await;
    for path in ["/runs/run-1", "/runs/run-1?agent=bot", "/runs?agent=bot"] {
        assert_eq!(service.get("other-bot", path).await.problem(404), "not_found", "{path}");
    }
    assert_eq!(service.get("other-bot", "/runs").await.json()["items"], json!([]));
    let answer = service.request(Method::POST, "/runs/run-1/resume").key("other-bot").send().await;
    assert_eq!(answer.problem(404), "not_found");
    assert_eq!(service.get("bot", "/runs/run-1?agent=bot").await.status, 200);
    assert_eq!(service.get("bot", "/runs/nothing").await.problem(404), "not_found");
}

#[tokio::test]
async fn a_worker_goes_on_with_what_another_one_parked() {
    let service = start().await;
    let refused = with(call("issue_refund", json!({ "order_id": "7", "amount": 60_000 }), "t1"), json!({ "turn": 2 }));
    let invalid = with(call("issue_refund", json!({ "order_id": "7" }), "t2"), json!({ "turn": 2 }));
    let allowed = with(call("add_note", json!({ "text": "x" }), "t3"), json!({ "turn": 2 }));
    let denied = with(call("delete_customer", deletion(), "t4"), json!({ "turn": 2 }));
    let done = with(call("delete_customer", json!({ "customer": "c-18" }), "t5"), json!({ "turn": 2 }));
    service.post("bot", "/decide", &refused).await;
    service.post("bot", "/decide", &invalid).await;
    let noted = service.post("bot", "/decide", &allowed).await.json();
    let denied = service.post("bot", "/decide", &denied).await.json();
    let done = service.post("bot", "/decide", &done).await.json();
    let state = park(&service, b"state", None).await;
    let waiting = resume(&service).await;
    assert_eq!(waiting.problem(409), "run_not_ready");
    assert_eq!(waiting.json()["run_status"], "awaiting_approval");
    let calls = service.get("bot", "/runs/run-1").await.json()["calls"].clone();
    let code = denied["approval"]["code"].as_str().unwrap();
    assert_eq!(calls[3]["tool_result"]["content"], format!("awaiting approval {code}"));
    let path = |held: &Value| crate::support::service::approval_path(&held["approval"]);
    let no = with(decision("deny"), json!({ "message_to_agent": "not this one" }));
    service.post("ana", &format!("{}/decision", path(&denied)), &no).await;
    let yes = json!({ "decision": "approve", "args_hash": done["args_hash"] });
    service.post("ana", &format!("{}/decision", path(&done)), &yes).await;
    let listed = service.get("bot", "/runs?status=ready").await.json();
    let parked = json!({ "content_type": "application/x-state", "etag": state.header("etag") });
    let ready = json!({ "run_id": "run-1", "agent": "bot", "status": "ready", "turn": 2, "parked": parked });
    assert_eq!(listed, json!({ "items": [ready], "next_cursor": null }));

    let claim = json!({ "args": { "customer": "c-18" } });
    let claimed = service.post("bot", &format!("{}/claim", path(&done)), &claim).await.json();
    let outcome = json!({ "claim_id": claimed["claim_id"], "status": "succeeded", "result": { "gone": true } });
    service.post("bot", &format!("{}/outcome", path(&done)), &outcome).await;
    let outcome = json!({ "status": "failed", "result": "no space" });
    let decision = noted["decision_id"].as_str().unwrap();
    service.post("bot", &format!("/decisions/{decision}/outcome"), &outcome).await;

    let resumed = resume(&service).await;
    assert_eq!(resumed.status, 200);
    let resumed = resumed.json();
    assert_eq!((&resumed["turn"], &resumed["status"]), (&json!(2), &json!("running")));
    assert_eq!(resumed["parked"]["text"], "state");
    assert_eq!(resumed["lease_expires_at"], service.in_the_future(LEASE));
    let told: Vec<_> = resumed["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| {
            let result = &call["tool_result"];
            (
                call["tool_use_id"].as_str().unwrap(),
                call["verdict"].as_str().unwrap(),
                result["is_error"].clone(),
                result["content"].clone(),
            )
        })
        .collect();
    let unavailable = json!("tool unavailable");
    assert_eq!((told[0].0, told[0].1, &told[0].3), ("t1", "deny", &unavailable));
    assert!(told[1].3.as_str().unwrap().starts_with("invalid arguments\n"), "{told:?}");
    assert_eq!(told[2], ("t3", "allow_audited", json!(true), json!("no space")));
    assert_eq!(told[3], ("t4", "require_approval", json!(true), json!("declined by reviewer: not this one")));
    assert_eq!(told[4], ("t5", "require_approval", json!(false), json!("{\"gone\":true}")));
    assert_eq!(resumed["calls"][4]["result"], json!({ "gone": true }));
    assert_eq!(resumed["calls"][4]["outcome"], "succeeded");

    let second = resume(&service).await;
    assert_eq!(second.problem(409), "run_leased");
    assert_eq!(second.json()["lease_expires_at"], service.in_the_future(LEASE));
    assert_eq!(service.get("bot", "/runs?status=ready").await.json()["items"], json!([]));
    service.clock.advance(LEASE);
    assert_eq!(resume(&service).await.status, 200);
}

#[tokio::test]
async fn an_approved_call_has_no_result_yet() {
    let service = start().await;
    decide_held(&service, "t1", "approve").await;
    let resumed = resume(&service).await.json();
    assert_eq!(resumed["calls"][0]["approval"]["state"], "approved");
    assert!(resumed["calls"][0].get("tool_result").is_none());
    assert!(resumed.get("parked").is_none());
}

#[tokio::test]
async fn runs_are_listed_by_status_and_page_by_page() {
    let service = start().await;
    for name in ["a", "b", "c"] {
        put(&service, "scribe", &format!("/runs/{name}"), json!({})).await;
    }
    service.request(Method::POST, "/runs/b/end").key("scribe").send().await;
    let names =
        |page: &Value| page["items"].as_array().unwrap().iter().map(|run| run["run_id"].clone()).collect::<Vec<_>>();
    let running = service.get("bot", "/runs?status=running&limit=1").await.json();
    assert_eq!(names(&running), ["a"]);
    let next = format!("/runs?status=running&limit=1&cursor={}", running["next_cursor"].as_str().unwrap());
    let last = service.get("bot", &next).await.json();
    assert_eq!((names(&last), &last["next_cursor"]), (vec![json!("c")], &Value::Null));
    assert_eq!(names(&service.get("bot", "/runs?status=ended").await.json()), ["b"]);
    assert_eq!(names(&service.get("bot", "/runs").await.json()), ["a", "b", "c"]);
    for wrong in ["status=done", "limit=0", "cursor=x", "state=ready"] {
        assert_eq!(service.get("bot", &format!("/runs?{wrong}")).await.problem(400), "invalid_query", "{wrong}");
    }
}

#[tokio::test]
async fn nobody_waits_for_a_ready_run_while_the_process_stops() {
    let service = start().await;
    service.draining.send_replace(true);
    let waiting = service.request(Method::GET, "/runs?status=ready").key("bot").header("prefer", "wait=60").send();
    let answer = tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap();
    assert_eq!(answer.json()["items"], json!([]));
}

#[tokio::test]
async fn a_reviewer_stops_a_run_by_the_name_of_its_agent() {
    let service = start().await;
    let path = crate::support::service::approval_path(&service.held("t1").await);
    let stop = |query: &str| service.request(Method::POST, &format!("/runs/run-1/stop{query}")).key("ben").send();
    assert_eq!(stop("").await.problem(400), "invalid_query");
    assert_eq!(stop("?agent=other-bot").await.problem(404), "not_found");
    for _ in 0..2 {
        assert_eq!(stop("?agent=bot").await.status, 204);
    }
    assert_eq!(service.get("bot", &path).await.json()["state"], "cancelled");
    let refused = service.decide("get_order", json!({ "order_id": "7" }), "t2").await;
    assert_eq!((refused.status, &refused.json()["error"]), (403, &json!("tool unavailable")));
    assert_eq!(service.get("bot", "/runs/run-1").await.json()["status"], "ended");
    assert_eq!(service.logged(EventKind::RunStopped).await[0].entry.actor.name, "ben");
    let entries = service.get("iris", "/audit?run_id=run-1&event=run.stopped").await.json();
    assert_eq!((&entries["items"][0]["agent"], &entries["items"][0]["run_id"]), (&json!("bot"), &json!("run-1")));
}

#[tokio::test]
async fn a_paused_agent_learns_nothing_and_goes_on_when_an_admin_says_so() {
    let service = start().await;
    let ask = async |id| service.decide("get_order", json!({ "order_id": "7" }), id).await.status;
    assert_eq!(ask("t1").await, 200);
    assert_eq!(service.post("ben", "/agents/bot/pause", &json!({ "reason": "odd" })).await.status, 204);
    let refused = service.decide("get_order", json!({ "order_id": "7" }), "t2").await;
    assert_eq!((refused.status, &refused.json()["error"]), (403, &json!("tool unavailable")));
    assert_eq!(service.post("ben", "/agents/bot/resume", &json!({})).await.problem(403), "wrong_role");
    assert_eq!(service.request(Method::POST, "/agents/bot/resume").key("root").send().await.status, 204);
    assert_eq!(ask("t3").await, 200);
    assert_eq!(service.post("ben", "/agents/no%20agent/pause", &json!({})).await.problem(400), "invalid_path");
    let entries = service.get("iris", "/audit?agent=bot&event=agent.paused").await.json();
    assert_eq!(entries["items"][0]["actor"], "ben");
}

#[tokio::test]
async fn a_key_revoked_meanwhile_changes_no_run() {
    let service = start().await;
    let records = service.store.keys().await.unwrap();
    let id = |name: &str| records.iter().find(|key| key.name().as_str() == name).unwrap().id();
    for name in ["scribe", "ben", "bot"] {
        let mut tx = service.store.begin().await.unwrap();
        tx.revoke_key(id(name), START).await.unwrap();
        tx.commit().await.unwrap();
    }
    assert_eq!(
        put(&service, "scribe", "/runs/run-1", json!({ "request": "x y z" })).await.problem(401),
        "unauthenticated"
    );
    assert_eq!(service.post("ben", "/agents/bot/pause", &json!({})).await.problem(401), "unauthenticated");
    assert_eq!(park(&service, b"state", None).await.problem(401), "unauthenticated");
}
