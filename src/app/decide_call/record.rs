//! What the log keeps of a decision: its entry, and the payload beside it.

use serde_json::{Value, json};

use super::Judged;
use crate::{
    app::{App, Caller, error::Error},
    domain::{
        approval::state::Approval,
        audit::{
            entry::{Entry, EventKind},
            payload::{self, Payload, Salt},
        },
        canon::json,
        decision::{ENGINE_VERSION, Judgement, ReasonCode},
        ids::DecisionId,
        policy::Policy,
        verdict::Verdict,
    },
};

impl App {
    /// The log entry of a decision, and the payload beside it.
    pub(super) fn decision_entry(
        &self,
        caller: &Caller,
        judged: &Judged<'_>,
        judgement: &Judgement,
        decision: DecisionId,
    ) -> Result<(Entry, Option<Payload>), Error> {
        let Judged { policy, request, now, .. } = judged;
        let payload = match judgement.verdict {
            Verdict::Allow if !keeps_arguments(policy, judgement) => None,
            Verdict::Allow | Verdict::AllowAudited | Verdict::RequireApproval | Verdict::Deny => {
                Some(decision_payload(judged, judgement, self.salt()?)?)
            }
        };
        let mut entry = caller.entry(EventKind::Decision, *now);
        entry.call = Some(request.call.key.clone());
        entry.tool = Some(judgement.tool.clone().unwrap_or_else(|| request.call.tool.clone()));
        entry.decision = Some(decision);
        entry.verdict = Some(judgement.verdict);
        entry.reason_code = Some(judgement.reason.code.as_str().to_owned());
        entry.reason = Some(judgement.reason.text.clone());
        entry.rule.clone_from(&judgement.reason.rule);
        entry.policy_version = Some(judgement.policy_version.to_string());
        entry.payload = payload.as_ref().map(Payload::digest);
        entry.detail.insert("engine".to_owned(), ENGINE_VERSION.into());
        if !judgement.rules.is_empty() {
            let states = judgement.rules.iter().map(|trace| (trace.rule.clone(), json!(trace.state))).collect();
            entry.detail.insert("rules".to_owned(), Value::Object(states));
        }
        if entry.tool.as_deref() != Some(&request.call.tool) {
            entry.detail.insert("presented_as".to_owned(), request.call.tool.clone().into());
        }
        Ok((entry, payload))
    }
}

/// Fills in what an entry says of its approval.
pub(in crate::app) fn about(approval: &Approval, mut entry: Entry) -> Entry {
    entry.call = Some(approval.call.clone());
    if entry.tool.is_none() {
        entry.tool = Some(approval.tool.clone());
    }
    entry.approval = Some(approval.id);
    entry.code = Some(approval.code.clone());
    if entry.decision.is_none() {
        entry.decision = Some(approval.decision);
    }
    entry
}

fn keeps_arguments(policy: &Policy, judgement: &Judgement) -> bool {
    judgement.tool.as_deref().and_then(|name| policy.tool(name)).is_some_and(|tool| tool.record_args)
}

/// What was decided about, kept beside the log. Arguments that no schema has accepted are kept as a salted hash.
fn decision_payload(judged: &Judged<'_>, judgement: &Judgement, salt: Salt) -> Result<Payload, Error> {
    let Judged { request, facts, lookups, .. } = judged;
    let call = &request.call;
    let unwritable = |error: serde_json::Error| Error::Unwritable(error.to_string());
    let body = if arguments_are_kept(judgement) {
        json!({
            "args": call.args.value(),
            "args_hash": call.args.hash(),
            "context": call.context,
            "resolved": judgement.resolved,
            "rationale": request.rationale,
            "facts": facts,
            "lookups": lookups.filter(|_| judgement.verdict == Verdict::RequireApproval),
        })
    } else {
        let canonical = json::canonical(call.args.value()).map_err(unwritable)?;
        json!({
            "args_salted_hash": payload::salted_hash(&salt, &canonical),
            "argument_faults": judgement.argument_faults,
        })
    };
    Ok(Payload::new(serde_json::to_string(&body).map_err(unwritable)?, salt))
}

/// Whether the values of the arguments are kept: a schema has accepted them.
pub(super) const fn arguments_are_kept(judgement: &Judgement) -> bool {
    match judgement.reason.code {
        ReasonCode::AgentPaused
        | ReasonCode::RunEnded
        | ReasonCode::UnknownTool
        | ReasonCode::ToolNotGranted
        | ReasonCode::InvalidArguments => false,
        ReasonCode::UnresolvableArgument
        | ReasonCode::Constraint
        | ReasonCode::Rule
        | ReasonCode::Floor
        | ReasonCode::Default
        | ReasonCode::NotSandboxed
        | ReasonCode::Limit
        | ReasonCode::Grant
        | ReasonCode::HoldRequested
        | ReasonCode::HeldBefore
        | ReasonCode::DeniedBefore
        | ReasonCode::NoReviewer
        | ReasonCode::OpenApprovalsOfRun
        | ReasonCode::OpenApprovalsOfAgent
        | ReasonCode::RefusedTooOften
        | ReasonCode::ExpiredTooOften => true,
    }
}
