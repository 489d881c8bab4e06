//! `settle`: steps 7 to 9 of the decision, on facts read under locks. Pure and total, like `judge`.

use super::{
    decision::{Decision, Judgement, Reason, ReasonCode},
    facts::SettleFacts,
    ids::GrantId,
    limit::{Limit, OnExceed},
    policy::{Policy, Tool},
    time::Timestamp,
    verdict::Verdict,
};

/// Settles a judgement: of a call that is counted or asks for a human, or that was denied by one before.
pub fn settle(policy: &Policy, mut judgement: Judgement, facts: &SettleFacts, now: Timestamp) -> Decision {
    let caps = policy.caps();
    let tool = judgement.tool.as_deref().and_then(|name| policy.tool(name));
    if let Some(tool) = tool.filter(|_| judgement.verdict != Verdict::Deny) {
        judgement = limited(tool, judgement, facts);
    }
    if let Some(denial) = &facts.standing_denial {
        let mut decision = denied(judgement, ReasonCode::DeniedBefore, "a reviewer denied the same call in this run");
        decision.standing_denial = Some(denial.clone());
        return decision;
    }
    if judgement.verdict != Verdict::RequireApproval {
        return decided(judgement);
    }
    let covering = tool.and_then(|tool| facts.grants.iter().find(|grant| grant.covers(tool, &judgement, now)));
    if let Some(grant) = covering {
        return granted(judgement, grant.id);
    }
    let could_be_met = judgement
        .requirement
        .as_ref()
        .is_some_and(|requirement| facts.voters.could_meet(requirement, &facts.requesters));
    if !could_be_met {
        return denied(judgement, ReasonCode::NoReviewer, "no configured reviewer could ever approve this call");
    }
    if !facts.joins && facts.open_in_run >= caps.open_per_run {
        return denied(judgement, ReasonCode::OpenApprovalsOfRun, "too many approvals of this run wait already");
    }
    if !facts.joins && facts.open_of_agent >= caps.open_per_agent {
        return denied(judgement, ReasonCode::OpenApprovalsOfAgent, "too many approvals of this agent wait already");
    }
    if facts.refused_of_tool_in_run >= caps.refused_per_run {
        return denied(judgement, ReasonCode::RefusedTooOften, "reviewers denied this tool too often in this run");
    }
    decided(judgement)
}

/// Step 7. Every exceeded limit that asks is named; the strictest decides, among equals the first by id.
fn limited(tool: &Tool, mut judgement: Judgement, facts: &SettleFacts) -> Judgement {
    let exceeded: Vec<&Limit> =
        tool.limits.iter().filter(|limit| limit.is_exceeded(facts.limits.get(&limit.id))).collect();
    let asking = exceeded.iter().filter(|limit| limit.on_exceed == OnExceed::RequireApproval);
    judgement.asked_by.extend(asking.map(|limit| limit.id.clone()));
    judgement.asked_by.sort();
    let strictest = exceeded.into_iter().min_by_key(|limit| (std::cmp::Reverse(limit.on_exceed.verdict()), &limit.id));
    if let Some(limit) = strictest.filter(|limit| limit.on_exceed.verdict() > judgement.verdict) {
        judgement.verdict = limit.on_exceed.verdict();
        let text = format!("the limit `{}` is exceeded", limit.id);
        judgement.reason = Reason { code: ReasonCode::Limit, text, rule: Some(limit.id.clone()) };
        if judgement.verdict == Verdict::Deny {
            judgement.obligations.clear();
        }
    }
    judgement
}

fn granted(mut judgement: Judgement, grant: GrantId) -> Decision {
    judgement.verdict = Verdict::AllowAudited;
    let text = "a reviewer's grant covers the call".to_owned();
    judgement.reason = Reason { code: ReasonCode::Grant, text, rule: Some(grant.to_string()) };
    Decision { grant: Some(grant), ..decided(judgement) }
}

const fn decided(judgement: Judgement) -> Decision {
    Decision { judgement, standing_denial: None, grant: None }
}

/// The same judgement, ended in a denial.
pub fn denied(mut judgement: Judgement, code: ReasonCode, text: &str) -> Decision {
    judgement.verdict = Verdict::Deny;
    judgement.obligations.clear();
    judgement.reason = Reason { code, text: text.to_owned(), rule: judgement.reason.rule };
    decided(judgement)
}
