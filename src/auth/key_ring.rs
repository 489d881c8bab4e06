//! The keys that open this instance, in memory. It must not know where they are stored or who refreshes them.

use std::{collections::HashMap, fmt};

use arc_swap::ArcSwap;
use sha2::{Digest as _, Sha256};

use crate::domain::{
    identity::{KeyRecord, Principal},
    time::Timestamp,
};

/// Longer text is no key, and not worth hashing.
const LONGEST: usize = 128;

/// Every key by SHA-256 of its text. Readers never wait for a refresh.
///
/// What is looked up is a hash, so the time of a look-up tells nothing that helps to guess a key; see
/// [`api_key`](super::api_key).
#[derive(Default)]
pub struct KeyRing {
    by_hash: ArcSwap<HashMap<[u8; 32], KeyRecord>>,
}

impl KeyRing {
    /// A ring of these keys.
    pub fn new(keys: impl IntoIterator<Item = KeyRecord>) -> Self {
        let ring = Self::default();
        ring.replace(keys);
        ring
    }

    /// Lets exactly these keys open from now on. Revoked and expired ones may be among them: they open nothing.
    pub fn replace(&self, keys: impl IntoIterator<Item = KeyRecord>) {
        self.by_hash.store(keys.into_iter().map(|key| (*key.hash(), key)).collect::<HashMap<_, _>>().into());
    }

    /// Whom a caller who shows `text` is at `now`; nobody for text that is no key, or no longer one.
    pub fn authenticate(&self, text: &str, now: Timestamp) -> Option<Principal> {
        if text.len() > LONGEST {
            return None;
        }
        // The form and its checksum are not looked at: only a key of the right form is in the ring.
        let hash: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        self.by_hash.load().get(&hash)?.principal_at(now)
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing").field("keys", &self.by_hash.load().len()).finish_non_exhaustive()
    }
}
