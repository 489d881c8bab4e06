//! Runs and their families, and the agents whose they are.

use std::collections::BTreeSet;

use sqlx::PgConnection;

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
pub(super) async fn lock_agent(connection: &mut PgConnection, agent: &AgentId) -> Result<AgentStanding, StoreError> {
    // The conflicting row is locked, although nothing is ever updated.
    sqlx::query(
        "insert into agents (agent) values ($1)
         on conflict (agent) do update set agent = excluded.agent where false",
    )
    .bind(agent.as_str())
    .execute(&mut *connection)
    .await
    .map_err(store_error)?;
    Ok(AgentStanding { paused: any_paused(connection, &[agent]).await? })
}

/// Whether one of these agents is paused.
pub(super) async fn any_paused(connection: &mut PgConnection, agents: &[&AgentId]) -> Result<bool, StoreError> {
    let names: Vec<&str> = agents.iter().map(|agent| agent.as_str()).collect();
    sqlx::query_scalar("select exists (select from agents where agent = any($1) and paused_at is not null)")
        .bind(names)
        .fetch_one(connection)
        .await
        .map_err(store_error)
}

/// A run, locked after the head of its family.
pub(super) async fn lock_run(connection: &mut PgConnection, run: &RunKey) -> Result<Run, StoreError> {
    let head = by_key(connection, run).await?.map_or_else(|| run.clone(), |known| known.head().clone());
    if head != *run {
        lock_row(connection, &head).await?;
    }
    lock_row(connection, run).await?;
    let locked = by_key(connection, run).await?.ok_or_else(|| rows::unreadable("run"))?;
    if *locked.head() != head {
        return Err(StoreError::Contended("the run has just joined a family".to_owned()));
    }
    Ok(locked)
}

async fn lock_row(connection: &mut PgConnection, run: &RunKey) -> Result<(), StoreError> {
    sqlx::query(
        "insert into runs (agent, run_id) values ($1, $2)
         on conflict (agent, run_id) do update set run_id = excluded.run_id where false",
    )
    .bind(run.agent.as_str())
    .bind(run.run.as_str())
    .execute(connection)
    .await
    .map_err(store_error)?;
    Ok(())
}

/// A run as it stands, if anything is known of it.
pub(super) async fn by_key(connection: &mut PgConnection, run: &RunKey) -> Result<Option<Run>, StoreError> {
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
    connection: &mut PgConnection,
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
