//! The secrets that requests carry, by the reference that the policy names them with. Where they come from is the
//! wiring's matter.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

/// Secrets by reference. No `Debug` shows one.
#[derive(Default)]
pub struct Credentials(RwLock<BTreeMap<String, Arc<str>>>);

impl Credentials {
    /// Takes in what a policy that is about to decide names. What an earlier one named stays: calls may be under way.
    pub fn add(&self, secrets: BTreeMap<String, Arc<str>>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).extend(secrets);
    }

    /// The secret that `reference` names.
    pub(super) fn get(&self, reference: &str) -> Option<Arc<str>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(reference).cloned()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(..)")
    }
}
