//! Lets an edited policy take over while the service runs, and a faulty one never. It must not know where the files
//! are.
//!
//! Two looks must show the same files before they count: a policy that an editor or a copy has written half of may load,
//! and lack the rules that came last. Who asks for a reload says that the files are whole.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;

use super::{RoundFailed, Work};
use crate::{
    app::App,
    domain::policy::{Fault, Loaded, PolicyVersion, SourceFile},
};

/// Where a policy comes from.
pub trait PolicySource: Send + Sync + 'static {
    /// The files as they are now.
    ///
    /// # Errors
    /// Why they cannot be read.
    fn read(&self) -> Result<Vec<SourceFile>, String>;

    /// The policy they make, fit for the configured reviewers.
    ///
    /// # Errors
    /// Everything wrong with it.
    fn load(&self, files: &[SourceFile]) -> Result<Loaded, Vec<Fault>>;
}

/// The watching of the policy's files.
pub struct PolicyReload {
    app: Arc<App>,
    source: Arc<dyn PolicySource>,
    seen: Mutex<Seen>,
    at_once: AtomicBool,
}

/// What the last look showed.
struct Seen {
    files: Result<Vec<SourceFile>, String>,
    /// These files were accepted, or refused and told.
    dealt_with: bool,
}

impl PolicyReload {
    /// Watches `source`, of which `app` decides by what `files` make.
    pub fn new(app: Arc<App>, source: Arc<dyn PolicySource>, files: Vec<SourceFile>) -> Self {
        let seen = Mutex::new(Seen { files: Ok(files), dealt_with: true });
        Self { app, source, seen, at_once: AtomicBool::new(false) }
    }

    /// Lets the next look count by itself.
    pub fn ask(&self) {
        self.at_once.store(true, Ordering::SeqCst);
    }

    /// The files that a look shows, once they count and have not been dealt with.
    fn due(&self, files: Result<Vec<SourceFile>, String>) -> Option<Result<Vec<SourceFile>, String>> {
        let asked = self.at_once.swap(false, Ordering::SeqCst);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let same = seen.files == files;
        if !same {
            *seen = Seen { files: files.clone(), dealt_with: false };
        }
        (!seen.dealt_with && (same || asked)).then_some(files)
    }

    fn deal_done(&self) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).dealt_with = true;
    }

    async fn take_over(&self, files: Vec<SourceFile>) -> Result<(), RoundFailed> {
        let (source, compiling) = (Arc::clone(&self.source), files.clone());
        let loaded = blocking(move || source.load(&compiling)).await?;
        let failed = |error: crate::app::error::Error| RoundFailed(error.to_string());
        match loaded {
            Ok(Loaded { policy, warnings }) => {
                let version = policy.version().clone();
                if version == *self.app.policy().version() {
                    tracing::info!(policy_version = %version, "the policy's files are again those in force");
                } else {
                    self.app.accept_policy(policy, &files).await.map_err(failed)?;
                    tell(&warnings);
                    tracing::info!(policy_version = %version, "a new policy is in force");
                }
            }
            Err(faults) => {
                self.app.refuse_policy(&PolicyVersion::of(&files), &faults).await.map_err(failed)?;
                tell(&faults);
                let in_force = self.app.policy().version().clone();
                tracing::error!(faults = faults.len(), %in_force, "the policy was refused; the last good one stays");
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Work for PolicyReload {
    fn name(&self) -> &'static str {
        "policy_reload"
    }

    fn every(&self) -> Duration {
        Duration::from_millis(500)
    }

    async fn round(&self) -> Result<(), RoundFailed> {
        let source = Arc::clone(&self.source);
        let files = blocking(move || source.read()).await?;
        match self.due(files) {
            None => return Ok(()),
            Some(Ok(files)) => self.take_over(files).await?,
            Some(Err(fault)) => {
                let in_force = self.app.policy().version().clone();
                tracing::error!(%fault, %in_force, "the policy cannot be read; the last good one stays");
            }
        }
        self.deal_done();
        Ok(())
    }
}

fn tell(faults: &[Fault]) {
    for fault in faults {
        tracing::warn!(policy_fault = %fault, "the policy");
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, RoundFailed> {
    tokio::task::spawn_blocking(work).await.map_err(|error| RoundFailed(error.to_string()))
}
