//! Permits: short-lived signed tokens that let a tool server check a permission without asking the service. It must not
//! know how a permission came about, nor where keys are kept.
//!
//! A permit is a JWT (RFC 7519) signed with EdDSA over Ed25519 (RFC 8037), header `typ` `permit+jwt` (explicit typing,
//! RFC 8725 section 3.11, so that no other token can pass for a permit nor a permit for another), `kid` the RFC 7638
//! thumbprint of the key. Public keys are published as a JWK Set (RFC 7517). A tool server checks signature, `typ`,
//! `iss`, `aud`, times and `tool`, computes `args_hash` from the arguments it is about to use and compares, and remembers
//! `jti` until `exp`.

use std::{collections::BTreeMap, time::Duration};

use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    app::ports::{self, Permit, SigningError},
    domain::time::Timestamp,
};

mod keys;
mod seal;

pub use keys::{InvalidKey, PublicKey, SigningKey};
pub use seal::{SealError, SealKey};

/// How long a permit is good for.
pub const LIFETIME: Duration = Duration::from_secs(60);

const TYPE: &str = "permit+jwt";

/// Everything a permit says: the permission, who issued it and when it holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PermitClaims {
    /// The service that issued it, by its public URL.
    pub iss: String,
    /// The permission.
    #[serde(flatten)]
    pub permit: Permit,
    /// From this second of the Unix epoch on.
    pub nbf: i64,
    /// Until just before this second of the Unix epoch.
    pub exp: i64,
}

/// Why a token is not taken for a permit.
#[derive(Debug, thiserror::Error)]
pub enum PermitRefused {
    /// It is no JWT whose header names type `permit+jwt`, algorithm EdDSA and a key, and no critical extension.
    #[error("not a permit")]
    NotAPermit,
    /// Its `kid` is none of the issuer's keys.
    #[error("signed with a key the issuer does not publish")]
    UnknownKey,
    /// Signature, issuer or audience do not fit, or a claim is missing or of another type.
    #[error("signature, issuer, audience or a claim is wrong")]
    Invalid(#[source] jsonwebtoken::errors::Error),
    /// Now is before `nbf`, or `exp` has come.
    #[error("not valid now")]
    NotNow,
}

/// Signs permits with the current key and publishes it together with its predecessors.
#[derive(Debug)]
pub struct PermitSigner {
    issuer: String,
    current: SigningKey,
    previous: Vec<PublicKey>,
}

impl PermitSigner {
    /// A signer for the service at `issuer`, its `public_url`. The `previous` keys sign nothing any more; they are
    /// published so that permits still on their way pass while keys are changed.
    pub fn new(issuer: impl Into<String>, current: SigningKey, previous: Vec<PublicKey>) -> Self {
        Self { issuer: issuer.into(), current, previous }
    }

    /// What checks the permits of this signer.
    pub fn verifier(&self) -> PermitVerifier {
        PermitVerifier::new(self.issuer.clone(), std::iter::once(self.current.public()).chain(&self.previous))
    }
}

impl ports::PermitSigner for PermitSigner {
    /// Signs `permit`, good from `from` for [`LIFETIME`], both cut to whole seconds.
    fn sign(&self, permit: &Permit, from: Timestamp) -> Result<String, SigningError> {
        let mut header = Header::new(Algorithm::EdDSA);
        header.typ = Some(TYPE.to_owned());
        header.kid = Some(self.current.public().kid().to_owned());
        let claims = PermitClaims {
            iss: self.issuer.clone(),
            permit: permit.clone(),
            nbf: whole_seconds(from),
            exp: whole_seconds(from.plus(LIFETIME)),
        };
        jsonwebtoken::encode(&header, &claims, self.current.encoding())
            .map_err(|error| SigningError(format!("the permit could not be signed: {error}")))
    }

    /// The public keys as a JWK Set (RFC 7517): the current one first, then the previous ones, each once.
    fn jwks(&self) -> Value {
        let mut kids = Vec::new();
        let mut keys = Vec::new();
        for key in std::iter::once(self.current.public()).chain(&self.previous) {
            if !kids.contains(&key.kid()) {
                kids.push(key.kid());
                keys.push(key.jwk());
            }
        }
        serde_json::json!({ "keys": keys })
    }
}

/// Checks permits as a tool server does.
#[derive(Clone)]
pub struct PermitVerifier {
    issuer: String,
    keys: BTreeMap<String, DecodingKey>,
}

impl PermitVerifier {
    /// A verifier for the permits of `issuer`, which publishes `keys`.
    pub fn new<'a>(issuer: impl Into<String>, keys: impl IntoIterator<Item = &'a PublicKey>) -> Self {
        let keys = keys.into_iter().map(|key| (key.kid().to_owned(), key.decoding())).collect();
        Self { issuer: issuer.into(), keys }
    }

    /// Checks `token` for the tool server `audience` at `now`, without any leeway. The caller still has to compare
    /// `tool` and `args_hash` with what it is about to do, and to refuse a `jti` it has seen.
    ///
    /// # Errors
    ///
    /// [`PermitRefused`] for everything but a permit of this issuer, for this audience, that holds now.
    pub fn verify(&self, token: &str, audience: &str, now: Timestamp) -> Result<PermitClaims, PermitRefused> {
        let header = jsonwebtoken::decode_header(token).map_err(|_| PermitRefused::NotAPermit)?;
        let typed = header.typ.as_deref() == Some(TYPE) && header.crit.is_none();
        let Some(kid) = header.kid.filter(|_| typed && header.alg == Algorithm::EdDSA) else {
            return Err(PermitRefused::NotAPermit);
        };
        let key = self.keys.get(&kid).ok_or(PermitRefused::UnknownKey)?;

        let mut validation = Validation::new(Algorithm::EdDSA);
        validation.set_issuer(&[&self.issuer]);
        validation.set_audience(&[audience]);
        validation.set_required_spec_claims(&["iss", "aud", "sub", "nbf", "exp"]);
        // The library reads the clock of the machine; here time is an argument, and is compared below.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        let claims =
            jsonwebtoken::decode::<PermitClaims>(token, key, &validation).map_err(PermitRefused::Invalid)?.claims;
        let second = whole_seconds(now);
        if claims.nbf <= second && second < claims.exp { Ok(claims) } else { Err(PermitRefused::NotNow) }
    }
}

fn whole_seconds(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(1_000_000)
}
