//! Signed statements of the log's size and root.

use sqlx::{SqliteConnection, SqlitePool};

use super::errors::store_error;
use crate::{
    app::ports::{Checkpoint, StoreError},
    storage::rows::{self, CheckpointRow},
};

/// Stores a checkpoint; `false` when there is one of its size.
pub(super) async fn insert(connection: &mut SqliteConnection, checkpoint: &Checkpoint) -> Result<bool, StoreError> {
    let inserted = sqlx::query(
        "insert into checkpoints (size, root, at, signature, key_id, frontier) values ($1, $2, $3, $4, $5, $6)
         on conflict (size) do nothing",
    )
    .bind(checkpoint.size)
    .bind(checkpoint.root.as_slice())
    .bind(checkpoint.at.as_micros())
    .bind(&checkpoint.signature)
    .bind(&checkpoint.key_id)
    .bind(rows::to_json(&checkpoint.frontier)?)
    .execute(connection)
    .await
    .map_err(store_error)?;
    Ok(inserted.rows_affected() > 0)
}

/// The newest checkpoints first.
pub(super) async fn newest(readers: &SqlitePool, limit: u32) -> Result<Vec<Checkpoint>, StoreError> {
    sqlx::query_as::<_, CheckpointRow>(
        "select size, root, at, signature, key_id, frontier from checkpoints order by size desc limit $1",
    )
    .bind(rows::limit(limit))
    .fetch_all(readers)
    .await
    .map_err(store_error)?
    .into_iter()
    .map(CheckpointRow::into_checkpoint)
    .collect()
}
