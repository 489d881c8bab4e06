//! The store on Postgres, shared by any number of instances.

use std::{str::FromStr, time::Duration};

use async_trait::async_trait;
use sqlx::{
    Connection, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions, PgSslMode},
};
use tokio::{
    sync::{Mutex, broadcast},
    time::timeout,
};

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

use errors::{commit_error, read_error};

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

/// How long to wait for a connection, of the pool or a new one.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);

/// How many changes a slow subscriber may be behind before it is told that it missed some.
const CHANGES_KEPT: usize = 1_024;

/// A store in a Postgres schema: the first one of the connection's search path.
pub(super) struct PostgresStore {
    /// Connections without time limits, for migrations.
    options: PgConnectOptions,
    decision_options: PgConnectOptions,
    /// The connection that commits groups of decisions; `None` until it is needed again after a failure.
    decisions: Mutex<Option<PgConnection>>,
    transactions: PgPool,
    /// Apart from those of transactions, so that a use case may read while it holds one: out of one pool, as many use
    /// cases as it has connections could all wait for one more.
    readers: PgPool,
    channel: String,
    changes: broadcast::Sender<Change>,
    _listener: Background,
}

impl PostgresStore {
    pub(super) async fn connect(url: &str, limits: ConnectOptions) -> Result<Self, StoreError> {
        let options = parse(url)?;
        // The server ends what hangs, an instance that vanished with a lock on the log's head in its hands included.
        let limited = options.clone().options([
            ("statement_timeout", "10s"),
            ("lock_timeout", "3s"),
            ("idle_in_transaction_session_timeout", "10s"),
        ]);
        // One plan for every group: by index, even while the tables of the guards are so small, or grew so fast, that
        // their statistics would rather have them read as a whole.
        let decision_options =
            limited.clone().options([("plan_cache_mode", "force_generic_plan"), ("enable_seqscan", "off")]);

        let mut first = open(&decision_options).await?;
        let channel: String = sqlx::query_scalar(
            "select 'countersign_' || coalesce(max(oid::text), '0') from pg_namespace where nspname = current_schema()",
        )
        .fetch_one(&mut first)
        .await
        .map_err(read_error)?;

        let pool = PgPoolOptions::new().acquire_timeout(ACQUIRE_TIMEOUT);
        let for_reads = (limits.max_connections / 4).max(1);
        let for_transactions = limits.max_connections.saturating_sub(for_reads).max(1);
        let transactions = pool.clone().max_connections(for_transactions).connect_lazy_with(limited.clone());
        let readers = pool.clone().max_connections(for_reads).connect_lazy_with(limited);
        let listening =
            pool.max_connections(1).idle_timeout(None).max_lifetime(None).connect_lazy_with(options.clone());
        let (changes, _) = broadcast::channel(CHANGES_KEPT);
        // Before anything is read through this store, so that nothing falls between a read and the first change heard.
        let listener = changes::listen(&listening, &channel).await.map_err(read_error)?;
        let listener =
            Background(tokio::spawn(changes::pass_on(listener, listening, channel.clone(), changes.clone())));
        Ok(Self {
            options,
            decision_options,
            decisions: Mutex::new(Some(first)),
            transactions,
            readers,
            channel,
            changes,
            _listener: listener,
        })
    }

    pub(super) async fn migrate(&self) -> Result<(), StoreError> {
        schema::migrate(&mut open(&self.options).await?).await
    }

    pub(super) async fn pending_migrations(&self) -> Result<usize, StoreError> {
        schema::pending(&self.readers).await
    }
}

fn parse(url: &str) -> Result<PgConnectOptions, StoreError> {
    let options = PgConnectOptions::from_str(url)
        .map_err(|error| StoreError::Unavailable(error.to_string()))?
        .application_name("countersign");
    // sqlx 0.9.0 leaves Nagle's algorithm on (launchbadge/sqlx#4335), and TLS sends a group of decisions in many
    // pieces: on loopback each group then waits 40 ms for an acknowledgement. There, `prefer` hides nothing from anyone.
    let on_this_machine = matches!(options.get_host(), "localhost" | "127.0.0.1" | "::1" | "[::1]");
    Ok(if on_this_machine && matches!(options.get_ssl_mode(), PgSslMode::Prefer) {
        options.ssl_mode(PgSslMode::Disable)
    } else {
        options
    })
}

async fn open(options: &PgConnectOptions) -> Result<PgConnection, StoreError> {
    match timeout(ACQUIRE_TIMEOUT, PgConnection::connect_with(options)).await {
        Ok(connected) => connected.map_err(read_error),
        Err(_) => Err(StoreError::Unavailable("the database server does not answer".to_owned())),
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn begin(&self) -> Result<Box<dyn Tx>, StoreError> {
        let tx = self.transactions.begin_with("begin isolation level read committed").await.map_err(read_error)?;
        Ok(Box::new(tx::PostgresTx::new(tx, self.channel.clone())))
    }

    async fn append_decisions(
        &self,
        before: Head,
        entries: &[SealedEntry],
        payloads: &[&Payload],
        guards: &[&Guard],
    ) -> Result<GroupAppend, StoreError> {
        let mut slot = self.decisions.lock().await;
        // Taken out, and put back only when it is known to be sound: not after an error, nor when this future is
        // dropped half-way.
        let mut connection = match slot.take() {
            Some(connection) => connection,
            None => open(&self.decision_options).await?,
        };
        let appended = decisions::append(&mut connection, before, entries, payloads, guards).await?;
        if appended.is_ok() {
            *slot = Some(connection);
        }
        appended.map_err(commit_error)
    }

    async fn head(&self) -> Result<Head, StoreError> {
        entries::head(&self.readers).await
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
        approvals::by_id(&self.readers, id).await
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
