//! Changes by other processes: SQLite tells of none, but counts them.

use std::time::Duration;

use sqlx::SqlitePool;
use tokio::{sync::broadcast, time::sleep};

use super::errors::store_error;
use crate::app::ports::{Change, StoreError};

/// How often the count is read.
const INTERVAL: Duration = Duration::from_secs(1);

/// Sends [`Change::Unknown`] when another process has committed, such as `countersign keys revoke`.
///
/// `data_version` changes with what other connections commit. The connection that writes asks, so that this process's
/// own commits, each announced by itself, do not count.
pub(super) async fn watch(writer: SqlitePool, mut seen: i64, changes: broadcast::Sender<Change>) {
    loop {
        sleep(INTERVAL).await;
        // Who waits behind a long transaction, or cannot read, asks again after the next interval.
        let Ok(version) = version(&writer).await else { continue };
        if version != seen {
            seen = version;
            // Nobody listening is no fault.
            let _ = changes.send(Change::Unknown);
        }
    }
}

/// The count.
pub(super) async fn version(writer: &SqlitePool) -> Result<i64, StoreError> {
    sqlx::query_scalar("pragma data_version").fetch_one(writer).await.map_err(store_error)
}
