//! What anyone may ask the service about itself.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::http::{layers::RequestScope, metrics::CONTENT_TYPE, openapi, state::HttpState};

/// How long others may keep what rarely changes.
const FIVE_MINUTES: HeaderValue = HeaderValue::from_static("public, max-age=300");

/// The routes but for `/metrics`, which may have a listener of its own.
pub(in crate::http) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new()
        .routes(routes!(healthz))
        .routes(routes!(readyz))
        .routes(routes!(jwks))
        .routes(routes!(openapi_document))
}

/// `/metrics`.
pub(in crate::http) fn metrics_routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(metrics))
}

/// The process lives.
#[derive(Serialize, ToSchema)]
struct Health {
    /// Always `ok`.
    status: &'static str,
    /// The version of the service.
    version: &'static str,
    /// The commit it was built from.
    commit: String,
}

/// Whether the service can decide.
#[derive(Serialize, ToSchema)]
struct Readiness {
    /// `ready`, `draining` or `store_unavailable`.
    status: &'static str,
    /// The policy in force.
    policy_version: String,
    /// `signed` or `unsigned`: whether a cut of the log's end would show.
    checkpoints: &'static str,
}

/// Does the process live?
#[utoipa::path(
    get, path = "/healthz", tag = "service",
    responses((status = 200, description = "It does.", body = Health))
)]
async fn healthz(State(state): State<HttpState>) -> Json<Health> {
    Json(Health { status: "ok", version: env!("CARGO_PKG_VERSION"), commit: state.settings.commit.clone() })
}

/// Can the service decide?
#[utoipa::path(
    get, path = "/readyz", tag = "service",
    responses(
        (status = 200, description = "It can.", body = Readiness),
        (status = 503, description = "It cannot.", body = Readiness)
    )
)]
async fn readyz(
    State(state): State<HttpState>,
    Extension(scope): Extension<Arc<RequestScope>>,
) -> (StatusCode, Json<Readiness>) {
    let (code, status) = if *state.draining.borrow() {
        (StatusCode::SERVICE_UNAVAILABLE, "draining")
    } else {
        match state.app.store().ready().await {
            Ok(()) => (StatusCode::OK, "ready"),
            Err(error) => {
                tracing::warn!(request_id = scope.id, %error, "not ready");
                (StatusCode::SERVICE_UNAVAILABLE, "store_unavailable")
            }
        }
    };
    let checkpoints = if state.settings.checkpoints_signed { "signed" } else { "unsigned" };
    (code, Json(Readiness { status, policy_version: state.app.policy().version().to_string(), checkpoints }))
}

/// Figures for a collector.
#[utoipa::path(
    get, path = "/metrics", tag = "service",
    responses((status = 200, description = "OpenMetrics text.", body = String, content_type = "application/openmetrics-text"))
)]
async fn metrics(State(state): State<HttpState>) -> Response {
    // Without the store the other figures are wanted all the more.
    if let Ok(destinations) = state.app.destinations().await {
        state.metrics.messages(&destinations);
    }
    ([(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE))], state.metrics.text()).into_response()
}

/// The keys that permits are signed with.
#[utoipa::path(
    get, path = "/.well-known/jwks.json", tag = "service",
    responses((status = 200, description = "A JWK set (RFC 7517).", body = Object))
)]
async fn jwks(State(state): State<HttpState>) -> ([(header::HeaderName, HeaderValue); 1], Json<Value>) {
    ([(header::CACHE_CONTROL, FIVE_MINUTES)], Json(state.app.jwks()))
}

/// This description.
#[utoipa::path(
    get, path = "/openapi.json", tag = "service",
    responses((status = 200, description = "OpenAPI 3.1.", body = Object))
)]
async fn openapi_document() -> Response {
    let json = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, json), (header::CACHE_CONTROL, FIVE_MINUTES)], openapi::document()).into_response()
}
