//! The one HTTP client: every request that leaves the service goes through [`Outbound::send`]. It follows no redirect,
//! waits no longer and reads no further than it was told, takes no proxy from the environment, and connects to private
//! addresses only where that was allowed. It must not know what a request is for.
//!
//! Which addresses are private is decided here once, on the addresses that the connection is then made to: a name is
//! resolved for the connection itself (`addresses`), so that a second answer of the DNS cannot lead elsewhere.

use std::{sync::Arc, time::Duration};

pub use reqwest::Method;
use reqwest::{
    Client,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER},
    redirect::Policy,
};
use url::Url;

mod addresses;
mod credentials;
mod issuers;
mod lookups;

pub use credentials::Credentials;
pub use issuers::Issuers;

use addresses::{NotPublic, Resolver, literal_is_permitted};

/// How long connections are kept for the next request.
const IDLE: Duration = Duration::from_secs(30);

/// A request to be sent.
#[derive(Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// Where to.
    pub url: String,
    /// What to send, with its media type.
    pub body: Option<(&'static str, Vec<u8>)>,
    /// Sent as bearer token.
    pub bearer: Option<Arc<str>>,
    /// Other headers, by their names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// How long it may take in all, the answer's body included.
    pub timeout: Duration,
    /// The most bytes of the answer's body that are read.
    pub most_bytes: usize,
    /// Whether it may go to a private, loopback, link-local or special address.
    pub allow_private: bool,
}

/// An answer, whatever its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status, such as 200.
    pub status: u16,
    /// How long the other side asks not to be asked again: `Retry-After` in whole seconds (RFC 9110, section 10.2.3).
    /// One that gives a date is not heeded.
    pub retry_after: Option<Duration>,
    /// The whole body.
    pub body: Vec<u8>,
}

/// Why there is no answer. None of these repeats an address or a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendFailure {
    /// The address may not be reached from here.
    #[error("the address is private, and that is not allowed")]
    PrivateAddress,
    /// Nobody answered.
    #[error("nobody answered")]
    Unreachable,
    /// The answer did not come in time.
    #[error("no answer came in time")]
    TimedOut,
    /// The answer is longer than what is read.
    #[error("the answer is too long")]
    TooLong,
    /// The request cannot be sent as it is.
    #[error("the request cannot be sent")]
    Unsendable,
}

/// The client.
#[derive(Clone)]
pub struct Outbound {
    /// For public addresses alone. Its connections are never shared with the other's.
    public: Option<Client>,
    /// For any address.
    any: Option<Client>,
    credentials: Arc<Credentials>,
}

impl Outbound {
    /// A client that sends these credentials. Where there are no certificates to trust, nothing is ever sent.
    pub fn new(credentials: Arc<Credentials>) -> Self {
        Self { public: client(false), any: client(true), credentials }
    }

    /// Sends a request and reads the answer.
    ///
    /// # Errors
    /// [`SendFailure`]; whether the request arrived is then not known, unless the address was refused.
    pub async fn send(&self, request: Request) -> Result<Answer, SendFailure> {
        let authorization = match &request.bearer {
            None => None,
            Some(bearer) => {
                let value = HeaderValue::from_str(&format!("Bearer {bearer}"));
                let mut value = value.map_err(|_| SendFailure::Unsendable)?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        self.send_authorized(request, authorization).await
    }

    /// The same, with another credential than a bearer token.
    async fn send_authorized(
        &self,
        request: Request,
        authorization: Option<HeaderValue>,
    ) -> Result<Answer, SendFailure> {
        let client = if request.allow_private { &self.any } else { &self.public };
        let client = client.as_ref().ok_or(SendFailure::Unreachable)?;
        let url = Url::parse(&request.url).map_err(|_| SendFailure::Unsendable)?;
        // An address instead of a name is connected to without being resolved.
        if !literal_is_permitted(&url, request.allow_private) {
            return Err(SendFailure::PrivateAddress);
        }
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(authorization) = authorization {
            headers.insert(AUTHORIZATION, authorization);
        }
        for (name, value) in &request.headers {
            let value = HeaderValue::from_str(value).map_err(|_| SendFailure::Unsendable)?;
            headers.insert(HeaderName::from_static(name), value);
        }
        let mut sending = client.request(request.method, url).timeout(request.timeout);
        if let Some((media_type, body)) = request.body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
            sending = sending.body(body);
        }
        let mut response = sending.headers(headers).send().await.map_err(|error| failure(&error))?;
        let retry_after =
            response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| failure(&error))? {
            if body.len() + chunk.len() > request.most_bytes {
                return Err(SendFailure::TooLong);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer { status: response.status().as_u16(), retry_after: retry_after.map(Duration::from_secs), body })
    }
}

fn client(allow_private: bool) -> Option<Client> {
    let client = Client::builder()
        .user_agent(concat!("countersign/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .referer(false)
        .no_proxy()
        .pool_idle_timeout(IDLE)
        .dns_resolver(Arc::new(Resolver { allow_private }))
        .build();
    match client {
        Ok(client) => Some(client),
        Err(error) => {
            tracing::warn!(%error, "no request can leave the service: are there certificates of authorities?");
            None
        }
    }
}

fn failure(error: &reqwest::Error) -> SendFailure {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(found) = cause {
        if found.is::<NotPublic>() {
            return SendFailure::PrivateAddress;
        }
        cause = found.source();
    }
    if error.is_timeout() { SendFailure::TimedOut } else { SendFailure::Unreachable }
}
