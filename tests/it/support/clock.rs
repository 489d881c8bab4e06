//! A clock that stands still until a test moves it.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use countersign::{app::ports::Clock, domain::time::Timestamp};

/// Where every test begins: Monday, 30 November 2026, 12:00 UTC.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_796_040_000_000_000);

/// Time as the test says.
pub(crate) struct ManualClock(AtomicI64);

impl ManualClock {
    pub(crate) const fn new() -> Self {
        Self(AtomicI64::new(START.as_micros()))
    }

    pub(crate) fn set(&self, now: Timestamp) {
        self.0.store(now.as_micros(), Ordering::SeqCst);
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.set(self.now().plus(by));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}
