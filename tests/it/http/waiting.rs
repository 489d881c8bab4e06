//! `Prefer: wait=N`: the answer comes when people have decided.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::service::{Answer, Call, Service, approval_path, call, decision, deletion, with};

fn patient(service: &Service, body: &Value) -> Call {
    service.request(Method::POST, "/decide").key("bot").json(body).header("prefer", "respond-async, wait=60")
}

/// Sends `request`, lets it wait, does `meanwhile`, and returns its answer.
async fn waiting(service: &Service, request: Call, meanwhile: impl Future<Output = ()>) -> Answer {
    let mut changes = service.store.changes();
    let asked = tokio::spawn(request.send());
    // The call is held as soon as its approval is announced.
    changes.recv().await.unwrap();
    meanwhile.await;
    asked.await.unwrap()
}

async fn pending(service: &Service) -> String {
    approval_path(&service.get("ana", "/approvals?state=pending").await.json()["items"][0])
}

#[tokio::test]
async fn a_call_is_claimed_as_soon_as_it_is_approved() {
    let service = Service::start().await;
    let asked = with(call("delete_customer", deletion(), "t1"), json!({ "claim": true }));
    let answer = waiting(&service, patient(&service, &asked), async {
        let path = pending(&service).await;
        service.post("ana", &format!("{path}/decision"), &decision("approve")).await;
    });
    let answer = answer.await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["args"], deletion());
}

#[tokio::test]
async fn without_claim_the_approval_is_answered() {
    let service = Service::start().await;
    let asked = call("delete_customer", deletion(), "t1");
    let answer = waiting(&service, patient(&service, &asked), async {
        let path = pending(&service).await;
        service.post("ana", &format!("{path}/decision"), &decision("approve")).await;
    });
    let answer = answer.await;
    assert_eq!((answer.status, &answer.json()["approval"]["state"]), (202, &json!("approved")));
}

#[tokio::test]
async fn a_denial_ends_the_wait() {
    let service = Service::start().await;
    let asked = with(call("delete_customer", deletion(), "t1"), json!({ "claim": true }));
    let answer = waiting(&service, patient(&service, &asked), async {
        let path = pending(&service).await;
        service.post("ana", &format!("{path}/decision"), &decision("deny")).await;
    });
    let answer = answer.await;
    assert_eq!((answer.status, &answer.json()["error"]), (403, &json!("declined by reviewer")));
}

#[tokio::test]
async fn the_end_of_the_process_ends_the_wait() {
    let service = Service::start().await;
    let asked = call("delete_customer", deletion(), "t1");
    let answer = waiting(&service, patient(&service, &asked), async {
        service.draining.send_replace(true);
    });
    let answer = answer.await;
    assert_eq!((answer.status, &answer.json()["approval"]["state"]), (202, &json!("pending")));
}

#[tokio::test]
async fn an_agent_waits_for_an_approval_to_leave_the_state_it_names() {
    let service = Service::start().await;
    let path = service.approved("t1").await;
    let wait = |query: &str| {
        service.request(Method::GET, &format!("{path}{query}")).key("bot").header("prefer", "wait=60").send()
    };
    // It is no longer pending, so there is nothing to wait for.
    assert_eq!(wait("").await.json()["state"], "approved");
    assert_eq!(wait("?unless=pending").await.json()["state"], "approved");
    let unless = tokio::spawn(wait("?unless=approved"));
    service.post("ben", &format!("{path}/revoke"), &json!({})).await;
    assert_eq!(unless.await.unwrap().json()["state"], "denied");
    assert_eq!(wait("?unless=sleeping").await.problem(400), "invalid_query");
}

#[tokio::test]
async fn what_is_not_understood_is_no_preference() {
    let service = Service::start().await;
    let path = approval_path(&service.held("t1").await);
    for preference in ["wait", "wait=", "wait=soon", "wait=-1", "handling=lenient"] {
        let request = service.request(Method::GET, &path).key("bot").header("prefer", preference);
        assert_eq!(request.send().await.json()["state"], "pending", "{preference}");
    }
}
