//! API keys' records, and the private permit key that instances share.

use sqlx::{SqliteConnection, SqlitePool};

use super::errors::store_error;
use crate::{
    app::ports::StoreError,
    domain::{identity::KeyRecord, ids::KeyId, time::Timestamp},
    storage::rows::{self, KeyRow},
};

macro_rules! columns {
    () => {
        "id, name, roles, agents, hash, created_at, expires_at, revoked_at"
    };
}

/// Every key, the oldest first.
pub(super) async fn all(readers: &SqlitePool) -> Result<Vec<KeyRecord>, StoreError> {
    sqlx::query_as::<_, KeyRow>(concat!("select ", columns!(), " from keys order by id"))
        .fetch_all(readers)
        .await
        .map_err(store_error)?
        .into_iter()
        .map(KeyRow::into_record)
        .collect()
}

/// One key.
pub(super) async fn by_id(connection: &mut SqliteConnection, id: KeyId) -> Result<Option<KeyRecord>, StoreError> {
    sqlx::query_as::<_, KeyRow>(concat!("select ", columns!(), " from keys where id = $1"))
        .bind(id.to_string())
        .fetch_optional(connection)
        .await
        .map_err(store_error)?
        .map(KeyRow::into_record)
        .transpose()
}

/// Stores a new key.
pub(super) async fn insert(connection: &mut SqliteConnection, key: &KeyRecord) -> Result<(), StoreError> {
    let (roles, agents) = rows::key_lists(key)?;
    sqlx::query(concat!("insert into keys (", columns!(), ") values ($1, $2, $3, $4, $5, $6, $7, $8)"))
        .bind(key.id().to_string())
        .bind(key.name().as_str())
        .bind(roles)
        .bind(agents)
        .bind(key.hash().as_slice())
        .bind(key.created_at().as_micros())
        .bind(key.expires_at().map(Timestamp::as_micros))
        .bind(key.revoked_at().map(Timestamp::as_micros))
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(())
}

/// Revokes a key; `false` when there is nothing to revoke.
pub(super) async fn revoke(connection: &mut SqliteConnection, id: KeyId, now: Timestamp) -> Result<bool, StoreError> {
    let revoked = sqlx::query("update keys set revoked_at = $2 where id = $1 and revoked_at is null")
        .bind(id.to_string())
        .bind(now.as_micros())
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(revoked.rows_affected() > 0)
}

/// The shared permit key: `candidate`, unless there is one.
pub(super) async fn shared_permit_key(
    connection: &mut SqliteConnection,
    candidate: &[u8],
    now: Timestamp,
) -> Result<Vec<u8>, StoreError> {
    sqlx::query("insert into permit_keys (id, secret, created_at) values (1, $1, $2) on conflict (id) do nothing")
        .bind(candidate)
        .bind(now.as_micros())
        .execute(&mut *connection)
        .await
        .map_err(store_error)?;
    sqlx::query_scalar("select secret from permit_keys where id = 1").fetch_one(connection).await.map_err(store_error)
}
