//! `settle`: steps 7 to 9 of the decision, on facts read under locks. Pure and total, like `judge`.

use super::{
    decision::{Decision, Judgement, Reason, ReasonCode},
    facts::SettleFacts,
    policy::Policy,
    verdict::Verdict,
};

/// Settles a judgement whose call asks for a human, or was denied by one before.
pub fn settle(policy: &Policy, judgement: Judgement, facts: &SettleFacts) -> Decision {
    let caps = policy.caps();
    if judgement.verdict == Verdict::Deny && facts.standing_denial.is_none() {
        return Decision { judgement, standing_denial: None };
    }
    if let Some(denial) = &facts.standing_denial {
        let mut decision = denied(judgement, ReasonCode::DeniedBefore, "a reviewer denied the same call in this run");
        decision.standing_denial = Some(denial.clone());
        return decision;
    }
    if judgement.verdict != Verdict::RequireApproval {
        return Decision { judgement, standing_denial: None };
    }
    let could_be_met = judgement
        .requirement
        .as_ref()
        .is_some_and(|requirement| facts.voters.could_meet(requirement, &facts.requesters));
    if !could_be_met {
        return denied(judgement, ReasonCode::NoReviewer, "no configured reviewer could ever approve this call");
    }
    if facts.open_in_run >= caps.open_per_run {
        return denied(judgement, ReasonCode::OpenApprovalsOfRun, "too many approvals of this run wait already");
    }
    if facts.open_of_agent >= caps.open_per_agent {
        return denied(judgement, ReasonCode::OpenApprovalsOfAgent, "too many approvals of this agent wait already");
    }
    if facts.refused_of_tool_in_run >= caps.refused_per_run {
        return denied(judgement, ReasonCode::RefusedTooOften, "reviewers denied this tool too often in this run");
    }
    Decision { judgement, standing_denial: None }
}

/// The same judgement, ended in a denial.
pub fn denied(mut judgement: Judgement, code: ReasonCode, text: &str) -> Decision {
    judgement.verdict = Verdict::Deny;
    judgement.obligations.clear();
    judgement.reason = Reason { code, text: text.to_owned(), rule: judgement.reason.rule };
    Decision { judgement, standing_denial: None }
}
