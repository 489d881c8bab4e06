//! Delivers what waits in the outbox: each destination by one instance at a time, every message at least once. It knows
//! when to send, when to give up and whom to tell instead, and not how anything is sent.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::Value;
use tokio::time::timeout;

use super::{
    App,
    error::Error,
    ports::{Courier, Delivery, DestinationStanding, Dispatch, NoticeEnding, Tx},
    retrying,
};
use crate::domain::{
    approval::state::Approval,
    audit::entry::{Actor, Entry, EventKind},
    channel::Destination,
    ids::NoticeId,
    notice::{
        FALLBACK_AFTER, FailedAttempt, KEPT_ATTEMPTS, MOST_ATTEMPTS, Notice, NoticeEvent, QueuedNotice, Topic, back_off,
    },
    time::Timestamp,
};

mod next_step;
mod pass_on;

use next_step::{Sending, Step};

/// How long an instance has a destination for itself without a sign of life.
const LEASE: Duration = Duration::from_secs(20);

/// How long one attempt may take. Couriers keep to ten seconds; this is for one that does not.
const ATTEMPT: Duration = Duration::from_secs(12);

/// How many messages of one destination are looked at together.
const BATCH: u32 = 200;

/// How long a destination that failed is left alone, while messages wait: as long as it has failed already, within this.
const SHORTEST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(60);

/// How much patience a destination is given that asks for some: with more, nobody would be told instead for as long.
const LONGEST_PATIENCE: Duration = Duration::from_secs(60 * 60);

/// After how long of nothing but failures a destination is tried no more.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(3 * 24 * 60 * 60);

/// How far apart two failures may be and still be one time of failing: two messages refused a week apart say nothing
/// about the days between.
const FAILURES_APART: Duration = Duration::from_secs(24 * 60 * 60);

/// For how long nobody may have served a destination before what waits there is given up. An instance that was started
/// before a channel was added does not know it, and leaves it to those that do.
const UNSERVED_AFTER: Duration = Duration::from_secs(60 * 60);

/// How long it is remembered what was delivered, and where it can be changed: longer than any approval lives.
const REMEMBERED: Duration = Duration::from_secs(60 * 24 * 60 * 60);

/// Whoever delivers to each destination.
pub type Couriers = BTreeMap<Destination, Arc<dyn Courier>>;

impl App {
    /// The destinations at which something is due.
    ///
    /// # Errors
    /// As the store's.
    pub async fn due_destinations(&self) -> Result<Vec<Destination>, Error> {
        Ok(self.store.due_destinations(self.now()).await?)
    }

    /// Delivers what is due at one destination, until nothing is, or another instance has it, or it asks for patience.
    /// Returns how many messages arrived.
    ///
    /// # Errors
    /// As the store's; what was sent and not recorded is sent again.
    pub async fn deliver_to(&self, to: &Destination, courier: &dyn Courier) -> Result<usize, Error> {
        let lease = self.uuid(self.now())?.to_string();
        let mut arrived = 0;
        while let Some(standing) = self.lease_destination(to, &lease).await? {
            let now = self.now();
            let queued = self.store.waiting_notices(to, now, BATCH).await?;
            let Some(first) = queued.first().cloned() else {
                self.release_destination(to, &lease, &standing, &[]).await?;
                break;
            };
            match self.next_step(to, first, queued, now).await? {
                Step::Moot(ids) => {
                    self.finish(&ids, NoticeEnding::Moot).await?;
                    self.release_destination(to, &lease, &standing, &[]).await?;
                }
                Step::Postpone(mut queued, until) => {
                    for queued in &mut queued {
                        queued.notice.not_before = until;
                    }
                    self.release_destination(to, &lease, &standing, &queued).await?;
                }
                Step::Send(sending) => {
                    let delivery = match &standing.disabled {
                        Some((_, why)) => Delivery::Refused { fault: why.clone() },
                        None => attempt(courier, &sending.dispatch).await,
                    };
                    arrived += usize::from(matches!(delivery, Delivery::Done { .. }));
                    self.record_delivery(to, &lease, standing, *sending, delivery, now).await?;
                }
            }
        }
        Ok(arrived)
    }

    /// Gives up what has waited for long at destinations that are not among those served here, and that nobody else has
    /// served meanwhile: channels that were taken out of the settings. Returns how many messages.
    ///
    /// # Errors
    /// As the store's.
    pub async fn give_up_unserved(&self, served: &Couriers) -> Result<usize, Error> {
        let long_ago = self.now().minus(UNSERVED_AFTER);
        let mut given_up = 0;
        for to in self.store.due_destinations(long_ago).await?.into_iter().filter(|to| !served.contains_key(to)) {
            let lease = self.uuid(self.now())?.to_string();
            let Some(standing) = self.lease_destination(&to, &lease).await? else { continue };
            let unserved = standing.tried_at.is_none_or(|tried_at| tried_at <= long_ago);
            let abandoned = if unserved { self.store.waiting_notices(&to, long_ago, BATCH).await? } else { Vec::new() };
            retrying(|| async {
                let now = self.now();
                let mut tx = self.store.begin().await?;
                for queued in &abandoned {
                    let fault = "it is not configured any more";
                    self.record_failure(tx.as_mut(), queued, fault, None, now, now).await?;
                }
                tx.release_destination(&to, &lease, &standing).await?;
                Ok(tx.commit().await?)
            })
            .await?;
            given_up += abandoned.len();
        }
        Ok(given_up)
    }

    /// Forgets what was delivered long ago.
    ///
    /// # Errors
    /// As the store's.
    pub async fn forget_delivered(&self) -> Result<u64, Error> {
        retrying(|| async {
            let mut tx = self.store.begin().await?;
            let forgotten = tx.forget_notices(self.now().minus(REMEMBERED)).await?;
            tx.commit().await?;
            Ok(forgotten)
        })
        .await
    }

    async fn lease_destination(&self, to: &Destination, lease: &str) -> Result<Option<DestinationStanding>, Error> {
        retrying(|| async {
            let now = self.now();
            let mut tx = self.store.begin().await?;
            let standing = tx.lease_destination(to, lease, now, now.plus(LEASE)).await?;
            tx.commit().await?;
            Ok(standing)
        })
        .await
    }

    async fn release_destination(
        &self,
        to: &Destination,
        lease: &str,
        standing: &DestinationStanding,
        postponed: &[QueuedNotice],
    ) -> Result<(), Error> {
        retrying(|| async {
            let mut tx = self.store.begin().await?;
            for queued in postponed {
                tx.update_notice(queued).await?;
            }
            tx.release_destination(to, lease, standing).await?;
            Ok(tx.commit().await?)
        })
        .await
    }

    async fn finish(&self, ids: &[NoticeId], ending: NoticeEnding) -> Result<(), Error> {
        retrying(|| async {
            let mut tx = self.store.begin().await?;
            tx.finish_notices(ids, ending, self.now()).await?;
            Ok(tx.commit().await?)
        })
        .await
    }

    /// Writes down what came of an attempt, and gives the destination back.
    async fn record_delivery(
        &self,
        to: &Destination,
        lease: &str,
        standing: DestinationStanding,
        sending: Sending,
        delivery: Delivery,
        began: Timestamp,
    ) -> Result<(), Error> {
        let jitter = self.jitter()?;
        retrying(|| async {
            let now = self.now();
            let mut tx = self.store.begin().await?;
            let mut standing = standing.clone();
            match &delivery {
                Delivery::Done { place } => {
                    for queued in &sending.queued {
                        // What was told of a run is what the next one is compared with.
                        tx.update_notice(queued).await?;
                    }
                    let ids: Vec<_> = sending.queued.iter().map(|queued| queued.notice.id).collect();
                    tx.finish_notices(&ids, NoticeEnding::Delivered, now).await?;
                    self.record_posting(tx.as_mut(), to, &sending.shows, place.as_deref(), now).await?;
                    standing.failing_since = None;
                    standing.tried_at = Some(now);
                    standing.not_before = now.plus(self.pace_of(to));
                }
                Delivery::Later { after, fault } => {
                    let after = after.map(|after| after.min(LONGEST_PATIENCE));
                    let delay = |attempts| after.unwrap_or_default().max(jittered(back_off(attempts), jitter));
                    let failing_for = now.since(failing_since(&mut standing, now));
                    if failing_for > GIVEN_UP_AFTER {
                        self.disable(tx.as_mut(), &mut standing, to, fault, now);
                    }
                    for queued in &sending.queued {
                        let attempts = queued.attempts.saturating_add(1);
                        let next = now.plus(delay(attempts));
                        let last = attempts >= MOST_ATTEMPTS || standing.disabled.is_some();
                        self.record_failure(tx.as_mut(), queued, fault, (!last).then_some(next), began, now).await?;
                    }
                    // The others that wait are not tried one by one at somebody who does not answer.
                    let rest = jittered(failing_for.clamp(SHORTEST_REST, LONGEST_REST), jitter);
                    standing.not_before = now.plus(rest.max(after.unwrap_or_default()));
                }
                Delivery::Refused { fault } => {
                    if standing.disabled.is_none() {
                        failing_since(&mut standing, now);
                    }
                    for queued in &sending.queued {
                        self.record_failure(tx.as_mut(), queued, fault, None, began, now).await?;
                    }
                }
                Delivery::Gone { fault } => {
                    self.disable(tx.as_mut(), &mut standing, to, fault, now);
                    for queued in &sending.queued {
                        self.record_failure(tx.as_mut(), queued, fault, None, began, now).await?;
                    }
                }
            }
            tx.release_destination(to, lease, &standing).await?;
            Ok(tx.commit().await?)
        })
        .await
    }

    /// Keeps where something was posted. What has changed since it was shown is to be changed there too.
    async fn record_posting(
        &self,
        tx: &mut dyn Tx,
        to: &Destination,
        shows: &[Approval],
        place: Option<&str>,
        now: Timestamp,
    ) -> Result<(), Error> {
        for shown in shows {
            let Some(current) = tx.approval(shown.id).await? else { continue };
            if let Some(place) = place {
                tx.put_posting(shown.id, to, place, now).await?;
            }
            if current.at(now).0.state != shown.state {
                let change = Notice {
                    id: NoticeId::from_uuid(self.uuid(now)?),
                    to: to.clone(),
                    recipient: None,
                    event: NoticeEvent::Voted,
                    topic: Topic::Approval(shown.id),
                    data: Value::Null,
                    at: now,
                    not_before: now,
                    instead_of: None,
                };
                tx.enqueue(&[change]).await?;
            }
        }
        Ok(())
    }

    /// Keeps a failed attempt: the next one is at `next`, or never. Tells the next channel in time.
    async fn record_failure(
        &self,
        tx: &mut dyn Tx,
        queued: &QueuedNotice,
        fault: &str,
        next: Option<Timestamp>,
        began: Timestamp,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut queued = queued.clone();
        queued.attempts = queued.attempts.saturating_add(1);
        let millis = u64::try_from(now.since(began).as_millis()).unwrap_or(u64::MAX);
        queued.failed.push(FailedAttempt { at: now, millis, fault: fault.to_owned() });
        let surplus = queued.failed.len().saturating_sub(KEPT_ATTEMPTS);
        queued.failed.drain(..surplus);
        match next {
            Some(next) => queued.notice.not_before = next,
            None => queued.dead_since = Some(now),
        }
        tx.update_notice(&queued).await?;
        if next.is_none() {
            tracing::warn!(notice = %queued.notice.id, to = %queued.notice.to, event = %queued.notice.event, %fault,
                "a message was given up");
            let mut entry = Entry::new(EventKind::NoticeDead, now, Actor::service());
            entry.reason = Some(fault.to_owned());
            tx.append(about_notice(&queued.notice, entry));
        }
        if next.is_some() && queued.attempts < FALLBACK_AFTER {
            return Ok(());
        }
        match self.approval_of(&queued.notice, now).await? {
            Some(approval) => self.pass_on(tx, &queued.notice, &approval, now).await,
            None => Ok(()),
        }
    }

    fn disable(
        &self,
        tx: &mut dyn Tx,
        standing: &mut DestinationStanding,
        to: &Destination,
        fault: &str,
        now: Timestamp,
    ) {
        if standing.disabled.is_some() {
            return;
        }
        tracing::error!(%to, %fault, "nothing is sent there any more until somebody enables it again");
        standing.disabled = Some((now, fault.to_owned()));
        let mut entry = Entry::new(EventKind::DestinationDisabled, now, Actor::service());
        entry.reason = Some(fault.to_owned());
        entry.detail.insert("destination".to_owned(), to.to_string().into());
        tx.append(entry);
    }

    fn pace_of(&self, to: &Destination) -> Duration {
        match to {
            Destination::Channel(name) => {
                self.channels.get(name).map(|channel| channel.kind.pace()).unwrap_or_default()
            }
            Destination::Callback(_) => Duration::ZERO,
        }
    }

    /// 0 to 255, at random.
    fn jitter(&self) -> Result<u8, Error> {
        let mut byte = [0];
        self.entropy.fill(&mut byte)?;
        let [jitter] = byte;
        Ok(jitter)
    }
}

/// Says of which message an entry is, and of which call.
fn about_notice(notice: &Notice, mut entry: Entry) -> Entry {
    entry.detail.insert("notice".to_owned(), notice.id.to_string().into());
    entry.detail.insert("destination".to_owned(), notice.to.to_string().into());
    entry.detail.insert("event".to_owned(), notice.event.as_str().into());
    match &notice.topic {
        Topic::Approval(id) => entry.approval = Some(*id),
        Topic::Run(run) => entry.run = Some(run.run.clone()),
    }
    entry
}

/// Notes that something was tried in vain. Returns since when nothing has arrived.
fn failing_since(standing: &mut DestinationStanding, now: Timestamp) -> Timestamp {
    let tried_before = standing.tried_at.replace(now);
    let goes_on = tried_before.is_some_and(|before| now.since(before) <= FAILURES_APART);
    let since = standing.failing_since.filter(|_| goes_on).unwrap_or(now);
    standing.failing_since = Some(since);
    since
}

/// One attempt, which does not outlast the lease.
async fn attempt(courier: &dyn Courier, dispatch: &Dispatch) -> Delivery {
    match timeout(ATTEMPT, courier.deliver(dispatch)).await {
        Ok(delivery) => delivery,
        Err(_) => Delivery::Later { after: None, fault: "no answer came in time".to_owned() },
    }
}

/// Up to a quarter more, so that what failed together does not come again together.
fn jittered(delay: Duration, jitter: u8) -> Duration {
    delay + delay * u32::from(jitter) / (4 * 255)
}
