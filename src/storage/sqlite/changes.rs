//! Changes by other processes: SQLite tells of none, but counts them.

use std::time::Duration;

use sqlx::SqlitePool;
use tokio::{sync::broadcast, time::MissedTickBehavior};

use crate::app::ports::Change;

/// How often the count is read.
const INTERVAL: Duration = Duration::from_secs(1);

/// Sends [`Change::Unknown`] when another process has committed, such as `countersign keys revoke`.
///
/// `data_version` changes with what other connections commit. The connection that writes asks, so that this process's
/// own commits, each announced by itself, do not count.
pub(super) async fn watch(writer: SqlitePool, changes: broadcast::Sender<Change>) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen = None;
    loop {
        ticks.tick().await;
        // Who waits behind a long transaction, or cannot read, asks again at the next tick.
        let Ok(version) = sqlx::query_scalar::<_, i64>("pragma data_version").fetch_one(&writer).await else {
            continue;
        };
        if seen.replace(version).is_some_and(|seen| seen != version) {
            // Nobody listening is no fault.
            let _ = changes.send(Change::Unknown);
        }
    }
}
