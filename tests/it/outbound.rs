//! Mirrors `src/outbound`: the one client, against a real server on this machine.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use countersign::{
    app::ports::LookupClient as _,
    domain::lookup::{Looked, LookupFailure, LookupRequest},
    outbound::{Credentials, Outbound},
};
use serde_json::{Value, json};

use crate::support::orders::{Does, Orders};

fn outbound() -> Outbound {
    let credentials = Credentials::default();
    credentials.add([("env:TOKEN".to_owned(), Arc::from("s3cret")), ("env:ODD".to_owned(), Arc::from("a\nb"))].into());
    Outbound::new(Arc::new(credentials))
}

fn request(url: &str) -> LookupRequest {
    LookupRequest {
        name: "order".to_owned(),
        url: url.to_owned(),
        dry_run: None,
        timeout: Duration::from_secs(5),
        credential: None,
        allow_private: true,
        show: BTreeMap::from([("status".to_owned(), "/status".to_owned())]),
    }
}

async fn look(request: LookupRequest) -> Looked {
    outbound().look_up(vec![request]).await.get("order").unwrap().clone()
}

fn paid() -> Looked {
    Looked::Answered([("status".to_owned(), json!("paid"))].into())
}

#[tokio::test]
async fn a_private_address_is_asked_only_where_that_is_allowed() {
    let orders = Orders::start().await;
    orders.does("/a", Does::Answers(json!({ "status": "paid" })));
    for url in [orders.url(), orders.url_by_name()] {
        let allowed = request(&format!("{url}/a"));
        let refused = LookupRequest { allow_private: false, ..allowed.clone() };
        assert_eq!(look(allowed).await, paid());
        assert_eq!(look(refused).await, Looked::Failed(LookupFailure::PrivateAddress), "{url}");
    }
    assert_eq!(orders.got().len(), 2);
    for host in ["169.254.169.254", "[::1]", "[::ffff:127.0.0.1]", "10.0.0.1", "0.0.0.0", "[fe80::1]", "192.168.0.1"] {
        let refused = LookupRequest { allow_private: false, ..request(&format!("http://{host}/")) };
        assert_eq!(look(refused).await, Looked::Failed(LookupFailure::PrivateAddress), "{host}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let orders = Orders::start().await;
    orders.does("/a", Does::Redirects(format!("{}/b", orders.url())));
    orders.does("/b", Does::Answers(json!({ "status": "paid" })));
    let url = format!("{}/a", orders.url());
    assert_eq!(look(request(&url)).await, Looked::Failed(LookupFailure::Redirected));
    assert_eq!(orders.got().len(), 1);
}

#[tokio::test]
async fn an_answer_that_does_not_come_in_time_is_not_waited_for() {
    let orders = Orders::start().await;
    orders.does("/a", Does::Hangs);
    let url = format!("{}/a", orders.url());
    let hurried = LookupRequest { timeout: Duration::from_millis(50), ..request(&url) };
    assert_eq!(look(hurried).await, Looked::Failed(LookupFailure::TimedOut));
}

#[tokio::test]
async fn only_a_short_strict_answer_of_success_shows_anything() {
    let orders = Orders::start().await;
    let long = format!("{{\"status\":\"paid\",\"more\":\"{}\"}}", "x".repeat(256 * 1024));
    for (does, failure) in [
        (Does::Says(404, "{\"status\":\"paid\"}".to_owned()), LookupFailure::BadStatus),
        (Does::Says(500, "{\"status\":\"paid\"}".to_owned()), LookupFailure::BadStatus),
        (Does::Says(200, "<html>".to_owned()), LookupFailure::NotJson),
        (Does::Says(200, "{\"status\":1,\"status\":2}".to_owned()), LookupFailure::NotJson),
        (Does::Says(200, "{}".to_owned()), LookupFailure::NotShowable),
        (Does::Says(200, long), LookupFailure::TooLong),
    ] {
        orders.does("/a", does);
        let url = format!("{}/a", orders.url());
        assert_eq!(look(request(&url)).await, Looked::Failed(failure));
    }
}

#[tokio::test]
async fn nobody_at_the_address_is_a_failure_like_any_other() {
    let gone = Orders::start().await.url();
    // The server ended with the statement, and nobody else is given its port so soon.
    assert_eq!(look(request(&format!("{gone}/a"))).await, Looked::Failed(LookupFailure::Unreachable));
    let unknown = LookupRequest { allow_private: false, ..request("https://nobody.invalid/") };
    assert_eq!(look(unknown).await, Looked::Failed(LookupFailure::Unreachable));
}

#[tokio::test]
async fn a_credential_is_sent_as_bearer_token_and_one_that_is_missing_keeps_the_request_back() {
    let orders = Orders::start().await;
    orders.does("/a", Does::Answers(json!({ "status": "paid" })));
    let url = format!("{}/a", orders.url());
    let with = |credential: &str| LookupRequest { credential: Some(credential.to_owned()), ..request(&url) };
    assert_eq!(look(with("env:TOKEN")).await, paid());
    assert_eq!(look(with("env:OTHER")).await, Looked::Failed(LookupFailure::NoCredential));
    assert_eq!(look(with("env:ODD")).await, Looked::Failed(LookupFailure::NoCredential));
    assert_eq!(look(request(&url)).await, paid());
    let sent: Vec<_> = orders.got().into_iter().map(|got| got.authorization).collect();
    assert_eq!(sent, [Some("Bearer s3cret".to_owned()), None]);
}

#[tokio::test]
async fn a_dry_run_is_told_the_arguments() {
    let orders = Orders::start().await;
    orders.does("/dry-run", Does::Answers(json!({ "status": "paid" })));
    let args = json!({ "order_id": "A-17", "amount": 300 });
    let url = format!("{}/dry-run", orders.url());
    assert_eq!(look(LookupRequest { dry_run: Some(args.clone()), ..request(&url) }).await, paid());
    let got = orders.got().pop().unwrap();
    assert_eq!((got.method.as_str(), serde_json::from_str::<Value>(&got.body).unwrap()), ("POST", args));
}

#[tokio::test]
async fn lookups_of_one_call_do_not_wait_for_each_other() {
    let orders = Orders::start().await;
    orders.does("/slow", Does::Hangs);
    orders.does("/a", Does::Answers(json!({ "status": "paid" })));
    let slow = LookupRequest {
        name: "slow".to_owned(),
        timeout: Duration::from_millis(50),
        ..request(&format!("{}/slow", orders.url()))
    };
    let quick = request(&format!("{}/a", orders.url()));
    let found = outbound().look_up(vec![slow, quick]).await;
    assert_eq!(found.get("slow"), Some(&Looked::Failed(LookupFailure::TimedOut)));
    assert_eq!(found.get("order"), Some(&paid()));
}
