//! A store that never answers.

use async_trait::async_trait;
use countersign::{
    app::ports::{
        ApprovalFilter, Change, Checkpoint, EntryFilter, GroupAppend, Guard, Store, StoreError, StoredPolicy, Tx,
    },
    domain::{
        approval::state::Approval,
        audit::{
            chain::{Head, SealedEntry},
            payload::{Payload, PayloadDigest},
        },
        identity::KeyRecord,
        ids::ApprovalId,
        policy::PolicyVersion,
        time::Timestamp,
    },
};
use tokio::sync::broadcast;

/// Says [`StoreError::Unavailable`] to everything.
pub(crate) struct BrokenStore;

fn down<T>() -> Result<T, StoreError> {
    Err(StoreError::Unavailable("the cable is cut".to_owned()))
}

#[async_trait]
impl Store for BrokenStore {
    async fn begin(&self) -> Result<Box<dyn Tx>, StoreError> {
        down()
    }

    async fn append_decisions(
        &self,
        _: Head,
        _: &[SealedEntry],
        _: &[&Payload],
        _: &[&Guard],
    ) -> Result<GroupAppend, StoreError> {
        down()
    }

    async fn head(&self) -> Result<Head, StoreError> {
        down()
    }

    async fn entries_after(&self, _: i64, _: u32) -> Result<Vec<SealedEntry>, StoreError> {
        down()
    }

    async fn entries(&self, _: &EntryFilter, _: Option<i64>, _: u32) -> Result<Vec<SealedEntry>, StoreError> {
        down()
    }

    async fn approval(&self, _: ApprovalId) -> Result<Option<Approval>, StoreError> {
        down()
    }

    async fn approvals(&self, _: &ApprovalFilter, _: Option<ApprovalId>, _: u32) -> Result<Vec<Approval>, StoreError> {
        down()
    }

    async fn due_approvals(&self, _: Timestamp, _: u32) -> Result<Vec<ApprovalId>, StoreError> {
        down()
    }

    async fn payload(&self, _: PayloadDigest) -> Result<Option<Payload>, StoreError> {
        down()
    }

    async fn keys(&self) -> Result<Vec<KeyRecord>, StoreError> {
        down()
    }

    async fn policy(&self, _: &PolicyVersion) -> Result<Option<StoredPolicy>, StoreError> {
        down()
    }

    async fn checkpoints(&self, _: u32) -> Result<Vec<Checkpoint>, StoreError> {
        down()
    }

    async fn ready(&self) -> Result<(), StoreError> {
        down()
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        broadcast::channel(1).1
    }
}
