//! A clock that a test sets, and the randomness of the machine.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use countersign::{
    app::ports::{Clock, Entropy, EntropyError},
    domain::time::Timestamp,
};

use super::sample::START;

/// Stands still until it is told to go on. Clones show the same time.
#[derive(Clone)]
pub(crate) struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// A clock that shows the moment at which every test begins.
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicI64::new(START.as_micros())))
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_micros()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}

/// The randomness of the machine.
pub(crate) struct MachineEntropy;

impl Entropy for MachineEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
        aws_lc_rs::rand::fill(bytes).map_err(|_| EntropyError)
    }
}
