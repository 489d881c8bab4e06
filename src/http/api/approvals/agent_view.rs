//! A held call, as the agent that asked sees it.

use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    domain::{
        approval::state::{Approval, Canceller, Denial, Denier, State as Stands},
        ids::ApprovalId,
        notice::approval_url,
        time::Timestamp,
    },
    http::{
        api::StateView,
        error::{ToolResult, declined_text},
        state::HttpState,
    },
};

/// A held call, as the agent that asked sees it.
#[derive(Serialize, ToSchema)]
pub(in crate::http::api) struct AgentApproval {
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
    pub(in crate::http::api) fn tool_result(&self) -> Option<ToolResult> {
        self.tool_result.clone()
    }

    /// What the agent may know of it.
    pub(in crate::http::api) fn of(state: &HttpState, approval: Approval) -> Self {
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
            url: approval_url(&state.settings.public_url, approval.id),
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
