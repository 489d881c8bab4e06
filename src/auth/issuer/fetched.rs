//! Something that an issuer publishes: read without waiting, fetched by one caller at a time, and not at once again after an
//! attempt that failed.

use std::{
    future::Future,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use tokio::sync::Mutex;

use super::{IssuerFault, RETRY_AFTER};
use crate::domain::time::Timestamp;

/// The last that was fetched, and how the last attempt failed if it did.
pub(super) struct Fetched<T> {
    known: RwLock<Known<T>>,
    fetching: Mutex<()>,
}

struct Known<T> {
    value: Option<(Arc<T>, Timestamp)>,
    failed: Option<(IssuerFault, Timestamp)>,
}

impl<T> Default for Fetched<T> {
    fn default() -> Self {
        Self { known: RwLock::new(Known { value: None, failed: None }), fetching: Mutex::default() }
    }
}

impl<T> Fetched<T> {
    /// What was fetched no longer than `age` before `now`, or is fetched now. Whoever finds it already fetched waits for
    /// nobody.
    ///
    /// # Errors
    /// As `fetch`; also for [`RETRY_AFTER`] after it failed.
    pub(super) async fn within<F>(
        &self,
        age: Duration,
        now: Timestamp,
        fetch: impl FnOnce() -> F,
    ) -> Result<Arc<T>, IssuerFault>
    where
        F: Future<Output = Result<T, IssuerFault>>,
    {
        if let Some(value) = self.known_within(age, now) {
            return Ok(value);
        }
        let _alone = self.fetching.lock().await;
        // Somebody else may have fetched it meanwhile, or failed to.
        if let Some(value) = self.known_within(age, now) {
            return Ok(value);
        }
        if let Some(fault) = self.failed_lately(now) {
            return Err(fault);
        }
        let fetched = fetch().await;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        match fetched {
            Ok(value) => {
                let value = Arc::new(value);
                *known = Known { value: Some((Arc::clone(&value), now)), failed: None };
                Ok(value)
            }
            Err(fault) => {
                known.failed = Some((fault.clone(), now));
                Err(fault)
            }
        }
    }

    fn known_within(&self, age: Duration, now: Timestamp) -> Option<Arc<T>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.value.as_ref().filter(|(_, at)| now < at.plus(age)).map(|(value, _)| Arc::clone(value))
    }

    fn failed_lately(&self, now: Timestamp) -> Option<IssuerFault> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.failed.as_ref().filter(|(_, at)| now < at.plus(RETRY_AFTER)).map(|(fault, _)| fault.clone())
    }
}
