//! How many requests a second one caller may send, by the generic cell rate algorithm of `governor` on the service's clock.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use governor::{
    Quota, RateLimiter,
    clock::{Clock, Reference as _},
    middleware::NoOpMiddleware,
    state::keyed::HashMapStateStore,
};

use crate::{app::App, domain::identity::Credential};

/// The limit of every caller, each with a count of its own. A burst of one second's worth is admitted.
pub(super) struct Rates {
    limiter: RateLimiter<Credential, HashMapStateStore<Credential>, AppClock, NoOpMiddleware<Duration>>,
    clock: AppClock,
}

impl Rates {
    /// `per_second` requests of each caller.
    pub(super) fn new(per_second: NonZeroU32, app: Arc<App>) -> Self {
        let clock = AppClock(app);
        let limiter = RateLimiter::new(Quota::per_second(per_second), HashMapStateStore::default(), clock.clone());
        Self { limiter, clock }
    }

    /// Counts a request.
    ///
    /// # Errors
    /// After how many whole seconds the next one is admitted, when this one is too many.
    pub(super) fn count(&self, caller: &Credential) -> Result<(), u64> {
        self.limiter.check_key(caller).map_err(|not_until| {
            let wait = not_until.earliest_possible().duration_since(self.clock.now());
            Duration::from(wait).as_secs() + 1
        })
    }
}

/// The service's clock, as the limiter reads it: time since the Unix epoch.
#[derive(Clone)]
struct AppClock(Arc<App>);

impl Clock for AppClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.now().as_micros()).unwrap_or_default())
    }
}
