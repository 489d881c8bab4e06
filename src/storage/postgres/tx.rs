//! One transaction, READ COMMITTED, with the row locks its use case asks for.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use sqlx::{Postgres, Transaction};

use super::{
    approvals, changes, checkpoints, confirmations, decisions,
    errors::{commit_error, store_error},
    grants, idempotency, keys, limits, outbox, payloads, policies, runs, sessions, subjects,
};
use crate::{
    app::ports::{
        AgentStanding, Change, Checkpoint, CountedCall, DecisionOutcome, DestinationStanding, GroupAppend,
        IdempotencyRecord, NoticeEnding, Parked, PermitKey, StoreError, StoredPolicy, SubjectCall, Tx,
    },
    domain::{
        approval::{confirmation::Confirmation, state::Approval},
        audit::{entry::Entry, payload::Payload},
        call::CallKey,
        canon::json::ArgsHash,
        channel::Destination,
        facts::StandingDenial,
        grant::{Grant, GrantRecord, Revocation},
        identity::{AgentId, KeyRecord, ReviewerName},
        ids::{ApprovalId, DecisionId, GrantId, KeyId, NoticeId, RunId, SessionId},
        limit::{Measure, Tally},
        notice::{Notice, QueuedNotice},
        run::{KnownRun, Run, RunKey, RunLease},
        session::{Link, SessionRecord, SignInAttempt},
        subject::Subject,
        time::Timestamp,
    },
    storage::{
        rows::{self, HeadRow},
        seal_all,
    },
};

/// A transaction on a connection of the pool.
pub(super) struct PostgresTx {
    tx: Transaction<'static, Postgres>,
    channel: String,
    appended: Vec<Entry>,
    announced: Vec<Change>,
}

impl PostgresTx {
    pub(super) fn new(tx: Transaction<'static, Postgres>, channel: String) -> Self {
        Self { tx, channel, appended: Vec::new(), announced: Vec::new() }
    }
}

#[async_trait]
impl Tx for PostgresTx {
    async fn lock_agent(&mut self, agent: &AgentId) -> Result<AgentStanding, StoreError> {
        runs::lock_agent(&mut self.tx, agent).await
    }

    async fn lock_run(&mut self, run: &RunKey) -> Result<Run, StoreError> {
        runs::lock_run(&mut self.tx, run).await
    }

    async fn any_paused(&mut self, agents: &[&AgentId]) -> Result<bool, StoreError> {
        runs::any_paused(&mut self.tx, agents).await
    }

    async fn set_labels(&mut self, head: &RunKey, labels: &BTreeSet<String>) -> Result<(), StoreError> {
        runs::set_labels(&mut self.tx, head, labels).await
    }

    async fn lock_grants(
        &mut self,
        call: &CountedCall<'_>,
        tool: &str,
        now: Timestamp,
    ) -> Result<Vec<GrantRecord>, StoreError> {
        grants::lock_for(&mut self.tx, call, tool, now).await
    }

    async fn grant(&mut self, id: GrantId) -> Result<Option<GrantRecord>, StoreError> {
        grants::locked(&mut self.tx, id).await
    }

    async fn lock_limits(
        &mut self,
        call: &CountedCall<'_>,
        measures: &[Measure],
    ) -> Result<BTreeMap<String, Tally>, StoreError> {
        limits::lock(&mut self.tx, call, measures).await
    }

    async fn known_run(&mut self, run: &RunKey, now: Timestamp) -> Result<KnownRun, StoreError> {
        runs::known(&mut self.tx, run, now).await
    }

    async fn update_run(&mut self, run: &Run) -> Result<(), StoreError> {
        runs::update(&mut self.tx, run).await
    }

    async fn set_requests(&mut self, run: &Run) -> Result<(), StoreError> {
        runs::set_requests(&mut self.tx, run).await
    }

    async fn runs_named(&mut self, run: &RunId, agents: &[&AgentId]) -> Result<Vec<RunKey>, StoreError> {
        runs::named(&mut self.tx, run, agents).await
    }

    async fn below_head(&mut self, head: &RunKey) -> Result<Vec<Run>, StoreError> {
        runs::below_head(&mut self.tx, head).await
    }

    async fn set_run_lease(&mut self, run: &RunKey, lease: RunLease) -> Result<(), StoreError> {
        runs::set_lease(&mut self.tx, run, lease).await
    }

    async fn park(&mut self, run: &RunKey, parked: &Parked) -> Result<(), StoreError> {
        runs::park(&mut self.tx, run, parked).await
    }

    async fn set_pause(&mut self, agent: &AgentId, pause: Option<(Timestamp, &str)>) -> Result<(), StoreError> {
        runs::set_pause(&mut self.tx, agent, pause).await
    }

    async fn open_of_runs(&mut self, runs: &[RunKey]) -> Result<Vec<Approval>, StoreError> {
        approvals::open_of_runs(&mut self.tx, runs).await
    }

    async fn open_under_agent(&mut self, agent: &AgentId) -> Result<Vec<Approval>, StoreError> {
        approvals::open_under_agent(&mut self.tx, agent).await
    }

    async fn held(&mut self, call: &CallKey) -> Result<Option<Approval>, StoreError> {
        approvals::held(&mut self.tx, call).await
    }

    async fn approval(&mut self, id: ApprovalId) -> Result<Option<Approval>, StoreError> {
        approvals::locked(&mut self.tx, id).await
    }

    async fn open_alike(
        &mut self,
        agent: &AgentId,
        run: &RunId,
        tool: &str,
        args_hash: ArgsHash,
    ) -> Result<Option<Approval>, StoreError> {
        approvals::open_alike(&mut self.tx, agent, run, tool, args_hash).await
    }

    async fn standing_denial(
        &mut self,
        agent: &AgentId,
        run: &RunId,
        tool: &str,
        args_hash: ArgsHash,
    ) -> Result<Option<StandingDenial>, StoreError> {
        approvals::standing_denial(&mut self.tx, agent, run, tool, args_hash).await
    }

    async fn open_counts(&mut self, agent: &AgentId, run: &RunId, now: Timestamp) -> Result<(u32, u32), StoreError> {
        approvals::open_counts(&mut self.tx, agent, run, now).await
    }

    async fn refused_count(&mut self, agent: &AgentId, run: &RunId, tool: &str) -> Result<u32, StoreError> {
        approvals::refused_count(&mut self.tx, agent, run, tool).await
    }

    async fn insert_approval(&mut self, approval: &Approval) -> Result<bool, StoreError> {
        approvals::insert(&mut self.tx, approval).await
    }

    async fn update_approval(&mut self, approval: &Approval) -> Result<(), StoreError> {
        approvals::update(&mut self.tx, approval).await
    }

    async fn confirmation(
        &mut self,
        approval: ApprovalId,
        reviewer: &ReviewerName,
    ) -> Result<Option<Confirmation>, StoreError> {
        confirmations::of(&mut self.tx, approval, reviewer).await
    }

    async fn put_confirmation(&mut self, confirmation: &Confirmation) -> Result<(), StoreError> {
        confirmations::put(&mut self.tx, confirmation).await
    }

    async fn attach_call(&mut self, call: &CallKey, approval: ApprovalId) -> Result<(), StoreError> {
        approvals::attach(&mut self.tx, call, approval).await
    }

    async fn attached_calls(&mut self, approval: ApprovalId) -> Result<Vec<CallKey>, StoreError> {
        approvals::attached(&mut self.tx, approval).await
    }

    async fn use_grant(
        &mut self,
        grant: GrantId,
        call: &CountedCall<'_>,
        decision: DecisionId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        grants::count(&mut self.tx, grant, call, decision, now).await
    }

    async fn insert_grant(&mut self, grant: &Grant) -> Result<(), StoreError> {
        grants::insert(&mut self.tx, grant).await
    }

    async fn revoke_grant(&mut self, id: GrantId, revocation: &Revocation) -> Result<(), StoreError> {
        grants::revoke(&mut self.tx, id, revocation).await
    }

    async fn count_use(
        &mut self,
        call: &CountedCall<'_>,
        measures: &[Measure],
        by: PermitKey,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        limits::count(&mut self.tx, call, measures, by, now).await
    }

    async fn give_back(&mut self, by: PermitKey) -> Result<(), StoreError> {
        limits::give_back(&mut self.tx, by).await
    }

    async fn insert_subjects(&mut self, subjects: &[Subject], call: &SubjectCall) -> Result<(), StoreError> {
        subjects::insert(&mut self.tx, subjects, call).await
    }

    async fn insert_payload(&mut self, payload: &Payload) -> Result<(), StoreError> {
        payloads::insert(&mut self.tx, payload).await
    }

    async fn remember(&mut self, record: &IdempotencyRecord) -> Result<Option<IdempotencyRecord>, StoreError> {
        idempotency::remember(&mut self.tx, record).await
    }

    async fn remembered(
        &mut self,
        caller: &str,
        route: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<IdempotencyRecord>, StoreError> {
        idempotency::remembered(&mut self.tx, caller, route, key, now).await
    }

    async fn record_decision_outcome(
        &mut self,
        outcome: &DecisionOutcome,
    ) -> Result<Option<DecisionOutcome>, StoreError> {
        idempotency::record_outcome(&mut self.tx, outcome).await
    }

    async fn key(&mut self, id: KeyId) -> Result<Option<KeyRecord>, StoreError> {
        keys::by_id(&mut self.tx, id).await
    }

    async fn insert_key(&mut self, key: &KeyRecord) -> Result<(), StoreError> {
        keys::insert(&mut self.tx, key).await
    }

    async fn revoke_key(&mut self, id: KeyId, now: Timestamp) -> Result<bool, StoreError> {
        keys::revoke(&mut self.tx, id, now).await
    }

    async fn session(&mut self, id: SessionId) -> Result<Option<SessionRecord>, StoreError> {
        sessions::by_id(&mut self.tx, id).await
    }

    async fn insert_session(&mut self, session: &SessionRecord, forget: Timestamp) -> Result<(), StoreError> {
        sessions::insert(&mut self.tx, session, forget).await
    }

    async fn session_seen(&mut self, id: SessionId, now: Timestamp) -> Result<(), StoreError> {
        sessions::seen(&mut self.tx, id, now).await
    }

    async fn revoke_session(&mut self, id: SessionId, now: Timestamp) -> Result<bool, StoreError> {
        sessions::revoke(&mut self.tx, id, now).await
    }

    async fn link(&mut self, hash: &[u8; 32]) -> Result<Option<Link>, StoreError> {
        sessions::link(&mut self.tx, hash).await
    }

    async fn insert_link(&mut self, link: &Link, forget: Timestamp) -> Result<(), StoreError> {
        sessions::insert_link(&mut self.tx, link, forget).await
    }

    async fn spend_link(&mut self, hash: &[u8; 32], now: Timestamp) -> Result<bool, StoreError> {
        sessions::spend_link(&mut self.tx, hash, now).await
    }

    async fn drop_inbox_links(&mut self) -> Result<(), StoreError> {
        sessions::drop_inbox_links(&mut self.tx).await
    }

    async fn insert_sign_in(&mut self, attempt: &SignInAttempt, now: Timestamp) -> Result<(), StoreError> {
        sessions::insert_attempt(&mut self.tx, attempt, now).await
    }

    async fn take_sign_in(&mut self, state_hash: &[u8; 32]) -> Result<Option<SignInAttempt>, StoreError> {
        sessions::take_attempt(&mut self.tx, state_hash).await
    }

    async fn insert_policy(&mut self, policy: &StoredPolicy) -> Result<bool, StoreError> {
        policies::insert(&mut self.tx, policy).await
    }

    async fn shared_permit_key(&mut self, candidate: &[u8], now: Timestamp) -> Result<Vec<u8>, StoreError> {
        keys::shared_permit_key(&mut self.tx, candidate, now).await
    }

    async fn insert_checkpoint(&mut self, checkpoint: &Checkpoint) -> Result<bool, StoreError> {
        checkpoints::insert(&mut self.tx, checkpoint).await
    }

    async fn enqueue(&mut self, notices: &[Notice]) -> Result<(), StoreError> {
        outbox::insert(&mut self.tx, notices).await?;
        self.announce(Change::Outbox);
        Ok(())
    }

    async fn lease_destination(
        &mut self,
        to: &Destination,
        lease: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Option<DestinationStanding>, StoreError> {
        outbox::lease(&mut self.tx, to, lease, now, until).await
    }

    async fn release_destination(
        &mut self,
        to: &Destination,
        lease: &str,
        standing: &DestinationStanding,
    ) -> Result<(), StoreError> {
        outbox::release(&mut self.tx, to, lease, standing).await
    }

    async fn enable_destination(&mut self, to: &Destination) -> Result<bool, StoreError> {
        outbox::enable(&mut self.tx, to).await
    }

    async fn finish_notices(
        &mut self,
        ids: &[NoticeId],
        ending: NoticeEnding,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        outbox::finish(&mut self.tx, ids, ending, now).await
    }

    async fn update_notice(&mut self, queued: &QueuedNotice) -> Result<(), StoreError> {
        outbox::update(&mut self.tx, queued).await
    }

    async fn pass_on_notice(&mut self, id: NoticeId) -> Result<bool, StoreError> {
        outbox::pass_on(&mut self.tx, id).await
    }

    async fn told_of(&mut self, approval: ApprovalId) -> Result<Vec<(Destination, Option<ReviewerName>)>, StoreError> {
        outbox::told_of(&mut self.tx, approval).await
    }

    async fn replay_notice(&mut self, id: NoticeId, now: Timestamp) -> Result<bool, StoreError> {
        outbox::replay(&mut self.tx, id, now).await
    }

    async fn forget_notices(&mut self, before: Timestamp) -> Result<u64, StoreError> {
        outbox::forget(&mut self.tx, before).await
    }

    async fn put_posting(
        &mut self,
        approval: ApprovalId,
        to: &Destination,
        place: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        outbox::put_posting(&mut self.tx, approval, to, place, now).await
    }

    fn append(&mut self, entry: Entry) {
        self.appended.push(entry);
    }

    fn announce(&mut self, change: Change) {
        self.announced.push(change);
    }

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        let Self { mut tx, channel, appended, announced } = *self;
        if !appended.is_empty() {
            let head = sqlx::query_as::<_, HeadRow>("select seq, chain from audit_head for update")
                .fetch_one(&mut *tx)
                .await
                .map_err(store_error)?
                .into_head()?;
            let sealed = seal_all(head, appended)?;
            match decisions::append(&mut tx, head, &sealed, &[], &[]).await?.map_err(store_error)? {
                GroupAppend::Written => {}
                GroupAppend::HeadMoved | GroupAppend::Guarded(_) => return Err(rows::unreadable("head")),
            }
        }
        // Also with nothing to announce: COMMIT of a transaction in which a statement failed rolls back without an
        // error, and this statement then fails first.
        changes::announce(&mut tx, &channel, &announced).await?;
        tx.commit().await.map_err(commit_error)
    }
}
