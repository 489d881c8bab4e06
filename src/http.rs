//! The HTTP API: who calls is checked, what is sent is parsed, one use case is called, its answer is shown.
//!
//! It must not decide anything. `error` is the only place that knows which answer of a use case gets which status.

use axum::{Router, extract::DefaultBodyLimit, middleware::from_fn_with_state};
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_swagger_ui::{Config, SwaggerUi};

mod api;
mod browser;
mod error;
mod extract;
mod layers;
pub mod metrics;
pub mod openapi;
mod rate;
mod sign_in;
mod slack;
pub mod state;
mod web;

use state::HttpState;

/// The whole API.
pub fn router(state: HttpState) -> Router {
    let (mut api, _) = openapi::routes().split_for_parts();
    if !state.settings.metrics_elsewhere {
        api = api.merge(metrics_route());
    }
    api = api.merge(sign_in::routes()).merge(web::routes());
    if !state.slack.is_empty() {
        api = api.merge(slack::routes());
    }
    let docs = SwaggerUi::new("/docs").config(Config::from("/openapi.json"));
    let api = api
        .merge(docs)
        .fallback(layers::no_such_route)
        .method_not_allowed_fallback(layers::no_such_method)
        .layer(DefaultBodyLimit::max(state.settings.body_bytes));
    wrapped(api, state)
}

/// `GET /metrics` alone, for a listener of its own.
pub fn metrics_router(state: HttpState) -> Router {
    wrapped(metrics_route().fallback(layers::no_such_route), state)
}

fn metrics_route() -> Router<HttpState> {
    api::service::metrics_routes().into()
}

/// What every answer has. The last layer added is the first to see a request:
///
/// 1. `layers::serve` gives the request its id and its time, and completes whatever comes back: a refusal becomes its
///    document there, so that those of the layers below get an id, a log line and the headers as well.
/// 2. A panic in a handler becomes such a refusal.
/// 3. The handler reads credentials first and the body after them, so that nobody unknown gets anything parsed.
fn wrapped(router: Router<HttpState>, state: HttpState) -> Router {
    router
        .layer(CatchPanicLayer::custom(layers::panicked))
        .layer(from_fn_with_state(state.clone(), layers::serve))
        .with_state(state)
}
