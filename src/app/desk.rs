//! What lies on a reviewer's desk: what waits, what was decided lately, one batch, and one approval with all that
//! stands beside it.

use std::collections::HashMap;

use super::{
    App, ReviewerCaller,
    error::Error,
    kept::Kept,
    ports::ApprovalFilter,
    review::{EXCHANGED, ReviewedApproval},
};
use crate::domain::{
    approval::state::{Approval, State, StateName},
    ids::{ApprovalId, BatchId},
    review::Review,
    run::{Run, RunKey},
    time::Timestamp,
};

/// How many waiting approvals are laid out at once.
pub const MOST_WAITING: u32 = 200;

/// How many decided ones are.
pub const MOST_DECIDED: u32 = 20;

/// One approval on the desk.
#[derive(Clone, Debug, PartialEq)]
pub struct OnDesk {
    /// The approval, as it stands now.
    pub approval: Approval,
    /// What was rendered when it was held; `None` when it was erased, or is not what was rendered.
    pub review: Option<Review>,
    /// What keeps this reviewer from approving it; `None` when nothing does, and while it waits for nobody.
    pub objection: Option<Error>,
}

/// What waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Inbox {
    /// Newest first.
    pub waiting: Vec<OnDesk>,
    /// There are more than are laid out.
    pub more: bool,
}

/// One approval, with everything to decide on and what to hold it against.
#[derive(Clone, Debug, PartialEq)]
pub struct InFull {
    /// The approval.
    pub reviewed: ReviewedApproval,
    /// What keeps this reviewer from approving it; `None` when nothing does, and while it waits for nobody.
    pub objection: Option<Error>,
    /// The last decided approval of the same agent and tool, where this reviewer may see it.
    pub last_alike: Option<LastAlike>,
    /// Its run has ended: there is nothing to stop any more.
    pub run_ended: bool,
}

/// The last decided approval of the same agent and tool.
#[derive(Clone, Debug, PartialEq)]
pub struct LastAlike {
    /// The approval.
    pub approval: Approval,
    /// What was shown of it.
    pub review: Review,
}

impl App {
    /// What waits for people and this reviewer may see, newest first.
    ///
    /// # Errors
    /// As the store's.
    pub async fn inbox(&self, reviewer: &ReviewerCaller) -> Result<Inbox, Error> {
        let filter = ApprovalFilter { state: Some(StateName::Pending), ..ApprovalFilter::default() };
        let page = self.list_approvals(reviewer, filter, None, MOST_WAITING).await?;
        Ok(Inbox { more: page.next.is_some(), waiting: self.laid_out(reviewer, page.approvals).await? })
    }

    /// The approvals of a batch that this reviewer may see, in the order they were asked for.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none.
    pub async fn batch_on_desk(&self, reviewer: &ReviewerCaller, batch: BatchId) -> Result<Vec<OnDesk>, Error> {
        let filter = ApprovalFilter { batch: Some(batch), ..ApprovalFilter::default() };
        let mut page = self.list_approvals(reviewer, filter, None, MOST_WAITING).await?;
        if page.approvals.is_empty() {
            return Err(Error::NotFound);
        }
        page.approvals.reverse();
        self.laid_out(reviewer, page.approvals).await
    }

    /// What this reviewer may see and waits for people no longer, the last decided first.
    ///
    /// # Errors
    /// As the store's.
    pub async fn lately_decided(&self, reviewer: &ReviewerCaller) -> Result<Vec<Approval>, Error> {
        let mut decided = Vec::new();
        for state in StateName::ALL.into_iter().filter(|state| *state != StateName::Pending) {
            let filter = ApprovalFilter { state: Some(state), ..ApprovalFilter::default() };
            decided.extend(self.list_approvals(reviewer, filter, None, MOST_DECIDED).await?.approvals);
        }
        decided.sort_by_key(|approval| std::cmp::Reverse(decided_at(approval)));
        decided.truncate(MOST_DECIDED as usize);
        Ok(decided)
    }

    /// What this reviewer may see and ran with an outcome that nobody knows, newest first.
    ///
    /// # Errors
    /// As the store's.
    pub async fn unsettled(&self, reviewer: &ReviewerCaller) -> Result<Vec<Approval>, Error> {
        let filter = ApprovalFilter { unsettled: true, ..ApprovalFilter::default() };
        Ok(self.list_approvals(reviewer, filter, None, MOST_WAITING).await?.approvals)
    }

    /// One approval as it stands, and nothing beside it.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none that this reviewer may see.
    pub async fn visible_to(&self, reviewer: &ReviewerCaller, id: ApprovalId) -> Result<Approval, Error> {
        let now = self.now();
        let stored = self.store.approval(id).await?.filter(|approval| self.sees(reviewer, approval, now));
        Ok(stored.ok_or(Error::NotFound)?.at(now).0)
    }

    /// One approval for a reviewer, with all that stands beside it.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none that this reviewer may see.
    pub async fn approval_in_full(&self, reviewer: &ReviewerCaller, id: ApprovalId) -> Result<InFull, Error> {
        let reviewed = self.approval_for_reviewer(reviewer, id).await?;
        let approval = &reviewed.approval;
        let now = self.now();
        let known = self.store.run(&RunKey::of(&approval.call), now).await?;
        let objection = self.approve_objection(reviewer, approval, known.as_ref().map(|known| &known.run), now);
        let last = self.store.last_decided(&approval.call.agent, &approval.tool, id).await?;
        let last_alike = match last.map(|last| last.at(now).0).filter(|last| self.sees(reviewer, last, now)) {
            Some(last) => {
                let review = self.review_of(&last).await?.held();
                review.map(|review| LastAlike { approval: last, review })
            }
            None => None,
        };
        let run_ended = known.is_some_and(|known| known.run.ended.is_some());
        Ok(InFull { objection, last_alike, run_ended, reviewed })
    }

    async fn laid_out(&self, reviewer: &ReviewerCaller, approvals: Vec<Approval>) -> Result<Vec<OnDesk>, Error> {
        let now = self.now();
        let mut runs: HashMap<RunKey, Option<Run>> = HashMap::new();
        let mut laid_out = Vec::with_capacity(approvals.len());
        for approval in approvals {
            let key = RunKey::of(&approval.call);
            if !runs.contains_key(&key) {
                let known = self.store.run(&key, now).await?;
                runs.insert(key.clone(), known.map(|known| known.run));
            }
            let review = self.review_of(&approval).await?;
            let exchanged = matches!(review, Kept::Differs).then(|| Error::NotEligible(EXCHANGED.to_owned()));
            let run = runs.get(&key).and_then(Option::as_ref);
            let objection = exchanged.or_else(|| self.approve_objection(reviewer, &approval, run, now));
            laid_out.push(OnDesk { objection, review: review.held(), approval });
        }
        Ok(laid_out)
    }

    /// What keeps a reviewer from approving what waits.
    fn approve_objection(
        &self,
        reviewer: &ReviewerCaller,
        approval: &Approval,
        run: Option<&Run>,
        now: Timestamp,
    ) -> Option<Error> {
        if !matches!(approval.state, State::Pending { .. }) {
            return None;
        }
        match run {
            Some(run) => {
                let requesters = self.requesters(&self.policy(), run);
                self.may_approve(reviewer, approval, &requesters, now).err()
            }
            // A run that held a call is known; where it is not, nobody can say who asks.
            None => Some(Error::NotEligible("nothing is known of the run that asks".to_owned())),
        }
    }
}

/// When it came to wait for nobody, or was made.
fn decided_at(approval: &Approval) -> Timestamp {
    match &approval.state {
        State::Pending { .. } => approval.created_at,
        State::Approved(approved) => approved.at,
        State::Executed(execution) => execution.claim.at,
        State::Denied(denial) => denial.at,
        State::Expired { at } | State::Cancelled { at, .. } => *at,
    }
}
