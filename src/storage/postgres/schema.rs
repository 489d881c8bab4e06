//! The schema's version.

use std::collections::HashSet;

use sqlx::{
    PgConnection, PgPool,
    migrate::{MigrateError, Migrator},
};

use super::errors::read_error;
use crate::app::ports::StoreError;

static MIGRATIONS: Migrator = sqlx::migrate!("migrations/postgres");

/// Applies what is missing. Instances that start together wait for each other.
pub(super) async fn migrate(connection: &mut PgConnection) -> Result<(), StoreError> {
    MIGRATIONS.run_direct(None, connection, false).await.map_err(|error| {
        if let MigrateError::Execute(error) = error {
            read_error(error)
        } else {
            StoreError::Unreadable(error.to_string())
        }
    })
}

/// How many migrations are missing.
pub(super) async fn pending(readers: &PgPool) -> Result<usize, StoreError> {
    let exists: bool = sqlx::query_scalar("select to_regclass('_sqlx_migrations') is not null")
        .fetch_one(readers)
        .await
        .map_err(read_error)?;
    if !exists {
        return Ok(MIGRATIONS.iter().count());
    }
    let applied: Vec<(i64, Vec<u8>)> =
        sqlx::query_as("select version, checksum from _sqlx_migrations where success order by version")
            .fetch_all(readers)
            .await
            .map_err(read_error)?;
    for (version, checksum) in &applied {
        let known = MIGRATIONS.iter().find(|migration| migration.version == *version);
        if known.is_none_or(|migration| *migration.checksum != **checksum) {
            return Err(StoreError::Unreadable(format!("migration {version} of the schema is not this version's")));
        }
    }
    let applied: HashSet<i64> = applied.into_iter().map(|(version, _)| version).collect();
    Ok(MIGRATIONS.iter().filter(|migration| !applied.contains(&migration.version)).count())
}
