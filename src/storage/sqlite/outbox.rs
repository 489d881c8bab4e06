//! The outbox: messages that wait, where they go, and where they were posted.

use sqlx::{SqliteConnection, SqlitePool};

use super::errors::store_error;
use crate::{
    app::ports::{DestinationStanding, NoticeEnding, OutboxCount, StoreError},
    domain::{
        channel::Destination,
        identity::ReviewerName,
        ids::{ApprovalId, NoticeId},
        notice::{Notice, QueuedNotice, Topic},
        run::RunKey,
        time::Timestamp,
    },
    storage::rows::{self, NoticeRow, StandingRow},
};

macro_rules! columns {
    () => {
        "id, destination, recipient, event, approval_id, agent, run_id, data, at, not_before, instead_of, passed_on, \
         attempts, failed, case when state = 'dead' then finished_at end as dead_since"
    };
}

/// The events that ask for a decision, as [`NoticeEvent::asks`](crate::domain::notice::NoticeEvent::asks) has them.
macro_rules! asking {
    () => {
        "('approval.requested', 'approval.reminder', 'approval.escalated')"
    };
}

/// Writes messages. What a channel was told instead of another already is not written again.
pub(super) async fn insert(connection: &mut SqliteConnection, notices: &[Notice]) -> Result<(), StoreError> {
    for notice in notices {
        let (approval, run) = match &notice.topic {
            Topic::Approval(id) => (Some(id.to_string()), None),
            Topic::Run(run) => (None, Some(run)),
        };
        sqlx::query(
            "insert into outbox (
                 id, destination, recipient, event, approval_id, agent, run_id, data, at, not_before, instead_of
             ) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
             on conflict (approval_id, destination, coalesce(recipient, ''), event, at) where instead_of is not null
                 do nothing",
        )
        .bind(notice.id.to_string())
        .bind(notice.to.to_string())
        .bind(notice.recipient.as_ref().map(|name| name.as_str()))
        .bind(notice.event.as_str())
        .bind(approval)
        .bind(run.map(|run| run.agent.as_str()))
        .bind(run.map(|run| run.run.as_str()))
        .bind(notice.data.to_string())
        .bind(notice.at.as_micros())
        .bind(notice.not_before.as_micros())
        .bind(notice.instead_of.map(|id| id.to_string()))
        .execute(&mut *connection)
        .await
        .map_err(store_error)?;
    }
    Ok(())
}

/// Takes a destination for the holder of `lease`, when nobody has it and it asked for no patience.
pub(super) async fn lease(
    connection: &mut SqliteConnection,
    to: &Destination,
    lease: &str,
    now: Timestamp,
    until: Timestamp,
) -> Result<Option<DestinationStanding>, StoreError> {
    sqlx::query_as::<_, StandingRow>(
        "insert into destinations (name, lease, leased_until) values ($1, $2, $4)
         on conflict (name) do update set lease = excluded.lease, leased_until = excluded.leased_until
             where (destinations.leased_until <= $3 or destinations.lease = excluded.lease)
                 and destinations.not_before <= $3
         returning name, not_before, tried_at, failing_since, disabled_at, disabled_why",
    )
    .bind(to.to_string())
    .bind(lease)
    .bind(now.as_micros())
    .bind(until.as_micros())
    .fetch_optional(connection)
    .await
    .map_err(store_error)?
    .map(|row| row.into_standing().map(|(_, standing)| standing))
    .transpose()
}

/// Gives a destination back, unless somebody else has taken it meanwhile.
pub(super) async fn release(
    connection: &mut SqliteConnection,
    to: &Destination,
    lease: &str,
    standing: &DestinationStanding,
) -> Result<(), StoreError> {
    sqlx::query(
        "update destinations set lease = null, leased_until = 0, not_before = $3, tried_at = $4,
             failing_since = $5, disabled_at = $6, disabled_why = $7
         where name = $1 and lease = $2",
    )
    .bind(to.to_string())
    .bind(lease)
    .bind(standing.not_before.as_micros())
    .bind(standing.tried_at.map(Timestamp::as_micros))
    .bind(standing.failing_since.map(Timestamp::as_micros))
    .bind(standing.disabled.as_ref().map(|(at, _)| at.as_micros()))
    .bind(standing.disabled.as_ref().map(|(_, why)| why.as_str()))
    .execute(connection)
    .await
    .map_err(store_error)?;
    Ok(())
}

/// Lets a destination be tried again; `false` when nothing kept it from that.
pub(super) async fn enable(connection: &mut SqliteConnection, to: &Destination) -> Result<bool, StoreError> {
    let enabled = sqlx::query(
        "update destinations set disabled_at = null, disabled_why = null, failing_since = null, not_before = 0
         where name = $1 and disabled_at is not null",
    )
    .bind(to.to_string())
    .execute(connection)
    .await
    .map_err(store_error)?;
    Ok(enabled.rows_affected() > 0)
}

/// Ends messages that wait.
pub(super) async fn finish(
    connection: &mut SqliteConnection,
    ids: &[NoticeId],
    ending: NoticeEnding,
    now: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query(
        "update outbox set state = $2, finished_at = $3
         where id in (select value from json_each($1)) and state = 'waiting'",
    )
    .bind(rows::to_json(&ids)?)
    .bind(ending.as_str())
    .bind(now.as_micros())
    .execute(connection)
    .await
    .map_err(store_error)?;
    Ok(())
}

/// Keeps what became of a message that was tried in vain.
pub(super) async fn update(connection: &mut SqliteConnection, queued: &QueuedNotice) -> Result<(), StoreError> {
    sqlx::query(
        "update outbox set attempts = $2, failed = $3, not_before = $4, data = $6,
             state = case when $5 is null then 'waiting' else 'dead' end, finished_at = $5
         where id = $1 and state = 'waiting'",
    )
    .bind(queued.notice.id.to_string())
    .bind(i32::try_from(queued.attempts).unwrap_or(i32::MAX))
    .bind(rows::to_json(&queued.failed)?)
    .bind(queued.notice.not_before.as_micros())
    .bind(queued.dead_since.map(Timestamp::as_micros))
    .bind(queued.notice.data.to_string())
    .execute(connection)
    .await
    .map_err(store_error)?;
    Ok(())
}

/// Marks that another channel is told instead; `false` when it was marked before.
pub(super) async fn pass_on(connection: &mut SqliteConnection, id: NoticeId) -> Result<bool, StoreError> {
    let marked = sqlx::query("update outbox set passed_on = 1 where id = $1 and not passed_on")
        .bind(id.to_string())
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(marked.rows_affected() > 0)
}

/// Lets a message that was given up wait again; `false` when it was not.
pub(super) async fn replay(
    connection: &mut SqliteConnection,
    id: NoticeId,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let replayed = sqlx::query(
        "update outbox set state = 'waiting', attempts = 0, not_before = $2, finished_at = null
         where id = $1 and state = 'dead'",
    )
    .bind(id.to_string())
    .bind(now.as_micros())
    .execute(connection)
    .await
    .map_err(store_error)?;
    Ok(replayed.rows_affected() > 0)
}

/// Forgets messages that ended before this, and where they stand; how many messages.
pub(super) async fn forget(connection: &mut SqliteConnection, before: Timestamp) -> Result<u64, StoreError> {
    sqlx::query("delete from postings where posted_at < $1")
        .bind(before.as_micros())
        .execute(&mut *connection)
        .await
        .map_err(store_error)?;
    let forgotten = sqlx::query("delete from outbox where state <> 'waiting' and finished_at < $1")
        .bind(before.as_micros())
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(forgotten.rows_affected())
}

/// Keeps where an approval was posted.
pub(super) async fn put_posting(
    connection: &mut SqliteConnection,
    approval: ApprovalId,
    to: &Destination,
    place: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query(
        "insert into postings (approval_id, destination, place, posted_at) values ($1, $2, $3, $4)
         on conflict (approval_id, destination) do update set
             place = excluded.place, posted_at = excluded.posted_at",
    )
    .bind(approval.to_string())
    .bind(to.to_string())
    .bind(place)
    .bind(now.as_micros())
    .execute(connection)
    .await
    .map_err(store_error)?;
    Ok(())
}

/// Who was shown an approval, or is told of it instead of another channel.
pub(super) async fn told_of(
    connection: &mut SqliteConnection,
    approval: ApprovalId,
) -> Result<Vec<(Destination, Option<ReviewerName>)>, StoreError> {
    sqlx::query_as::<_, (String, Option<String>)>(
        "select destination, null as recipient from postings where approval_id = $1
         union select destination, recipient from outbox where approval_id = $1 and instead_of is not null
         order by 1, 2",
    )
    .bind(approval.to_string())
    .fetch_all(connection)
    .await
    .map_err(store_error)?
    .into_iter()
    .map(rows::told)
    .collect()
}

/// Where messages are due.
pub(super) async fn due(readers: &SqlitePool, now: Timestamp) -> Result<Vec<Destination>, StoreError> {
    sqlx::query_scalar::<_, String>(
        "select distinct destination from outbox where state = 'waiting' and not_before <= $1 order by destination",
    )
    .bind(now.as_micros())
    .fetch_all(readers)
    .await
    .map_err(store_error)?
    .iter()
    .map(|text| rows::destination(text))
    .collect()
}

/// The messages that are due at a destination: those that ask for a decision first, then those that were tried less
/// often, then the oldest.
pub(super) async fn waiting(
    readers: &SqlitePool,
    to: &Destination,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<QueuedNotice>, StoreError> {
    sqlx::query_as::<_, NoticeRow>(concat!(
        "select ",
        columns!(),
        " from outbox where state = 'waiting' and destination = $1 and not_before <= $2 \
         order by case when event in ",
        asking!(),
        " then 0 else 1 end, attempts, seq limit $3"
    ))
    .bind(to.to_string())
    .bind(now.as_micros())
    .bind(rows::limit(limit))
    .fetch_all(readers)
    .await
    .map_err(store_error)?
    .into_iter()
    .map(NoticeRow::into_queued)
    .collect()
}

/// The messages that ask for a decision and wait since `since` or longer at destinations that have failed since `failing`
/// or longer, and of which no other channel was told.
pub(super) async fn to_pass_on(
    readers: &SqlitePool,
    failing: Timestamp,
    since: Timestamp,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<QueuedNotice>, StoreError> {
    sqlx::query_as::<_, NoticeRow>(concat!(
        "select ",
        columns!(),
        " from outbox where state = 'waiting' and not passed_on \
         and destination in (select name from destinations where failing_since <= $1) \
         and at <= $2 and (attempts > 0 or not_before <= $3) and event in ",
        asking!(),
        " order by seq limit $4"
    ))
    .bind(failing.as_micros())
    .bind(since.as_micros())
    .bind(now.as_micros())
    .bind(rows::limit(limit))
    .fetch_all(readers)
    .await
    .map_err(store_error)?
    .into_iter()
    .map(NoticeRow::into_queued)
    .collect()
}

/// The messages that were given up, the newest first.
pub(super) async fn dead(
    readers: &SqlitePool,
    before: Option<NoticeId>,
    limit: u32,
) -> Result<Vec<QueuedNotice>, StoreError> {
    sqlx::query_as::<_, NoticeRow>(concat!(
        "select ",
        columns!(),
        " from outbox where state = 'dead' and ($1 is null or seq < (select seq from outbox where id = $1)) \
         order by seq desc limit $2"
    ))
    .bind(before.map(|before| before.to_string()))
    .bind(rows::limit(limit))
    .fetch_all(readers)
    .await
    .map_err(store_error)?
    .into_iter()
    .map(NoticeRow::into_queued)
    .collect()
}

/// Every destination that was ever served.
pub(super) async fn standings(readers: &SqlitePool) -> Result<Vec<(Destination, DestinationStanding)>, StoreError> {
    sqlx::query_as::<_, StandingRow>(
        "select name, not_before, tried_at, failing_since, disabled_at, disabled_why from destinations order by name",
    )
    .fetch_all(readers)
    .await
    .map_err(store_error)?
    .into_iter()
    .map(StandingRow::into_standing)
    .collect()
}

/// How many messages are not delivered, by destination.
pub(super) async fn counts(readers: &SqlitePool, now: Timestamp) -> Result<Vec<OutboxCount>, StoreError> {
    let counted: Vec<(String, i64, i64, i64)> = sqlx::query_as(
        "select destination,
                count(*) filter (where state = 'waiting' and (attempts > 0 or not_before <= $1)),
                count(*) filter (where state = 'waiting' and attempts = 0 and not_before > $1),
                count(*) filter (where state = 'dead')
         from outbox where state in ('waiting', 'dead') group by destination order by destination",
    )
    .bind(now.as_micros())
    .fetch_all(readers)
    .await
    .map_err(store_error)?;
    counted.into_iter().map(rows::outbox_count).collect()
}

/// Where an approval was posted at a destination.
pub(super) async fn place(
    readers: &SqlitePool,
    approval: ApprovalId,
    to: &Destination,
) -> Result<Option<String>, StoreError> {
    sqlx::query_scalar("select place from postings where approval_id = $1 and destination = $2")
        .bind(approval.to_string())
        .bind(to.to_string())
        .fetch_optional(readers)
        .await
        .map_err(store_error)
}

/// The approvals that one message at a destination shows, the oldest first.
pub(super) async fn posted_at(
    readers: &SqlitePool,
    to: &Destination,
    place: &str,
) -> Result<Vec<ApprovalId>, StoreError> {
    sqlx::query_scalar::<_, String>(
        "select approval_id from postings where destination = $1 and place = $2 order by approval_id",
    )
    .bind(to.to_string())
    .bind(place)
    .fetch_all(readers)
    .await
    .map_err(store_error)?
    .iter()
    .map(|text| rows::approval_id(text))
    .collect()
}

/// What was last told of a run at a destination.
pub(super) async fn told_of_run(
    readers: &SqlitePool,
    to: &Destination,
    run: &RunKey,
) -> Result<Option<serde_json::Value>, StoreError> {
    sqlx::query_scalar::<_, String>(
        "select data from outbox
         where destination = $1 and agent = $2 and run_id = $3 and state = 'delivered' order by seq desc limit 1",
    )
    .bind(to.to_string())
    .bind(run.agent.as_str())
    .bind(run.run.as_str())
    .fetch_optional(readers)
    .await
    .map_err(store_error)?
    .map(|data| rows::notice_data(&data))
    .transpose()
}
