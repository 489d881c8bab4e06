//! Runs and their families, and the agents whose they are.

use std::collections::BTreeSet;

use sqlx::{SqliteConnection, SqlitePool};

use super::errors::store_error;
use crate::{
    app::ports::{AgentStanding, Parked, RunFilter, StoreError},
    domain::{
        identity::AgentId,
        ids::RunId,
        run::{KnownRun, Run, RunKey, RunLease},
        time::Timestamp,
    },
    storage::rows::{self, KnownRunRow, ParkedRow, RunKeyRow, RunRow},
};

/// The columns of a run `own`, with what is kept at the head of its family.
macro_rules! columns {
    () => {
        "own.agent, own.run_id, own.ancestors, own.on_behalf_of, own.request, head.labels, head.requests, \
         head.requested_bytes, own.ending"
    };
}

/// A run and the head of its family, which may be itself.
macro_rules! with_head {
    () => {
        " from runs as own
              join runs as head on head.agent = coalesce(own.head_agent, own.agent)
                  and head.run_id = coalesce(own.head_run, own.run_id)"
    };
}

/// Where runs stand: $1 is the time, and what follows says which runs.
macro_rules! known {
    ($which:literal) => {
        concat!(
            "with known as (
                 select ",
            columns!(),
            ", own.lease_turn, own.lease_mark, own.lease_until, parked_runs.content_type, parked_runs.etag,
                     (
                         select max(turn) from audit_entries as entry
                         where entry.run_id = own.run_id and entry.agent = own.agent and entry.event = 'decision'
                     ) as newest_turn",
            with_head!(),
            "    left join parked_runs on parked_runs.agent = own.agent and parked_runs.run_id = own.run_id
                 where ",
            $which,
            ")
             select agent, run_id, ancestors, on_behalf_of, request, labels, requests, requested_bytes, ending,
                 lease_turn, lease_mark, lease_until, content_type, etag, newest_turn,
                 (
                     select count(*) from held_calls as held
                     where held.agent = known.agent and held.run_id = known.run_id
                         and held.turn = known.newest_turn
                 ) as held,
                 (
                     select count(*) from approvals
                     where approvals.run_id = known.run_id and approvals.agent = known.agent
                         and approvals.turn = known.newest_turn
                 ) as made,
                 (
                     select count(*) from held_calls as held join approvals on approvals.id = held.approval_id
                     where held.agent = known.agent and held.run_id = known.run_id
                         and held.turn = known.newest_turn and approvals.state = 'pending'
                         and approvals.expires_at > $1
                 ) as waiting
             from known order by run_id"
        )
    };
}

const KNOWN_BY_NAME: &str = known!("own.agent = $2 and own.run_id = $3");
const KNOWN_OF_AGENT: &str = known!(
    "own.agent = $2 and ($3 is null or own.run_id > $3)
     and ($4 is null or (own.ending is not null) = $4)
     and (not $5 or exists (
         select 1 from held_calls as held where held.agent = own.agent and held.run_id = own.run_id
     ))
     order by own.run_id limit $6"
);

/// An agent, locked.
pub(super) async fn lock_agent(
    connection: &mut SqliteConnection,
    agent: &AgentId,
) -> Result<AgentStanding, StoreError> {
    sqlx::query("insert into agents (agent) values ($1) on conflict (agent) do nothing")
        .bind(agent.as_str())
        .execute(&mut *connection)
        .await
        .map_err(store_error)?;
    Ok(AgentStanding { paused: any_paused(connection, &[agent]).await? })
}

/// Whether one of these agents is paused.
pub(super) async fn any_paused(connection: &mut SqliteConnection, agents: &[&AgentId]) -> Result<bool, StoreError> {
    let names: Vec<&str> = agents.iter().map(|agent| agent.as_str()).collect();
    sqlx::query_scalar(
        "select exists (
             select 1 from agents where agent in (select value from json_each($1)) and paused_at is not null
         )",
    )
    .bind(rows::to_json(&names)?)
    .fetch_one(connection)
    .await
    .map_err(store_error)
}

/// A run, made when nothing was known of it. Whoever writes holds every lock.
pub(super) async fn lock_run(connection: &mut SqliteConnection, run: &RunKey) -> Result<Run, StoreError> {
    sqlx::query("insert into runs (agent, run_id) values ($1, $2) on conflict (agent, run_id) do nothing")
        .bind(run.agent.as_str())
        .bind(run.run.as_str())
        .execute(&mut *connection)
        .await
        .map_err(store_error)?;
    by_key(connection, run).await?.ok_or_else(|| rows::unreadable("run"))
}

/// A run as it stands, if anything is known of it.
pub(super) async fn by_key(connection: &mut SqliteConnection, run: &RunKey) -> Result<Option<Run>, StoreError> {
    sqlx::query_as::<_, RunRow>(concat!(
        "select ",
        columns!(),
        with_head!(),
        " where own.agent = $1 and own.run_id = $2"
    ))
    .bind(run.agent.as_str())
    .bind(run.run.as_str())
    .fetch_optional(connection)
    .await
    .map_err(store_error)?
    .map(RunRow::into_run)
    .transpose()
}

/// Stores what a family has touched.
pub(super) async fn set_labels(
    connection: &mut SqliteConnection,
    head: &RunKey,
    labels: &BTreeSet<String>,
) -> Result<(), StoreError> {
    sqlx::query("update runs set labels = $3 where agent = $1 and run_id = $2")
        .bind(head.agent.as_str())
        .bind(head.run.as_str())
        .bind(rows::to_json(labels)?)
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(())
}

/// A run as it stands, as committed.
pub(super) async fn by_name(
    readers: &SqlitePool,
    run: &RunKey,
    now: Timestamp,
) -> Result<Option<KnownRun>, StoreError> {
    sqlx::query_as::<_, KnownRunRow>(KNOWN_BY_NAME)
        .bind(now.as_micros())
        .bind(run.agent.as_str())
        .bind(run.run.as_str())
        .fetch_optional(readers)
        .await
        .map_err(store_error)?
        .map(KnownRunRow::into_known)
        .transpose()
}

/// A locked run as it stands.
pub(super) async fn known(
    connection: &mut SqliteConnection,
    run: &RunKey,
    now: Timestamp,
) -> Result<KnownRun, StoreError> {
    sqlx::query_as::<_, KnownRunRow>(KNOWN_BY_NAME)
        .bind(now.as_micros())
        .bind(run.agent.as_str())
        .bind(run.run.as_str())
        .fetch_one(connection)
        .await
        .map_err(store_error)?
        .into_known()
}

/// Runs of an agent, by their ids.
pub(super) async fn list(
    readers: &SqlitePool,
    agent: &AgentId,
    filter: RunFilter,
    after: Option<&RunId>,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<KnownRun>, StoreError> {
    let RunFilter { ended, held } = filter;
    sqlx::query_as::<_, KnownRunRow>(KNOWN_OF_AGENT)
        .bind(now.as_micros())
        .bind(agent.as_str())
        .bind(after.map(RunId::as_str))
        .bind(ended)
        .bind(held)
        .bind(rows::limit(limit))
        .fetch_all(readers)
        .await
        .map_err(store_error)?
        .into_iter()
        .map(KnownRunRow::into_known)
        .collect()
}

/// Stores what is known of a run itself.
pub(super) async fn update(connection: &mut SqliteConnection, run: &Run) -> Result<(), StoreError> {
    let head = run.ancestors.last();
    sqlx::query(
        "update runs set ancestors = $3, head_agent = $4, head_run = $5, on_behalf_of = $6, request = $7, ending = $8
         where agent = $1 and run_id = $2",
    )
    .bind(run.key.agent.as_str())
    .bind(run.key.run.as_str())
    .bind(rows::to_json(&run.ancestors)?)
    .bind(head.map(|head| head.agent.as_str()))
    .bind(head.map(|head| head.run.as_str()))
    .bind(&run.on_behalf_of)
    .bind(run.request.as_ref().map(|digest| digest.as_bytes().as_slice()))
    .bind(run.ended.as_ref().map(rows::to_json).transpose()?)
    .execute(connection)
    .await
    .map_err(store_error)?;
    Ok(())
}

/// Stores what a family's humans asked.
pub(super) async fn set_requests(connection: &mut SqliteConnection, run: &Run) -> Result<(), StoreError> {
    sqlx::query("update runs set requests = $3, requested_bytes = $4 where agent = $1 and run_id = $2")
        .bind(run.head().agent.as_str())
        .bind(run.head().run.as_str())
        .bind(rows::to_json(&run.requests)?)
        .bind(i64::try_from(run.requested_bytes).map_err(|_| rows::unreadable("length of requests"))?)
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(())
}

/// The runs of one id, of these agents.
pub(super) async fn named(
    connection: &mut SqliteConnection,
    run: &RunId,
    agents: &[&AgentId],
) -> Result<Vec<RunKey>, StoreError> {
    let names: Vec<&str> = agents.iter().map(|agent| agent.as_str()).collect();
    let rows = sqlx::query_as::<_, RunKeyRow>(
        "select agent, run_id from runs
         where run_id = $1 and agent in (select value from json_each($2)) order by agent",
    )
    .bind(run.as_str())
    .bind(rows::to_json(&names)?)
    .fetch_all(connection)
    .await
    .map_err(store_error)?;
    rows.into_iter().map(RunKeyRow::into_key).collect()
}

/// Every run of a family but its head. Whoever changes one of them locks the head first, so they are locked with it.
pub(super) async fn below_head(connection: &mut SqliteConnection, head: &RunKey) -> Result<Vec<Run>, StoreError> {
    sqlx::query_as::<_, RunRow>(concat!(
        "select ",
        columns!(),
        with_head!(),
        " where own.head_agent = $1 and own.head_run = $2 order by own.agent, own.run_id"
    ))
    .bind(head.agent.as_str())
    .bind(head.run.as_str())
    .fetch_all(connection)
    .await
    .map_err(store_error)?
    .into_iter()
    .map(RunRow::into_run)
    .collect()
}

/// Keeps who took a run up, and until when.
pub(super) async fn set_lease(
    connection: &mut SqliteConnection,
    run: &RunKey,
    lease: RunLease,
) -> Result<(), StoreError> {
    sqlx::query("update runs set lease_turn = $3, lease_mark = $4, lease_until = $5 where agent = $1 and run_id = $2")
        .bind(run.agent.as_str())
        .bind(run.run.as_str())
        .bind(i64::from(lease.turn))
        .bind(i64::from(lease.mark))
        .bind(lease.until.map(Timestamp::as_micros))
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(())
}

/// What is parked for a run.
pub(super) async fn parked(readers: &SqlitePool, run: &RunKey) -> Result<Option<Parked>, StoreError> {
    let row = sqlx::query_as::<_, ParkedRow>(
        "select content_type, etag, body from parked_runs where agent = $1 and run_id = $2",
    )
    .bind(run.agent.as_str())
    .bind(run.run.as_str())
    .fetch_optional(readers)
    .await
    .map_err(store_error)?;
    Ok(row.map(Parked::from))
}

/// Keeps a stack's bytes, in place of those before.
pub(super) async fn park(connection: &mut SqliteConnection, run: &RunKey, parked: &Parked) -> Result<(), StoreError> {
    sqlx::query(
        "insert into parked_runs (agent, run_id, content_type, etag, body) values ($1, $2, $3, $4, $5)
         on conflict (agent, run_id) do update set
             content_type = excluded.content_type, etag = excluded.etag, body = excluded.body",
    )
    .bind(run.agent.as_str())
    .bind(run.run.as_str())
    .bind(&parked.tag.content_type)
    .bind(&parked.tag.etag)
    .bind(&parked.body)
    .execute(connection)
    .await
    .map_err(store_error)?;
    Ok(())
}

/// Pauses an agent, or lets it go on.
pub(super) async fn set_pause(
    connection: &mut SqliteConnection,
    agent: &AgentId,
    pause: Option<(Timestamp, &str)>,
) -> Result<(), StoreError> {
    sqlx::query("update agents set paused_at = $2, paused_by = $3 where agent = $1")
        .bind(agent.as_str())
        .bind(pause.map(|(at, _)| at.as_micros()))
        .bind(pause.map(|(_, by)| by))
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(())
}
