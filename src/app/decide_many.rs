//! `POST /approvals/decisions`: many decisions of one reviewer at once, all of them or none.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    App, ReviewerCaller,
    error::Error,
    retrying,
    review::{EXCHANGED, ReviewDecision, Taken},
};
use crate::domain::{approval::state::Approval, ids::ApprovalId, run::RunKey};

/// Why many decisions were not taken: one of them, and what stands in its way.
pub type InTheWay = (ApprovalId, Error);

const BY_ITSELF: &str = "it asks for a second click, so it is decided by itself";

impl App {
    /// Takes every decision, in one transaction, or none. What asks for a second click is decided by itself.
    ///
    /// # Errors
    /// [`Error::InTheWay`] names each decision that could not be taken, and why.
    pub async fn decide_approvals(
        &self,
        reviewer: &ReviewerCaller,
        decisions: &BTreeMap<ApprovalId, ReviewDecision>,
    ) -> Result<Vec<Approval>, Error> {
        let mut runs = BTreeSet::new();
        for id in decisions.keys() {
            runs.extend(self.store.approval(*id).await?.map(|held| RunKey::of(&held.call)));
        }
        retrying(|| async {
            let mut tx = self.store.begin().await?;
            let mut locked = BTreeMap::new();
            for key in &runs {
                locked.insert(key.clone(), tx.lock_run(key).await?);
            }
            let (mut decided, mut in_the_way) = (Vec::new(), Vec::<InTheWay>::new());
            for (id, decision) in decisions {
                let taken = async {
                    let (approval, now) = self.visible_approval(tx.as_mut(), reviewer, *id).await?;
                    let run = locked.get(&RunKey::of(&approval.call)).ok_or(Error::NotFound)?;
                    self.take_decision(tx.as_mut(), reviewer, approval, run, decision, now).await
                };
                match taken.await {
                    Ok(Taken::Counted(approval, _) | Taken::Repeated(approval)) => decided.push(approval),
                    Ok(Taken::Exchanged(..)) => in_the_way.push((*id, Error::NotEligible(EXCHANGED.to_owned()))),
                    Ok(Taken::ToConfirm(_)) => in_the_way.push((*id, Error::NotEligible(BY_ITSELF.to_owned()))),
                    Err(error @ (Error::Store(_) | Error::Entropy(_) | Error::KeyRevoked)) => return Err(error),
                    Err(error) => in_the_way.push((*id, error)),
                }
            }
            if !in_the_way.is_empty() {
                return Err(Error::InTheWay(in_the_way));
            }
            tx.commit().await?;
            Ok(decided)
        })
        .await
    }
}
