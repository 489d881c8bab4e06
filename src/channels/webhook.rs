//! Events for machines, as Standard Webhooks 1.0.0 has them: a thin JSON body, an id that is the same at every attempt,
//! and signatures with every key that is in force.

use std::sync::Arc;

use async_trait::async_trait;
use aws_lc_rs::{
    hmac,
    signature::{Ed25519KeyPair, KeyPair as _},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{TIMEOUT, by_status, unsent};
use crate::{
    app::ports::{Clock, Courier, Delivery, Dispatch},
    domain::{notice::NoticeEvent, time::Timestamp},
    outbound::{Method, Outbound, Request},
};

/// The longest answer that is read; nothing in it is heeded.
const MOST_BYTES: usize = 64 * 1024;

/// A key that signs events.
pub enum WebhookKey {
    /// `whsec_...`: a secret that the receiver has too, for signatures `v1`.
    Shared(Box<hmac::Key>),
    /// `whsk_...`: a private key whose public half the receiver has, for signatures `v1a`.
    Private(Box<Ed25519KeyPair>),
}

/// Text that is no key for webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is no key for webhooks: whsec_ and 24 to 64 bytes in base64, or whsk_ and an Ed25519 seed and public key")]
pub struct NotAWebhookKey;

impl WebhookKey {
    /// Reads a key.
    ///
    /// # Errors
    /// [`NotAWebhookKey`]; it does not repeat the text.
    pub fn parse(text: &str) -> Result<Self, NotAWebhookKey> {
        if let Some(secret) = text.strip_prefix("whsec_") {
            let secret = STANDARD.decode(secret).map_err(|_| NotAWebhookKey)?;
            if !(24..=64).contains(&secret.len()) {
                return Err(NotAWebhookKey);
            }
            return Ok(Self::Shared(Box::new(hmac::Key::new(hmac::HMAC_SHA256, &secret))));
        }
        let pair = text.strip_prefix("whsk_").ok_or(NotAWebhookKey)?;
        let pair = STANDARD.decode(pair).map_err(|_| NotAWebhookKey)?;
        let (seed, public) = pair.split_at_checked(32).ok_or(NotAWebhookKey)?;
        let pair = Ed25519KeyPair::from_seed_and_public_key(seed, public).map_err(|_| NotAWebhookKey)?;
        Ok(Self::Private(Box::new(pair)))
    }

    /// What the receiver needs to check `v1a`: `whpk_...`; `None` for a shared secret.
    pub fn public(&self) -> Option<String> {
        match self {
            Self::Shared(_) => None,
            Self::Private(pair) => Some(format!("whpk_{}", STANDARD.encode(pair.public_key().as_ref()))),
        }
    }

    fn sign(&self, text: &[u8]) -> String {
        match self {
            Self::Shared(key) => format!("v1,{}", STANDARD.encode(hmac::sign(key, text))),
            Self::Private(pair) => format!("v1a,{}", STANDARD.encode(pair.sign(text))),
        }
    }
}

/// The `webhook-signature` of a body sent as `id` so many `seconds` after the Unix epoch, by every key.
pub fn signatures(keys: &[WebhookKey], id: &str, seconds: i64, body: &[u8]) -> String {
    let mut text = format!("{id}.{seconds}.").into_bytes();
    text.extend_from_slice(body);
    keys.iter().map(|key| key.sign(&text)).collect::<Vec<_>>().join(" ")
}

/// What is sent of an event.
pub fn body(event: NoticeEvent, at: Timestamp, data: &Value) -> Value {
    json!({ "type": event.as_str(), "timestamp": at, "data": data })
}

/// A receiver of events.
pub struct WebhookCourier {
    /// The client.
    pub outbound: Outbound,
    /// Tells when an attempt is made.
    pub clock: Arc<dyn Clock>,
    /// Where to.
    pub url: String,
    /// What signs: the current key first.
    pub keys: Vec<WebhookKey>,
    /// Whether it may be a private address.
    pub allow_private: bool,
}

#[async_trait]
impl Courier for WebhookCourier {
    async fn deliver(&self, dispatch: &Dispatch) -> Delivery {
        let (id, event, at, data) = match dispatch {
            Dispatch::Event { id, event, at, data } => (id, event, at, data),
            Dispatch::Card { .. } | Dispatch::Digest { .. } => {
                return Delivery::Refused { fault: "a machine is sent events only".to_owned() };
            }
        };
        let body = body(*event, *at, data).to_string().into_bytes();
        let id = id.to_string();
        let seconds = self.clock.now().as_micros().div_euclid(1_000_000);
        let sent = self
            .outbound
            .send(Request {
                method: Method::POST,
                url: self.url.clone(),
                bearer: None,
                headers: vec![
                    ("webhook-signature", signatures(&self.keys, &id, seconds, &body)),
                    ("webhook-timestamp", seconds.to_string()),
                    ("webhook-id", id),
                ],
                body: Some(("application/json", body)),
                timeout: TIMEOUT,
                most_bytes: MOST_BYTES,
                allow_private: self.allow_private,
            })
            .await;
        match sent {
            Ok(answer) => by_status(&answer),
            Err(failure) => unsent(failure),
        }
    }
}
