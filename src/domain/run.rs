//! A run: one execution of one agent, with the family of runs it belongs to. What they have touched and what their
//! humans asked is the family's, so that handing work to a sub-agent loses neither. And where a run stands, so that one
//! worker can write down what it knows, exit, and let another go on.

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    audit::payload::PayloadDigest, call::CallKey, facts::RunFacts, identity::AgentId, ids::RunId, time::Timestamp,
};

/// How many runs may stand above one.
pub const MOST_ANCESTORS: usize = 8;

/// What names a run: two agents' runs of the same id are two runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunKey {
    /// Whose execution it is.
    pub agent: AgentId,
    /// Which one.
    pub run: RunId,
}

impl RunKey {
    /// The run that a call belongs to.
    pub fn of(call: &CallKey) -> Self {
        Self { agent: call.agent.clone(), run: call.run.clone() }
    }
}

/// What is known of a run, whether or not anybody declared it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its name.
    pub key: RunKey,
    /// The runs it was started by, the nearest first; none for the head of a family.
    pub ancestors: Vec<RunKey>,
    /// Whom it works for.
    pub on_behalf_of: Option<String>,
    /// What the family has touched.
    pub labels: BTreeSet<String>,
    /// What the human asked when it was declared; among the family's `requests`.
    pub request: Option<PayloadDigest>,
    /// What the family's humans asked, the oldest first; the texts are payloads.
    pub requests: Vec<PayloadDigest>,
    /// How long all those texts are together, in bytes.
    pub requested_bytes: usize,
    /// How it ended, if it has.
    pub ended: Option<Ending>,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// When.
    pub at: Timestamp,
    /// Who ended it: the name of a key or of a reviewer.
    pub by: String,
    /// A reviewer stopped it, rather than its orchestrator having come to the end.
    pub stopped: bool,
}

impl Run {
    /// A run that nothing is known of yet.
    pub fn new(key: RunKey) -> Self {
        Self {
            key,
            ancestors: Vec::new(),
            on_behalf_of: None,
            labels: BTreeSet::new(),
            request: None,
            requests: Vec::new(),
            requested_bytes: 0,
            ended: None,
        }
    }

    /// The head of its family, where labels and requests are kept.
    pub fn head(&self) -> &RunKey {
        self.ancestors.last().unwrap_or(&self.key)
    }

    /// The agents above, the nearest first.
    pub fn agents_above(&self) -> impl Iterator<Item = &AgentId> {
        self.ancestors.iter().map(|ancestor| &ancestor.agent)
    }

    /// Puts a run that is the head of its family under `parent`: what either family touched and was asked is both
    /// their matter from then on. Whom the parent works for it works for as well, unless it says otherwise itself.
    ///
    /// # Errors
    /// When it is below another already or has runs below itself, when the parent has ended or is too far down.
    pub fn put_under(&mut self, parent: &Self, has_runs_below: bool) -> Result<(), FamilyFault> {
        if !self.ancestors.is_empty() {
            return Err(FamilyFault::HasParent);
        }
        if has_runs_below {
            return Err(FamilyFault::HasRunsBelow);
        }
        if parent.key == self.key || parent.ancestors.contains(&self.key) {
            return Err(FamilyFault::Circle);
        }
        if parent.ended.is_some() {
            return Err(FamilyFault::ParentEnded);
        }
        if parent.ancestors.len() >= MOST_ANCESTORS {
            return Err(FamilyFault::TooDeep);
        }
        self.ancestors = std::iter::once(&parent.key).chain(&parent.ancestors).cloned().collect();
        if self.on_behalf_of.is_none() {
            self.on_behalf_of.clone_from(&parent.on_behalf_of);
        }
        self.labels.extend(parent.labels.iter().cloned());
        self.requests.splice(..0, parent.requests.iter().copied());
        self.requested_bytes += parent.requested_bytes;
        Ok(())
    }

    /// What decisions are made on; what the humans asked is to be gathered besides.
    pub fn facts(&self) -> RunFacts {
        RunFacts {
            ended: self.ended.is_some(),
            agents_above: self.agents_above().cloned().collect(),
            request: None,
            value: json!({ "id": self.key.run, "labels": self.labels, "on_behalf_of": self.on_behalf_of }),
        }
    }
}

/// Why a run cannot be put under another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FamilyFault {
    /// Whose it is was said before.
    #[error("its parent_run_id was written before, and is another")]
    HasParent,
    /// It is the head of a family.
    #[error("it has runs below itself already")]
    HasRunsBelow,
    /// It would be above itself.
    #[error("a run cannot be below itself")]
    Circle,
    /// The other one has ended.
    #[error("the run above has ended")]
    ParentEnded,
    /// The other one is as far down as a run may be.
    #[error("the run above has {MOST_ANCESTORS} runs above itself, which is the most")]
    TooDeep,
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Somebody works on it, or may.
    Running,
    /// A held call of its newest turn is not decided.
    AwaitingApproval,
    /// Every held call of its newest turn is decided, and no worker has taken it up.
    Ready,
    /// It has ended or was stopped.
    Ended,
}

impl RunStatus {
    /// Every status.
    pub const ALL: [Self; 4] = [Self::Running, Self::AwaitingApproval, Self::Ready, Self::Ended];

    /// The word for it in answers and filters.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::AwaitingApproval => "awaiting_approval",
            Self::Ready => "ready",
            Self::Ended => "ended",
        }
    }

    /// Reads that word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// That a worker took a ready run up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLease {
    /// The turn that was ready; a later one is another matter.
    pub turn: u32,
    /// What had been held in it by then; when more is, that is another matter too.
    pub mark: u32,
    /// Until when no other worker gets it; `None` for good, because the worker has parked what came next.
    pub until: Option<Timestamp>,
}

/// The newest turn in which a call was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewestTurn {
    /// Its number.
    pub turn: u32,
    /// How many of its calls are or were held.
    pub held: u32,
    /// How often that happened, which only grows: a call can be held again, and join what is held.
    pub mark: u32,
    /// How many of those still wait for people.
    pub waiting: u32,
}

/// What says that state of a run is parked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedTag {
    /// The media type, as the stack said it.
    pub content_type: String,
    /// Names exactly these bytes, without quotation marks.
    pub etag: String,
}

/// A run with everything that tells where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownRun {
    /// The run.
    pub run: Run,
    /// Its newest turn; `None` while no call was decided.
    pub newest: Option<NewestTurn>,
    /// The lease that was given last.
    pub lease: Option<RunLease>,
    /// What is parked.
    pub parked: Option<ParkedTag>,
}

impl KnownRun {
    /// Where it stands.
    pub fn status(&self, now: Timestamp) -> RunStatus {
        match self.newest {
            _ if self.run.ended.is_some() => RunStatus::Ended,
            Some(newest) if newest.waiting > 0 => RunStatus::AwaitingApproval,
            Some(newest) if newest.held > 0 && !self.is_taken(now) => RunStatus::Ready,
            Some(_) | None => RunStatus::Running,
        }
    }

    /// The lease that was given for what is its newest turn now, whether or not it has run out.
    pub fn current_lease(&self) -> Option<RunLease> {
        let newest = self.newest?;
        self.lease.filter(|lease| (lease.turn, lease.mark) == (newest.turn, newest.mark))
    }

    /// Whether a worker has its newest turn.
    fn is_taken(&self, now: Timestamp) -> bool {
        self.current_lease().is_some_and(|lease| lease.until.is_none_or(|until| until > now))
    }
}
