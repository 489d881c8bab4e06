//! Callers with a token of the configured issuer: who they are here.

use std::collections::BTreeSet;

use super::{App, ports::sign_in::TokenHolder};
use crate::domain::{
    identity::{AgentId, HolderName, Principal, Role, Roles, TOKEN_NAMES},
    ids::MAX_NAME_LENGTH,
};

impl App {
    /// Whom a caller with this token is now; nobody when it does not count, gives no role, or gives roles that nobody
    /// may have together.
    pub async fn holder_of_token(&self, token: &str) -> Option<Principal> {
        let verifier = self.sign_in.tokens.as_ref()?;
        let TokenHolder { subject, roles, agent } = verifier.holder(token, self.now()).await?;
        let roles = Roles::new(roles).ok()?;
        let proposes = roles.contains(Role::Agent) || roles.contains(Role::Orchestrator);
        let name = if proposes {
            match agent {
                Some(agent) => HolderName::parse(agent.as_str()).ok()?,
                // Another spelling could be another's name: what cannot be one is none.
                None => HolderName::parse(&format!("{TOKEN_NAMES}{subject}")).ok()?,
            }
        } else {
            match self.reviewer_of_subject(&subject) {
                Some(reviewer) => HolderName::parse(reviewer.name.as_str()).ok()?,
                // Nobody's but for the log, which holds the subject itself beside it.
                None => label_of(&subject)?,
            }
        };
        let agents = if roles.contains(Role::Orchestrator) {
            BTreeSet::from([AgentId::parse(name.as_str()).ok()?])
        } else {
            BTreeSet::new()
        };
        Some(Principal::of_token(subject, name, roles, agents))
    }
}

/// A name for somebody who decides nothing: the subject, as far as a name can say it.
fn label_of(subject: &str) -> Option<HolderName> {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "_.:@-".contains(c) { c } else { '_' };
    let text: String = TOKEN_NAMES.chars().chain(subject.chars().map(allowed)).take(MAX_NAME_LENGTH).collect();
    HolderName::parse(&text).ok()
}
