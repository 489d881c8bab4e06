//! Records what time alone has changed: approvals that ran out and leases that ended. Every use case judges time for
//! itself; this only lets the log, and whoever waits, know of it without being asked.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{RoundFailed, Work};
use crate::app::App;

/// The sweep over approvals.
pub struct Expiry {
    /// The use cases.
    pub app: Arc<App>,
}

#[async_trait]
impl Work for Expiry {
    fn name(&self) -> &'static str {
        "expiry"
    }

    fn every(&self) -> Duration {
        Duration::from_secs(1)
    }

    async fn round(&self) -> Result<(), RoundFailed> {
        // A backlog takes several batches; each of them changes something, or the sweep is done.
        while self.app.record_elapsed().await.map_err(|error| RoundFailed(error.to_string()))? > 0 {}
        Ok(())
    }
}
