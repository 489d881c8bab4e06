//! Records to store, each different from every other.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use countersign::{
    app::ports::Guard,
    domain::{
        approval::{
            code::ApprovalCode,
            requirement::Requirement,
            state::{Approval, Claim, State},
            vote::Vote,
        },
        audit::{
            entry::{Actor, Entry, EventKind},
            payload::{Payload, PayloadDigest},
        },
        call::CallKey,
        canon::json::ArgsHash,
        identity::{AgentId, ReviewerName},
        ids::{ApprovalId, ClaimId, DecisionId, RunId, ToolUseId},
        policy::PolicyVersion,
        review::{ReviewHash, ReviewRef},
        time::Timestamp,
    },
};
use serde_json::json;
use uuid::Uuid;

/// The moment at which every test begins.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

/// Four hours: the time to live of a sample approval.
pub(crate) const TTL: Duration = Duration::from_secs(4 * 3_600);

/// So many seconds after the start.
pub(crate) fn at(seconds: u64) -> Timestamp {
    START.plus(Duration::from_secs(seconds))
}

/// A new number, growing.
pub(crate) fn number() -> u32 {
    static COUNT: AtomicU32 = AtomicU32::new(1);
    COUNT.fetch_add(1, Ordering::Relaxed)
}

/// A new UUID, later than those before.
pub(crate) fn uuid() -> Uuid {
    let mut random = [0; 10];
    random[..4].copy_from_slice(&number().to_be_bytes());
    uuid::Builder::from_unix_timestamp_millis(1_800_000_000_000, &random).into_uuid()
}

pub(crate) fn agent(name: &str) -> AgentId {
    AgentId::parse(name).unwrap()
}

pub(crate) fn run(name: &str) -> RunId {
    RunId::parse(name).unwrap()
}

pub(crate) fn reviewer(name: &str) -> ReviewerName {
    ReviewerName::parse(name).unwrap()
}

/// A call of `billing-bot` in run `r-1` that nobody made before.
pub(crate) fn call() -> CallKey {
    CallKey {
        agent: agent("billing-bot"),
        run: run("r-1"),
        turn: 0,
        tool_use_id: ToolUseId::parse(&format!("toolu_{}", number())).unwrap(),
    }
}

/// The hash of `{"amount": n}`.
pub(crate) fn args_hash(amount: u32) -> ArgsHash {
    ArgsHash::of(json!({ "amount": amount }).as_object().unwrap()).unwrap()
}

/// What the committing statement checks for a call of `issue_refund`.
pub(crate) fn guard(call: &CallKey, args_hash: ArgsHash) -> Guard {
    Guard { call: call.clone(), tool: "issue_refund".to_owned(), args_hash }
}

pub(crate) fn payload() -> Payload {
    let mut salt = [7; 16];
    salt[..4].copy_from_slice(&number().to_be_bytes());
    Payload::new(r#"{"args":{"note":"na\u0000ïve \"☂\""}}"#.to_owned(), salt)
}

/// An entry with nothing optional in it.
pub(crate) fn bare_entry() -> Entry {
    Entry::new(EventKind::ConfigurationLoaded, START, Actor::service())
}

/// A decision's entry.
pub(crate) fn decision_entry() -> Entry {
    let actor = Actor { name: "billing-bot".to_owned(), via: "key:key_x".to_owned() };
    let mut entry = Entry::new(EventKind::Decision, START, actor);
    entry.call = Some(call());
    entry.tool = Some("issue_refund".to_owned());
    entry.decision = Some(DecisionId::from_uuid(uuid()));
    entry
}

/// A pending approval of `issue_refund` in a run of its own, for anyone to decide.
pub(crate) fn approval() -> Approval {
    let number = number();
    let mut call = call();
    call.run = run(&format!("r-{number}"));
    Approval {
        id: ApprovalId::from_uuid(uuid()),
        code: ApprovalCode::from_bits(number),
        call,
        tool: "issue_refund".to_owned(),
        args_hash: args_hash(number),
        payload: PayloadDigest::from_bytes([3; 32]),
        decision: DecisionId::from_uuid(uuid()),
        policy_version: PolicyVersion::from_stored("v1".to_owned()),
        asked_by: BTreeSet::from(["large-refund".to_owned()]),
        reason: "over 5000 ☂".to_owned(),
        requirement: Requirement::one_of_anyone(TTL),
        batch: None,
        attempt: 1,
        created_at: START,
        expires_at: START.plus(TTL),
        review: Some(ReviewRef { payload: PayloadDigest::from_bytes([4; 32]), hash: ReviewHash::from_bytes([5; 32]) }),
        state: State::Pending { votes: Vec::new() },
    }
}

/// The same, deciders being these groups.
pub(crate) fn approval_for(groups: &[&str]) -> Approval {
    let mut approval = approval();
    approval.requirement.anyone = 0;
    approval.requirement.groups = groups.iter().map(|group| ((*group).to_owned(), 1)).collect::<BTreeMap<_, _>>();
    approval
}

/// Approved by Ana a minute after the start.
pub(crate) fn approved(approval: Approval) -> Approval {
    let vote =
        Vote { reviewer: reviewer("ana"), groups: approval.requirement.groups.keys().cloned().collect(), at: at(60) };
    approval.approve(vote, at(60)).unwrap().0
}

/// Denied by Ana a minute after the start, with a message.
pub(crate) fn denied(approval: Approval) -> Approval {
    approval.deny(reviewer("ana"), Some("not \u{0} today ☂".to_owned()), at(60)).unwrap().0
}

/// Claimed two minutes after the start, with a lease of five.
pub(crate) fn claimed(approval: Approval) -> Approval {
    let lease = Duration::from_secs(300);
    let claim = Claim {
        id: ClaimId::from_uuid(uuid()),
        at: at(120),
        lease_expires_at: at(120).plus(lease),
        lease,
        permit_id: "jti".to_owned(),
    };
    approved(approval).claim(claim, false, at(120)).unwrap()
}
