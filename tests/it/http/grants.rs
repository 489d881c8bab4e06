//! `/grants`, and the grants that an approval offers.

use axum::http::Method;
use countersign::domain::audit::entry::EventKind;
use serde_json::{Value, json};

use crate::support::service::{Answer, Service, approval_path, with};

fn refund(order: &str, amount: u32) -> Value {
    json!({ "order_id": order, "amount": amount })
}

fn grant(more: Value) -> Value {
    let grant = json!({
        "agent": "bot", "run_id": "run-1", "tool": "issue_refund", "when": r#"args.order_id == "O-1""#,
        "ttl": "1h", "max_uses": 2,
    });
    with(grant, more)
}

async fn make(service: &Service, more: Value) -> Answer {
    service.post("ana", "/grants", &grant(more)).await
}

#[tokio::test]
async fn a_reviewer_makes_a_grant_lists_it_and_takes_it_back() {
    let service = Service::start().await;
    let made = make(&service, json!({ "reason": "they asked for it" })).await;
    assert_eq!(made.status, 201, "{made:?}");
    let made = made.json();
    assert_eq!((&made["state"], &made["maker"], &made["uses"]), (&json!("live"), &json!("ana"), &json!(0)));
    assert_eq!(made["lifts"], json!({ "rules": [], "default": true }));
    assert_eq!(made["when"], r#"args.order_id == "O-1""#);

    assert_eq!(service.decide("issue_refund", refund("O-1", 300), "t1").await.status, 200);
    assert_eq!(service.decide("issue_refund", refund("O-2", 300), "t2").await.status, 202);

    let listed = service.get("ben", "/grants?run_id=run-1&live=true").await.json();
    assert_eq!((&listed["items"][0]["id"], &listed["items"][0]["uses"]), (&made["id"], &json!(1)));
    let path = format!("/grants/{}", made["id"].as_str().unwrap());
    assert_eq!(service.request(Method::DELETE, &path).key("ben").send().await.status, 204);
    assert_eq!(service.decide("issue_refund", refund("O-1", 300), "t3").await.status, 202);
    let listed = service.get("ana", "/grants").await.json();
    assert_eq!((&listed["items"][0]["state"], &listed["items"][0]["revoked_by"]), (&json!("revoked"), &json!("ben")));
    assert_eq!(service.get("ana", "/grants?live=true").await.json()["items"], json!([]));
}

#[tokio::test]
async fn a_grant_wider_than_allowed_is_403_with_the_reason_and_recorded() {
    let service = Service::start().await;
    for (more, reason) in [
        (json!({ "ttl": "9h" }), "8h"),
        (json!({ "max_uses": 51 }), "50"),
        (json!({ "agent": "other-bot", "tool": "format_disk", "when": "true" }), "grantable"),
        (json!({ "agent": "other-bot" }), "may not use"),
    ] {
        let answer = make(&service, more).await;
        assert_eq!(answer.problem(403), "grant_too_wide");
        assert!(answer.json()["detail"].as_str().unwrap().contains(reason), "{answer:?}");
    }
    let recorded = service.logged(EventKind::RequestRefused).await;
    assert_eq!(recorded.len(), 4);
    assert_eq!(recorded[0].entry.reason_code.as_deref(), Some("grant_too_wide"));
}

#[tokio::test]
async fn a_condition_that_does_not_compile_is_422_with_the_place() {
    let service = Service::start().await;
    let answer = make(&service, json!({ "when": "args.order_id == \"O-1\" &&\nargs.amout < 5" })).await;
    assert_eq!(answer.problem(422), "invalid_condition");
    let problem = answer.json();
    assert_eq!((&problem["field"], &problem["faults"][0]["line"]), (&json!("when"), &json!(2)));
    assert!(problem["faults"][0]["column"].as_u64().unwrap() >= 1);
    assert!(problem["detail"].as_str().unwrap().contains("line 2"), "{problem}");
    assert_eq!(make(&service, json!({ "when": "" })).await.problem(422), "invalid_condition");
}

#[tokio::test]
async fn what_is_no_grant_is_400_with_the_field() {
    let service = Service::start().await;
    for (more, field) in [
        (json!({ "ttl": "soon" }), "ttl"),
        (json!({ "ttl": "0s" }), "ttl"),
        (json!({ "max_uses": 0 }), "max_uses"),
        (json!({ "run_id": "a b" }), "run_id"),
    ] {
        let answer = make(&service, more).await;
        assert_eq!(answer.problem(400), "invalid_field");
        assert_eq!(answer.json()["field"], field);
    }
    assert_eq!(make(&service, json!({ "rules": ["small-refund"] })).await.problem(400), "invalid");
    assert_eq!(make(&service, json!({ "tool": "no_tool" })).await.problem(400), "invalid");
    let mut without = grant(json!({}));
    without.as_object_mut().unwrap().remove("when");
    assert_eq!(service.post("ana", "/grants", &without).await.status, 400);
}

#[tokio::test]
async fn the_same_request_under_a_key_is_the_same_grant() {
    let service = Service::start().await;
    let send = |more| {
        service.request(Method::POST, "/grants").key("ana").header("idempotency-key", "k1").json(&grant(more)).send()
    };
    let first = send(json!({})).await;
    let again = send(json!({})).await;
    assert_eq!((first.status, again.status), (201, 201));
    assert_eq!(first.json()["id"], again.json()["id"]);
    assert_eq!(send(json!({ "max_uses": 1 })).await.problem(409), "idempotency_conflict");
}

#[tokio::test]
async fn grants_are_for_reviewers() {
    let service = Service::start().await;
    for holder in ["bot", "root", "iris", "writer"] {
        assert_eq!(service.post(holder, "/grants", &grant(json!({}))).await.problem(403), "wrong_role", "{holder}");
        assert_eq!(service.get(holder, "/grants").await.problem(403), "wrong_role", "{holder}");
    }
    let unknown = "/grants/gra_01980d5e-7a4c-7f3e-9a55-0a3c1d2e4f60";
    assert_eq!(service.request(Method::DELETE, unknown).key("ana").send().await.problem(404), "not_found");
}

#[tokio::test]
async fn a_decision_takes_one_of_the_grants_that_the_approval_offers() {
    let service = Service::start().await;
    let held = service.decide("issue_refund", refund("O-1", 300), "t1").await.json();
    let path = approval_path(&held["approval"]);
    let seen = service.get("ana", &path).await.json();
    let offers = seen["grant_offers"].as_array().unwrap();
    assert!((1..=3).contains(&offers.len()));
    assert_eq!((&offers[0]["scope"], &offers[0]["would_have_covered"]), (&json!("same_arguments"), &json!(1)));
    assert!(service.get("bot", &path).await.json().get("grant_offers").is_none());
    let taken = json!({ "when": offers[0]["when"], "ttl": offers[0]["ttl"], "max_uses": offers[0]["max_uses"] });
    let decide = |word: &str, grant: &Value| {
        let body = json!({ "decision": word, "args_hash": seen["args_hash"], "grant": grant });
        let (service, path) = (&service, format!("{path}/decision"));
        async move { service.post("ana", &path, &body).await }
    };
    let not_offered = with(taken.clone(), json!({ "when": "true", "max_uses": 49 }));
    assert_eq!(decide("approve", &not_offered).await.problem(409), "offer_gone");
    assert_eq!(decide("deny", &taken).await.problem(400), "invalid_field");
    let decided = decide("approve", &taken).await;
    assert_eq!((decided.status, &decided.json()["state"]), (200, &json!("approved")));
    assert_eq!(service.decide("issue_refund", refund("O-1", 300), "t2").await.status, 200);
    assert_eq!(service.decide("issue_refund", refund("O-1", 301), "t3").await.status, 202);
}
