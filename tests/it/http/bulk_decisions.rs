//! `/approvals/decisions`: many decisions, all of them or none.

use countersign::domain::audit::entry::EventKind;
use serde_json::{Value, json};

use crate::support::service::{Service, approval_path, call};

/// Holds a deletion of this customer.
async fn held(service: &Service, customer: &str) -> Value {
    let answer = service.decide("delete_customer", json!({ "customer": customer }), customer).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.json()
}

fn on(held: &Value, decision: &str) -> Value {
    json!({ "id": held["approval"]["id"], "decision": decision, "args_hash": held["args_hash"] })
}

fn all(decisions: &[Value]) -> Value {
    json!({ "decisions": decisions })
}

async fn state(service: &Service, held: &Value) -> Value {
    service.get("bot", &approval_path(&held["approval"])).await.json()["state"].clone()
}

#[tokio::test]
async fn all_decisions_are_taken_together() {
    let service = Service::start().await;
    let (first, second) = (held(&service, "a").await, held(&service, "b").await);
    let mut denial = on(&second, "deny");
    denial["message_to_agent"] = "not this one".into();
    let answer = service.post("ana", "/approvals/decisions", &all(&[on(&first, "approve"), denial])).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["items"].as_array().unwrap().len(), 2);
    assert_eq!(state(&service, &first).await, "approved");
    let denied = service.get("bot", &approval_path(&second["approval"])).await.json();
    assert_eq!((&denied["state"], &denied["message"]), (&json!("denied"), &json!("not this one")));
    // Sent again, nothing changes.
    let again = all(&[on(&first, "approve"), on(&second, "deny")]);
    assert_eq!(service.post("ana", "/approvals/decisions", &again).await.status, 200);
    assert_eq!(service.logged(EventKind::ApprovalVote).await.len(), 1);
}

#[tokio::test]
async fn one_that_cannot_be_taken_keeps_all_from_being_taken_and_is_named() {
    let service = Service::start().await;
    let (first, second, third) = (held(&service, "a").await, held(&service, "b").await, held(&service, "c").await);
    let path = format!("{}/decision", approval_path(&third["approval"]));
    let early = json!({ "decision": "deny", "args_hash": third["args_hash"] });
    assert_eq!(service.post("ben", &path, &early).await.status, 200);
    let mut stale = on(&second, "approve");
    stale["args_hash"] = first["args_hash"].clone();
    let unknown = json!({
        "id": "apr_01980d5e-7a4c-7f3e-9a55-0a3c1d2e4f60", "decision": "approve", "args_hash": first["args_hash"],
    });
    let decisions = all(&[on(&first, "approve"), stale, on(&third, "approve"), unknown]);
    let answer = service.post("ana", "/approvals/decisions", &decisions).await;
    assert_eq!(answer.problem(409), "in_the_way");
    let body = answer.json();
    let named = |held: &Value| {
        let listed = body["in_the_way"].as_array().unwrap();
        listed.iter().find(|problem| problem["id"] == held["approval"]["id"]).cloned()
    };
    assert_eq!(body["in_the_way"].as_array().unwrap().len(), 3);
    assert_eq!(named(&first), None);
    assert_eq!(named(&second).unwrap()["code"], "stale_args");
    assert_eq!(named(&second).unwrap()["current"], second["args_hash"]);
    let decided = named(&third).unwrap();
    assert_eq!((&decided["code"], &decided["by"]), (&json!("decided"), &json!("ben")));
    assert_eq!(state(&service, &first).await, "pending");
    assert!(service.logged(EventKind::ApprovalVote).await.is_empty());
}

#[tokio::test]
async fn what_asks_for_a_second_click_is_decided_by_itself() {
    let service = Service::start().await;
    let first = held(&service, "a").await;
    let erase = service.post("other-bot", "/decide", &call("format_disk", json!({}), "t9")).await.json();
    let answer =
        service.post("ana", "/approvals/decisions", &all(&[on(&first, "approve"), on(&erase, "approve")])).await;
    assert_eq!(answer.problem(409), "in_the_way");
    assert_eq!(answer.json()["in_the_way"][0]["code"], "not_eligible");
    assert_eq!(state(&service, &first).await, "pending");
    // To deny takes one click.
    let deny = all(&[on(&first, "deny"), on(&erase, "deny")]);
    assert_eq!(service.post("ana", "/approvals/decisions", &deny).await.status, 200);
}

#[tokio::test]
async fn decisions_that_are_none_are_refused_with_the_place() {
    let service = Service::start().await;
    let first = held(&service, "a").await;
    for (decisions, told) in [
        (vec![], "`decisions`"),
        (vec![on(&first, "approve"), on(&first, "deny")], "`decisions[1].id`"),
        (vec![on(&first, "perhaps")], "decisions[0].decision"),
    ] {
        let answer = service.post("ana", "/approvals/decisions", &all(&decisions)).await;
        assert_eq!(answer.problem(400), "invalid_field");
        assert!(answer.text().contains(told), "{}", answer.text());
    }
    assert_eq!(service.post("bot", "/approvals/decisions", &all(&[on(&first, "approve")])).await.status, 403);
}
