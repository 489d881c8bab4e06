//! What a refused request is answered with: the one place that knows which error gets which status and words.
//!
//! There are two kinds. Agents are told the same few bytes whatever policy had against a call. Integrators get a
//! problem document (RFC 9457). A handler returns a [`Refusal`]; `layers` renders it, with the request's id.

use std::collections::BTreeMap;

use axum::{
    body::Bytes,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::{
    ToSchema,
    openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder, response::Response as Described},
};

use crate::{
    app::{
        decide_many::InTheWay,
        error::{AlreadyExecuted, ConditionPlace, Error},
        ports::StoreError,
        runs::RunRefused,
    },
    domain::{
        approval::{
            confirmation::ConfirmationFault,
            state::{Obstacle, Refused, StateName},
        },
        canon::json::JsonFault,
        lookup::LookupObjection,
        policy::schema::ArgumentFault,
        time::Timestamp,
    },
};

/// What a model is told of a call that policy refused, unless the installation says it otherwise.
pub(super) const TOOL_UNAVAILABLE: &str = "tool unavailable";

const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// After how many seconds it is worth trying again when the store did not answer.
const RETRY_SECONDS: u64 = 1;

/// How much a stack may park for a run, in bytes.
pub(super) const MOST_PARKED: usize = 1024 * 1024;

/// The longest `detail` that may come from outside, in bytes.
const LONGEST_DETAIL: usize = 300;

/// What to hand to the model as the result of a call that did not run.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct ToolResult {
    /// Whether the model should take it as a failure.
    pub(super) is_error: bool,
    /// The text.
    pub(super) content: String,
}

impl ToolResult {
    /// A call that did not run.
    pub(super) fn failure(content: impl Into<String>) -> Self {
        Self { is_error: true, content: content.into() }
    }

    /// A call whose arguments do not fit the schema of its tool.
    pub(super) fn invalid_arguments(faults: &[ArgumentFault]) -> Self {
        let mut content = "invalid arguments".to_owned();
        for fault in faults {
            let place = if fault.pointer.is_empty() { "arguments" } else { &fault.pointer };
            content.push_str(&format!("\n{place}: {}", fault.message));
        }
        Self::failure(content)
    }

    /// A call that ran or was about to, by its outcome (`None`: awaited) and what the tool returned.
    pub(super) fn executed(outcome: Option<&str>, result: Option<&Value>) -> Self {
        let told = match result {
            Some(Value::String(text)) => Some(text.clone()),
            Some(other) => Some(other.to_string()),
            None => None,
        };
        let (is_error, otherwise) = match outcome {
            Some("succeeded") => (false, "already executed: it succeeded"),
            Some("failed") => (true, "already executed: it failed"),
            Some("not_started") => (true, "not executed"),
            Some(_) => (true, "already executed: whether it succeeded is not known"),
            None => (true, "already executed: its outcome is awaited"),
        };
        Self { is_error, content: told.unwrap_or_else(|| otherwise.to_owned()) }
    }
}

/// The answer to every call that policy refuses or that cannot be decided: always these bytes.
#[derive(Serialize, ToSchema)]
pub(super) struct ToolUnavailable {
    /// Always `tool unavailable`.
    #[schema(example = "tool unavailable")]
    error: &'static str,
    tool_result: ToolResult,
}

impl ToolUnavailable {
    /// The refusal with this text for the model.
    pub(super) fn with(content: &str) -> Self {
        Self { error: TOOL_UNAVAILABLE, tool_result: ToolResult::failure(content) }
    }

    /// Its bytes.
    pub(super) fn to_bytes(&self) -> Bytes {
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}

/// A call that a person did not let run.
#[derive(Serialize, ToSchema)]
pub(super) struct DeclinedCall {
    /// `declined by reviewer` or `cancelled`.
    error: &'static str,
    approval: ApprovalRef,
    /// What the reviewer wrote to the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    tool_result: ToolResult,
}

/// An approval by its id.
#[derive(Serialize, ToSchema)]
pub(super) struct ApprovalRef {
    /// The id, `apr_...`.
    id: String,
}

/// A call whose arguments do not fit the schema of its tool.
#[derive(Serialize, ToSchema)]
pub(super) struct InvalidArguments {
    /// Always `invalid arguments`.
    #[schema(example = "invalid arguments")]
    error: &'static str,
    /// Each place.
    faults: Vec<Fault>,
    tool_result: ToolResult,
}

/// Where arguments do not fit, and why.
#[derive(Serialize, ToSchema)]
struct Fault {
    /// JSON Pointer (RFC 6901) into `args`.
    pointer: String,
    /// What is wrong there.
    message: String,
}

/// A problem document (RFC 9457).
#[derive(Serialize, ToSchema)]
pub(super) struct ProblemDocument {
    /// `urn:countersign:problem:` and the code.
    #[serde(rename = "type")]
    type_: String,
    /// The kind of problem, in words.
    title: &'static str,
    /// The status of the answer.
    status: u16,
    /// What was wrong, where, and how to mend it.
    detail: String,
    /// The kind of problem, for programs.
    code: &'static str,
    /// The request's id, as in `x-request-id`.
    request_id: String,
    /// What else this kind of problem tells.
    #[serde(flatten)]
    #[schema(ignore)]
    more: Map<String, Value>,
}

/// A problem, before it is known which request it is about.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    status: StatusCode,
    code: &'static str,
    title: &'static str,
    detail: String,
    retry_after: Option<u64>,
    challenge: Option<&'static str>,
    cause: Option<String>,
    more: Map<String, Value>,
}

/// Why a request is not done.
#[derive(Clone, Debug)]
pub(super) enum Refusal {
    /// The agent learns nothing: `tool unavailable`.
    Unavailable {
        /// 403 by policy, 503 when it could not be decided, 429 when too many were sent.
        status: StatusCode,
        /// For the log.
        reason: &'static str,
        /// What went wrong inside, for the log.
        cause: Option<String>,
        /// After how many seconds asking again is worth it.
        retry_after: Option<u64>,
    },
    /// The agent learns what is meant for it.
    Told {
        /// 403 or 422.
        status: StatusCode,
        /// For the log.
        reason: &'static str,
        /// JSON.
        body: Bytes,
    },
    /// The integrator learns what was wrong.
    Problem(Box<Problem>),
}

/// Carries itself as an extension to `layers`, which renders it.
impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self::Problem(Box::new(problem))
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Problem::from(error).into()
    }
}

impl Refusal {
    /// Policy refuses a call.
    pub(super) const fn by_policy(reason: &'static str) -> Self {
        Self::Unavailable { status: StatusCode::FORBIDDEN, reason, cause: None, retry_after: None }
    }

    /// A call could not be decided, so nothing is permitted.
    pub(super) const fn undecided(reason: &'static str, cause: Option<String>) -> Self {
        let (status, retry_after) = (StatusCode::SERVICE_UNAVAILABLE, Some(RETRY_SECONDS));
        Self::Unavailable { status, reason, cause, retry_after }
    }

    /// The key sent more requests than the set rate; about a call, the agent is told nothing of that.
    pub(super) fn too_many(about_a_call: bool, retry_after: u64) -> Self {
        let (status, reason) = (StatusCode::TOO_MANY_REQUESTS, "too_many_requests");
        if about_a_call {
            return Self::Unavailable { status, reason, cause: None, retry_after: Some(retry_after) };
        }
        let detail =
            "This key sent more requests than limits.requests_per_second; the header `retry-after` says when to go on.";
        let problem = Problem::new(status, reason, "Too many requests", detail);
        Problem { retry_after: Some(retry_after), ..problem }.into()
    }

    /// A reviewer declined a call.
    pub(super) fn declined(approval: String, message: Option<String>) -> Self {
        let tool_result = ToolResult::failure(declined_text(message.as_deref()));
        let approval = ApprovalRef { id: approval };
        let body = DeclinedCall { error: "declined by reviewer", approval, message, tool_result };
        Self::told(StatusCode::FORBIDDEN, "declined_by_reviewer", &body)
    }

    /// The agent's stack withdrew a call.
    pub(super) fn cancelled(approval: String) -> Self {
        let tool_result = ToolResult::failure("cancelled");
        let body =
            DeclinedCall { error: "cancelled", approval: ApprovalRef { id: approval }, message: None, tool_result };
        Self::told(StatusCode::FORBIDDEN, "cancelled", &body)
    }

    /// The arguments do not fit the schema of a tool that the agent may use.
    pub(super) fn invalid_arguments(faults: Vec<ArgumentFault>) -> Self {
        let tool_result = ToolResult::invalid_arguments(&faults);
        let faults = faults.into_iter().map(|ArgumentFault { pointer, message }| Fault { pointer, message }).collect();
        let body = InvalidArguments { error: "invalid arguments", faults, tool_result };
        Self::told(StatusCode::UNPROCESSABLE_ENTITY, "invalid_arguments", &body)
    }

    /// What a use case about a call answered instead: what it could not decide, the agent is told nothing of.
    pub(super) fn of_call(error: Error, now: Timestamp) -> Self {
        match (internal(&error), &error) {
            (Some(reason), _) => Self::undecided(reason, Some(error.to_string())),
            (None, Error::Refused(Refused { why: Obstacle::Grace { until }, .. })) => {
                // Rounded up, so that whoever waits that long is not too early again.
                let seconds = until.since(now).as_micros().div_ceil(1_000_000);
                let retry_after = Some(u64::try_from(seconds).unwrap_or(u64::MAX));
                Problem { retry_after, ..error.into() }.into()
            }
            (None, _) => error.into(),
        }
    }

    /// The status of the answer.
    pub(super) const fn status(&self) -> StatusCode {
        match self {
            Self::Unavailable { status, .. } | Self::Told { status, .. } => *status,
            Self::Problem(problem) => problem.status,
        }
    }

    /// The reason, as the log names it.
    pub(super) const fn reason(&self) -> &'static str {
        match self {
            Self::Unavailable { reason, .. } | Self::Told { reason, .. } => reason,
            Self::Problem(problem) => problem.code,
        }
    }

    /// What the integrator is told, when that is a problem.
    pub(super) fn detail(&self) -> Option<&str> {
        match self {
            Self::Unavailable { .. } | Self::Told { .. } => None,
            Self::Problem(problem) => Some(&problem.detail),
        }
    }

    /// What went wrong inside the service, when something did: for its log alone.
    pub(super) fn cause(&self) -> Option<&str> {
        match self {
            Self::Unavailable { cause, .. } => cause.as_deref(),
            Self::Told { .. } => None,
            Self::Problem(problem) => problem.cause.as_deref(),
        }
    }

    /// The answer. `unavailable` is the one body for what agents learn nothing of.
    pub(super) fn render(self, unavailable: &Bytes, request_id: &str) -> Response {
        let status = self.status();
        let (body, content_type, retry_after, challenge) = self.into_parts(unavailable, request_id);
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, content_type);
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if let Some(challenge) = challenge {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response
    }

    /// The body of the answer alone, as one member of a larger one.
    pub(super) fn into_member(self, unavailable: &Bytes, request_id: &str) -> Map<String, Value> {
        let (body, ..) = self.into_parts(unavailable, request_id);
        serde_json::from_slice(&body).unwrap_or_default()
    }

    /// Body, its type, after how many seconds to come again, and what credential is asked for.
    fn into_parts(
        self,
        unavailable: &Bytes,
        request_id: &str,
    ) -> (Bytes, HeaderValue, Option<u64>, Option<&'static str>) {
        let status = self.status();
        match self {
            Self::Unavailable { retry_after, .. } => (unavailable.clone(), JSON, retry_after, None),
            Self::Told { body, .. } => (body, JSON, None, None),
            Self::Problem(problem) => {
                let Problem { code, title, detail, retry_after, challenge, more, .. } = *problem;
                let document = ProblemDocument {
                    type_: format!("urn:countersign:problem:{code}"),
                    title,
                    status: status.as_u16(),
                    detail,
                    code,
                    request_id: request_id.to_owned(),
                    more,
                };
                let body = serde_json::to_vec(&document).unwrap_or_default();
                (body.into(), PROBLEM, retry_after, challenge)
            }
        }
    }

    fn told(status: StatusCode, reason: &'static str, body: &impl Serialize) -> Self {
        Self::Told { status, reason, body: serde_json::to_vec(body).unwrap_or_default().into() }
    }
}

/// What the model is told of a denial by a reviewer.
pub(super) fn declined_text(message: Option<&str>) -> String {
    match message {
        Some(message) => format!("declined by reviewer: {message}"),
        None => "declined by reviewer".to_owned(),
    }
}

impl Problem {
    fn new(status: StatusCode, code: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        let (detail, more) = (detail.into(), Map::new());
        Self { status, code, title, detail, retry_after: None, challenge: None, cause: None, more }
    }

    /// With what went wrong inside, for the log.
    pub(super) fn because(self, cause: Option<String>) -> Self {
        Self { cause, ..self }
    }

    fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    fn conflict(code: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, title, detail)
    }

    /// The service could not do it, and nothing was permitted.
    pub(super) fn unavailable(code: &'static str, detail: &'static str) -> Self {
        let problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, code, "Not available now", detail);
        Self { retry_after: Some(RETRY_SECONDS), ..problem }
    }

    /// The service has a fault.
    pub(super) fn internal() -> Self {
        let detail = "The service has a fault; its log tells more under this request_id. Nothing was permitted.";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "Internal error", detail)
    }

    /// Not a request of this API.
    pub(super) fn no_such_route() -> Self {
        let detail = "There is no such route. /openapi.json lists those there are.";
        Self::new(StatusCode::NOT_FOUND, "no_such_route", "No such route", detail)
    }

    /// Not a method of this route.
    pub(super) fn no_such_method() -> Self {
        let detail = "This route does not take this method. The header `allow` lists those it takes.";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "Method not allowed", detail)
    }

    /// There is no such thing, or it is not for this caller to know.
    pub(super) fn not_found() -> Self {
        let detail = "There is nothing of this id that this key may see.";
        Self::new(StatusCode::NOT_FOUND, "not_found", "Not found", detail)
    }

    /// No credential.
    pub(super) fn no_credential() -> Self {
        let detail = "Send one key in the header `authorization: Bearer cs_...`.";
        let problem = Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", "Not authenticated", detail);
        Self { challenge: Some(r#"Bearer realm="countersign""#), ..problem }
    }

    /// A credential that opens nothing (RFC 6750, section 3.1).
    pub(super) fn bad_credential() -> Self {
        let detail = "This key is unknown, expired or revoked. `countersign keys list` shows those that are not.";
        let problem = Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", "Not authenticated", detail);
        Self { challenge: Some(r#"Bearer realm="countersign", error="invalid_token""#), ..problem }
    }

    /// A request for Slack's route that Slack did not sign.
    pub(super) fn not_signed_by_slack() -> Self {
        let detail = "This route takes requests that are signed with the secret of a configured Slack app.";
        Self::new(StatusCode::UNAUTHORIZED, "bad_signature", "Not signed by Slack", detail)
    }

    /// A request that Slack signed at another time than now, as our clock has it.
    pub(super) fn signed_at_another_time(ahead: i64) -> Self {
        let detail =
            format!("The clock here is {ahead} seconds ahead of the request's time; 300 either way is the most.");
        Self::new(StatusCode::UNAUTHORIZED, "clock_skew", "Signed at another time", detail)
    }

    /// A request that Slack signed and that is none of its documented ones.
    pub(super) fn not_an_interaction() -> Self {
        let detail = "Send a form with the one field `payload`, as Slack does for interactions.";
        Self::new(StatusCode::BAD_REQUEST, "not_an_interaction", "Not an interaction", detail)
    }

    /// A request of Slack for a team, app or channel that its secret was not configured for.
    pub(super) fn wrong_slack_channel() -> Self {
        let detail = "No entry of [channels] has this secret together with this team, app and channel.";
        Self::new(StatusCode::FORBIDDEN, "wrong_channel", "Wrong channel", detail)
    }

    /// A credential for something else.
    pub(super) fn wrong_role(needed: &'static str) -> Self {
        let detail = format!("This route takes a key with the role {needed}; yours has another one.");
        Self::new(StatusCode::FORBIDDEN, "wrong_role", "Wrong role", detail).with("needed", needed)
    }

    /// A reviewer's key whose name is no entry of the configuration.
    pub(super) fn no_such_reviewer(name: &str) -> Self {
        let detail =
            format!("`{name}` is no entry of [reviewers] in this installation's configuration, so has no vote.");
        Self::new(StatusCode::FORBIDDEN, "wrong_role", "Wrong role", detail).with("needed", "reviewer")
    }

    /// The body is too large.
    pub(super) fn too_large(limit: usize) -> Self {
        let detail = format!("The body is larger than {limit} bytes, the setting limits.body_bytes.");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", "Body too large", detail).with("limit", limit)
    }

    /// The body did not arrive whole.
    pub(super) fn unreadable_body() -> Self {
        let detail = "The body could not be read to its end.";
        Self::new(StatusCode::BAD_REQUEST, "unreadable_body", "Unreadable body", detail)
    }

    /// The body is not JSON by its type.
    pub(super) fn not_json() -> Self {
        let detail = "Send the body as JSON with the header `content-type: application/json`.";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", "Unsupported media type", detail)
    }

    /// The body is not JSON by its text.
    pub(super) fn invalid_json(fault: JsonFault) -> Self {
        let JsonFault { message, line, column } = fault;
        let detail = format!("The body is not acceptable JSON: {} at line {line} column {column}.", bounded(&message));
        Self::new(StatusCode::BAD_REQUEST, "invalid_json", "Invalid JSON", detail)
            .with("line", line)
            .with("column", column)
    }

    /// A field of the body is not what this route takes.
    pub(super) fn invalid_field(field: &str, message: &str) -> Self {
        let (field, message) = (bounded(field), bounded(message));
        let detail = if field.is_empty() { format!("The body: {message}.") } else { format!("`{field}`: {message}.") };
        let problem = Self::new(StatusCode::BAD_REQUEST, "invalid_field", "Invalid request", detail);
        if field.is_empty() { problem } else { problem.with("field", field) }
    }

    /// A parameter of the query is not what this route takes.
    pub(super) fn invalid_query(message: &str) -> Self {
        let detail = format!("The query: {}.", bounded(message));
        Self::new(StatusCode::BAD_REQUEST, "invalid_query", "Invalid query", detail)
    }

    /// The path names nothing that could be.
    pub(super) fn invalid_path(message: &str) -> Self {
        let detail = format!("The path: {}.", bounded(message));
        Self::new(StatusCode::BAD_REQUEST, "invalid_path", "Invalid path", detail)
    }

    /// A stack parks more than it may.
    pub(super) fn too_much_parked(limit: usize) -> Self {
        let detail = format!("At most {limit} bytes can be parked for a run.");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", "Body too large", detail).with("limit", limit)
    }

    /// A header is not what this route takes.
    pub(super) fn invalid_header(header: &'static str, message: &'static str) -> Self {
        let detail = format!("The header `{header}`: {message}.");
        Self::new(StatusCode::BAD_REQUEST, "invalid_header", "Invalid header", detail).with("header", header)
    }
}

/// Text from outside, cut to what a document may repeat of it.
fn bounded(text: &str) -> String {
    if text.len() <= LONGEST_DETAIL {
        return text.to_owned();
    }
    let mut cut = text.get(..text.floor_char_boundary(LONGEST_DETAIL)).unwrap_or_default().to_owned();
    cut.push_str("...");
    cut
}

/// The reason for the log when the service itself could not do it: nothing a caller can mend.
fn internal(error: &Error) -> Option<&'static str> {
    match error {
        Error::Store(StoreError::Unavailable(_)) => Some("store_unavailable"),
        Error::Store(StoreError::CommitUnknown(_)) => Some("commit_unknown"),
        Error::Store(StoreError::Contended(_)) => Some("store_contended"),
        Error::Store(StoreError::Unreadable(_)) => Some("store_unreadable"),
        Error::Entropy(_) => Some("no_entropy"),
        Error::Signing(_) => Some("no_signature"),
        Error::Unwritable(_) => Some("unwritable_record"),
        Error::NotFound
        | Error::KeyRevoked
        | Error::Refused(_)
        | Error::StaleArgs { .. }
        | Error::StaleReview { .. }
        | Error::NotEligible(_)
        | Error::DecideInWeb
        | Error::StepUpRequired
        | Error::Confirmation(_)
        | Error::ArgsMismatch
        | Error::PolicyChanged(_)
        | Error::PathMoved(_)
        | Error::Lookup(_)
        | Error::ToolUseIdReused
        | Error::IdempotencyConflict
        | Error::AlreadyExecuted(_)
        | Error::OutcomeStands
        | Error::GrantTooWide(_)
        | Error::Condition(_)
        | Error::OfferGone
        | Error::Run(_)
        | Error::InTheWay(_)
        | Error::Invalid(_) => None,
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        // The store's own words are for the operator, not for the caller.
        let cause = internal(&error).map(|_| error.to_string());
        let problem = match error {
            Error::Store(StoreError::Unavailable(_)) => {
                Self::unavailable("store_unavailable", "The store does not answer. Nothing was done; ask again.")
            }
            Error::Store(StoreError::CommitUnknown(_)) => Self::unavailable(
                "commit_unknown",
                "The store was lost while committing. Ask again: the answer shows whether it was done.",
            ),
            Error::Store(StoreError::Contended(_)) => {
                Self::unavailable("store_contended", "Others were in the way. Nothing was done; ask again.")
            }
            Error::Store(StoreError::Unreadable(_)) | Error::Entropy(_) | Error::Signing(_) | Error::Unwritable(_) => {
                Self::internal()
            }
            Error::NotFound => Self::not_found(),
            Error::KeyRevoked => Self::bad_credential(),
            Error::Refused(refused) => refused.into(),
            Error::StaleArgs { current } => Self::conflict(
                "stale_args",
                "Stale arguments",
                "`args_hash` is not that of the arguments which are held. Look at the approval again, then decide.",
            )
            .with("current", current.to_string()),
            Error::StaleReview { current } => Self::conflict(
                "stale_review",
                "Stale review",
                "`review_hash` is not that of the review as it is shown now. Look at the approval again, then decide.",
            )
            .with("current", current),
            Error::NotEligible(why) => Self::new(
                StatusCode::FORBIDDEN,
                "not_eligible",
                "Not eligible",
                format!("You may see this approval but not do this: {why}."),
            ),
            Error::DecideInWeb => Self::new(
                StatusCode::FORBIDDEN,
                "decide_in_web",
                "Approved on the review page only",
                "The policy lets this be approved on the review page only, which the approval's `url` names. You may deny \
                 it here.",
            ),
            Error::StepUpRequired => Self::new(
                StatusCode::FORBIDDEN,
                "step_up_required",
                "A fresh sign-in is required",
                "The policy asks whoever approves this to have signed in within five minutes: open the approval's `url` \
                 and sign in again there. You may deny it here.",
            ),
            Error::Confirmation(fault) => fault.into(),
            Error::ArgsMismatch => Self::conflict(
                "args_mismatch",
                "Other arguments",
                "The arguments are not those that were approved. The approval is denied and cannot be claimed any \
                 more; ask /decide under a new tool_use_id.",
            ),
            // What changed stays in the log: the caller is the agent's own stack.
            Error::PolicyChanged(_) => Self::conflict(
                "policy_changed",
                "The policy has changed",
                "Today's policy does not stand behind this approval. Ask /decide again for what it asks for now.",
            ),
            Error::PathMoved(_) => Self::conflict(
                "path_moved",
                "A path has moved",
                "On disk a path of this call leads to another place than the one that was approved. Ask /decide \
                 again.",
            ),
            // Which lookup, and what it found, is for the log: the caller is the agent's own stack.
            Error::Lookup(LookupObjection::Failed { .. }) => Self::conflict(
                "lookup_failed",
                "A lookup failed",
                "What this call is about could not be looked at now. The approval stays; claim it again later.",
            ),
            Error::Lookup(LookupObjection::Changed { .. }) => Self::conflict(
                "lookup_changed",
                "The world has changed",
                "What this call is about is no longer what the reviewers saw. The approval stays; cancel it and ask \
                 /decide under a new tool_use_id to have today's state reviewed.",
            ),
            Error::ToolUseIdReused => Self::conflict(
                "tool_use_id_reused",
                "tool_use_id used before",
                "This tool_use_id names a held call with another tool or other arguments. Use the id of this very \
                 call, or another `turn`.",
            ),
            Error::IdempotencyConflict => Self::conflict(
                "idempotency_conflict",
                "Idempotency-Key used before",
                "This Idempotency-Key came with another body within the last 24 hours. Use a new one.",
            ),
            Error::AlreadyExecuted(executed) => already_executed(*executed),
            Error::OutcomeStands => Self::conflict(
                "outcome_stands",
                "An outcome is recorded",
                "The first outcome stands, and this one differs from it.",
            ),
            Error::GrantTooWide(why) => Self::new(
                StatusCode::FORBIDDEN,
                "grant_too_wide",
                "Wider than allowed",
                format!("No grant was made: {why}."),
            ),
            Error::Condition(faults) => invalid_condition(&faults),
            Error::OfferGone => Self::conflict(
                "offer_gone",
                "Not offered",
                "The approval does not offer this grant now. Look at it again, then decide.",
            ),
            Error::Run(refused) => refused.into(),
            Error::InTheWay(decisions) => in_the_way(decisions),
            Error::Invalid(why) => Self::new(StatusCode::BAD_REQUEST, "invalid", "Invalid request", format!("{why}.")),
        };
        problem.because(cause)
    }
}

/// A condition that does not compile: each place, the first in words.
fn invalid_condition(faults: &[ConditionPlace]) -> Problem {
    let first = faults.first().map(|fault| {
        let ConditionPlace { line, column, message, hint } = fault;
        format!("`when`, line {line} column {column}: {message}; {hint}.")
    });
    let detail = first.unwrap_or_else(|| "`when` does not compile.".to_owned());
    let places: Vec<Value> = faults
        .iter()
        .map(|ConditionPlace { line, column, message, hint }| {
            json!({ "line": line, "column": column, "message": message, "hint": hint })
        })
        .collect();
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_condition", "The condition does not compile", detail)
        .with("field", "when")
        .with("faults", places)
}

impl From<RunRefused> for Problem {
    fn from(refused: RunRefused) -> Self {
        let detail = format!("{refused}.");
        let conflict = |code, title, help: &str| Self::conflict(code, title, format!("{detail} {help}"));
        match refused {
            RunRefused::Ended => conflict("run_ended", "The run has ended", "Begin another one, under a new id."),
            RunRefused::WrittenOnce(field) => conflict(
                "written_once",
                "Written before",
                "It is written once; what the human asks later goes to POST /runs/{run_id}/requests.",
            )
            .with("field", field),
            RunRefused::Family(_) => conflict(
                "parent_refused",
                "Not below that run",
                "Name the run above before this one has runs of its own, and at most eight deep.",
            ),
            RunRefused::ParentUnknown => {
                conflict("parent_unknown", "Unknown run above", "Declare that run first, with PUT /runs/{run_id}.")
            }
            RunRefused::ParentAmbiguous => {
                conflict("parent_ambiguous", "Which run above", "Say whose run it is with `parent_agent`.")
            }
            RunRefused::RequestTooLong => Self::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "request_too_long",
                "Too much was asked",
                format!("{detail} Send what people typed, without attachments and quotations."),
            ),
            RunRefused::NotReady(status) => {
                let help = "Wait until every held call of its newest turn is decided: GET /runs?status=ready.";
                conflict("run_not_ready", "The run is not ready", help).with("run_status", status.as_str())
            }
            RunRefused::Leased { until } => {
                let help = "It is ready again when that worker has not parked or gone on by then.";
                conflict("run_leased", "Another worker has it", help).with("lease_expires_at", until.to_string())
            }
            RunRefused::NothingMatched => Self::new(
                StatusCode::PRECONDITION_REQUIRED,
                "if_match_required",
                "If-Match is missing",
                format!("{detail} Send its `etag` as `if-match` to replace it."),
            ),
            RunRefused::ParkedDiffers => Self::new(
                StatusCode::PRECONDITION_FAILED,
                "parked_differs",
                "Something else is parked",
                format!("{detail} Look at the run again; another worker may have gone on with it."),
            ),
        }
    }
}

/// Names each decision in the way as a problem of its own.
fn in_the_way(decisions: Vec<InTheWay>) -> Problem {
    let listed = decisions.into_iter().map(|(id, error)| {
        let Problem { status, code, detail, more, .. } = error.into();
        let mut listed = json!({ "id": id, "status": status.as_u16(), "code": code, "detail": detail });
        if let Value::Object(listed) = &mut listed {
            listed.extend(more);
        }
        listed
    });
    let detail = "None of the decisions was taken, because of those in `in_the_way`. Look at these again, then decide.";
    Problem::conflict("in_the_way", "Some decisions cannot be taken", detail)
        .with("in_the_way", listed.collect::<Vec<_>>())
}

fn already_executed(executed: AlreadyExecuted) -> Problem {
    let AlreadyExecuted { approval, claim, outcome, result, claimed_at } = executed;
    let tool_result = ToolResult::executed(outcome.as_deref(), result.as_ref());
    let detail = "This call was claimed before, so it never runs again. Hand `tool_result` to the model.";
    Problem::conflict("already_executed", "Already executed", detail)
        .with("approval", json!({ "id": approval }))
        .with("claim_id", claim.to_string())
        .with("claimed_at", claimed_at.to_string())
        .with("outcome", outcome)
        .with("result", result.unwrap_or_default())
        .with("tool_result", json!(tool_result))
}

impl From<ConfirmationFault> for Problem {
    fn from(fault: ConfirmationFault) -> Self {
        let how = "An approve without `confirmation` is answered with a new one.";
        let conflict = |code, title| Self::conflict(code, title, format!("The approve does not count: {fault}. {how}"));
        match &fault {
            ConfirmationFault::Unknown => conflict("confirmation_unknown", "Not your confirmation"),
            ConfirmationFault::Spent => conflict("confirmation_spent", "Confirmation used before"),
            ConfirmationFault::Early { valid_from } => {
                conflict("confirmation_early", "Confirmation too early").with("valid_from", valid_from.to_string())
            }
            ConfirmationFault::Expired { at } => {
                conflict("confirmation_expired", "Confirmation too late").with("expired_at", at.to_string())
            }
        }
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        let Refused { event, state, why } = refused;
        let detail = format!("Cannot {event}: {why}.");
        let conflict = |code, title| Self::conflict(code, title, detail.clone());
        let problem = match why {
            Obstacle::State(StateName::Pending) => conflict("approval_pending", "The approval is pending"),
            Obstacle::State(StateName::Approved) => conflict("approval_approved", "The approval is approved"),
            Obstacle::State(StateName::Denied) => conflict("approval_denied", "The approval is denied"),
            Obstacle::State(StateName::Expired) => conflict("approval_expired", "The approval has expired"),
            Obstacle::State(StateName::Cancelled) => conflict("approval_cancelled", "The approval is cancelled"),
            Obstacle::State(StateName::Executed) => conflict("approval_executed", "The call is executed"),
            Obstacle::Decided { by, at } => {
                conflict("decided", "Already decided").with("by", by).with("at", at.to_string())
            }
            Obstacle::AlreadyVoted => conflict("already_voted", "Already voted"),
            Obstacle::Grace { until } => {
                let problem = Self::new(StatusCode::TOO_EARLY, "within_grace", "Too early", detail.clone());
                problem.with("claim_after", until.to_string())
            }
            Obstacle::Claimed => conflict("already_claimed", "Already claimed"),
            Obstacle::OtherClaim => conflict("other_claim", "Not the current claim"),
            Obstacle::LeaseOver { at } => conflict("lease_over", "The lease is over").with("at", at.to_string()),
            Obstacle::OutcomeStands => conflict("outcome_stands", "An outcome is recorded"),
            Obstacle::GivenBackBefore => conflict("given_back_before", "Given back before"),
            Obstacle::NothingToSettle => conflict("nothing_to_settle", "Nothing to settle"),
            Obstacle::NothingToLift => conflict("nothing_to_lift", "Nothing to lift"),
        };
        problem.with("state", state.as_str())
    }
}

/// The refusals that any route with a credential has, for the API's description.
pub(super) struct Authenticated;

impl utoipa::IntoResponses for Authenticated {
    fn responses() -> BTreeMap<String, RefOr<Described>> {
        [
            ("400", "The request is not what this route takes."),
            ("401", "No valid key was sent."),
            ("403", "The key has another role."),
            ("503", "It could not be done now; nothing was permitted."),
        ]
        .into_iter()
        .map(|(status, text)| (status.to_owned(), problem(text)))
        .collect()
    }
}

/// The refusals that any route with a body has besides, for the API's description.
pub(super) struct Bodied;

impl utoipa::IntoResponses for Bodied {
    fn responses() -> BTreeMap<String, RefOr<Described>> {
        [("413", "The body is too large."), ("415", "The body is not JSON.")]
            .into_iter()
            .map(|(status, text)| (status.to_owned(), problem(text)))
            .collect()
    }
}

fn problem(text: &str) -> RefOr<Described> {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("ProblemDocument"))).build();
    ResponseBuilder::new().description(text).content("application/problem+json", content).build().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::approval::state::Event;

    #[test]
    fn a_claim_within_the_grace_is_told_when_to_come_again_and_never_too_early() {
        let until = Timestamp::from_micros(10_000_001);
        let error =
            Error::Refused(Refused { event: Event::Claim, state: StateName::Approved, why: Obstacle::Grace { until } });
        for (now, seconds) in [(0, "11"), (9_000_001, "1"), (9_000_000, "2"), (10_000_000, "1")] {
            let refusal = Refusal::of_call(error.clone(), Timestamp::from_micros(now));
            assert_eq!(refusal.reason(), "within_grace");
            let answer = refusal.render(&Bytes::new(), "req-1");
            assert_eq!(answer.status(), StatusCode::TOO_EARLY);
            assert_eq!(answer.headers()[header::RETRY_AFTER], seconds);
        }
    }

    #[test]
    fn text_from_outside_is_cut_between_characters() {
        let text = "\u{e9}".repeat(LONGEST_DETAIL);
        let cut = bounded(&text);
        assert!(cut.len() <= LONGEST_DETAIL + 3);
        assert!(cut.ends_with("\u{e9}..."));
    }
}
