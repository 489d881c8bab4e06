//! Checkpoints: signed statements of the log's size and Merkle root, so that a cut or rewritten log shows.

use super::{
    App,
    error::Error,
    ports::{Checkpoint, CheckpointSigner},
};
use crate::domain::audit::merkle::Frontier;

/// How many entries are read at a time.
const PAGE: u32 = 5_000;

impl App {
    /// Makes a checkpoint of everything committed, unless the newest covers it already.
    ///
    /// # Errors
    /// As the store's, or when the signature fails.
    pub async fn make_checkpoint(&self, signer: Option<&dyn CheckpointSigner>) -> Result<Option<Checkpoint>, Error> {
        let newest = self.store.checkpoints(1).await?.pop();
        let covered = newest.as_ref().map_or(0, |checkpoint| checkpoint.size);
        let mut frontier = newest.map(|checkpoint| checkpoint.frontier).unwrap_or_default();
        let mut size = covered;
        loop {
            let page = self.store.entries_after(size, PAGE).await?;
            let Some(last) = page.last() else { break };
            size = last.seq;
            page.iter().for_each(|sealed| frontier.push(sealed.leaf));
        }
        if size == covered {
            return Ok(None);
        }
        let checkpoint = self.signed(size, frontier, signer)?;
        super::retrying(|| async {
            let mut tx = self.store.begin().await?;
            let stored = tx.insert_checkpoint(&checkpoint).await?;
            tx.commit().await?;
            // Another instance made one of the same size: that one stands.
            Ok(stored.then(|| checkpoint.clone()))
        })
        .await
    }

    fn signed(
        &self,
        size: i64,
        frontier: Frontier,
        signer: Option<&dyn CheckpointSigner>,
    ) -> Result<Checkpoint, Error> {
        let at = self.now();
        let root = frontier.root();
        let mut checkpoint = Checkpoint { size, root, at, signature: None, key_id: None, frontier };
        if let Some(signer) = signer {
            let (signature, key_id) = signer.sign(checkpoint.signed_text().as_bytes())?;
            checkpoint.signature = Some(signature);
            checkpoint.key_id = Some(key_id);
        }
        Ok(checkpoint)
    }
}

impl Checkpoint {
    /// The text that is signed: a header line, the size, the root in hex, the time in microseconds; each line ends
    /// in a line feed.
    pub fn signed_text(&self) -> String {
        let root = hex::encode(self.root);
        format!("countersign checkpoint v1\n{}\n{root}\n{}\n", self.size, self.at.as_micros())
    }
}
