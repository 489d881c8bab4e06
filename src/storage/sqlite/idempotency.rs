//! Answers remembered for requests sent again, and outcomes of calls that were never held.

use sqlx::{SqliteConnection, SqlitePool};

use super::errors::store_error;
use crate::{
    app::ports::{DecisionOutcome, IDEMPOTENCY_WINDOW, IdempotencyRecord, StoreError},
    domain::{ids::DecisionId, time::Timestamp},
    storage::rows::{self, IdempotencyRow, OutcomeRow},
};

/// Remembers an answer, unless a young one is there: then that one.
pub(super) async fn remember(
    connection: &mut SqliteConnection,
    record: &IdempotencyRecord,
) -> Result<Option<IdempotencyRecord>, StoreError> {
    let written = sqlx::query(
        "insert into idempotency (caller, route, key, body_hash, decision_id, answer, created_at)
         values ($1, $2, $3, $4, $5, $6, $7)
         on conflict (caller, route, key) do update set
             body_hash = excluded.body_hash, decision_id = excluded.decision_id, answer = excluded.answer,
             created_at = excluded.created_at
         where idempotency.created_at <= $8",
    )
    .bind(&record.caller)
    .bind(&record.route)
    .bind(&record.key)
    .bind(record.body_hash.as_slice())
    .bind(record.decision.to_string())
    .bind(rows::to_json(&record.answer)?)
    .bind(record.created_at.as_micros())
    .bind(record.created_at.minus(IDEMPOTENCY_WINDOW).as_micros())
    .execute(&mut *connection)
    .await
    .map_err(store_error)?;
    if written.rows_affected() > 0 {
        return Ok(None);
    }
    remembered(connection, &record.caller, &record.route, &record.key, record.created_at).await
}

/// The remembered answer, when it is young at `now`.
pub(super) async fn remembered(
    connection: &mut SqliteConnection,
    caller: &str,
    route: &str,
    key: &str,
    now: Timestamp,
) -> Result<Option<IdempotencyRecord>, StoreError> {
    sqlx::query_as::<_, IdempotencyRow>(
        "select body_hash, decision_id, answer, created_at from idempotency
         where caller = $1 and route = $2 and key = $3 and created_at > $4",
    )
    .bind(caller)
    .bind(route)
    .bind(key)
    .bind(now.minus(IDEMPOTENCY_WINDOW).as_micros())
    .fetch_optional(connection)
    .await
    .map_err(store_error)?
    .map(|row| row.into_record(caller, route, key))
    .transpose()
}

/// Records an outcome, unless there is one: then that one.
pub(super) async fn record_outcome(
    connection: &mut SqliteConnection,
    outcome: &DecisionOutcome,
) -> Result<Option<DecisionOutcome>, StoreError> {
    let decision = outcome.decision.to_string();
    let written = sqlx::query(
        "insert into decision_outcomes (decision_id, status, payload_digest, at) values ($1, $2, $3, $4)
         on conflict (decision_id) do nothing",
    )
    .bind(&decision)
    .bind(&outcome.status)
    .bind(outcome.payload.as_ref().map(|payload| payload.as_bytes().as_slice()))
    .bind(outcome.at.as_micros())
    .execute(&mut *connection)
    .await
    .map_err(store_error)?;
    if written.rows_affected() > 0 {
        return Ok(None);
    }
    sqlx::query_as::<_, OutcomeRow>(
        "select decision_id, status, payload_digest, at from decision_outcomes where decision_id = $1",
    )
    .bind(&decision)
    .fetch_optional(connection)
    .await
    .map_err(store_error)?
    .map(OutcomeRow::into_outcome)
    .transpose()
}

/// The outcomes of these decisions.
pub(super) async fn outcomes(
    readers: &SqlitePool,
    decisions: &[DecisionId],
) -> Result<Vec<DecisionOutcome>, StoreError> {
    let ids: Vec<String> = decisions.iter().map(ToString::to_string).collect();
    sqlx::query_as::<_, OutcomeRow>(
        "select decision_id, status, payload_digest, at from decision_outcomes where decision_id in (select value from json_each($1))",
    )
    .bind(rows::to_json(&ids)?)
    .fetch_all(readers)
    .await
    .map_err(store_error)?
    .into_iter()
    .map(OutcomeRow::into_outcome)
    .collect()
}
