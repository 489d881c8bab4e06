//! Groups of decisions: one statement each, on a connection that does nothing else.

use sqlx::PgConnection;

use super::entries::{self, NewEntries};
use crate::{
    app::ports::{GroupAppend, Guard, StoreError},
    domain::audit::{
        chain::{Head, SealedEntry},
        payload::Payload,
    },
    storage::rows,
};

/// Moves the head by compare-and-set, and writes only when it moved and no guard found anything.
///
/// The guards read the statement's snapshot, which may be older than the head's row: an update that waited for another
/// writer goes on with the newest version of the row (READ COMMITTED), not with a newer snapshot. That is sound,
/// because whoever holds a call, denies one, pauses an agent, ends a run or puts it under another appends to the log in the
/// same transaction. What the snapshot misses was
/// committed after it was taken, and so has moved the head away from `before`: then nothing is updated, and the answer
/// is `HeadMoved`. What moved the head up to `before` was committed earlier, and the snapshot has it.
const APPEND: &str = concat!(
    "with guarded as materialized (
         select place
         from unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::bytea[]) with ordinality
             as guard (agent, run_id, turn, tool_use_id, tool, args_hash, place)
         where exists (
                 select from held_calls as held
                 where held.agent = guard.agent and held.run_id = guard.run_id and held.turn = guard.turn
                     and held.tool_use_id = guard.tool_use_id
             )
             or exists (
                 select from approvals as denied
                 where denied.denied_by_person and not denied.lifted and denied.agent = guard.agent
                     and denied.run_id = guard.run_id and denied.tool = guard.tool
                     and denied.args_hash = guard.args_hash
             )
             or exists (select from agents where agents.agent = guard.agent and agents.paused_at is not null)
             or exists (
                 select from runs
                 where runs.agent = guard.agent and runs.run_id = guard.run_id
                     and (runs.ending is not null or runs.head_run is not null)
             )
     ), moved as (
         update audit_head set seq = $7, chain = $8
         where id = 1 and seq = $9 and chain = $10 and not exists (select from guarded)
         returning seq
     ), kept as (
         insert into payloads (digest, salt, body)
         select digest, salt, body from unnest($11::bytea[], $12::bytea[], $13::text[]) as payload (digest, salt, body)
         where exists (select from moved)
         on conflict (digest) do nothing
     ), written as (
         insert into audit_entries (",
    entries::columns!(),
    ") select ",
    entries::columns!(),
    " from unnest(
             $14::bigint[], $15::text[], $16::bigint[], $17::text[], $18::text[], $19::text[], $20::text[],
             $21::text[], $22::bigint[], $23::text[], $24::text[], $25::text[], $26::text[], $27::text[], $28::text[],
             $29::text[], $30::text[], $31::text[], $32::text[], $33::bytea[], $34::text[], $35::bytea[], $36::bytea[]
         ) as entry (",
    entries::columns!(),
    ") where exists (select from moved)
     )
     select exists (select from moved), array(select place from guarded order by place)"
);

/// See `Store::append_decisions`. The caller says what an error means: whether it may have been committed.
pub(super) async fn append(
    connection: &mut PgConnection,
    before: Head,
    entries: &[SealedEntry],
    payloads: &[&Payload],
    guards: &[&Guard],
) -> Result<Result<GroupAppend, sqlx::Error>, StoreError> {
    let Some(last) = entries.last() else { return Ok(Ok(GroupAppend::Written)) };
    let new = NewEntries::of(entries)?;
    let agents: Vec<&str> = guards.iter().map(|guard| guard.call.agent.as_str()).collect();
    let runs: Vec<&str> = guards.iter().map(|guard| guard.call.run.as_str()).collect();
    let turns: Vec<i64> = guards.iter().map(|guard| guard.call.turn.into()).collect();
    let tool_use_ids: Vec<&str> = guards.iter().map(|guard| guard.call.tool_use_id.as_str()).collect();
    let tools: Vec<&str> = guards.iter().map(|guard| guard.tool.as_str()).collect();
    let args_hashes: Vec<&[u8]> = guards.iter().map(|guard| guard.args_hash.as_bytes().as_slice()).collect();
    let digests: Vec<[u8; 32]> = payloads.iter().map(|payload| *payload.digest().as_bytes()).collect();
    let salts: Vec<&[u8]> = payloads.iter().map(|payload| payload.salt().as_slice()).collect();
    let bodies: Vec<&str> = payloads.iter().map(|payload| payload.body()).collect();
    let query = sqlx::query_as::<_, (bool, Vec<i64>)>(APPEND)
        .bind(agents)
        .bind(runs)
        .bind(turns)
        .bind(tool_use_ids)
        .bind(tools)
        .bind(args_hashes)
        .bind(last.seq)
        .bind(last.chain.as_slice())
        .bind(before.seq)
        .bind(before.chain.as_slice())
        .bind(digests)
        .bind(salts)
        .bind(bodies);
    let (moved, guarded) = match new.bind_to(query).fetch_one(connection).await {
        Ok(row) => row,
        Err(error) => return Ok(Err(error)),
    };
    // Places count from one.
    let guarded = guarded
        .into_iter()
        .map(|place| usize::try_from(place - 1).map_err(|_| rows::unreadable("index")))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Ok(match (moved, guarded.is_empty()) {
        (true, _) => GroupAppend::Written,
        (false, true) => GroupAppend::HeadMoved,
        (false, false) => GroupAppend::Guarded(guarded),
    }))
}
