//! Work that goes on beside the requests, in rounds. It knows use cases only: what touches files or memory of other
//! layers is handed in.
//!
//! A round that fails or panics is told once, and the next one tries again: no worker may take the service with it, and
//! nothing that decides waits for one.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::{
    sync::{Notify, broadcast, watch},
    task::JoinSet,
    time::MissedTickBehavior,
};

use crate::app::ports::Change;

pub mod checkpoint;
pub mod expiry;
pub mod key_refresh;
pub mod outbox;
pub mod policy_reload;
pub mod unauthenticated;

/// What a round came to grief on, for the log.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct RoundFailed(pub String);

/// One kind of work.
#[async_trait]
pub trait Work: Send + Sync + 'static {
    /// Its name in the log.
    fn name(&self) -> &'static str;

    /// The longest time between two rounds.
    fn every(&self) -> Duration;

    /// Whether this change calls for a round at once.
    fn wakes(&self, change: &Change) -> bool {
        let _ = change;
        false
    }

    /// One round.
    async fn round(&self) -> Result<(), RoundFailed>;
}

/// The workers of a process.
pub struct Workers {
    tasks: JoinSet<()>,
    stop: watch::Sender<bool>,
}

impl Default for Workers {
    fn default() -> Self {
        Self { tasks: JoinSet::new(), stop: watch::Sender::new(false) }
    }
}

impl Workers {
    /// Starts a worker: a round now, and then as its kind says, on `changes` and whenever it is `nudged`.
    pub fn start(&mut self, work: Arc<dyn Work>, changes: broadcast::Receiver<Change>, nudged: Arc<Notify>) {
        self.tasks.spawn(go_on(work, changes, nudged, self.stop.subscribe()));
    }

    /// Lets every round that runs come to its end, and starts none.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
    }
}

async fn go_on(
    work: Arc<dyn Work>,
    mut changes: broadcast::Receiver<Change>,
    nudged: Arc<Notify>,
    mut stop: watch::Receiver<bool>,
) {
    let mut ticks = tokio::time::interval(work.every());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failing = false;
    loop {
        tokio::select! {
            biased;
            // An error means that nobody is left who could stop it.
            _ = stop.wait_for(|stopped| *stopped) => return,
            () = nudged.notified() => {}
            () = change_for(work.as_ref(), &mut changes) => {}
            _ = ticks.tick() => {}
        }
        // In a task of its own, so that a panic ends the round and not the worker.
        let round = Arc::clone(&work);
        let fault = match tokio::spawn(async move { round.round().await }).await {
            Ok(Ok(())) => None,
            Ok(Err(fault)) => Some(fault.to_string()),
            Err(fault) => Some(fault.to_string()),
        };
        match fault {
            Some(ref fault) if !failing => {
                tracing::error!(worker = work.name(), %fault, "a round failed; trying again")
            }
            None if failing => tracing::info!(worker = work.name(), "rounds succeed again"),
            Some(_) | None => {}
        }
        failing = fault.is_some();
    }
}

/// Returns when a change calls for a round. Never, once the store is gone.
async fn change_for(work: &dyn Work, changes: &mut broadcast::Receiver<Change>) {
    loop {
        match changes.recv().await {
            Ok(change) if work.wakes(&change) => return,
            Ok(_) => {}
            // Any of those that were missed may have been one.
            Err(broadcast::error::RecvError::Lagged(_)) => return,
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}
