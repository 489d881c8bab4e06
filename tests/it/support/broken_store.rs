//! A store that answers nothing.

use async_trait::async_trait;
use countersign::{
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
use tokio::sync::broadcast;

/// In which way it is broken.
#[derive(Clone, Copy)]
pub(crate) enum BrokenStore {
    /// It cannot be reached.
    Refusing,
    /// It can be reached, and says nothing.
    Silent,
    /// Its driver has a fault.
    Panicking,
}

impl BrokenStore {
    async fn answer<T>(self) -> Result<T, StoreError> {
        match self {
            Self::Refusing => Err(StoreError::Unavailable("the cable is cut".to_owned())),
            Self::Silent => std::future::pending().await,
            Self::Panicking => panic!("the driver has a fault"),
        }
    }
}

#[async_trait]
impl Store for BrokenStore {
    async fn begin(&self) -> Result<Box<dyn Tx>, StoreError> {
        self.answer().await
    }

    async fn append_decisions(
        &self,
        _: Head,
        _: &[SealedEntry],
        _: &[&Payload],
        _: &[&Guard],
    ) -> Result<GroupAppend, StoreError> {
        self.answer().await
    }

    async fn head(&self) -> Result<Head, StoreError> {
        self.answer().await
    }

    async fn entries_after(&self, _: i64, _: u32) -> Result<Vec<SealedEntry>, StoreError> {
        self.answer().await
    }

    async fn entries(&self, _: &EntryFilter, _: Option<i64>, _: u32) -> Result<Vec<SealedEntry>, StoreError> {
        self.answer().await
    }

    async fn approval(&self, _: ApprovalId) -> Result<Option<Approval>, StoreError> {
        self.answer().await
    }

    async fn approvals(&self, _: &ApprovalFilter, _: Option<ApprovalId>, _: u32) -> Result<Vec<Approval>, StoreError> {
        self.answer().await
    }

    async fn open_twins(
        &self,
        _: &AgentId,
        _: &str,
        _: ArgsHash,
        _: Timestamp,
        _: u32,
    ) -> Result<Vec<Approval>, StoreError> {
        self.answer().await
    }

    async fn last_decided(&self, _: &AgentId, _: &str, _: ApprovalId) -> Result<Option<Approval>, StoreError> {
        self.answer().await
    }

    async fn calls_on(&self, _: &[Subject], _: u32) -> Result<Vec<SubjectCall>, StoreError> {
        self.answer().await
    }

    async fn due_approvals(&self, _: Timestamp, _: u32) -> Result<Vec<ApprovalId>, StoreError> {
        self.answer().await
    }

    async fn grants(&self, _: &GrantFilter, _: Option<GrantId>, _: u32) -> Result<Vec<GrantRecord>, StoreError> {
        self.answer().await
    }

    async fn run(&self, _: &RunKey, _: Timestamp) -> Result<Option<KnownRun>, StoreError> {
        self.answer().await
    }

    async fn runs(
        &self,
        _: &AgentId,
        _: RunFilter,
        _: Option<&RunId>,
        _: Timestamp,
        _: u32,
    ) -> Result<Vec<KnownRun>, StoreError> {
        self.answer().await
    }

    async fn parked(&self, _: &RunKey) -> Result<Option<Parked>, StoreError> {
        self.answer().await
    }

    async fn decisions_of_turn(&self, _: &RunKey, _: u32, _: u32) -> Result<Vec<SealedEntry>, StoreError> {
        self.answer().await
    }

    async fn decision_outcomes(&self, _: &[DecisionId]) -> Result<Vec<DecisionOutcome>, StoreError> {
        self.answer().await
    }

    async fn payload(&self, _: PayloadDigest) -> Result<Option<Payload>, StoreError> {
        self.answer().await
    }

    async fn keys(&self) -> Result<Vec<KeyRecord>, StoreError> {
        self.answer().await
    }

    async fn session(&self, _: &[u8; 32]) -> Result<Option<SessionRecord>, StoreError> {
        self.answer().await
    }

    async fn sessions_of(&self, _: &ReviewerName, _: Timestamp) -> Result<Vec<SessionRecord>, StoreError> {
        self.answer().await
    }

    async fn policy(&self, _: &PolicyVersion) -> Result<Option<StoredPolicy>, StoreError> {
        self.answer().await
    }

    async fn checkpoints(&self, _: u32) -> Result<Vec<Checkpoint>, StoreError> {
        self.answer().await
    }

    async fn due_destinations(&self, _: Timestamp) -> Result<Vec<Destination>, StoreError> {
        self.answer().await
    }

    async fn waiting_notices(&self, _: &Destination, _: Timestamp, _: u32) -> Result<Vec<QueuedNotice>, StoreError> {
        self.answer().await
    }

    async fn notices_to_pass_on(
        &self,
        _: Timestamp,
        _: Timestamp,
        _: Timestamp,
        _: u32,
    ) -> Result<Vec<QueuedNotice>, StoreError> {
        self.answer().await
    }

    async fn dead_notices(&self, _: Option<NoticeId>, _: u32) -> Result<Vec<QueuedNotice>, StoreError> {
        self.answer().await
    }

    async fn destinations(&self) -> Result<Vec<(Destination, DestinationStanding)>, StoreError> {
        self.answer().await
    }

    async fn outbox_counts(&self, _: Timestamp) -> Result<Vec<OutboxCount>, StoreError> {
        self.answer().await
    }

    async fn posting(&self, _: ApprovalId, _: &Destination) -> Result<Option<String>, StoreError> {
        self.answer().await
    }

    async fn posted_at(&self, _: &Destination, _: &str) -> Result<Vec<ApprovalId>, StoreError> {
        self.answer().await
    }

    async fn told_of_run(&self, _: &Destination, _: &RunKey) -> Result<Option<serde_json::Value>, StoreError> {
        self.answer().await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.answer().await
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        broadcast::channel(1).1
    }
}
