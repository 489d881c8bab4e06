//! The clock and the randomness of the machine, for the ports that ask for them.

use std::time::UNIX_EPOCH;

use crate::{
    app::ports::{Clock, Entropy, EntropyError},
    domain::time::Timestamp,
};

/// The clock of the operating system.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place where the machine's time comes in")]
    fn now(&self) -> Timestamp {
        let micros = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        Timestamp::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
    }
}

/// The randomness of the operating system.
#[derive(Clone, Copy, Debug)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
        aws_lc_rs::rand::fill(bytes).map_err(|_| EntropyError)
    }
}
