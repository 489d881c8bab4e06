//! Tidies what time alone has changed: approvals that ran out, leases that ended. Correctness never waits for it.

use super::{App, error::Error, retrying};

/// How many approvals one sweep looks at.
const BATCH: u32 = 100;

impl App {
    /// Records what is due. Returns how many approvals changed; a full batch means that more may wait.
    ///
    /// # Errors
    /// As the store's.
    pub async fn record_elapsed(&self) -> Result<usize, Error> {
        let due = self.store.due_approvals(self.now(), BATCH).await?;
        let mut changed = 0;
        for id in due {
            changed += retrying(|| async {
                let mut tx = self.store.begin().await?;
                let Some(stored) = tx.approval(id).await? else { return Ok(0) };
                let before = stored.state.clone();
                let approval = self.with_time_recorded(tx.as_mut(), stored, self.now()).await?;
                tx.commit().await?;
                Ok(usize::from(approval.state != before))
            })
            .await?;
        }
        Ok(changed)
    }
}
