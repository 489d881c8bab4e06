//! The store in one SQLite file: WAL, full sync, one connection that writes and several that only read.

use std::{fs::OpenOptions, io::ErrorKind, os::unix::fs::OpenOptionsExt, path::Path, str::FromStr, time::Duration};

use async_trait::async_trait;
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use tokio::sync::broadcast;

use super::{Background, ConnectOptions};
use crate::{
    app::ports::{
        ApprovalFilter, Change, Checkpoint, DecisionOutcome, DestinationStanding, EntryFilter, GrantFilter,
        GroupAppend, Guard, OutboxCount, Parked, RunFilter, Store, StoreError, StoredPolicy, SubjectCall, Tx,
    },
    domain::{
        approval::state::Approval,
        audit::{
            chain::{Head, SealedEntry},
            payload::{Payload, PayloadDigest},
        },
        canon::json::ArgsHash,
        channel::Destination,
        grant::GrantRecord,
        identity::{AgentId, KeyRecord, ReviewerName},
        ids::{ApprovalId, DecisionId, GrantId, NoticeId, RunId},
        notice::QueuedNotice,
        policy::PolicyVersion,
        run::{KnownRun, RunKey},
        session::SessionRecord,
        subject::Subject,
        time::Timestamp,
    },
};

use errors::store_error;

mod approvals;
mod changes;
mod checkpoints;
mod confirmations;
mod decisions;
mod entries;
mod errors;
mod grants;
mod idempotency;
mod keys;
mod limits;
mod outbox;
mod payloads;
mod policies;
mod runs;
mod schema;
mod sessions;
mod subjects;
mod tx;

/// How long to wait for a connection of the pool.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);

/// How long to wait for another process that writes the same file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(1);

/// How many changes a slow subscriber may be behind before it is told that it missed some.
const CHANGES_KEPT: usize = 1_024;

/// A store in one file.
pub(super) struct SqliteStore {
    /// One connection: SQLite has one writer, and waiting in this queue is fairer than waiting for its lock.
    writer: SqlitePool,
    /// Connections that cannot write, and never wait for the one that does.
    readers: SqlitePool,
    changes: broadcast::Sender<Change>,
    _watcher: Background,
}

impl SqliteStore {
    pub(super) async fn connect(url: &str, options: ConnectOptions) -> Result<Self, StoreError> {
        let file = SqliteConnectOptions::from_str(url)
            .map_err(|error| StoreError::Unavailable(error.to_string()))?
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT)
            .foreign_keys(true)
            // With it `insert or replace` fires the delete trigger that protects the log.
            .pragma("recursive_triggers", "on");
        if url.contains(":memory:") || url.contains("mode=memory") {
            return Err(StoreError::Unavailable("the SQLite database must be a file".to_owned()));
        }
        create_private(file.get_filename())?;
        let pool = SqlitePoolOptions::new().acquire_timeout(ACQUIRE_TIMEOUT).idle_timeout(None).max_lifetime(None);
        let writer = pool
            .clone()
            .max_connections(1)
            .test_before_acquire(false)
            .connect_with(file.clone())
            .await
            .map_err(store_error)?;
        let readers = pool
            .max_connections(options.max_connections.max(1))
            .test_before_acquire(false)
            .connect_with(file.read_only(true))
            .await
            .map_err(store_error)?;
        let (changes, _) = broadcast::channel(CHANGES_KEPT);
        // Before anything is read through this store, so that nothing falls between a read and the first count.
        let seen = changes::version(&writer).await?;
        let watcher = Background(tokio::spawn(changes::watch(writer.clone(), seen, changes.clone())));
        Ok(Self { writer, readers, changes, _watcher: watcher })
    }

    pub(super) async fn migrate(&self) -> Result<(), StoreError> {
        schema::migrate(&self.writer).await
    }

    pub(super) async fn pending_migrations(&self) -> Result<usize, StoreError> {
        schema::pending(&self.readers).await
    }
}

/// Creates the file for its owner alone; SQLite gives the files beside it the same mode.
fn create_private(path: &Path) -> Result<(), StoreError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(StoreError::Unavailable(format!("{}: {error}", path.display()))),
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn begin(&self) -> Result<Box<dyn Tx>, StoreError> {
        let tx = self.writer.begin_with("begin immediate").await.map_err(store_error)?;
        Ok(Box::new(tx::SqliteTx::new(tx, self.changes.clone())))
    }

    async fn append_decisions(
        &self,
        before: Head,
        entries: &[SealedEntry],
        payloads: &[&Payload],
        guards: &[&Guard],
    ) -> Result<GroupAppend, StoreError> {
        decisions::append(&self.writer, before, entries, payloads, guards).await
    }

    async fn head(&self) -> Result<Head, StoreError> {
        entries::head(&mut *self.readers.acquire().await.map_err(store_error)?).await
    }

    async fn entries_after(&self, after: i64, limit: u32) -> Result<Vec<SealedEntry>, StoreError> {
        entries::after(&self.readers, after, limit).await
    }

    async fn entries(
        &self,
        filter: &EntryFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<SealedEntry>, StoreError> {
        entries::list(&self.readers, filter, before, limit).await
    }

    async fn approval(&self, id: ApprovalId) -> Result<Option<Approval>, StoreError> {
        approvals::by_id(&mut *self.readers.acquire().await.map_err(store_error)?, id).await
    }

    async fn approvals(
        &self,
        filter: &ApprovalFilter,
        before: Option<ApprovalId>,
        limit: u32,
    ) -> Result<Vec<Approval>, StoreError> {
        approvals::list(&self.readers, filter, before, limit).await
    }

    async fn open_twins(
        &self,
        agent: &AgentId,
        tool: &str,
        args_hash: ArgsHash,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<Approval>, StoreError> {
        approvals::open_twins(&self.readers, agent, tool, args_hash, now, limit).await
    }

    async fn last_decided(
        &self,
        agent: &AgentId,
        tool: &str,
        before: ApprovalId,
    ) -> Result<Option<Approval>, StoreError> {
        approvals::last_decided(&self.readers, agent, tool, before).await
    }

    async fn calls_on(&self, subjects: &[Subject], limit: u32) -> Result<Vec<SubjectCall>, StoreError> {
        subjects::calls(&self.readers, subjects, limit).await
    }

    async fn due_approvals(&self, now: Timestamp, limit: u32) -> Result<Vec<ApprovalId>, StoreError> {
        approvals::due(&self.readers, now, limit).await
    }

    async fn grants(
        &self,
        filter: &GrantFilter,
        before: Option<GrantId>,
        limit: u32,
    ) -> Result<Vec<GrantRecord>, StoreError> {
        grants::list(&self.readers, filter, before, limit).await
    }

    async fn run(&self, run: &RunKey, now: Timestamp) -> Result<Option<KnownRun>, StoreError> {
        runs::by_name(&self.readers, run, now).await
    }

    async fn runs(
        &self,
        agent: &AgentId,
        filter: RunFilter,
        after: Option<&RunId>,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<KnownRun>, StoreError> {
        runs::list(&self.readers, agent, filter, after, now, limit).await
    }

    async fn parked(&self, run: &RunKey) -> Result<Option<Parked>, StoreError> {
        runs::parked(&self.readers, run).await
    }

    async fn decisions_of_turn(&self, run: &RunKey, turn: u32, limit: u32) -> Result<Vec<SealedEntry>, StoreError> {
        entries::of_turn(&self.readers, run, turn, limit).await
    }

    async fn decision_outcomes(&self, decisions: &[DecisionId]) -> Result<Vec<DecisionOutcome>, StoreError> {
        idempotency::outcomes(&self.readers, decisions).await
    }

    async fn payload(&self, digest: PayloadDigest) -> Result<Option<Payload>, StoreError> {
        payloads::by_digest(&self.readers, digest).await
    }

    async fn keys(&self) -> Result<Vec<KeyRecord>, StoreError> {
        keys::all(&self.readers).await
    }

    async fn session(&self, hash: &[u8; 32]) -> Result<Option<SessionRecord>, StoreError> {
        sessions::by_hash(&self.readers, hash).await
    }

    async fn sessions_of(&self, reviewer: &ReviewerName, now: Timestamp) -> Result<Vec<SessionRecord>, StoreError> {
        sessions::of_reviewer(&self.readers, reviewer, now).await
    }

    async fn policy(&self, version: &PolicyVersion) -> Result<Option<StoredPolicy>, StoreError> {
        policies::by_version(&self.readers, version).await
    }

    async fn checkpoints(&self, limit: u32) -> Result<Vec<Checkpoint>, StoreError> {
        checkpoints::newest(&self.readers, limit).await
    }

    async fn due_destinations(&self, now: Timestamp) -> Result<Vec<Destination>, StoreError> {
        outbox::due(&self.readers, now).await
    }

    async fn waiting_notices(
        &self,
        to: &Destination,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<QueuedNotice>, StoreError> {
        outbox::waiting(&self.readers, to, now, limit).await
    }

    async fn notices_to_pass_on(
        &self,
        failing: Timestamp,
        since: Timestamp,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<QueuedNotice>, StoreError> {
        outbox::to_pass_on(&self.readers, failing, since, now, limit).await
    }

    async fn dead_notices(&self, before: Option<NoticeId>, limit: u32) -> Result<Vec<QueuedNotice>, StoreError> {
        outbox::dead(&self.readers, before, limit).await
    }

    async fn destinations(&self) -> Result<Vec<(Destination, DestinationStanding)>, StoreError> {
        outbox::standings(&self.readers).await
    }

    async fn outbox_counts(&self, now: Timestamp) -> Result<Vec<OutboxCount>, StoreError> {
        outbox::counts(&self.readers, now).await
    }

    async fn posting(&self, approval: ApprovalId, to: &Destination) -> Result<Option<String>, StoreError> {
        outbox::place(&self.readers, approval, to).await
    }

    async fn posted_at(&self, to: &Destination, place: &str) -> Result<Vec<ApprovalId>, StoreError> {
        outbox::posted_at(&self.readers, to, place).await
    }

    async fn told_of_run(&self, to: &Destination, run: &RunKey) -> Result<Option<serde_json::Value>, StoreError> {
        outbox::told_of_run(&self.readers, to, run).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        match self.pending_migrations().await? {
            0 => Ok(()),
            pending => Err(StoreError::Unreadable(format!("the schema lacks {pending} migrations"))),
        }
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }
}
