//! The ways to reviewers and to the stacks that ask: who is told of what, where, and when not. It must not know how a
//! message is sent.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
    time::Duration,
};

use super::{
    approval::state::Approval,
    identity::{AgentId, ChannelName, GroupName, ReviewerDirectory, ReviewerName},
    notice::NoticeEvent,
    time::Timestamp,
};

mod quiet;

pub use quiet::{NotQuietHours, QuietHours};

/// Where messages go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Destination {
    /// A channel to reviewers.
    Channel(ChannelName),
    /// The webhook of the stack that runs this agent.
    Callback(AgentId),
}

/// As the store and operators write it: `channel:NAME`, `callback:AGENT`.
impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Channel(name) => write!(f, "channel:{name}"),
            Self::Callback(agent) => write!(f, "callback:{agent}"),
        }
    }
}

/// Text that names no destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a destination is channel:NAME or callback:AGENT")]
pub struct UnknownDestination;

impl FromStr for Destination {
    type Err = UnknownDestination;

    fn from_str(text: &str) -> Result<Self, UnknownDestination> {
        match text.split_once(':') {
            Some(("channel", name)) => ChannelName::parse(name).map(Self::Channel).map_err(|_| UnknownDestination),
            Some(("callback", agent)) => AgentId::parse(agent).map(Self::Callback).map_err(|_| UnknownDestination),
            Some(_) | None => Err(UnknownDestination),
        }
    }
}

/// What a channel can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelKind {
    /// Posts with buttons, and edits what it posted.
    Slack,
    /// Posts into Slack with a link, and can edit nothing.
    SlackWebhook,
    /// Posts a card with a link into Teams, and can edit nothing.
    Teams,
    /// Writes to each person.
    Email,
    /// Sends events to a machine.
    Webhook,
}

impl ChannelKind {
    /// Whether the kind tells of this at all.
    pub const fn hears(self, event: NoticeEvent) -> bool {
        match event {
            NoticeEvent::Requested => true,
            NoticeEvent::Reminder | NoticeEvent::Escalated => !matches!(self, Self::Webhook),
            NoticeEvent::Voted => matches!(self, Self::Slack),
            NoticeEvent::Expired => true,
            NoticeEvent::Approved | NoticeEvent::Denied | NoticeEvent::Cancelled => !matches!(self, Self::Email),
            NoticeEvent::Executed | NoticeEvent::Outcome => matches!(self, Self::Slack | Self::Webhook),
            NoticeEvent::RunReady => false,
        }
    }

    /// Whether many messages that ask for decisions may become one.
    pub const fn gathers(self) -> bool {
        !matches!(self, Self::Webhook)
    }

    /// Whether it can change what it posted.
    pub const fn edits(self) -> bool {
        matches!(self, Self::Slack)
    }

    /// The least time between two messages: a chat takes about one a second.
    pub const fn pace(self) -> Duration {
        match self {
            Self::Slack | Self::SlackWebhook | Self::Teams => Duration::from_secs(1),
            Self::Email | Self::Webhook => Duration::ZERO,
        }
    }
}

/// One entry of `[channels]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Its name.
    pub name: ChannelName,
    /// What it can do.
    pub kind: ChannelKind,
    /// The groups whose approvals are told here; none: all.
    pub groups: BTreeSet<GroupName>,
    /// Who is told when this one cannot be reached.
    pub fallback: Option<ChannelName>,
    /// When nobody is to be disturbed.
    pub quiet: Option<QuietHours>,
}

/// What makes channels no set of channels.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelFault {
    /// A fallback that is no channel, or leads back to where it began.
    #[error("channel {channel} {problem}")]
    Fallback {
        /// The channel.
        channel: ChannelName,
        /// What is wrong.
        problem: &'static str,
    },
}

/// A message to be written into the outbox, but for its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Where to.
    pub to: Destination,
    /// To whom, where the channel writes to people.
    pub recipient: Option<ReviewerName>,
    /// What it tells.
    pub event: NoticeEvent,
    /// Not before this.
    pub not_before: Timestamp,
}

/// Everybody who can be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    by_name: BTreeMap<ChannelName, Channel>,
    callbacks: BTreeSet<AgentId>,
}

impl Channels {
    /// These channels to reviewers, and the agents whose stacks are told.
    ///
    /// # Errors
    ///
    /// Every [`ChannelFault`] there is.
    pub fn new(
        channels: impl IntoIterator<Item = Channel>,
        callbacks: impl IntoIterator<Item = AgentId>,
    ) -> Result<Self, Vec<ChannelFault>> {
        let by_name: BTreeMap<_, _> = channels.into_iter().map(|channel| (channel.name.clone(), channel)).collect();
        let fault = |channel: &Channel| {
            let mut seen = BTreeSet::from([&channel.name]);
            let mut next = channel.fallback.as_ref();
            while let Some(name) = next {
                let Some(found) = by_name.get(name) else { return Some("falls back to a channel that there is not") };
                if !seen.insert(name) {
                    return Some("falls back to itself in the end");
                }
                next = found.fallback.as_ref();
            }
            None
        };
        let faults: Vec<_> = by_name
            .values()
            .filter_map(|channel| {
                fault(channel).map(|problem| ChannelFault::Fallback { channel: channel.name.clone(), problem })
            })
            .collect();
        if faults.is_empty() { Ok(Self { by_name, callbacks: callbacks.into_iter().collect() }) } else { Err(faults) }
    }

    /// The channel of this name.
    pub fn get(&self, name: &ChannelName) -> Option<&Channel> {
        self.by_name.get(name)
    }

    /// Whether there is no channel to reviewers.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Whether there is such a channel to reviewers, and it tells of this.
    pub fn hears(&self, to: &Destination, event: NoticeEvent) -> bool {
        match to {
            Destination::Channel(name) => self.get(name).is_some_and(|channel| channel.kind.hears(event)),
            Destination::Callback(_) => false,
        }
    }

    /// Everywhere that messages may go.
    pub fn destinations(&self) -> impl Iterator<Item = Destination> + '_ {
        let channels = self.by_name.keys().cloned().map(Destination::Channel);
        channels.chain(self.callbacks.iter().cloned().map(Destination::Callback))
    }

    /// Whether the stack of this agent is told.
    pub fn calls_back(&self, agent: &AgentId) -> bool {
        self.callbacks.contains(agent)
    }

    /// Everybody who is to be told that `event` happened to `approval` at `now`. For a new approval, what is to be said
    /// later if nobody decides is among it: reminders at half and nine tenths of its time, and escalations.
    pub fn announcements(
        &self,
        event: NoticeEvent,
        approval: &Approval,
        people: &ReviewerDirectory,
        now: Timestamp,
    ) -> Vec<Announcement> {
        let mut told = Vec::new();
        let requirement = &approval.requirement;
        let asked = asked(approval, now);
        let mut tell = |event, groups: Option<&BTreeSet<&str>>, at| {
            for channel in self.by_name.values() {
                told.extend(channel.announcements(event, groups, people, at));
            }
        };
        tell(event, asked.as_ref(), now);
        if event == NoticeEvent::Requested {
            let ttl = approval.expires_at.since(approval.created_at);
            for share in [ttl / 2, ttl / 10 * 9] {
                tell(NoticeEvent::Reminder, asked.as_ref(), approval.created_at.plus(share));
            }
            if asked.is_some() {
                for (group, after) in &requirement.escalation {
                    let at = approval.created_at.plus(*after);
                    if at < approval.expires_at {
                        tell(NoticeEvent::Escalated, Some(&BTreeSet::from([group.as_str()])), at);
                    }
                }
            }
        }
        if self.calls_back(&approval.call.agent) && ChannelKind::Webhook.hears(event) {
            let to = Destination::Callback(approval.call.agent.clone());
            told.push(Announcement { to, recipient: None, event, not_before: now });
        }
        told
    }

    /// Who is told instead of `channel` that `event` happened to `approval`; nobody when its fallback is told anyway.
    pub fn instead_of(
        &self,
        channel: &ChannelName,
        event: NoticeEvent,
        approval: &Approval,
        people: &ReviewerDirectory,
        now: Timestamp,
    ) -> Vec<Announcement> {
        let fallback = self.get(channel).and_then(|channel| self.get(channel.fallback.as_ref()?));
        let Some(fallback) = fallback else { return Vec::new() };
        let asked = asked(approval, now);
        // Whoever was asked at first is not told of an escalation.
        let concerned = if event == NoticeEvent::Escalated {
            Some(approval.requirement.escalated(approval.created_at, now).collect())
        } else {
            asked.clone()
        };
        if !fallback.announcements(event, concerned.as_ref(), people, now).is_empty() {
            return Vec::new();
        }
        // Its own groups are for what it is told of at other times.
        let everything = Channel { groups: BTreeSet::new(), ..fallback.clone() };
        let event = match (fallback.kind, event) {
            (ChannelKind::Webhook, NoticeEvent::Escalated) => NoticeEvent::Requested,
            (_, event) => event,
        };
        everything.announcements(event, asked.as_ref(), people, now)
    }
}

impl Channel {
    /// The people whom this channel, of a kind that writes to people, asks about an approval at `now`.
    pub fn writes_to(&self, approval: &Approval, people: &ReviewerDirectory, now: Timestamp) -> Vec<ReviewerName> {
        recipients(self, asked(approval, now).as_ref(), people, now)
    }

    /// Whom this channel tells that `event` happened to what asks for these groups; for everybody, when none are given.
    fn announcements(
        &self,
        event: NoticeEvent,
        groups: Option<&BTreeSet<&str>>,
        people: &ReviewerDirectory,
        at: Timestamp,
    ) -> Vec<Announcement> {
        let named = groups.is_none_or(|groups| self.groups.iter().any(|group| groups.contains(group.as_str())));
        let event = match (self.kind, event) {
            // A machine of the escalated group is told as of any request; one of no group has been told already.
            (ChannelKind::Webhook, NoticeEvent::Escalated) if named => NoticeEvent::Requested,
            (_, event) => event,
        };
        if !(named || self.groups.is_empty()) || !self.kind.hears(event) {
            return Vec::new();
        }
        let to = Destination::Channel(self.name.clone());
        let announcement = |recipient| Announcement { to: to.clone(), recipient, event, not_before: at };
        if self.kind == ChannelKind::Email {
            recipients(self, groups, people, at).into_iter().map(|name| announcement(Some(name))).collect()
        } else {
            vec![announcement(None)]
        }
    }
}

/// The groups that an approval asks for at `now`; `None` when anybody may decide.
fn asked(approval: &Approval, now: Timestamp) -> Option<BTreeSet<&str>> {
    let requirement = &approval.requirement;
    (!requirement.is_open_to_anyone()).then(|| {
        let escalated = requirement.escalated(approval.created_at, now);
        requirement.groups.keys().map(String::as_str).chain(escalated).collect()
    })
}

/// The people whom a channel writes to: those of the groups asked for, as far as the channel is for them.
fn recipients(
    channel: &Channel,
    groups: Option<&BTreeSet<&str>>,
    people: &ReviewerDirectory,
    at: Timestamp,
) -> Vec<ReviewerName> {
    let concerned = |group: &GroupName| {
        groups.is_none_or(|groups| groups.contains(group.as_str()))
            && (channel.groups.is_empty() || channel.groups.contains(group))
    };
    let is_asked = |groups_of: &BTreeSet<GroupName>| match groups {
        None if channel.groups.is_empty() => true,
        None | Some(_) => groups_of.iter().any(concerned),
    };
    let reachable =
        people.iter().filter(|person| person.email.is_some() || people.reached_at(person, at).email.is_some());
    reachable.filter(|person| is_asked(&person.groups)).map(|person| person.name.clone()).collect()
}
