//! Delivers what waits in the outbox: each destination by one instance at a time, every message at least once. It knows
//! when to send, when to give up and whom to tell instead, and not how anything is sent.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::Value;
use tokio::time::timeout;

use super::{
    App, Caller,
    error::Error,
    ports::{Card, Change, Courier, Delivery, DestinationStanding, Dispatch, NoticeEnding, Recipient, Tx},
    retrying,
};
use crate::domain::{
    approval::state::{Approval, StateName},
    audit::entry::{Actor, Entry, EventKind},
    channel::{Channel, Destination},
    identity::ReviewerName,
    ids::{ApprovalId, NoticeId},
    notice::{
        FALLBACK_AFTER, FailedAttempt, KEPT_ATTEMPTS, MOST_ATTEMPTS, Notice, NoticeEvent, QueuedNotice, Topic,
        approval_url, back_off,
    },
    run::{RunKey, RunStatus},
    time::Timestamp,
};

/// How long an instance has a destination for itself without a sign of life.
const LEASE: Duration = Duration::from_secs(20);

/// How long one attempt may take. Couriers keep to ten seconds; this is for one that does not.
const ATTEMPT: Duration = Duration::from_secs(12);

/// How many messages of one destination are looked at together.
const BATCH: u32 = 200;

/// From how many messages on that ask for a decision people get one for all of them.
const GATHERED: usize = 4;

/// How long a destination that failed is left alone at most, while messages wait.
const LONGEST_REST: Duration = Duration::from_secs(60);

/// After how long of nothing but failures a destination is tried no more.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(3 * 24 * 60 * 60);

/// How long it is remembered what was delivered, and where it can be changed: longer than any approval lives.
const REMEMBERED: Duration = Duration::from_secs(60 * 24 * 60 * 60);

/// Whoever delivers to each destination.
pub type Couriers = BTreeMap<Destination, Arc<dyn Courier>>;

/// What is to be done next about the messages that are due.
enum Step {
    /// These need not be sent.
    Moot(Vec<NoticeId>),
    /// These wait until nobody is disturbed by them.
    Postpone(Vec<QueuedNotice>, Timestamp),
    /// These are one message.
    Send(Box<Sending>),
}

/// One message, and what in the outbox it stands for.
struct Sending {
    queued: Vec<QueuedNotice>,
    dispatch: Dispatch,
    /// Those that it shows and that can be changed where it is posted, as it shows them.
    shows: Vec<Approval>,
}

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
    pub async fn deliver_to(&self, to: &Destination, courier: Option<&dyn Courier>) -> Result<usize, Error> {
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
                    let delivery = match (courier, &standing.disabled) {
                        (None, _) => Delivery::Refused { fault: "it is not configured any more".to_owned() },
                        (Some(_), Some((_, why))) => Delivery::Refused { fault: why.clone() },
                        (Some(courier), None) => attempt(courier, &sending.dispatch).await,
                    };
                    arrived += usize::from(matches!(delivery, Delivery::Done { .. }));
                    self.record_delivery(to, &lease, standing, *sending, delivery, now).await?;
                }
            }
        }
        Ok(arrived)
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

    async fn next_step(
        &self,
        to: &Destination,
        first: QueuedNotice,
        queued: Vec<QueuedNotice>,
        now: Timestamp,
    ) -> Result<Step, Error> {
        let channel = match to {
            Destination::Channel(name) => self.channels.get(name),
            Destination::Callback(_) => None,
        };
        match &first.notice.topic {
            Topic::Run(run) => {
                let run = run.clone();
                self.ready_step(to, &run, first, now).await
            }
            Topic::Approval(id) => match channel.filter(|channel| channel.kind.gathers()) {
                None => Ok(Step::Send(Box::new(event_of(first)))),
                Some(channel) if first.notice.event.asks() => {
                    self.asking_step(channel, first.notice.recipient.clone(), queued, now).await
                }
                Some(channel) => self.telling_step(channel, to, *id, queued, now).await,
            },
        }
    }

    /// A run that may go on is told of once for each newest turn, and not when something waits again by now.
    async fn ready_step(
        &self,
        to: &Destination,
        run: &RunKey,
        mut first: QueuedNotice,
        now: Timestamp,
    ) -> Result<Step, Error> {
        let moot = Step::Moot(vec![first.notice.id]);
        let Some(known) = self.store.run(run, now).await? else { return Ok(moot) };
        let (RunStatus::Ready, Some(newest)) = (known.status(now), known.newest) else { return Ok(moot) };
        let data = serde_json::json!({
            "agent": run.agent,
            "run_id": run.run,
            "turn": newest.turn,
            "mark": newest.mark,
            "status": RunStatus::Ready.as_str(),
        });
        if self.store.told_of_run(to, run).await?.as_ref() == Some(&data) {
            return Ok(moot);
        }
        first.notice.data = data;
        Ok(Step::Send(Box::new(event_of(first))))
    }

    /// People are asked for a decision: about what still takes one, at a good hour, and about many at once if many wait.
    async fn asking_step(
        &self,
        channel: &Channel,
        recipient: Option<ReviewerName>,
        queued: Vec<QueuedNotice>,
        now: Timestamp,
    ) -> Result<Step, Error> {
        let asking = |queued: &QueuedNotice| queued.notice.event.asks() && queued.notice.recipient == recipient;
        let (mut moot, mut quiet) = (Vec::new(), Vec::new());
        let mut asked: Vec<(QueuedNotice, Approval)> = Vec::new();
        let quiet_until = channel.quiet.as_ref().and_then(|quiet| quiet.end_at(now));
        for queued in queued.into_iter().filter(asking) {
            let Topic::Approval(id) = queued.notice.topic else { continue };
            let approval = self.store.approval(id).await?.map(|approval| approval.at(now).0);
            match approval.filter(|approval| approval.state.name() == StateName::Pending) {
                None => moot.push(queued.notice.id),
                // Whoever has not been asked yet is not reminded.
                Some(_) if asked.iter().any(|(_, approval)| approval.id == id) => moot.push(queued.notice.id),
                Some(approval) => match quiet_until.filter(|until| *until < approval.expires_at) {
                    Some(_) => quiet.push(queued),
                    None => asked.push((queued, approval)),
                },
            }
        }
        if !moot.is_empty() {
            return Ok(Step::Moot(moot));
        }
        if let Some(until) = quiet_until.filter(|_| !quiet.is_empty()) {
            return Ok(Step::Postpone(quiet, until));
        }
        let to = match &recipient {
            Some(name) => match self.recipient(name, now) {
                Some(recipient) => Some(recipient),
                None => return Ok(Step::Moot(asked.into_iter().map(|(queued, _)| queued.notice.id).collect())),
            },
            None => None,
        };
        let most = if asked.len() < GATHERED { 1 } else { asked.len() };
        let (queued, approvals): (Vec<_>, Vec<_>) = asked.into_iter().take(most).unzip();
        let Some(first) = queued.first() else { return Ok(Step::Moot(Vec::new())) };
        let (id, event) = (first.notice.id, first.notice.event);
        let dispatch = match approvals.as_slice() {
            [approval] => {
                let posted = self.store.posting(approval.id, &first.notice.to).await?;
                let card = Box::new(self.card(approval.clone(), now).await?);
                let recipient = match to {
                    // One for each attempt: only its hash is kept.
                    Some(to) => {
                        let link = Some(self.make_link(&to.name, approval.id).await?);
                        Some(Recipient { link, ..to })
                    }
                    None => None,
                };
                Dispatch::Card { id, event, recipient, card, posted }
            }
            approvals => self.digest(id, event, to, approvals, None, now).await?,
        };
        let mut shows = Vec::new();
        if channel.kind.edits() {
            let alone = approvals.len() == 1;
            for approval in approvals {
                // A list that reminds of many leaves each where it stands: that message is the one to be changed.
                if alone || self.store.posting(approval.id, &first.notice.to).await?.is_none() {
                    shows.push(approval);
                }
            }
        }
        Ok(Step::Send(Box::new(Sending { queued, dispatch, shows })))
    }

    /// People are told what became of something: where they were asked, if the channel can change that.
    async fn telling_step(
        &self,
        channel: &Channel,
        to: &Destination,
        id: ApprovalId,
        queued: Vec<QueuedNotice>,
        now: Timestamp,
    ) -> Result<Step, Error> {
        let recipient = queued.first().and_then(|first| first.notice.recipient.clone());
        let same = |queued: &QueuedNotice| {
            queued.notice.topic == Topic::Approval(id)
                && !queued.notice.event.asks()
                && queued.notice.recipient == recipient
        };
        let mut same: Vec<QueuedNotice> = queued.into_iter().filter(same).collect();
        let ids = || same.iter().map(|queued| queued.notice.id).collect::<Vec<_>>();
        let all = ids();
        // Only how it stands now is told, and so the last of them is enough.
        let Some(last) = same.pop() else { return Ok(Step::Moot(Vec::new())) };
        let Some(approval) = self.store.approval(id).await?.map(|approval| approval.at(now).0) else {
            return Ok(Step::Moot(all));
        };
        if !same.is_empty() {
            return Ok(Step::Moot(same.into_iter().map(|queued| queued.notice.id).collect()));
        }
        let (notice, event) = (last.notice.id, last.notice.event);
        let posted = self.store.posting(id, to).await?;
        if channel.kind.edits() {
            let Some(place) = posted else { return Ok(Step::Moot(all)) };
            let mut shown = Vec::new();
            for id in self.store.posted_at(to, &place).await? {
                shown.extend(self.store.approval(id).await?.map(|approval| approval.at(now).0));
            }
            let dispatch = match shown.as_slice() {
                [_] | [] => {
                    let card = Box::new(self.card(approval, now).await?);
                    Dispatch::Card { id: notice, event, recipient: None, card, posted: Some(place) }
                }
                shown => self.digest(notice, event, None, shown, Some(place), now).await?,
            };
            return Ok(Step::Send(Box::new(Sending { queued: vec![last], dispatch, shows: shown })));
        }
        let recipient = match &recipient {
            Some(name) => match self.recipient(name, now) {
                Some(recipient) => Some(recipient),
                None => return Ok(Step::Moot(all)),
            },
            None => None,
        };
        let card = Box::new(self.card(approval, now).await?);
        let dispatch = Dispatch::Card { id: notice, event, recipient, card, posted };
        Ok(Step::Send(Box::new(Sending { queued: vec![last], dispatch, shows: Vec::new() })))
    }

    async fn digest(
        &self,
        id: NoticeId,
        event: NoticeEvent,
        recipient: Option<Recipient>,
        approvals: &[Approval],
        posted: Option<String>,
        now: Timestamp,
    ) -> Result<Dispatch, Error> {
        let mut cards = Vec::new();
        for approval in approvals {
            cards.push(self.card(approval.clone(), now).await?);
        }
        let inbox = format!("{}/review", self.settings.public_url);
        Ok(Dispatch::Digest { id, event, recipient, cards, inbox, posted })
    }

    /// What people are shown of an approval. What is not what was held is not shown.
    async fn card(&self, approval: Approval, now: Timestamp) -> Result<Card, Error> {
        let kept = self.kept_call(&approval).await?;
        let intact = kept.exchanged().is_none();
        let rationale = kept.input.get("rationale").and_then(Value::as_str).map(str::to_owned);
        Ok(Card {
            review: kept.review.held().filter(|_| intact),
            rationale: rationale.filter(|_| intact),
            url: approval_url(&self.settings.public_url, approval.id),
            approval,
            now,
        })
    }

    /// Who is written to instead of or as this reviewer; `None` when nobody has an address.
    fn recipient(&self, name: &ReviewerName, now: Timestamp) -> Option<Recipient> {
        let person = self.reviewers.get(name)?;
        let reached = Some(self.reviewers.reached_at(person, now)).filter(|reached| reached.email.is_some());
        let reached = reached.unwrap_or(person);
        Some(Recipient { name: reached.name.clone(), email: reached.email.clone()?, link: None })
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
                    standing.not_before = now.plus(self.pace_of(to));
                }
                Delivery::Later { after, fault } => {
                    let delay = |attempts| after.unwrap_or_default().max(jittered(back_off(attempts), jitter));
                    let failing_since = *standing.failing_since.get_or_insert(now);
                    if now.since(failing_since) > GIVEN_UP_AFTER {
                        self.disable(tx.as_mut(), &mut standing, to, fault, now);
                    }
                    let mut rest = Duration::ZERO;
                    for queued in &sending.queued {
                        let attempts = queued.attempts.saturating_add(1);
                        let next = now.plus(delay(attempts));
                        rest = rest.max(delay(attempts));
                        let last = attempts >= MOST_ATTEMPTS || standing.disabled.is_some();
                        self.record_failure(tx.as_mut(), queued, fault, (!last).then_some(next), began, now).await?;
                    }
                    // The others that wait are not tried one by one at somebody who does not answer.
                    standing.not_before = now.plus(rest.min(LONGEST_REST).max(after.unwrap_or_default()));
                }
                Delivery::Refused { fault } => {
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
        let told_next = queued.attempts >= FALLBACK_AFTER;
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
        if !told_next && (next.is_none() || queued.attempts >= FALLBACK_AFTER) {
            self.tell_next(tx, &queued.notice, now).await?;
        }
        Ok(())
    }

    /// Tells the fallback of a channel what it could not be told.
    async fn tell_next(&self, tx: &mut dyn Tx, notice: &Notice, now: Timestamp) -> Result<(), Error> {
        let (Destination::Channel(channel), Topic::Approval(id)) = (&notice.to, &notice.topic) else { return Ok(()) };
        let Some(approval) = self.store.approval(*id).await? else { return Ok(()) };
        let mut notices = Vec::new();
        for told in self.channels.instead_of(channel, notice.event, &approval, &self.reviewers, now) {
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

/// A message for a machine.
fn event_of(queued: QueuedNotice) -> Sending {
    let Notice { id, event, at, data, .. } = queued.notice.clone();
    Sending { queued: vec![queued], dispatch: Dispatch::Event { id, event, at, data }, shows: Vec::new() }
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
