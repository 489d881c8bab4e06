//! `/agents`: pausing an agent and letting it go on.

use axum::{extract::State, http::StatusCode};
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    domain::identity::OfAgent,
    http::{
        error::{Authenticated, Bodied, Refusal},
        extract::{Admin, OptionalBody, PathName, Reviewer, sentence},
        state::HttpState,
    },
};

/// The routes.
pub(in crate::http) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(pause)).routes(routes!(resume))
}

/// Why.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PauseReason)]
struct PauseBody {
    /// For the log.
    #[schema(max_length = 4096)]
    reason: Option<String>,
}

/// Pause an agent.
///
/// From now on it and every run below its runs may use no tool, on any instance; what waits for people there is
/// withdrawn. Pausing a paused agent changes nothing.
#[utoipa::path(
    post, path = "/agents/{id}/pause", operation_id = "pause_agent", tag = "agents", security(("key" = ["reviewer"])),
    params(("id" = String, Path, description = "The agent")),
    request_body = Option<PauseBody>,
    responses(Authenticated, Bodied, (status = 204, description = "It is paused."))
)]
async fn pause(
    State(state): State<HttpState>,
    Reviewer(reviewer): Reviewer,
    PathName(agent): PathName<OfAgent>,
    OptionalBody(body): OptionalBody<PauseBody>,
) -> Result<StatusCode, Refusal> {
    let reason = sentence("reason", body.reason)?;
    state.app.pause_agent(&reviewer, &agent, reason.as_deref()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Let a paused agent go on.
#[utoipa::path(
    post, path = "/agents/{id}/resume", operation_id = "resume_agent", tag = "agents", security(("key" = ["admin"])),
    params(("id" = String, Path, description = "The agent")),
    responses(Authenticated, (status = 204, description = "It is not paused."))
)]
async fn resume(
    State(state): State<HttpState>,
    Admin(admin): Admin,
    PathName(agent): PathName<OfAgent>,
) -> Result<StatusCode, Refusal> {
    state.app.resume_agent(&admin, &agent).await?;
    Ok(StatusCode::NO_CONTENT)
}
