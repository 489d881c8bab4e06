//! What humans asked, taken apart once in a process and kept for the calls that follow.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::{Value, json};

use super::{App, error::Error, ports::Tx};
use crate::domain::{
    audit::payload::{Payload, PayloadDigest},
    requested::{TrustedRequest, TrustedText},
    run::Run,
};

/// How long the texts that are kept may be together, in bytes. Taken apart, a text takes about ten times its length.
const MOST_KEPT: usize = 4 * 1024 * 1024;

/// Texts by the digest of their payload, the oldest first.
#[derive(Default)]
pub(super) struct TrustedTexts(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    texts: HashMap<PayloadDigest, Arc<TrustedText>>,
    order: VecDeque<(PayloadDigest, usize)>,
    bytes: usize,
}

impl TrustedTexts {
    fn get(&self, digest: PayloadDigest) -> Option<Arc<TrustedText>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).texts.get(&digest).cloned()
    }

    fn keep(&self, digest: PayloadDigest, text: &Arc<TrustedText>, bytes: usize) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.texts.insert(digest, Arc::clone(text)).is_some() {
            return;
        }
        kept.order.push_back((digest, bytes));
        kept.bytes += bytes;
        while kept.bytes > MOST_KEPT
            && let Some((oldest, bytes)) = kept.order.pop_front()
        {
            kept.texts.remove(&oldest);
            kept.bytes = kept.bytes.saturating_sub(bytes);
        }
    }
}

impl App {
    /// Everything the humans asked of a run, taken apart.
    pub(super) async fn trusted_request(&self, run: &Run) -> Result<TrustedRequest, Error> {
        let mut texts = Vec::with_capacity(run.requests.len());
        for digest in &run.requests {
            let text = match self.texts.get(*digest) {
                Some(kept) => Some(kept),
                None => self.trusted_text(*digest).await?.map(|text| {
                    let read = Arc::new(TrustedText::read(&text));
                    self.texts.keep(*digest, &read, text.len());
                    read
                }),
            };
            texts.push((*digest, text));
        }
        Ok(TrustedRequest::new(texts))
    }

    /// What a human typed; `None` when it was erased.
    pub(super) async fn trusted_text(&self, digest: PayloadDigest) -> Result<Option<String>, Error> {
        let Some(payload) = self.store.payload(digest).await? else { return Ok(None) };
        let body: Value = serde_json::from_str(payload.body()).unwrap_or_default();
        Ok(body.get("text").and_then(Value::as_str).map(str::to_owned))
    }

    /// Keeps what a human typed.
    pub(super) async fn keep_trusted_text(&self, tx: &mut dyn Tx, text: &str) -> Result<PayloadDigest, Error> {
        let payload = Payload::new(json!({ "text": text }).to_string(), self.salt()?);
        tx.insert_payload(&payload).await?;
        Ok(payload.digest())
    }
}
