//! From the settings of `[oidc]`, `[jwt]` and people's roles to what signs people in and takes tokens.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use url::{Host, Url};

use crate::{
    app::sessions::{InboxLinks, LinkUse, SignInSettings},
    auth::{
        issuer::{Issuer, Schemes},
        jwt::{IssuedTokens, TokenTerms},
        oidc::{Oidc, OidcClient},
    },
    config::{ChannelMeans, Config, ConfigFault, JwtSettings},
    domain::{
        identity::{AgentId, ReviewerName, Role},
        policy::{Fault, Policy, Severity},
    },
    outbound::{Issuers, Outbound},
};

/// What can be told of signing in before anything is started.
#[derive(Clone, Default)]
pub(super) struct SignInParts {
    roles: BTreeMap<ReviewerName, BTreeSet<Role>>,
    tokens: Option<TokenTerms>,
}

/// How people can sign in at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaysIn {
    /// At a provider: `[oidc]` is set.
    Provider,
    /// By links alone: those that are mailed, and those that a service on this machine prints.
    Links,
    /// Not at all: there are keys, tokens and chats.
    None,
}

impl WaysIn {
    pub(super) fn of(config: &Config) -> Self {
        let mails = config.channels.iter().any(|channel| matches!(channel.means, ChannelMeans::Email { .. }));
        let at_home = config.listen.ip().is_loopback() && is_on_loopback(&config.public_url_at(config.listen));
        if config.oidc.is_some() {
            Self::Provider
        } else if mails || at_home {
            Self::Links
        } else {
            Self::None
        }
    }

    /// What of a policy nobody could ever meet like this.
    pub(super) fn objections(self, policy: &Policy) -> Vec<Fault> {
        let fault = |message, hint: &str| Fault {
            file: String::new(),
            line: 1,
            column: 1,
            severity: Severity::Error,
            message,
            hint: hint.to_owned(),
        };
        let fresh = policy.tools_with_step_up().map(|tool| {
            let message = format!("an approval of {tool} takes step_up, and there is no provider to sign in at");
            fault(message, "set [oidc] in the settings, or take step_up out")
        });
        let on_page = policy.tools_decided_on_the_web().map(|tool| {
            let message = format!("an approval of {tool} is given on the page alone, and nobody can sign in there");
            fault(message, "set [oidc], or a channel of kind email, whose links open the page; or take decide_in out")
        });
        match self {
            Self::Provider => Vec::new(),
            Self::Links => fresh.collect(),
            Self::None => fresh.chain(on_page).collect(),
        }
    }
}

/// Reads what the settings say of people's roles and of tokens.
pub(super) fn parts(config: &Config, faults: &mut Vec<ConfigFault>) -> SignInParts {
    let mut roles = BTreeMap::new();
    for reviewer in &config.reviewers {
        let place = format!("reviewers.{}.roles", reviewer.name);
        let parsed = reviewer.roles.iter().filter_map(|role| match role.parse() {
            Ok(role @ (Role::Reviewer | Role::Auditor | Role::Admin)) => Some(role),
            Ok(Role::Agent | Role::Orchestrator) | Err(_) => {
                faults.push(ConfigFault::new(&place, "holds what is no role of a person", "write auditor or admin"));
                None
            }
        });
        let parsed: BTreeSet<Role> = parsed.collect();
        if let Ok(name) = ReviewerName::parse(&reviewer.name) {
            roles.insert(name, parsed);
        }
    }
    if config.oidc.is_some() && config.public_url.is_none() {
        let message = "is not set, and it is where the provider sends people back to";
        faults.push(ConfigFault::new("public_url", message, "set it, such as https://approve.acme.example"));
    }
    let tokens = config.jwt.as_ref().map(|jwt| token_terms(config, jwt, faults));
    SignInParts { roles, tokens }
}

fn token_terms(config: &Config, jwt: &JwtSettings, faults: &mut Vec<ConfigFault>) -> TokenTerms {
    let mut roles = BTreeMap::new();
    for (value, role) in &jwt.roles {
        match role.parse::<Role>() {
            Ok(role) => {
                roles.insert(value.clone(), role);
            }
            Err(error) => {
                let hint = "write reviewer, auditor, admin, agent or orchestrator";
                faults.push(ConfigFault::new(format!("jwt.roles.{value}"), format!("is no role: {error}"), hint));
            }
        }
    }
    let other_issuer = config.oidc.as_ref().is_some_and(|oidc| oidc.issuer != jwt.issuer);
    if other_issuer && roles.values().any(|role| *role == Role::Reviewer) {
        let message = "makes reviewers by subjects of another issuer than [oidc], which may be other people's there";
        faults.push(ConfigFault::new("jwt.roles", message, "take reviewer out, or use one issuer for both"));
    }
    let mut agents = BTreeMap::new();
    for (subject, agent) in &jwt.agents {
        match AgentId::parse(agent) {
            Ok(agent) => {
                agents.insert(subject.clone(), agent);
            }
            Err(error) => {
                let place = format!("jwt.agents.{subject}");
                faults.push(ConfigFault::new(place, format!("is {error}"), "choose another name"));
            }
        }
    }
    TokenTerms { audience: jwt.audience.clone(), roles_claim: jwt.roles_claim.clone(), roles, agents }
}

/// What a service at `public_url` is signed in to with.
pub(super) fn settings(config: &Config, parts: SignInParts, public_url: &str, outbound: &Outbound) -> SignInSettings {
    let issuer = |name: &str, jwks_url: Option<String>, private: bool| {
        let schemes = if private { Schemes::HttpToo } else { Schemes::Https };
        let client = Arc::new(Issuers::new(outbound.clone(), private));
        Issuer::new(name.to_owned(), jwks_url, schemes, client)
    };
    let mut settings = SignInSettings { roles: parts.roles, ..SignInSettings::default() };
    if let Some(oidc) = &config.oidc {
        let client = OidcClient {
            id: oidc.client_id.clone(),
            secret: Arc::from(oidc.client_secret.expose()),
            scopes: oidc.scopes.clone(),
            redirect_uri: format!("{public_url}/login/callback"),
        };
        let issuer = issuer(&oidc.issuer, None, oidc.allow_private_addresses);
        settings.provider = Some(Arc::new(Oidc::new(issuer, client)));
        if oidc.required {
            settings.links = LinkUse::Nothing;
        }
    }
    if let (Some(jwt), Some(terms)) = (&config.jwt, parts.tokens) {
        let issuer = issuer(&jwt.issuer, jwt.jwks_url.clone(), jwt.allow_private_addresses);
        settings.tokens = Some(Arc::new(IssuedTokens::new(issuer, terms)));
    }
    if config.listen.ip().is_loopback() && is_on_loopback(public_url) {
        settings.inbox_links = InboxLinks::OnLoopback;
    }
    settings
}

fn is_on_loopback(public_url: &str) -> bool {
    Url::parse(public_url).is_ok_and(|url| match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    })
}
