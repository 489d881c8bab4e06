//! Denying a call and stopping the run that asks for it, in one transaction: neither happens without the other.

use super::{
    App, ReviewerCaller,
    error::Error,
    retrying,
    review::{EXCHANGED, ReviewDecision, Taken},
};
use crate::domain::{ids::ApprovalId, run::RunKey};

impl App {
    /// A reviewer denies a call and stops its run, and all runs below it.
    ///
    /// # Errors
    /// As for a denial by itself; then the run goes on. [`Error::Invalid`] for a decision that approves.
    pub async fn deny_and_stop(
        &self,
        reviewer: &ReviewerCaller,
        id: ApprovalId,
        decision: &ReviewDecision,
    ) -> Result<(), Error> {
        if decision.approve {
            return Err(Error::Invalid("a run is stopped with a denial".to_owned()));
        }
        reviewer.unlimited()?;
        let held = self.store.approval(id).await?.ok_or(Error::NotFound)?;
        retrying(|| async {
            let mut tx = self.store.begin().await?;
            let run = tx.lock_run(&RunKey::of(&held.call)).await?;
            let (approval, now) = self.visible_approval(tx.as_mut(), reviewer, id).await?;
            match self.take_decision(tx.as_mut(), reviewer, approval, &run, decision, now).await? {
                Taken::Exchanged(cause, approval) => {
                    self.deny_for(tx.as_mut(), approval, cause, now).await?;
                    tx.commit().await?;
                    return Err(Error::NotEligible(EXCHANGED.to_owned()));
                }
                // Denied before by the same person, who now wants the run to stop as well.
                Taken::Repeated(_) | Taken::Counted(..) | Taken::ToConfirm(_) => {}
            }
            let reason = decision.reason.as_deref();
            self.end_with_all_below(tx.as_mut(), &reviewer.caller, &run, true, reason, now).await?;
            Ok(tx.commit().await?)
        })
        .await
    }
}
