//! Work beside the requests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use countersign::{
    app::ports::Change,
    worker::{RoundFailed, Work, Workers},
};
use tokio::sync::{Notify, broadcast, mpsc};

mod checkpoint;
mod expiry;
mod key_refresh;
mod policy_reload;
mod unauthenticated;

/// Longer than any test takes, so that only what a test does brings a round about.
const NEVER: Duration = Duration::from_secs(3_600);

/// Tells of each round, the first of which ends badly.
struct Rounds {
    count: AtomicU32,
    begun: mpsc::UnboundedSender<u32>,
    first: fn() -> Result<(), RoundFailed>,
}

#[async_trait]
impl Work for Rounds {
    fn name(&self) -> &'static str {
        "rounds"
    }

    fn every(&self) -> Duration {
        NEVER
    }

    fn wakes(&self, change: &Change) -> bool {
        *change == Change::Keys
    }

    async fn round(&self) -> Result<(), RoundFailed> {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        self.begun.send(count).unwrap();
        if count == 0 { (self.first)() } else { Ok(()) }
    }
}

struct Started {
    workers: Workers,
    changes: broadcast::Sender<Change>,
    nudge: Arc<Notify>,
    begun: mpsc::UnboundedReceiver<u32>,
}

fn start(first: fn() -> Result<(), RoundFailed>) -> Started {
    let (changes, receiver) = broadcast::channel(2);
    let (sender, begun) = mpsc::unbounded_channel();
    let nudge = Arc::new(Notify::new());
    let mut workers = Workers::default();
    let work = Rounds { count: AtomicU32::new(0), begun: sender, first };
    workers.start(Arc::new(work), receiver, Arc::clone(&nudge));
    Started { workers, changes, nudge, begun }
}

#[tokio::test]
async fn a_panic_ends_the_round_and_not_the_worker() {
    let mut started = start(|| panic!("on purpose"));
    assert_eq!(started.begun.recv().await, Some(0));
    started.nudge.notify_one();
    assert_eq!(started.begun.recv().await, Some(1));
}

#[tokio::test]
async fn an_error_ends_the_round_and_not_the_worker() {
    let mut started = start(|| Err(RoundFailed("on purpose".to_owned())));
    assert_eq!(started.begun.recv().await, Some(0));
    started.nudge.notify_one();
    assert_eq!(started.begun.recv().await, Some(1));
}

#[tokio::test]
async fn only_a_change_that_concerns_it_wakes_a_worker() {
    let mut started = start(|| Ok(()));
    assert_eq!(started.begun.recv().await, Some(0));
    started.changes.send(Change::Policy).unwrap();
    started.changes.send(Change::Keys).unwrap();
    assert_eq!(started.begun.recv().await, Some(1));
    started.workers.stop().await;
    assert_eq!(started.begun.recv().await, None, "the other change brought no round about");
}

#[tokio::test]
async fn changes_that_were_missed_wake_a_worker() {
    let mut started = start(|| Ok(()));
    // More than the channel holds, before the worker has looked at any.
    for _ in 0..5 {
        started.changes.send(Change::Policy).unwrap();
    }
    assert_eq!(started.begun.recv().await, Some(0));
    assert_eq!(started.begun.recv().await, Some(1));
}

#[tokio::test]
async fn stopped_workers_begin_nothing() {
    let mut started = start(|| Ok(()));
    assert_eq!(started.begun.recv().await, Some(0));
    started.nudge.notify_one();
    started.workers.stop().await;
    assert!(started.begun.recv().await.is_none_or(|round| round == 1));
    assert_eq!(started.begun.recv().await, None);
}
