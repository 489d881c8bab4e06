//! Rows of sessions, of links and of sign-ins that are under way.

use sqlx::FromRow;

use super::{bytes, id, name, unreadable};
use crate::{
    app::ports::StoreError,
    domain::{
        session::{Freshness, Link, Session, SessionRecord, SessionScope, SignInAttempt, SignInMethod},
        time::Timestamp,
    },
};

/// A row of `sessions`.
#[derive(FromRow)]
pub(in crate::storage) struct SessionRow {
    id: String,
    hash: Vec<u8>,
    reviewer: String,
    method: String,
    approval_id: Option<String>,
    authenticated_at: i64,
    opened_at: i64,
    last_seen_at: i64,
    ends_at: i64,
    revoked_at: Option<i64>,
}

impl SessionRow {
    pub(in crate::storage) fn into_record(self) -> Result<SessionRecord, StoreError> {
        Ok(SessionRecord {
            session: Session {
                id: id(&self.id)?,
                reviewer: name(&self.reviewer)?,
                method: SignInMethod::parse(&self.method).ok_or_else(|| unreadable("method of sign-in"))?,
                scope: scope(self.approval_id.as_deref())?,
                authenticated_at: Timestamp::from_micros(self.authenticated_at),
                opened_at: Timestamp::from_micros(self.opened_at),
                last_seen_at: Timestamp::from_micros(self.last_seen_at),
                ends_at: Timestamp::from_micros(self.ends_at),
            },
            hash: bytes(&self.hash)?,
            revoked_at: self.revoked_at.map(Timestamp::from_micros),
        })
    }
}

/// A row of `links`.
#[derive(FromRow)]
pub(in crate::storage) struct LinkRow {
    hash: Vec<u8>,
    reviewer: String,
    approval_id: Option<String>,
    created_at: i64,
    expires_at: i64,
    spent_at: Option<i64>,
}

impl LinkRow {
    pub(in crate::storage) fn into_link(self) -> Result<Link, StoreError> {
        Ok(Link {
            hash: bytes(&self.hash)?,
            reviewer: name(&self.reviewer)?,
            scope: scope(self.approval_id.as_deref())?,
            created_at: Timestamp::from_micros(self.created_at),
            expires_at: Timestamp::from_micros(self.expires_at),
            spent_at: self.spent_at.map(Timestamp::from_micros),
        })
    }
}

/// A row of `sign_in_attempts`.
#[derive(FromRow)]
pub(in crate::storage) struct AttemptRow {
    state_hash: Vec<u8>,
    browser_hash: Vec<u8>,
    target: String,
    fresh: bool,
    expires_at: i64,
}

impl AttemptRow {
    pub(in crate::storage) fn into_attempt(self) -> Result<SignInAttempt, StoreError> {
        Ok(SignInAttempt {
            state_hash: bytes(&self.state_hash)?,
            browser_hash: bytes(&self.browser_hash)?,
            to: self.target,
            freshness: if self.fresh { Freshness::Fresh } else { Freshness::Any },
            expires_at: Timestamp::from_micros(self.expires_at),
        })
    }
}

fn scope(approval: Option<&str>) -> Result<SessionScope, StoreError> {
    Ok(SessionScope::of(approval.map(id).transpose()?))
}
