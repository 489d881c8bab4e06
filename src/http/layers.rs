//! What happens around every handler: ids, time limits, headers, figures, and one log line for each refusal.
//!
//! No log line here holds a body, an argument or a credential.

use std::{any::Any, sync::Arc, sync::OnceLock, time::Duration, time::Instant};

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use tokio::time::timeout;
use uuid::Uuid;

use super::{
    error::{Problem, Refusal},
    extract::wait_preferred,
    state::HttpState,
};

/// Names a request in answers and logs.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id we take from a caller.
const LONGEST_ID: usize = 64;

/// How requests that match no route are counted.
const NO_ROUTE: &str = "none";

/// What is known of a request while it is served.
pub(super) struct RequestScope {
    /// Its id in answers: the caller's, cleaned, or ours.
    pub(super) id: String,
    /// Our own id for it, which no caller can choose.
    own_id: Uuid,
    /// Its method, of those the API knows.
    pub(super) method: &'static str,
    /// The route it matched.
    route: Option<MatchedPath>,
    /// Who sent it, once that is known.
    pub(super) actor: OnceLock<String>,
    /// Run and tool of the call it is about, once they are known.
    pub(super) call: OnceLock<(String, String)>,
}

impl RequestScope {
    fn of(request: &Request) -> Self {
        let own_id = Uuid::now_v7();
        let given = request.headers().get(&REQUEST_ID).map(cleaned).filter(|id| !id.is_empty());
        Self {
            id: given.unwrap_or_else(|| own_id.to_string()),
            own_id,
            method: known_method(request.method()),
            route: request.extensions().get::<MatchedPath>().cloned(),
            actor: OnceLock::new(),
            call: OnceLock::new(),
        }
    }

    /// The route as the API's description writes it.
    pub(super) fn route(&self) -> &str {
        self.route.as_ref().map_or(NO_ROUTE, MatchedPath::as_str)
    }

    /// Whether agents are told only `tool unavailable` when this request cannot be answered.
    pub(super) fn is_about_a_call(&self) -> bool {
        self.method == "POST"
            && matches!(self.route(), "/decide" | "/decide/batch" | "/approvals" | "/approvals/{id}/claim")
    }
}

/// Serves one request from the first look to the last header.
pub(super) async fn serve(State(state): State<HttpState>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let scope = Arc::new(RequestScope::of(&request));
    let limit = state.settings.request_timeout + wait_preferred(request.headers());
    request.extensions_mut().insert(Arc::clone(&scope));
    let mut response = match timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => could_not(&scope, "timeout", None, || {
            Problem::unavailable("timeout", "It took too long. Ask again: the answer shows what was done.")
        }),
    };
    if let Some(Panicked(text)) = response.extensions_mut().remove() {
        response = could_not(&scope, "internal", Some(text), Problem::internal);
    }
    if let Some(refusal) = response.extensions_mut().remove::<Refusal>() {
        let about = scope.call.get().map(|(run, tool)| (run.as_str(), tool.as_str()));
        log_refusal(&scope, about, &refusal);
        let kept = std::mem::take(response.headers_mut());
        response = refusal.render(&state.tool_unavailable, &scope.id);
        if let Some(allowed) = kept.get(header::ALLOW) {
            response.headers_mut().insert(header::ALLOW, allowed.clone());
        }
    }
    complete(response.headers_mut(), &scope);
    let took = started.elapsed();
    tracing::debug!(
        request_id = scope.id,
        route = scope.route(),
        status = response.status().as_u16(),
        ?took,
        "answered"
    );
    state.metrics.answered(scope.method, scope.route(), response.status().as_u16(), took);
    response
}

/// The answer to a path that is none.
pub(super) async fn no_such_route() -> Refusal {
    Problem::no_such_route().into()
}

/// The answer to a method that the path does not take.
pub(super) async fn no_such_method() -> Refusal {
    Problem::no_such_method().into()
}

/// Marks the answer of a handler that panicked, with what it said.
#[derive(Clone)]
struct Panicked(String);

/// Turns a panic into an answer.
pub(super) fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a text");
    let mut response = ().into_response();
    response.extensions_mut().insert(Panicked(text.to_owned()));
    response
}

fn could_not(
    scope: &RequestScope,
    reason: &'static str,
    cause: Option<String>,
    problem: impl FnOnce() -> Problem,
) -> Response {
    let refusal =
        if scope.is_about_a_call() { Refusal::undecided(reason, cause) } else { problem().because(cause).into() };
    refusal.into_response()
}

/// Tells the operator of a refusal, and of which run and tool it was, where it is about a call.
pub(super) fn log_refusal(scope: &RequestScope, about: Option<(&str, &str)>, refusal: &Refusal) {
    let (run, tool) = about.unzip();
    if let Some(cause) = refusal.cause() {
        tracing::error!(request_id = scope.id, own_request_id = %scope.own_id, cause, "a request failed");
    }
    tracing::info!(
        request_id = scope.id,
        own_request_id = %scope.own_id,
        method = scope.method,
        route = scope.route(),
        status = refusal.status().as_u16(),
        reason = refusal.reason(),
        actor = scope.actor.get(),
        run,
        tool,
        "refused"
    );
}

fn complete(headers: &mut HeaderMap, scope: &RequestScope) {
    // Made of the few characters that `cleaned` leaves, so it always is a header.
    if let Ok(id) = HeaderValue::from_str(&scope.id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

/// A caller's id without the characters that could deceive in a log, and not longer than ids are.
fn cleaned(id: &HeaderValue) -> String {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(byte);
    id.as_bytes().iter().copied().filter(allowed).map(char::from).take(LONGEST_ID).collect()
}

fn known_method(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        "PATCH" => "PATCH",
        _ => "other",
    }
}

/// The longest a request may ask to wait for a human.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(60);
