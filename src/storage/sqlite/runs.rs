//! Runs and their families, and the agents whose they are.

use std::collections::BTreeSet;

use sqlx::SqliteConnection;

use super::errors::store_error;
use crate::{
    app::ports::{AgentStanding, StoreError},
    domain::{
        identity::AgentId,
        run::{Run, RunKey},
    },
    storage::rows::{self, RunRow},
};

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
    sqlx::query_as::<_, RunRow>(
        "select own.agent, own.run_id, own.ancestors, own.on_behalf_of, head.labels, head.requests, own.ending
         from runs as own
             join runs as head on head.agent = coalesce(own.head_agent, own.agent)
                 and head.run_id = coalesce(own.head_run, own.run_id)
         where own.agent = $1 and own.run_id = $2",
    )
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
