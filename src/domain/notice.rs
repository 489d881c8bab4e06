//! What the outbox holds: one message to one destination, thin enough to be kept as long as it takes. It names what
//! happened and carries no argument, so that erasing a payload leaves nothing behind in a queue.

use std::{fmt, str::FromStr, time::Duration};

use serde_json::{Value, json};

use super::{
    approval::state::{Approval, State},
    channel::Destination,
    identity::ReviewerName,
    ids::{ApprovalId, NoticeId},
    run::RunKey,
    time::Timestamp,
};

/// What a message tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoticeEvent {
    /// A call waits for a decision.
    Requested,
    /// It waits still.
    Reminder,
    /// It waits still, and others may decide now.
    Escalated,
    /// Somebody approved, and more is needed.
    Voted,
    /// It may be claimed.
    Approved,
    /// It never runs.
    Denied,
    /// Nobody decided or claimed in time.
    Expired,
    /// It was withdrawn.
    Cancelled,
    /// It was claimed.
    Executed,
    /// What came of it is known, or known to be unknown.
    Outcome,
    /// Every held call of the run's newest turn is decided.
    RunReady,
}

impl NoticeEvent {
    /// Every event.
    pub const ALL: [Self; 11] = [
        Self::Requested,
        Self::Reminder,
        Self::Escalated,
        Self::Voted,
        Self::Approved,
        Self::Denied,
        Self::Expired,
        Self::Cancelled,
        Self::Executed,
        Self::Outcome,
        Self::RunReady,
    ];

    /// The name that webhooks send.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "approval.requested",
            Self::Reminder => "approval.reminder",
            Self::Escalated => "approval.escalated",
            Self::Voted => "approval.voted",
            Self::Approved => "approval.approved",
            Self::Denied => "approval.denied",
            Self::Expired => "approval.expired",
            Self::Cancelled => "approval.cancelled",
            Self::Executed => "approval.executed",
            Self::Outcome => "approval.outcome",
            Self::RunReady => "run.ready",
        }
    }

    /// Whether it asks people to decide, and so is moot once somebody has.
    pub const fn asks(self) -> bool {
        match self {
            Self::Requested | Self::Reminder | Self::Escalated => true,
            Self::Voted
            | Self::Approved
            | Self::Denied
            | Self::Expired
            | Self::Cancelled
            | Self::Executed
            | Self::Outcome
            | Self::RunReady => false,
        }
    }
}

impl fmt::Display for NoticeEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Text that names no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such event")]
pub struct UnknownEvent;

impl FromStr for NoticeEvent {
    type Err = UnknownEvent;

    fn from_str(text: &str) -> Result<Self, UnknownEvent> {
        Self::ALL.into_iter().find(|event| event.as_str() == text).ok_or(UnknownEvent)
    }
}

/// What a message is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topic {
    /// An approval.
    Approval(ApprovalId),
    /// A run.
    Run(RunKey),
}

/// One message to one destination.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// The same at every attempt, so that whoever gets it twice can tell.
    pub id: NoticeId,
    /// Where to.
    pub to: Destination,
    /// To whom, where the channel writes to people.
    pub recipient: Option<ReviewerName>,
    /// What it tells.
    pub event: NoticeEvent,
    /// About what.
    pub topic: Topic,
    /// What a machine is told.
    pub data: Value,
    /// When it happens: for a reminder or an escalation, when it is time for it.
    pub at: Timestamp,
    /// Not to be sent before this.
    pub not_before: Timestamp,
    /// The message that could not be delivered and that this one stands in for.
    pub instead_of: Option<NoticeId>,
}

/// How one attempt went wrong.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FailedAttempt {
    /// When it ended.
    pub at: Timestamp,
    /// How long it took, in milliseconds.
    pub millis: u64,
    /// What was wrong; never an address or a body.
    pub fault: String,
}

/// A message that waits, or was given up.
#[derive(Clone, Debug, PartialEq)]
pub struct QueuedNotice {
    /// The message.
    pub notice: Notice,
    /// Whether the channel that is to be told instead was told, or there is none.
    pub passed_on: bool,
    /// How many attempts there were.
    pub attempts: u32,
    /// The last of those that failed.
    pub failed: Vec<FailedAttempt>,
    /// When it was given up.
    pub dead_since: Option<Timestamp>,
}

/// After how many failed attempts the next channel is told as well, though others arrive: by then some fifty seconds
/// have gone by, and a reviewer who could have decided knows nothing yet.
pub const FALLBACK_AFTER: u32 = 5;

/// After how many failed attempts nobody tries again: close to five hours.
pub const MOST_ATTEMPTS: u32 = 13;

/// How many failed attempts are kept with a message.
pub const KEPT_ATTEMPTS: usize = 20;

/// How long after the `attempts`-th failed attempt the next one comes, before jitter.
pub fn back_off(attempts: u32) -> Duration {
    const SECONDS: [u64; 9] = [1, 2, 5, 10, 30, 120, 600, 1_800, 3_600];
    let step = usize::try_from(attempts.saturating_sub(1)).unwrap_or(usize::MAX).min(SECONDS.len() - 1);
    Duration::from_secs(SECONDS.get(step).copied().unwrap_or(3_600))
}

/// The page of an approval.
pub fn approval_url(public_url: &str, id: ApprovalId) -> String {
    format!("{public_url}/review/approvals/{id}")
}

/// What a machine is told of an approval: where to look, and where it stands. No argument, and no
/// sentence that anybody typed: those can be erased, and stand where the address leads.
pub fn about_approval(approval: &Approval, public_url: &str) -> Value {
    let mut data = json!({
        "approval_id": approval.id,
        "code": approval.code,
        "agent": approval.call.agent,
        "run_id": approval.call.run,
        "turn": approval.call.turn,
        "tool_use_id": approval.call.tool_use_id,
        "tool": approval.tool,
        "args_hash": approval.args_hash,
        "attempt": approval.attempt,
        "state": approval.state.name().as_str(),
        "expires_at": approval.expires_at,
        "url": approval_url(public_url, approval.id),
    });
    if let (Some(data), State::Executed(execution)) = (data.as_object_mut(), &approval.state) {
        data.insert("outcome".to_owned(), execution.outcome.word().into());
    }
    data
}
