//! Sessions of people: opened by a sign-in or a link, found again by what the browser holds, listed and taken back.
//!
//! They are read in the store with each request, so that one that is taken back is over on every instance at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{
    App, Caller, ReviewerCaller,
    error::Error,
    ports::{
        Tx,
        sign_in::{SignInProvider, TokenVerifier},
    },
    retrying,
};
use crate::domain::{
    audit::entry::{Actor, Entry, EventKind},
    identity::{Credential, Principal, ReviewerName, Role, Roles},
    ids::SessionId,
    session::{LONGEST, LONGEST_OF_LINK, Secret, Session, SessionRecord, SessionScope, SignInMethod},
    time::Timestamp,
};

/// How long a session that is over is kept, for whoever looks into the database.
const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// What there is to sign in with, and what that makes of people.
#[derive(Clone, Default)]
pub struct SignInSettings {
    /// Who says who somebody is.
    pub provider: Option<Arc<dyn SignInProvider>>,
    /// Whose tokens are credentials of the API.
    pub tokens: Option<Arc<dyn TokenVerifier>>,
    /// The roles beside `reviewer` that people have when they are signed in.
    pub roles: BTreeMap<ReviewerName, BTreeSet<Role>>,
    /// What personal links open.
    pub links: LinkUse,
    /// Whether this is a service of one machine for its own user, where a link may open the inbox.
    pub inbox_links: InboxLinks,
}

/// What personal links open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkUse {
    /// A session about one approval.
    #[default]
    OneApproval,
    /// Nothing: everybody signs in at the provider.
    Nothing,
}

/// Whether a link may open an inbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InboxLinks {
    /// No.
    #[default]
    Refused,
    /// Where the service listens on loopback only, and was asked for by that name.
    OnLoopback,
}

/// Somebody who is signed in, as a request finds it.
#[derive(Clone, Debug)]
pub struct SignedInPerson {
    /// The session.
    pub session: Session,
    /// The reviewer.
    pub reviewer: ReviewerCaller,
    /// What the reviewer may be here.
    pub roles: Roles,
}

/// A session that was just opened, with what its browser is to hold.
#[derive(Clone, Debug)]
pub struct OpenedSession {
    /// The session.
    pub session: Session,
    /// What opens it from now on.
    pub secret: Secret,
}

/// What a session is opened for.
pub(super) struct NewSession {
    pub(super) reviewer: ReviewerName,
    pub(super) method: SignInMethod,
    pub(super) scope: SessionScope,
    pub(super) authenticated_at: Timestamp,
    /// The session that the browser held before: it is over.
    pub(super) replaces: Option<SessionId>,
    pub(super) request_id: String,
}

impl App {
    /// Who holds a session with this secret; nobody when there is none, it is over, or its reviewer is no entry of the
    /// configuration any more.
    ///
    /// # Errors
    /// As the store's.
    pub async fn signed_in(&self, secret: &Secret, request_id: &str) -> Result<Option<SignedInPerson>, Error> {
        let now = self.now();
        let stored = self.store.session(&secret.hash()).await?;
        let Some(session) = stored.and_then(|record| record.standing_at(now)) else { return Ok(None) };
        let Some(entry) = self.reviewers.get(&session.reviewer) else { return Ok(None) };
        let others = match session.scope {
            SessionScope::Everything => self.sign_in.roles.get(&entry.name).cloned().unwrap_or_default(),
            SessionScope::Approval(_) => BTreeSet::new(),
        };
        let principal = Principal::of_reviewer(entry, Credential::Session(session.id), others)
            .map_err(|error| Error::Invalid(error.to_string()))?
            .within(session.scope);
        let roles = principal.roles().clone();
        let groups = self.reviewers.groups_at(&entry.name, now);
        let caller = Caller { principal, request_id: request_id.to_owned() };
        let reviewer = ReviewerCaller { caller, name: entry.name.clone(), groups };
        Ok(Some(SignedInPerson { session, reviewer, roles }))
    }

    /// Keeps that something was sent from a session.
    ///
    /// # Errors
    /// As the store's.
    pub async fn session_seen(&self, session: &Session) -> Result<(), Error> {
        if !session.is_to_be_seen(self.now()) {
            return Ok(());
        }
        retrying(|| async {
            let mut tx = self.store.begin().await?;
            tx.session_seen(session.id, self.now()).await?;
            Ok(tx.commit().await?)
        })
        .await
    }

    /// The reviewer's own sessions that stand, the newest first.
    ///
    /// # Errors
    /// As the store's.
    pub async fn sessions_of(&self, reviewer: &ReviewerCaller) -> Result<Vec<Session>, Error> {
        reviewer.unlimited()?;
        let now = self.now();
        let stored = self.store.sessions_of(&reviewer.name, now).await?;
        Ok(stored.into_iter().filter_map(|record| record.standing_at(now)).collect())
    }

    /// Takes one of the reviewer's own sessions back; this very one is to sign out. Taking it back again changes nothing.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none of this id that is the reviewer's.
    pub async fn revoke_session(&self, reviewer: &ReviewerCaller, id: SessionId) -> Result<(), Error> {
        let is_this = *reviewer.caller.principal.credential() == Credential::Session(id);
        if !is_this {
            reviewer.unlimited()?;
        }
        retrying(|| async {
            let mut tx = self.store.begin().await?;
            let stored = tx.session(id).await?.filter(|record| record.session.reviewer == reviewer.name);
            let now = self.now();
            stored.ok_or(Error::NotFound)?;
            if !tx.revoke_session(id, now).await? {
                return Ok(());
            }
            let mut entry = reviewer.caller.entry(EventKind::SessionClosed, now);
            entry.detail.insert("session".to_owned(), id.to_string().into());
            tx.append(entry);
            Ok(tx.commit().await?)
        })
        .await
    }

    /// Opens a session, and writes what follows, but for the commit.
    pub(super) async fn open_session(
        &self,
        tx: &mut dyn Tx,
        new: NewSession,
        now: Timestamp,
    ) -> Result<OpenedSession, Error> {
        let NewSession { reviewer, method, scope, authenticated_at, replaces, request_id } = new;
        let longest = match scope {
            SessionScope::Everything => LONGEST,
            SessionScope::Approval(_) => LONGEST_OF_LINK,
        };
        let session = Session {
            id: SessionId::from_uuid(self.uuid(now)?),
            reviewer,
            method,
            scope,
            // A provider's clock that is ahead makes no sign-in fresh for longer.
            authenticated_at: authenticated_at.min(now),
            opened_at: now,
            last_seen_at: now,
            ends_at: now.plus(longest),
        };
        let secret = self.secret()?;
        let record = SessionRecord { session: session.clone(), hash: secret.hash(), revoked_at: None };
        tx.insert_session(&record, now.minus(KEPT)).await?;
        if let Some(before) = replaces {
            tx.revoke_session(before, now).await?;
        }
        let via = Credential::Session(session.id).to_string();
        let actor = Actor { name: session.reviewer.to_string(), via };
        let mut entry = Entry { request_id: Some(request_id), ..Entry::new(EventKind::SessionOpened, now, actor) };
        entry.approval = scope.approval();
        entry.detail.insert("method".to_owned(), method.as_str().into());
        entry.detail.insert("replaces".to_owned(), replaces.map(|id| id.to_string()).into());
        tx.append(entry);
        Ok(OpenedSession { session, secret })
    }

    /// 32 random bytes that somebody is to hold.
    ///
    /// # Errors
    /// When there are none to be had.
    pub fn secret(&self) -> Result<Secret, Error> {
        let mut bytes = [0; 32];
        self.entropy.fill(&mut bytes)?;
        Ok(Secret::new(bytes))
    }
}

impl ReviewerCaller {
    /// Whether the caller may do more than look at one approval and decide it.
    ///
    /// # Errors
    /// [`Error::NotFound`] for one who is here by a link about one approval: nothing else is there.
    pub(super) fn unlimited(&self) -> Result<(), Error> {
        match self.caller.principal.scope() {
            SessionScope::Everything => Ok(()),
            SessionScope::Approval(_) => Err(Error::NotFound),
        }
    }
}
