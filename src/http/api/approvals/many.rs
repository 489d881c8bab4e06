//! `POST /approvals/decisions`: many decisions at once, all of them or none.

use std::collections::BTreeMap;

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ApproveOrDeny, ReviewerApproval};
use crate::{
    app::{error::Error, review::ReviewDecision},
    domain::{canon::json::ArgsHash, ids::ApprovalId},
    http::{
        error::{Authenticated, Bodied, Problem, ProblemDocument, Refusal},
        extract::{Body, Reviewer, record_in_the_way, sentence},
        state::HttpState,
    },
};

/// The most decisions of one request.
const MOST_DECISIONS: usize = 64;

/// Decisions to be taken together.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ReviewDecisions)]
pub(super) struct DecisionsBody {
    #[schema(min_items = 1, max_items = 64)]
    decisions: Vec<OneDecision>,
}

/// One of them.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct OneDecision {
    /// The approval; each stands here once.
    #[schema(value_type = String)]
    id: ApprovalId,
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
}

/// Every approval as it stands now.
#[derive(Serialize, ToSchema)]
pub(super) struct DecidedApprovals {
    items: Vec<ReviewerApproval>,
}

/// Approve or deny many at once.
///
/// All decisions are taken, or none: then `in_the_way` names each that cannot be, as a problem of its own. What asks for
/// a second click (`double_confirm`) is decided by itself.
#[utoipa::path(
    post, path = "/approvals/decisions", tag = "approvals", security(("key" = ["reviewer"])),
    request_body = DecisionsBody,
    responses(
        Authenticated,
        Bodied,
        (status = 200, description = "All are decided.", body = DecidedApprovals),
        (status = 409, description = "None is decided: `in_the_way` says why.", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
pub(super) async fn decide_approvals(
    State(state): State<HttpState>,
    Reviewer(reviewer): Reviewer,
    Body(body): Body<DecisionsBody>,
) -> Result<Json<DecidedApprovals>, Refusal> {
    match state.app.decide_approvals(&reviewer, &decisions(body)?).await {
        Ok(approvals) => {
            let items = approvals.into_iter().map(|approval| ReviewerApproval::of(&state, approval)).collect();
            Ok(Json(DecidedApprovals { items }))
        }
        Err(Error::InTheWay(in_the_way)) => {
            record_in_the_way(&state, &reviewer.caller, &in_the_way).await;
            Err(Error::InTheWay(in_the_way).into())
        }
        Err(error) => Err(error.into()),
    }
}

fn decisions(body: DecisionsBody) -> Result<BTreeMap<ApprovalId, ReviewDecision>, Refusal> {
    if body.decisions.is_empty() || body.decisions.len() > MOST_DECISIONS {
        return Err(Problem::invalid_field("decisions", &format!("1 to {MOST_DECISIONS} of them")).into());
    }
    let mut decisions = BTreeMap::new();
    for (index, one) in body.decisions.into_iter().enumerate() {
        let field = |name: &str| format!("decisions[{index}].{name}");
        let OneDecision { id, decision, args_hash, review_hash, reason, message_to_agent } = one;
        let decision = ReviewDecision {
            approve: decision == ApproveOrDeny::Approve,
            args_hash,
            review_hash,
            reason: sentence(&field("reason"), reason)?,
            message_to_agent: sentence(&field("message_to_agent"), message_to_agent)?,
            grant: None,
            confirmation: None,
        };
        if decisions.insert(id, decision).is_some() {
            return Err(Problem::invalid_field(&field("id"), "it is decided twice in this request").into());
        }
    }
    Ok(decisions)
}
