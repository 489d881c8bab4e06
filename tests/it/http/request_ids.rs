//! Every answer has an id, and the log has the same.

use axum::http::Method;
use countersign::domain::audit::entry::EventKind;
use serde_json::json;

use crate::support::service::{Service, call};

#[tokio::test]
async fn a_request_without_an_id_gets_one_of_ours() {
    let service = Service::start().await;
    let first = service.request(Method::GET, "/healthz").send().await;
    let second = service.request(Method::GET, "/healthz").send().await;
    let id = uuid::Uuid::parse_str(first.header("x-request-id")).unwrap();
    assert_eq!(id.get_version_num(), 7);
    assert_ne!(first.header("x-request-id"), second.header("x-request-id"));
}

#[tokio::test]
async fn a_callers_id_comes_back_without_what_could_deceive_and_not_too_long() {
    let service = Service::start().await;
    for (sent, answered) in [
        ("req-1", "req-1"),
        ("a.b:c_D-9", "a.b:c_D-9"),
        ("id\" level=error {x}", "idlevelerrorx"),
        ("\u{202e}\u{e9}1", "1"),
        (&"x".repeat(200), &"x".repeat(64)),
    ] {
        let answer = service.request(Method::GET, "/healthz").header("x-request-id", sent).send().await;
        assert_eq!(answer.header("x-request-id"), answered, "{sent}");
    }
}

#[tokio::test]
async fn an_id_of_which_nothing_is_left_is_replaced() {
    let service = Service::start().await;
    for sent in ["", "  ", "\"{}\""] {
        let answer = service.request(Method::GET, "/healthz").header("x-request-id", sent).send().await;
        assert!(uuid::Uuid::parse_str(answer.header("x-request-id")).is_ok(), "{sent}");
    }
}

#[tokio::test]
async fn refusals_of_every_kind_have_the_id_and_the_headers() {
    let service = Service::start().await;
    let unknown = call("no_such_tool", json!({}), "t1");
    let request = |method: Method, path: &str| service.request(method, path).header("x-request-id", "req-7");
    for answer in [
        request(Method::GET, "/no/such/route").send().await,
        request(Method::DELETE, "/decide").send().await,
        request(Method::GET, "/tools").send().await,
        request(Method::GET, "/audit").key("bot").send().await,
        request(Method::POST, "/decide").key("bot").json(&unknown).send().await,
        request(Method::POST, "/decide").key("bot").text("{").send().await,
        request(Method::POST, "/decide").key("bot").bytes(b"{}").send().await,
    ] {
        assert!(answer.status >= 400);
        assert_eq!(answer.header("x-request-id"), "req-7");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("cache-control"), "no-store");
    }
}

#[tokio::test]
async fn the_log_has_the_id_of_the_request() {
    let service = Service::start().await;
    let sent = call("get_order", json!({ "order_id": "A-1" }), "t1");
    let request = service.request(Method::POST, "/decide").key("bot").json(&sent);
    assert_eq!(request.header("x-request-id", "req-42").send().await.status, 200);
    let decided = service.logged(EventKind::Decision).await;
    assert_eq!(decided[0].entry.request_id.as_deref(), Some("req-42"));
}

#[tokio::test]
async fn a_method_that_a_route_does_not_take_is_answered_with_those_it_takes() {
    let service = Service::start().await;
    let answer = service.request(Method::PUT, "/approvals").send().await;
    assert_eq!(answer.problem(405), "method_not_allowed");
    assert_eq!(answer.header("allow"), "GET,HEAD,POST");
}
