//! Groups of decisions: one transaction each, on the connection that writes.

use serde::Serialize;
use sqlx::{SqliteConnection, SqlitePool};

use super::{
    entries,
    errors::{commit_error, store_error},
    payloads,
};
use crate::{
    app::ports::{GroupAppend, Guard, StoreError},
    domain::audit::{
        chain::{Head, SealedEntry},
        payload::Payload,
    },
    storage::rows,
};

/// See `Store::append_decisions`. No writer can come between the guards and the commit: this one holds the lock.
pub(super) async fn append(
    writer: &SqlitePool,
    before: Head,
    entries: &[SealedEntry],
    payloads: &[&Payload],
    guards: &[&Guard],
) -> Result<GroupAppend, StoreError> {
    let mut tx = writer.begin_with("begin immediate").await.map_err(store_error)?;
    if entries::head(&mut tx).await? != before {
        return Ok(GroupAppend::HeadMoved);
    }
    let guarded = guarded(&mut tx, guards).await?;
    if !guarded.is_empty() {
        return Ok(GroupAppend::Guarded(guarded));
    }
    entries::append(&mut tx, entries).await?;
    payloads::insert(&mut tx, payloads).await?;
    tx.commit().await.map_err(commit_error)?;
    Ok(GroupAppend::Written)
}

#[derive(Serialize)]
struct GuardedCall<'a> {
    agent: &'a str,
    run_id: &'a str,
    turn: u32,
    tool_use_id: &'a str,
    tool: &'a str,
    args_hash: String,
}

/// The indices of those that do not pass.
async fn guarded(connection: &mut SqliteConnection, guards: &[&Guard]) -> Result<Vec<usize>, StoreError> {
    let calls: Vec<GuardedCall<'_>> = guards
        .iter()
        .map(|guard| GuardedCall {
            agent: guard.call.agent.as_str(),
            run_id: guard.call.run.as_str(),
            turn: guard.call.turn,
            tool_use_id: guard.call.tool_use_id.as_str(),
            tool: &guard.tool,
            args_hash: hex::encode(guard.args_hash.as_bytes()),
        })
        .collect();
    let found: Vec<i64> = sqlx::query_scalar(
        "select key from jsonb_each($1) where
             exists (
                 select 1 from held_calls
                 where agent = value ->> 'agent' and run_id = value ->> 'run_id' and turn = value ->> 'turn'
                     and tool_use_id = value ->> 'tool_use_id'
             )
             or exists (
                 select 1 from approvals
                 where denied_by_person and not lifted and agent = value ->> 'agent' and run_id = value ->> 'run_id'
                     and tool = value ->> 'tool' and args_hash = unhex(value ->> 'args_hash')
             )
             or exists (select 1 from agents where agent = value ->> 'agent' and paused_at is not null)
             or exists (
                 select 1 from runs
                 where agent = value ->> 'agent' and run_id = value ->> 'run_id'
                     and (ending is not null or head_run is not null)
             )
         order by key",
    )
    .bind(rows::to_json(&calls)?)
    .fetch_all(connection)
    .await
    .map_err(store_error)?;
    found.into_iter().map(|index| usize::try_from(index).map_err(|_| rows::unreadable("index"))).collect()
}
