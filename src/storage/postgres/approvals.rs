//! Approvals, the groups they name, and the calls they hold.

use sqlx::{PgConnection, PgPool};

use super::errors::{read_error, store_error};
use crate::{
    app::ports::{ApprovalFilter, LATEST_LOOKED_AT, StoreError},
    domain::{
        approval::state::Approval,
        call::CallKey,
        canon::json::ArgsHash,
        facts::StandingDenial,
        identity::AgentId,
        ids::{ApprovalId, RunId},
        run::RunKey,
        time::Timestamp,
    },
    storage::rows::{self, ApprovalRow, CallKeyRow, DenialRow, StateColumns},
};

macro_rules! columns {
    () => {
        "id, code, agent, run_id, turn, tool_use_id, tool, args_hash, payload_digest, decision_id, policy_version, \
         asked_by, reason, requirement, batch_id, attempt, created_at, expires_at, state_data, review_digest, \
         review_hash"
    };
}

/// One approval as committed.
pub(super) async fn by_id(readers: &PgPool, id: ApprovalId) -> Result<Option<Approval>, StoreError> {
    sqlx::query_as::<_, ApprovalRow>(concat!("select ", columns!(), " from approvals where id = $1"))
        .bind(id.to_string())
        .fetch_optional(readers)
        .await
        .map_err(read_error)?
        .map(ApprovalRow::into_approval)
        .transpose()
}

/// One approval, locked.
pub(super) async fn locked(connection: &mut PgConnection, id: ApprovalId) -> Result<Option<Approval>, StoreError> {
    one(sqlx::query_as::<_, ApprovalRow>(concat!("select ", columns!(), " from approvals where id = $1 for update"))
        .bind(id.to_string())
        .fetch_optional(connection)
        .await)
}

fn one(row: Result<Option<ApprovalRow>, sqlx::Error>) -> Result<Option<Approval>, StoreError> {
    row.map_err(store_error)?.map(ApprovalRow::into_approval).transpose()
}

/// Approvals that match, newest first.
///
/// The statement is not kept prepared: so it is planned each time for the parameters it has, and what is null drops
/// out of the plan.
pub(super) async fn list(
    readers: &PgPool,
    filter: &ApprovalFilter,
    before: Option<ApprovalId>,
    limit: u32,
) -> Result<Vec<Approval>, StoreError> {
    let ApprovalFilter { state, agent, run, batch, unsettled, visible_to } = filter;
    sqlx::query_as::<_, ApprovalRow>(concat!(
        "select ",
        columns!(),
        " from approvals
          where ($1::text is null or state = $1)
              and ($2::text is null or agent = $2)
              and ($3::text is null or run_id = $3)
              and (not $4 or unsettled)
              and (
                  $5::text[] is null
                  or agent = any($6)
                  or not exists (select from approval_groups where approval_id = approvals.id)
                  or exists (
                      select from approval_groups
                      where approval_id = approvals.id and name = any($5) and visible_from <= $7
                  )
              )
              and ($8::text is null or id < $8)
              and ($10::text is null or batch_id = $10)
          order by id desc limit $9"
    ))
    .persistent(false)
    .bind(state.map(|state| state.as_str()))
    .bind(agent.as_ref().map(|agent| agent.as_str()))
    .bind(run.as_ref().map(|run| run.as_str()))
    .bind(unsettled)
    .bind(visible_to.as_ref().map(|onlooker| onlooker.groups.iter().map(String::as_str).collect::<Vec<_>>()))
    .bind(visible_to.as_ref().map(|onlooker| onlooker.agents.iter().map(String::as_str).collect::<Vec<_>>()))
    .bind(visible_to.as_ref().map(|onlooker| onlooker.now.as_micros()))
    .bind(before.map(|before| before.to_string()))
    .bind(rows::limit(limit))
    .bind(batch.map(|batch| batch.to_string()))
    .fetch_all(readers)
    .await
    .map_err(read_error)?
    .into_iter()
    .map(ApprovalRow::into_approval)
    .collect()
}

/// Open approvals of the same agent, tool and arguments, newest first.
pub(super) async fn open_twins(
    readers: &PgPool,
    agent: &AgentId,
    tool: &str,
    args_hash: ArgsHash,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<Approval>, StoreError> {
    sqlx::query_as::<_, ApprovalRow>(concat!(
        "select ",
        columns!(),
        " from approvals
          where state in ('pending', 'approved') and agent = $1 and tool = $2 and args_hash = $3 and expires_at > $4
          order by id desc limit $5"
    ))
    .bind(agent.as_str())
    .bind(tool)
    .bind(args_hash.as_bytes().as_slice())
    .bind(now.as_micros())
    .bind(rows::limit(limit))
    .fetch_all(readers)
    .await
    .map_err(read_error)?
    .into_iter()
    .map(ApprovalRow::into_approval)
    .collect()
}

/// The newest decided approval of the same agent and tool among the latest before this one.
pub(super) async fn last_decided(
    readers: &PgPool,
    agent: &AgentId,
    tool: &str,
    before: ApprovalId,
) -> Result<Option<Approval>, StoreError> {
    one(sqlx::query_as::<_, ApprovalRow>(concat!(
        "select ",
        columns!(),
        " from (select * from approvals where id < $3 order by id desc limit $4) as latest
          where agent = $1 and tool = $2 and state in ('approved', 'denied', 'executed')
          order by id desc limit 1"
    ))
    .bind(agent.as_str())
    .bind(tool)
    .bind(before.to_string())
    .bind(rows::limit(LATEST_LOOKED_AT))
    .fetch_optional(readers)
    .await)
}

/// Approvals whose deadline has passed, the longest overdue first.
pub(super) async fn due(readers: &PgPool, now: Timestamp, limit: u32) -> Result<Vec<ApprovalId>, StoreError> {
    let ids: Vec<String> =
        sqlx::query_scalar("select id from approvals where next_deadline <= $1 order by next_deadline limit $2")
            .bind(now.as_micros())
            .bind(rows::limit(limit))
            .fetch_all(readers)
            .await
            .map_err(read_error)?;
    ids.iter().map(|id| rows::approval_id(id)).collect()
}

/// The approval that holds this call, locked.
pub(super) async fn held(connection: &mut PgConnection, call: &CallKey) -> Result<Option<Approval>, StoreError> {
    one(sqlx::query_as::<_, ApprovalRow>(concat!(
        "select ",
        columns!(),
        " from approvals where id = (
             select approval_id from held_calls
             where agent = $1 and run_id = $2 and turn = $3 and tool_use_id = $4
         ) for update"
    ))
    .bind(call.agent.as_str())
    .bind(call.run.as_str())
    .bind(i64::from(call.turn))
    .bind(call.tool_use_id.as_str())
    .fetch_optional(connection)
    .await)
}

/// The newest open approval of the same run, tool and arguments, locked.
pub(super) async fn open_alike(
    connection: &mut PgConnection,
    agent: &AgentId,
    run: &RunId,
    tool: &str,
    args_hash: ArgsHash,
) -> Result<Option<Approval>, StoreError> {
    one(sqlx::query_as::<_, ApprovalRow>(concat!(
        "select ",
        columns!(),
        " from approvals
          where state in ('pending', 'approved') and agent = $1 and run_id = $2 and tool = $3 and args_hash = $4
          order by id desc limit 1 for update"
    ))
    .bind(agent.as_str())
    .bind(run.as_str())
    .bind(tool)
    .bind(args_hash.as_bytes().as_slice())
    .fetch_optional(connection)
    .await)
}

/// The open approvals of these runs, locked.
pub(super) async fn open_of_runs(connection: &mut PgConnection, runs: &[RunKey]) -> Result<Vec<Approval>, StoreError> {
    let agents: Vec<&str> = runs.iter().map(|run| run.agent.as_str()).collect();
    let names: Vec<&str> = runs.iter().map(|run| run.run.as_str()).collect();
    sqlx::query_as::<_, ApprovalRow>(concat!(
        "select ",
        columns!(),
        " from approvals
          where state in ('pending', 'approved') and (agent, run_id) in (select * from unnest($1::text[], $2::text[]))
          order by id for update"
    ))
    .bind(agents)
    .bind(names)
    .fetch_all(connection)
    .await
    .map_err(store_error)?
    .into_iter()
    .map(ApprovalRow::into_approval)
    .collect()
}

/// The open approvals of an agent's runs, and of those below, locked.
pub(super) async fn open_under_agent(
    connection: &mut PgConnection,
    agent: &AgentId,
) -> Result<Vec<Approval>, StoreError> {
    sqlx::query_as::<_, ApprovalRow>(concat!(
        "select ",
        columns!(),
        " from approvals
          where state in ('pending', 'approved') and (
             agent = $1
             or exists (
                 select from runs
                 where runs.agent = approvals.agent and runs.run_id = approvals.run_id
                     and runs.ancestors::jsonb @> jsonb_build_array(jsonb_build_object('agent', $1::text))
             )
         )
         order by id for update"
    ))
    .bind(agent.as_str())
    .fetch_all(connection)
    .await
    .map_err(store_error)?
    .into_iter()
    .map(ApprovalRow::into_approval)
    .collect()
}

/// The newest denial of the same call by a person, not lifted.
pub(super) async fn standing_denial(
    connection: &mut PgConnection,
    agent: &AgentId,
    run: &RunId,
    tool: &str,
    args_hash: ArgsHash,
) -> Result<Option<StandingDenial>, StoreError> {
    sqlx::query_as::<_, DenialRow>(
        "select id, state_data from approvals
         where denied_by_person and not lifted and agent = $1 and run_id = $2 and tool = $3 and args_hash = $4
         order by id desc limit 1",
    )
    .bind(agent.as_str())
    .bind(run.as_str())
    .bind(tool)
    .bind(args_hash.as_bytes().as_slice())
    .fetch_optional(connection)
    .await
    .map_err(store_error)?
    .map(DenialRow::into_denial)
    .transpose()
}

/// Pending and not expired: of the run, and of the agent.
pub(super) async fn open_counts(
    connection: &mut PgConnection,
    agent: &AgentId,
    run: &RunId,
    now: Timestamp,
) -> Result<(u32, u32), StoreError> {
    let (of_run, of_agent): (i64, i64) = sqlx::query_as(
        "select count(*) filter (where run_id = $2), count(*) from approvals
         where state in ('pending', 'approved') and state = 'pending' and agent = $1 and expires_at > $3",
    )
    .bind(agent.as_str())
    .bind(run.as_str())
    .bind(now.as_micros())
    .fetch_one(connection)
    .await
    .map_err(store_error)?;
    Ok((count(of_run)?, count(of_agent)?))
}

fn count(count: i64) -> Result<u32, StoreError> {
    u32::try_from(count).map_err(|_| rows::unreadable("count"))
}

/// Denied by people: of this tool in this run.
pub(super) async fn refused_count(
    connection: &mut PgConnection,
    agent: &AgentId,
    run: &RunId,
    tool: &str,
) -> Result<u32, StoreError> {
    let refused: i64 = sqlx::query_scalar(
        "select count(*) from approvals where denied_by_person and agent = $1 and run_id = $2 and tool = $3",
    )
    .bind(agent.as_str())
    .bind(run.as_str())
    .bind(tool)
    .fetch_one(connection)
    .await
    .map_err(store_error)?;
    count(refused)
}

/// Stores a new approval with the groups it names; `false` when its code is taken.
pub(super) async fn insert(connection: &mut PgConnection, approval: &Approval) -> Result<bool, StoreError> {
    let columns = StateColumns::of(approval)?;
    let id = approval.id.to_string();
    let inserted = sqlx::query(
        "insert into approvals (
             id, code, agent, run_id, turn, tool_use_id, tool, args_hash, payload_digest, decision_id, policy_version,
             asked_by, reason, requirement, attempt, created_at, expires_at, state, state_data, next_deadline,
             denied_by_person, lifted, unsettled, batch_id, review_digest, review_hash
         ) values (
             $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
             $25, $26
         ) on conflict on constraint approvals_code_key do nothing",
    )
    .bind(&id)
    .bind(approval.code.as_str())
    .bind(approval.call.agent.as_str())
    .bind(approval.call.run.as_str())
    .bind(i64::from(approval.call.turn))
    .bind(approval.call.tool_use_id.as_str())
    .bind(&approval.tool)
    .bind(approval.args_hash.as_bytes().as_slice())
    .bind(approval.payload.as_bytes().as_slice())
    .bind(approval.decision.to_string())
    .bind(approval.policy_version.as_str())
    .bind(rows::to_json(&approval.asked_by)?)
    .bind(&approval.reason)
    .bind(rows::to_json(&approval.requirement)?)
    .bind(i64::from(approval.attempt))
    .bind(approval.created_at.as_micros())
    .bind(approval.expires_at.as_micros())
    .bind(columns.state)
    .bind(columns.state_data)
    .bind(columns.next_deadline)
    .bind(columns.denied_by_person)
    .bind(columns.lifted)
    .bind(columns.unsettled)
    .bind(approval.batch.map(|batch| batch.to_string()))
    .bind(approval.review.as_ref().map(|review| review.payload.as_bytes().as_slice()))
    .bind(approval.review.as_ref().map(|review| review.hash.as_bytes().as_slice()))
    .execute(&mut *connection)
    .await
    .map_err(store_error)?;
    if inserted.rows_affected() == 0 {
        return Ok(false);
    }
    let (groups, visible_from) = rows::onlookers(approval);
    sqlx::query(
        "insert into approval_groups (approval_id, name, visible_from)
         select $1, name, visible_from from unnest($2::text[], $3::bigint[]) as onlooker (name, visible_from)",
    )
    .bind(&id)
    .bind(groups)
    .bind(visible_from)
    .execute(connection)
    .await
    .map_err(store_error)?;
    Ok(true)
}

/// Stores the new state of an approval.
pub(super) async fn update(connection: &mut PgConnection, approval: &Approval) -> Result<(), StoreError> {
    let columns = StateColumns::of(approval)?;
    sqlx::query(
        "update approvals set state = $2, state_data = $3, next_deadline = $4, denied_by_person = $5, lifted = $6,
             unsettled = $7
         where id = $1",
    )
    .bind(approval.id.to_string())
    .bind(columns.state)
    .bind(columns.state_data)
    .bind(columns.next_deadline)
    .bind(columns.denied_by_person)
    .bind(columns.lifted)
    .bind(columns.unsettled)
    .execute(connection)
    .await
    .map_err(store_error)?;
    Ok(())
}

/// Lets `call` be held by `approval`, whatever held it before.
pub(super) async fn attach(
    connection: &mut PgConnection,
    call: &CallKey,
    approval: ApprovalId,
) -> Result<(), StoreError> {
    sqlx::query(
        "insert into held_calls (agent, run_id, turn, tool_use_id, approval_id) values ($1, $2, $3, $4, $5)
         on conflict (agent, run_id, turn, tool_use_id) do update set approval_id = excluded.approval_id",
    )
    .bind(call.agent.as_str())
    .bind(call.run.as_str())
    .bind(i64::from(call.turn))
    .bind(call.tool_use_id.as_str())
    .bind(approval.to_string())
    .execute(connection)
    .await
    .map_err(store_error)?;
    Ok(())
}

/// The calls that `approval` holds.
pub(super) async fn attached(connection: &mut PgConnection, approval: ApprovalId) -> Result<Vec<CallKey>, StoreError> {
    sqlx::query_as::<_, CallKeyRow>(
        "select agent, run_id, turn, tool_use_id from held_calls where approval_id = $1
         order by agent, run_id, turn, tool_use_id",
    )
    .bind(approval.to_string())
    .fetch_all(connection)
    .await
    .map_err(store_error)?
    .into_iter()
    .map(CallKeyRow::into_key)
    .collect()
}
