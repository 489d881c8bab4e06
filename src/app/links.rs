//! Personal links: made for one reviewer and one approval, and spent by the click that opens a session about it.
//!
//! Whoever holds a link is taken for the person it was sent to, so it opens little, for a short time, and once.

use std::time::Duration;

use super::{
    App,
    error::Error,
    retrying,
    sessions::{InboxLinks, LinkUse, NewSession, OpenedSession},
};
use crate::domain::{
    approval::{requirement::Requirement, state::State},
    audit::entry::{Actor, Entry, EventKind},
    identity::ReviewerName,
    ids::ApprovalId,
    notice::approval_url,
    session::{Link, Secret, Session, SessionScope, SignInMethod},
};

/// How long the link to an inbox waits for its click.
const INBOX_LINK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How long a link is kept that opens nothing any more.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// What came of a click on a link.
#[derive(Clone, Debug)]
pub enum FollowedLink {
    /// A session.
    Opened(Box<OpenedSession>),
    /// The browser has a session already that reaches everything of the same reviewer; the link is not spent.
    NotNeeded(ApprovalId),
    /// What it is about takes a sign-in at the provider; the link is not spent.
    TakesSignIn(ApprovalId),
    /// Nothing: it was used, is too old, or never was one.
    Nothing,
}

/// From where a link is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedFor {
    /// By a name of this machine itself.
    Loopback,
    /// By another name.
    Elsewhere,
}

impl App {
    /// The address to be sent to `reviewer` about an approval: a personal link, or just the page where a link would open
    /// nothing, because a sign-in is asked for.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such approval.
    pub async fn make_link(&self, reviewer: &ReviewerName, approval: ApprovalId) -> Result<String, Error> {
        let held = self.store.approval(approval).await?.ok_or(Error::NotFound)?;
        if !self.links_open(&held.requirement) {
            return Ok(self.approval_page(approval));
        }
        let expires_at = held.expires_at;
        let secret = self.secret()?;
        retrying(|| async {
            let mut tx = self.store.begin().await?;
            let now = self.now();
            let link = Link {
                hash: secret.hash(),
                reviewer: reviewer.clone(),
                scope: SessionScope::Approval(approval),
                created_at: now,
                expires_at,
                spent_at: None,
            };
            tx.insert_link(&link, now.minus(KEPT)).await?;
            let mut entry = Entry::new(EventKind::LinkMade, now, Actor::service());
            entry.approval = Some(approval);
            entry.detail.insert("reviewer".to_owned(), reviewer.to_string().into());
            tx.append(entry);
            Ok(tx.commit().await?)
        })
        .await?;
        Ok(self.link_address(&secret))
    }

    /// The address that opens the inbox of `reviewer` once, in place of every earlier one. Only for a service of one
    /// machine.
    ///
    /// # Errors
    /// [`Error::NotFound`] where links open no inbox, or there is no such reviewer.
    pub async fn make_inbox_link(&self, reviewer: &ReviewerName) -> Result<String, Error> {
        match self.sign_in.inbox_links {
            InboxLinks::OnLoopback if self.reviewers.get(reviewer).is_some() => {}
            InboxLinks::OnLoopback | InboxLinks::Refused => return Err(Error::NotFound),
        }
        let secret = self.secret()?;
        retrying(|| async {
            let mut tx = self.store.begin().await?;
            let now = self.now();
            tx.drop_inbox_links().await?;
            let link = Link {
                hash: secret.hash(),
                reviewer: reviewer.clone(),
                scope: SessionScope::Everything,
                created_at: now,
                expires_at: now.plus(INBOX_LINK),
                spent_at: None,
            };
            tx.insert_link(&link, now.minus(KEPT)).await?;
            let mut entry = Entry::new(EventKind::LinkMade, now, Actor::service());
            entry.detail.insert("reviewer".to_owned(), reviewer.to_string().into());
            tx.append(entry);
            Ok(tx.commit().await?)
        })
        .await?;
        Ok(self.link_address(&secret))
    }

    /// Follows a link by a click, and spends it where that opens a session. `held` is the session that the browser has
    /// and that stands.
    ///
    /// # Errors
    /// As the store's.
    pub async fn follow_link(
        &self,
        secret: &Secret,
        asked_for: AskedFor,
        held: Option<&Session>,
        request_id: &str,
    ) -> Result<FollowedLink, Error> {
        let hash = secret.hash();
        retrying(|| async {
            let mut tx = self.store.begin().await?;
            let link = tx.link(&hash).await?;
            // Read with the lock in hand.
            let now = self.now();
            let Some(link) = link.filter(|link| link.opens_at(now) && self.reviewers.get(&link.reviewer).is_some())
            else {
                return Ok(FollowedLink::Nothing);
            };
            let method = match link.scope {
                SessionScope::Everything => {
                    if (self.sign_in.inbox_links, asked_for) != (InboxLinks::OnLoopback, AskedFor::Loopback) {
                        return Ok(FollowedLink::Nothing);
                    }
                    SignInMethod::DevLink
                }
                SessionScope::Approval(id) => {
                    let Some(approval) = tx.approval(id).await? else { return Ok(FollowedLink::Nothing) };
                    let (approval, _) = approval.at(now);
                    // Once it is decided, whoever finds the message has nothing to do with it any more.
                    if !matches!(approval.state, State::Pending { .. }) {
                        return Ok(FollowedLink::Nothing);
                    }
                    if !self.links_open(&approval.requirement) {
                        return Ok(FollowedLink::TakesSignIn(id));
                    }
                    if held.is_some_and(|held| held.scope == SessionScope::Everything && held.reviewer == link.reviewer)
                    {
                        return Ok(FollowedLink::NotNeeded(id));
                    }
                    SignInMethod::Link
                }
            };
            if !tx.spend_link(&hash, now).await? {
                return Ok(FollowedLink::Nothing);
            }
            let new = NewSession {
                reviewer: link.reviewer,
                method,
                scope: link.scope,
                authenticated_at: now,
                replaces: held.map(|held| held.id),
                request_id: request_id.to_owned(),
            };
            let opened = self.open_session(tx.as_mut(), new, now).await?;
            tx.commit().await?;
            Ok(FollowedLink::Opened(Box::new(opened)))
        })
        .await
    }

    /// Where an approval is shown to people.
    pub fn approval_page(&self, approval: ApprovalId) -> String {
        approval_url(&self.settings.public_url, approval)
    }

    fn link_address(&self, secret: &Secret) -> String {
        format!("{}/link/{}", self.settings.public_url, secret.to_text())
    }

    fn links_open(&self, requirement: &Requirement) -> bool {
        match self.sign_in.links {
            LinkUse::OneApproval => !requirement.step_up,
            LinkUse::Nothing => false,
        }
    }
}
