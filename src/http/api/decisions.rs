//! `/decisions`: one decision, as auditors see it, and what came of a call that needed no people.

use axum::{Json, extract::State, http::StatusCode};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    approvals::OutcomeBody,
    audit::{ExplainedView, explained},
};
use crate::{
    app::{audit_log::Subject, error::Error},
    domain::{audit::entry::EventKind, ids::OfDecision},
    http::{
        error::{Authenticated, Bodied, ProblemDocument, Refusal},
        extract::{Agent, Auditor, Body, PathId},
        state::HttpState,
    },
};

/// The routes.
pub(in crate::http) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(get_decision)).routes(routes!(report_decision_outcome))
}

/// One decision.
///
/// What was decided, why, what every rule came to, and what it was decided about as far as that is kept.
#[utoipa::path(
    get, path = "/decisions/{id}", tag = "audit", security(("key" = ["auditor"])),
    params(("id" = String, Path, description = "The decision")),
    responses(
        Authenticated,
        (status = 200, description = "Its entry of the log, with the payload.", body = ExplainedView),
        (status = 404, description = "There is none.", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
async fn get_decision(
    State(state): State<HttpState>,
    _: Auditor,
    PathId(id): PathId<OfDecision>,
) -> Result<Json<ExplainedView>, Refusal> {
    let entries = state.app.why(Subject::Decision(id)).await?.entries;
    let decided = entries.into_iter().find(|entry| entry.sealed.entry.event == EventKind::Decision);
    Ok(Json(explained(decided.ok_or(Error::NotFound)?)))
}

/// What came of a call that policy allowed?
#[utoipa::path(
    post, path = "/decisions/{id}/outcome", tag = "calls", security(("key" = ["agent"])),
    params(("id" = String, Path, description = "The decision")),
    request_body = OutcomeBody,
    responses(
        Authenticated,
        Bodied,
        (status = 204, description = "Recorded."),
        (status = 404, description = "There is none that this key may see.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 409, description = "Another outcome is recorded.", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
async fn report_decision_outcome(
    State(state): State<HttpState>,
    agent: Agent,
    PathId(id): PathId<OfDecision>,
    Body(body): Body<OutcomeBody>,
) -> Result<StatusCode, Refusal> {
    state.app.report_decision_outcome(&agent.caller, id, &body.report()?).await?;
    Ok(StatusCode::NO_CONTENT)
}
