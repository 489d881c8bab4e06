//! Changes of all instances, by NOTIFY and LISTEN.

use std::time::Duration;

use sqlx::{PgConnection, PgPool, postgres::PgListener};
use tokio::{
    sync::broadcast,
    time::{sleep, timeout},
};

use super::errors::store_error;
use crate::{
    app::ports::{Change, StoreError},
    domain::ids::ApprovalId,
};

/// How long after a lost connection another one is tried, and waiters told to look for themselves.
const RETRY: Duration = Duration::from_secs(1);

/// How long a silent connection is believed to be one.
const SILENCE: Duration = Duration::from_secs(10);

/// How long to wait for the answer that proves it.
const ANSWER: Duration = Duration::from_secs(3);

/// Tells every instance when the transaction commits.
pub(super) async fn announce(
    connection: &mut PgConnection,
    channel: &str,
    changes: &[Change],
) -> Result<(), StoreError> {
    let payloads: Vec<String> = changes.iter().map(payload).collect();
    sqlx::query("select pg_notify($1, payload) from unnest($2::text[]) as payload")
        .bind(channel)
        .bind(payloads)
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(())
}

/// Passes on what `listener` hears for as long as the store lives.
pub(super) async fn pass_on(
    mut listener: PgListener,
    pool: PgPool,
    channel: String,
    changes: broadcast::Sender<Change>,
) {
    // Nobody listening to the sender is no fault.
    let tell = |change| drop(changes.send(change));
    loop {
        while let Some(change) = next(&mut listener).await {
            tell(change);
        }
        listener = loop {
            tell(Change::Unknown);
            sleep(RETRY).await;
            if let Ok(again) = listen(&pool, &channel).await {
                break again;
            }
        };
        // For what happened between the last time they looked and now.
        tell(Change::Unknown);
    }
}

/// Listens on `channel`.
pub(super) async fn listen(pool: &PgPool, channel: &str) -> Result<PgListener, sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    // What happens between the loss and the next connection is missed: the loop above must tell.
    listener.eager_reconnect(false);
    listener.listen(channel).await?;
    Ok(listener)
}

/// The next change; `None` when the connection is lost.
async fn next(listener: &mut PgListener) -> Option<Change> {
    loop {
        match timeout(SILENCE, listener.try_recv()).await {
            Ok(Ok(Some(notification))) => return Some(parse(notification.payload())),
            Ok(Ok(None) | Err(_)) => return None,
            // A broken way to the server looks like silence.
            Err(_) => timeout(ANSWER, sqlx::query("select 1").execute(&mut *listener)).await.ok()?.ok()?,
        };
    }
}

fn payload(change: &Change) -> String {
    match change {
        Change::Approval(id) => id.to_string(),
        Change::Keys => "keys".to_owned(),
        Change::Policy => "policy".to_owned(),
        Change::Outbox => "outbox".to_owned(),
        Change::Unknown => "unknown".to_owned(),
    }
}

/// What another version says, and this one does not know, may be anything.
fn parse(payload: &str) -> Change {
    match payload {
        "keys" => Change::Keys,
        "policy" => Change::Policy,
        "outbox" => Change::Outbox,
        other => ApprovalId::parse(other).map_or(Change::Unknown, Change::Approval),
    }
}
