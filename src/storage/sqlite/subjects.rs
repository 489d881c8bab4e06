//! The business keys of settled calls.

use sqlx::{SqliteConnection, SqlitePool};

use super::errors::store_error;
use crate::{
    app::ports::{StoreError, SubjectCall},
    domain::subject::Subject,
    storage::rows::{self, SubjectCallRow},
};

/// Keeps the keys of one call.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    subjects: &[Subject],
    call: &SubjectCall,
) -> Result<(), StoreError> {
    sqlx::query(
        "insert into call_subjects (
             name, value, decision_id, agent, run_id, turn, tool_use_id, tool, verdict, approval_id, at
         )
         select value ->> 'name', value ->> 'value', $2, $3, $4, $5, $6, $7, $8, $9, $10 from json_each($1)",
    )
    .bind(rows::to_json(&subjects)?)
    .bind(call.decision.to_string())
    .bind(call.call.agent.as_str())
    .bind(call.call.run.as_str())
    .bind(call.call.turn)
    .bind(call.call.tool_use_id.as_str())
    .bind(&call.tool)
    .bind(call.verdict.as_str())
    .bind(call.approval.map(|approval| approval.to_string()))
    .bind(call.at.as_micros())
    .execute(connection)
    .await
    .map_err(store_error)?;
    Ok(())
}

/// The calls on one of these keys, newest first, each once.
pub(super) async fn calls(
    readers: &SqlitePool,
    subjects: &[Subject],
    limit: u32,
) -> Result<Vec<SubjectCall>, StoreError> {
    sqlx::query_as::<_, SubjectCallRow>(
        "select distinct decision_id, agent, run_id, turn, tool_use_id, tool, verdict, approval_id, at
         from call_subjects
         where (name, value) in (select key.value ->> 'name', key.value ->> 'value' from json_each($1) as key)
         order by decision_id desc limit $2",
    )
    .bind(rows::to_json(&subjects)?)
    .bind(rows::limit(limit))
    .fetch_all(readers)
    .await
    .map_err(store_error)?
    .into_iter()
    .map(SubjectCallRow::into_call)
    .collect()
}
