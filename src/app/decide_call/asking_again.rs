//! A call that was held before and is asked again: what became of it is the answer, and nothing is decided twice.

use serde_json::Value;

use super::{DecideAnswer, HeldCall, Judged, RefusedCall, record::about};
use crate::{
    app::{
        App, Caller,
        claim_call::{Presented, Today},
        error::{AlreadyExecuted, Error},
        limits::Locked,
        ports::Tx,
    },
    domain::{
        approval::state::{Approval, Canceller, Claimable, Denier, Elapsed, Execution, State},
        audit::entry::{Actor, Entry, EventKind},
        decision::ReasonCode,
        notice::NoticeEvent,
        time::Timestamp,
    },
};

/// How a call that was held before goes on.
pub(super) enum AskedAgain {
    /// With this answer; everything is committed.
    Answered(DecideAnswer),
    /// It is decided afresh in the same transaction, and if it is held again this is its attempt.
    DecideAfresh(Box<dyn Tx>, u32),
    /// Its lookups must be taken first; nothing is committed.
    NeedsLookups,
}

impl App {
    /// Goes on with a call that `stored` holds or held. `remembered` tells that the very same request came before.
    pub(super) async fn asked_again(
        &self,
        mut tx: Box<dyn Tx>,
        caller: &Caller,
        judged: &Judged<'_>,
        locked: &Locked,
        stored: Approval,
        remembered: bool,
    ) -> Result<AskedAgain, Error> {
        let Judged { policy, request, facts, judgement, now, lookups } = judged;
        let key = &request.call.key;
        let approval = self.with_time_recorded(tx.as_mut(), stored, *now).await?;
        if approval.args_hash != request.call.args.hash() || !names_tool(judged, &approval) {
            let mut entry = caller.entry(EventKind::CallReused, *now);
            entry.tool = Some(judgement.tool.clone().unwrap_or_else(|| request.call.tool.clone()));
            tx.append(Entry { call: Some(key.clone()), ..about(&approval, entry) });
            tx.commit().await?;
            return Err(Error::ToolUseIdReused);
        }
        let kept = self.kept_input(&approval).await?;
        let tool = policy.tool(&approval.tool);
        let objection = match &approval.state {
            State::Approved(_) => match kept.moved_path(tool, facts) {
                Some(moved) => Some(moved),
                None => self.objection(&approval, judgement, &self.requesters(policy, &locked.run)),
            },
            State::Pending { .. }
            | State::Denied(_)
            | State::Expired { .. }
            | State::Cancelled { .. }
            | State::Executed(_) => None,
        };
        let attempt = approval.attempt + 1;
        match next_step(&approval, judged, objection, remembered) {
            NextStep::Answer(answer) => {
                tx.commit().await?;
                self.with_result(&approval, answer).await.map(AskedAgain::Answered)
            }
            NextStep::Claim if judged.lacks_lookups(tool) => Ok(AskedAgain::NeedsLookups),
            NextStep::Claim => {
                let presented = Presented { args: &request.call.args, claim: None };
                let today = Today { policy, facts, locked, judgement, kept: &kept, lookups: *lookups };
                let (approval, claimed) = self.claim_held(tx, caller, approval, &presented, &today, *now).await?;
                let held = HeldCall { decision: approval.decision, approval };
                Ok(AskedAgain::Answered(DecideAnswer::Claimed(Box::new(held), Box::new(claimed))))
            }
            NextStep::Supersede(objection) => {
                let (cancelled, _) = approval.cancel(Canceller::PolicyChange, *now)?;
                tx.update_approval(&cancelled).await?;
                self.tell(tx.as_mut(), &cancelled, NoticeEvent::Cancelled, *now).await?;
                let mut entry = Entry::new(EventKind::ApprovalCancelled, *now, Actor::service());
                entry.reason_code = Some("policy_changed".to_owned());
                entry.reason = Some(objection);
                tx.append(about(&cancelled, entry));
                Ok(AskedAgain::DecideAfresh(tx, attempt))
            }
            NextStep::DecideAfresh => Ok(AskedAgain::DecideAfresh(tx, attempt)),
        }
    }

    /// Records what time alone did to a locked approval.
    pub(in crate::app) async fn with_time_recorded(
        &self,
        tx: &mut dyn Tx,
        stored: Approval,
        now: Timestamp,
    ) -> Result<Approval, Error> {
        let (approval, elapsed) = stored.at(now);
        let (event, told) = match elapsed {
            Elapsed::Nothing => return Ok(approval),
            Elapsed::Expired => (EventKind::ApprovalExpired, NoticeEvent::Expired),
            Elapsed::LeaseEnded => (EventKind::OutcomeUnknown, NoticeEvent::Outcome),
        };
        tx.update_approval(&approval).await?;
        tx.append(about(&approval, Entry::new(event, now, Actor::service())));
        self.tell(tx, &approval, told, now).await?;
        Ok(approval)
    }

    /// Completes the refusal of an executed call with what the stack reported of it.
    async fn with_result(
        &self,
        approval: &Approval,
        answer: Result<DecideAnswer, Error>,
    ) -> Result<DecideAnswer, Error> {
        match (answer, &approval.state) {
            (Err(Error::AlreadyExecuted(mut executed)), State::Executed(execution)) => {
                if let Some(digest) = execution.outcome.payload()
                    && let Some(payload) = self.store.payload(digest).await?
                {
                    let body: Value = serde_json::from_str(payload.body()).unwrap_or_default();
                    executed.result = body.get("result").filter(|result| !result.is_null()).cloned();
                }
                Err(Error::AlreadyExecuted(executed))
            }
            (answer, _) => answer,
        }
    }
}

/// What happens to a call that was held before and is asked again.
enum NextStep {
    Answer(Result<DecideAnswer, Error>),
    Claim,
    Supersede(String),
    DecideAfresh,
}

fn next_step(approval: &Approval, judged: &Judged<'_>, objection: Option<String>, remembered: bool) -> NextStep {
    let held = || {
        let held = HeldCall { decision: approval.decision, approval: approval.clone() };
        NextStep::Answer(Ok(DecideAnswer::Held(Box::new(held))))
    };
    let refused = |refusal| NextStep::Answer(Ok(DecideAnswer::Refused(refusal)));
    match &approval.state {
        State::Pending { .. } => held(),
        State::Approved(_) => match objection {
            Some(objection) => NextStep::Supersede(objection),
            None if judged.request.claim && approval.claimable(None, false, judged.now) == Ok(Claimable::Now) => {
                NextStep::Claim
            }
            None => held(),
        },
        State::Denied(denial) => match &denial.by {
            Denier::Reviewer { .. } => {
                refused(RefusedCall::Declined { approval: approval.id, message: denial.message_to_agent.clone() })
            }
            Denier::Service { .. } => refused(RefusedCall::Bland { reason: ReasonCode::DeniedBefore }),
        },
        // The same request sent again asks what became of it, not for a new approval.
        State::Expired { .. } if remembered => held(),
        State::Expired { .. } => NextStep::DecideAfresh,
        State::Cancelled { by: Canceller::Requester, .. } => refused(RefusedCall::Cancelled { approval: approval.id }),
        State::Cancelled { by: Canceller::Stop, .. } => refused(RefusedCall::Bland { reason: ReasonCode::RunEnded }),
        State::Cancelled { by: Canceller::PolicyChange | Canceller::Pause, .. } => NextStep::DecideAfresh,
        State::Executed(execution) => {
            let idempotent = judged.policy.tool(&approval.tool).is_some_and(|tool| tool.idempotent);
            match approval.claimable(None, idempotent, judged.now) {
                Ok(Claimable::Now) if judged.request.claim => NextStep::Claim,
                Ok(_) | Err(_) => {
                    NextStep::Answer(Err(Error::AlreadyExecuted(Box::new(executed(approval, execution)))))
                }
            }
        }
    }
}

/// What is known of an executed call, but for the result the stack reported.
fn executed(approval: &Approval, execution: &Execution) -> AlreadyExecuted {
    AlreadyExecuted {
        approval: approval.id,
        claim: execution.claim.id.clone(),
        outcome: execution.outcome.word().map(str::to_owned),
        result: None,
        claimed_at: execution.claim.at,
    }
}

/// Whether the presented name is the held tool's: its own, or an alias.
fn names_tool(judged: &Judged<'_>, approval: &Approval) -> bool {
    judged.judgement.tool.as_ref().unwrap_or(&judged.request.call.tool) == &approval.tool
        || judged.policy.tool(&judged.request.call.tool).is_some_and(|tool| tool.name == approval.tool)
}
