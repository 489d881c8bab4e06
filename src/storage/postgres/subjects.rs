//! The business keys of settled calls.

use sqlx::{PgConnection, PgPool};

use super::errors::{read_error, store_error};
use crate::{
    app::ports::{StoreError, SubjectCall},
    domain::subject::Subject,
    storage::rows::{self, SubjectCallRow},
};

/// Keeps the keys of one call.
pub(super) async fn insert(
    connection: &mut PgConnection,
    subjects: &[Subject],
    call: &SubjectCall,
) -> Result<(), StoreError> {
    let (names, values) = columns(subjects);
    sqlx::query(
        "insert into call_subjects (
             name, value, decision_id, agent, run_id, turn, tool_use_id, tool, verdict, approval_id, at
         )
         select name, value, $3, $4, $5, $6, $7, $8, $9, $10, $11
         from unnest($1::text[], $2::text[]) as key (name, value)",
    )
    .bind(names)
    .bind(values)
    .bind(call.decision.to_string())
    .bind(call.call.agent.as_str())
    .bind(call.call.run.as_str())
    .bind(i64::from(call.call.turn))
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
pub(super) async fn calls(readers: &PgPool, subjects: &[Subject], limit: u32) -> Result<Vec<SubjectCall>, StoreError> {
    let (names, values) = columns(subjects);
    sqlx::query_as::<_, SubjectCallRow>(
        "select distinct decision_id, agent, run_id, turn, tool_use_id, tool, verdict, approval_id, at
         from call_subjects
         where (name, value) in (select name, value from unnest($1::text[], $2::text[]) as key (name, value))
         order by decision_id desc limit $3",
    )
    .bind(names)
    .bind(values)
    .bind(rows::limit(limit))
    .fetch_all(readers)
    .await
    .map_err(read_error)?
    .into_iter()
    .map(SubjectCallRow::into_call)
    .collect()
}

fn columns(subjects: &[Subject]) -> (Vec<&str>, Vec<&str>) {
    subjects.iter().map(|subject| (subject.name.as_str(), subject.value.as_str())).unzip()
}
