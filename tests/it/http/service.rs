//! What anyone may ask the service about itself.

use axum::{
    body::Body,
    http::{Method, Request},
};
use countersign::http;
use serde_json::json;
use tower::ServiceExt as _;

use crate::support::service::Service;

#[tokio::test]
async fn the_process_says_that_it_lives_and_what_it_is() {
    let service = Service::without_store();
    let answer = service.request(Method::GET, "/healthz").send().await;
    assert_eq!(answer.json(), json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION"), "commit": "0123abc" }));
}

#[tokio::test]
async fn it_is_ready_while_the_store_answers_and_says_that_checkpoints_are_unsigned() {
    let service = Service::start().await;
    let answer = service.request(Method::GET, "/readyz").send().await;
    assert_eq!(answer.status, 200);
    let version = service.app.policy().version().to_string();
    assert_eq!(answer.json(), json!({ "status": "ready", "policy_version": version, "checkpoints": "unsigned" }));
    let signed = Service::start_with(|settings| settings.checkpoints_signed = true).await;
    assert_eq!(signed.request(Method::GET, "/readyz").send().await.json()["checkpoints"], "signed");
}

#[tokio::test]
async fn it_is_not_ready_without_the_store_or_when_it_is_about_to_stop() {
    let service = Service::without_store();
    let answer = service.request(Method::GET, "/readyz").send().await;
    assert_eq!((answer.status, &answer.json()["status"]), (503, &json!("store_unavailable")));
    let service = Service::start().await;
    service.draining.send_replace(true);
    let answer = service.request(Method::GET, "/readyz").send().await;
    assert_eq!((answer.status, &answer.json()["status"]), (503, &json!("draining")));
    assert_eq!(service.request(Method::GET, "/healthz").send().await.status, 200);
}

#[tokio::test]
async fn the_keys_of_permits_are_public() {
    let service = Service::start().await;
    let answer = service.request(Method::GET, "/.well-known/jwks.json").send().await;
    assert_eq!(answer.json()["keys"][0]["alg"], "EdDSA");
    assert!(answer.json()["keys"][0].get("d").is_none());
    assert_eq!(answer.header("cache-control"), "public, max-age=300");
}

#[tokio::test]
async fn figures_are_on_the_main_listener_unless_they_have_one_of_their_own() {
    let service = Service::start().await;
    let answer = service.request(Method::GET, "/metrics").send().await;
    assert_eq!(answer.header("content-type"), "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let elsewhere = Service::start_with(|settings| settings.metrics_elsewhere = true).await;
    assert_eq!(elsewhere.request(Method::GET, "/metrics").send().await.problem(404), "no_such_route");
    let request = || Request::get("/metrics").body(Body::empty()).unwrap();
    let own = http::metrics_router(elsewhere.state.clone()).oneshot(request()).await.unwrap();
    assert_eq!(own.status(), 200);
    let request = Request::post("/decide").body(Body::empty()).unwrap();
    let other = http::metrics_router(elsewhere.state.clone()).oneshot(request).await.unwrap();
    assert_eq!(other.status(), 404);
}

#[tokio::test]
async fn no_figure_is_named_by_what_a_caller_chose() {
    let service = Service::start().await;
    let method = Method::from_bytes(b"BREW").unwrap();
    service.request(method, "/coffee/with/milk").header("x-request-id", "coffee").send().await;
    let figures = service.request(Method::GET, "/metrics").send().await;
    assert!(figures.text().contains(r#"method="other",route="none",status="404""#), "{}", figures.text());
    assert!(!figures.text().contains("coffee"));
    assert!(!figures.text().contains("BREW"));
}
