//! `/agents`: a reviewer pauses an agent, an admin lets it go on.
//!
//! A pause binds every instance at once: the statement that commits decisions and the transactions of claims read it in
//! the store.

use serde_json::json;

use super::{App, Caller, ReviewerCaller, error::Error, retrying};
use crate::domain::{
    approval::state::Canceller,
    audit::entry::{Entry, EventKind},
    identity::AgentId,
};

impl App {
    /// Pauses an agent: it and whatever runs below its runs may use no tool. What waits for people there is withdrawn.
    ///
    /// # Errors
    /// As the store's.
    pub async fn pause_agent(
        &self,
        reviewer: &ReviewerCaller,
        agent: &AgentId,
        reason: Option<&str>,
    ) -> Result<(), Error> {
        reviewer.unlimited()?;
        let caller = &reviewer.caller;
        retrying(|| async {
            let mut tx = self.store.begin().await?;
            let standing = tx.lock_agent(agent).await?;
            let now = self.valid_now(tx.as_mut(), caller).await?;
            if standing.paused {
                return Ok(());
            }
            tx.set_pause(agent, Some((now, reviewer.name.as_str()))).await?;
            let mut entry = Entry { agent: Some(agent.clone()), ..caller.entry(EventKind::AgentPaused, now) };
            if let Some(reason) = reason {
                entry.payload = Some(self.keep_sentences(tx.as_mut(), json!({ "reason": reason })).await?);
            }
            tx.append(entry);
            let open = tx.open_under_agent(agent).await?;
            self.withdraw(tx.as_mut(), caller, open, Canceller::Pause, "agent_paused", now).await?;
            Ok(tx.commit().await?)
        })
        .await
    }

    /// Lets a paused agent go on.
    ///
    /// # Errors
    /// As the store's.
    pub async fn resume_agent(&self, admin: &Caller, agent: &AgentId) -> Result<(), Error> {
        retrying(|| async {
            let mut tx = self.store.begin().await?;
            let standing = tx.lock_agent(agent).await?;
            let now = self.valid_now(tx.as_mut(), admin).await?;
            if !standing.paused {
                return Ok(());
            }
            tx.set_pause(agent, None).await?;
            tx.append(Entry { agent: Some(agent.clone()), ..admin.entry(EventKind::AgentResumed, now) });
            Ok(tx.commit().await?)
        })
        .await
    }
}
