//! Who may ask what: every operation that the API's description lists, asked by nobody and by everybody else.

use std::collections::BTreeSet;

use axum::http::{HeaderName, Method};
use countersign::{domain::audit::entry::EventKind, http::openapi};
use serde_json::Value;

use crate::support::service::Service;

/// What anyone may ask. A route is added here on purpose, or it needs a key.
const PUBLIC: [&str; 5] =
    ["GET /.well-known/jwks.json", "GET /healthz", "GET /metrics", "GET /openapi.json", "GET /readyz"];

/// One holder of each role.
const HOLDERS: [(&str, &str); 5] =
    [("agent", "bot"), ("orchestrator", "writer"), ("reviewer", "ana"), ("auditor", "iris"), ("admin", "root")];

struct Operation {
    method: Method,
    path: String,
    /// Empty when it needs no key.
    roles: BTreeSet<String>,
}

impl Operation {
    fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

fn operations() -> Vec<Operation> {
    let document: Value = serde_json::from_str(&openapi::document()).unwrap();
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let security = operation["security"].as_array().cloned().unwrap_or_default();
            let roles = security.iter().flat_map(|scheme| scheme["key"].as_array().unwrap().clone());
            operations.push(Operation {
                method: method.to_uppercase().parse().unwrap(),
                path: path.replace("{id}", "apr_01980d5e-7a4c-7f3e-9a55-0a3c1d2e4f60").replace("{run_id}", "run-1"),
                roles: roles.map(|role| role.as_str().unwrap().to_owned()).collect(),
            });
        }
    }
    assert!(operations.len() > 20);
    operations
}

#[test]
fn only_the_listed_operations_need_no_key() {
    let operations = operations();
    let open: Vec<String> =
        operations.iter().filter(|operation| operation.roles.is_empty()).map(Operation::name).collect();
    assert_eq!(open, PUBLIC);
}

#[tokio::test]
async fn nobody_without_a_key_is_answered_anything_but_401() {
    let service = Service::start().await;
    for operation in operations().iter().filter(|operation| !operation.roles.is_empty()) {
        let answer = service.request(operation.method.clone(), &operation.path).send().await;
        assert_eq!(answer.problem(401), "unauthenticated", "{}", operation.name());
        assert_eq!(answer.header("www-authenticate"), r#"Bearer realm="countersign""#);
    }
}

#[tokio::test]
async fn a_key_of_another_role_is_refused_and_that_is_recorded() {
    let service = Service::start().await;
    let mut refused = 0;
    for operation in operations().iter().filter(|operation| !operation.roles.is_empty()) {
        for (role, holder) in HOLDERS {
            if operation.roles.contains(role) {
                continue;
            }
            // Nothing of the body is looked at, so none is sent.
            let answer = service.request(operation.method.clone(), &operation.path).key(holder).send().await;
            assert_eq!(answer.problem(403), "wrong_role", "{} as {role}", operation.name());
            refused += 1;
        }
    }
    assert!(refused > 60);
    let recorded = service.logged(EventKind::RequestRefused).await;
    assert_eq!(recorded.len(), refused);
    assert!(recorded.iter().all(|sealed| sealed.entry.reason_code.as_deref() == Some("wrong_role")));
    for sealed in &recorded {
        assert!(sealed.entry.actor.via.starts_with("key:key_"));
        assert!(sealed.entry.request_id.is_some());
    }
    assert!(recorded.iter().any(|sealed| sealed.entry.detail["route"] == "GET /approvals"));
}

#[tokio::test]
async fn a_key_of_the_right_role_gets_past_the_door() {
    let service = Service::start().await;
    for operation in operations() {
        for (role, holder) in HOLDERS.iter().filter(|(role, _)| operation.roles.contains(*role)) {
            let answer = service.request(operation.method.clone(), &operation.path).key(holder).send().await;
            assert!(![401, 403].contains(&answer.status), "{} as {role}: {answer:?}", operation.name());
        }
    }
}

#[tokio::test]
async fn a_reviewers_key_without_an_entry_in_the_configuration_has_no_vote() {
    let service = Service::start().await;
    let answer = service.get("ghost", "/approvals").await;
    assert_eq!(answer.problem(403), "wrong_role");
    assert_eq!(service.logged(EventKind::RequestRefused).await.len(), 1);
}

#[tokio::test]
async fn what_looks_like_a_credential_and_is_none_is_refused() {
    let service = Service::start().await;
    let key = crate::support::keys::text("bot");
    let unknown = crate::support::keys::text("nobody");
    for credential in [
        String::new(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        key.expose().to_owned(),
        format!("Basic {}", key.expose()),
        format!("Bearer {} {}", key.expose(), key.expose()),
        format!("Bearer {}", unknown.expose()),
        "Bearer \u{e9}".to_owned(),
    ] {
        let answer = service.request(Method::GET, "/tools").header("authorization", &credential).send().await;
        assert_eq!(answer.problem(401), "unauthenticated", "{credential}");
    }
    let twice = service.request(Method::GET, "/tools").key("bot").key("bot").send().await;
    assert_eq!(twice.problem(401), "unauthenticated");
    let lower = service.request(Method::GET, "/tools").header("authorization", &format!("bearer {}", key.expose()));
    assert_eq!(lower.send().await.status, 200);
}

#[tokio::test]
async fn a_key_in_the_query_or_in_another_header_is_no_credential() {
    let service = Service::start().await;
    let key = crate::support::keys::text("bot");
    let in_query = service.request(Method::GET, &format!("/tools?authorization={}", key.expose())).send().await;
    assert_eq!(in_query.status, 401);
    let header = HeaderName::from_static("x-api-key");
    let elsewhere = service.request(Method::GET, "/tools").header(header.as_str(), key.expose()).send().await;
    assert_eq!(elsewhere.status, 401);
}

#[tokio::test]
async fn a_key_that_leaves_the_ring_opens_nothing_any_more() {
    let service = Service::start().await;
    assert_eq!(service.get("bot", "/tools").await.status, 200);
    service.keys.replace([]);
    assert_eq!(service.get("bot", "/tools").await.problem(401), "unauthenticated");
}

#[tokio::test]
async fn requests_without_a_key_are_counted_by_route_until_somebody_sums_them_up() {
    let service = Service::start().await;
    for path in ["/tools", "/tools", "/approvals/apr_1", "/no/such/route"] {
        service.request(Method::GET, path).send().await;
    }
    let counted = service.state.metrics.drain_unauthenticated();
    assert_eq!(counted, [("GET /approvals/{id}".to_owned(), 1), ("GET /tools".to_owned(), 2)]);
    assert!(service.state.metrics.drain_unauthenticated().is_empty());
}

#[tokio::test]
async fn a_refusal_that_cannot_be_recorded_is_no_answer_either() {
    let service = Service::without_store();
    assert_eq!(service.get("bot", "/audit").await.problem(503), "store_unavailable");
}
