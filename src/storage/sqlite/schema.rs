//! The schema's version.

use std::collections::HashSet;

use sqlx::{
    SqlitePool,
    migrate::{MigrateError, Migrator},
};

use super::errors::store_error;
use crate::app::ports::StoreError;

static MIGRATIONS: Migrator = sqlx::migrate!("migrations/sqlite");

/// Applies what is missing.
pub(super) async fn migrate(writer: &SqlitePool) -> Result<(), StoreError> {
    MIGRATIONS.run(writer).await.map_err(|error| {
        if let MigrateError::Execute(error) = error {
            store_error(error)
        } else {
            StoreError::Unreadable(error.to_string())
        }
    })
}

/// How many migrations are missing.
pub(super) async fn pending(readers: &SqlitePool) -> Result<usize, StoreError> {
    let table: Option<i64> =
        sqlx::query_scalar("select 1 from sqlite_schema where type = 'table' and name = '_sqlx_migrations'")
            .fetch_optional(readers)
            .await
            .map_err(store_error)?;
    if table.is_none() {
        return Ok(MIGRATIONS.iter().count());
    }
    let applied: Vec<(i64, Vec<u8>)> =
        sqlx::query_as("select version, checksum from _sqlx_migrations where success order by version")
            .fetch_all(readers)
            .await
            .map_err(store_error)?;
    for (version, checksum) in &applied {
        let known = MIGRATIONS.iter().find(|migration| migration.version == *version);
        if known.is_none_or(|migration| *migration.checksum != **checksum) {
            return Err(StoreError::Unreadable(format!("migration {version} of the schema is not this version's")));
        }
    }
    let applied: HashSet<i64> = applied.into_iter().map(|(version, _)| version).collect();
    Ok(MIGRATIONS.iter().filter(|migration| !applied.contains(&migration.version)).count())
}
