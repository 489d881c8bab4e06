//! Sessions, the links that open them, and sign-ins that are under way.

use sqlx::{PgConnection, PgPool};

use super::errors::{read_error, store_error};
use crate::{
    app::ports::StoreError,
    domain::{
        identity::ReviewerName,
        ids::SessionId,
        session::{Freshness, Link, SessionRecord, SignInAttempt},
        time::Timestamp,
    },
    storage::rows::sign_in::{AttemptRow, LinkRow, SessionRow},
};

macro_rules! columns {
    () => {
        "id, hash, reviewer, method, approval_id, authenticated_at, opened_at, last_seen_at, ends_at, revoked_at"
    };
}

/// The session whose cookie has this hash.
pub(super) async fn by_hash(readers: &PgPool, hash: &[u8; 32]) -> Result<Option<SessionRecord>, StoreError> {
    sqlx::query_as::<_, SessionRow>(concat!("select ", columns!(), " from sessions where hash = $1"))
        .bind(hash.as_slice())
        .fetch_optional(readers)
        .await
        .map_err(read_error)?
        .map(SessionRow::into_record)
        .transpose()
}

/// The sessions of `reviewer` that are neither revoked nor over at `now`, the newest first.
pub(super) async fn of_reviewer(
    readers: &PgPool,
    reviewer: &ReviewerName,
    now: Timestamp,
) -> Result<Vec<SessionRecord>, StoreError> {
    sqlx::query_as::<_, SessionRow>(concat!(
        "select ",
        columns!(),
        " from sessions where reviewer = $1 and revoked_at is null and ends_at > $2 order by id desc limit 200"
    ))
    .bind(reviewer.as_str())
    .bind(now.as_micros())
    .fetch_all(readers)
    .await
    .map_err(read_error)?
    .into_iter()
    .map(SessionRow::into_record)
    .collect()
}

/// One session.
pub(super) async fn by_id(connection: &mut PgConnection, id: SessionId) -> Result<Option<SessionRecord>, StoreError> {
    sqlx::query_as::<_, SessionRow>(concat!("select ", columns!(), " from sessions where id = $1"))
        .bind(id.to_string())
        .fetch_optional(connection)
        .await
        .map_err(store_error)?
        .map(SessionRow::into_record)
        .transpose()
}

/// Stores a new session, and forgets those that were over by `forget`.
pub(super) async fn insert(
    connection: &mut PgConnection,
    record: &SessionRecord,
    forget: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query("delete from sessions where ends_at < $1")
        .bind(forget.as_micros())
        .execute(&mut *connection)
        .await
        .map_err(store_error)?;
    let SessionRecord { session, hash, revoked_at } = record;
    sqlx::query(concat!("insert into sessions (", columns!(), ") values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"))
        .bind(session.id.to_string())
        .bind(hash.as_slice())
        .bind(session.reviewer.as_str())
        .bind(session.method.as_str())
        .bind(session.scope.approval().map(|id| id.to_string()))
        .bind(session.authenticated_at.as_micros())
        .bind(session.opened_at.as_micros())
        .bind(session.last_seen_at.as_micros())
        .bind(session.ends_at.as_micros())
        .bind(revoked_at.map(Timestamp::as_micros))
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(())
}

/// Keeps that something was sent from a session.
pub(super) async fn seen(connection: &mut PgConnection, id: SessionId, now: Timestamp) -> Result<(), StoreError> {
    sqlx::query("update sessions set last_seen_at = $2 where id = $1 and last_seen_at < $2")
        .bind(id.to_string())
        .bind(now.as_micros())
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(())
}

/// Takes a session back; `false` when there is nothing to take back.
pub(super) async fn revoke(connection: &mut PgConnection, id: SessionId, now: Timestamp) -> Result<bool, StoreError> {
    let revoked = sqlx::query("update sessions set revoked_at = $2 where id = $1 and revoked_at is null")
        .bind(id.to_string())
        .bind(now.as_micros())
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(revoked.rows_affected() > 0)
}

/// Stores a new link, and forgets those that were over by `forget`.
pub(super) async fn insert_link(
    connection: &mut PgConnection,
    link: &Link,
    forget: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query("delete from links where expires_at < $1")
        .bind(forget.as_micros())
        .execute(&mut *connection)
        .await
        .map_err(store_error)?;
    sqlx::query(
        "insert into links (hash, reviewer, approval_id, created_at, expires_at, spent_at)
         values ($1, $2, $3, $4, $5, $6)",
    )
    .bind(link.hash.as_slice())
    .bind(link.reviewer.as_str())
    .bind(link.scope.approval().map(|id| id.to_string()))
    .bind(link.created_at.as_micros())
    .bind(link.expires_at.as_micros())
    .bind(link.spent_at.map(Timestamp::as_micros))
    .execute(connection)
    .await
    .map_err(store_error)?;
    Ok(())
}

/// The link with this hash, locked.
pub(super) async fn link(connection: &mut PgConnection, hash: &[u8; 32]) -> Result<Option<Link>, StoreError> {
    sqlx::query_as::<_, LinkRow>(
        "select hash, reviewer, approval_id, created_at, expires_at, spent_at from links where hash = $1 for update",
    )
    .bind(hash.as_slice())
    .fetch_optional(connection)
    .await
    .map_err(store_error)?
    .map(LinkRow::into_link)
    .transpose()
}

/// Keeps that a locked link was used; `false` when it was before.
pub(super) async fn spend_link(
    connection: &mut PgConnection,
    hash: &[u8; 32],
    now: Timestamp,
) -> Result<bool, StoreError> {
    let spent = sqlx::query("update links set spent_at = $2 where hash = $1 and spent_at is null")
        .bind(hash.as_slice())
        .bind(now.as_micros())
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(spent.rows_affected() > 0)
}

/// Takes back every link to the inbox that was not used.
pub(super) async fn drop_inbox_links(connection: &mut PgConnection) -> Result<(), StoreError> {
    sqlx::query("delete from links where approval_id is null and spent_at is null")
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(())
}

/// Stores a sign-in that begins, and forgets those that were over by `now`.
pub(super) async fn insert_attempt(
    connection: &mut PgConnection,
    attempt: &SignInAttempt,
    now: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query("delete from sign_in_attempts where expires_at <= $1")
        .bind(now.as_micros())
        .execute(&mut *connection)
        .await
        .map_err(store_error)?;
    sqlx::query(
        "insert into sign_in_attempts (state_hash, browser_hash, target, fresh, expires_at)
         values ($1, $2, $3, $4, $5)",
    )
    .bind(attempt.state_hash.as_slice())
    .bind(attempt.browser_hash.as_slice())
    .bind(&attempt.to)
    .bind(attempt.freshness == Freshness::Fresh)
    .bind(attempt.expires_at.as_micros())
    .execute(connection)
    .await
    .map_err(store_error)?;
    Ok(())
}

/// Takes a sign-in out, so that nobody goes on with it again.
pub(super) async fn take_attempt(
    connection: &mut PgConnection,
    state_hash: &[u8; 32],
) -> Result<Option<SignInAttempt>, StoreError> {
    sqlx::query_as::<_, AttemptRow>(
        "delete from sign_in_attempts where state_hash = $1
         returning state_hash, browser_hash, target, fresh, expires_at",
    )
    .bind(state_hash.as_slice())
    .fetch_optional(connection)
    .await
    .map_err(store_error)?
    .map(AttemptRow::into_attempt)
    .transpose()
}
