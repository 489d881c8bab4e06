//! Signing people in at an OpenID Connect provider: the authorization code flow with PKCE (OpenID Connect Core 1.0, RFC
//! 7636, RFC 9207). It must not know who may review anything; it tells which subject signed in, and when.
//!
//! What binds the provider's answer to one browser is made of what that browser holds and of the `state`: the verifier
//! and the nonce are SHA-256 over both, so the store needs to keep neither.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use url::Url;

use super::issuer::{Audience, Issuer, IssuerFault, LEEWAY, Times, whole_seconds};
use crate::{
    app::ports::sign_in::{IssuerRequest, ProvenSubject, ProviderAnswer, ProviderFault, SignInProvider, SignInSecrets},
    domain::{
        session::{FRESH, Freshness},
        time::Timestamp,
    },
};

/// The types that an ID token may say to be; one that says nothing is one too.
const ID_TOKEN_TYPES: [&str; 1] = ["JWT"];

/// A provider, as this installation is known there.
pub struct Oidc {
    issuer: Issuer,
    client: OidcClient,
}

/// As what this installation is known at the provider. No `Debug` shows the secret.
#[derive(Clone)]
pub struct OidcClient {
    /// The client's id.
    pub id: String,
    /// The client's secret.
    pub secret: Arc<str>,
    /// What is asked for; `openid` is among it.
    pub scopes: String,
    /// Where the provider sends the browser back to.
    pub redirect_uri: String,
}

impl fmt::Debug for OidcClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OidcClient")
            .field("id", &self.id)
            .field("redirect_uri", &self.redirect_uri)
            .finish_non_exhaustive()
    }
}

/// What the token endpoint answers. The access token is not wanted, and not read.
#[derive(Deserialize)]
struct TokenAnswer {
    id_token: String,
}

/// The claims of an ID token (section 2).
#[derive(Deserialize)]
struct IdToken {
    iss: String,
    sub: String,
    aud: Audience,
    exp: i64,
    iat: i64,
    #[serde(default)]
    nbf: Option<i64>,
    #[serde(default)]
    nonce: Option<String>,
    #[serde(default)]
    azp: Option<String>,
    #[serde(default)]
    auth_time: Option<i64>,
}

impl Oidc {
    /// This client at this issuer.
    pub fn new(issuer: Issuer, client: OidcClient) -> Self {
        Self { issuer, client }
    }

    /// Changes the code for an ID token.
    async fn redeem(&self, code: &str, secrets: &SignInSecrets, now: Timestamp) -> Result<String, IssuerFault> {
        let discovered = self.issuer.discovered(now).await?;
        let endpoint = discovered.token_endpoint.clone();
        let endpoint = endpoint.ok_or_else(|| IssuerFault::Unavailable("it has no token endpoint".to_owned()))?;
        self.issuer.check_address(&endpoint)?;
        let mut form = vec![
            ("grant_type".to_owned(), "authorization_code".to_owned()),
            ("code".to_owned(), code.to_owned()),
            ("redirect_uri".to_owned(), self.client.redirect_uri.clone()),
            ("code_verifier".to_owned(), derived(secrets, "verifier")),
        ];
        // What a provider that does not say takes (Discovery, section 3).
        let taken = discovered.token_endpoint_auth_methods_supported.as_deref();
        let takes = |method: &str| taken.is_some_and(|taken| taken.iter().any(|one| one == method));
        let basic = if taken.is_none() || takes("client_secret_basic") {
            Some((self.client.id.clone(), Arc::clone(&self.client.secret)))
        } else if takes("client_secret_post") {
            form.push(("client_id".to_owned(), self.client.id.clone()));
            form.push(("client_secret".to_owned(), self.client.secret.to_string()));
            None
        } else {
            return Err(IssuerFault::Unavailable("it takes no client secret".to_owned()));
        };
        let request = IssuerRequest { url: endpoint, form: Some(form), basic };
        let answer = self.issuer.client().send(request).await;
        let answer = answer.map_err(|silent| IssuerFault::Unavailable(silent.0))?;
        match answer.status {
            200 => {}
            400..=499 => return Err(IssuerFault::Refused("the provider does not take the code")),
            other => return Err(IssuerFault::Unavailable(format!("its token endpoint answered {other}"))),
        }
        let answer: TokenAnswer = serde_json::from_slice(&answer.body)
            .map_err(|_| IssuerFault::Unavailable("its token endpoint answered no ID token".to_owned()))?;
        Ok(answer.id_token)
    }

    /// Checks an ID token (section 3.1.3.7).
    async fn subject_of(
        &self,
        id_token: &str,
        secrets: &SignInSecrets,
        freshness: Freshness,
        now: Timestamp,
    ) -> Result<ProvenSubject, IssuerFault> {
        let token: IdToken = self.issuer.signed_claims(id_token, &ID_TOKEN_TYPES, now).await?;
        if token.iss != self.issuer.name() {
            return Err(IssuerFault::Refused("the ID token is another issuer's"));
        }
        let is_ours = token.aud.contains(&self.client.id)
            && match &token.azp {
                Some(party) => *party == self.client.id,
                None => token.aud.is_one(),
            };
        if !is_ours {
            return Err(IssuerFault::Refused("the ID token is for another client"));
        }
        if token.nonce.as_deref() != Some(derived(secrets, "nonce").as_str()) {
            return Err(IssuerFault::Refused("the ID token belongs to another sign-in"));
        }
        Times { issued: Some(token.iat), not_before: token.nbf, expires: token.exp }.check(now)?;
        if token.sub.is_empty() || token.sub.len() > 255 {
            return Err(IssuerFault::Refused("the ID token names no subject"));
        }
        let second = whole_seconds(now);
        if token.auth_time.is_some_and(|at| at > second.saturating_add(LEEWAY)) {
            return Err(IssuerFault::Refused("the sign-in lies in the future"));
        }
        match freshness {
            Freshness::Any => {}
            Freshness::Fresh => {
                let longest = i64::try_from(FRESH.as_secs()).unwrap_or(i64::MAX);
                let oldest = second.saturating_sub(longest).saturating_sub(LEEWAY);
                // With `max_age` the claim is required (section 2).
                if token.auth_time.is_none_or(|at| at < oldest) {
                    return Err(IssuerFault::Refused("the sign-in is not as fresh as was asked for"));
                }
            }
        }
        let authenticated_at = token.auth_time.map(|at| Timestamp::from_micros(at.saturating_mul(1_000_000)));
        Ok(ProvenSubject { subject: token.sub, authenticated_at })
    }
}

#[async_trait]
impl SignInProvider for Oidc {
    async fn begin(
        &self,
        secrets: &SignInSecrets,
        freshness: Freshness,
        now: Timestamp,
    ) -> Result<String, ProviderFault> {
        let discovered = self.issuer.discovered(now).await?;
        let endpoint = discovered.authorization_endpoint.as_deref().unwrap_or_default();
        self.issuer.check_address(endpoint)?;
        let mut address = Url::parse(endpoint)
            .map_err(|_| ProviderFault::Unavailable("its authorization endpoint is no address".to_owned()))?;
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(derived(secrets, "verifier")));
        let (state, nonce) = (secrets.state.to_text(), derived(secrets, "nonce"));
        let mut query = address.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.client.id)
            .append_pair("redirect_uri", &self.client.redirect_uri)
            .append_pair("scope", &self.client.scopes)
            .append_pair("state", &state)
            .append_pair("nonce", &nonce)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        match freshness {
            Freshness::Any => {}
            Freshness::Fresh => {
                query.append_pair("prompt", "login").append_pair("max_age", &FRESH.as_secs().to_string());
            }
        }
        drop(query);
        Ok(address.into())
    }

    async fn finish(
        &self,
        answer: &ProviderAnswer,
        secrets: &SignInSecrets,
        freshness: Freshness,
        now: Timestamp,
    ) -> Result<ProvenSubject, ProviderFault> {
        let discovered = self.issuer.discovered(now).await?;
        // RFC 9207, section 2.4.
        match answer.issuer.as_deref() {
            Some(issuer) if issuer != self.issuer.name() => {
                return Err(ProviderFault::Refused("the answer is another issuer's"));
            }
            None if discovered.authorization_response_iss_parameter_supported => {
                return Err(ProviderFault::Refused("the answer does not say whose it is"));
            }
            Some(_) | None => {}
        }
        let id_token = self.redeem(&answer.code, secrets, now).await?;
        Ok(self.subject_of(&id_token, secrets, freshness, now).await?)
    }
}

impl From<IssuerFault> for ProviderFault {
    fn from(fault: IssuerFault) -> Self {
        match fault {
            IssuerFault::Unavailable(why) => Self::Unavailable(why),
            IssuerFault::Refused(why) => Self::Refused(why),
        }
    }
}

/// 43 characters that only the browser of this sign-in could have led to.
fn derived(secrets: &SignInSecrets, what: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(what);
    hash.update([0]);
    hash.update(secrets.browser.expose());
    hash.update(secrets.state.expose());
    URL_SAFE_NO_PAD.encode(hash.finalize())
}
