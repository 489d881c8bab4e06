//! The description of the API.

use std::collections::BTreeSet;

use axum::http::Method;
use countersign::http::openapi;
use serde_json::Value;

use crate::support::service::Service;

#[test]
fn the_committed_description_is_the_one_of_these_handlers() {
    let committed = include_str!("../../../openapi/countersign.json");
    assert!(
        committed == openapi::document(),
        "openapi/countersign.json is out of date: countersign openapi > openapi/countersign.json"
    );
}

#[test]
fn every_reference_in_it_leads_somewhere_and_every_operation_has_one_name() {
    let text = openapi::document();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for reference in text.split("#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name}");
    }
    let items = ["paths", "webhooks"].into_iter().flat_map(|kind| document[kind].as_object().unwrap().values());
    let items = items.flat_map(|item| item.as_object().unwrap().values());
    let mut names: Vec<&str> = items.map(|operation| operation["operationId"].as_str().unwrap()).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn every_event_that_a_machine_is_sent_has_an_operation() {
    let document: Value = serde_json::from_str(&openapi::document()).unwrap();
    let named: BTreeSet<&str> = document["webhooks"].as_object().unwrap().keys().map(String::as_str).collect();
    let sent = ["requested", "approved", "denied", "expired", "cancelled", "executed", "outcome"];
    let sent = sent.map(|event| format!("approval.{event}"));
    assert_eq!(named, sent.iter().map(String::as_str).chain(["run.ready"]).collect());
}

#[tokio::test]
async fn it_is_served_to_anyone() {
    let service = Service::start().await;
    let answer = service.request(Method::GET, "/openapi.json").send().await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
    assert_eq!(answer.text(), openapi::document());
}

#[tokio::test]
async fn the_pages_under_docs_come_from_the_binary_and_name_no_other_host() {
    let service = Service::start().await;
    let moved = service.request(Method::GET, "/docs").send().await;
    assert_eq!((moved.status, moved.header("location")), (303, "/docs/"));
    let page = service.request(Method::GET, "/docs/").send().await;
    assert_eq!(page.status, 200);
    for text in [page.text(), service.request(Method::GET, "/docs/swagger-initializer.js").send().await.text()] {
        for word in ["http://", "https://", "cdn"] {
            assert!(!text.contains(word), "{text}");
        }
    }
    let initializer = service.request(Method::GET, "/docs/swagger-initializer.js").send().await;
    assert!(initializer.text().contains("/openapi.json"));
    assert_eq!(service.request(Method::GET, "/docs/swagger-ui-bundle.js").send().await.status, 200);
}
