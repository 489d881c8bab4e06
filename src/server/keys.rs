//! Making API keys: the text that is shown once, and the record that is kept.

use std::{collections::BTreeSet, time::Duration};

use crate::{
    app::{
        error::Error,
        keys::create_key,
        ports::{Clock, Entropy, EntropyError, SharedStore},
    },
    auth::api_key::ApiKeyText,
    domain::{
        audit::entry::Actor,
        identity::{AgentId, HolderName, KeyFault, KeyParts, KeyRecord, Role, Roles},
        ids::KeyId,
    },
};

/// What a key is to be.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// Whom it is for.
    pub name: HolderName,
    /// What its holder may be.
    pub roles: BTreeSet<Role>,
    /// The agents an orchestrator writes for.
    pub agents: BTreeSet<AgentId>,
    /// How long it is good for; `None` is for ever.
    pub expires_in: Option<Duration>,
}

/// A key that was made, and can be shown this once.
#[derive(Debug)]
pub struct MadeKey {
    /// The key itself.
    pub text: ApiKeyText,
    /// What is kept of it.
    pub record: KeyRecord,
}

/// Why no key was made.
#[derive(Debug, thiserror::Error)]
pub enum NotMade {
    /// There can be no such key.
    #[error(transparent)]
    Fault(#[from] KeyFault),
    /// No random bytes.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// It could not be stored.
    #[error(transparent)]
    Store(#[from] Error),
}

/// Makes a key and stores its record, in the name of whoever runs the command.
///
/// # Errors
/// [`NotMade`]; nothing is stored then.
pub async fn make(
    store: &SharedStore,
    clock: &dyn Clock,
    entropy: &dyn Entropy,
    new: NewKey,
) -> Result<MadeKey, NotMade> {
    let now = clock.now();
    let mut secret = [0; 32];
    entropy.fill(&mut secret)?;
    let text = ApiKeyText::generate(&secret);
    let mut random = [0; 10];
    entropy.fill(&mut random)?;
    let millis = u64::try_from(now.as_micros() / 1_000).unwrap_or_default();
    let record = KeyRecord::new(KeyParts {
        id: KeyId::from_uuid(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()),
        name: new.name,
        roles: Roles::new(new.roles)?,
        agents: new.agents,
        hash: text.sha256(),
        created_at: now,
        expires_at: new.expires_in.map(|time| now.plus(time)),
        revoked_at: None,
    })?;
    create_key(store, &operator(), &record, now).await?;
    Ok(MadeKey { text, record })
}

/// Who holds the database and runs commands.
pub fn operator() -> Actor {
    Actor { name: "operator".to_owned(), via: "cli".to_owned() }
}

/// The record that `text` opens, if there is one and it is a credential now.
pub fn record_of<'a>(text: &str, keys: &'a [KeyRecord], clock: &dyn Clock) -> Option<&'a KeyRecord> {
    let hash = ApiKeyText::parse(text).ok()?.sha256();
    keys.iter().find(|key| *key.hash() == hash && key.principal_at(clock.now()).is_some())
}
