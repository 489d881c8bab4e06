//! Bytes that are different each time and the same in every test run; and a source that has run dry.

use std::sync::atomic::{AtomicU64, Ordering};

use countersign::app::ports::{Entropy, EntropyError};
use sha2::{Digest as _, Sha256};

/// SHA-256 of a seed and a counter.
pub(crate) struct CountingEntropy {
    seed: u64,
    count: AtomicU64,
}

impl CountingEntropy {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { seed, count: AtomicU64::new(0) }
    }
}

impl Entropy for CountingEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
        for chunk in bytes.chunks_mut(32) {
            let count = self.count.fetch_add(1, Ordering::Relaxed);
            let digest = Sha256::digest([self.seed.to_be_bytes(), count.to_be_bytes()].concat());
            chunk.copy_from_slice(&digest[..chunk.len()]);
        }
        Ok(())
    }
}

/// A source that gives nothing.
pub(crate) struct NoEntropy;

impl Entropy for NoEntropy {
    fn fill(&self, _: &mut [u8]) -> Result<(), EntropyError> {
        Err(EntropyError)
    }
}
