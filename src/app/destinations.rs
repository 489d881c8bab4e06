//! Where messages go, as operators see it: how it stands there, what was given up, and having either tried again.

use std::collections::BTreeMap;

use super::{App, Caller, error::Error, ports::Change, retrying};
use crate::domain::{
    audit::entry::EventKind, channel::Destination, ids::NoticeId, notice::QueuedNotice, time::Timestamp,
};

/// A destination as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DestinationView {
    /// The destination.
    pub to: Destination,
    /// Whether the settings still name it.
    pub configured: bool,
    /// Since when nothing has arrived.
    pub failing_since: Option<Timestamp>,
    /// Since when nothing is tried any more, and why.
    pub disabled: Option<(Timestamp, String)>,
    /// Messages that are due, or were tried and are to be tried again.
    pub waiting: u64,
    /// Messages that are not to be sent yet.
    pub later: u64,
    /// Messages that were given up.
    pub dead: u64,
}

impl App {
    /// The messages that were given up, newest first.
    ///
    /// # Errors
    /// As the store's.
    pub async fn dead_letters(
        &self,
        before: Option<NoticeId>,
        limit: u32,
    ) -> Result<(Vec<QueuedNotice>, Option<NoticeId>), Error> {
        let mut dead = self.store.dead_notices(before, limit.saturating_add(1)).await?;
        let more = dead.len() > limit as usize;
        dead.truncate(limit as usize);
        let next = if more { dead.last().map(|queued| queued.notice.id) } else { None };
        Ok((dead, next))
    }

    /// Lets a message that was given up be tried again, under the same id.
    ///
    /// # Errors
    /// [`Error::NotFound`] when none of this id was given up.
    pub async fn replay_dead_letter(&self, caller: &Caller, id: NoticeId) -> Result<(), Error> {
        retrying(|| async {
            let mut tx = self.store.begin().await?;
            let now = self.valid_now(tx.as_mut(), caller).await?;
            if !tx.replay_notice(id, now).await? {
                return Err(Error::NotFound);
            }
            let mut entry = caller.entry(EventKind::NoticeReplayed, now);
            entry.detail.insert("notice".to_owned(), id.to_string().into());
            tx.append(entry);
            tx.announce(Change::Outbox);
            Ok(tx.commit().await?)
        })
        .await
    }

    /// Where messages go, how it stands there, and how many are not delivered: what is configured, and what was.
    ///
    /// # Errors
    /// As the store's.
    pub async fn destinations(&self) -> Result<Vec<DestinationView>, Error> {
        let mut views: BTreeMap<Destination, DestinationView> = BTreeMap::new();
        let empty = |to: Destination, configured| DestinationView {
            to,
            configured,
            failing_since: None,
            disabled: None,
            waiting: 0,
            later: 0,
            dead: 0,
        };
        for to in self.channels.destinations() {
            views.insert(to.clone(), empty(to, true));
        }
        for (to, standing) in self.store.destinations().await? {
            let view = views.entry(to.clone()).or_insert_with(|| empty(to, false));
            view.failing_since = standing.failing_since;
            view.disabled = standing.disabled;
        }
        for count in self.store.outbox_counts(self.now()).await? {
            let view = views.entry(count.to.clone()).or_insert_with(|| empty(count.to, false));
            view.waiting = count.waiting;
            view.later = count.later;
            view.dead = count.dead;
        }
        Ok(views.into_values().collect())
    }

    /// Lets a destination be tried again.
    ///
    /// # Errors
    /// [`Error::NotFound`] when it is not disabled.
    pub async fn enable_destination(&self, caller: &Caller, to: &Destination) -> Result<(), Error> {
        retrying(|| async {
            let mut tx = self.store.begin().await?;
            let now = self.valid_now(tx.as_mut(), caller).await?;
            if !tx.enable_destination(to).await? {
                return Err(Error::NotFound);
            }
            let mut entry = caller.entry(EventKind::DestinationEnabled, now);
            entry.detail.insert("destination".to_owned(), to.to_string().into());
            tx.append(entry);
            tx.announce(Change::Outbox);
            Ok(tx.commit().await?)
        })
        .await
    }
}
