//! The rows both engines read and write, and their way to and from the domain. Knows columns, and no engine.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use sqlx::FromRow;

use crate::{
    app::ports::{
        Checkpoint, DecisionOutcome, DestinationStanding, IdempotencyRecord, OutboxCount, Parked, StoreError,
        SubjectCall,
    },
    domain::{
        approval::{
            code::ApprovalCode,
            confirmation::Confirmation,
            outcome::Outcome,
            state::{Approval, Denial, Denier, Execution, State},
        },
        audit::{
            chain::{Hash, Head, SealedEntry},
            entry::{Actor, Entry, EventKind},
            payload::{Payload, PayloadDigest, Salt},
        },
        call::CallKey,
        canon::json::{self, ArgsHash},
        channel::Destination,
        facts::StandingDenial,
        grant::{Grant, GrantRecord, GrantText},
        identity::{HolderName, KeyParts, KeyRecord, ReviewerName, Role, Roles},
        ids::{ApprovalId, Id, IdKind, Name, NameKind},
        limit::{Measure, Tally, amount::Amount},
        notice::{Notice, QueuedNotice, Topic},
        policy::PolicyVersion,
        review::{ReviewHash, ReviewRef},
        run::{KnownRun, NewestTurn, ParkedTag, Run, RunKey, RunLease},
        time::Timestamp,
        verdict::Verdict,
    },
};

pub(super) mod sign_in;

/// What is stored cannot be read as `what`. The value is not repeated: it may be somebody's.
pub(super) fn unreadable(what: &str) -> StoreError {
    StoreError::Unreadable(format!("a stored {what} is not one"))
}

fn id<K: IdKind>(text: &str) -> Result<Id<K>, StoreError> {
    Id::parse(text).map_err(|_| unreadable(K::PREFIX.trim_end_matches('_')))
}

fn name<K: NameKind>(text: &str) -> Result<Name<K>, StoreError> {
    Name::parse(text).map_err(|_| unreadable(K::WHAT))
}

pub(super) fn bytes<const N: usize>(bytes: &[u8]) -> Result<[u8; N], StoreError> {
    bytes.try_into().map_err(|_| unreadable("hash"))
}

fn from_json<T: DeserializeOwned>(text: &str, what: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|_| unreadable(what))
}

/// The JSON text of a record of ours.
pub(super) fn to_json(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Unreadable(error.to_string()))
}

/// The canonical JSON text of an entry's detail.
pub(super) fn detail_text(detail: &Map<String, Value>) -> Result<String, StoreError> {
    let canonical = json::canonical(detail).map_err(|error| StoreError::Unreadable(error.to_string()))?;
    String::from_utf8(canonical).map_err(|_| unreadable("detail"))
}

/// A row of `audit_head`.
#[derive(FromRow)]
pub(super) struct HeadRow {
    seq: i64,
    chain: Vec<u8>,
}

impl HeadRow {
    pub(super) fn into_head(self) -> Result<Head, StoreError> {
        Ok(Head { seq: self.seq, chain: bytes(&self.chain)? })
    }
}

/// A row of `audit_entries`.
#[derive(FromRow)]
pub(super) struct EntryRow {
    seq: i64,
    event: String,
    at: i64,
    request_id: Option<String>,
    actor: String,
    actor_via: String,
    agent: Option<String>,
    run_id: Option<String>,
    turn: Option<i64>,
    tool_use_id: Option<String>,
    tool: Option<String>,
    decision_id: Option<String>,
    approval_id: Option<String>,
    approval_code: Option<String>,
    verdict: Option<String>,
    reason_code: Option<String>,
    reason: Option<String>,
    rule: Option<String>,
    policy_version: Option<String>,
    payload_digest: Option<Vec<u8>>,
    detail: String,
    leaf: Vec<u8>,
    chain: Vec<u8>,
}

impl EntryRow {
    pub(super) fn into_sealed(self) -> Result<SealedEntry, StoreError> {
        let (mut call, mut agent, mut run) = (None, None, None);
        match (self.agent, self.run_id, self.turn, self.tool_use_id) {
            (Some(agent), Some(run_id), Some(turn), Some(tool_use_id)) => {
                call = Some(CallKeyRow { agent, run_id, turn, tool_use_id }.into_key()?);
            }
            (about, run_id, None, None) if about.is_some() || run_id.is_none() => {
                agent = about.as_deref().map(name).transpose()?;
                run = run_id.as_deref().map(name).transpose()?;
            }
            (Some(_) | None, Some(_) | None, Some(_) | None, Some(_) | None) => return Err(unreadable("call")),
        }
        let entry = Entry {
            event: EventKind::parse(&self.event).ok_or_else(|| unreadable("event"))?,
            at: Timestamp::from_micros(self.at),
            request_id: self.request_id,
            actor: Actor { name: self.actor, via: self.actor_via },
            call,
            agent,
            run,
            tool: self.tool,
            decision: self.decision_id.as_deref().map(id).transpose()?,
            approval: self.approval_id.as_deref().map(id).transpose()?,
            code: self.approval_code.as_deref().map(approval_code).transpose()?,
            verdict: self.verdict.as_deref().map(verdict).transpose()?,
            reason_code: self.reason_code,
            reason: self.reason,
            rule: self.rule,
            policy_version: self.policy_version,
            payload: self.payload_digest.as_deref().map(bytes).transpose()?.map(PayloadDigest::from_bytes),
            detail: from_json(&self.detail, "detail")?,
        };
        Ok(SealedEntry { seq: self.seq, entry, leaf: bytes(&self.leaf)?, chain: bytes(&self.chain)? })
    }
}

/// Every row, in the order they came.
pub(super) fn into_entries(rows: Vec<EntryRow>) -> Result<Vec<SealedEntry>, StoreError> {
    rows.into_iter().map(EntryRow::into_sealed).collect()
}

fn approval_code(text: &str) -> Result<ApprovalCode, StoreError> {
    ApprovalCode::parse(text).ok_or_else(|| unreadable("approval code"))
}

fn verdict(text: &str) -> Result<Verdict, StoreError> {
    text.parse().map_err(|_| unreadable("verdict"))
}

/// The columns that name a call.
#[derive(FromRow)]
pub(super) struct CallKeyRow {
    agent: String,
    run_id: String,
    turn: i64,
    tool_use_id: String,
}

impl CallKeyRow {
    pub(super) fn into_key(self) -> Result<CallKey, StoreError> {
        Ok(CallKey {
            agent: name(&self.agent)?,
            run: name(&self.run_id)?,
            turn: u32::try_from(self.turn).map_err(|_| unreadable("turn"))?,
            tool_use_id: name(&self.tool_use_id)?,
        })
    }
}

/// A row of `runs`, with what is kept at the head of its family.
#[derive(FromRow)]
pub(super) struct RunRow {
    agent: String,
    run_id: String,
    ancestors: String,
    on_behalf_of: Option<String>,
    request: Option<Vec<u8>>,
    labels: String,
    requests: String,
    requested_bytes: i64,
    ending: Option<String>,
}

impl RunRow {
    pub(super) fn into_run(self) -> Result<Run, StoreError> {
        Ok(Run {
            key: RunKey { agent: name(&self.agent)?, run: name(&self.run_id)? },
            ancestors: from_json(&self.ancestors, "run's ancestors")?,
            on_behalf_of: self.on_behalf_of,
            labels: from_json(&self.labels, "run's labels")?,
            request: self.request.as_deref().map(bytes).transpose()?.map(PayloadDigest::from_bytes),
            requests: from_json(&self.requests, "run's requests")?,
            requested_bytes: usize::try_from(self.requested_bytes).map_err(|_| unreadable("length of requests"))?,
            ended: self.ending.as_deref().map(|ending| from_json(ending, "run's end")).transpose()?,
        })
    }
}

/// A row of `runs` with everything that tells where the run stands.
#[derive(FromRow)]
pub(super) struct KnownRunRow {
    #[sqlx(flatten)]
    run: RunRow,
    lease_turn: Option<i64>,
    lease_mark: Option<i64>,
    lease_until: Option<i64>,
    content_type: Option<String>,
    etag: Option<String>,
    newest_turn: Option<i64>,
    held: i64,
    made: i64,
    waiting: i64,
}

impl KnownRunRow {
    pub(super) fn into_known(self) -> Result<KnownRun, StoreError> {
        let turn = |number: i64| u32::try_from(number).map_err(|_| unreadable("turn"));
        let count = |number: i64| u32::try_from(number).map_err(|_| unreadable("count"));
        let newest = match self.newest_turn {
            Some(newest) => {
                let (held, mark) = (count(self.held)?, count(self.held.saturating_add(self.made))?);
                Some(NewestTurn { turn: turn(newest)?, held, mark, waiting: count(self.waiting)? })
            }
            None => None,
        };
        let lease = match self.lease_turn.zip(self.lease_mark) {
            Some((leased, mark)) => {
                let until = self.lease_until.map(Timestamp::from_micros);
                Some(RunLease { turn: turn(leased)?, mark: count(mark)?, until })
            }
            None => None,
        };
        let parked = self.content_type.zip(self.etag).map(|(content_type, etag)| ParkedTag { content_type, etag });
        Ok(KnownRun { run: self.run.into_run()?, newest, lease, parked })
    }
}

/// A row of `parked_runs`, but for its key.
#[derive(FromRow)]
pub(super) struct ParkedRow {
    content_type: String,
    etag: String,
    body: Vec<u8>,
}

impl From<ParkedRow> for Parked {
    fn from(row: ParkedRow) -> Self {
        let ParkedRow { content_type, etag, body } = row;
        Self { tag: ParkedTag { content_type, etag }, body }
    }
}

/// The columns that name a run.
#[derive(FromRow)]
pub(super) struct RunKeyRow {
    agent: String,
    run_id: String,
}

impl RunKeyRow {
    pub(super) fn into_key(self) -> Result<RunKey, StoreError> {
        Ok(RunKey { agent: name(&self.agent)?, run: name(&self.run_id)? })
    }
}

/// A row of `approvals`, but for what repeats its state.
#[derive(FromRow)]
pub(super) struct ApprovalRow {
    id: String,
    code: String,
    agent: String,
    run_id: String,
    turn: i64,
    tool_use_id: String,
    tool: String,
    args_hash: Vec<u8>,
    payload_digest: Vec<u8>,
    decision_id: String,
    policy_version: String,
    asked_by: String,
    reason: String,
    requirement: String,
    batch_id: Option<String>,
    attempt: i64,
    created_at: i64,
    expires_at: i64,
    state_data: String,
    review_digest: Option<Vec<u8>>,
    review_hash: Option<Vec<u8>>,
}

impl ApprovalRow {
    pub(super) fn into_approval(self) -> Result<Approval, StoreError> {
        let call =
            CallKeyRow { agent: self.agent, run_id: self.run_id, turn: self.turn, tool_use_id: self.tool_use_id };
        Ok(Approval {
            id: id(&self.id)?,
            code: approval_code(&self.code)?,
            call: call.into_key()?,
            tool: self.tool,
            args_hash: args_hash(&self.args_hash)?,
            payload: PayloadDigest::from_bytes(bytes(&self.payload_digest)?),
            decision: id(&self.decision_id)?,
            policy_version: PolicyVersion::from_stored(self.policy_version),
            asked_by: from_json(&self.asked_by, "list of rules")?,
            reason: self.reason,
            requirement: from_json(&self.requirement, "requirement")?,
            batch: self.batch_id.as_deref().map(id).transpose()?,
            attempt: u32::try_from(self.attempt).map_err(|_| unreadable("attempt"))?,
            created_at: Timestamp::from_micros(self.created_at),
            expires_at: Timestamp::from_micros(self.expires_at),
            review: match (self.review_digest, self.review_hash) {
                (Some(digest), Some(hash)) => Some(ReviewRef {
                    payload: PayloadDigest::from_bytes(bytes(&digest)?),
                    hash: ReviewHash::from_bytes(bytes(&hash)?),
                }),
                (None, None) => None,
                (Some(_), None) | (None, Some(_)) => return Err(unreadable("review")),
            },
            state: from_json(&self.state_data, "state")?,
        })
    }
}

fn args_hash(stored: &[u8]) -> Result<ArgsHash, StoreError> {
    let hash: Hash = bytes(stored)?;
    ArgsHash::parse(&format!("sha256:{}", hex::encode(hash))).ok_or_else(|| unreadable("hash of arguments"))
}

/// A row of `call_subjects`, but for the business key.
#[derive(FromRow)]
pub(super) struct SubjectCallRow {
    decision_id: String,
    agent: String,
    run_id: String,
    turn: i64,
    tool_use_id: String,
    tool: String,
    verdict: String,
    approval_id: Option<String>,
    at: i64,
}

impl SubjectCallRow {
    pub(super) fn into_call(self) -> Result<SubjectCall, StoreError> {
        let call =
            CallKeyRow { agent: self.agent, run_id: self.run_id, turn: self.turn, tool_use_id: self.tool_use_id };
        Ok(SubjectCall {
            call: call.into_key()?,
            tool: self.tool,
            decision: id(&self.decision_id)?,
            verdict: verdict(&self.verdict)?,
            approval: self.approval_id.as_deref().map(id).transpose()?,
            at: Timestamp::from_micros(self.at),
        })
    }
}

/// The columns of `approvals` that change with the state.
pub(super) struct StateColumns {
    pub(super) state: &'static str,
    pub(super) state_data: String,
    pub(super) next_deadline: Option<i64>,
    pub(super) denied_by_person: bool,
    pub(super) lifted: bool,
    pub(super) unsettled: bool,
}

impl StateColumns {
    pub(super) fn of(approval: &Approval) -> Result<Self, StoreError> {
        let by_person = |denial: &Denial| matches!(denial.by, Denier::Reviewer { .. });
        let (denied_by_person, lifted, unsettled) = match &approval.state {
            State::Denied(denial) => (by_person(denial), denial.lifted.is_some(), false),
            State::Executed(Execution { outcome: Outcome::Unknown { settled: None, .. }, .. }) => (false, false, true),
            State::Executed(_)
            | State::Pending { .. }
            | State::Approved(_)
            | State::Expired { .. }
            | State::Cancelled { .. } => (false, false, false),
        };
        Ok(Self {
            state: approval.state.name().as_str(),
            state_data: to_json(&approval.state)?,
            next_deadline: approval.next_deadline().map(Timestamp::as_micros),
            denied_by_person,
            lifted,
            unsettled,
        })
    }
}

/// A denial that stands, as two columns of `approvals`.
#[derive(FromRow)]
pub(super) struct DenialRow {
    id: String,
    state_data: String,
}

impl DenialRow {
    pub(super) fn into_denial(self) -> Result<StandingDenial, StoreError> {
        match from_json(&self.state_data, "state")? {
            State::Denied(denial) => {
                Ok(StandingDenial { approval: id(&self.id)?, message_to_agent: denial.message_to_agent })
            }
            State::Pending { .. }
            | State::Approved(_)
            | State::Expired { .. }
            | State::Cancelled { .. }
            | State::Executed(_) => Err(unreadable("denial")),
        }
    }
}

/// The groups that may see an approval, and the moment from which on each does, in microseconds: those it names always,
/// whatever another instance's clock says. None at all where anyone may.
pub(super) fn onlookers(approval: &Approval) -> (Vec<&str>, Vec<i64>) {
    let Approval { requirement, created_at, .. } = approval;
    if requirement.is_open_to_anyone() {
        return (Vec::new(), Vec::new());
    }
    let named = requirement.groups.keys().map(|group| (group.as_str(), 0));
    let escalated = requirement.escalation.iter().filter(|(group, _)| !requirement.groups.contains_key(*group));
    let escalated = escalated.map(|(group, after)| (group.as_str(), created_at.plus(*after).as_micros()));
    named.chain(escalated).unzip()
}

/// A row of `confirmations`, but for its key.
#[derive(FromRow)]
pub(super) struct ConfirmationRow {
    hash: Vec<u8>,
    review_hash: String,
    valid_from: i64,
    expires_at: i64,
    spent: bool,
}

impl ConfirmationRow {
    pub(super) fn into_confirmation(
        self,
        approval: ApprovalId,
        reviewer: &ReviewerName,
    ) -> Result<Confirmation, StoreError> {
        Ok(Confirmation {
            approval,
            reviewer: reviewer.clone(),
            hash: bytes(&self.hash)?,
            review_hash: self.review_hash,
            valid_from: Timestamp::from_micros(self.valid_from),
            expires_at: Timestamp::from_micros(self.expires_at),
            spent: self.spent,
        })
    }
}

/// The id of an approval, alone.
pub(super) fn approval_id(text: &str) -> Result<ApprovalId, StoreError> {
    id(text)
}

/// A row of `payloads`.
#[derive(FromRow)]
pub(super) struct PayloadRow {
    salt: Vec<u8>,
    body: String,
}

impl PayloadRow {
    /// The payload, which must still be the one that `digest` names.
    pub(super) fn into_payload(self, digest: PayloadDigest) -> Result<Payload, StoreError> {
        let salt: Salt = self.salt.as_slice().try_into().map_err(|_| unreadable("salt"))?;
        let payload = Payload::new(self.body, salt);
        if payload.digest() == digest { Ok(payload) } else { Err(unreadable("payload")) }
    }
}

/// A row of `idempotency`, but for its key.
#[derive(FromRow)]
pub(super) struct IdempotencyRow {
    body_hash: Vec<u8>,
    decision_id: String,
    answer: String,
    created_at: i64,
}

impl IdempotencyRow {
    pub(super) fn into_record(self, caller: &str, route: &str, key: &str) -> Result<IdempotencyRecord, StoreError> {
        Ok(IdempotencyRecord {
            caller: caller.to_owned(),
            route: route.to_owned(),
            key: key.to_owned(),
            body_hash: bytes(&self.body_hash)?,
            decision: id(&self.decision_id)?,
            answer: from_json(&self.answer, "answer")?,
            created_at: Timestamp::from_micros(self.created_at),
        })
    }
}

/// A row of `decision_outcomes`.
#[derive(FromRow)]
pub(super) struct OutcomeRow {
    decision_id: String,
    status: String,
    payload_digest: Option<Vec<u8>>,
    at: i64,
}

impl OutcomeRow {
    pub(super) fn into_outcome(self) -> Result<DecisionOutcome, StoreError> {
        Ok(DecisionOutcome {
            decision: id(&self.decision_id)?,
            status: self.status,
            payload: self.payload_digest.as_deref().map(bytes).transpose()?.map(PayloadDigest::from_bytes),
            at: Timestamp::from_micros(self.at),
        })
    }
}

/// A row of `keys`.
#[derive(FromRow)]
pub(super) struct KeyRow {
    id: String,
    name: String,
    roles: String,
    agents: String,
    hash: Vec<u8>,
    created_at: i64,
    expires_at: Option<i64>,
    revoked_at: Option<i64>,
}

impl KeyRow {
    pub(super) fn into_record(self) -> Result<KeyRecord, StoreError> {
        let roles: Vec<Role> = from_json(&self.roles, "list of roles")?;
        let parts = KeyParts {
            id: id(&self.id)?,
            name: HolderName::parse(&self.name).map_err(|_| unreadable("key's name"))?,
            roles: Roles::new(roles).map_err(|_| unreadable("list of roles"))?,
            agents: from_json(&self.agents, "list of agents")?,
            hash: bytes(&self.hash)?,
            created_at: Timestamp::from_micros(self.created_at),
            expires_at: self.expires_at.map(Timestamp::from_micros),
            revoked_at: self.revoked_at.map(Timestamp::from_micros),
        };
        KeyRecord::new(parts).map_err(|_| unreadable("key"))
    }
}

/// The lists of a key's record as JSON: its roles, and its agents.
pub(super) fn key_lists(key: &KeyRecord) -> Result<(String, String), StoreError> {
    Ok((to_json(key.roles())?, to_json(key.agents())?))
}

/// A row of `outbox`.
#[derive(FromRow)]
pub(super) struct NoticeRow {
    id: String,
    destination: String,
    recipient: Option<String>,
    event: String,
    approval_id: Option<String>,
    agent: Option<String>,
    run_id: Option<String>,
    data: String,
    at: i64,
    not_before: i64,
    instead_of: Option<String>,
    passed_on: bool,
    attempts: i32,
    failed: String,
    dead_since: Option<i64>,
}

impl NoticeRow {
    pub(super) fn into_queued(self) -> Result<QueuedNotice, StoreError> {
        let topic = match (&self.approval_id, &self.agent, &self.run_id) {
            (Some(approval), _, _) => Topic::Approval(id(approval)?),
            (None, Some(agent), Some(run)) => Topic::Run(RunKey { agent: name(agent)?, run: name(run)? }),
            (None, _, _) => return Err(unreadable("message")),
        };
        let notice = Notice {
            id: id(&self.id)?,
            to: destination(&self.destination)?,
            recipient: self.recipient.as_deref().map(name).transpose()?,
            event: self.event.parse().map_err(|_| unreadable("message"))?,
            topic,
            data: notice_data(&self.data)?,
            at: Timestamp::from_micros(self.at),
            not_before: Timestamp::from_micros(self.not_before),
            instead_of: self.instead_of.as_deref().map(id).transpose()?,
        };
        Ok(QueuedNotice {
            notice,
            passed_on: self.passed_on,
            attempts: u32::try_from(self.attempts).map_err(|_| unreadable("message"))?,
            failed: from_json(&self.failed, "message")?,
            dead_since: self.dead_since.map(Timestamp::from_micros),
        })
    }
}

pub(super) fn destination(text: &str) -> Result<Destination, StoreError> {
    text.parse().map_err(|_| unreadable("destination"))
}

/// Whom a channel was told by, and who there.
pub(super) fn told(
    (to, recipient): (String, Option<String>),
) -> Result<(Destination, Option<ReviewerName>), StoreError> {
    Ok((destination(&to)?, recipient.as_deref().map(name).transpose()?))
}

pub(super) fn notice_data(text: &str) -> Result<Value, StoreError> {
    from_json(text, "message")
}

/// How many messages of one destination wait, are for later, and were given up.
pub(super) fn outbox_count((to, waiting, later, dead): (String, i64, i64, i64)) -> Result<OutboxCount, StoreError> {
    let count = |count: i64| u64::try_from(count).map_err(|_| unreadable("count"));
    Ok(OutboxCount { to: destination(&to)?, waiting: count(waiting)?, later: count(later)?, dead: count(dead)? })
}

/// A row of `destinations`, but for its lease.
#[derive(FromRow)]
pub(super) struct StandingRow {
    name: String,
    not_before: i64,
    tried_at: Option<i64>,
    failing_since: Option<i64>,
    disabled_at: Option<i64>,
    disabled_why: Option<String>,
}

impl StandingRow {
    pub(super) fn into_standing(self) -> Result<(Destination, DestinationStanding), StoreError> {
        let disabled = self.disabled_at.map(Timestamp::from_micros);
        let standing = DestinationStanding {
            not_before: Timestamp::from_micros(self.not_before),
            tried_at: self.tried_at.map(Timestamp::from_micros),
            failing_since: self.failing_since.map(Timestamp::from_micros),
            disabled: disabled.map(|at| (at, self.disabled_why.unwrap_or_default())),
        };
        Ok((destination(&self.name)?, standing))
    }
}

/// A row of `checkpoints`.
#[derive(FromRow)]
pub(super) struct CheckpointRow {
    size: i64,
    root: Vec<u8>,
    at: i64,
    signature: Option<String>,
    key_id: Option<String>,
    frontier: String,
}

impl CheckpointRow {
    pub(super) fn into_checkpoint(self) -> Result<Checkpoint, StoreError> {
        Ok(Checkpoint {
            size: self.size,
            root: bytes(&self.root)?,
            at: Timestamp::from_micros(self.at),
            signature: self.signature,
            key_id: self.key_id,
            frontier: from_json(&self.frontier, "frontier")?,
        })
    }
}

/// How many uses in the window add the same amount to the same sum, or to another one.
pub(super) type UsesRow = (bool, Option<String>, i64);

/// What these uses come to for a call that is measured so.
pub(super) fn tally(measure: &Measure, uses: Vec<UsesRow>) -> Result<Tally, StoreError> {
    let mut calls = 0;
    let mut sum = Some(Amount::ZERO);
    for (of_the_same_sum, amount, count) in uses {
        let count = u64::try_from(count).map_err(|_| unreadable("count"))?;
        calls += count;
        if of_the_same_sum {
            let all = amount.as_deref().and_then(Amount::parse).and_then(|amount| amount.times(count));
            sum = sum.zip(all).and_then(|(sum, all)| sum.plus(all));
        }
    }
    Ok(Tally { calls, sum, adds: measure.amount })
}

/// A row of `grants` with its payload, its uses and its run.
#[derive(FromRow)]
pub(super) struct GrantRow {
    id: String,
    agent: String,
    run_id: String,
    tool: String,
    maker: String,
    payload_digest: Vec<u8>,
    lifts: String,
    seen_by: String,
    max_uses: i64,
    approval_id: Option<String>,
    created_at: i64,
    expires_at: i64,
    revoked: Option<String>,
    salt: Option<Vec<u8>>,
    body: Option<String>,
    uses: i64,
    run_ended: bool,
}

impl GrantRow {
    pub(super) fn into_record(self) -> Result<GrantRecord, StoreError> {
        let payload = PayloadDigest::from_bytes(bytes(&self.payload_digest)?);
        // A text that is not the one that was written is no condition, like one that was erased.
        let kept = self.salt.zip(self.body).map(|(salt, body)| PayloadRow { salt, body }.into_payload(payload));
        let when = kept.and_then(Result::ok).and_then(|kept| Some(GrantText::of(&kept)?.when));
        let grant = Grant {
            id: id(&self.id)?,
            maker: name(&self.maker)?,
            run: RunKey { agent: name(&self.agent)?, run: name(&self.run_id)? },
            tool: self.tool,
            when,
            payload,
            lifts: from_json(&self.lifts, "list of what a grant lifts")?,
            groups: from_json(&self.seen_by, "list of groups")?,
            max_uses: u32::try_from(self.max_uses).map_err(|_| unreadable("count"))?,
            approval: self.approval_id.as_deref().map(id).transpose()?,
            created_at: Timestamp::from_micros(self.created_at),
            expires_at: Timestamp::from_micros(self.expires_at),
            revoked: self.revoked.as_deref().map(|text| from_json(text, "revocation")).transpose()?,
        };
        let uses = u32::try_from(self.uses).map_err(|_| unreadable("count"))?;
        Ok(GrantRecord { grant, uses, run_ended: self.run_ended })
    }
}

/// A limit as engines take it.
pub(super) fn limit(limit: u32) -> i64 {
    i64::from(limit)
}
