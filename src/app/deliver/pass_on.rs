//! Tells the next channel what one could not be told: a message that was tried often or was given up, and whatever waits
//! where nothing arrives any more.

use std::time::Duration;

use crate::{
    app::{App, error::Error, ports::Tx, retrying},
    domain::{
        approval::state::{Approval, StateName},
        channel::Destination,
        ids::NoticeId,
        notice::{Notice, QueuedNotice, Topic},
        time::Timestamp,
    },
};

/// For how long nothing has arrived at a destination when the next channel is told what waits there: a reviewer who could
/// have decided knows nothing yet.
const FAILING: Duration = Duration::from_secs(50);

/// For how long a message has waited there: its destination may have come back, and is tried before.
const WAITING: Duration = Duration::from_secs(15);

/// How many messages are looked at together.
const BATCH: u32 = 200;

impl App {
    /// Tells the next channel what asks for a decision and waits where nothing arrives, tried or not. Returns how many
    /// messages are passed on.
    ///
    /// # Errors
    /// As the store's; what was not passed on is at the next time.
    pub async fn pass_on_waiting(&self) -> Result<usize, Error> {
        let now = self.now();
        let stuck = self.store.notices_to_pass_on(now.minus(FAILING), now.minus(WAITING), now, BATCH).await?;
        let mut passed_on = 0;
        for QueuedNotice { notice, .. } in stuck {
            let quiet = match &notice.to {
                // Whoever knows the channel knows which is the next one.
                Destination::Channel(name) if self.channels.get(name).is_none() => continue,
                Destination::Channel(name) => self.channels.get(name).and_then(|channel| channel.quiet.as_ref()),
                Destination::Callback(_) => None,
            };
            let Some(approval) = self.approval_of(&notice, now).await? else { continue };
            if quiet.is_some_and(|quiet| quiet.silences(approval.expires_at, now).is_some()) {
                continue;
            }
            retrying(|| async {
                let mut tx = self.store.begin().await?;
                self.pass_on(tx.as_mut(), &notice, &approval, now).await?;
                Ok(tx.commit().await?)
            })
            .await?;
            passed_on += 1;
        }
        Ok(passed_on)
    }

    /// Tells the fallback of a channel what the channel could not be told of `approval`; once, whoever finds out.
    pub(super) async fn pass_on(
        &self,
        tx: &mut dyn Tx,
        notice: &Notice,
        approval: &Approval,
        now: Timestamp,
    ) -> Result<(), Error> {
        if !tx.pass_on_notice(notice.id).await? {
            return Ok(());
        }
        let Destination::Channel(channel) = &notice.to else { return Ok(()) };
        if notice.event.asks() && approval.state.name() != StateName::Pending {
            return Ok(());
        }
        let mut notices = Vec::new();
        for told in self.channels.instead_of(channel, notice.event, approval, &self.reviewers, now) {
            notices.push(Notice {
                id: NoticeId::from_uuid(self.uuid(now)?),
                to: told.to,
                recipient: told.recipient,
                event: told.event,
                not_before: now,
                instead_of: Some(notice.id),
                ..notice.clone()
            });
        }
        if notices.is_empty() { Ok(()) } else { Ok(tx.enqueue(&notices).await?) }
    }

    /// The approval that a message is about, as it is at `now`.
    pub(super) async fn approval_of(&self, notice: &Notice, now: Timestamp) -> Result<Option<Approval>, Error> {
        match &notice.topic {
            Topic::Approval(id) => Ok(self.store.approval(*id).await?.map(|approval| approval.at(now).0)),
            Topic::Run(_) => Ok(None),
        }
    }
}
