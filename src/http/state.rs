//! What every handler works with.

use std::{num::NonZeroU32, ops::Deref, sync::Arc, time::Duration};

use axum::body::Bytes;
use tokio::sync::watch;

use super::{
    error::{TOOL_UNAVAILABLE, ToolUnavailable},
    metrics::Metrics,
    rate::{Rates, Strangers},
};
use crate::{app::App, auth::key_ring::KeyRing, channels::slack::SlackDoors};

/// The settings of the API.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// The largest request body, in bytes.
    pub body_bytes: usize,
    /// How many requests a second one key may send; `None`: any number.
    pub requests_per_second: Option<NonZeroU32>,
    /// How long a request may take, what it waits for a human apart.
    pub request_timeout: Duration,
    /// What a refusal by policy tells the model instead of `tool unavailable`.
    pub refusal_text: Option<String>,
    /// Where people reach the service, without a trailing slash.
    pub public_url: String,
    /// The commit this binary was built from, for `/healthz`.
    pub commit: String,
    /// Whether a key signs the checkpoints of the log, for `/readyz`.
    pub checkpoints_signed: bool,
    /// Whether `/metrics` has a listener of its own, and so is no route of the API.
    pub metrics_elsewhere: bool,
}

/// Everything an [`HttpState`] is made of.
pub struct HttpParts {
    /// The use cases.
    pub app: Arc<App>,
    /// Who may call.
    pub keys: Arc<KeyRing>,
    /// What requests of Slack are verified with.
    pub slack: SlackDoors,
    /// The settings.
    pub settings: HttpSettings,
    /// Turns true when the process is about to stop: it is not ready then, and nobody waits for a human any longer.
    pub draining: watch::Receiver<bool>,
}

/// The state of the API, cheap to clone.
#[derive(Clone)]
pub struct HttpState(Arc<Shared>);

/// What all clones of an [`HttpState`] share.
pub struct Shared {
    pub(super) app: Arc<App>,
    pub(super) keys: Arc<KeyRing>,
    pub(super) slack: SlackDoors,
    pub(super) settings: HttpSettings,
    pub(super) draining: watch::Receiver<bool>,
    /// What each key has sent, where that is limited.
    pub(super) rates: Option<Rates>,
    /// What people whom nobody knows yet have sent.
    pub(super) strangers: Strangers,
    /// Figures about this instance.
    pub metrics: Metrics,
    /// The one body of every refusal by policy.
    pub(super) tool_unavailable: Bytes,
}

impl HttpState {
    /// Puts the state together.
    pub fn new(parts: HttpParts) -> Self {
        let HttpParts { app, keys, slack, settings, draining } = parts;
        let content = settings.refusal_text.as_deref().unwrap_or(TOOL_UNAVAILABLE);
        let tool_unavailable = ToolUnavailable::with(content).to_bytes();
        let rates = settings.requests_per_second.map(|per_second| Rates::new(per_second, Arc::clone(&app)));
        let strangers = Strangers::new(Arc::clone(&app));
        Self(Arc::new(Shared {
            app,
            keys,
            slack,
            settings,
            draining,
            rates,
            strangers,
            metrics: Metrics::new(),
            tool_unavailable,
        }))
    }

    /// What a refusal by policy tells the model.
    pub(super) fn refusal_text(&self) -> &str {
        self.settings.refusal_text.as_deref().unwrap_or(TOOL_UNAVAILABLE)
    }
}

impl Deref for HttpState {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}
