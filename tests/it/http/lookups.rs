//! Lookups from policy to review and claim, against a real orders service on this machine.

use countersign::domain::audit::entry::EventKind;
use serde_json::{Value, json};

use crate::support::{
    orders::{Does, Orders},
    service::{Answer, ORDERS_CREDENTIAL, ORDERS_TOKEN, Service, approval_path},
};

fn policy(orders: &Orders, more: &str) -> String {
    format!(
        r#"
schema = 1
[tools.refund]
risk = "send"
parameters = {{ type = "object", required = ["order_id", "amount"], properties = {{ order_id = {{ type = "string" }}, amount = {{ type = "number" }} }} }}
[tools.refund.lookups.order]
url = "{}/orders/{{order_id}}"
show = {{ status = "/status", total = "/total" }}
unchanged = ["status", "total"]
timeout = "200ms"
{more}
"#,
        orders.url()
    )
}

const PRIVATE: &str = "allow_private = true";

async fn shop(more: &str) -> (Orders, Service) {
    let orders = Orders::start().await;
    let service = Service::with_policy(&policy(&orders, more)).await;
    (orders, service)
}

/// Holds a refund of this order; the path of its approval.
async fn hold(service: &Service, order: &str, id: &str) -> String {
    let held = service.decide("refund", json!({ "order_id": order, "amount": 300 }), id).await;
    assert_eq!(held.status, 202, "{held:?}");
    approval_path(&held.json()["approval"])
}

async fn lookup(service: &Service, path: &str) -> Value {
    service.get("ana", path).await.json()["review"]["lookups"][0].clone()
}

async fn approve(service: &Service, path: &str) {
    let seen = service.get("ana", path).await.json();
    let decision = json!({ "decision": "approve", "args_hash": seen["args_hash"], "review_hash": seen["review_hash"] });
    let approved = service.post("ana", &format!("{path}/decision"), &decision).await;
    assert_eq!((approved.status, &approved.json()["state"]), (200, &json!("approved")));
}

async fn claim(service: &Service, path: &str, order: &str) -> Answer {
    let args = json!({ "order_id": order, "amount": 300 });
    service.post("bot", &format!("{path}/claim"), &json!({ "args": args })).await
}

fn paid(total: u32) -> Does {
    Does::Answers(json!({ "status": "paid", "total": total, "customer": { "card": "4111" } }))
}

#[tokio::test]
async fn a_reviewer_sees_what_the_service_itself_found_and_the_claim_looks_again() {
    let credential = format!("{PRIVATE}\ncredential = \"{ORDERS_CREDENTIAL}\"");
    let (orders, service) = shop(&credential).await;
    orders.does("/orders/A-17", paid(900));
    let path = hold(&service, "A-17", "t1").await;
    assert_eq!(
        lookup(&service, &path).await,
        json!({
            "name": "order", "preview": false, "failed": null,
            "values": [
                { "at": "/status", "kind": "string", "shown": "paid" },
                { "at": "/total", "kind": "number", "shown": "900" },
            ],
        })
    );
    approve(&service, &path).await;
    assert_eq!(claim(&service, &path, "A-17").await.status, 200);
    let got = orders.got();
    assert_eq!(got.len(), 2, "once when it was held, once for the claim");
    assert!(got.iter().all(|got| got.target == "/orders/A-17" && got.method == "GET"));
    assert!(got.iter().all(|got| got.authorization.as_deref() == Some(&format!("Bearer {ORDERS_TOKEN}"))));
}

#[tokio::test]
async fn a_changed_order_refuses_the_claim_and_the_approval_stays() {
    let (orders, service) = shop(PRIVATE).await;
    orders.does("/orders/A-17", paid(900));
    let path = hold(&service, "A-17", "t1").await;
    approve(&service, &path).await;
    orders.does("/orders/A-17", paid(901));
    let refused = claim(&service, &path, "A-17").await;
    assert_eq!(refused.problem(409), "lookup_changed");
    assert!(!refused.text().contains("901") && !refused.text().contains("total"), "{refused:?}");
    assert_eq!(service.get("bot", &path).await.json()["state"], "approved");
    let entries = service.get("iris", "/audit?event=claim.refused").await.json();
    assert_eq!(entries["items"][0]["reason_code"], "lookup_changed");
    // What is shown is what was shown.
    assert_eq!(lookup(&service, &path).await["values"][1]["shown"], "900");
    orders.does("/orders/A-17", paid(900));
    assert_eq!(claim(&service, &path, "A-17").await.status, 200);
}

#[tokio::test]
async fn a_lookup_that_fails_is_shown_and_may_be_approved_and_refuses_the_claim() {
    let elsewhere = Orders::start().await;
    elsewhere.does("/orders/A-17", paid(900));
    for (does, code) in [
        (Does::Redirects(format!("{}/orders/A-17", elsewhere.url())), "redirected"),
        (Does::Hangs, "timed_out"),
        (Does::Says(503, "busy".to_owned()), "bad_status"),
        (Does::Says(200, "paid".to_owned()), "not_json"),
        (Does::Answers(json!({ "status": "paid" })), "not_showable"),
    ] {
        let (orders, service) = shop(PRIVATE).await;
        orders.does("/orders/A-17", does);
        let path = hold(&service, "A-17", "t1").await;
        let shown = lookup(&service, &path).await;
        assert_eq!((&shown["failed"], &shown["values"]), (&json!(code), &json!([])));
        approve(&service, &path).await;
        assert_eq!(claim(&service, &path, "A-17").await.problem(409), "lookup_failed", "{code}");
        assert_eq!(service.get("bot", &path).await.json()["state"], "approved");
        let recorded = service.logged(EventKind::ClaimRefused).await;
        assert_eq!(recorded[0].entry.reason_code.as_deref(), Some("lookup_failed"));
    }
    assert!(elsewhere.got().is_empty(), "a redirect is not followed");
}

#[tokio::test]
async fn a_private_address_is_not_asked_unless_the_policy_allows_it() {
    let (orders, service) = shop(PRIVATE).await;
    let by_name = orders.url_by_name().replace("http://", "https://");
    let text = policy(&orders, "").replace(&orders.url(), &by_name);
    service.take_policy(&text).await;
    let path = hold(&service, "A-17", "t1").await;
    assert_eq!(lookup(&service, &path).await["failed"], "private_address");
    service.take_policy(&text.replace("localhost", "127.0.0.1")).await;
    let path = hold(&service, "A-17", "t2").await;
    assert_eq!(lookup(&service, &path).await["failed"], "private_address");
    assert!(orders.got().is_empty());
}

#[tokio::test]
async fn a_value_that_could_steer_is_never_sent() {
    let (orders, service) = shop(PRIVATE).await;
    for (number, order) in
        ["", ".", "..", "a/b", "../admin", "a\\b", "%2e%2e", "a?b=c", "\u{ff0e}\u{ff0e}"].iter().enumerate()
    {
        let path = hold(&service, order, &format!("t{number}")).await;
        assert_eq!(lookup(&service, &path).await["failed"], "unfit_argument", "{order:?}");
        approve(&service, &path).await;
        assert_eq!(claim(&service, &path, order).await.problem(409), "lookup_failed", "{order:?}");
    }
    assert!(orders.got().is_empty());
}

#[tokio::test]
async fn a_dry_run_is_told_the_arguments_and_shown_as_a_preview() {
    let (orders, service) = shop(&format!("{PRIVATE}\nmethod = \"POST\"")).await;
    orders.does("/orders/A-17", paid(600));
    let path = hold(&service, "A-17", "t1").await;
    assert_eq!(lookup(&service, &path).await["preview"], true);
    let got = orders.got().pop().unwrap();
    assert_eq!(got.method, "POST");
    assert_eq!(serde_json::from_str::<Value>(&got.body).unwrap(), json!({ "order_id": "A-17", "amount": 300 }));
}

#[tokio::test]
async fn a_reload_lets_calls_that_wait_be_looked_into_by_todays_policy() {
    let (orders, service) = shop(PRIVATE).await;
    orders.does("/orders/A-17", paid(900));
    let path = hold(&service, "A-17", "t1").await;
    let before = service.get("ana", &path).await.json();
    service.take_policy(&policy(&orders, PRIVATE).replace("risk = \"send\"", "risk = \"destructive\"")).await;
    let after = service.get("ana", &path).await.json();
    assert_eq!((&after["review"], &after["review_hash"]), (&before["review"], &before["review_hash"]));
    assert_eq!(after["review"]["risk"], "send");
}
