//! `[oidc]` and `[jwt]`, as they are written.

use std::collections::BTreeMap;

use super::{Secret, reader::Section};

/// `[oidc]`: where people sign in.
#[derive(Debug)]
pub struct OidcSettings {
    /// The issuer's name, which is its address; as it is written, for it is compared byte for byte.
    pub issuer: String,
    /// As whom this installation is known there.
    pub client_id: String,
    /// The secret it shares with the provider.
    pub client_secret: Secret,
    /// What is asked for; `openid`.
    pub scopes: String,
    /// Whether everybody signs in there, so that personal links open nothing; no.
    pub required: bool,
    /// Whether it may be at a private address, and without https; no.
    pub allow_private_addresses: bool,
}

/// `[jwt]`: the issuer whose tokens are taken as credentials of the API.
#[derive(Debug)]
pub struct JwtSettings {
    /// The issuer's name, which is its address.
    pub issuer: String,
    /// For whom its tokens must be.
    pub audience: String,
    /// Where its keys are, when it does not say so itself.
    pub jwks_url: Option<String>,
    /// The claim that holds what `roles` maps; `roles`.
    pub roles_claim: String,
    /// The role that each value of that claim gives.
    pub roles: BTreeMap<String, String>,
    /// The agent that a subject is; another is `jwt:` and the subject.
    pub agents: BTreeMap<String, String>,
    /// Whether it may be at a private address, and without https; no.
    pub allow_private_addresses: bool,
}

impl OidcSettings {
    pub(super) fn read(mut section: Section<'_>) -> Option<Self> {
        let issuer = section.needed("issuer");
        let client_id = section.needed("client_id");
        let client_secret = section.needed_secret("client_secret");
        let scopes = section.line("scopes", 500).unwrap_or_else(|| "openid".to_owned());
        if !scopes.split(' ').any(|scope| scope == "openid") {
            section.fault("scopes", "lacks openid, without which nobody is named", "write scopes = \"openid\"");
        }
        let required = section.boolean("required").unwrap_or(false);
        let allow_private_addresses = section.boolean("allow_private_addresses").unwrap_or(false);
        check_address(&section, "issuer", issuer.as_deref(), allow_private_addresses);
        section.finish();
        Some(Self {
            issuer: issuer?,
            client_id: client_id?,
            client_secret: client_secret?,
            scopes,
            required,
            allow_private_addresses,
        })
    }
}

impl JwtSettings {
    pub(super) fn read(mut section: Section<'_>) -> Option<Self> {
        let issuer = section.needed("issuer");
        let audience = section.needed("audience");
        let jwks_url = section.text("jwks_url");
        let roles_claim = section.line("roles_claim", 200).unwrap_or_else(|| "roles".to_owned());
        let (roles, agents) = (section.texts_by_name("roles"), section.texts_by_name("agents"));
        if roles.is_empty() {
            section.fault("roles", "maps no claim to a role, so that no token opens anything", "write [jwt.roles]");
        }
        let allow_private_addresses = section.boolean("allow_private_addresses").unwrap_or(false);
        check_address(&section, "issuer", issuer.as_deref(), allow_private_addresses);
        check_address(&section, "jwks_url", jwks_url.as_deref(), allow_private_addresses);
        section.finish();
        Some(Self {
            issuer: issuer?,
            audience: audience?,
            jwks_url,
            roles_claim,
            roles,
            agents,
            allow_private_addresses,
        })
    }
}

/// Without https anybody on the way could name a reviewer.
fn check_address(section: &Section<'_>, key: &'static str, address: Option<&str>, private: bool) {
    let Some(address) = address else { return };
    let safe = address.starts_with("https://") || private && address.starts_with("http://");
    if !safe || !url::Url::parse(address).is_ok_and(|url| url.query().is_none() && url.fragment().is_none()) {
        section.fault(key, "is not a web address with https", "write one such as https://login.acme.example");
    }
}
