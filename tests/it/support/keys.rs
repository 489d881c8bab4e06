//! Keys whose text follows from the name of their holder.

use std::collections::BTreeSet;

use countersign::{
    auth::api_key::ApiKeyText,
    domain::{
        identity::{AgentId, HolderName, KeyParts, KeyRecord, Role, Roles},
        ids::KeyId,
        time::Timestamp,
    },
};
use sha2::{Digest, Sha256};

use super::{clock::START, sample::uuid};

/// The key of `holder`.
pub(crate) fn text(holder: &str) -> ApiKeyText {
    ApiKeyText::generate(&Sha256::digest(holder).into())
}

/// The record of that key.
pub(crate) fn record(holder: &str, role: Role) -> KeyRecord {
    KeyRecord::new(parts(holder, role)).unwrap()
}

/// The record of that key, which expires.
pub(crate) fn expiring(holder: &str, role: Role, at: Timestamp) -> KeyRecord {
    KeyRecord::new(KeyParts { expires_at: Some(at), ..parts(holder, role) }).unwrap()
}

/// The record of that key, which was revoked.
pub(crate) fn revoked(holder: &str, role: Role, at: Timestamp) -> KeyRecord {
    KeyRecord::new(KeyParts { revoked_at: Some(at), ..parts(holder, role) }).unwrap()
}

/// The record of that key, with which the requests of these agents are written.
pub(crate) fn orchestrator(holder: &str, agents: &[&str]) -> KeyRecord {
    let agents = agents.iter().map(|agent| AgentId::parse(agent).unwrap()).collect();
    KeyRecord::new(KeyParts { agents, ..parts(holder, Role::Orchestrator) }).unwrap()
}

fn parts(holder: &str, role: Role) -> KeyParts {
    KeyParts {
        id: KeyId::from_uuid(uuid()),
        name: HolderName::parse(holder).unwrap(),
        roles: Roles::new([role]).unwrap(),
        agents: BTreeSet::new(),
        hash: text(holder).sha256(),
        created_at: START,
        expires_at: None,
        revoked_at: None,
    }
}
