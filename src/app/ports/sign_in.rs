//! What signing in needs from the outside: a provider that says who somebody is, an issuer whose tokens are taken, and a
//! way to ask either. Nothing here knows a protocol.

use std::{collections::BTreeSet, fmt, sync::Arc};

use async_trait::async_trait;

use crate::domain::{
    identity::{AgentId, Role},
    session::{Freshness, Secret},
    time::Timestamp,
};

/// A request to an issuer. It has no `Debug`: codes and secrets are in it.
#[derive(Clone)]
pub struct IssuerRequest {
    /// Where to.
    pub url: String,
    /// What to send as a form; `None`: only to look.
    pub form: Option<Vec<(String, String)>>,
    /// User and password (RFC 7617).
    pub basic: Option<(String, Arc<str>)>,
}

/// What an issuer answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerAnswer {
    /// The status.
    pub status: u16,
    /// The whole body.
    pub body: Vec<u8>,
}

/// An issuer did not answer; why, for the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct IssuerSilent(pub String);

/// Asks issuers.
#[async_trait]
pub trait IssuerClient: Send + Sync {
    /// Sends a request and reads the answer.
    ///
    /// # Errors
    /// When there is none.
    async fn send(&self, request: IssuerRequest) -> Result<IssuerAnswer, IssuerSilent>;
}

/// What one sign-in is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInSecrets {
    /// What the browser holds that began it.
    pub browser: Secret,
    /// What the provider hands back.
    pub state: Secret,
}

/// What the provider sent the browser back with.
#[derive(Clone, PartialEq, Eq)]
pub struct ProviderAnswer {
    /// What is to be changed for a proof.
    pub code: String,
    /// Whose answer it says to be.
    pub issuer: Option<String>,
}

impl fmt::Debug for ProviderAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderAnswer").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

/// Who signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvenSubject {
    /// The provider's name for the person, which is never given to another.
    pub subject: String,
    /// When the person last showed who they are, if the provider says.
    pub authenticated_at: Option<Timestamp>,
}

/// Why nobody is signed in. The words are for the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderFault {
    /// The provider does not answer, or not as it should.
    #[error("the provider cannot be used: {0}")]
    Unavailable(String),
    /// What the browser or the provider brought is not what it should be.
    #[error("{0}")]
    Refused(&'static str),
}

/// Says who somebody is.
#[async_trait]
pub trait SignInProvider: Send + Sync {
    /// Where a browser is to be sent that begins to sign in.
    ///
    /// # Errors
    /// [`ProviderFault::Unavailable`].
    async fn begin(
        &self,
        secrets: &SignInSecrets,
        freshness: Freshness,
        now: Timestamp,
    ) -> Result<String, ProviderFault>;

    /// Who it is that came back with `answer`.
    ///
    /// # Errors
    /// [`ProviderFault`]: nobody.
    async fn finish(
        &self,
        answer: &ProviderAnswer,
        secrets: &SignInSecrets,
        freshness: Freshness,
        now: Timestamp,
    ) -> Result<ProvenSubject, ProviderFault>;
}

/// What a valid token says of its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenHolder {
    /// The issuer's name for the holder.
    pub subject: String,
    /// What the holder may be, as the settings map what the token claims.
    pub roles: BTreeSet<Role>,
    /// The agent that the settings take the subject for.
    pub agent: Option<AgentId>,
}

/// Takes the tokens of an issuer as credentials.
#[async_trait]
pub trait TokenVerifier: Send + Sync {
    /// Who holds `token`; nobody when it is none that counts at `now`.
    async fn holder(&self, token: &str, now: Timestamp) -> Option<TokenHolder>;
}
