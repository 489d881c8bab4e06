//! How many requests a second one caller may send, and all strangers together, by the generic cell rate algorithm of `governor` on the service's clock.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use governor::{
    Quota, RateLimiter,
    clock::{Clock, Reference as _},
    middleware::NoOpMiddleware,
    state::{InMemoryState, NotKeyed, keyed::HashMapStateStore},
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

/// How many requests a second of people whom nobody knows yet may write to the store, on one instance: beginning a sign-in,
/// coming back from the provider, spending a link. Far more than people make, and far less than would hold up decisions.
const STRANGERS_PER_SECOND: u32 = 50;

/// The limit of all strangers together: what could tell them apart is theirs to choose.
pub(super) struct Strangers {
    limiter: RateLimiter<NotKeyed, InMemoryState, AppClock, NoOpMiddleware<Duration>>,
}

impl Strangers {
    pub(super) fn new(app: Arc<App>) -> Self {
        let per_second = NonZeroU32::new(STRANGERS_PER_SECOND).unwrap_or(NonZeroU32::MIN);
        Self { limiter: RateLimiter::direct_with_clock(Quota::per_second(per_second), AppClock(app)) }
    }

    /// Counts a request; whether it is admitted.
    pub(super) fn admit(&self) -> bool {
        self.limiter.check().is_ok()
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
