//! The audit log's use cases: the one writer that commits decisions in groups, reading, verifying, explaining.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::{
    App,
    error::Error,
    ports::{EntryFilter, GroupAppend, Guard, SharedStore, StoreError},
};
use crate::domain::{
    audit::{
        chain::{self, ChainFault, Head, SealedEntry},
        entry::Entry,
        payload::Payload,
    },
    ids::{ApprovalId, DecisionId},
};

/// How many decisions wait for the writer at most; more wait at the door.
const QUEUE: usize = 4_096;

/// How many decisions one statement commits at most.
const GROUP: usize = 512;

/// How many entries `verify` reads at a time.
const PAGE: u32 = 2_000;

/// A decision that needs no locks, ready to be committed.
#[derive(Debug)]
pub struct DecisionRecord {
    /// Its entry.
    pub entry: Entry,
    /// The payload beside it.
    pub payload: Option<Payload>,
    /// What must not be there for it to stand.
    pub guard: Guard,
}

/// How a decision's commit went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// It is in the log; the answer may go out.
    Written,
    /// The call was held or denied before: nothing was written, and it is to be settled in a transaction.
    Guarded,
}

struct Waiting {
    record: DecisionRecord,
    answer: oneshot::Sender<Result<Appended, StoreError>>,
}

/// The door to the writer of this instance.
#[derive(Clone, Debug)]
pub struct DecisionLog {
    queue: mpsc::Sender<Waiting>,
}

/// The writer: the only one of this instance that appends decisions.
pub struct DecisionWriter {
    queue: mpsc::Receiver<Waiting>,
    store: SharedStore,
    head: Option<Head>,
}

impl DecisionLog {
    /// A door and its writer, which [`DecisionWriter::run`] starts.
    pub fn new(store: SharedStore) -> (Self, DecisionWriter) {
        let (sender, queue) = mpsc::channel(QUEUE);
        (Self { queue: sender }, DecisionWriter { queue, store, head: None })
    }

    /// Commits a decision. Returns after the commit.
    ///
    /// # Errors
    /// As the store's; nothing may be permitted then.
    pub async fn append(&self, record: DecisionRecord) -> Result<Appended, StoreError> {
        let gone = |_| StoreError::Unavailable("the decision writer has stopped".to_owned());
        let (answer, committed) = oneshot::channel();
        self.queue.send(Waiting { record, answer }).await.map_err(|error| gone(error.to_string()))?;
        committed.await.map_err(|error| gone(error.to_string()))?
    }
}

impl DecisionWriter {
    /// Commits what waits, group by group, until every door is dropped.
    pub async fn run(mut self) {
        let mut group = Vec::with_capacity(GROUP);
        while self.queue.recv_many(&mut group, GROUP).await > 0 {
            self.commit(std::mem::take(&mut group)).await;
        }
    }

    async fn commit(&mut self, mut group: Vec<Waiting>) {
        // Another transaction's commit costs a round; so many in a row mean that something else is wrong.
        const ROUNDS: u32 = 50;
        // The store has waited for the others already: whoever asks is better told soon than kept waiting for long.
        const CONTENDED_ROUNDS: u32 = 4;
        let mut contended = 0;
        for _ in 0..ROUNDS {
            match self.attempt(&group).await {
                Ok(GroupAppend::Written) => return answer_all(group, &Ok(Appended::Written)),
                Ok(GroupAppend::HeadMoved) => self.head = None,
                Err(StoreError::Contended(_)) if contended < CONTENDED_ROUNDS => {
                    contended += 1;
                    self.head = None;
                }
                Ok(GroupAppend::Guarded(indices)) => {
                    for index in indices.into_iter().rev() {
                        if index < group.len() {
                            answer_all(vec![group.remove(index)], &Ok(Appended::Guarded));
                        }
                    }
                    if group.is_empty() {
                        return;
                    }
                }
                Err(error) => {
                    // The commit may have happened: only the store knows the head now.
                    self.head = None;
                    return answer_all(group, &Err(error));
                }
            }
        }
        answer_all(group, &Err(StoreError::Unavailable("the head of the log keeps moving".to_owned())));
    }

    async fn attempt(&mut self, group: &[Waiting]) -> Result<GroupAppend, StoreError> {
        let before = match self.head {
            Some(head) => head,
            None => self.store.head().await?,
        };
        self.head = Some(before);
        let mut head = before;
        let mut entries = Vec::with_capacity(group.len());
        for waiting in group {
            let (sealed, next) = chain::seal(head, waiting.record.entry.clone())
                .map_err(|error| StoreError::Unreadable(error.to_string()))?;
            entries.push(sealed);
            head = next;
        }
        let payloads: Vec<&Payload> = group.iter().filter_map(|waiting| waiting.record.payload.as_ref()).collect();
        let guards: Vec<&Guard> = group.iter().map(|waiting| &waiting.record.guard).collect();
        let appended = self.store.append_decisions(before, &entries, &payloads, &guards).await?;
        if appended == GroupAppend::Written {
            self.head = Some(head);
        }
        Ok(appended)
    }
}

fn answer_all(group: Vec<Waiting>, answer: &Result<Appended, StoreError>) {
    for waiting in group {
        // Who no longer listens was cut off by a time-out; the entry stands, and asking again finds it.
        let _ = waiting.answer.send(answer.clone());
    }
}

/// A page of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryPage {
    /// Newest first.
    pub entries: Vec<SealedEntry>,
    /// Where the next page begins.
    pub next: Option<i64>,
}

/// What `verify` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verification {
    /// How many entries were checked and found good.
    pub checked: i64,
    /// The head over them.
    pub head: Head,
    /// The first bad entry, by its `seq`, and what is wrong with it.
    pub fault: Option<(i64, VerificationFault)>,
}

/// What is wrong with the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerificationFault {
    /// An entry is bad.
    #[error(transparent)]
    Entry(#[from] ChainFault),
    /// The log is shorter or longer than its head says.
    #[error("the log does not end where its head says")]
    Head,
    /// The log does not contain what a checkpoint signed.
    #[error("the log is not the one that the checkpoint covers")]
    Checkpoint,
}

/// Checks every entry of the log against the chain, the head and the stored checkpoints; names the first bad one.
///
/// # Errors
/// When the store cannot be read.
pub async fn verify(store: &SharedStore) -> Result<Verification, StoreError> {
    // Read first: what is appended meanwhile is beyond it, and checked as far as it goes.
    let recorded = store.head().await?;
    let mut checkpoints = store.checkpoints(u32::MAX).await?;
    let mut head = Head::EMPTY;
    let mut frontier = crate::domain::audit::merkle::Frontier::default();
    loop {
        let page = store.entries_after(head.seq, PAGE).await?;
        if page.is_empty() {
            break;
        }
        for sealed in &page {
            match chain::check(head, sealed) {
                Ok(next) => head = next,
                Err(fault) => {
                    let seq = match fault {
                        ChainFault::Gap { expected } => expected,
                        ChainFault::Leaf | ChainFault::Chain => sealed.seq,
                    };
                    return Ok(Verification { checked: head.seq, head, fault: Some((seq, fault.into())) });
                }
            }
            frontier.push(sealed.leaf);
            if head.seq == recorded.seq && head.chain != recorded.chain {
                return Ok(Verification { checked: head.seq, head, fault: Some((head.seq, VerificationFault::Head)) });
            }
            while let Some(checkpoint) = checkpoints.pop_if(|checkpoint| checkpoint.size == head.seq) {
                if checkpoint.root != frontier.root() {
                    let fault = Some((head.seq, VerificationFault::Checkpoint));
                    return Ok(Verification { checked: head.seq, head, fault });
                }
            }
        }
    }
    let short = head.seq < recorded.seq || checkpoints.iter().any(|checkpoint| checkpoint.size > head.seq);
    let end = store.head().await?.seq;
    let fault = if short {
        Some((head.seq + 1, VerificationFault::Head))
    } else {
        (head.seq > end).then_some((end + 1, VerificationFault::Head))
    };
    Ok(Verification { checked: head.seq, head, fault })
}

/// A decision or approval explained: its entries with the payload of each that has one.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The entries about it, oldest first.
    pub entries: Vec<ExplainedEntry>,
}

/// An entry with its payload.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainedEntry {
    /// The entry.
    pub sealed: SealedEntry,
    /// Its payload; `None` when there is none, or it was erased or never kept.
    pub payload: Option<Value>,
}

/// What `why` can be asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// One decision.
    Decision(DecisionId),
    /// One approval.
    Approval(ApprovalId),
}

/// Explains a decision or an approval from the log alone.
///
/// # Errors
/// When the store cannot be read.
pub async fn why(store: &SharedStore, subject: Subject) -> Result<Option<Explanation>, StoreError> {
    const MOST: u32 = 200;
    let filter = match subject {
        Subject::Decision(id) => EntryFilter { decision: Some(id), ..EntryFilter::default() },
        Subject::Approval(id) => EntryFilter { approval: Some(id), ..EntryFilter::default() },
    };
    let mut entries = Vec::new();
    for sealed in store.entries(&filter, None, MOST).await?.into_iter().rev() {
        let payload = match sealed.entry.payload {
            Some(digest) => store.payload(digest).await?,
            None => None,
        };
        let payload = payload.and_then(|payload| serde_json::from_str(payload.body()).ok());
        entries.push(ExplainedEntry { sealed, payload });
    }
    Ok((!entries.is_empty()).then_some(Explanation { entries }))
}

impl App {
    /// A page of the log, newest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn audit_page(&self, filter: &EntryFilter, before: Option<i64>, limit: u32) -> Result<EntryPage, Error> {
        let mut entries = self.store.entries(filter, before, limit.saturating_add(1)).await?;
        let more = entries.len() > limit as usize;
        entries.truncate(limit as usize);
        let next = if more { entries.last().map(|sealed| sealed.seq) } else { None };
        Ok(EntryPage { entries, next })
    }

    /// See [`verify`].
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn verify_audit(&self) -> Result<Verification, Error> {
        Ok(verify(&self.store).await?)
    }

    /// See [`why`].
    ///
    /// # Errors
    /// [`Error::NotFound`], or when the store cannot be read.
    pub async fn why(&self, subject: Subject) -> Result<Explanation, Error> {
        why(&self.store, subject).await?.ok_or(Error::NotFound)
    }

    /// Appends one entry in a transaction of its own.
    ///
    /// # Errors
    /// As the store's.
    pub async fn record(&self, entry: Entry) -> Result<(), Error> {
        let entry = Arc::new(entry);
        super::retrying(|| async {
            let mut tx = self.store.begin().await?;
            tx.append((*entry).clone());
            Ok(tx.commit().await?)
        })
        .await
    }
}
