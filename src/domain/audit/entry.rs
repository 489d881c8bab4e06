//! One entry of the audit log: who did what, when, and why. It holds no argument and no sentence anyone typed.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::payload::PayloadDigest;
use crate::domain::{
    approval::code::ApprovalCode,
    call::CallKey,
    identity::AgentId,
    ids::{ApprovalId, DecisionId, RunId},
    run::RunKey,
    time::Timestamp,
    verdict::Verdict,
};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EventKind {
    /// A call was decided.
    #[serde(rename = "decision")]
    Decision,
    /// A held call became an approval.
    #[serde(rename = "approval.requested")]
    ApprovalRequested,
    /// Another call was attached to an open approval.
    #[serde(rename = "approval.joined")]
    ApprovalJoined,
    /// A reviewer was asked to confirm an approve, which is no vote yet.
    #[serde(rename = "approval.to_confirm")]
    ApprovalToConfirm,
    /// A reviewer approved.
    #[serde(rename = "approval.vote")]
    ApprovalVote,
    /// The requirement was met.
    #[serde(rename = "approval.approved")]
    ApprovalApproved,
    /// A reviewer or the service denied.
    #[serde(rename = "approval.denied")]
    ApprovalDenied,
    /// An approve was taken back.
    #[serde(rename = "approval.revoked")]
    ApprovalRevoked,
    /// A denial was lifted for later calls.
    #[serde(rename = "approval.lifted")]
    ApprovalLifted,
    /// An approval ran out of time.
    #[serde(rename = "approval.expired")]
    ApprovalExpired,
    /// An approval was withdrawn.
    #[serde(rename = "approval.cancelled")]
    ApprovalCancelled,
    /// The right to execute was given.
    #[serde(rename = "claim")]
    Claim,
    /// A claim was refused for more than bad timing.
    #[serde(rename = "claim.refused")]
    ClaimRefused,
    /// A claim was given back as not started.
    #[serde(rename = "claim.returned")]
    ClaimReturned,
    /// The outcome of an executed call was reported.
    #[serde(rename = "outcome")]
    Outcome,
    /// An outcome was reported after the lease.
    #[serde(rename = "outcome.late")]
    OutcomeLate,
    /// A lease ended without a report.
    #[serde(rename = "outcome.unknown")]
    OutcomeUnknown,
    /// A person settled an unknown outcome.
    #[serde(rename = "outcome.settled")]
    OutcomeSettled,
    /// The id of a held call was presented with another tool or other arguments.
    #[serde(rename = "call.reused")]
    CallReused,
    /// A reviewer made a grant.
    #[serde(rename = "grant.created")]
    GrantCreated,
    /// A reviewer took a grant back.
    #[serde(rename = "grant.revoked")]
    GrantRevoked,
    /// A grant let a call through.
    #[serde(rename = "grant.used")]
    GrantUsed,
    /// Somebody authenticated was refused: wrong role, or not eligible.
    #[serde(rename = "request.refused")]
    RequestRefused,
    /// Requests without a valid credential, summed up.
    #[serde(rename = "request.unauthenticated")]
    RequestUnauthenticated,
    /// A policy was loaded.
    #[serde(rename = "policy.loaded")]
    PolicyLoaded,
    /// A policy that does not load was refused; the last good one stays.
    #[serde(rename = "policy.refused")]
    PolicyRefused,
    /// The configuration a process started with.
    #[serde(rename = "configuration.loaded")]
    ConfigurationLoaded,
    /// What is known of a run was written down: whom it works for, whose it is, what the human asked.
    #[serde(rename = "run.declared")]
    RunDeclared,
    /// The human asked for more.
    #[serde(rename = "run.requested")]
    RunRequested,
    /// A run came to its end.
    #[serde(rename = "run.ended")]
    RunEnded,
    /// A reviewer stopped a run.
    #[serde(rename = "run.stopped")]
    RunStopped,
    /// The state of a run was parked.
    #[serde(rename = "run.parked")]
    RunParked,
    /// A worker took a ready run up again.
    #[serde(rename = "run.resumed")]
    RunResumed,
    /// A reviewer paused an agent.
    #[serde(rename = "agent.paused")]
    AgentPaused,
    /// An admin let a paused agent go on.
    #[serde(rename = "agent.resumed")]
    AgentResumed,
    /// A message was given up.
    #[serde(rename = "notice.dead")]
    NoticeDead,
    /// Somebody had such a message tried again.
    #[serde(rename = "notice.replayed")]
    NoticeReplayed,
    /// Nothing is sent to a destination any more.
    #[serde(rename = "destination.disabled")]
    DestinationDisabled,
    /// Somebody let it be tried again.
    #[serde(rename = "destination.enabled")]
    DestinationEnabled,
    /// A key was created.
    #[serde(rename = "key.created")]
    KeyCreated,
    /// A key was revoked.
    #[serde(rename = "key.revoked")]
    KeyRevoked,
    /// A person signed in, or followed a personal link: a session was opened.
    #[serde(rename = "session.opened")]
    SessionOpened,
    /// A person signed out, or took a session back.
    #[serde(rename = "session.closed")]
    SessionClosed,
    /// Somebody whom the provider knows and this installation does not wanted to sign in.
    #[serde(rename = "sign_in.refused")]
    SignInRefused,
    /// A personal link was made.
    #[serde(rename = "link.made")]
    LinkMade,
}

impl EventKind {
    /// The word for it in the log, answers and filters.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Decision => "decision",
            Self::ApprovalRequested => "approval.requested",
            Self::ApprovalJoined => "approval.joined",
            Self::ApprovalToConfirm => "approval.to_confirm",
            Self::ApprovalVote => "approval.vote",
            Self::ApprovalApproved => "approval.approved",
            Self::ApprovalDenied => "approval.denied",
            Self::ApprovalRevoked => "approval.revoked",
            Self::ApprovalLifted => "approval.lifted",
            Self::ApprovalExpired => "approval.expired",
            Self::ApprovalCancelled => "approval.cancelled",
            Self::Claim => "claim",
            Self::ClaimRefused => "claim.refused",
            Self::ClaimReturned => "claim.returned",
            Self::Outcome => "outcome",
            Self::OutcomeLate => "outcome.late",
            Self::OutcomeUnknown => "outcome.unknown",
            Self::OutcomeSettled => "outcome.settled",
            Self::CallReused => "call.reused",
            Self::GrantCreated => "grant.created",
            Self::GrantRevoked => "grant.revoked",
            Self::GrantUsed => "grant.used",
            Self::RequestRefused => "request.refused",
            Self::RequestUnauthenticated => "request.unauthenticated",
            Self::PolicyLoaded => "policy.loaded",
            Self::PolicyRefused => "policy.refused",
            Self::ConfigurationLoaded => "configuration.loaded",
            Self::RunDeclared => "run.declared",
            Self::RunRequested => "run.requested",
            Self::RunEnded => "run.ended",
            Self::RunStopped => "run.stopped",
            Self::RunParked => "run.parked",
            Self::RunResumed => "run.resumed",
            Self::AgentPaused => "agent.paused",
            Self::AgentResumed => "agent.resumed",
            Self::NoticeDead => "notice.dead",
            Self::NoticeReplayed => "notice.replayed",
            Self::DestinationDisabled => "destination.disabled",
            Self::DestinationEnabled => "destination.enabled",
            Self::KeyCreated => "key.created",
            Self::KeyRevoked => "key.revoked",
            Self::SessionOpened => "session.opened",
            Self::SessionClosed => "session.closed",
            Self::SignInRefused => "sign_in.refused",
            Self::LinkMade => "link.made",
        }
    }

    /// Reads that word.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_value(Value::String(text.to_owned())).ok()
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Who did it, and how that was known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// The name: an agent's, a reviewer's, an operator's; `countersign` for the service itself.
    pub name: String,
    /// How it was authenticated: `key:` and the key's id, `session:` and the session's, `cli` for who holds the database, `service`.
    pub via: String,
}

impl Actor {
    /// The service itself: sweeps, loads, refusals at a claim.
    pub fn service() -> Self {
        Self { name: "countersign".to_owned(), via: "service".to_owned() }
    }
}

/// One entry before it has its place in the chain.
///
/// Every field is a column of `audit_entries`, and every column enters the leaf.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// What happened.
    pub event: EventKind,
    /// When, in integer microseconds.
    #[serde(with = "micros")]
    pub at: Timestamp,
    /// The request that caused it.
    pub request_id: Option<String>,
    /// Who did it.
    pub actor: Actor,
    /// The call it is about.
    pub call: Option<CallKey>,
    /// The agent it is about, where it is about no call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// That agent's run, where it is about one and no call of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The tool: its own name when it is known, else as presented.
    pub tool: Option<String>,
    /// The decision it is about.
    pub decision: Option<DecisionId>,
    /// The approval it is about.
    pub approval: Option<ApprovalId>,
    /// That approval's code.
    pub code: Option<ApprovalCode>,
    /// What was decided.
    pub verdict: Option<Verdict>,
    /// Why, as a stable word.
    pub reason_code: Option<String>,
    /// Why, for people; from the policy or from code, never from arguments.
    pub reason: Option<String>,
    /// The deciding rule or constraint.
    pub rule: Option<String>,
    /// The policy in force.
    pub policy_version: Option<String>,
    /// The payload beside this entry.
    pub payload: Option<PayloadDigest>,
    /// What else belongs to this kind of event: rule states, groups of a voter, a claim's id.
    pub detail: Map<String, Value>,
}

impl Entry {
    /// An entry with nothing but what every entry has.
    pub fn new(event: EventKind, at: Timestamp, actor: Actor) -> Self {
        Self {
            event,
            at,
            request_id: None,
            actor,
            call: None,
            agent: None,
            run: None,
            tool: None,
            decision: None,
            approval: None,
            code: None,
            verdict: None,
            reason_code: None,
            reason: None,
            rule: None,
            policy_version: None,
            payload: None,
            detail: Map::new(),
        }
    }

    /// The same, about a run.
    pub fn about_run(self, run: &RunKey) -> Self {
        Self { agent: Some(run.agent.clone()), run: Some(run.run.clone()), ..self }
    }
}

mod micros {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::domain::time::Timestamp;

    pub(super) fn serialize<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(at.as_micros())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        i64::deserialize(deserializer).map(Timestamp::from_micros)
    }
}
