//! Asks issuers of tokens: documents, and codes changed for tokens.

use std::time::Duration;

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::{Method, header::HeaderValue};
use url::form_urlencoded;

use super::{Outbound, Request};
use crate::app::ports::sign_in::{IssuerAnswer, IssuerClient, IssuerRequest, IssuerSilent};

/// The most bytes of an answer that are read.
const MOST_BYTES: usize = 256 * 1024;

/// How long an issuer may take to answer. People wait for it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Asks issuers, in private networks too where that is allowed.
#[derive(Clone)]
pub struct Issuers {
    outbound: Outbound,
    allow_private: bool,
}

impl Issuers {
    /// One that sends through `outbound`.
    pub fn new(outbound: Outbound, allow_private: bool) -> Self {
        Self { outbound, allow_private }
    }
}

#[async_trait]
impl IssuerClient for Issuers {
    async fn send(&self, request: IssuerRequest) -> Result<IssuerAnswer, IssuerSilent> {
        let authorization = match &request.basic {
            None => None,
            Some((user, password)) => Some(basic(user, password).ok_or_else(|| IssuerSilent("no header".to_owned()))?),
        };
        let body = request.form.map(|fields| {
            let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
            ("application/x-www-form-urlencoded", form.into_bytes())
        });
        let request = Request {
            method: if body.is_some() { Method::POST } else { Method::GET },
            url: request.url,
            body,
            bearer: None,
            headers: Vec::new(),
            timeout: TIMEOUT,
            most_bytes: MOST_BYTES,
            allow_private: self.allow_private,
        };
        let answer = self.outbound.send_authorized(request, authorization).await;
        let answer = answer.map_err(|failure| IssuerSilent(failure.to_string()))?;
        Ok(IssuerAnswer { status: answer.status, body: answer.body })
    }
}

/// User and password as a client says them to a token endpoint: each as in a form first (RFC 6749, section 2.3.1).
fn basic(user: &str, password: &str) -> Option<HeaderValue> {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = STANDARD.encode(format!("{}:{}", encoded(user), encoded(password)));
    let mut value = HeaderValue::from_str(&format!("Basic {pair}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}
