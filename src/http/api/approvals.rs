//! `/approvals`: held calls, as the agent that asked and the reviewers who decide see them.

use std::collections::{BTreeMap, BTreeSet};

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
    StateView, VerdictView,
    decide::{self, Claimed, RefusedBody, wait_for_people},
    grants::{length, length_text},
    page,
};

use review_view::ReviewView;

mod many;
mod review_view;
use crate::{
    app::{
        ReviewerCaller,
        claim_call::Presented,
        confirm::ToConfirm,
        error::Error,
        grants::{GrantOffer, TakenOffer},
        ports::ApprovalFilter,
        report_outcome::OutcomeReport,
        review::{CallBefore, Decided, ReviewDecision, ReviewedApproval},
    },
    domain::{
        approval::{
            outcome::{Outcome, ReportedStatus, SettledStatus},
            requirement::{Missing, Requirement},
            state::{Approval, Canceller, Denial, Denier, Execution, State as Stands, StateName},
        },
        call::Arguments,
        canon::json::ArgsHash,
        identity::AgentId,
        ids::{ApprovalId, BatchId, ClaimId, DecisionId, OfApproval, RunId, ToolUseId},
        policy::PolicyVersion,
        time::Timestamp,
    },
    http::{
        error::{Authenticated, Bodied, Problem, ProblemDocument, Refusal, ToolResult, ToolUnavailable, declined_text},
        extract::{
            Agent, AgentOrReviewer, Body, OptionalBody, Parameters, PathId, Reviewer, Wait, reviewer_refused, sentence,
        },
        state::HttpState,
    },
};

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

/// A held call, as the agent that asked sees it.
#[derive(Serialize, ToSchema)]
pub(super) struct AgentApproval {
    #[schema(value_type = String, example = "apr_01980d5e-7a4c-7f3e-9a55-0a3c1d2e4f60")]
    id: ApprovalId,
    /// Short, the same everywhere, easy to say aloud.
    #[schema(example = "AP-7Q4K-2M")]
    code: String,
    state: StateView,
    /// Where people decide.
    url: String,
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
    /// When it is approved: from when on it can be claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    claim_after: Option<Timestamp>,
    votes: VoteCount,
    /// What the reviewer who denied wrote to the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// 1 for the first approval of this call.
    attempt: u32,
    /// When it is executed and an outcome is known: `succeeded`, `failed` or `unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    /// What to hand to the model now.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_result: Option<ToolResult>,
}

/// How many people have approved.
#[derive(Serialize, ToSchema)]
struct VoteCount {
    /// Approves that count.
    have: u32,
    /// How many it takes.
    need: u32,
}

impl AgentApproval {
    /// What to hand to the model now.
    pub(super) fn tool_result(&self) -> Option<ToolResult> {
        self.tool_result.clone()
    }

    /// What the agent may know of it.
    pub(super) fn of(state: &HttpState, approval: Approval) -> Self {
        let mut claim_after = None;
        let mut message = None;
        let mut outcome = None;
        let told = match &approval.state {
            Stands::Pending { .. } => Some(format!("awaiting approval {}", approval.code)),
            Stands::Approved(approved) => {
                claim_after = Some(approved.claim_after);
                None
            }
            Stands::Denied(Denial { by: Denier::Reviewer { .. }, message_to_agent, .. }) => {
                message.clone_from(message_to_agent);
                Some(declined_text(message_to_agent.as_deref()))
            }
            Stands::Denied(Denial { by: Denier::Service { .. }, .. }) => Some(state.refusal_text().to_owned()),
            Stands::Expired { .. } => Some("approval expired".to_owned()),
            Stands::Cancelled { by: Canceller::Requester, .. } => Some("cancelled".to_owned()),
            Stands::Cancelled { by: Canceller::PolicyChange | Canceller::Pause | Canceller::Stop, .. } => {
                Some(state.refusal_text().to_owned())
            }
            Stands::Executed(execution) => {
                outcome = execution.outcome.word();
                None
            }
        };
        Self {
            id: approval.id,
            code: approval.code.to_string(),
            state: approval.state.name().into(),
            url: format!("{}/review/{}", state.settings.public_url, approval.id),
            expires_at: approval.expires_at,
            claim_after,
            votes: VoteCount { have: approval.counting_votes(), need: approval.requirement.needed() },
            message,
            attempt: approval.attempt,
            outcome,
            tool_result: told.map(ToolResult::failure),
        }
    }
}

/// A held call, as reviewers see it in a list.
#[derive(Serialize, ToSchema)]
struct ReviewerApproval {
    #[schema(value_type = String)]
    id: ApprovalId,
    #[schema(example = "AP-7Q4K-2M")]
    code: String,
    state: StateView,
    /// Where people decide.
    url: String,
    #[schema(value_type = String)]
    agent: AgentId,
    #[schema(value_type = String)]
    run_id: RunId,
    turn: u32,
    #[schema(value_type = String)]
    tool_use_id: ToolUseId,
    tool: String,
    /// The batch it was asked about in: what else is held of it is to be reviewed with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    batch_id: Option<BatchId>,
    /// What a decision must name, so that it is about these arguments.
    #[schema(value_type = String)]
    args_hash: ArgsHash,
    #[schema(value_type = String)]
    decision_id: DecisionId,
    #[schema(value_type = String)]
    policy_version: PolicyVersion,
    /// The rules that asked for people; none when it was the tool's default.
    asked_by: BTreeSet<String>,
    /// Why people are asked.
    reason: String,
    requirement: RequirementView,
    /// The approves so far.
    votes: Vec<VoteView>,
    /// While it is pending: the approves that are still missing, or one of the ways to come by them.
    missing: Vec<MissingView>,
    /// The same in words, such as `one more from finance`; `null` when it waits for nobody.
    missing_text: Option<String>,
    attempt: u32,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    claim_after: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    denial: Option<DenialView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cancellation: Option<CancellationView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution: Option<ExecutionView>,
}

/// Who must approve, and how.
#[derive(Serialize, ToSchema)]
#[schema(as = Requirement)]
struct RequirementView {
    /// How many of each named group.
    groups: BTreeMap<String, u32>,
    /// How many people in all.
    need: u32,
    /// An approve is answered with a confirmation, and counts when it is sent again with that.
    double_confirm: bool,
    /// For so many seconds after the last approve it can be revoked and not be claimed.
    grace_seconds: u64,
    /// Whether those who own the agent, or whom the run works for, may approve too.
    allow_self_approval: bool,
    /// Groups that may fill in for those named.
    escalation: Vec<EscalationView>,
}

/// A group that may fill in.
#[derive(Serialize, ToSchema)]
#[schema(as = Escalation)]
struct EscalationView {
    group: String,
    /// From when on it sees the approval, and its approves count for any group.
    #[schema(value_type = String, format = DateTime)]
    from: Timestamp,
}

/// Approves that are still missing.
#[derive(Serialize, ToSchema)]
#[schema(as = Missing)]
struct MissingView {
    /// Of which group; `null`: of any.
    group: Option<String>,
    count: u32,
}

impl RequirementView {
    fn of(requirement: Requirement, made: Timestamp) -> Self {
        let need = requirement.needed();
        let escalation = requirement.escalation.into_iter();
        Self {
            groups: requirement.groups,
            need,
            double_confirm: requirement.double_confirm,
            grace_seconds: requirement.grace.as_secs(),
            allow_self_approval: requirement.allow_self_approval,
            escalation: escalation.map(|(group, after)| EscalationView { group, from: made.plus(after) }).collect(),
        }
    }
}

/// One person's approve.
#[derive(Serialize, ToSchema)]
#[schema(as = Vote)]
struct VoteView {
    reviewer: String,
    /// The groups the person was in at that moment.
    groups: BTreeSet<String>,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
}

/// Who denied.
#[derive(Serialize, ToSchema)]
#[schema(as = Denial)]
struct DenialView {
    /// The reviewer; `null` when the service itself denied.
    reviewer: Option<String>,
    /// Why the service denied: `args_mismatch`, `stored_args_mismatch` or `stored_review_mismatch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<&'static str>,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// What the agent is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    message_to_agent: Option<String>,
    /// When the denial was lifted for later calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    lifted_at: Option<Timestamp>,
}

/// Who withdrew the call.
#[derive(Serialize, ToSchema)]
#[schema(as = Cancellation)]
struct CancellationView {
    /// `requester`, `policy_change`, `pause` or `stop`.
    by: &'static str,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
}

/// The one claim of the call, and what came of it.
#[derive(Serialize, ToSchema)]
#[schema(as = Execution)]
struct ExecutionView {
    #[schema(value_type = String)]
    claim_id: ClaimId,
    #[schema(value_type = String, format = DateTime)]
    claimed_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    lease_expires_at: Timestamp,
    /// `succeeded`, `failed` or `unknown`; `null` while it is awaited.
    outcome: Option<&'static str>,
    /// Who settled an outcome that nobody reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    settled_by: Option<String>,
}

impl ReviewerApproval {
    fn of(state: &HttpState, approval: Approval) -> Self {
        let (missing, missing_text) = (approval.missing(), approval.missing_text(state.app.now()));
        let votes = approval.votes().iter().map(|vote| VoteView {
            reviewer: vote.reviewer.to_string(),
            groups: vote.groups.clone(),
            at: vote.at,
        });
        let votes = votes.collect();
        let mut view = Self {
            id: approval.id,
            code: approval.code.to_string(),
            state: approval.state.name().into(),
            url: format!("{}/review/{}", state.settings.public_url, approval.id),
            agent: approval.call.agent,
            run_id: approval.call.run,
            turn: approval.call.turn,
            tool_use_id: approval.call.tool_use_id,
            tool: approval.tool,
            batch_id: approval.batch,
            args_hash: approval.args_hash,
            decision_id: approval.decision,
            policy_version: approval.policy_version,
            asked_by: approval.asked_by,
            reason: approval.reason,
            requirement: RequirementView::of(approval.requirement, approval.created_at),
            votes,
            missing_text,
            missing: missing.into_iter().map(|Missing { group, count }| MissingView { group, count }).collect(),
            attempt: approval.attempt,
            created_at: approval.created_at,
            expires_at: approval.expires_at,
            claim_after: None,
            denial: None,
            cancellation: None,
            execution: None,
        };
        match approval.state {
            Stands::Pending { .. } | Stands::Expired { .. } => {}
            Stands::Approved(approved) => view.claim_after = Some(approved.claim_after),
            Stands::Denied(denial) => view.denial = Some(denial.into()),
            Stands::Cancelled { by, at } => view.cancellation = Some(CancellationView { by: canceller(by), at }),
            Stands::Executed(execution) => view.execution = Some(execution.into()),
        }
        view
    }
}

impl From<Denial> for DenialView {
    fn from(denial: Denial) -> Self {
        let Denial { by, at, message_to_agent, lifted } = denial;
        let (reviewer, cause) = match by {
            Denier::Reviewer { name } => (Some(name.to_string()), None),
            Denier::Service { cause } => (None, Some(cause.as_str())),
        };
        Self { reviewer, cause, at, message_to_agent, lifted_at: lifted.map(|lift| lift.at) }
    }
}

impl From<Execution> for ExecutionView {
    fn from(execution: Execution) -> Self {
        let Execution { claim, outcome, .. } = execution;
        let word = outcome.word();
        let settled_by = match outcome {
            Outcome::Unknown { settled, .. } => settled.map(|settlement| settlement.by.to_string()),
            Outcome::Awaited | Outcome::Reported(_) => None,
        };
        let (claimed_at, lease_expires_at) = (claim.at, claim.lease_expires_at);
        Self { claim_id: claim.id, claimed_at, lease_expires_at, outcome: word, settled_by }
    }
}

const fn canceller(by: Canceller) -> &'static str {
    match by {
        Canceller::Requester => "requester",
        Canceller::PolicyChange => "policy_change",
        Canceller::Pause => "pause",
        Canceller::Stop => "stop",
    }
}

/// A held call with everything to decide on.
#[derive(Serialize, ToSchema)]
#[schema(as = ReviewedApproval)]
struct ReviewedView {
    #[serde(flatten)]
    approval: ReviewerApproval,
    /// What was rendered when the call was held; `null` when it was erased.
    review: Option<ReviewView>,
    /// SHA-256 of the review's canonical JSON (RFC 8785). A decision may name it, so that it is about this review.
    #[serde(skip_serializing_if = "Option::is_none")]
    review_hash: Option<String>,
    /// The arguments themselves; `null` when they were erased.
    args: Option<Map<String, Value>>,
    /// What the model says of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    rationale: Option<Unverified>,
    /// The last calls on the same business keys as of now, the newest first, at most ten.
    same_subject: Vec<CallBeforeView>,
    /// Other approvals of the same agent, tool and arguments that are open now.
    identical: Vec<OpenTwinView>,
    /// Grants that this reviewer may take with an approve, the narrowest first; at most three.
    grant_offers: Vec<GrantOfferView>,
}

/// A grant that can be taken with an approve.
#[derive(Serialize, ToSchema)]
#[schema(as = GrantOffer)]
struct GrantOfferView {
    /// `same_arguments`, `same_target` or `everything`.
    scope: &'static str,
    /// What it lets through.
    when: String,
    ttl: String,
    max_uses: u32,
    /// How many of the run's latest held calls of the tool it would have let through.
    would_have_covered: u32,
}

impl From<GrantOffer> for GrantOfferView {
    fn from(offered: GrantOffer) -> Self {
        let GrantOffer { offer, would_have_covered } = offered;
        let (scope, ttl) = (offer.scope.as_str(), length_text(offer.ttl));
        Self { scope, when: offer.when, ttl, max_uses: offer.max_uses, would_have_covered }
    }
}

/// Words nobody has checked.
#[derive(Serialize, ToSchema)]
struct Unverified {
    text: String,
    /// Always false.
    verified: bool,
}

/// A settled call on the same business key.
#[derive(Serialize, ToSchema)]
#[schema(as = CallBefore)]
struct CallBeforeView {
    #[schema(value_type = String)]
    decision_id: DecisionId,
    #[schema(value_type = String)]
    agent: AgentId,
    #[schema(value_type = String)]
    run_id: RunId,
    tool: String,
    verdict: VerdictView,
    /// The approval's code, when it was held.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    /// Where that approval stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<StateView>,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
}

impl From<CallBefore> for CallBeforeView {
    fn from(before: CallBefore) -> Self {
        let CallBefore { settled, approval } = before;
        let (code, state) = approval.map(|(code, state)| (code.to_string(), state.into())).unzip();
        Self {
            decision_id: settled.decision,
            agent: settled.call.agent,
            run_id: settled.call.run,
            tool: settled.tool,
            verdict: settled.verdict.into(),
            code,
            state,
            at: settled.at,
        }
    }
}

/// An open approval that asks for the very same.
#[derive(Serialize, ToSchema)]
#[schema(as = OpenTwin)]
struct OpenTwinView {
    #[schema(value_type = String)]
    id: ApprovalId,
    #[schema(example = "AP-7Q4K-2M")]
    code: String,
}

impl ReviewedView {
    fn of(state: &HttpState, reviewed: ReviewedApproval) -> Self {
        let ReviewedApproval { approval, review, args, rationale, same_subject, identical, offers } = reviewed;
        let review_hash = approval.review.filter(|_| review.is_some()).map(|review| review.hash.to_string());
        Self {
            approval: ReviewerApproval::of(state, approval),
            grant_offers: offers.into_iter().map(GrantOfferView::from).collect(),
            review: review.map(ReviewView::from),
            review_hash,
            args,
            rationale: rationale.map(|text| Unverified { text, verified: false }),
            same_subject: same_subject.into_iter().map(CallBeforeView::from).collect(),
            identical: identical
                .into_iter()
                .map(|twin| OpenTwinView { id: twin.id, code: twin.code.to_string() })
                .collect(),
        }
    }
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
