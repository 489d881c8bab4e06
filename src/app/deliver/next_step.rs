//! What is to be sent next of all that waits for one destination: what nobody needs to read any more is dropped, what would
//! disturb is put off, what belongs together becomes one message.

use serde_json::Value;

use crate::{
    app::{
        App,
        error::Error,
        ports::{Card, Dispatch, Recipient},
    },
    domain::{
        approval::{
            state::{Approval, StateName},
            vote::Vote,
        },
        channel::{Channel, Destination},
        identity::ReviewerName,
        ids::{ApprovalId, NoticeId},
        notice::{Notice, NoticeEvent, QueuedNotice, Topic, approval_url},
        run::{RunKey, RunStatus},
        time::Timestamp,
    },
};

/// From how many messages on that ask for a decision people get one for all of them.
const GATHERED: usize = 4;

/// How many a message to one person is about at most: each has a link of its own.
const MOST_TO_ONE: usize = 50;

/// What is to be done next about the messages that are due.
pub(super) enum Step {
    /// These need not be sent.
    Moot(Vec<NoticeId>),
    /// These wait until nobody is disturbed by them.
    Postpone(Vec<QueuedNotice>, Timestamp),
    /// These are one message.
    Send(Box<Sending>),
}

/// One message, and what in the outbox it stands for.
pub(super) struct Sending {
    pub(super) queued: Vec<QueuedNotice>,
    pub(super) dispatch: Dispatch,
    /// Those that it shows and that can be changed where it is posted, as it shows them.
    pub(super) shows: Vec<Approval>,
}

impl App {
    /// What is to be done next, where `first` is the first of what is `queued`.
    pub(super) async fn next_step(
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
        let quiet_until = |approval: &Approval| channel.quiet.as_ref()?.silences(approval.expires_at, now);
        let mut until = now;
        let to = recipient.as_ref().and_then(|name| self.recipient(name, now));
        let names = recipient.iter().chain(to.as_ref().map(|to| &to.name));
        let is_theirs = |vote: &Vote| names.clone().any(|name| *name == vote.reviewer);
        for queued in queued.into_iter().filter(asking) {
            let Topic::Approval(id) = queued.notice.topic else { continue };
            let approval = self.store.approval(id).await?.map(|approval| approval.at(now).0);
            match approval.filter(|approval| approval.state.name() == StateName::Pending) {
                None => moot.push(queued.notice.id),
                Some(approval) if approval.votes().iter().any(is_theirs) => moot.push(queued.notice.id),
                // A deputy who is asked anyway gets no second message for the absent.
                Some(approval)
                    if to
                        .as_ref()
                        .filter(|to| Some(&to.name) != recipient.as_ref())
                        .is_some_and(|to| channel.writes_to(&approval, &self.reviewers, now).contains(&to.name)) =>
                {
                    moot.push(queued.notice.id);
                }
                // Whoever has not been asked yet is not reminded.
                Some(_) if asked.iter().any(|(_, approval)| approval.id == id) => moot.push(queued.notice.id),
                Some(approval) => match quiet_until(&approval) {
                    Some(end) => {
                        until = end;
                        quiet.push(queued);
                    }
                    None => asked.push((queued, approval)),
                },
            }
        }
        if !moot.is_empty() {
            return Ok(Step::Moot(moot));
        }
        if !quiet.is_empty() {
            return Ok(Step::Postpone(quiet, until));
        }
        if recipient.is_some() && to.is_none() {
            return Ok(Step::Moot(asked.into_iter().map(|(queued, _)| queued.notice.id).collect()));
        }
        let most = match asked.len() {
            count if count < GATHERED => 1,
            count if recipient.is_some() => count.min(MOST_TO_ONE),
            count => count,
        };
        let (queued, approvals): (Vec<_>, Vec<_>) = asked.into_iter().take(most).unzip();
        let Some(first) = queued.first() else { return Ok(Step::Moot(Vec::new())) };
        let (id, event) = (first.notice.id, first.notice.event);
        let dispatch = match approvals.as_slice() {
            [approval] => {
                let posted = self.store.posting(approval.id, &first.notice.to).await?;
                let card = Box::new(self.card_for(to.as_ref(), approval.clone(), now).await?);
                Dispatch::Card { id, event, recipient: to, card, posted }
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
        let posted = self.store.posting(id, to).await?;
        // One message may show many, and is changed once for all that happened to them.
        let shown = match posted.as_ref().filter(|_| channel.kind.edits()) {
            Some(place) => self.store.posted_at(to, place).await?,
            None => vec![id],
        };
        let same = |queued: &QueuedNotice| {
            matches!(&queued.notice.topic, Topic::Approval(id) if shown.contains(id))
                && !queued.notice.event.asks()
                && queued.notice.recipient == recipient
        };
        let mut same: Vec<QueuedNotice> = queued.into_iter().filter(same).collect();
        same.sort_by_key(|queued| queued.notice.at);
        let all: Vec<_> = same.iter().map(|queued| queued.notice.id).collect();
        // Only how it stands now is told, and so the last of them is enough.
        let Some(last) = same.pop() else { return Ok(Step::Moot(Vec::new())) };
        if !same.is_empty() {
            return Ok(Step::Moot(same.into_iter().map(|queued| queued.notice.id).collect()));
        }
        let Some(approval) = self.store.approval(id).await?.map(|approval| approval.at(now).0) else {
            return Ok(Step::Moot(all));
        };
        let (notice, event) = (last.notice.id, last.notice.event);
        if channel.kind.edits() {
            let Some(place) = posted else { return Ok(Step::Moot(all)) };
            let ids = shown;
            let mut shown = Vec::new();
            for id in ids {
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
        let reached = recipient.as_ref().and_then(|name| self.recipient(name, now));
        if recipient.is_some() && reached.is_none() {
            return Ok(Step::Moot(all));
        }
        let card = Box::new(self.card(approval, now).await?);
        let dispatch = Dispatch::Card { id: notice, event, recipient: reached, card, posted };
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
            cards.push(self.card_for(recipient.as_ref(), approval.clone(), now).await?);
        }
        let inbox = format!("{}/review", self.settings.public_url);
        Ok(Dispatch::Digest { id, event, recipient, cards, inbox, posted })
    }

    /// What somebody who is asked is shown of an approval. A person gets a link of their own, a new one at each attempt: only
    /// its hash is kept.
    async fn card_for(&self, to: Option<&Recipient>, approval: Approval, now: Timestamp) -> Result<Card, Error> {
        let id = approval.id;
        let card = self.card(approval, now).await?;
        match to {
            Some(to) => Ok(Card { url: self.make_link(&to.name, id).await?, ..card }),
            None => Ok(card),
        }
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
        Some(Recipient { name: reached.name.clone(), email: reached.email.clone()? })
    }
}

/// A message for a machine.
fn event_of(queued: QueuedNotice) -> Sending {
    let Notice { id, event, at, data, .. } = queued.notice.clone();
    Sending { queued: vec![queued], dispatch: Dispatch::Event { id, event, at, data }, shows: Vec::new() }
}
