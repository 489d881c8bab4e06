//! Tokens of a configured issuer as credentials of the API (RFC 7519, RFC 9068). It must not know who may do what; it
//! tells whom the issuer says a caller is, and which roles the settings give for that.
//!
//! A permit is never taken: its type is another, and so is its issuer.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::issuer::{Audience, Issuer, IssuerFault, Times};
use crate::{
    app::ports::sign_in::{TokenHolder, TokenVerifier},
    domain::{
        identity::{AgentId, Role},
        time::Timestamp,
    },
};

/// The types that a token may say to be; one that says nothing is taken too.
const TYPES: [&str; 3] = ["JWT", "at+jwt", "application/at+jwt"];

/// The tokens of one issuer, and what they give.
pub struct IssuedTokens {
    issuer: Issuer,
    terms: TokenTerms,
}

/// Which tokens count, and what they give.
#[derive(Clone, Debug)]
pub struct TokenTerms {
    /// For whom they must be.
    pub audience: String,
    /// The claim that holds what `roles` maps: a name, or a JSON Pointer (RFC 6901) where it begins with a slash.
    pub roles_claim: String,
    /// The role that each value of that claim gives.
    pub roles: BTreeMap<String, Role>,
    /// The agent that a subject is.
    pub agents: BTreeMap<String, AgentId>,
}

/// The claims of a token that are looked at.
#[derive(Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: Audience,
    exp: i64,
    #[serde(default)]
    nbf: Option<i64>,
    #[serde(default)]
    iat: Option<i64>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

impl IssuedTokens {
    /// The tokens of `issuer` that count by these terms.
    pub fn new(issuer: Issuer, terms: TokenTerms) -> Self {
        Self { issuer, terms }
    }

    async fn checked(&self, token: &str, now: Timestamp) -> Result<TokenHolder, IssuerFault> {
        let claims: Claims = self.issuer.signed_claims(token, &TYPES, now).await?;
        if claims.iss != self.issuer.name() {
            return Err(IssuerFault::Refused("the token is another issuer's"));
        }
        if !claims.aud.contains(&self.terms.audience) {
            return Err(IssuerFault::Refused("the token is for somebody else"));
        }
        Times { issued: claims.iat, not_before: claims.nbf, expires: claims.exp }.check(now)?;
        if claims.sub.is_empty() || claims.sub.len() > 255 {
            return Err(IssuerFault::Refused("the token names no subject"));
        }
        let roles = self.roles(&Value::Object(claims.others));
        let agent = self.terms.agents.get(&claims.sub).cloned();
        Ok(TokenHolder { subject: claims.sub, roles, agent })
    }

    /// The roles that the claim gives: a text, or a list of texts. What is not mapped gives none.
    fn roles(&self, claims: &Value) -> BTreeSet<Role> {
        let claim = &self.terms.roles_claim;
        let said = if claim.starts_with('/') { claims.pointer(claim) } else { claims.get(claim) };
        let said: Vec<&str> = match said {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => Vec::new(),
        };
        said.into_iter().filter_map(|value| self.terms.roles.get(value).copied()).collect()
    }
}

#[async_trait]
impl TokenVerifier for IssuedTokens {
    async fn holder(&self, token: &str, now: Timestamp) -> Option<TokenHolder> {
        match self.checked(token, now).await {
            Ok(holder) => Some(holder),
            Err(fault @ IssuerFault::Unavailable(_)) => {
                tracing::error!(%fault, "no token can be checked");
                None
            }
            Err(fault @ IssuerFault::Refused(_)) => {
                tracing::debug!(%fault, "a token is not taken");
                None
            }
        }
    }
}
