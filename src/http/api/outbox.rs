//! `/destinations` and `/dead-letters`: where messages go, and those that did not arrive.

use axum::{Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::page;
use crate::{
    app::destinations::DestinationView,
    domain::{
        channel::Destination as Place,
        ids::OfNotice,
        notice::{QueuedNotice, Topic},
        time::Timestamp,
    },
    http::{
        error::{Authenticated, Problem, ProblemDocument, Refusal},
        extract::{Admin, Auditor, Parameters, PathId, PathText},
        state::HttpState,
    },
};

/// The routes.
pub(in crate::http) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new()
        .routes(routes!(list_destinations))
        .routes(routes!(enable_destination))
        .routes(routes!(list_dead_letters))
        .routes(routes!(replay_dead_letter))
}

/// Every destination.
#[derive(Serialize, ToSchema)]
struct Destinations {
    items: Vec<Destination>,
}

/// Where messages go, and how it stands there.
#[derive(Serialize, ToSchema)]
struct Destination {
    /// `channel:NAME`, or `callback:AGENT` for the stack that runs an agent.
    name: String,
    /// Whether the settings still name it.
    configured: bool,
    /// Since when nothing has arrived; `null` when the last message did.
    #[schema(value_type = Option<String>, format = DateTime)]
    failing_since: Option<Timestamp>,
    /// Since when nothing is sent there any more; `null` when it is.
    #[schema(value_type = Option<String>, format = DateTime)]
    disabled_at: Option<Timestamp>,
    /// Why nothing is.
    disabled_why: Option<String>,
    /// Messages that are due, or were tried and are to be tried again.
    waiting: u64,
    /// Messages that are not to be sent yet, such as reminders.
    later: u64,
    /// Messages that were given up.
    dead: u64,
}

impl From<DestinationView> for Destination {
    fn from(view: DestinationView) -> Self {
        let (disabled_at, disabled_why) = view.disabled.unzip();
        Self {
            name: view.to.to_string(),
            configured: view.configured,
            failing_since: view.failing_since,
            disabled_at,
            disabled_why,
            waiting: view.waiting,
            later: view.later,
            dead: view.dead,
        }
    }
}

/// A page of messages that were given up, newest first.
#[derive(Serialize, ToSchema)]
struct DeadLetters {
    items: Vec<DeadLetter>,
    /// Where the next page begins; `null` on the last one.
    next_cursor: Option<String>,
}

/// A message that was given up.
#[derive(Serialize, ToSchema)]
struct DeadLetter {
    /// Its id, the same at every attempt.
    id: String,
    /// Where it was to go.
    destination: String,
    /// The reviewer it was for, where a channel writes to people.
    recipient: Option<String>,
    /// What it tells.
    event: &'static str,
    /// The approval it is about.
    approval_id: Option<String>,
    /// The run it is about.
    run_id: Option<String>,
    /// When that happened.
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// How many attempts there were.
    attempts: u32,
    /// The last that failed.
    failed: Vec<FailedAttempt>,
    /// When it was given up.
    #[schema(value_type = Option<String>, format = DateTime)]
    dead_since: Option<Timestamp>,
}

/// An attempt that failed.
#[derive(Serialize, ToSchema)]
struct FailedAttempt {
    /// When it ended.
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// How long it took, in milliseconds.
    millis: u64,
    /// What was wrong.
    fault: String,
}

impl From<QueuedNotice> for DeadLetter {
    fn from(queued: QueuedNotice) -> Self {
        let QueuedNotice { notice, attempts, failed, dead_since, passed_on: _ } = queued;
        let (approval_id, run_id) = match notice.topic {
            Topic::Approval(id) => (Some(id.to_string()), None),
            Topic::Run(run) => (None, Some(run.run.to_string())),
        };
        Self {
            id: notice.id.to_string(),
            destination: notice.to.to_string(),
            recipient: notice.recipient.map(|name| name.to_string()),
            event: notice.event.as_str(),
            approval_id,
            run_id,
            at: notice.at,
            attempts,
            failed: failed
                .into_iter()
                .map(|failed| FailedAttempt { at: failed.at, millis: failed.millis, fault: failed.fault })
                .collect(),
            dead_since,
        }
    }
}

/// Where do messages go?
#[utoipa::path(
    get, path = "/destinations", tag = "messages", security(("key" = ["auditor"])),
    responses(Authenticated, (status = 200, description = "Every destination.", body = Destinations))
)]
async fn list_destinations(State(state): State<HttpState>, _: Auditor) -> Result<Json<Destinations>, Refusal> {
    let views = state.app.destinations().await?;
    Ok(Json(Destinations { items: views.into_iter().map(Destination::from).collect() }))
}

/// Send to a disabled destination again.
#[utoipa::path(
    post, path = "/destinations/{name}/enable", tag = "messages", security(("key" = ["admin"])),
    params(("name" = String, Path, description = "Such as `channel:finance-chat`.")),
    responses(
        Authenticated,
        (status = 404, description = "There is none.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 204, description = "The next message is tried.")
    )
)]
async fn enable_destination(
    State(state): State<HttpState>,
    Admin(caller): Admin,
    PathText(name): PathText,
) -> Result<StatusCode, Refusal> {
    let to: Place = name.parse().map_err(|_| Problem::not_found())?;
    state.app.enable_destination(&caller, &to).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct DeadLetterQuery {
    /// How many at most.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u32>,
    /// From the page before.
    cursor: Option<String>,
}

/// Which messages did not arrive?
#[utoipa::path(
    get, path = "/dead-letters", tag = "messages", security(("key" = ["auditor"])), params(DeadLetterQuery),
    responses(Authenticated, (status = 200, description = "Those that were given up.", body = DeadLetters))
)]
async fn list_dead_letters(
    State(state): State<HttpState>,
    _: Auditor,
    Parameters(query): Parameters<DeadLetterQuery>,
) -> Result<Json<DeadLetters>, Refusal> {
    let before = page::place(query.cursor.as_deref())?;
    let (dead, next) = state.app.dead_letters(before, page::limit(query.limit)?).await?;
    Ok(Json(DeadLetters {
        items: dead.into_iter().map(DeadLetter::from).collect(),
        next_cursor: next.as_ref().map(page::cursor),
    }))
}

/// Try a message again that was given up.
#[utoipa::path(
    post, path = "/dead-letters/{id}/replay", tag = "messages", security(("key" = ["admin"])),
    params(("id" = String, Path, description = "The message.")),
    responses(
        Authenticated,
        (status = 404, description = "There is none.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 204, description = "It waits to be sent, under the same id.")
    )
)]
async fn replay_dead_letter(
    State(state): State<HttpState>,
    Admin(caller): Admin,
    PathId(id): PathId<OfNotice>,
) -> Result<StatusCode, Refusal> {
    state.app.replay_dead_letter(&caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
