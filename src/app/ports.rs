//! What the use cases need from the outside: a store, a clock, randomness, a signature. Nothing here knows an engine.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::broadcast;

use crate::domain::{
    approval::{
        confirmation::Confirmation,
        state::{Approval, StateName},
    },
    audit::{
        chain::{Hash, Head, SealedEntry},
        entry::{Entry, EventKind},
        merkle::Frontier,
        payload::{Payload, PayloadDigest},
    },
    call::CallKey,
    canon::{
        json::ArgsHash,
        path::{PathFinding, PathQuestion},
    },
    channel::Destination,
    facts::StandingDenial,
    grant::{Grant, GrantRecord, Revocation},
    identity::{AgentId, KeyRecord, ReviewerName},
    ids::{ApprovalId, BatchId, DecisionId, GrantId, KeyId, NoticeId, RunId, SessionId, ToolUseId},
    limit::{Measure, Tally},
    lookup::{LookupRequest, LookupResults},
    notice::{Notice, NoticeEvent, QueuedNotice},
    policy::PolicyVersion,
    review::Review,
    run::{KnownRun, ParkedTag, Run, RunKey, RunLease},
    session::{Link, SessionRecord, SignInAttempt},
    subject::Subject,
    time::Timestamp,
    verdict::Verdict,
};

pub mod sign_in;

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// Gives random bytes fit for secrets.
pub trait Entropy: Send + Sync {
    /// Fills `bytes`.
    ///
    /// # Errors
    /// When the operating system gives none; nothing may be decided then.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError>;
}

/// Finds out where paths lead on disk.
#[async_trait]
pub trait PathResolver: Send + Sync {
    /// An answer to each question, by the same name. A question without an answer stays open, and denies.
    async fn find(&self, questions: BTreeMap<String, PathQuestion>) -> BTreeMap<String, PathFinding>;
}

/// Looks at the world outside, where the policy says.
#[async_trait]
pub trait LookupClient: Send + Sync {
    /// Makes all requests at once. Each has its own time-out, and a result, if only a failure.
    async fn look_up(&self, requests: Vec<LookupRequest>) -> LookupResults;
}

/// The operating system gave no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no random bytes to be had")]
pub struct EntropyError;

/// What a permit permits: one call of one tool with exactly these arguments (design section 8).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Permit {
    /// The tool server it is for: the tool's `audience`, by default its name.
    pub aud: String,
    /// The agent that may call.
    pub sub: AgentId,
    /// New with each permit; tool servers take each but once.
    pub jti: String,
    /// What permitted it, and the idempotency key of the call.
    pub key: PermitKey,
    /// The tool.
    pub tool: String,
    /// The hash of the arguments that may run.
    pub args_hash: ArgsHash,
    /// The run the call belongs to.
    pub run_id: RunId,
    /// The call within the run.
    pub tool_use_id: ToolUseId,
    /// The policy that decided.
    pub policy_version: PolicyVersion,
    /// What the executor must keep to.
    pub obligations: Map<String, Value>,
}

/// The decision or approval that permitted a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PermitKey {
    /// Policy permitted it.
    Decision(DecisionId),
    /// People did.
    Approval(ApprovalId),
}

/// As the id is shown.
impl fmt::Display for PermitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decision(id) => id.fmt(f),
            Self::Approval(id) => id.fmt(f),
        }
    }
}

/// Signs permits.
pub trait PermitSigner: Send + Sync {
    /// The permit as a compact JWT, good from `from` on.
    ///
    /// # Errors
    /// When the key cannot sign; the use case then permits nothing.
    fn sign(&self, permit: &Permit, from: Timestamp) -> Result<String, SigningError>;

    /// The public keys as a JWK set (RFC 7517), previous ones included.
    fn jwks(&self) -> Value;
}

/// Signs checkpoints, with a key that is never in the store.
pub trait CheckpointSigner: Send + Sync {
    /// The signature in base64, and the id of the public key.
    ///
    /// # Errors
    /// When the key cannot sign.
    fn sign(&self, text: &[u8]) -> Result<(String, String), SigningError>;
}

/// Nothing could be signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no signature could be made: {0}")]
pub struct SigningError(pub String);

/// Why the store did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached, or does not answer in time. Nothing was committed.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The connection was lost while committing: committed or not, nobody knows. Asking again finds out.
    #[error("the commit has an unknown fate: {0}")]
    CommitUnknown(String),
    /// Another transaction was in the way (deadlock, busy, connection lost before the commit): try again.
    #[error("another transaction was in the way: {0}")]
    Contended(String),
    /// What is stored is not what this version writes.
    #[error("the store holds what this version cannot read: {0}")]
    Unreadable(String),
}

/// Something that changed in the store, by this instance or another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// An approval went to another state.
    Approval(ApprovalId),
    /// Keys were created or revoked.
    Keys,
    /// Another policy was accepted.
    Policy,
    /// Messages wait to be sent.
    Outbox,
    /// Messages may have been lost: whoever waits must look for himself.
    Unknown,
}

/// What the statement that commits a group of decisions checks for each of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The call must never have been held, its agent not be paused, and its run neither have ended nor have another
    /// above it.
    pub call: CallKey,
    /// No denial of the same call may stand: this tool ...
    pub tool: String,
    /// ... with these arguments, in this run.
    pub args_hash: ArgsHash,
}

/// A call as it is counted: the same one, with the same arguments, never twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedCall<'a> {
    /// The call.
    pub key: &'a CallKey,
    /// Its arguments.
    pub args_hash: ArgsHash,
}

/// How a group of decisions went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupAppend {
    /// All are committed.
    Written,
    /// Another writer moved the head first; nothing was written.
    HeadMoved,
    /// Those at these indices did not pass their [`Guard`]; nothing was written.
    Guarded(Vec<usize>),
}

/// Whether an agent may act at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentStanding {
    /// It may use no tool until it is resumed.
    pub paused: bool,
}

/// What a stack wrote down of a run that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parked {
    /// What it is.
    pub tag: ParkedTag,
    /// Its bytes.
    pub body: Vec<u8>,
}

/// Which runs of an agent to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Only those that have ended, or only those that have not.
    pub ended: Option<bool>,
    /// Only those with a call that is or was held.
    pub held: bool,
}

/// The memory of an answer, for the same request sent again (design section 6.1).
#[derive(Clone, Debug, PartialEq)]
pub struct IdempotencyRecord {
    /// Who sent it.
    pub caller: String,
    /// Where to.
    pub route: String,
    /// The client's key.
    pub key: String,
    /// SHA-256 of the request's canonical body.
    pub body_hash: Hash,
    /// The decision that was made.
    pub decision: DecisionId,
    /// The answer of a call that was not held; for a held one the approval tells.
    pub answer: Value,
    /// When.
    pub created_at: Timestamp,
}

/// An outcome reported for a call that was never held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionOutcome {
    /// The decision that allowed it.
    pub decision: DecisionId,
    /// `succeeded`, `failed` or `not_started`.
    pub status: String,
    /// `detail` and `result`, when there were any.
    pub payload: Option<PayloadDigest>,
    /// When.
    pub at: Timestamp,
}

/// A policy version as it was accepted: every file, so that any decision can be explained later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPolicy {
    /// Its version.
    pub version: PolicyVersion,
    /// Relative paths and texts.
    pub files: Vec<(String, String)>,
    /// When it was first accepted.
    pub accepted_at: Timestamp,
}

/// A signed statement of the log's size and root (design section 11.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// How many entries it covers.
    pub size: i64,
    /// The Merkle root over their leaves.
    pub root: Hash,
    /// When.
    pub at: Timestamp,
    /// Signature, base64; `None` when no checkpoint key is configured.
    pub signature: Option<String>,
    /// The public key's id; `None` without a signature.
    pub key_id: Option<String>,
    /// What growing the tree from here needs.
    pub frontier: Frontier,
}

/// Which approvals to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApprovalFilter {
    /// In this state, as stored.
    pub state: Option<StateName>,
    /// Of this agent.
    pub agent: Option<AgentId>,
    /// Of this run.
    pub run: Option<RunId>,
    /// Asked about in this batch.
    pub batch: Option<BatchId>,
    /// Executed, with an outcome nobody knows and nobody settled.
    pub unsettled: bool,
    /// Only those that this reviewer may see; `None`: all.
    pub visible_to: Option<Onlooker>,
}

/// Somebody who looks for approvals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Onlooker {
    /// Their groups: they see what asks for one of them, escalated ones from the escalation on, and what is open to anyone.
    pub groups: BTreeSet<String>,
    /// The agents they own, whose approvals they all see.
    pub agents: BTreeSet<String>,
    /// When they look.
    pub now: Timestamp,
}

/// Which grants to list; every given field must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantFilter {
    /// For this agent.
    pub agent: Option<AgentId>,
    /// For this run.
    pub run: Option<RunId>,
    /// For this tool.
    pub tool: Option<String>,
    /// Only those that let calls through at this moment, as far as the policy lets them.
    pub live_at: Option<Timestamp>,
    /// Only those that this reviewer made, or that stand for a group he is in, or for any reviewer; `None`: all.
    pub visible_to: Option<GrantViewer>,
}

/// Who looks at grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantViewer {
    /// The reviewer.
    pub name: ReviewerName,
    /// The groups the reviewer is in.
    pub groups: BTreeSet<String>,
}

/// A settled call, as one of those on the same business key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectCall {
    /// The call.
    pub call: CallKey,
    /// The tool by its own name.
    pub tool: String,
    /// The decision.
    pub decision: DecisionId,
    /// What it said.
    pub verdict: Verdict,
    /// The approval that holds or held it.
    pub approval: Option<ApprovalId>,
    /// When it was decided.
    pub at: Timestamp,
}

/// Which entries to list; every given field must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryFilter {
    /// The run.
    pub run: Option<String>,
    /// The tool.
    pub tool: Option<String>,
    /// The agent.
    pub agent: Option<String>,
    /// Who did it.
    pub actor: Option<String>,
    /// What was decided.
    pub verdict: Option<Verdict>,
    /// The deciding rule.
    pub rule: Option<String>,
    /// What happened.
    pub event: Option<EventKind>,
    /// The approval's code.
    pub code: Option<String>,
    /// The request.
    pub request_id: Option<String>,
    /// The decision.
    pub decision: Option<DecisionId>,
    /// The approval.
    pub approval: Option<ApprovalId>,
    /// About a call on this business key.
    pub subject: Option<Subject>,
    /// Not before this.
    pub from: Option<Timestamp>,
    /// Before this.
    pub until: Option<Timestamp>,
}

/// Where a destination stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DestinationStanding {
    /// Nothing is sent before this.
    pub not_before: Timestamp,
    /// When something was last sent there, in vain or not.
    pub tried_at: Option<Timestamp>,
    /// Since when nothing has arrived, while something was tried at least once a day.
    pub failing_since: Option<Timestamp>,
    /// Since when nothing is tried any more, and why.
    pub disabled: Option<(Timestamp, String)>,
}

/// How a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeEnding {
    /// It arrived.
    Delivered,
    /// Nobody had to know any more.
    Moot,
}

impl NoticeEnding {
    /// The word the store has for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Moot => "moot",
        }
    }
}

/// How many messages of one destination are not delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxCount {
    /// The destination.
    pub to: Destination,
    /// They are due, or were tried and are to be tried again.
    pub waiting: u64,
    /// They are not to be sent yet: reminders, and what quiet hours hold back.
    pub later: u64,
    /// They were given up.
    pub dead: u64,
}

/// What a channel is given to deliver.
#[derive(Clone, Debug, PartialEq)]
pub enum Dispatch {
    /// For a machine.
    Event {
        /// The same at every attempt.
        id: NoticeId,
        /// What happened.
        event: NoticeEvent,
        /// When.
        at: Timestamp,
        /// Thin: where to look.
        data: Value,
    },
    /// For people: one approval, as it stands now.
    Card {
        /// The same at every attempt.
        id: NoticeId,
        /// Why they are told.
        event: NoticeEvent,
        /// To whom, where the channel writes to people.
        recipient: Option<Recipient>,
        /// What they are shown.
        card: Box<Card>,
        /// Where an earlier message about it stands, to be changed instead of posting another.
        posted: Option<String>,
    },
    /// For people: many at once.
    Digest {
        /// The same at every attempt.
        id: NoticeId,
        /// Why they are told.
        event: NoticeEvent,
        /// To whom, where the channel writes to people.
        recipient: Option<Recipient>,
        /// What they are shown of each, the oldest first.
        cards: Vec<Card>,
        /// Where all of them can be decided.
        inbox: String,
        /// Where an earlier message about the same stands, to be changed.
        posted: Option<String>,
    },
}

/// A person who is written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipient {
    /// The reviewer.
    pub name: ReviewerName,
    /// The address.
    pub email: String,
}

/// An approval as a channel shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Card {
    /// As it stands now.
    pub approval: Approval,
    /// What was rendered when it was held; `None` when it was erased.
    pub review: Option<Review>,
    /// What the model said of it: unverified.
    pub rationale: Option<String>,
    /// The page where it can be decided: for a person who is asked, a link that opens it to nobody else.
    pub url: String,
    /// When this was put together.
    pub now: Timestamp,
}

/// What came of an attempt to deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It arrived; where it stands, when it can be changed there.
    Done {
        /// The channel's own name for the message.
        place: Option<String>,
    },
    /// It may arrive later.
    Later {
        /// Not before this much time, when the other side said so.
        after: Option<Duration>,
        /// What was wrong; never an address or a body.
        fault: String,
    },
    /// It never will like this.
    Refused {
        /// What was wrong.
        fault: String,
    },
    /// Nothing ever will: the destination is gone.
    Gone {
        /// What was wrong.
        fault: String,
    },
}

/// A way to reviewers, or to a stack.
#[async_trait]
pub trait Courier: Send + Sync {
    /// Makes one attempt, within ten seconds.
    async fn deliver(&self, dispatch: &Dispatch) -> Delivery;
}

/// The durable memory. Reads here see committed state and never wait for writers.
#[async_trait]
pub trait Store: Send + Sync {
    /// Begins a transaction.
    async fn begin(&self) -> Result<Box<dyn Tx>, StoreError>;

    /// Commits a group of decisions as one statement: moves the head from `before` and inserts entries and payloads,
    /// unless another writer moved it or a guard finds something.
    async fn append_decisions(
        &self,
        before: Head,
        entries: &[SealedEntry],
        payloads: &[&Payload],
        guards: &[&Guard],
    ) -> Result<GroupAppend, StoreError>;

    /// The end of the log.
    async fn head(&self) -> Result<Head, StoreError>;

    /// Entries with `seq` greater than `after`, in order.
    async fn entries_after(&self, after: i64, limit: u32) -> Result<Vec<SealedEntry>, StoreError>;

    /// Entries that match, newest first, with `seq` less than `before` when given.
    async fn entries(
        &self,
        filter: &EntryFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<SealedEntry>, StoreError>;

    /// An approval as stored.
    async fn approval(&self, id: ApprovalId) -> Result<Option<Approval>, StoreError>;

    /// Approvals that match, newest first, with an id less than `before` when given.
    async fn approvals(
        &self,
        filter: &ApprovalFilter,
        before: Option<ApprovalId>,
        limit: u32,
    ) -> Result<Vec<Approval>, StoreError>;

    /// Approvals of the same agent, tool and arguments that are stored as pending or approved and do not expire by `now`,
    /// the newest first.
    async fn open_twins(
        &self,
        agent: &AgentId,
        tool: &str,
        args_hash: ArgsHash,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<Approval>, StoreError>;

    /// The newest approval of the same agent and tool that is stored as approved, denied or executed, among the latest
    /// [`LATEST_LOOKED_AT`] approvals that were made before this one.
    async fn last_decided(
        &self,
        agent: &AgentId,
        tool: &str,
        before: ApprovalId,
    ) -> Result<Option<Approval>, StoreError>;

    /// The calls that were settled on one of these business keys, the newest first, each once.
    async fn calls_on(&self, subjects: &[Subject], limit: u32) -> Result<Vec<SubjectCall>, StoreError>;

    /// Approvals that time has changed by `now` and nobody has recorded.
    async fn due_approvals(&self, now: Timestamp, limit: u32) -> Result<Vec<ApprovalId>, StoreError>;

    /// Grants that match, newest first, with an id less than `before` when given.
    async fn grants(
        &self,
        filter: &GrantFilter,
        before: Option<GrantId>,
        limit: u32,
    ) -> Result<Vec<GrantRecord>, StoreError>;

    /// A run that was declared, held a call or has touched something, as it stands.
    async fn run(&self, run: &RunKey, now: Timestamp) -> Result<Option<KnownRun>, StoreError>;

    /// Such runs of an agent, by their ids, those behind `after` when given.
    async fn runs(
        &self,
        agent: &AgentId,
        filter: RunFilter,
        after: Option<&RunId>,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<KnownRun>, StoreError>;

    /// What is parked for a run.
    async fn parked(&self, run: &RunKey) -> Result<Option<Parked>, StoreError>;

    /// The decisions about the calls of one turn, newest first.
    async fn decisions_of_turn(&self, run: &RunKey, turn: u32, limit: u32) -> Result<Vec<SealedEntry>, StoreError>;

    /// The outcomes that were reported for these decisions, of those whose calls were never held.
    async fn decision_outcomes(&self, decisions: &[DecisionId]) -> Result<Vec<DecisionOutcome>, StoreError>;

    /// A payload; `None` when it was erased or never kept.
    async fn payload(&self, digest: PayloadDigest) -> Result<Option<Payload>, StoreError>;

    /// Every key, revoked ones included.
    async fn keys(&self) -> Result<Vec<KeyRecord>, StoreError>;

    /// The session whose cookie has this hash, whatever has become of it.
    async fn session(&self, hash: &[u8; 32]) -> Result<Option<SessionRecord>, StoreError>;

    /// The sessions of a reviewer that are neither revoked nor over at `now`, the newest first.
    async fn sessions_of(&self, reviewer: &ReviewerName, now: Timestamp) -> Result<Vec<SessionRecord>, StoreError>;

    /// A policy that was accepted before.
    async fn policy(&self, version: &PolicyVersion) -> Result<Option<StoredPolicy>, StoreError>;

    /// The newest checkpoints first.
    async fn checkpoints(&self, limit: u32) -> Result<Vec<Checkpoint>, StoreError>;

    /// The destinations at which messages are due at `now`.
    async fn due_destinations(&self, now: Timestamp) -> Result<Vec<Destination>, StoreError>;

    /// The messages that are due at a destination: those that ask for a decision first, then those that were tried less
    /// often, then the oldest.
    async fn waiting_notices(
        &self,
        to: &Destination,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<QueuedNotice>, StoreError>;

    /// The messages that ask for a decision, are due, and wait since `since` or longer at destinations that have failed
    /// since `failing` or longer, and that were not passed on, the oldest first.
    async fn notices_to_pass_on(
        &self,
        failing: Timestamp,
        since: Timestamp,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<QueuedNotice>, StoreError>;

    /// The messages that were given up, newest first, with an id less than `before` when given.
    async fn dead_notices(&self, before: Option<NoticeId>, limit: u32) -> Result<Vec<QueuedNotice>, StoreError>;

    /// Every destination that was ever served, by name.
    async fn destinations(&self) -> Result<Vec<(Destination, DestinationStanding)>, StoreError>;

    /// How many messages are not delivered at `now`, by destination.
    async fn outbox_counts(&self, now: Timestamp) -> Result<Vec<OutboxCount>, StoreError>;

    /// Where an approval was posted at a destination.
    async fn posting(&self, approval: ApprovalId, to: &Destination) -> Result<Option<String>, StoreError>;

    /// The approvals that one message at a destination shows, the oldest first.
    async fn posted_at(&self, to: &Destination, place: &str) -> Result<Vec<ApprovalId>, StoreError>;

    /// What was last delivered about a run at a destination.
    async fn told_of_run(&self, to: &Destination, run: &RunKey) -> Result<Option<Value>, StoreError>;

    /// Whether the store answers and its schema is this version's.
    async fn ready(&self) -> Result<(), StoreError>;

    /// What changes from now on.
    fn changes(&self) -> broadcast::Receiver<Change>;
}

/// One transaction. Dropped without a commit it leaves nothing.
///
/// Locks are taken in the order of the methods here: agent, run, grants, limits, approval, and the head of the log last, by
/// [`Tx::commit`].
#[async_trait]
pub trait Tx: Send {
    /// Locks what is counted per agent.
    async fn lock_agent(&mut self, agent: &AgentId) -> Result<AgentStanding, StoreError>;

    /// Locks a run, which need not have begun, and before it the head of its family.
    async fn lock_run(&mut self, run: &RunKey) -> Result<Run, StoreError>;

    /// Whether one of these agents is paused.
    async fn any_paused(&mut self, agents: &[&AgentId]) -> Result<bool, StoreError>;

    /// Stores what the family has touched, at its locked head.
    async fn set_labels(&mut self, head: &RunKey, labels: &BTreeSet<String>) -> Result<(), StoreError>;

    /// A locked run with everything that tells where it stands.
    async fn known_run(&mut self, run: &RunKey, now: Timestamp) -> Result<KnownRun, StoreError>;

    /// Stores what is known of a locked run itself: all but what is its family's. Something must be appended in the same
    /// transaction when it ends or comes under another, for the guards of [`Store::append_decisions`].
    async fn update_run(&mut self, run: &Run) -> Result<(), StoreError>;

    /// Stores what the family's humans asked, at its locked head.
    async fn set_requests(&mut self, run: &Run) -> Result<(), StoreError>;

    /// Every known run with this id of one of these agents.
    async fn runs_named(&mut self, run: &RunId, agents: &[&AgentId]) -> Result<Vec<RunKey>, StoreError>;

    /// Every run of a family but its head, which is locked, and so are they.
    async fn below_head(&mut self, head: &RunKey) -> Result<Vec<Run>, StoreError>;

    /// Keeps that a worker took a locked run up.
    async fn set_run_lease(&mut self, run: &RunKey, lease: RunLease) -> Result<(), StoreError>;

    /// Keeps a stack's bytes for a locked run, in place of those before.
    async fn park(&mut self, run: &RunKey, parked: &Parked) -> Result<(), StoreError>;

    /// Pauses a locked agent, or lets it go on. Something must be appended in the same transaction.
    async fn set_pause(&mut self, agent: &AgentId, pause: Option<(Timestamp, &str)>) -> Result<(), StoreError>;

    /// The approvals of these runs that are stored as pending or approved, locked in the order of their ids.
    async fn open_of_runs(&mut self, runs: &[RunKey]) -> Result<Vec<Approval>, StoreError>;

    /// The same of all runs of an agent, and of those below any of them.
    async fn open_under_agent(&mut self, agent: &AgentId) -> Result<Vec<Approval>, StoreError>;

    /// The grants for this run and tool that are not revoked and not expired at `now`, locked, the oldest first. Of the
    /// uses of each, this very call is left out.
    async fn lock_grants(
        &mut self,
        call: &CountedCall<'_>,
        tool: &str,
        now: Timestamp,
    ) -> Result<Vec<GrantRecord>, StoreError>;

    /// A grant, locked.
    async fn grant(&mut self, id: GrantId) -> Result<Option<GrantRecord>, StoreError>;

    /// Locks what is counted where these measures count, in the order of the limits' ids, and tells what it comes to:
    /// by the limit's id, this very call left out.
    async fn lock_limits(
        &mut self,
        call: &CountedCall<'_>,
        measures: &[Measure],
    ) -> Result<BTreeMap<String, Tally>, StoreError>;

    /// The approval that holds this call, locked.
    async fn held(&mut self, call: &CallKey) -> Result<Option<Approval>, StoreError>;

    /// An approval, locked.
    async fn approval(&mut self, id: ApprovalId) -> Result<Option<Approval>, StoreError>;

    /// The newest approval of the same run, tool and arguments that is stored as pending or approved, locked.
    async fn open_alike(
        &mut self,
        agent: &AgentId,
        run: &RunId,
        tool: &str,
        args_hash: ArgsHash,
    ) -> Result<Option<Approval>, StoreError>;

    /// The newest denial by a reviewer of the same call that is not lifted.
    async fn standing_denial(
        &mut self,
        agent: &AgentId,
        run: &RunId,
        tool: &str,
        args_hash: ArgsHash,
    ) -> Result<Option<StandingDenial>, StoreError>;

    /// Approvals that are pending and not expired at `now`: of this run, and of this agent.
    async fn open_counts(&mut self, agent: &AgentId, run: &RunId, now: Timestamp) -> Result<(u32, u32), StoreError>;

    /// Approvals of this tool in this run that reviewers denied.
    async fn refused_count(&mut self, agent: &AgentId, run: &RunId, tool: &str) -> Result<u32, StoreError>;

    /// Stores a new approval; `false` when its code is taken.
    async fn insert_approval(&mut self, approval: &Approval) -> Result<bool, StoreError>;

    /// Stores the new state of a locked approval.
    async fn update_approval(&mut self, approval: &Approval) -> Result<(), StoreError>;

    /// The confirmation that this reviewer was last given for a locked approval.
    async fn confirmation(
        &mut self,
        approval: ApprovalId,
        reviewer: &ReviewerName,
    ) -> Result<Option<Confirmation>, StoreError>;

    /// Stores a confirmation of a locked approval in place of the reviewer's last one.
    async fn put_confirmation(&mut self, confirmation: &Confirmation) -> Result<(), StoreError>;

    /// Lets `call` be held by `approval` from now on. Something must be appended in the same transaction, here and when
    /// a denial is stored: the guards of [`Store::append_decisions`] count on a moved head.
    async fn attach_call(&mut self, call: &CallKey, approval: ApprovalId) -> Result<(), StoreError>;

    /// Every call that this approval holds, and no newer one.
    async fn attached_calls(&mut self, approval: ApprovalId) -> Result<Vec<CallKey>, StoreError>;

    /// Counts a call as a use of a locked grant; one that is counted already is not counted again.
    async fn use_grant(
        &mut self,
        grant: GrantId,
        call: &CountedCall<'_>,
        decision: DecisionId,
        now: Timestamp,
    ) -> Result<(), StoreError>;

    /// Stores a new grant; its payload is there already.
    async fn insert_grant(&mut self, grant: &Grant) -> Result<(), StoreError>;

    /// Takes a locked grant back.
    async fn revoke_grant(&mut self, id: GrantId, revocation: &Revocation) -> Result<(), StoreError>;

    /// Counts a call where its limits are locked, as permitted by `by`; one that is counted already keeps its moment.
    async fn count_use(
        &mut self,
        call: &CountedCall<'_>,
        measures: &[Measure],
        by: PermitKey,
        now: Timestamp,
    ) -> Result<(), StoreError>;

    /// Counts no longer what `by` permitted: it was not started.
    async fn give_back(&mut self, by: PermitKey) -> Result<(), StoreError>;

    /// Keeps the business keys of a settled call.
    async fn insert_subjects(&mut self, subjects: &[Subject], call: &SubjectCall) -> Result<(), StoreError>;

    /// Keeps a payload.
    async fn insert_payload(&mut self, payload: &Payload) -> Result<(), StoreError>;

    /// Remembers an answer, unless one of the same caller, route and key is younger than 24 hours: then that one.
    async fn remember(&mut self, record: &IdempotencyRecord) -> Result<Option<IdempotencyRecord>, StoreError>;

    /// The remembered answer, when it is younger than 24 hours at `now`.
    async fn remembered(
        &mut self,
        caller: &str,
        route: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<IdempotencyRecord>, StoreError>;

    /// Records an outcome of a call that was never held, unless there is one: then that one.
    async fn record_decision_outcome(
        &mut self,
        outcome: &DecisionOutcome,
    ) -> Result<Option<DecisionOutcome>, StoreError>;

    /// A key as stored, for what must not trust memory.
    async fn key(&mut self, id: KeyId) -> Result<Option<KeyRecord>, StoreError>;

    /// Stores a new key.
    async fn insert_key(&mut self, key: &KeyRecord) -> Result<(), StoreError>;

    /// Revokes a key; `false` when there is none or it is revoked already.
    async fn revoke_key(&mut self, id: KeyId, now: Timestamp) -> Result<bool, StoreError>;

    /// A session as stored, for what must not trust an earlier look.
    async fn session(&mut self, id: SessionId) -> Result<Option<SessionRecord>, StoreError>;

    /// Stores a new session, and forgets those that were over by `forget`.
    async fn insert_session(&mut self, session: &SessionRecord, forget: Timestamp) -> Result<(), StoreError>;

    /// Keeps that something was sent from a session.
    async fn session_seen(&mut self, id: SessionId, now: Timestamp) -> Result<(), StoreError>;

    /// Takes a session back; `false` when there is none or it was taken back before.
    async fn revoke_session(&mut self, id: SessionId, now: Timestamp) -> Result<bool, StoreError>;

    /// The link with this hash, locked.
    async fn link(&mut self, hash: &[u8; 32]) -> Result<Option<Link>, StoreError>;

    /// Stores a new link, and forgets those that were over by `forget`.
    async fn insert_link(&mut self, link: &Link, forget: Timestamp) -> Result<(), StoreError>;

    /// Keeps that a locked link was used; `false` when it was before.
    async fn spend_link(&mut self, hash: &[u8; 32], now: Timestamp) -> Result<bool, StoreError>;

    /// Takes back every link to an inbox that was not used.
    async fn drop_inbox_links(&mut self) -> Result<(), StoreError>;

    /// Stores a sign-in that begins, and forgets those that were over by `now`.
    async fn insert_sign_in(&mut self, attempt: &SignInAttempt, now: Timestamp) -> Result<(), StoreError>;

    /// Takes out the sign-in whose `state` has this hash: it is gone on with once.
    async fn take_sign_in(&mut self, state_hash: &[u8; 32]) -> Result<Option<SignInAttempt>, StoreError>;

    /// Stores an accepted policy; `false` when this version is stored already.
    async fn insert_policy(&mut self, policy: &StoredPolicy) -> Result<bool, StoreError>;

    /// The private permit key that all instances share: `candidate`, unless one is stored already. Sealed or not is
    /// the caller's matter.
    async fn shared_permit_key(&mut self, candidate: &[u8], now: Timestamp) -> Result<Vec<u8>, StoreError>;

    /// Stores a checkpoint; `false` when one of this size is stored already.
    async fn insert_checkpoint(&mut self, checkpoint: &Checkpoint) -> Result<bool, StoreError>;

    /// Writes messages into the outbox. One that stands in for another is left out when its channel is told the same
    /// instead of somebody else already.
    async fn enqueue(&mut self, notices: &[Notice]) -> Result<(), StoreError>;

    /// Takes a destination for the holder of `lease` until `until`, when nobody else has it at `now` and nothing asks for
    /// patience; `None` otherwise.
    async fn lease_destination(
        &mut self,
        to: &Destination,
        lease: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Option<DestinationStanding>, StoreError>;

    /// Gives a destination back as it stands now, unless somebody else has it by now.
    async fn release_destination(
        &mut self,
        to: &Destination,
        lease: &str,
        standing: &DestinationStanding,
    ) -> Result<(), StoreError>;

    /// Lets a disabled destination be tried again; `false` when it is not disabled.
    async fn enable_destination(&mut self, to: &Destination) -> Result<bool, StoreError>;

    /// Ends messages that wait.
    async fn finish_notices(
        &mut self,
        ids: &[NoticeId],
        ending: NoticeEnding,
        now: Timestamp,
    ) -> Result<(), StoreError>;

    /// Keeps what became of a message that was tried in vain.
    async fn update_notice(&mut self, queued: &QueuedNotice) -> Result<(), StoreError>;

    /// Marks that the next channel is told instead, or that there is none; `false` when it was marked before.
    async fn pass_on_notice(&mut self, id: NoticeId) -> Result<bool, StoreError>;

    /// Where an approval is shown, and who is told of it instead of others.
    async fn told_of(&mut self, approval: ApprovalId) -> Result<Vec<(Destination, Option<ReviewerName>)>, StoreError>;

    /// Lets a message that was given up be tried again; `false` when it was not given up.
    async fn replay_notice(&mut self, id: NoticeId, now: Timestamp) -> Result<bool, StoreError>;

    /// Forgets messages that arrived, were moot or were given up before this, and where they were posted; how many
    /// messages.
    async fn forget_notices(&mut self, before: Timestamp) -> Result<u64, StoreError>;

    /// Keeps where an approval was posted, in place of where it was before.
    async fn put_posting(
        &mut self,
        approval: ApprovalId,
        to: &Destination,
        place: &str,
        now: Timestamp,
    ) -> Result<(), StoreError>;

    /// Appends to the log at the commit, in the order of the calls.
    fn append(&mut self, entry: Entry);

    /// Tells every instance at the commit.
    fn announce(&mut self, change: Change);

    /// Seals what was appended, moves the head, and commits.
    async fn commit(self: Box<Self>) -> Result<(), StoreError>;
}

/// Among how many approvals [`Store::last_decided`] looks, so that a rare tool costs no more than another.
pub const LATEST_LOOKED_AT: u32 = 1_000;

/// How long a remembered answer is kept.
pub const IDEMPOTENCY_WINDOW: Duration = Duration::from_secs(24 * 60 * 60);

/// A store shared by everything that needs one.
pub type SharedStore = Arc<dyn Store>;
