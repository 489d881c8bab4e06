//! Sums up, a minute and route, the requests that came without a valid credential: whoever has none can fill a counter, but
//! not the log. It must not know how they are counted.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;

use super::{RoundFailed, Work};
use crate::{
    app::App,
    domain::audit::entry::{Actor, Entry, EventKind},
};

/// Gives the requests counted since it was last asked, by method and route.
pub type TakeCounts = Box<dyn Fn() -> Vec<(String, u64)> + Send + Sync>;

/// The summing up.
pub struct Unauthenticated {
    app: Arc<App>,
    take: TakeCounts,
    /// Counts that no entry sums up yet.
    due: Mutex<BTreeMap<String, u64>>,
}

impl Unauthenticated {
    /// Sums up what `take` gives in the log of `app`.
    pub fn new(app: Arc<App>, take: TakeCounts) -> Self {
        Self { app, take, due: Mutex::default() }
    }

    /// Everything that is due; what is not recorded after all must be given back.
    fn take_due(&self) -> BTreeMap<String, u64> {
        let mut due = std::mem::take(&mut *self.due.lock().unwrap_or_else(PoisonError::into_inner));
        for (route, count) in (self.take)() {
            *due.entry(route).or_default() += count;
        }
        due
    }
}

#[async_trait]
impl Work for Unauthenticated {
    fn name(&self) -> &'static str {
        "unauthenticated"
    }

    fn every(&self) -> Duration {
        Duration::from_secs(60)
    }

    async fn round(&self) -> Result<(), RoundFailed> {
        let mut due = self.take_due();
        while let Some((route, count)) = due.pop_first() {
            let mut entry = Entry::new(EventKind::RequestUnauthenticated, self.app.now(), Actor::service());
            entry.detail.insert("route".to_owned(), route.clone().into());
            entry.detail.insert("count".to_owned(), count.into());
            if let Err(error) = self.app.record(entry).await {
                due.insert(route, count);
                *self.due.lock().unwrap_or_else(PoisonError::into_inner) = due;
                return Err(RoundFailed(error.to_string()));
            }
        }
        Ok(())
    }
}
