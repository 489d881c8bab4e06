//! A real store that fails when a test says so.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use countersign::{
    app::ports::{
        AgentStanding, ApprovalFilter, Change, Checkpoint, CountedCall, DecisionOutcome, DestinationStanding,
        EntryFilter, GrantFilter, GroupAppend, Guard, IdempotencyRecord, NoticeEnding, OutboxCount, Parked, PermitKey,
        RunFilter, SharedStore, Store, StoreError, StoredPolicy, SubjectCall, Tx,
    },
    domain::{
        approval::{confirmation::Confirmation, state::Approval},
        audit::{
            chain::{Head, SealedEntry},
            entry::Entry,
            payload::{Payload, PayloadDigest},
        },
        call::CallKey,
        canon::json::ArgsHash,
        channel::Destination,
        facts::StandingDenial,
        grant::{Grant, GrantRecord, Revocation},
        identity::{AgentId, KeyRecord, ReviewerName},
        ids::{ApprovalId, DecisionId, GrantId, KeyId, NoticeId, RunId, SessionId},
        limit::{Measure, Tally},
        notice::{Notice, QueuedNotice},
        policy::PolicyVersion,
        run::{KnownRun, Run, RunKey, RunLease},
        session::{Link, SessionRecord, SignInAttempt},
        subject::Subject,
        time::Timestamp,
    },
};
use tokio::sync::broadcast;

/// Where a store fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// When a transaction begins.
    Begin,
    /// Before a transaction is committed: it is not.
    Commit,
    /// After a transaction was committed: it is, and nobody is told.
    Committed,
    /// Before a group of decisions is appended: it is not.
    Append,
    /// After a group of decisions was appended: it is, and nobody is told.
    Appended,
}

/// What is to fail, in order of each place.
#[derive(Clone, Default)]
pub(crate) struct Faults(Arc<Mutex<VecDeque<(At, StoreError)>>>);

impl Faults {
    /// The next time at this place fails so.
    pub(crate) fn then(&self, at: At, error: StoreError) -> &Self {
        self.0.lock().unwrap().push_back((at, error));
        self
    }

    /// Whether everything that was to fail has failed.
    pub(crate) fn are_spent(&self) -> bool {
        self.0.lock().unwrap().is_empty()
    }

    /// What wraps a store so that it fails.
    pub(crate) fn wrap(&self) -> Arc<dyn Fn(SharedStore) -> SharedStore + Send + Sync> {
        let faults = self.clone();
        Arc::new(move |store| Arc::new(FaultyStore { store, faults: faults.clone() }))
    }

    fn take(&self, at: At) -> Result<(), StoreError> {
        let mut faults = self.0.lock().unwrap();
        match faults.iter().position(|(place, _)| *place == at) {
            Some(index) => Err(faults.remove(index).unwrap().1),
            None => Ok(()),
        }
    }
}

struct FaultyStore {
    store: SharedStore,
    faults: Faults,
}

struct FaultyTx {
    tx: Box<dyn Tx>,
    faults: Faults,
}

#[async_trait]
impl Store for FaultyStore {
    async fn begin(&self) -> Result<Box<dyn Tx>, StoreError> {
        self.faults.take(At::Begin)?;
        Ok(Box::new(FaultyTx { tx: self.store.begin().await?, faults: self.faults.clone() }))
    }

    async fn append_decisions(
        &self,
        before: Head,
        entries: &[SealedEntry],
        payloads: &[&Payload],
        guards: &[&Guard],
    ) -> Result<GroupAppend, StoreError> {
        self.faults.take(At::Append)?;
        let appended = self.store.append_decisions(before, entries, payloads, guards).await?;
        self.faults.take(At::Appended)?;
        Ok(appended)
    }

    async fn head(&self) -> Result<Head, StoreError> {
        self.store.head().await
    }

    async fn entries_after(&self, after: i64, limit: u32) -> Result<Vec<SealedEntry>, StoreError> {
        self.store.entries_after(after, limit).await
    }

    async fn entries(
        &self,
        filter: &EntryFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<SealedEntry>, StoreError> {
        self.store.entries(filter, before, limit).await
    }

    async fn approval(&self, id: ApprovalId) -> Result<Option<Approval>, StoreError> {
        self.store.approval(id).await
    }

    async fn approvals(
        &self,
        filter: &ApprovalFilter,
        before: Option<ApprovalId>,
        limit: u32,
    ) -> Result<Vec<Approval>, StoreError> {
        self.store.approvals(filter, before, limit).await
    }

    async fn open_twins(
        &self,
        agent: &AgentId,
        tool: &str,
        args_hash: ArgsHash,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<Approval>, StoreError> {
        self.store.open_twins(agent, tool, args_hash, now, limit).await
    }

    async fn last_decided(
        &self,
        agent: &AgentId,
        tool: &str,
        before: ApprovalId,
    ) -> Result<Option<Approval>, StoreError> {
        self.store.last_decided(agent, tool, before).await
    }

    async fn calls_on(&self, subjects: &[Subject], limit: u32) -> Result<Vec<SubjectCall>, StoreError> {
        self.store.calls_on(subjects, limit).await
    }

    async fn due_approvals(&self, now: Timestamp, limit: u32) -> Result<Vec<ApprovalId>, StoreError> {
        self.store.due_approvals(now, limit).await
    }

    async fn grants(
        &self,
        filter: &GrantFilter,
        before: Option<GrantId>,
        limit: u32,
    ) -> Result<Vec<GrantRecord>, StoreError> {
        self.store.grants(filter, before, limit).await
    }

    async fn run(&self, run: &RunKey, now: Timestamp) -> Result<Option<KnownRun>, StoreError> {
        self.store.run(run, now).await
    }

    async fn runs(
        &self,
        agent: &AgentId,
        filter: RunFilter,
        after: Option<&RunId>,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<KnownRun>, StoreError> {
        self.store.runs(agent, filter, after, now, limit).await
    }

    async fn parked(&self, run: &RunKey) -> Result<Option<Parked>, StoreError> {
        self.store.parked(run).await
    }

    async fn decisions_of_turn(&self, run: &RunKey, turn: u32, limit: u32) -> Result<Vec<SealedEntry>, StoreError> {
        self.store.decisions_of_turn(run, turn, limit).await
    }

    async fn decision_outcomes(&self, decisions: &[DecisionId]) -> Result<Vec<DecisionOutcome>, StoreError> {
        self.store.decision_outcomes(decisions).await
    }

    async fn payload(&self, digest: PayloadDigest) -> Result<Option<Payload>, StoreError> {
        self.store.payload(digest).await
    }

    async fn keys(&self) -> Result<Vec<KeyRecord>, StoreError> {
        self.store.keys().await
    }

    async fn session(&self, hash: &[u8; 32]) -> Result<Option<SessionRecord>, StoreError> {
        self.store.session(hash).await
    }

    async fn sessions_of(&self, reviewer: &ReviewerName, now: Timestamp) -> Result<Vec<SessionRecord>, StoreError> {
        self.store.sessions_of(reviewer, now).await
    }

    async fn policy(&self, version: &PolicyVersion) -> Result<Option<StoredPolicy>, StoreError> {
        self.store.policy(version).await
    }

    async fn checkpoints(&self, limit: u32) -> Result<Vec<Checkpoint>, StoreError> {
        self.store.checkpoints(limit).await
    }

    async fn due_destinations(&self, now: Timestamp) -> Result<Vec<Destination>, StoreError> {
        self.store.due_destinations(now).await
    }

    async fn waiting_notices(
        &self,
        to: &Destination,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<QueuedNotice>, StoreError> {
        self.store.waiting_notices(to, now, limit).await
    }

    async fn notices_to_pass_on(
        &self,
        failing: Timestamp,
        since: Timestamp,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<QueuedNotice>, StoreError> {
        self.store.notices_to_pass_on(failing, since, now, limit).await
    }

    async fn dead_notices(&self, before: Option<NoticeId>, limit: u32) -> Result<Vec<QueuedNotice>, StoreError> {
        self.store.dead_notices(before, limit).await
    }

    async fn destinations(&self) -> Result<Vec<(Destination, DestinationStanding)>, StoreError> {
        self.store.destinations().await
    }

    async fn outbox_counts(&self, now: Timestamp) -> Result<Vec<OutboxCount>, StoreError> {
        self.store.outbox_counts(now).await
    }

    async fn posting(&self, approval: ApprovalId, to: &Destination) -> Result<Option<String>, StoreError> {
        self.store.posting(approval, to).await
    }

    async fn posted_at(&self, to: &Destination, place: &str) -> Result<Vec<ApprovalId>, StoreError> {
        self.store.posted_at(to, place).await
    }

    async fn told_of_run(&self, to: &Destination, run: &RunKey) -> Result<Option<serde_json::Value>, StoreError> {
        self.store.told_of_run(to, run).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.store.ready().await
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.store.changes()
    }
}

#[async_trait]
impl Tx for FaultyTx {
    async fn lock_agent(&mut self, agent: &AgentId) -> Result<AgentStanding, StoreError> {
        self.tx.lock_agent(agent).await
    }

    async fn lock_run(&mut self, run: &RunKey) -> Result<Run, StoreError> {
        self.tx.lock_run(run).await
    }

    async fn any_paused(&mut self, agents: &[&AgentId]) -> Result<bool, StoreError> {
        self.tx.any_paused(agents).await
    }

    async fn set_labels(&mut self, head: &RunKey, labels: &BTreeSet<String>) -> Result<(), StoreError> {
        self.tx.set_labels(head, labels).await
    }

    async fn lock_grants(
        &mut self,
        call: &CountedCall<'_>,
        tool: &str,
        now: Timestamp,
    ) -> Result<Vec<GrantRecord>, StoreError> {
        self.tx.lock_grants(call, tool, now).await
    }

    async fn grant(&mut self, id: GrantId) -> Result<Option<GrantRecord>, StoreError> {
        self.tx.grant(id).await
    }

    async fn lock_limits(
        &mut self,
        call: &CountedCall<'_>,
        measures: &[Measure],
    ) -> Result<BTreeMap<String, Tally>, StoreError> {
        self.tx.lock_limits(call, measures).await
    }

    async fn known_run(&mut self, run: &RunKey, now: Timestamp) -> Result<KnownRun, StoreError> {
        self.tx.known_run(run, now).await
    }

    async fn update_run(&mut self, run: &Run) -> Result<(), StoreError> {
        self.tx.update_run(run).await
    }

    async fn set_requests(&mut self, run: &Run) -> Result<(), StoreError> {
        self.tx.set_requests(run).await
    }

    async fn runs_named(&mut self, run: &RunId, agents: &[&AgentId]) -> Result<Vec<RunKey>, StoreError> {
        self.tx.runs_named(run, agents).await
    }

    async fn below_head(&mut self, head: &RunKey) -> Result<Vec<Run>, StoreError> {
        self.tx.below_head(head).await
    }

    async fn set_run_lease(&mut self, run: &RunKey, lease: RunLease) -> Result<(), StoreError> {
        self.tx.set_run_lease(run, lease).await
    }

    async fn park(&mut self, run: &RunKey, parked: &Parked) -> Result<(), StoreError> {
        self.tx.park(run, parked).await
    }

    async fn set_pause(&mut self, agent: &AgentId, pause: Option<(Timestamp, &str)>) -> Result<(), StoreError> {
        self.tx.set_pause(agent, pause).await
    }

    async fn open_of_runs(&mut self, runs: &[RunKey]) -> Result<Vec<Approval>, StoreError> {
        self.tx.open_of_runs(runs).await
    }

    async fn open_under_agent(&mut self, agent: &AgentId) -> Result<Vec<Approval>, StoreError> {
        self.tx.open_under_agent(agent).await
    }

    async fn held(&mut self, call: &CallKey) -> Result<Option<Approval>, StoreError> {
        self.tx.held(call).await
    }

    async fn approval(&mut self, id: ApprovalId) -> Result<Option<Approval>, StoreError> {
        self.tx.approval(id).await
    }

    async fn open_alike(
        &mut self,
        agent: &AgentId,
        run: &RunId,
        tool: &str,
        args_hash: ArgsHash,
    ) -> Result<Option<Approval>, StoreError> {
        self.tx.open_alike(agent, run, tool, args_hash).await
    }

    async fn standing_denial(
        &mut self,
        agent: &AgentId,
        run: &RunId,
        tool: &str,
        args_hash: ArgsHash,
    ) -> Result<Option<StandingDenial>, StoreError> {
        self.tx.standing_denial(agent, run, tool, args_hash).await
    }

    async fn open_counts(&mut self, agent: &AgentId, run: &RunId, now: Timestamp) -> Result<(u32, u32), StoreError> {
        self.tx.open_counts(agent, run, now).await
    }

    async fn refused_count(&mut self, agent: &AgentId, run: &RunId, tool: &str) -> Result<u32, StoreError> {
        self.tx.refused_count(agent, run, tool).await
    }

    async fn insert_approval(&mut self, approval: &Approval) -> Result<bool, StoreError> {
        self.tx.insert_approval(approval).await
    }

    async fn update_approval(&mut self, approval: &Approval) -> Result<(), StoreError> {
        self.tx.update_approval(approval).await
    }

    async fn confirmation(
        &mut self,
        approval: ApprovalId,
        reviewer: &ReviewerName,
    ) -> Result<Option<Confirmation>, StoreError> {
        self.tx.confirmation(approval, reviewer).await
    }

    async fn put_confirmation(&mut self, confirmation: &Confirmation) -> Result<(), StoreError> {
        self.tx.put_confirmation(confirmation).await
    }

    async fn attach_call(&mut self, call: &CallKey, approval: ApprovalId) -> Result<(), StoreError> {
        self.tx.attach_call(call, approval).await
    }

    async fn attached_calls(&mut self, approval: ApprovalId) -> Result<Vec<CallKey>, StoreError> {
        self.tx.attached_calls(approval).await
    }

    async fn use_grant(
        &mut self,
        grant: GrantId,
        call: &CountedCall<'_>,
        decision: DecisionId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.tx.use_grant(grant, call, decision, now).await
    }

    async fn insert_grant(&mut self, grant: &Grant) -> Result<(), StoreError> {
        self.tx.insert_grant(grant).await
    }

    async fn revoke_grant(&mut self, id: GrantId, revocation: &Revocation) -> Result<(), StoreError> {
        self.tx.revoke_grant(id, revocation).await
    }

    async fn count_use(
        &mut self,
        call: &CountedCall<'_>,
        measures: &[Measure],
        by: PermitKey,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.tx.count_use(call, measures, by, now).await
    }

    async fn give_back(&mut self, by: PermitKey) -> Result<(), StoreError> {
        self.tx.give_back(by).await
    }

    async fn insert_subjects(&mut self, subjects: &[Subject], call: &SubjectCall) -> Result<(), StoreError> {
        self.tx.insert_subjects(subjects, call).await
    }

    async fn insert_payload(&mut self, payload: &Payload) -> Result<(), StoreError> {
        self.tx.insert_payload(payload).await
    }

    async fn remember(&mut self, record: &IdempotencyRecord) -> Result<Option<IdempotencyRecord>, StoreError> {
        self.tx.remember(record).await
    }

    async fn remembered(
        &mut self,
        caller: &str,
        route: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<IdempotencyRecord>, StoreError> {
        self.tx.remembered(caller, route, key, now).await
    }

    async fn record_decision_outcome(
        &mut self,
        outcome: &DecisionOutcome,
    ) -> Result<Option<DecisionOutcome>, StoreError> {
        self.tx.record_decision_outcome(outcome).await
    }

    async fn key(&mut self, id: KeyId) -> Result<Option<KeyRecord>, StoreError> {
        self.tx.key(id).await
    }

    async fn insert_key(&mut self, key: &KeyRecord) -> Result<(), StoreError> {
        self.tx.insert_key(key).await
    }

    async fn revoke_key(&mut self, id: KeyId, now: Timestamp) -> Result<bool, StoreError> {
        self.tx.revoke_key(id, now).await
    }

    async fn session(&mut self, id: SessionId) -> Result<Option<SessionRecord>, StoreError> {
        self.tx.session(id).await
    }

    async fn insert_session(&mut self, session: &SessionRecord, forget: Timestamp) -> Result<(), StoreError> {
        self.tx.insert_session(session, forget).await
    }

    async fn session_seen(&mut self, id: SessionId, now: Timestamp) -> Result<(), StoreError> {
        self.tx.session_seen(id, now).await
    }

    async fn revoke_session(&mut self, id: SessionId, now: Timestamp) -> Result<bool, StoreError> {
        self.tx.revoke_session(id, now).await
    }

    async fn link(&mut self, hash: &[u8; 32]) -> Result<Option<Link>, StoreError> {
        self.tx.link(hash).await
    }

    async fn insert_link(&mut self, link: &Link, forget: Timestamp) -> Result<(), StoreError> {
        self.tx.insert_link(link, forget).await
    }

    async fn spend_link(&mut self, hash: &[u8; 32], now: Timestamp) -> Result<bool, StoreError> {
        self.tx.spend_link(hash, now).await
    }

    async fn drop_inbox_links(&mut self) -> Result<(), StoreError> {
        self.tx.drop_inbox_links().await
    }

    async fn insert_sign_in(&mut self, attempt: &SignInAttempt, now: Timestamp) -> Result<(), StoreError> {
        self.tx.insert_sign_in(attempt, now).await
    }

    async fn take_sign_in(&mut self, state_hash: &[u8; 32]) -> Result<Option<SignInAttempt>, StoreError> {
        self.tx.take_sign_in(state_hash).await
    }

    async fn insert_policy(&mut self, policy: &StoredPolicy) -> Result<bool, StoreError> {
        self.tx.insert_policy(policy).await
    }

    async fn shared_permit_key(&mut self, candidate: &[u8], now: Timestamp) -> Result<Vec<u8>, StoreError> {
        self.tx.shared_permit_key(candidate, now).await
    }

    async fn insert_checkpoint(&mut self, checkpoint: &Checkpoint) -> Result<bool, StoreError> {
        self.tx.insert_checkpoint(checkpoint).await
    }

    async fn enqueue(&mut self, notices: &[Notice]) -> Result<(), StoreError> {
        self.tx.enqueue(notices).await
    }

    async fn lease_destination(
        &mut self,
        to: &Destination,
        lease: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Option<DestinationStanding>, StoreError> {
        self.tx.lease_destination(to, lease, now, until).await
    }

    async fn release_destination(
        &mut self,
        to: &Destination,
        lease: &str,
        standing: &DestinationStanding,
    ) -> Result<(), StoreError> {
        self.tx.release_destination(to, lease, standing).await
    }

    async fn enable_destination(&mut self, to: &Destination) -> Result<bool, StoreError> {
        self.tx.enable_destination(to).await
    }

    async fn finish_notices(
        &mut self,
        ids: &[NoticeId],
        ending: NoticeEnding,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.tx.finish_notices(ids, ending, now).await
    }

    async fn update_notice(&mut self, queued: &QueuedNotice) -> Result<(), StoreError> {
        self.tx.update_notice(queued).await
    }

    async fn pass_on_notice(&mut self, id: NoticeId) -> Result<bool, StoreError> {
        self.tx.pass_on_notice(id).await
    }

    async fn told_of(&mut self, approval: ApprovalId) -> Result<Vec<(Destination, Option<ReviewerName>)>, StoreError> {
        self.tx.told_of(approval).await
    }

    async fn replay_notice(&mut self, id: NoticeId, now: Timestamp) -> Result<bool, StoreError> {
        self.tx.replay_notice(id, now).await
    }

    async fn forget_notices(&mut self, before: Timestamp) -> Result<u64, StoreError> {
        self.tx.forget_notices(before).await
    }

    async fn put_posting(
        &mut self,
        approval: ApprovalId,
        to: &Destination,
        place: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.tx.put_posting(approval, to, place, now).await
    }

    fn append(&mut self, entry: Entry) {
        self.tx.append(entry);
    }

    fn announce(&mut self, change: Change) {
        self.tx.announce(change);
    }

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        self.faults.take(At::Commit)?;
        self.tx.commit().await?;
        self.faults.take(At::Committed)
    }
}
