//! `POST /decide` and `POST /approvals`: may this call run?

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{VerdictView, approvals::AgentApproval};
use crate::{
    app::{
        Caller,
        claim_call::ClaimedCall,
        decide_call::{AllowedCall, DecideAnswer, DecideRequest, HeldCall, IdempotencyKey, RefusedCall},
        error::Error,
    },
    domain::{
        approval::state::{Approval, StateName},
        call::{Arguments, CallKey, ToolCall},
        canon::json::ArgsHash,
        ids::{ApprovalId, ClaimId, DecisionId, RunId, ToolUseId},
        time::Timestamp,
        verdict::Verdict,
    },
    http::{
        error::{
            Authenticated, Bodied, DeclinedCall, InvalidArguments, Problem, ProblemDocument, Refusal, ToolUnavailable,
        },
        extract::{Agent, IdempotentBody, Wait, sentence},
        layers::RequestScope,
        state::HttpState,
    },
};

/// The longest name of a tool that is worth looking up, in bytes.
const LONGEST_TOOL: usize = 256;

/// The routes.
pub(in crate::http) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(decide))
}

/// A proposed call.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Call)]
pub(super) struct CallBody {
    /// The tool's name, or one of its aliases.
    #[schema(min_length = 1, max_length = 256)]
    tool: String,
    /// Exactly the arguments it is to run with.
    args: Map<String, Value>,
    /// The execution it belongs to.
    #[schema(value_type = String, pattern = "^[A-Za-z0-9_.:-]{1,128}$")]
    run_id: RunId,
    /// The model's id of the call.
    #[schema(value_type = String, pattern = "^[A-Za-z0-9_.:-]{1,128}$")]
    tool_use_id: ToolUseId,
    /// The model's turn, for models whose ids repeat.
    #[serde(default)]
    turn: u32,
    /// What the stack knows of the request, for rules to read; it is taken at its word.
    context: Option<Map<String, Value>>,
    /// What the model says of the call: shown to reviewers, apart and unverified.
    #[schema(max_length = 4096)]
    rationale: Option<String>,
    /// Claim the call in this request when it is approved.
    #[serde(default)]
    claim: bool,
    /// Attach the call to an open approval of the same run, tool and arguments.
    #[serde(default)]
    join: bool,
    /// Hand out a permit when the call is allowed.
    #[serde(default)]
    permit: bool,
}

/// A call that may run now.
#[derive(Serialize, ToSchema)]
pub(super) struct Allowed {
    #[schema(value_type = String, example = "dec_01980d5e-7a4c-7f3e-9a55-0a3c1d2e4f60")]
    decision_id: DecisionId,
    verdict: VerdictView,
    #[schema(value_type = String, example = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a")]
    args_hash: ArgsHash,
    /// What the executor must keep to.
    obligations: Map<String, Value>,
    /// Proof for the tool server, when it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    permit: Option<String>,
}

/// An approved call that this request claimed: it may run now, once.
#[derive(Serialize, ToSchema)]
pub(super) struct AllowedByClaim {
    #[schema(value_type = String)]
    decision_id: DecisionId,
    /// `require_approval`: the verdict that people have met.
    verdict: VerdictView,
    #[schema(value_type = String)]
    args_hash: ArgsHash,
    approval: AgentApproval,
    #[serde(flatten)]
    claim: Claimed,
}

/// The right to run one approved call, once.
#[derive(Serialize, ToSchema)]
pub(super) struct Claimed {
    /// Names the claim in its outcome.
    #[schema(value_type = String)]
    claim_id: ClaimId,
    /// The arguments that may run.
    args: Map<String, Value>,
    /// Proof for the tool server.
    permit: String,
    /// What the executor must keep to.
    obligations: Map<String, Value>,
    /// The approval's id: the tool runs at most once for it.
    #[schema(value_type = String)]
    idempotency_key: ApprovalId,
    /// Report an outcome, or extend, before this.
    #[schema(value_type = String, format = DateTime)]
    lease_expires_at: Timestamp,
}

impl From<ClaimedCall> for Claimed {
    fn from(claimed: ClaimedCall) -> Self {
        let ClaimedCall { approval, claim, args, obligations, permit, lease_expires_at } = claimed;
        Self { claim_id: claim, args, permit, obligations, idempotency_key: approval, lease_expires_at }
    }
}

/// A call that waits for people, or for its claim.
#[derive(Serialize, ToSchema)]
pub(super) struct Held {
    #[schema(value_type = String)]
    decision_id: DecisionId,
    /// `require_approval`.
    verdict: VerdictView,
    #[schema(value_type = String)]
    args_hash: ArgsHash,
    approval: AgentApproval,
}

/// What a call that is not refused is answered with.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Shown {
    Allowed(Allowed),
    Held(Box<Held>),
    Claimed(Box<AllowedByClaim>),
}

/// What may run now, whether policy or people allowed it.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes the two bodies of one status; each is serialised by itself")]
enum Permitted {
    Allowed(Allowed),
    Claimed(Box<AllowedByClaim>),
}

/// What a model is told of a call that is refused.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes the three bodies of one status; each is serialised by itself")]
pub(super) enum RefusedBody {
    Unavailable(ToolUnavailable),
    Declined(DeclinedCall),
    WrongRole(ProblemDocument),
}

/// May this call run?
///
/// Run the tool only on 200. On 202 a person is asked: ask again, wait with `Prefer: wait=N`, or follow the approval.
/// Hand `tool_result` to the model whenever there is one. The same call asked again is the same call.
#[utoipa::path(
    post, path = "/decide", tag = "calls", security(("key" = ["agent"])),
    params(
        ("Prefer" = Option<String>, Header, description = "`wait=N`: wait up to N seconds, at most 60, for people"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request, for 24 hours")
    ),
    request_body = CallBody,
    responses(
        Authenticated,
        Bodied,
        (status = 200, description = "It may run now.", body = Permitted),
        (status = 202, description = "It waits for people, or for its claim.", body = Held),
        (status = 403, description = "It may not run, or the key has another role.", body = RefusedBody),
        (status = 409, description = "It contradicts what is known of this call.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 422, description = "The arguments do not fit the tool's schema.", body = InvalidArguments),
        (status = 503, description = "It could not be decided, so it may not run.", body = ToolUnavailable),
    )
)]
async fn decide(
    State(state): State<HttpState>,
    agent: Agent,
    Wait(wait): Wait,
    Extension(scope): Extension<Arc<RequestScope>>,
    body: IdempotentBody<CallBody>,
) -> Result<Response, Refusal> {
    let request = request(&agent, body, "/decide", false)?;
    answer(&state, &agent.caller, &scope, &request, wait).await
}

/// Ask people about a call.
///
/// As `/decide`, but a call that policy would allow is held for people as well.
#[utoipa::path(
    post, path = "/approvals", tag = "calls", security(("key" = ["agent"])),
    params(
        ("Prefer" = Option<String>, Header, description = "`wait=N`: wait up to N seconds, at most 60, for people"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request, for 24 hours")
    ),
    request_body = CallBody,
    responses(
        Authenticated,
        Bodied,
        (status = 200, description = "It was approved and may run now.", body = Permitted),
        (status = 202, description = "It waits for people, or for its claim.", body = Held),
        (status = 403, description = "It may not run, or the key has another role.", body = RefusedBody),
        (status = 409, description = "It contradicts what is known of this call.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 422, description = "The arguments do not fit the tool's schema.", body = InvalidArguments),
        (status = 503, description = "It could not be decided, so it may not run.", body = ToolUnavailable),
    )
)]
pub(super) async fn request_approval(
    State(state): State<HttpState>,
    agent: Agent,
    Wait(wait): Wait,
    Extension(scope): Extension<Arc<RequestScope>>,
    body: IdempotentBody<CallBody>,
) -> Result<Response, Refusal> {
    let request = request(&agent, body, "/approvals", true)?;
    answer(&state, &agent.caller, &scope, &request, wait).await
}

fn request(
    agent: &Agent,
    sent: IdempotentBody<CallBody>,
    route: &'static str,
    hold: bool,
) -> Result<DecideRequest, Refusal> {
    let CallBody { tool, args, run_id, tool_use_id, turn, context, rationale, claim, join, permit } = sent.body;
    check_tool_name("tool", &tool)?;
    let rationale = sentence("rationale", rationale)?;
    let key = CallKey { agent: agent.id.clone(), run: run_id, turn, tool_use_id };
    let args = Arguments::new(args).map_err(|_| Problem::internal())?;
    Ok(DecideRequest {
        call: ToolCall { key, tool, args, context: context.map(Value::Object) },
        rationale,
        claim,
        join,
        permit,
        hold,
        batch: None,
        idempotency: sent.key.map(|(key, body_hash)| IdempotencyKey { route, key, body_hash }),
    })
}

/// Refuses what can be no tool's name. `field` is where it stands in the body.
pub(super) fn check_tool_name(field: &str, name: &str) -> Result<(), Refusal> {
    if name.is_empty() || name.len() > LONGEST_TOOL || name.chars().any(char::is_control) {
        let message = "a tool's name has 1 to 256 bytes and no control characters";
        return Err(Problem::invalid_field(field, message).into());
    }
    Ok(())
}

async fn answer(
    state: &HttpState,
    caller: &Caller,
    scope: &RequestScope,
    request: &DecideRequest,
    wait: Duration,
) -> Result<Response, Refusal> {
    let answer = match decided(state, caller, request, wait).await {
        Ok(answer) => shown(state, request, answer).map(|(status, shown)| (status, Json(shown)).into_response()),
        Err(error) => Err(Refusal::of_call(error, state.app.now())),
    };
    if answer.is_err() {
        // A request is about one call, so nothing was set before.
        let _ = scope.call.set((request.call.key.run.to_string(), request.call.tool.clone()));
    }
    answer
}

/// Decides, and when the call waits for people, decides again once they have.
async fn decided(
    state: &HttpState,
    caller: &Caller,
    request: &DecideRequest,
    wait: Duration,
) -> Result<DecideAnswer, Error> {
    let answer = state.app.decide_call(caller, request).await?;
    match &answer {
        DecideAnswer::Held(held) if held.approval.state.name() == StateName::Pending && !wait.is_zero() => {
            let approval = wait_for_people(state, caller, held.approval.id, StateName::Pending, wait).await?;
            if approval.state.name() == StateName::Pending {
                return Ok(answer);
            }
            state.app.decide_call(caller, request).await
        }
        DecideAnswer::Held(_) | DecideAnswer::Allowed(_) | DecideAnswer::Claimed(..) | DecideAnswer::Refused(_) => {
            Ok(answer)
        }
    }
}

/// The caller's own approval once its state is no longer `unless`, the wait is over, or the process is about to stop.
pub(super) async fn wait_for_people(
    state: &HttpState,
    caller: &Caller,
    id: ApprovalId,
    unless: StateName,
    wait: Duration,
) -> Result<Approval, Error> {
    if wait.is_zero() {
        return state.app.approval_for_agent(caller, id, unless, wait).await;
    }
    let mut draining = state.draining.clone();
    // Whoever could say so being gone is the same as stopping.
    let stopping = async { draining.wait_for(|draining| *draining).await.map(drop) };
    tokio::select! {
        approval = state.app.approval_for_agent(caller, id, unless, wait) => approval,
        _ = stopping => state.app.approval_for_agent(caller, id, unless, Duration::ZERO).await,
    }
}

/// The answer to a call, or its refusal; counted.
pub(super) fn shown(
    state: &HttpState,
    request: &DecideRequest,
    answer: DecideAnswer,
) -> Result<(StatusCode, Shown), Refusal> {
    let count = |verdict: Verdict, reason| state.metrics.decided(verdict.as_str(), reason);
    let args_hash = request.call.args.hash();
    let verdict = VerdictView::RequireApproval;
    match answer {
        DecideAnswer::Allowed(AllowedCall { decision, verdict, args_hash, obligations, permit }) => {
            count(verdict, "");
            let verdict = verdict.into();
            let allowed = Allowed { decision_id: decision, verdict, args_hash, obligations, permit };
            Ok((StatusCode::OK, Shown::Allowed(allowed)))
        }
        DecideAnswer::Held(held) => {
            count(Verdict::RequireApproval, "");
            let HeldCall { decision, approval } = *held;
            let approval = AgentApproval::of(state, approval);
            let held = Held { decision_id: decision, verdict, args_hash, approval };
            Ok((StatusCode::ACCEPTED, Shown::Held(Box::new(held))))
        }
        DecideAnswer::Claimed(held, claimed) => {
            count(Verdict::RequireApproval, "");
            let HeldCall { decision, approval } = *held;
            let approval = AgentApproval::of(state, approval);
            let claim = (*claimed).into();
            let claimed = AllowedByClaim { decision_id: decision, verdict, args_hash, approval, claim };
            Ok((StatusCode::OK, Shown::Claimed(Box::new(claimed))))
        }
        DecideAnswer::Refused(refused) => {
            let refusal = match refused {
                RefusedCall::Bland { reason } => Refusal::by_policy(reason.as_str()),
                RefusedCall::InvalidArguments { faults } => Refusal::invalid_arguments(faults),
                RefusedCall::Declined { approval, message } => Refusal::declined(approval.to_string(), message),
                RefusedCall::Cancelled { approval } => Refusal::cancelled(approval.to_string()),
            };
            count(Verdict::Deny, refusal.reason());
            Err(refusal)
        }
    }
}
