//! What handlers are given: who calls, in a role; ids out of the path; bodies that are exactly what a route takes.
//!
//! A role in a handler's signature is its permission: there is no other way to learn who calls. A request body of the
//! API is read by `domain::canon::json` and by nothing else; forms of pages are read in `signed_in`.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::{HeaderMap, header, request::Parts},
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

pub(super) mod signed_in;

use super::{
    error::{MOST_PARKED, Problem, Refusal},
    layers::{LONGEST_WAIT, RequestScope},
    state::HttpState,
};
use crate::{
    app::{Caller, ReviewerCaller, error::Error, runs::IfMatch},
    domain::{
        approval::confirmation::ConfirmationFault,
        audit::{chain::Hash, entry::EventKind},
        canon::json,
        identity::{AgentId, Role},
        ids::{ApprovalId, Id, IdKind, Name, NameKind},
    },
};

/// The longest sentence that a person or a model may send, in bytes.
pub(super) const LONGEST_SENTENCE: usize = 4_096;

/// The longest media type of what is parked.
const LONGEST_CONTENT_TYPE: usize = 255;

/// The longest `Idempotency-Key`.
const LONGEST_IDEMPOTENCY_KEY: usize = 255;

/// A caller with the role `agent`.
pub(super) struct Agent {
    /// Who calls.
    pub(super) caller: Caller,
    /// The same as an agent's id.
    pub(super) id: AgentId,
}

/// A caller with the role `reviewer` who is an entry of the configured reviewers.
pub(super) struct Reviewer(pub(super) ReviewerCaller);

/// A caller with the role `auditor`.
pub(super) struct Auditor;

/// A caller with the role `orchestrator`, for the agents its key names.
pub(super) struct Orchestrator(pub(super) Caller);

/// A caller with the role `admin`.
pub(super) struct Admin(pub(super) Caller);

/// A caller who proposes calls, or one who decides them. No key is both.
pub(super) enum AgentOrReviewer {
    /// An agent.
    Agent(Agent),
    /// A reviewer.
    Reviewer(Reviewer),
}

impl FromRequestParts<HttpState> for Agent {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, Refusal> {
        let caller = authenticated(parts, state).await?;
        match caller.principal.agent() {
            Some(id) => Ok(Self { caller, id }),
            None => Err(wrong_role(parts, state, &caller, Problem::wrong_role("agent")).await),
        }
    }
}

impl FromRequestParts<HttpState> for Reviewer {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, Refusal> {
        let caller = authenticated(parts, state).await?;
        reviewer(parts, state, caller, "reviewer").await
    }
}

impl FromRequestParts<HttpState> for Auditor {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, Refusal> {
        let caller = authenticated(parts, state).await?;
        if caller.principal.roles().contains(Role::Auditor) {
            return Ok(Self);
        }
        Err(wrong_role(parts, state, &caller, Problem::wrong_role("auditor")).await)
    }
}

impl FromRequestParts<HttpState> for Admin {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, Refusal> {
        let caller = authenticated(parts, state).await?;
        if caller.principal.roles().contains(Role::Admin) {
            return Ok(Self(caller));
        }
        Err(wrong_role(parts, state, &caller, Problem::wrong_role("admin")).await)
    }
}

impl FromRequestParts<HttpState> for Orchestrator {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, Refusal> {
        let caller = authenticated(parts, state).await?;
        if caller.principal.roles().contains(Role::Orchestrator) {
            return Ok(Self(caller));
        }
        Err(wrong_role(parts, state, &caller, Problem::wrong_role("orchestrator")).await)
    }
}

impl FromRequestParts<HttpState> for AgentOrReviewer {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, Refusal> {
        let caller = authenticated(parts, state).await?;
        match caller.principal.agent() {
            Some(id) => Ok(Self::Agent(Agent { caller, id })),
            None => reviewer(parts, state, caller, "agent or reviewer").await.map(Self::Reviewer),
        }
    }
}

/// Who calls: the holder of the one key or token in the one `authorization` header.
async fn authenticated(parts: &Parts, state: &HttpState) -> Result<Caller, Refusal> {
    let scope = scope(parts)?;
    let refused = |problem: Problem| {
        state.metrics.unauthenticated(scope.method, scope.route());
        Refusal::from(problem)
    };
    let mut headers = parts.headers.get_all(header::AUTHORIZATION).iter();
    let (Some(header), None) = (headers.next(), headers.next()) else {
        return Err(refused(Problem::no_credential()));
    };
    let key = header.to_str().ok().and_then(|text| text.split_once(' '));
    let Some((_, key)) = key.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")) else {
        return Err(refused(Problem::no_credential()));
    };
    let key = key.trim();
    // A token of an issuer has two dots, and no key has one.
    let found = if key.contains('.') {
        state.app.holder_of_token(key).await
    } else {
        state.keys.authenticate(key, state.app.now())
    };
    match found {
        Some(principal) => {
            // Nothing was set before: a request is authenticated once.
            let _ = scope.actor.set(principal.name().to_string());
            if let Some(rates) = &state.rates {
                rates
                    .count(principal.credential())
                    .map_err(|retry_after| Refusal::too_many(scope.is_about_a_call(), retry_after))?;
            }
            Ok(Caller { principal, request_id: scope.id.clone() })
        }
        None => Err(refused(Problem::bad_credential())),
    }
}

async fn reviewer(parts: &Parts, state: &HttpState, caller: Caller, needed: &'static str) -> Result<Reviewer, Refusal> {
    let Some(name) = caller.principal.reviewer() else {
        return Err(wrong_role(parts, state, &caller, Problem::wrong_role(needed)).await);
    };
    match state.app.reviewers().get(&name) {
        Some(_) => {
            let groups = state.app.reviewers().groups_at(&name, state.app.now());
            Ok(Reviewer(ReviewerCaller { caller, name, groups }))
        }
        None => Err(wrong_role(parts, state, &caller, Problem::no_such_reviewer(name.as_str())).await),
    }
}

/// Records that somebody authenticated tried what is not for the role, and refuses.
async fn wrong_role(parts: &Parts, state: &HttpState, caller: &Caller, problem: Problem) -> Refusal {
    let mut entry = caller.entry(EventKind::RequestRefused, state.app.now());
    entry.reason_code = Some("wrong_role".to_owned());
    if let Ok(scope) = scope(parts) {
        entry.detail.insert("route".to_owned(), format!("{} {}", scope.method, scope.route()).into());
    }
    match state.app.record(entry).await {
        Ok(()) => problem.into(),
        Err(error) => error.into(),
    }
}

/// Why a reviewer's act was not done. That somebody tried what is not for him to do is recorded.
pub(super) async fn reviewer_refused(
    state: &HttpState,
    caller: &Caller,
    approval: Option<ApprovalId>,
    error: Error,
) -> Refusal {
    let reason = if matches!(error, Error::NotEligible(_)) {
        "not_eligible"
    } else if matches!(error, Error::DecideInWeb) {
        "decide_in_web"
    } else if matches!(error, Error::StepUpRequired) {
        "step_up_required"
    } else if matches!(error, Error::GrantTooWide(_)) {
        "grant_too_wide"
    } else if matches!(error, Error::Confirmation(ConfirmationFault::Unknown)) {
        "confirmation_unknown"
    } else {
        return error.into();
    };
    let mut entry = caller.entry(EventKind::RequestRefused, state.app.now());
    entry.reason_code = Some(reason.to_owned());
    entry.approval = approval;
    match state.app.record(entry).await {
        Ok(()) => error.into(),
        Err(error) => error.into(),
    }
}

/// Records what [`reviewer_refused`] does, for each of many decisions of which none was taken; the answer is the whole list.
pub(super) async fn record_in_the_way(state: &HttpState, caller: &Caller, in_the_way: &[(ApprovalId, Error)]) {
    for (id, error) in in_the_way {
        let _ = reviewer_refused(state, caller, Some(*id), error.clone()).await;
    }
}

/// What is known of the request so far.
pub(super) fn scope(parts: &Parts) -> Result<&Arc<RequestScope>, Refusal> {
    parts.extensions.get().ok_or_else(|| Problem::internal().into())
}

/// An id out of the path. One that has not the form of an id names nothing.
pub(super) struct PathId<K>(pub(super) Id<K>);

impl<K: IdKind> FromRequestParts<HttpState> for PathId<K> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, Refusal> {
        let PathText(text) = PathText::from_request_parts(parts, state).await?;
        Id::parse(&text).map(Self).map_err(|_| Problem::not_found().into())
    }
}

/// A name out of the path that callers choose themselves.
pub(super) struct PathName<K>(pub(super) Name<K>);

impl<K: NameKind> FromRequestParts<HttpState> for PathName<K> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, Refusal> {
        let PathText(text) = PathText::from_request_parts(parts, state).await?;
        Name::parse(&text).map(Self).map_err(|error| Problem::invalid_path(&error.to_string()).into())
    }
}

/// The one parameter of the path, as it was sent.
pub(super) struct PathText(pub(super) String);

impl FromRequestParts<HttpState> for PathText {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, Refusal> {
        let text = Path::<String>::from_request_parts(parts, state).await;
        text.map(|Path(text)| Self(text)).map_err(|_| Problem::not_found().into())
    }
}

/// The parameters of the query: those that are known, each once.
pub(super) struct Parameters<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<HttpState> for Parameters<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, Refusal> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        query.map(|Query(query)| Self(query)).map_err(|rejection| {
            let text = rejection.body_text();
            let reason = text.split_once(": ").map_or(text.as_str(), |(_, reason)| reason);
            Problem::invalid_query(reason).into()
        })
    }
}

/// How long the caller would wait for a human (`Prefer: wait=N`, RFC 7240, in seconds); zero when it would not.
pub(super) struct Wait(pub(super) Duration);

impl FromRequestParts<HttpState> for Wait {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &HttpState) -> Result<Self, Refusal> {
        Ok(Self(wait_preferred(&parts.headers)))
    }
}

/// What `Prefer` says of waiting, at most a minute. What is not understood is no preference (RFC 7240, section 2).
pub(super) fn wait_preferred(headers: &HeaderMap) -> Duration {
    let preferences = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    let wait = preferences.flat_map(|text| text.split(',')).find_map(|preference| {
        let (name, value) = preference.split_once('=')?;
        name.trim().eq_ignore_ascii_case("wait").then_some(value.trim())
    });
    let seconds = wait.and_then(|seconds| seconds.parse().ok()).unwrap_or_default();
    Duration::from_secs(seconds).min(LONGEST_WAIT)
}

/// A body that must be there.
pub(super) struct Body<T>(pub(super) T);

/// A body that may be left out, which is the same as `{}`.
pub(super) struct OptionalBody<T>(pub(super) T);

/// A body and the `Idempotency-Key` that is bound to it.
pub(super) struct IdempotentBody<T> {
    /// The body.
    pub(super) body: T,
    /// The key, and SHA-256 of the canonical body.
    pub(super) key: Option<(String, Hash)>,
}

impl<T: DeserializeOwned> FromRequest<HttpState> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &HttpState) -> Result<Self, Refusal> {
        typed(read(request, state).await?).map(Self)
    }
}

impl<T: DeserializeOwned> FromRequest<HttpState> for OptionalBody<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &HttpState) -> Result<Self, Refusal> {
        let (bytes, is_json) = read_bytes(request, state).await?;
        let value = if bytes.is_empty() { Value::Object(Map::new()) } else { parsed(&bytes, is_json)? };
        typed(value).map(Self)
    }
}

impl<T: DeserializeOwned> FromRequest<HttpState> for IdempotentBody<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &HttpState) -> Result<Self, Refusal> {
        let key = idempotency_key(request.headers())?;
        let value = read(request, state).await?;
        let key = match key {
            Some(key) => {
                let canonical = json::canonical(&value).map_err(|_| Problem::internal())?;
                Some((key, Sha256::digest(canonical).into()))
            }
            None => None,
        };
        Ok(Self { body: typed(value)?, key })
    }
}

/// A stack's own bytes, of any type, up to [`MOST_PARKED`]. The route must let as many through.
pub(super) struct RawBody {
    /// The media type, as it was sent.
    pub(super) content_type: String,
    /// The bytes.
    pub(super) bytes: Bytes,
}

impl FromRequest<HttpState> for RawBody {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &HttpState) -> Result<Self, Refusal> {
        const NAME: &str = "content-type";
        let content_type = match request.headers().get(header::CONTENT_TYPE).map(|value| value.to_str()) {
            None => "application/octet-stream".to_owned(),
            Some(Ok(text)) if text.len() <= LONGEST_CONTENT_TYPE => text.to_owned(),
            Some(Ok(_) | Err(_)) => {
                return Err(Problem::invalid_header(NAME, "send a media type of at most 255 characters").into());
            }
        };
        match Bytes::from_request(request, state).await {
            Ok(bytes) => Ok(Self { content_type, bytes }),
            Err(rejection) if rejection.status() == axum::http::StatusCode::PAYLOAD_TOO_LARGE => {
                Err(Problem::too_much_parked(MOST_PARKED).into())
            }
            Err(_) => Err(Problem::unreadable_body().into()),
        }
    }
}

/// What `If-Match` says that a request replaces (RFC 9110, section 13.1.1); `None` when it says nothing.
pub(super) struct Replaces(pub(super) Option<IfMatch>);

impl FromRequestParts<HttpState> for Replaces {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &HttpState) -> Result<Self, Refusal> {
        const NAME: &str = "if-match";
        let mut values = parts.headers.get_all(header::IF_MATCH).iter().peekable();
        if values.peek().is_none() {
            return Ok(Self(None));
        }
        let invalid = || Problem::invalid_header(NAME, "send `*`, or entity tags in quotation marks");
        let mut tags = Vec::new();
        for value in values {
            let text = value.to_str().map_err(|_| invalid())?;
            if text.trim() == "*" {
                return Ok(Self(Some(IfMatch::Anything)));
            }
            for tag in text.split(',').map(str::trim) {
                let quoted = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
                match quoted {
                    Some(tag) => tags.push(tag.to_owned()),
                    // A weak tag compares with nothing here.
                    None if tag.starts_with("W/\"") && tag.ends_with('"') => {}
                    None => return Err(invalid().into()),
                }
            }
        }
        Ok(Self(Some(IfMatch::OneOf(tags))))
    }
}

async fn read(request: Request, state: &HttpState) -> Result<Value, Refusal> {
    let (bytes, is_json) = read_bytes(request, state).await?;
    parsed(&bytes, is_json)
}

/// The whole body, and whether it says to be JSON.
async fn read_bytes(request: Request, state: &HttpState) -> Result<(Bytes, bool), Refusal> {
    let is_json = says_json(request.headers());
    let limit = state.settings.body_bytes;
    match Bytes::from_request(request, state).await {
        Ok(bytes) => Ok((bytes, is_json)),
        Err(rejection) if rejection.status() == axum::http::StatusCode::PAYLOAD_TOO_LARGE => {
            Err(Problem::too_large(limit).into())
        }
        Err(_) => Err(Problem::unreadable_body().into()),
    }
}

fn parsed(bytes: &[u8], is_json: bool) -> Result<Value, Refusal> {
    if !is_json {
        return Err(Problem::not_json().into());
    }
    json::parse(bytes).map_err(|fault| Problem::invalid_json(fault).into())
}

/// Whether the body is `application/json`; JSON is UTF-8, so another charset is another type (RFC 8259, section 8.1).
fn says_json(headers: &HeaderMap) -> bool {
    let Some(text) = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()) else { return false };
    let mut parts = text.split(';').map(str::trim);
    let is_json = parts.next().is_some_and(|essence| essence.eq_ignore_ascii_case("application/json"));
    is_json
        && parts.all(|parameter| match parameter.split_once('=') {
            Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
                value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
            }
            Some(_) | None => true,
        })
}

/// The value as this route's type, or the field that does not fit.
fn typed<T: DeserializeOwned>(value: Value) -> Result<T, Refusal> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { "" } else { &path };
        Problem::invalid_field(field, &error.inner().to_string()).into()
    })
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    const HEADER: &str = "idempotency-key";
    let invalid = || Problem::invalid_header(HEADER, "send one, of 1 to 255 visible ASCII characters");
    let mut keys = headers.get_all(HEADER).iter();
    let Some(key) = keys.next() else { return Ok(None) };
    let visible = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_graphic);
    let fits = (1..=LONGEST_IDEMPOTENCY_KEY).contains(&key.len()) && visible(key.as_bytes());
    match key.to_str() {
        Ok(text) if fits && keys.next().is_none() => Ok(Some(text.to_owned())),
        Ok(_) | Err(_) => Err(invalid().into()),
    }
}

/// A sentence that a person or a model sent, when it is not too long.
pub(super) fn sentence(field: &str, text: Option<String>) -> Result<Option<String>, Refusal> {
    match text {
        Some(text) if text.len() > LONGEST_SENTENCE => {
            Err(Problem::invalid_field(field, &format!("longer than {LONGEST_SENTENCE} bytes")).into())
        }
        text => Ok(text),
    }
}
