//! Signing in at the provider: begun by a click in one browser, and finished there with what the provider says.

use std::time::Duration;

use super::{
    App,
    error::Error,
    ports::sign_in::{ProvenSubject, ProviderAnswer, ProviderFault, SignInSecrets},
    retrying,
    sessions::{NewSession, OpenedSession},
};
use crate::domain::{
    audit::entry::{Actor, Entry, EventKind},
    identity::Reviewer,
    ids::SessionId,
    session::{FRESH, Freshness, Secret, SessionScope, SignInAttempt, SignInMethod},
};

/// How long a sign-in may take.
pub const SIGN_IN_TAKES: Duration = Duration::from_secs(10 * 60);

/// The longest name of a stranger that the log keeps.
const LONGEST_STRANGER: usize = 128;

/// Why nobody is signed in.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NotSignedIn {
    /// There is no provider.
    #[error("there is no sign-in provider")]
    NoProvider,
    /// This browser began no such sign-in, or it took too long, or it was finished before.
    #[error("the answer belongs to no sign-in of this browser")]
    NotBegunHere,
    /// The provider does not say who it is.
    #[error(transparent)]
    Provider(#[from] ProviderFault),
    /// It is somebody, and no reviewer of this installation.
    #[error("the subject is no reviewer")]
    Stranger,
    /// The service could not do it.
    #[error(transparent)]
    Failed(#[from] Error),
}

/// A session that a sign-in opened, and where its person wanted to go.
#[derive(Clone, Debug)]
pub struct FinishedSignIn {
    /// The session.
    pub opened: OpenedSession,
    /// Where to, below `/review`.
    pub to: String,
}

impl App {
    /// Whether there is a provider to sign in at.
    pub fn has_provider(&self) -> bool {
        self.sign_in.provider.is_some()
    }

    /// Begins a sign-in in the browser that holds `browser`; where that browser is to be sent.
    ///
    /// # Errors
    /// [`NotSignedIn::NoProvider`], [`NotSignedIn::Provider`], or as the store's.
    pub async fn begin_sign_in(&self, browser: &Secret, to: &str, freshness: Freshness) -> Result<String, NotSignedIn> {
        let provider = self.sign_in.provider.as_ref().ok_or(NotSignedIn::NoProvider)?;
        let secrets = SignInSecrets { browser: browser.clone(), state: self.secret()? };
        let address = provider.begin(&secrets, freshness, self.now()).await?;
        retrying(|| async {
            let mut tx = self.store.begin().await?;
            let now = self.now();
            let attempt = SignInAttempt {
                state_hash: secrets.state.hash(),
                browser_hash: browser.hash(),
                to: to.to_owned(),
                freshness,
                expires_at: now.plus(SIGN_IN_TAKES),
            };
            tx.insert_sign_in(&attempt, now).await?;
            Ok(tx.commit().await?)
        })
        .await?;
        Ok(address)
    }

    /// Finishes a sign-in: the provider sent the browser back with `state` and `answer`. `held` is the session that the
    /// browser has and that stands. Whatever comes of it, nobody can go on with the same sign-in again.
    ///
    /// # Errors
    /// [`NotSignedIn`].
    pub async fn finish_sign_in(
        &self,
        browser: &Secret,
        state: &Secret,
        answer: &ProviderAnswer,
        held: Option<SessionId>,
        request_id: &str,
    ) -> Result<FinishedSignIn, NotSignedIn> {
        let provider = self.sign_in.provider.as_ref().ok_or(NotSignedIn::NoProvider)?;
        let attempt = self.take_sign_in(browser, state).await?;
        let secrets = SignInSecrets { browser: browser.clone(), state: state.clone() };
        let proven = provider.finish(answer, &secrets, attempt.freshness, self.now()).await?;
        let Some(reviewer) = self.reviewer_of_subject(&proven.subject) else {
            self.record(self.refused_stranger(&proven, request_id)).await?;
            return Err(NotSignedIn::Stranger);
        };
        let opened = retrying(|| async {
            let mut tx = self.store.begin().await?;
            let now = self.now();
            let new = NewSession {
                reviewer: reviewer.name.clone(),
                method: SignInMethod::Oidc,
                scope: SessionScope::Everything,
                // Of a sign-in whose age nobody knows it must not be said that it is fresh.
                authenticated_at: proven.authenticated_at.unwrap_or(now.minus(FRESH)),
                replaces: held,
                request_id: request_id.to_owned(),
            };
            let opened = self.open_session(tx.as_mut(), new, now).await?;
            tx.commit().await?;
            Ok(opened)
        })
        .await?;
        Ok(FinishedSignIn { opened, to: attempt.to })
    }

    /// Takes out the sign-in that `state` names. One of another browser is gone as well: its `state` is known elsewhere.
    async fn take_sign_in(&self, browser: &Secret, state: &Secret) -> Result<SignInAttempt, NotSignedIn> {
        let taken = retrying(|| async {
            let mut tx = self.store.begin().await?;
            let taken = tx.take_sign_in(&state.hash()).await?;
            tx.commit().await?;
            Ok(taken)
        })
        .await?;
        let now = self.now();
        taken
            .filter(|attempt| attempt.browser_hash == browser.hash() && now < attempt.expires_at)
            .ok_or(NotSignedIn::NotBegunHere)
    }

    /// The one reviewer with exactly this subject.
    pub(super) fn reviewer_of_subject(&self, subject: &str) -> Option<&Reviewer> {
        let mut found = self.reviewers.iter().filter(|entry| entry.oidc_subject.as_deref() == Some(subject));
        match (found.next(), found.next()) {
            (Some(one), None) => Some(one),
            (Some(_), Some(_)) | (None, _) => None,
        }
    }

    fn refused_stranger(&self, proven: &ProvenSubject, request_id: &str) -> Entry {
        let name = proven.subject.chars().take(LONGEST_STRANGER).collect();
        let actor = Actor { name, via: "oidc".to_owned() };
        let mut entry = Entry::new(EventKind::SignInRefused, self.now(), actor);
        entry.request_id = Some(request_id.to_owned());
        entry.reason_code = Some("stranger".to_owned());
        entry
    }
}
