//! Makes checkpoints of the log and writes them to a file beside the database, from where they can leave the machine, so
//! that a log that was cut or rewritten shows. It must not know the key that signs.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use serde_json::json;

use super::{RoundFailed, Work};
use crate::app::{
    App,
    ports::{Checkpoint, CheckpointSigner},
};

/// The making of checkpoints.
pub struct Checkpoints {
    app: Arc<App>,
    signer: Option<Arc<dyn CheckpointSigner>>,
    every: Duration,
    file: Option<PathBuf>,
    /// Lines that are due in the file: what could not be written is written later.
    due: Mutex<Vec<String>>,
}

impl Checkpoints {
    /// Checkpoints of the log of `app`, made when it has grown in the time `every`; signed with `signer`, if there is one; each
    /// a line of `file`, if there is one.
    pub fn new(
        app: Arc<App>,
        signer: Option<Arc<dyn CheckpointSigner>>,
        every: Duration,
        file: Option<PathBuf>,
    ) -> Self {
        Self { app, signer, every, file, due: Mutex::default() }
    }

    fn write_due(&self, file: &Path) -> std::io::Result<()> {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        if due.is_empty() {
            return Ok(());
        }
        // Opened anew each time: whoever takes the file away takes a whole one, and a new one begins.
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file)?;
        file.write_all(due.concat().as_bytes())?;
        file.sync_all()?;
        due.clear();
        Ok(())
    }
}

#[async_trait]
impl Work for Checkpoints {
    fn name(&self) -> &'static str {
        "checkpoint"
    }

    fn every(&self) -> Duration {
        self.every
    }

    async fn round(&self) -> Result<(), RoundFailed> {
        let made = self.app.make_checkpoint(self.signer.as_deref()).await;
        let made = made.map_err(|error| RoundFailed(error.to_string()))?;
        let Some(file) = &self.file else { return Ok(()) };
        if let Some(checkpoint) = made {
            self.due.lock().unwrap_or_else(PoisonError::into_inner).push(line(&checkpoint));
        }
        self.write_due(file).map_err(|error| RoundFailed(format!("{}: {error}", file.display())))
    }
}

/// A checkpoint as one line of JSON. What is signed is [`Checkpoint::signed_text`], which `size`, `root` and
/// `time_micros` give back.
fn line(checkpoint: &Checkpoint) -> String {
    let line = json!({
        "size": checkpoint.size,
        "root": hex::encode(checkpoint.root),
        "time": checkpoint.at,
        "time_micros": checkpoint.at.as_micros(),
        "signature": checkpoint.signature,
        "key_id": checkpoint.key_id,
    });
    format!("{line}\n")
}
