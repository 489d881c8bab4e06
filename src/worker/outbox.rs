//! Delivers messages: looks where something is due, and lets each destination be served on its own, so that one that
//! does not answer keeps no other waiting.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tokio::task::JoinSet;

use super::{RoundFailed, Work};
use crate::{
    app::{App, deliver::Couriers, error::Error, ports::Change},
    domain::channel::Destination,
};

/// Every how many rounds what was delivered long ago is forgotten: about once an hour.
const FORGETS_EVERY: u32 = 3_600;

/// Every how many rounds what nobody serves is looked for: about once a minute.
const GIVES_UP_EVERY: u32 = 60;

/// The delivery of messages.
pub struct Outbox {
    app: Arc<App>,
    couriers: Arc<Couriers>,
    serving: Mutex<Serving>,
    rounds: AtomicU32,
}

/// The destinations that are served right now; a round waits for none of them.
#[derive(Default)]
struct Serving {
    destinations: BTreeSet<Destination>,
    tasks: JoinSet<(Destination, Result<usize, Error>)>,
}

impl Outbox {
    /// Delivers the messages of these use cases by these couriers.
    pub fn new(app: Arc<App>, couriers: Arc<Couriers>) -> Self {
        Self { app, couriers, serving: Mutex::default(), rounds: AtomicU32::new(0) }
    }
}

impl Serving {
    /// Forgets what has ended; why something ended badly, if anything did.
    fn reap(&mut self) -> Option<String> {
        let mut failed = None;
        while let Some(ended) = self.tasks.try_join_next() {
            match ended {
                Ok((to, served)) => {
                    self.destinations.remove(&to);
                    failed = served.err().map(|error| error.to_string()).or(failed);
                }
                Err(error) => {
                    // It cannot say which one it was: a destination that is served twice here is leased once.
                    self.destinations.clear();
                    failed = Some(error.to_string());
                }
            }
        }
        failed
    }
}

#[async_trait]
impl Work for Outbox {
    fn name(&self) -> &'static str {
        "outbox"
    }

    fn every(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn wakes(&self, change: &Change) -> bool {
        match change {
            Change::Outbox | Change::Unknown => true,
            Change::Approval(_) | Change::Keys | Change::Policy => false,
        }
    }

    async fn round(&self) -> Result<(), RoundFailed> {
        let failed = |error: Error| RoundFailed(error.to_string());
        let round = self.rounds.fetch_add(1, Ordering::Relaxed);
        if round.is_multiple_of(FORGETS_EVERY) {
            self.app.forget_delivered().await.map_err(failed)?;
        }
        if round.is_multiple_of(GIVES_UP_EVERY) {
            self.app.give_up_unserved(&self.couriers).await.map_err(failed)?;
        }
        self.app.pass_on_waiting().await.map_err(failed)?;
        let due = self.app.due_destinations().await.map_err(failed)?;
        let mut serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = serving.reap();
        for to in due {
            let Some(courier) = self.couriers.get(&to).cloned() else { continue };
            if serving.destinations.insert(to.clone()) {
                let app = Arc::clone(&self.app);
                serving.tasks.spawn(async move {
                    let served = app.deliver_to(&to, courier.as_ref()).await;
                    (to, served)
                });
            }
        }
        failed.map_or(Ok(()), |failed| Err(RoundFailed(failed)))
    }
}
