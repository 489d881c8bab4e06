//! `/approvals`: held calls, as the agent that asked and the reviewers who decide see them.

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    StateView,
    decide::{self, Claimed, RefusedBody, wait_for_people},
    grants::length,
    page,
};

use crate::{
    app::{
        ReviewerCaller,
        claim_call::Presented,
        confirm::ToConfirm,
        error::Error,
        grants::TakenOffer,
        ports::ApprovalFilter,
        report_outcome::OutcomeReport,
        review::{Decided, ReviewDecision, ReviewedApproval},
    },
    domain::{
        approval::{
            outcome::{ReportedStatus, SettledStatus},
            state::StateName,
        },
        call::Arguments,
        canon::json::ArgsHash,
        identity::AgentId,
        ids::{ApprovalId, BatchId, ClaimId, OfApproval, RunId},
        time::Timestamp,
    },
    http::{
        error::{Authenticated, Bodied, Problem, ProblemDocument, Refusal, ToolUnavailable},
        extract::{
            Agent, AgentOrReviewer, Body, OptionalBody, Parameters, PathId, Reviewer, Wait, reviewer_refused, sentence,
        },
        state::HttpState,
    },
};

mod agent_view;
mod many;
mod review_view;
mod reviewer_view;

pub(super) use agent_view::AgentApproval;

use reviewer_view::{ReviewedView, ReviewerApproval};

/// The routes.
pub(in crate::http) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new()
        .routes(routes!(list_approvals, decide::request_approval))
        .routes(routes!(get_approval))
        .routes(routes!(claim))
        .routes(routes!(heartbeat))
        .routes(routes!(report_outcome))
        .routes(routes!(cancel))
        .routes(routes!(decide_approval))
        .routes(routes!(many::decide_approvals))
        .routes(routes!(revoke))
        .routes(routes!(lift))
        .routes(routes!(settle))
}

/// A held call, as whoever asks may see it.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = Approval)]
enum ApprovalView {
    Agent(Box<AgentApproval>),
    Reviewer(Box<ReviewedView>),
}

/// A page of held calls, newest first.
#[derive(Serialize, ToSchema)]
struct Approvals {
    items: Vec<ReviewerApproval>,
    /// Asks for the next page; `null` on the last one.
    next_cursor: Option<String>,
}

/// Which held calls to list.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ApprovalQuery {
    /// In this state.
    #[param(value_type = Option<StateView>)]
    state: Option<String>,
    /// Of this agent.
    #[param(value_type = Option<String>)]
    agent: Option<AgentId>,
    /// Of this run.
    #[param(value_type = Option<String>)]
    run_id: Option<RunId>,
    /// Of this batch.
    #[param(value_type = Option<String>)]
    batch_id: Option<BatchId>,
    /// Only those that were executed with an outcome nobody knows.
    #[serde(default)]
    unsettled: bool,
    /// How many at most.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u32>,
    /// From the page before.
    cursor: Option<String>,
}

/// What a reviewer decides.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ReviewDecision)]
struct DecisionBody {
    decision: ApproveOrDeny,
    /// The `args_hash` that was shown.
    #[schema(value_type = String)]
    args_hash: ArgsHash,
    /// The `review_hash` that was shown.
    review_hash: Option<String>,
    /// Why, for the log.
    #[schema(max_length = 4096)]
    reason: Option<String>,
    /// What the agent is told of a denial.
    #[schema(max_length = 4096)]
    message_to_agent: Option<String>,
    /// One of the `grant_offers`, as it was shown: taken with an approve.
    grant: Option<TakenGrant>,
    /// What the first approve was answered with, where the requirement says `double_confirm`.
    confirmation: Option<String>,
}

/// A grant that an approval offered.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct TakenGrant {
    when: String,
    ttl: String,
    max_uses: u32,
}

/// An approve that does not count yet.
#[derive(Serialize, ToSchema)]
#[schema(as = Confirmation)]
struct ConfirmationView {
    /// To be sent with the second approve. Good once, for this reviewer, approval and review.
    confirmation: String,
    /// Not before this.
    #[schema(value_type = String, format = DateTime)]
    valid_from: Timestamp,
    /// Nor from this on.
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
}

/// Approve or deny.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ApproveOrDeny {
    Approve,
    Deny,
}

/// What is claimed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Claim)]
struct ClaimBody {
    /// Exactly the arguments that are about to run.
    args: Map<String, Value>,
    /// A random id of the caller's choice: the same claim sent again, because its answer was lost, is answered again.
    #[schema(value_type = Option<String>, pattern = "^[A-Za-z0-9_.:-]{1,128}$")]
    claim_id: Option<ClaimId>,
}

/// Which claim.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Heartbeat)]
struct HeartbeatBody {
    #[schema(value_type = Option<String>)]
    claim_id: Option<ClaimId>,
}

/// Until when an outcome is awaited.
#[derive(Serialize, ToSchema)]
struct Lease {
    #[schema(value_type = String, format = DateTime)]
    lease_expires_at: Timestamp,
}

/// What came of a call.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Outcome)]
pub(super) struct OutcomeBody {
    /// The claim it ran under; needed for `not_started`.
    #[schema(value_type = Option<String>)]
    claim_id: Option<ClaimId>,
    status: OutcomeStatus,
    /// A sentence about it.
    #[schema(max_length = 4096)]
    detail: Option<String>,
    /// What the tool returned.
    #[schema(value_type = Option<Value>)]
    result: Option<Value>,
}

/// What the stack reports.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum OutcomeStatus {
    /// It ran and did what it was asked.
    Succeeded,
    /// It ran, or began to, and failed.
    Failed,
    /// It never began: it may be claimed again, once.
    NotStarted,
}

impl OutcomeBody {
    /// The report it makes.
    pub(super) fn report(self) -> Result<OutcomeReport, Refusal> {
        let Self { claim_id, status, detail, result } = self;
        let status = match status {
            OutcomeStatus::Succeeded => ReportedStatus::Succeeded,
            OutcomeStatus::Failed => ReportedStatus::Failed,
            OutcomeStatus::NotStarted => ReportedStatus::NotStarted,
        };
        Ok(OutcomeReport { claim: claim_id, status, detail: sentence("detail", detail)?, result })
    }
}

/// Why.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Reason)]
struct ReasonBody {
    /// For the log.
    #[schema(max_length = 4096)]
    reason: Option<String>,
}

/// What a person found of a call whose outcome nobody reported.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Settle)]
struct SettleBody {
    status: SettleStatus,
    /// For the log.
    #[schema(max_length = 4096)]
    reason: Option<String>,
}

/// What a person can find.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum SettleStatus {
    /// It had run.
    Succeeded,
    /// It had failed, or had never run.
    Failed,
}

/// When to answer.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct UnlessQuery {
    /// With `Prefer: wait=N`, wait while the approval is in this state.
    #[param(value_type = Option<StateView>)]
    unless: Option<String>,
}

/// Which calls are held?
#[utoipa::path(
    get, path = "/approvals", tag = "approvals", security(("key" = ["reviewer"])),
    params(ApprovalQuery),
    responses(Authenticated, (status = 200, description = "Those this reviewer may see, newest first.", body = Approvals))
)]
async fn list_approvals(
    State(state): State<HttpState>,
    Reviewer(reviewer): Reviewer,
    Parameters(query): Parameters<ApprovalQuery>,
) -> Result<Json<Approvals>, Refusal> {
    let filter = ApprovalFilter {
        state: query.state.as_deref().map(|text| state_named("state", text)).transpose()?,
        agent: query.agent,
        run: query.run_id,
        batch: query.batch_id,
        unsettled: query.unsettled,
        visible_to: None,
    };
    let before = page::place(query.cursor.as_deref())?;
    let page = state.app.list_approvals(&reviewer, filter, before, page::limit(query.limit)?).await?;
    let items = page.approvals.into_iter().map(|approval| ReviewerApproval::of(&state, approval)).collect();
    Ok(Json(Approvals { items, next_cursor: page.next.as_ref().map(page::cursor) }))
}

/// One held call.
///
/// An agent sees how far its own call is, and may wait for it with `Prefer: wait=N`; a reviewer sees what to decide on.
#[utoipa::path(
    get, path = "/approvals/{id}", tag = "approvals", security(("key" = ["agent"]), ("key" = ["reviewer"])),
    params(
        ("id" = String, Path, description = "The approval"),
        ("Prefer" = Option<String>, Header, description = "`wait=N`: wait up to N seconds, at most 60"),
        UnlessQuery
    ),
    responses(
        Authenticated,
        (status = 200, description = "The approval.", body = ApprovalView),
        (status = 404, description = "There is none that this key may see.", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
async fn get_approval(
    State(state): State<HttpState>,
    caller: AgentOrReviewer,
    PathId(id): PathId<OfApproval>,
    Wait(wait): Wait,
    Parameters(query): Parameters<UnlessQuery>,
) -> Result<Json<ApprovalView>, Refusal> {
    let unless = query.unless.as_deref().map_or(Ok(StateName::Pending), |text| state_named("unless", text))?;
    let view = match caller {
        AgentOrReviewer::Agent(agent) => {
            let approval = wait_for_people(&state, &agent.caller, id, unless, wait).await?;
            ApprovalView::Agent(Box::new(AgentApproval::of(&state, approval)))
        }
        AgentOrReviewer::Reviewer(Reviewer(reviewer)) => {
            let reviewed = state.app.approval_for_reviewer(&reviewer, id).await?;
            ApprovalView::Reviewer(Box::new(ReviewedView::of(&state, reviewed)))
        }
    };
    Ok(Json(view))
}

/// Take the one right to run an approved call.
///
/// Exactly one of any number of claims is answered 200.
#[utoipa::path(
    post, path = "/approvals/{id}/claim", tag = "approvals", security(("key" = ["agent"])),
    params(("id" = String, Path, description = "The approval")),
    request_body = ClaimBody,
    responses(
        Authenticated,
        Bodied,
        (status = 200, description = "It may run now, once.", body = Claimed),
        (status = 403, description = "The key has another role.", body = RefusedBody),
        (status = 404, description = "There is none that this key may see.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 409, description = "It cannot be claimed.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 425, description = "It cannot be claimed yet; `retry-after` says when.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 503, description = "It could not be claimed now.", body = ToolUnavailable),
    )
)]
async fn claim(
    State(state): State<HttpState>,
    agent: Agent,
    PathId(id): PathId<OfApproval>,
    Body(body): Body<ClaimBody>,
) -> Result<Json<Claimed>, Refusal> {
    let args = Arguments::new(body.args).map_err(|_| Problem::internal())?;
    let presented = Presented { args: &args, claim: body.claim_id };
    match state.app.claim_call(&agent.caller, id, &presented).await {
        Ok(claimed) => Ok(Json(claimed.into())),
        Err(error) => Err(Refusal::of_call(error, state.app.now())),
    }
}

/// It still runs: extend the lease.
#[utoipa::path(
    post, path = "/approvals/{id}/heartbeat", tag = "approvals", security(("key" = ["agent"])),
    params(("id" = String, Path, description = "The approval")),
    request_body = Option<HeartbeatBody>,
    responses(
        Authenticated,
        Bodied,
        (status = 200, description = "Extended.", body = Lease),
        (status = 404, description = "There is none that this key may see.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 409, description = "It is not the current claim, or its lease is over.", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
async fn heartbeat(
    State(state): State<HttpState>,
    agent: Agent,
    PathId(id): PathId<OfApproval>,
    OptionalBody(body): OptionalBody<HeartbeatBody>,
) -> Result<Json<Lease>, Refusal> {
    let lease_expires_at = state.app.heartbeat(&agent.caller, id, body.claim_id.as_ref()).await?;
    Ok(Json(Lease { lease_expires_at }))
}

/// What came of the call?
///
/// The first outcome stands; the same one sent again is answered alike.
#[utoipa::path(
    post, path = "/approvals/{id}/outcome", tag = "approvals", security(("key" = ["agent"])),
    params(("id" = String, Path, description = "The approval")),
    request_body = OutcomeBody,
    responses(
        Authenticated,
        Bodied,
        (status = 204, description = "Recorded."),
        (status = 404, description = "There is none that this key may see.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 409, description = "It is not claimed, or another outcome is recorded.", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
async fn report_outcome(
    State(state): State<HttpState>,
    agent: Agent,
    PathId(id): PathId<OfApproval>,
    Body(body): Body<OutcomeBody>,
) -> Result<StatusCode, Refusal> {
    state.app.report_outcome(&agent.caller, id, &body.report()?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Withdraw a call that is not claimed.
#[utoipa::path(
    post, path = "/approvals/{id}/cancel", tag = "approvals", security(("key" = ["agent"])),
    params(("id" = String, Path, description = "The approval")),
    request_body = Option<ReasonBody>,
    responses(
        Authenticated,
        Bodied,
        (status = 200, description = "Withdrawn.", body = AgentApproval),
        (status = 404, description = "There is none that this key may see.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 409, description = "It is decided otherwise, or claimed.", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
async fn cancel(
    State(state): State<HttpState>,
    agent: Agent,
    PathId(id): PathId<OfApproval>,
    OptionalBody(body): OptionalBody<ReasonBody>,
) -> Result<Json<AgentApproval>, Refusal> {
    let reason = sentence("reason", body.reason)?;
    let approval = state.app.cancel_call(&agent.caller, id, reason.as_deref()).await?;
    Ok(Json(AgentApproval::of(&state, approval)))
}

/// Approve or deny.
///
/// Where the requirement says `double_confirm`, the first approve is no vote: it is answered 202 with a confirmation, and
/// counts when it is sent again with that, from two seconds to five minutes later.
#[utoipa::path(
    post, path = "/approvals/{id}/decision", tag = "approvals", security(("key" = ["reviewer"])),
    params(("id" = String, Path, description = "The approval")),
    request_body = DecisionBody,
    responses(
        Authenticated,
        Bodied,
        (status = 200, description = "Decided.", body = ReviewedView),
        (status = 202, description = "No vote yet: send it again with this confirmation.", body = ConfirmationView),
        (status = 403, description = "The key has another role, or this reviewer may deny and not approve (`not_eligible`).", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 404, description = "There is none that this key may see.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 409, description = "Something else was shown, it is decided already, or the confirmation does not count.", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
async fn decide_approval(
    State(state): State<HttpState>,
    Reviewer(reviewer): Reviewer,
    PathId(id): PathId<OfApproval>,
    Body(body): Body<DecisionBody>,
) -> Result<Response, Refusal> {
    let approve = body.decision == ApproveOrDeny::Approve;
    if body.grant.is_some() && !approve {
        return Err(Problem::invalid_field("grant", "a grant goes with an approve").into());
    }
    let grant = match body.grant {
        Some(TakenGrant { when, ttl, max_uses }) => {
            Some(TakenOffer { when, ttl: length("grant.ttl", &ttl)?, max_uses })
        }
        None => None,
    };
    let decision = ReviewDecision {
        approve,
        args_hash: body.args_hash,
        review_hash: body.review_hash,
        reason: sentence("reason", body.reason)?,
        message_to_agent: sentence("message_to_agent", body.message_to_agent)?,
        grant,
        confirmation: body.confirmation,
    };
    match state.app.decide_approval(&reviewer, id, &decision).await {
        Ok(Decided::ToConfirm(ToConfirm { confirmation, valid_from, expires_at })) => {
            let view = ConfirmationView { confirmation, valid_from, expires_at };
            Ok((StatusCode::ACCEPTED, Json(view)).into_response())
        }
        Ok(Decided::Counted(decided)) => reviewed(&state, &reviewer, id, Ok(*decided)).await,
        Err(error) => reviewed(&state, &reviewer, id, Err(error)).await,
    }
}

/// Take an approve back before the claim.
#[utoipa::path(
    post, path = "/approvals/{id}/revoke", tag = "approvals", security(("key" = ["reviewer"])),
    params(("id" = String, Path, description = "The approval")),
    request_body = Option<ReasonBody>,
    responses(
        Authenticated,
        Bodied,
        (status = 200, description = "Taken back: the call will not run.", body = ReviewedView),
        (status = 404, description = "There is none that this key may see.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 409, description = "It is not approved, or claimed.", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
async fn revoke(
    State(state): State<HttpState>,
    Reviewer(reviewer): Reviewer,
    PathId(id): PathId<OfApproval>,
    OptionalBody(body): OptionalBody<ReasonBody>,
) -> Result<Response, Refusal> {
    let reason = sentence("reason", body.reason)?;
    let revoked = state.app.revoke_approval(&reviewer, id, reason.as_deref()).await;
    reviewed(&state, &reviewer, id, revoked).await
}

/// Undo the own denial for later calls.
#[utoipa::path(
    post, path = "/approvals/{id}/lift", tag = "approvals", security(("key" = ["reviewer"])),
    params(("id" = String, Path, description = "The approval")),
    request_body = Option<ReasonBody>,
    responses(
        Authenticated,
        Bodied,
        (status = 200, description = "Lifted: this call stays denied, later ones are decided afresh.", body = ReviewedView),
        (status = 404, description = "There is none that this key may see.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 409, description = "No denial by a reviewer stands.", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
async fn lift(
    State(state): State<HttpState>,
    Reviewer(reviewer): Reviewer,
    PathId(id): PathId<OfApproval>,
    OptionalBody(body): OptionalBody<ReasonBody>,
) -> Result<Response, Refusal> {
    let reason = sentence("reason", body.reason)?;
    let lifted = state.app.lift_denial(&reviewer, id, reason.as_deref()).await;
    reviewed(&state, &reviewer, id, lifted).await
}

/// Say what came of a call whose outcome nobody reported.
#[utoipa::path(
    post, path = "/approvals/{id}/settle", tag = "approvals", security(("key" = ["reviewer"])),
    params(("id" = String, Path, description = "The approval")),
    request_body = SettleBody,
    responses(
        Authenticated,
        Bodied,
        (status = 200, description = "Settled.", body = ReviewedView),
        (status = 404, description = "There is none that this key may see.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 409, description = "Its outcome is not unknown.", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
async fn settle(
    State(state): State<HttpState>,
    Reviewer(reviewer): Reviewer,
    PathId(id): PathId<OfApproval>,
    Body(body): Body<SettleBody>,
) -> Result<Response, Refusal> {
    let status = match body.status {
        SettleStatus::Succeeded => SettledStatus::Succeeded,
        SettleStatus::Failed => SettledStatus::Failed,
    };
    let reason = sentence("reason", body.reason)?;
    let settled = state.app.settle_outcome(&reviewer, id, status, reason.as_deref()).await;
    reviewed(&state, &reviewer, id, settled).await
}

/// What a reviewer's act came to.
async fn reviewed(
    state: &HttpState,
    reviewer: &ReviewerCaller,
    id: ApprovalId,
    acted: Result<ReviewedApproval, Error>,
) -> Result<Response, Refusal> {
    match acted {
        Ok(reviewed) => Ok(Json(ReviewedView::of(state, reviewed)).into_response()),
        Err(error) => Err(reviewer_refused(state, &reviewer.caller, Some(id), error).await),
    }
}

fn state_named(parameter: &str, text: &str) -> Result<StateName, Refusal> {
    StateName::parse(text).ok_or_else(|| {
        let states = StateName::ALL.map(StateName::as_str).join(", ");
        Problem::invalid_query(&format!("`{parameter}` is one of {states}")).into()
    })
}
