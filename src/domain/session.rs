//! People who are signed in: what a session may see, when it ends, and the personal links that open one. It must not know
//! how a cookie is written, nor who proved who somebody is.

use std::{fmt, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

use crate::domain::{
    identity::ReviewerName,
    ids::{ApprovalId, SessionId},
    time::Timestamp,
};

/// After how long without a sign of life a session ends.
pub const IDLE: Duration = Duration::from_secs(12 * 60 * 60);

/// How long a session lasts at most.
pub const LONGEST: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How long a session of a personal link lasts at most.
pub const LONGEST_OF_LINK: Duration = Duration::from_secs(15 * 60);

/// How long after it a sign-in is fresh.
pub const FRESH: Duration = Duration::from_secs(5 * 60);

/// How exactly the last sign of life is kept.
pub const SEEN_EVERY: Duration = Duration::from_secs(60);

/// The length of a [`Secret`] as text.
const TEXT_LENGTH: usize = 43;

/// How somebody came to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignInMethod {
    /// The provider of `[oidc]` said who it is.
    Oidc,
    /// By a link that was sent to one person about one approval.
    Link,
    /// By the link that `countersign dev` prints.
    DevLink,
}

impl SignInMethod {
    /// Every method.
    pub const ALL: [Self; 3] = [Self::Oidc, Self::Link, Self::DevLink];

    /// The word for it in the store and the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Oidc => "oidc",
            Self::Link => "link",
            Self::DevLink => "dev_link",
        }
    }

    /// Reads that word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str() == word)
    }
}

/// What a session, or a link, reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionScope {
    /// Everything its reviewer may see and do.
    Everything,
    /// One approval, and nothing else.
    Approval(ApprovalId),
}

impl SessionScope {
    /// The one approval, where it is one.
    pub const fn approval(self) -> Option<ApprovalId> {
        match self {
            Self::Everything => None,
            Self::Approval(id) => Some(id),
        }
    }

    /// What `approval` alone reaches; without one, everything.
    pub const fn of(approval: Option<ApprovalId>) -> Self {
        match approval {
            None => Self::Everything,
            Some(id) => Self::Approval(id),
        }
    }

    /// Whether this approval is within it.
    pub fn reaches(self, approval: ApprovalId) -> bool {
        match self {
            Self::Everything => true,
            Self::Approval(only) => only == approval,
        }
    }
}

/// A person who is signed in at one browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its id, which opens nothing.
    pub id: SessionId,
    /// Who it is.
    pub reviewer: ReviewerName,
    /// How that was known.
    pub method: SignInMethod,
    /// What it reaches.
    pub scope: SessionScope,
    /// When the person last showed who they are: what the provider says, where there is one.
    pub authenticated_at: Timestamp,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// When something was last sent from it, to within [`SEEN_EVERY`]. Looking at pages is no sign of life: a scanner or
    /// a page that reloads itself must not keep a session open.
    pub last_seen_at: Timestamp,
    /// From when on it is over in any case.
    pub ends_at: Timestamp,
}

impl Session {
    /// Whether this approval may be seen and decided from here, as far as the session is concerned.
    pub fn may_see(&self, approval: ApprovalId) -> bool {
        self.scope.reaches(approval)
    }

    /// Whether the person showed so recently who they are that tools with `step_up` may be decided. Only a provider can
    /// be asked for that; a link shows that somebody reads a mailbox.
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        match self.method {
            SignInMethod::Oidc => now < self.authenticated_at.plus(FRESH),
            SignInMethod::Link | SignInMethod::DevLink => false,
        }
    }

    /// Until when it lasts, if nothing is sent from it any more.
    pub fn lasts_until(&self) -> Timestamp {
        self.ends_at.min(self.last_seen_at.plus(IDLE))
    }

    /// Whether it is time to write down that something was sent from it.
    pub fn is_to_be_seen(&self, now: Timestamp) -> bool {
        now >= self.last_seen_at.plus(SEEN_EVERY)
    }
}

/// A session as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    /// The session.
    pub session: Session,
    /// SHA-256 of what its cookie holds.
    pub hash: [u8; 32],
    /// When it was taken back or left.
    pub revoked_at: Option<Timestamp>,
}

impl SessionRecord {
    /// The session, while it stands.
    pub fn standing_at(self, now: Timestamp) -> Option<Session> {
        (self.revoked_at.is_none() && now < self.session.lasts_until()).then_some(self.session)
    }
}

/// A link to be sent to one person, as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// SHA-256 of what the link holds.
    pub hash: [u8; 32],
    /// To whom it is sent.
    pub reviewer: ReviewerName,
    /// What the session that it opens reaches.
    pub scope: SessionScope,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it opens nothing.
    pub expires_at: Timestamp,
    /// When it was used.
    pub spent_at: Option<Timestamp>,
}

impl Link {
    /// Whether it would open a session.
    pub fn opens_at(&self, now: Timestamp) -> bool {
        self.spent_at.is_none() && now < self.expires_at
    }
}

/// 32 random bytes that a browser or a link holds and the service does not: it keeps their hash. No `Debug` shows them.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

impl Secret {
    /// The secret of these bytes, which must come from a source fit for secrets.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// SHA-256 of them, as the store keeps it.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0).into()
    }

    /// The bytes themselves.
    pub const fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// Them as a cookie or an address holds them: 43 characters of base64url (RFC 4648, section 5).
    pub fn to_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    /// Reads that text; `None` for any other.
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == TEXT_LENGTH).then(|| URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok().map(Self)).flatten()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A sign-in at a provider that has begun in one browser, as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInAttempt {
    /// SHA-256 of the `state` that the provider hands back.
    pub state_hash: [u8; 32],
    /// SHA-256 of what the browser that began it holds.
    pub browser_hash: [u8; 32],
    /// Where the person wants to go, below `/review`.
    pub to: String,
    /// Whether the provider was asked for a fresh sign-in.
    pub freshness: Freshness,
    /// From when on it is over.
    pub expires_at: Timestamp,
}

/// Whether somebody must show anew who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// An earlier sign-in at the provider will do.
    Any,
    /// Within [`FRESH`].
    Fresh,
}
