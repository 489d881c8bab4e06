//! Payloads beside the log.

use sqlx::{PgConnection, PgPool};

use super::errors::{read_error, store_error};
use crate::{
    app::ports::StoreError,
    domain::audit::payload::{Payload, PayloadDigest},
    storage::rows::PayloadRow,
};

/// Keeps a payload; one that is there already is the same one.
pub(super) async fn insert(connection: &mut PgConnection, payload: &Payload) -> Result<(), StoreError> {
    sqlx::query("insert into payloads (digest, salt, body) values ($1, $2, $3) on conflict (digest) do nothing")
        .bind(payload.digest().as_bytes().as_slice())
        .bind(payload.salt().as_slice())
        .bind(payload.body())
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(())
}

/// One payload.
pub(super) async fn by_digest(readers: &PgPool, digest: PayloadDigest) -> Result<Option<Payload>, StoreError> {
    sqlx::query_as::<_, PayloadRow>("select salt, body from payloads where digest = $1")
        .bind(digest.as_bytes().as_slice())
        .fetch_optional(readers)
        .await
        .map_err(read_error)?
        .map(|row| row.into_payload(digest))
        .transpose()
}
