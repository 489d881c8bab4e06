//! The log's entries and its head.

use serde::Serialize;
use sqlx::{SqliteConnection, SqlitePool};

use super::errors::store_error;
use crate::{
    app::ports::{EntryFilter, StoreError},
    domain::{
        audit::chain::{Head, SealedEntry},
        run::RunKey,
    },
    storage::rows::{self, EntryRow, HeadRow},
};

macro_rules! columns {
    () => {
        "seq, event, at, request_id, actor, actor_via, agent, run_id, turn, tool_use_id, tool, decision_id, \
         approval_id, approval_code, verdict, reason_code, reason, rule, policy_version, payload_digest, detail, leaf, \
         chain"
    };
}

/// The condition that every given field of a filter is met, by its place among the parameters.
macro_rules! matches_filter {
    () => {
        "($1 is null or run_id = $1)
         and ($2 is null or decision_id = $2)
         and ($3 is null or approval_id = $3)
         and ($4 is null or approval_code = $4)
         and ($5 is null or request_id = $5)
         and ($6 is null or agent = $6)
         and ($7 is null or tool = $7)
         and ($8 is null or actor = $8)
         and ($9 is null or verdict = $9)
         and ($10 is null or rule = $10)
         and ($11 is null or event = $11)
         and ($12 is null or at >= $12)
         and ($13 is null or at < $13)
         and ($14 is null or seq < $14)
         and ($16 is null or decision_id in (select decision_id from call_subjects where name = $16 and value = $17))
         order by seq desc limit $15"
    };
}

/// Entries found by one of the indexed names, then filtered.
const BY_NAME: &str = concat!(
    "select ",
    columns!(),
    " from audit_entries where seq in (
         select seq from audit_entries where run_id = $1
         union all select seq from audit_entries where decision_id = $2
         union all select seq from audit_entries where approval_id = $3
         union all select seq from audit_entries where approval_code = $4
         union all select seq from audit_entries where request_id = $5
         union all select seq from audit_entries
             where decision_id in (select decision_id from call_subjects where name = $16 and value = $17)
     ) and ",
    matches_filter!()
);

/// The part of the log that holds a span of time, from its newest entry on, filtered. Time runs along with `seq`, but
/// not exactly: instances' clocks differ, and who asked first may be committed last.
const BY_TIME: &str = concat!(
    "with span as (
         select min(seq) as first, max(seq) as last from audit_entries
         where at >= coalesce($12, -9223372036854775808) and at < coalesce($13, 9223372036854775807)
     )
     select ",
    columns!(),
    " from audit_entries where seq between (select first from span) and (select last from span) and ",
    matches_filter!()
);

/// The log from its newest entry on, filtered.
const SCAN: &str = concat!("select ", columns!(), " from audit_entries where ", matches_filter!());

/// The end of the log.
pub(super) async fn head(connection: &mut SqliteConnection) -> Result<Head, StoreError> {
    sqlx::query_as::<_, HeadRow>("select seq, chain from audit_head")
        .fetch_one(connection)
        .await
        .map_err(store_error)?
        .into_head()
}

/// Entries in order.
pub(super) async fn after(readers: &SqlitePool, after: i64, limit: u32) -> Result<Vec<SealedEntry>, StoreError> {
    let rows = sqlx::query_as::<_, EntryRow>(concat!(
        "select ",
        columns!(),
        " from audit_entries where seq > $1 order by seq limit $2"
    ))
    .bind(after)
    .bind(rows::limit(limit))
    .fetch_all(readers)
    .await
    .map_err(store_error)?;
    rows::into_entries(rows)
}

/// The decisions of one turn, newest first.
pub(super) async fn of_turn(
    readers: &SqlitePool,
    run: &RunKey,
    turn: u32,
    limit: u32,
) -> Result<Vec<SealedEntry>, StoreError> {
    let rows = sqlx::query_as::<_, EntryRow>(concat!(
        "select ",
        columns!(),
        " from audit_entries where run_id = $1 and agent = $2 and turn = $3 and event = 'decision'
          order by seq desc limit $4"
    ))
    .bind(run.run.as_str())
    .bind(run.agent.as_str())
    .bind(i64::from(turn))
    .bind(rows::limit(limit))
    .fetch_all(readers)
    .await
    .map_err(store_error)?;
    rows::into_entries(rows)
}

/// Entries that match, newest first.
///
/// SQLite plans a statement without looking at its parameters, so each way in has its own.
pub(super) async fn list(
    readers: &SqlitePool,
    filter: &EntryFilter,
    before: Option<i64>,
    limit: u32,
) -> Result<Vec<SealedEntry>, StoreError> {
    let EntryFilter {
        run,
        tool,
        agent,
        actor,
        verdict,
        rule,
        event,
        code,
        request_id,
        decision,
        approval,
        subject,
        from,
        until,
    } = filter;
    let named = run.is_some()
        || decision.is_some()
        || approval.is_some()
        || code.is_some()
        || request_id.is_some()
        || subject.is_some();
    let timed = from.is_some() || until.is_some();
    let statement = match (named, timed) {
        (true, _) => BY_NAME,
        (false, true) => BY_TIME,
        (false, false) => SCAN,
    };
    let rows = sqlx::query_as::<_, EntryRow>(statement)
        .bind(run)
        .bind(decision.map(|decision| decision.to_string()))
        .bind(approval.map(|approval| approval.to_string()))
        .bind(code)
        .bind(request_id)
        .bind(agent)
        .bind(tool)
        .bind(actor)
        .bind(verdict.map(|verdict| verdict.as_str()))
        .bind(rule)
        .bind(event.map(|event| event.as_str()))
        .bind(from.map(|from| from.as_micros()))
        .bind(until.map(|until| until.as_micros()))
        .bind(before)
        .bind(rows::limit(limit))
        .bind(subject.as_ref().map(|subject| &subject.name))
        .bind(subject.as_ref().map(|subject| &subject.value))
        .fetch_all(readers)
        .await
        .map_err(store_error)?;
    rows::into_entries(rows)
}

/// An entry as the statement reads it: JSON, hashes in hex.
#[derive(Serialize)]
struct NewEntry<'a> {
    seq: i64,
    event: &'static str,
    at: i64,
    request_id: Option<&'a str>,
    actor: &'a str,
    actor_via: &'a str,
    agent: Option<&'a str>,
    run_id: Option<&'a str>,
    turn: Option<u32>,
    tool_use_id: Option<&'a str>,
    tool: Option<&'a str>,
    decision_id: Option<String>,
    approval_id: Option<String>,
    approval_code: Option<&'a str>,
    verdict: Option<&'static str>,
    reason_code: Option<&'a str>,
    reason: Option<&'a str>,
    rule: Option<&'a str>,
    policy_version: Option<&'a str>,
    payload_digest: Option<String>,
    detail: String,
    leaf: String,
    chain: String,
}

impl<'a> NewEntry<'a> {
    fn of(sealed: &'a SealedEntry) -> Result<Self, StoreError> {
        let entry = &sealed.entry;
        let call = entry.call.as_ref();
        Ok(Self {
            seq: sealed.seq,
            event: entry.event.as_str(),
            at: entry.at.as_micros(),
            request_id: entry.request_id.as_deref(),
            actor: &entry.actor.name,
            actor_via: &entry.actor.via,
            agent: call.map(|call| &call.agent).or(entry.agent.as_ref()).map(|agent| agent.as_str()),
            run_id: call.map(|call| &call.run).or(entry.run.as_ref()).map(|run| run.as_str()),
            turn: call.map(|call| call.turn),
            tool_use_id: call.map(|call| call.tool_use_id.as_str()),
            tool: entry.tool.as_deref(),
            decision_id: entry.decision.map(|decision| decision.to_string()),
            approval_id: entry.approval.map(|approval| approval.to_string()),
            approval_code: entry.code.as_ref().map(|code| code.as_str()),
            verdict: entry.verdict.map(|verdict| verdict.as_str()),
            reason_code: entry.reason_code.as_deref(),
            reason: entry.reason.as_deref(),
            rule: entry.rule.as_deref(),
            policy_version: entry.policy_version.as_deref(),
            payload_digest: entry.payload.map(|digest| digest.to_string()),
            detail: rows::detail_text(&entry.detail)?,
            leaf: hex::encode(sealed.leaf),
            chain: hex::encode(sealed.chain),
        })
    }
}

/// Inserts entries that follow the head, and moves it behind the last.
pub(super) async fn append(connection: &mut SqliteConnection, entries: &[SealedEntry]) -> Result<(), StoreError> {
    let Some(last) = entries.last() else { return Ok(()) };
    let new = entries.iter().map(NewEntry::of).collect::<Result<Vec<_>, _>>()?;
    sqlx::query(concat!(
        "insert into audit_entries (",
        columns!(),
        ") select
             value ->> 'seq', value ->> 'event', value ->> 'at', value ->> 'request_id', value ->> 'actor',
             value ->> 'actor_via', value ->> 'agent', value ->> 'run_id', value ->> 'turn', value ->> 'tool_use_id',
             value ->> 'tool', value ->> 'decision_id', value ->> 'approval_id', value ->> 'approval_code',
             value ->> 'verdict', value ->> 'reason_code', value ->> 'reason', value ->> 'rule',
             value ->> 'policy_version', unhex(value ->> 'payload_digest'), value ->> 'detail',
             unhex(value ->> 'leaf'), unhex(value ->> 'chain')
           from jsonb_each($1)"
    ))
    .bind(rows::to_json(&new)?)
    .execute(&mut *connection)
    .await
    .map_err(store_error)?;
    sqlx::query("update audit_head set seq = $1, chain = $2")
        .bind(last.seq)
        .bind(last.chain.as_slice())
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(())
}
