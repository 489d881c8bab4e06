//! Who is who: roles, API keys without their secrets, what a valid key resolves to, and the directory of reviewers.

use std::{collections::BTreeSet, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::domain::{
    ids::{InvalidName, KeyId, Name, NameKind, SessionId},
    session::SessionScope,
    time::Timestamp,
};

mod directory;

pub use directory::{Absence, DirectoryFault, Reviewer, ReviewerDirectory, ReviewerEntry};

/// Marks the id of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfAgent {}

/// Marks the name of a reviewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfReviewer {}

/// Marks the name of a group of reviewers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfGroup {}

/// Marks the name of a channel to reviewers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfChannel {}

/// Marks the name a key was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfHolder {}

impl NameKind for OfAgent {
    const WHAT: &'static str = "agent's id";
    const PUNCTUATION: &'static str = "_.:@-";
}

impl NameKind for OfReviewer {
    const WHAT: &'static str = "reviewer's name";
    const PUNCTUATION: &'static str = "_.:@-";
}

impl NameKind for OfGroup {
    const WHAT: &'static str = "group's name";
    const PUNCTUATION: &'static str = "_.:@-";
}

impl NameKind for OfChannel {
    const WHAT: &'static str = "channel's name";
    const PUNCTUATION: &'static str = "_.-";
}

impl NameKind for OfHolder {
    const WHAT: &'static str = "key's name";
    const PUNCTUATION: &'static str = "_.:@-";
}

/// An authenticated caller that proposes tool calls; for a caller with a key, the key's name.
pub type AgentId = Name<OfAgent>;
/// A person who decides: the name of one entry of `[reviewers]`.
pub type ReviewerName = Name<OfReviewer>;
/// A group of reviewers, as policies name it.
pub type GroupName = Name<OfGroup>;
/// A way to reviewers: the name of one entry of `[channels]`.
pub type ChannelName = Name<OfChannel>;
/// Whom a key was made for, whatever its roles.
pub type HolderName = Name<OfHolder>;

/// Agents known by a token of an issuer have ids with this beginning; no key may bear such a name.
pub const TOKEN_NAMES: &str = "jwt:";

/// What the holder of a credential may be. No role contains another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Proposes tool calls and executes what was permitted.
    Agent,
    /// Writes what the human asked of a run, and so can widen what its agents may do.
    Orchestrator,
    /// Decides held calls.
    Reviewer,
    /// Reads the audit log.
    Auditor,
    /// Reads policies and lets paused agents go on.
    Admin,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 5] = [Self::Agent, Self::Orchestrator, Self::Reviewer, Self::Auditor, Self::Admin];

    /// The role as settings, answers and the audit log write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Orchestrator => "orchestrator",
            Self::Reviewer => "reviewer",
            Self::Auditor => "auditor",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Text that names no role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a role is agent, orchestrator, reviewer, auditor or admin")]
pub struct UnknownRole;

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or(UnknownRole)
    }
}

/// The roles of one credential: at least one, and never `agent` or `orchestrator` beside `reviewer` or `admin`, so that
/// what proposes a call can never decide it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Roles(BTreeSet<Role>);

impl Roles {
    /// The roles of one credential.
    ///
    /// # Errors
    ///
    /// [`KeyFault::NoRole`] for none, [`KeyFault::MixedRoles`] for a caller's and a decider's together.
    pub fn new(roles: impl IntoIterator<Item = Role>) -> Result<Self, KeyFault> {
        let roles: BTreeSet<Role> = roles.into_iter().collect();
        let proposes = roles.contains(&Role::Agent) || roles.contains(&Role::Orchestrator);
        let decides = roles.contains(&Role::Reviewer) || roles.contains(&Role::Admin);
        if roles.is_empty() {
            Err(KeyFault::NoRole)
        } else if proposes && decides {
            Err(KeyFault::MixedRoles)
        } else {
            Ok(Self(roles))
        }
    }

    /// Whether `role` is one of them.
    pub fn contains(&self, role: Role) -> bool {
        self.0.contains(&role)
    }

    /// Each of them, in the order of [`Role::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = Role> + '_ {
        self.0.iter().copied()
    }
}

/// Why a key's record cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// A key without a role could do nothing.
    #[error("a key needs at least one role")]
    NoRole,
    /// What proposes calls must not decide them.
    #[error("agent and orchestrator never share a key with reviewer or admin")]
    MixedRoles,
    /// The name belongs to agents known by an issuer's token.
    #[error("names that begin with {TOKEN_NAMES} belong to callers with a token of an issuer")]
    ReservedName,
    /// Agents are named that the key, without the role `orchestrator`, cannot write for.
    #[error("only a key with the role orchestrator names agents it writes for")]
    AgentsWithoutOrchestrator,
    /// A name that is none.
    #[error(transparent)]
    Name(#[from] InvalidName),
}

/// The parts of a [`KeyRecord`], as they are given when a key is made or read from the store.
#[derive(Clone, Debug)]
pub struct KeyParts {
    /// The record's id.
    pub id: KeyId,
    /// Whom the key is for: an agent's id, or the name of an entry of `[reviewers]`.
    pub name: HolderName,
    /// What its holder may be.
    pub roles: Roles,
    /// The agents an orchestrator writes for; none named means the one that bears the key's own name.
    pub agents: BTreeSet<AgentId>,
    /// SHA-256 of the whole key text.
    pub hash: [u8; 32],
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it is no credential any more.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// An API key as the service knows it: everything but the key.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyRecord {
    id: KeyId,
    name: HolderName,
    roles: Roles,
    agents: BTreeSet<AgentId>,
    hash: [u8; 32],
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
}

/// Whether a key is a credential at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// It is.
    Active,
    /// No longer, since this moment.
    Expired {
        /// The end of its time.
        at: Timestamp,
    },
    /// Never again.
    Revoked {
        /// When it was taken back.
        at: Timestamp,
    },
}

impl KeyRecord {
    /// The record made of `parts`.
    ///
    /// # Errors
    ///
    /// [`KeyFault`] when the parts contradict each other.
    pub fn new(parts: KeyParts) -> Result<Self, KeyFault> {
        let KeyParts { id, name, roles, mut agents, hash, created_at, expires_at, revoked_at } = parts;
        if name.as_str().to_ascii_lowercase().starts_with(TOKEN_NAMES) {
            return Err(KeyFault::ReservedName);
        }
        match (roles.contains(Role::Orchestrator), agents.is_empty()) {
            (false, false) => return Err(KeyFault::AgentsWithoutOrchestrator),
            (true, true) => {
                agents.insert(AgentId::parse(name.as_str())?);
            }
            (true, false) | (false, true) => {}
        }
        Ok(Self { id, name, roles, agents, hash, created_at, expires_at, revoked_at })
    }

    /// The record's id.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// Whom the key is for.
    pub fn name(&self) -> &HolderName {
        &self.name
    }

    /// What its holder may be.
    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// The agents it may write the trusted request of; empty without the role `orchestrator`.
    pub fn agents(&self) -> &BTreeSet<AgentId> {
        &self.agents
    }

    /// SHA-256 of the whole key text.
    pub fn hash(&self) -> &[u8; 32] {
        &self.hash
    }

    /// When it was made.
    pub fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// From when on it is no credential any more; `None` is never.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.expires_at
    }

    /// When it was revoked, if it was.
    pub fn revoked_at(&self) -> Option<Timestamp> {
        self.revoked_at
    }

    /// Whether the key is a credential at `now`. A revocation binds whatever its time says: the clocks of two instances
    /// may differ, and one that is behind must not go on admitting.
    pub fn state_at(&self, now: Timestamp) -> KeyState {
        match (self.revoked_at, self.expires_at) {
            (Some(at), _) => KeyState::Revoked { at },
            (None, Some(at)) if at <= now => KeyState::Expired { at },
            (None, Some(_) | None) => KeyState::Active,
        }
    }

    /// Whom a caller with this key is at `now`; nobody when it is expired or revoked.
    pub fn principal_at(&self, now: Timestamp) -> Option<Principal> {
        match self.state_at(now) {
            KeyState::Active => Some(Principal {
                credential: Credential::Key(self.id),
                name: self.name.clone(),
                roles: self.roles.clone(),
                agents: self.agents.clone(),
                scope: SessionScope::Everything,
            }),
            KeyState::Expired { .. } | KeyState::Revoked { .. } => None,
        }
    }
}

/// Without the hash, which is of no use to a reader.
impl fmt::Debug for KeyRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRecord")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("roles", &self.roles)
            .field("agents", &self.agents)
            .field("created_at", &self.created_at)
            .field("expires_at", &self.expires_at)
            .field("revoked_at", &self.revoked_at)
            .finish_non_exhaustive()
    }
}

/// How somebody showed who he is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Credential {
    /// By an API key.
    Key(KeyId),
    /// By a session that a sign-in or a personal link opened.
    Session(SessionId),
    /// By a token of the configured issuer; this is its subject.
    Token(String),
    /// By an account of a chat whose requests are signed.
    Chat(ChannelName),
}

/// As the audit log names it: `key:key_...`, `session:ses_...`, `jwt:<subject>`, `chat:<channel>`.
impl fmt::Display for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(id) => write!(f, "key:{id}"),
            Self::Session(id) => write!(f, "session:{id}"),
            Self::Token(subject) => write!(f, "jwt:{subject}"),
            Self::Chat(channel) => write!(f, "chat:{channel}"),
        }
    }
}

/// Who calls, as a valid credential says it: made by [`KeyRecord::principal_at`], or for a reviewer whom something else
/// than a key identified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    credential: Credential,
    name: HolderName,
    roles: Roles,
    agents: BTreeSet<AgentId>,
    scope: SessionScope,
}

impl Principal {
    /// A reviewer who was identified by a session or a chat.
    ///
    /// # Errors
    ///
    /// [`KeyFault::MixedRoles`] when the roles are also those of one who proposes calls.
    pub fn of_reviewer(
        reviewer: &Reviewer,
        credential: Credential,
        others: impl IntoIterator<Item = Role>,
    ) -> Result<Self, KeyFault> {
        let roles = Roles::new(others.into_iter().chain([Role::Reviewer]))?;
        let name = HolderName::parse(reviewer.name.as_str())?;
        Ok(Self { credential, name, roles, agents: BTreeSet::new(), scope: SessionScope::Everything })
    }

    /// The holder of a token of the configured issuer, under a name of this installation's; `agents` are those whose
    /// trusted request the holder may write.
    pub fn of_token(subject: String, name: HolderName, roles: Roles, agents: BTreeSet<AgentId>) -> Self {
        Self { credential: Credential::Token(subject), name, roles, agents, scope: SessionScope::Everything }
    }

    /// The same, reaching no further than `scope`.
    #[must_use]
    pub fn within(self, scope: SessionScope) -> Self {
        Self { scope, ..self }
    }

    /// What of all that the roles let the caller do is within reach.
    pub fn scope(&self) -> SessionScope {
        self.scope
    }

    /// What was shown.
    pub fn credential(&self) -> &Credential {
        &self.credential
    }

    /// Whom the key is for.
    pub fn name(&self) -> &HolderName {
        &self.name
    }

    /// What the caller may be.
    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// The agent that calls, if the caller is one.
    pub fn agent(&self) -> Option<AgentId> {
        self.roles.contains(Role::Agent).then(|| AgentId::parse(self.name.as_str()).ok()).flatten()
    }

    /// The name of the reviewer who calls, if the caller is one. Whether it is (still) an entry of `[reviewers]` is for
    /// the [`ReviewerDirectory`] to say; without an entry there is no vote.
    pub fn reviewer(&self) -> Option<ReviewerName> {
        self.roles.contains(Role::Reviewer).then(|| ReviewerName::parse(self.name.as_str()).ok()).flatten()
    }

    /// The agents whose trusted request the caller may write; none without the role `orchestrator`.
    pub fn orchestrates(&self) -> &BTreeSet<AgentId> {
        &self.agents
    }
}
