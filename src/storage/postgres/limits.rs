//! What calls use of their limits.

use std::collections::BTreeMap;

use sqlx::PgConnection;

use super::errors::store_error;
use crate::{
    app::ports::{CountedCall, PermitKey, StoreError},
    domain::{
        limit::{LONGEST_WINDOW, Measure, Tally},
        time::Timestamp,
    },
    storage::rows::{self, UsesRow},
};

/// Locks what is counted where these measures count, and tells what it comes to.
pub(super) async fn lock(
    connection: &mut PgConnection,
    call: &CountedCall<'_>,
    measures: &[Measure],
) -> Result<BTreeMap<String, Tally>, StoreError> {
    let mut ordered: Vec<&Measure> = measures.iter().collect();
    ordered.sort_by_key(|measure| (&measure.limit, &measure.key));
    for measure in &ordered {
        // The conflicting row is locked, although nothing is ever updated. What is read after it sees what whoever held
        // it before has committed.
        sqlx::query(
            "insert into limit_keys (limit_id, key) values ($1, $2)
             on conflict (limit_id, key) do update set key = excluded.key where false",
        )
        .bind(&measure.limit)
        .bind(&measure.key)
        .execute(&mut *connection)
        .await
        .map_err(store_error)?;
    }
    let mut tallies = BTreeMap::new();
    for measure in ordered {
        let uses = sqlx::query_as::<_, UsesRow>(
            "select sum_group = $3, amount, count(*) from limit_uses
             where limit_id = $1 and key = $2 and at > $4
                 and not (agent = $5 and run_id = $6 and turn = $7 and tool_use_id = $8 and args_hash = $9)
             group by 1, 2",
        )
        .bind(&measure.limit)
        .bind(&measure.key)
        .bind(&measure.group)
        .bind(measure.since.as_micros())
        .bind(call.key.agent.as_str())
        .bind(call.key.run.as_str())
        .bind(i64::from(call.key.turn))
        .bind(call.key.tool_use_id.as_str())
        .bind(call.args_hash.as_bytes().as_slice())
        .fetch_all(&mut *connection)
        .await
        .map_err(store_error)?;
        tallies.insert(measure.limit.clone(), rows::tally(measure, uses)?);
    }
    Ok(tallies)
}

/// Counts a call. One that is counted in the window already keeps its moment there.
pub(super) async fn count(
    connection: &mut PgConnection,
    call: &CountedCall<'_>,
    measures: &[Measure],
    by: PermitKey,
    now: Timestamp,
) -> Result<(), StoreError> {
    for measure in measures {
        sqlx::query("delete from limit_uses where limit_id = $1 and key = $2 and at <= $3")
            .bind(&measure.limit)
            .bind(&measure.key)
            .bind(now.minus(LONGEST_WINDOW).as_micros())
            .execute(&mut *connection)
            .await
            .map_err(store_error)?;
        sqlx::query(
            "insert into limit_uses (
                 limit_id, key, agent, run_id, turn, tool_use_id, args_hash, at, sum_group, amount, used_by
             ) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
             on conflict (limit_id, key, agent, run_id, turn, tool_use_id, args_hash) do update set
                 at = case when limit_uses.at > $12 then limit_uses.at else excluded.at end,
                 sum_group = excluded.sum_group, amount = excluded.amount, used_by = excluded.used_by",
        )
        .bind(&measure.limit)
        .bind(&measure.key)
        .bind(call.key.agent.as_str())
        .bind(call.key.run.as_str())
        .bind(i64::from(call.key.turn))
        .bind(call.key.tool_use_id.as_str())
        .bind(call.args_hash.as_bytes().as_slice())
        .bind(now.as_micros())
        .bind(&measure.group)
        .bind(measure.amount.map(|amount| amount.to_string()))
        .bind(by.to_string())
        .bind(measure.since.as_micros())
        .execute(&mut *connection)
        .await
        .map_err(store_error)?;
    }
    Ok(())
}

/// Counts no longer what `by` permitted.
pub(super) async fn give_back(connection: &mut PgConnection, by: PermitKey) -> Result<(), StoreError> {
    sqlx::query("delete from limit_uses where used_by = $1")
        .bind(by.to_string())
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(())
}
