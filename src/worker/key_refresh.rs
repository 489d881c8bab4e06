//! Keeps the keys in memory what they are in the store: at once when another instance says that they changed, and every
//! second in case it could not, so that a revocation binds within two. It must not know who looks them up.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{RoundFailed, Work};
use crate::{
    app::ports::{Change, SharedStore},
    domain::identity::KeyRecord,
};

/// Takes the keys that were read.
pub type TakeKeys = Arc<dyn Fn(Vec<KeyRecord>) + Send + Sync>;

/// The refreshing of keys.
pub struct KeyRefresh {
    /// Where they are kept.
    pub store: SharedStore,
    /// Who keeps them in memory.
    pub take: TakeKeys,
}

#[async_trait]
impl Work for KeyRefresh {
    fn name(&self) -> &'static str {
        "key_refresh"
    }

    fn every(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn wakes(&self, change: &Change) -> bool {
        match change {
            Change::Keys | Change::Unknown => true,
            Change::Approval(_) | Change::Policy | Change::Outbox => false,
        }
    }

    async fn round(&self) -> Result<(), RoundFailed> {
        let keys = self.store.keys().await.map_err(|error| RoundFailed(error.to_string()))?;
        (self.take)(keys);
        Ok(())
    }
}
