//! Policies as they were accepted.

use sqlx::{PgConnection, PgPool};

use super::errors::{read_error, store_error};
use crate::{
    app::ports::{StoreError, StoredPolicy},
    domain::{policy::PolicyVersion, time::Timestamp},
};

/// Stores an accepted policy; `false` when it is there already.
pub(super) async fn insert(connection: &mut PgConnection, policy: &StoredPolicy) -> Result<bool, StoreError> {
    let inserted =
        sqlx::query("insert into policies (version, accepted_at) values ($1, $2) on conflict (version) do nothing")
            .bind(policy.version.as_str())
            .bind(policy.accepted_at.as_micros())
            .execute(&mut *connection)
            .await
            .map_err(store_error)?;
    if inserted.rows_affected() == 0 {
        return Ok(false);
    }
    for (path, body) in &policy.files {
        sqlx::query("insert into policy_files (version, path, body) values ($1, $2, $3)")
            .bind(policy.version.as_str())
            .bind(path)
            .bind(body)
            .execute(&mut *connection)
            .await
            .map_err(store_error)?;
    }
    Ok(true)
}

/// A policy with its files, sorted by path.
pub(super) async fn by_version(readers: &PgPool, version: &PolicyVersion) -> Result<Option<StoredPolicy>, StoreError> {
    let accepted_at: Option<i64> = sqlx::query_scalar("select accepted_at from policies where version = $1")
        .bind(version.as_str())
        .fetch_optional(readers)
        .await
        .map_err(read_error)?;
    let Some(accepted_at) = accepted_at else { return Ok(None) };
    // The policy is committed with its files and never changes, so the second read cannot miss any.
    let files = sqlx::query_as("select path, body from policy_files where version = $1 order by path")
        .bind(version.as_str())
        .fetch_all(readers)
        .await
        .map_err(read_error)?;
    Ok(Some(StoredPolicy { version: version.clone(), files, accepted_at: Timestamp::from_micros(accepted_at) }))
}
