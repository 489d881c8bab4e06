//! A held call, as reviewers see it: in a list, and with everything to decide on.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::review_view::ReviewView;
use crate::{
    app::{
        grants::GrantOffer,
        review::{CallBefore, ReviewedApproval},
    },
    domain::{
        approval::{
            outcome::Outcome,
            requirement::{Missing, Requirement},
            state::{Approval, Canceller, Denial, Denier, Execution, State as Stands},
        },
        canon::json::ArgsHash,
        identity::AgentId,
        ids::{ApprovalId, BatchId, ClaimId, DecisionId, RunId, ToolUseId},
        notice::approval_url,
        policy::PolicyVersion,
        time::Timestamp,
    },
    http::{
        api::{StateView, VerdictView, grants::length_text},
        state::HttpState,
    },
};

/// A held call, as reviewers see it in a list.
#[derive(Serialize, ToSchema)]
pub(super) struct ReviewerApproval {
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
    /// Where an approve counts: `any`, or `web`, the review page alone.
    decide_in: String,
    /// An approve counts only within five minutes of a sign-in at the provider.
    step_up: bool,
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
            decide_in: requirement.decide_in.to_string(),
            step_up: requirement.step_up,
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
    pub(super) fn of(state: &HttpState, approval: Approval) -> Self {
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
            url: approval_url(&state.settings.public_url, approval.id),
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
pub(super) struct ReviewedView {
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
    pub(super) fn of(state: &HttpState, reviewed: ReviewedApproval) -> Self {
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
