//! The log's entries and its head.

use sqlx::{PgPool, Postgres, postgres::PgArguments, query::QueryAs};

use super::errors::read_error;
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

pub(super) use columns;

/// The end of the log.
pub(super) async fn head(readers: &PgPool) -> Result<Head, StoreError> {
    sqlx::query_as::<_, HeadRow>("select seq, chain from audit_head")
        .fetch_one(readers)
        .await
        .map_err(read_error)?
        .into_head()
}

/// Entries in order.
pub(super) async fn after(readers: &PgPool, after: i64, limit: u32) -> Result<Vec<SealedEntry>, StoreError> {
    let rows = sqlx::query_as::<_, EntryRow>(concat!(
        "select ",
        columns!(),
        " from audit_entries where seq > $1 order by seq limit $2"
    ))
    .bind(after)
    .bind(rows::limit(limit))
    .fetch_all(readers)
    .await
    .map_err(read_error)?;
    rows::into_entries(rows)
}

/// The decisions of one turn, newest first.
pub(super) async fn of_turn(
    readers: &PgPool,
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
    .map_err(read_error)?;
    rows::into_entries(rows)
}

/// Entries that match, newest first.
///
/// The statement is not kept prepared: so it is planned each time for the parameters it has, and what is null drops
/// out of the plan. For a span of time alone the part of the log that holds it is found first. Time runs along with
/// `seq`, but not exactly: instances' clocks differ, and who asked first may be committed last. (`seq + 0`, because the
/// least `seq` itself would be looked for from the beginning of the log.)
pub(super) async fn list(
    readers: &PgPool,
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
    let by_time = !named && (from.is_some() || until.is_some());
    let rows = sqlx::query_as::<_, EntryRow>(concat!(
        "with span as (
             select min(seq + 0) as first, max(seq + 0) as last from audit_entries
             where ($12::bigint is null or at >= $12) and ($13::bigint is null or at < $13)
         )
         select ",
        columns!(),
        " from audit_entries
          where (not $16 or seq between (select first from span) and (select last from span))
              and ($1::text is null or run_id = $1)
              and ($2::text is null or decision_id = $2)
              and ($3::text is null or approval_id = $3)
              and ($4::text is null or approval_code = $4)
              and ($5::text is null or request_id = $5)
              and ($6::text is null or agent = $6)
              and ($7::text is null or tool = $7)
              and ($8::text is null or actor = $8)
              and ($9::text is null or verdict = $9)
              and ($10::text is null or rule = $10)
              and ($11::text is null or event = $11)
              and ($12::bigint is null or at >= $12)
              and ($13::bigint is null or at < $13)
              and ($14::bigint is null or seq < $14)
              and (
                  $17::text is null
                  or decision_id in (select decision_id from call_subjects where name = $17 and value = $18)
              )
          order by seq desc limit $15"
    ))
    .persistent(false)
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
    .bind(by_time)
    .bind(subject.as_ref().map(|subject| &subject.name))
    .bind(subject.as_ref().map(|subject| &subject.value))
    .fetch_all(readers)
    .await
    .map_err(read_error)?;
    rows::into_entries(rows)
}

/// Entries as the arrays that one statement inserts, a column each.
#[derive(Default)]
pub(super) struct NewEntries<'a> {
    seq: Vec<i64>,
    event: Vec<&'static str>,
    at: Vec<i64>,
    request_id: Vec<Option<&'a str>>,
    actor: Vec<&'a str>,
    actor_via: Vec<&'a str>,
    agent: Vec<Option<&'a str>>,
    run_id: Vec<Option<&'a str>>,
    turn: Vec<Option<i64>>,
    tool_use_id: Vec<Option<&'a str>>,
    tool: Vec<Option<&'a str>>,
    decision_id: Vec<Option<String>>,
    approval_id: Vec<Option<String>>,
    approval_code: Vec<Option<&'a str>>,
    verdict: Vec<Option<&'static str>>,
    reason_code: Vec<Option<&'a str>>,
    reason: Vec<Option<&'a str>>,
    rule: Vec<Option<&'a str>>,
    policy_version: Vec<Option<&'a str>>,
    payload_digest: Vec<Option<&'a [u8]>>,
    detail: Vec<String>,
    leaf: Vec<&'a [u8]>,
    chain: Vec<&'a [u8]>,
}

impl<'a> NewEntries<'a> {
    pub(super) fn of(entries: &'a [SealedEntry]) -> Result<Self, StoreError> {
        let mut new = Self::default();
        for sealed in entries {
            let entry = &sealed.entry;
            let call = entry.call.as_ref();
            new.seq.push(sealed.seq);
            new.event.push(entry.event.as_str());
            new.at.push(entry.at.as_micros());
            new.request_id.push(entry.request_id.as_deref());
            new.actor.push(&entry.actor.name);
            new.actor_via.push(&entry.actor.via);
            new.agent.push(call.map(|call| &call.agent).or(entry.agent.as_ref()).map(|agent| agent.as_str()));
            new.run_id.push(call.map(|call| &call.run).or(entry.run.as_ref()).map(|run| run.as_str()));
            new.turn.push(call.map(|call| call.turn.into()));
            new.tool_use_id.push(call.map(|call| call.tool_use_id.as_str()));
            new.tool.push(entry.tool.as_deref());
            new.decision_id.push(entry.decision.map(|decision| decision.to_string()));
            new.approval_id.push(entry.approval.map(|approval| approval.to_string()));
            new.approval_code.push(entry.code.as_ref().map(|code| code.as_str()));
            new.verdict.push(entry.verdict.map(|verdict| verdict.as_str()));
            new.reason_code.push(entry.reason_code.as_deref());
            new.reason.push(entry.reason.as_deref());
            new.rule.push(entry.rule.as_deref());
            new.policy_version.push(entry.policy_version.as_deref());
            new.payload_digest.push(entry.payload.as_ref().map(|digest| digest.as_bytes().as_slice()));
            new.detail.push(rows::detail_text(&entry.detail)?);
            new.leaf.push(&sealed.leaf);
            new.chain.push(&sealed.chain);
        }
        Ok(new)
    }
}

/// A statement that answers with a row of type `Row`.
pub(super) type Asking<'q, Row> = QueryAs<'q, Postgres, Row, PgArguments>;

impl<'q> NewEntries<'q> {
    /// Binds the arrays to the next places of a statement, in the order of `columns!`.
    pub(super) fn bind_to<Row>(self, query: Asking<'q, Row>) -> Asking<'q, Row> {
        query
            .bind(self.seq)
            .bind(self.event)
            .bind(self.at)
            .bind(self.request_id)
            .bind(self.actor)
            .bind(self.actor_via)
            .bind(self.agent)
            .bind(self.run_id)
            .bind(self.turn)
            .bind(self.tool_use_id)
            .bind(self.tool)
            .bind(self.decision_id)
            .bind(self.approval_id)
            .bind(self.approval_code)
            .bind(self.verdict)
            .bind(self.reason_code)
            .bind(self.reason)
            .bind(self.rule)
            .bind(self.policy_version)
            .bind(self.payload_digest)
            .bind(self.detail)
            .bind(self.leaf)
            .bind(self.chain)
    }
}
