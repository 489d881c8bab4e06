//! An issuer of tokens: its discovery document, its keys, and whether a token is one of its own (OpenID Connect Discovery
//! 1.0, RFC 7517, RFC 7519). It must not know what a token lets anybody do.
//!
//! The algorithm of a token is the one its key is for, never what the token says alone, and never a symmetric one: the
//! keys of an issuer are public.

use std::{sync::Arc, time::Duration};

use self::fetched::Fetched;
use crate::{
    app::ports::sign_in::{IssuerClient, IssuerRequest},
    domain::time::Timestamp,
};
use jsonwebtoken::{
    Algorithm, DecodingKey, Validation,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

mod fetched;

/// For how long what an issuer says of itself is taken to be so.
const KNOWN_FOR: Duration = Duration::from_secs(60 * 60);

/// How long after keys were fetched they are fetched again, at the earliest, because of one that is not known.
const FETCH_EVERY: Duration = Duration::from_secs(30);

/// How long after an attempt that failed there is no other: whoever sends tokens must not decide how often an issuer that is
/// down is asked.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// How far the clocks of an issuer and of this machine may be apart.
pub(super) const LEEWAY: i64 = 30;

/// The longest token that is looked at, in bytes.
pub(super) const LONGEST_TOKEN: usize = 16 * 1024;

/// Why a token is not taken, or none could be had. The words are for the log, and repeat nothing of a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IssuerFault {
    /// The issuer does not answer, or not as it should.
    #[error("the issuer does not answer: {0}")]
    Unavailable(String),
    /// The token, or what it came with, is not what it should be.
    #[error("{0}")]
    Refused(&'static str),
}

/// What an issuer says of itself.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Discovered {
    pub(super) issuer: String,
    #[serde(default)]
    pub(super) authorization_endpoint: Option<String>,
    #[serde(default)]
    pub(super) token_endpoint: Option<String>,
    pub(super) jwks_uri: String,
    #[serde(default)]
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
}

/// An issuer, with what is known of it.
pub struct Issuer {
    name: String,
    jwks_url: Option<String>,
    insecure: Schemes,
    client: Arc<dyn IssuerClient>,
    discovered: Fetched<Discovered>,
    keys: Fetched<Vec<Jwk>>,
}

/// Over what an issuer may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schemes {
    /// https alone.
    Https,
    /// http as well: an issuer on the same machine or network.
    HttpToo,
}

/// The `aud` of a token: one or several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Audience {
    One(String),
    Several(Vec<String>),
}

impl Audience {
    pub(super) fn contains(&self, audience: &str) -> bool {
        match self {
            Self::One(one) => one == audience,
            Self::Several(several) => several.iter().any(|one| one == audience),
        }
    }

    pub(super) fn is_one(&self) -> bool {
        match self {
            Self::One(_) => true,
            Self::Several(several) => several.len() == 1,
        }
    }
}

/// The times of a token, in whole seconds since the Unix epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) issued: Option<i64>,
    pub(super) not_before: Option<i64>,
    pub(super) expires: i64,
}

impl Times {
    /// Whether a token with these times counts at `now`.
    pub(super) fn check(self, now: Timestamp) -> Result<(), IssuerFault> {
        let now = whole_seconds(now);
        let begun = |at: Option<i64>| at.is_none_or(|at| at <= now.saturating_add(LEEWAY));
        if !begun(self.issued) || !begun(self.not_before) {
            return Err(IssuerFault::Refused("the token is not valid yet"));
        }
        if now >= self.expires.saturating_add(LEEWAY) {
            return Err(IssuerFault::Refused("the token has expired"));
        }
        Ok(())
    }
}

impl Issuer {
    /// The issuer of this name, which is its address. Without `jwks_url` it says itself where its keys are.
    pub fn new(name: String, jwks_url: Option<String>, insecure: Schemes, client: Arc<dyn IssuerClient>) -> Self {
        Self { name, jwks_url, insecure, client, discovered: Fetched::default(), keys: Fetched::default() }
    }

    /// Its name, as tokens say it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn client(&self) -> &Arc<dyn IssuerClient> {
        &self.client
    }

    /// What it says of itself, asked for at most once an hour.
    pub(super) async fn discovered(&self, now: Timestamp) -> Result<Arc<Discovered>, IssuerFault> {
        self.discovered.within(KNOWN_FOR, now, || self.discover()).await
    }

    async fn discover(&self) -> Result<Discovered, IssuerFault> {
        let address = format!("{}/.well-known/openid-configuration", self.name.trim_end_matches('/'));
        let discovered: Discovered = self.fetch(&address).await?;
        // Section 4.3: another name would be another issuer's document.
        if discovered.issuer != self.name {
            return Err(IssuerFault::Unavailable("its discovery document names another issuer".to_owned()));
        }
        Ok(discovered)
    }

    /// The claims of a token that this issuer signed. Nothing is checked but that: not even for whom it is, or when.
    pub(super) async fn signed_claims<T: DeserializeOwned>(
        &self,
        token: &str,
        types: &[&str],
        now: Timestamp,
    ) -> Result<T, IssuerFault> {
        const NO_TOKEN: IssuerFault = IssuerFault::Refused("it is no token of a type that is taken here");
        if token.len() > LONGEST_TOKEN {
            return Err(NO_TOKEN);
        }
        let header = jsonwebtoken::decode_header(token).map_err(|_| NO_TOKEN)?;
        let typed = header.typ.as_deref().is_none_or(|typ| types.iter().any(|known| known.eq_ignore_ascii_case(typ)));
        if !typed || header.crit.is_some() {
            return Err(NO_TOKEN);
        }
        let key = self.key(header.kid.as_deref(), header.alg, now).await?;
        let key = DecodingKey::from_jwk(&key).map_err(|_| IssuerFault::Refused("its key cannot be used"))?;
        let mut validation = Validation::new(header.alg);
        // The library reads the clock of the machine, and knows less of audiences: its caller checks the claims.
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.validate_aud = false;
        let decoded = jsonwebtoken::decode::<T>(token, &key, &validation);
        Ok(decoded.map_err(|_| IssuerFault::Refused("its signature or one of its claims is wrong"))?.claims)
    }

    /// The one key that a token with this header was signed with.
    async fn key(&self, kid: Option<&str>, algorithm: Algorithm, now: Timestamp) -> Result<Jwk, IssuerFault> {
        const UNKNOWN: IssuerFault = IssuerFault::Refused("it is signed with a key the issuer does not publish");
        // Nobody is asked for what no key could be for.
        if matches!(algorithm, Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512) {
            return Err(UNKNOWN);
        }
        let known = self.keys.within(KNOWN_FOR, now, || self.published_keys(now)).await?;
        if let Some(key) = one_key(&known, kid, algorithm) {
            return Ok(key.clone());
        }
        let newer = self.keys.within(FETCH_EVERY, now, || self.published_keys(now)).await?;
        one_key(&newer, kid, algorithm).cloned().ok_or(UNKNOWN)
    }

    async fn published_keys(&self, now: Timestamp) -> Result<Vec<Jwk>, IssuerFault> {
        /// Keys of a kind that nobody here knows may be among them.
        #[derive(Deserialize)]
        struct KeySet {
            keys: Vec<Value>,
        }
        let address = match &self.jwks_url {
            Some(address) => address.clone(),
            None => self.discovered(now).await?.jwks_uri.clone(),
        };
        let set: KeySet = self.fetch(&address).await?;
        Ok(set.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok()).collect())
    }

    /// Fetches a document of the issuer.
    async fn fetch<T: DeserializeOwned>(&self, address: &str) -> Result<T, IssuerFault> {
        self.check_address(address)?;
        let request = IssuerRequest { url: address.to_owned(), form: None, basic: None };
        let answer = self.client.send(request).await.map_err(|silent| IssuerFault::Unavailable(silent.0))?;
        if answer.status != 200 {
            return Err(IssuerFault::Unavailable(format!("it answered {} instead of a document", answer.status)));
        }
        serde_json::from_slice(&answer.body)
            .map_err(|_| IssuerFault::Unavailable("its document is not what it should be".to_owned()))
    }

    /// Refuses an address that is not safe to be asked.
    pub(super) fn check_address(&self, address: &str) -> Result<(), IssuerFault> {
        let http_too = self.insecure == Schemes::HttpToo && address.starts_with("http://");
        if address.starts_with("https://") || http_too {
            Ok(())
        } else {
            Err(IssuerFault::Unavailable("it names an address without https".to_owned()))
        }
    }
}

/// The one key that fits; with several, none.
fn one_key<'k>(keys: &'k [Jwk], kid: Option<&str>, algorithm: Algorithm) -> Option<&'k Jwk> {
    let fits = |key: &&Jwk| is_for(key, algorithm) && kid.is_none_or(|kid| key.common.key_id.as_deref() == Some(kid));
    let mut fitting = keys.iter().filter(fits);
    match (fitting.next(), fitting.next()) {
        (Some(key), None) => Some(key),
        (Some(_), Some(_)) | (None, _) => None,
    }
}

/// Whether a key is for signatures of this algorithm: as it says itself, and as its kind allows.
fn is_for(key: &Jwk, algorithm: Algorithm) -> bool {
    let says = match key.common.key_algorithm {
        None => true,
        Some(KeyAlgorithm::EdDSA) => algorithm == Algorithm::EdDSA,
        Some(known) => known.to_string().parse::<Algorithm>().is_ok_and(|known| known == algorithm),
    };
    let signs = match &key.common.public_key_use {
        None | Some(PublicKeyUse::Signature) => true,
        Some(PublicKeyUse::Encryption | PublicKeyUse::Other(_)) => false,
    };
    let allows = match (&key.algorithm, algorithm) {
        (
            AlgorithmParameters::RSA(_),
            Algorithm::RS256
            | Algorithm::RS384
            | Algorithm::RS512
            | Algorithm::PS256
            | Algorithm::PS384
            | Algorithm::PS512,
        ) => true,
        (AlgorithmParameters::EllipticCurve(curve), Algorithm::ES256) => curve.curve == EllipticCurve::P256,
        (AlgorithmParameters::EllipticCurve(curve), Algorithm::ES384) => curve.curve == EllipticCurve::P384,
        (AlgorithmParameters::OctetKeyPair(pair), Algorithm::EdDSA) => pair.curve == EllipticCurve::Ed25519,
        _ => false,
    };
    says && signs && allows
}

/// The whole seconds since the Unix epoch.
pub(super) fn whole_seconds(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(1_000_000)
}
