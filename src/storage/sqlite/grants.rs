//! Grants, and the calls they let through.

use sqlx::{SqliteConnection, SqlitePool};

use super::errors::store_error;
use crate::{
    app::ports::{CountedCall, GrantFilter, StoreError},
    domain::{
        grant::{Grant, GrantRecord, Revocation},
        ids::{DecisionId, GrantId},
        time::Timestamp,
    },
    storage::rows::{self, GrantRow},
};

macro_rules! columns {
    () => {
        "grants.id, grants.agent, grants.run_id, grants.tool, grants.maker, grants.payload_digest, grants.lifts, \
         grants.seen_by, grants.max_uses, grants.approval_id, grants.created_at, grants.expires_at, grants.revoked, \
         payloads.salt, payloads.body, runs.ending is not null as run_ended"
    };
}

macro_rules! tables {
    () => {
        " from grants \
             left join payloads on payloads.digest = grants.payload_digest \
             left join runs on runs.agent = grants.agent and runs.run_id = grants.run_id"
    };
}

/// Grants that match, newest first.
pub(super) async fn list(
    readers: &SqlitePool,
    filter: &GrantFilter,
    before: Option<GrantId>,
    limit: u32,
) -> Result<Vec<GrantRecord>, StoreError> {
    let GrantFilter { agent, run, tool, live_at, visible_to } = filter;
    sqlx::query_as::<_, GrantRow>(concat!(
        "select * from (select ",
        columns!(),
        ", (select count(*) from grant_uses where grant_id = grants.id) as uses",
        tables!(),
        " where ($1 is null or grants.agent = $1)
              and ($2 is null or grants.run_id = $2)
              and ($3 is null or grants.tool = $3)
              and ($4 is null or (
                  grants.revoked is null and grants.expires_at > $4 and runs.ending is null
              ))
              and (
                  $5 is null or grants.maker = $5 or grants.seen_by = '[]'
                  or exists (
                      select 1 from json_each(grants.seen_by) as seen
                      where seen.value in (select value from json_each($6))
                  )
              )
              and ($7 is null or grants.id < $7)
         ) as matching
         where $4 is null or uses < max_uses
         order by id desc limit $8"
    ))
    .bind(agent.as_ref().map(|agent| agent.as_str()))
    .bind(run.as_ref().map(|run| run.as_str()))
    .bind(tool)
    .bind(live_at.map(Timestamp::as_micros))
    .bind(visible_to.as_ref().map(|viewer| viewer.name.as_str()))
    .bind(visible_to.as_ref().map(|viewer| rows::to_json(&viewer.groups)).transpose()?)
    .bind(before.map(|before| before.to_string()))
    .bind(rows::limit(limit))
    .fetch_all(readers)
    .await
    .map_err(store_error)?
    .into_iter()
    .map(GrantRow::into_record)
    .collect()
}

/// One grant. Whoever writes holds every lock.
pub(super) async fn locked(connection: &mut SqliteConnection, id: GrantId) -> Result<Option<GrantRecord>, StoreError> {
    sqlx::query_as::<_, GrantRow>(concat!(
        "select ",
        columns!(),
        ", (select count(*) from grant_uses where grant_id = grants.id) as uses",
        tables!(),
        " where grants.id = $1"
    ))
    .bind(id.to_string())
    .fetch_optional(connection)
    .await
    .map_err(store_error)?
    .map(GrantRow::into_record)
    .transpose()
}

/// The grants that could let this call through; the call itself is left out of their uses.
pub(super) async fn lock_for(
    connection: &mut SqliteConnection,
    call: &CountedCall<'_>,
    tool: &str,
    now: Timestamp,
) -> Result<Vec<GrantRecord>, StoreError> {
    sqlx::query_as::<_, GrantRow>(concat!(
        "select ",
        columns!(),
        ", (
             select count(*) from grant_uses
             where grant_id = grants.id and not (turn = $5 and tool_use_id = $6 and args_hash = $7)
         ) as uses",
        tables!(),
        " where grants.agent = $1 and grants.run_id = $2 and grants.tool = $3 and grants.expires_at > $4
              and grants.revoked is null
          order by grants.id"
    ))
    .bind(call.key.agent.as_str())
    .bind(call.key.run.as_str())
    .bind(tool)
    .bind(now.as_micros())
    .bind(i64::from(call.key.turn))
    .bind(call.key.tool_use_id.as_str())
    .bind(call.args_hash.as_bytes().as_slice())
    .fetch_all(connection)
    .await
    .map_err(store_error)?
    .into_iter()
    .map(GrantRow::into_record)
    .collect()
}

/// Stores a new grant.
pub(super) async fn insert(connection: &mut SqliteConnection, grant: &Grant) -> Result<(), StoreError> {
    sqlx::query(
        "insert into grants (
             id, agent, run_id, tool, maker, payload_digest, lifts, seen_by, max_uses, approval_id, created_at,
             expires_at, revoked
         ) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
    )
    .bind(grant.id.to_string())
    .bind(grant.run.agent.as_str())
    .bind(grant.run.run.as_str())
    .bind(&grant.tool)
    .bind(grant.maker.as_str())
    .bind(grant.payload.as_bytes().as_slice())
    .bind(rows::to_json(&grant.lifts)?)
    .bind(rows::to_json(&grant.groups)?)
    .bind(i64::from(grant.max_uses))
    .bind(grant.approval.map(|approval| approval.to_string()))
    .bind(grant.created_at.as_micros())
    .bind(grant.expires_at.as_micros())
    .bind(grant.revoked.as_ref().map(rows::to_json).transpose()?)
    .execute(connection)
    .await
    .map_err(store_error)?;
    Ok(())
}

/// Takes a grant back.
pub(super) async fn revoke(
    connection: &mut SqliteConnection,
    id: GrantId,
    revocation: &Revocation,
) -> Result<(), StoreError> {
    sqlx::query("update grants set revoked = $2 where id = $1")
        .bind(id.to_string())
        .bind(rows::to_json(revocation)?)
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(())
}

/// Counts a call as a use.
pub(super) async fn count(
    connection: &mut SqliteConnection,
    grant: GrantId,
    call: &CountedCall<'_>,
    decision: DecisionId,
    now: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query(
        "insert into grant_uses (grant_id, turn, tool_use_id, args_hash, decision_id, at)
         values ($1, $2, $3, $4, $5, $6)
         on conflict (grant_id, turn, tool_use_id, args_hash) do nothing",
    )
    .bind(grant.to_string())
    .bind(i64::from(call.key.turn))
    .bind(call.key.tool_use_id.as_str())
    .bind(call.args_hash.as_bytes().as_slice())
    .bind(decision.to_string())
    .bind(now.as_micros())
    .execute(connection)
    .await
    .map_err(store_error)?;
    Ok(())
}
