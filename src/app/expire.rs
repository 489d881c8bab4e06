//! Tidies what time alone has changed: approvals that ran out, leases that ended. Correctness never waits for it.

use super::{App, error::Error, retrying};

/// How many approvals one sweep looks at.
const BATCH: u32 = 100;

impl App {
    /// Records what is due. Returns how many approvals changed; a full batch means that more may wait.
    ///
    /// # Errors
    /// The last of those that came up; what could be recorded is.
    pub async fn record_elapsed(&self) -> Result<usize, Error> {
        let due = self.store.due_approvals(self.now(), BATCH).await?;
        let (mut changed, mut failed) = (0, None);
        for id in due {
            let recorded = retrying(|| async {
                let mut tx = self.store.begin().await?;
                let Some(stored) = tx.approval(id).await? else { return Ok(0) };
                let before = stored.state.clone();
                let approval = self.with_time_recorded(tx.as_mut(), stored, self.now()).await?;
                tx.commit().await?;
                Ok(usize::from(approval.state != before))
            });
            // One that cannot be read must not keep the others from being swept.
            match recorded.await {
                Ok(count) => changed += count,
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(changed),
        }
    }
}
