//! Payloads beside the log.

use serde::Serialize;
use sqlx::{SqliteConnection, SqlitePool};

use super::errors::store_error;
use crate::{
    app::ports::StoreError,
    domain::audit::payload::{Payload, PayloadDigest},
    storage::rows::{self, PayloadRow},
};

#[derive(Serialize)]
struct NewPayload<'a> {
    digest: String,
    salt: String,
    body: &'a str,
}

/// Keeps payloads; one that is there already is the same one.
pub(super) async fn insert(connection: &mut SqliteConnection, payloads: &[&Payload]) -> Result<(), StoreError> {
    if payloads.is_empty() {
        return Ok(());
    }
    let new: Vec<NewPayload<'_>> = payloads
        .iter()
        .map(|payload| NewPayload {
            digest: payload.digest().to_string(),
            salt: hex::encode(payload.salt()),
            body: payload.body(),
        })
        .collect();
    sqlx::query(
        "insert into payloads (digest, salt, body)
         select unhex(value ->> 'digest'), unhex(value ->> 'salt'), value ->> 'body' from jsonb_each($1) where true
         on conflict (digest) do nothing",
    )
    .bind(rows::to_json(&new)?)
    .execute(connection)
    .await
    .map_err(store_error)?;
    Ok(())
}

/// One payload.
pub(super) async fn by_digest(readers: &SqlitePool, digest: PayloadDigest) -> Result<Option<Payload>, StoreError> {
    sqlx::query_as::<_, PayloadRow>("select salt, body from payloads where digest = $1")
        .bind(digest.as_bytes().as_slice())
        .fetch_optional(readers)
        .await
        .map_err(store_error)?
        .map(|row| row.into_payload(digest))
        .transpose()
}
