//! The second click: hands out confirmations of approves, and takes them.

use super::{App, ReviewerCaller, error::Error, ports::Tx};
use crate::domain::{
    approval::confirmation::{Confirmation, ConfirmationFault},
    ids::ApprovalId,
    time::Timestamp,
};

/// What a first approve is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToConfirm {
    /// To be given with the second.
    pub confirmation: String,
    /// Not before this.
    pub valid_from: Timestamp,
    /// Nor from this on.
    pub expires_at: Timestamp,
}

impl App {
    /// Hands out a confirmation of what is shown as the review with this hash, in place of the last one.
    pub(super) async fn ask_to_confirm(
        &self,
        tx: &mut dyn Tx,
        reviewer: &ReviewerCaller,
        approval: ApprovalId,
        review_hash: String,
        now: Timestamp,
    ) -> Result<ToConfirm, Error> {
        let mut random = [0; 32];
        self.entropy.fill(&mut random)?;
        let text = format!("cnf_{}", hex::encode(random));
        let confirmation = Confirmation::new(approval, reviewer.name.clone(), review_hash, &text, now);
        tx.put_confirmation(&confirmation).await?;
        let Confirmation { valid_from, expires_at, .. } = confirmation;
        Ok(ToConfirm { confirmation: text, valid_from, expires_at })
    }

    /// Spends the confirmation with this text, if it counts for what is shown now.
    pub(super) async fn take_confirmation(
        &self,
        tx: &mut dyn Tx,
        reviewer: &ReviewerCaller,
        approval: ApprovalId,
        text: &str,
        review_hash: String,
        now: Timestamp,
    ) -> Result<(), Error> {
        let given = tx.confirmation(approval, &reviewer.name).await?.ok_or(ConfirmationFault::Unknown)?;
        let spent = given.spend(text, now)?;
        if spent.review_hash != review_hash {
            return Err(Error::StaleReview { current: review_hash });
        }
        Ok(tx.put_confirmation(&spent).await?)
    }
}
