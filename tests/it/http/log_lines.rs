//! What the service's own log says of a refusal, and what it does not.

use axum::http::Method;
use countersign::telemetry::Format;
use serde_json::{Value, json};

use crate::support::{
    broken_store::BrokenStore,
    keys,
    log::Lines,
    service::{Service, call, decision, with},
};

fn refusals(text: &str) -> Vec<Value> {
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["message"] == "refused").collect()
}

#[tokio::test]
async fn a_refused_call_is_logged_with_its_reason_and_both_ids() {
    let service = Service::start().await;
    let lines = Lines::default();
    let guard = lines.collect(Format::Json, "trace");
    let asked = call("no_such_tool", json!({ "password": "hunter2" }), "t1");
    service.request(Method::POST, "/decide").key("bot").json(&asked).header("x-request-id", "req-1").send().await;
    drop(guard);
    let refusals = refusals(&lines.text());
    assert_eq!(refusals.len(), 1);
    let line = &refusals[0];
    assert_eq!((&line["reason"], &line["status"]), (&json!("unknown_tool"), &json!(403)));
    assert_eq!((&line["actor"], &line["run"], &line["tool"]), (&json!("bot"), &json!("run-1"), &json!("no_such_tool")));
    assert_eq!((&line["request_id"], &line["route"]), (&json!("req-1"), &json!("/decide")));
    assert!(uuid::Uuid::parse_str(line["own_request_id"].as_str().unwrap()).is_ok());
}

#[tokio::test]
async fn no_line_holds_an_argument_a_sentence_or_a_key() {
    let service = Service::start().await;
    let without_store = Service::on_broken(BrokenStore::Refusing, |_| {});
    let lines = Lines::default();
    let guard = lines.collect(Format::Json, "trace");
    let secret = json!({ "customer": "hunter2" });
    let wrong = json!({ "order_id": ["hunter2"], "hunter2": "hunter2" });
    for service in [&service, &without_store] {
        service.decide("no_such_tool", secret.clone(), "t1").await;
        service.decide("get_order", wrong.clone(), "t2").await;
        let rationale = with(call("delete_customer", secret.clone(), "t3"), json!({ "rationale": "hunter2" }));
        let held = service.post("bot", "/decide", &rationale).await;
        if held.status == 202 {
            let path = format!("/approvals/{}/decision", held.json()["approval"]["id"].as_str().unwrap());
            service.post("ana", &path, &with(decision("deny"), json!({ "reason": "hunter2" }))).await;
        }
        service.post("bot", "/decide", &with(call("get_order", json!("hunter2"), "t4"), json!({}))).await;
        service.request(Method::POST, "/decide").key("bot").text("{\"hunter2\":\"hunter2").send().await;
        service.request(Method::GET, "/tools?key=hunter2").header("authorization", "Bearer hunter2").send().await;
    }
    drop(guard);
    let text = lines.text();
    assert!(refusals(&text).len() >= 8, "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    assert!(!text.contains(keys::text("bot").expose()));
}

#[tokio::test]
async fn what_went_wrong_inside_is_logged_with_the_id_of_the_request() {
    for (store, cause) in
        [(BrokenStore::Refusing, "the cable is cut"), (BrokenStore::Panicking, "the driver has a fault")]
    {
        let service = Service::on_broken(store, |_| {});
        let lines = Lines::default();
        let guard = lines.collect(Format::Json, "trace");
        service.request(Method::GET, "/audit").key("iris").header("x-request-id", "req-9").send().await;
        drop(guard);
        let text = lines.text();
        let failed = text.lines().find(|line| line.contains("a request failed")).unwrap();
        let failed: Value = serde_json::from_str(failed).unwrap();
        assert_eq!((&failed["level"], &failed["request_id"]), (&json!("ERROR"), &json!("req-9")));
        assert!(failed["cause"].as_str().unwrap().contains(cause));
    }
}
