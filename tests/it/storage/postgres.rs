//! What only a server does: lock rows, break connections, notice deadlocks.

use std::time::Duration;

use countersign::{
    app::ports::{AgentStanding, Change, GroupAppend, SharedStore, StoreError},
    domain::audit::chain,
    storage::{self, ConnectOptions},
};
use sqlx::{Connection, PgConnection};
use tokio::time::timeout;

use crate::support::{
    sample::{agent, approval, args_hash, bare_entry, decision_entry, guard},
    store::{TestStore, next_known, on_postgres},
};

/// Waits until another session of this schema waits for a lock.
async fn somebody_waits_for_a_lock(connection: &mut PgConnection) {
    while !sqlx::query_scalar::<_, bool>(
        "select exists (
             select from pg_stat_activity as waiting
             where pg_backend_pid() = any(pg_blocking_pids(waiting.pid))
         )",
    )
    .fetch_one(&mut *connection)
    .await
    .unwrap()
    {}
}

/// The guards' snapshot is older than the lock: what was committed in between must show.
#[tokio::test]
async fn a_group_that_waited_while_its_call_was_held_writes_nothing() {
    on_postgres(async |test: TestStore| {
        test.append([bare_entry()]).await;
        let held = approval();
        let head = test.store().head().await.unwrap();
        let (sealed, next) = chain::seal(head, bare_entry()).unwrap();

        let mut other = PgConnection::connect(test.url()).await.unwrap();
        let mut tx = other.begin().await.unwrap();
        sqlx::query("select seq from audit_head for update").execute(&mut *tx).await.unwrap();

        let store = test.store();
        let held_call = held.call.clone();
        let group = tokio::spawn(async move {
            let (decision, _) = chain::seal(head, decision_entry()).unwrap();
            store.append_decisions(head, &[decision], &[], &[&guard(&held_call, args_hash(1))]).await
        });
        somebody_waits_for_a_lock(&mut tx).await;

        for statement in
            ["insert into approvals values ('apr_x', 'AP-0000-00', 'a', 'r', 0, 't', 't', '', '', 'd', 'v', '[]', '',
                 '{}', 1, 0, 0, 'pending', '{}', null, false, false, false)"]
        {
            sqlx::query(statement).execute(&mut *tx).await.unwrap();
        }
        sqlx::query("insert into held_calls values ($1, $2, $3, $4, 'apr_x')")
            .bind(held.call.agent.as_str())
            .bind(held.call.run.as_str())
            .bind(i64::from(held.call.turn))
            .bind(held.call.tool_use_id.as_str())
            .execute(&mut *tx)
            .await
            .unwrap();
        sqlx::query(
            "insert into audit_entries (seq, event, at, actor, actor_via, detail, leaf, chain)
             values ($1, 'configuration.loaded', $2, 'countersign', 'service', '{}', $3, $4)",
        )
        .bind(sealed.seq)
        .bind(sealed.entry.at.as_micros())
        .bind(sealed.leaf)
        .bind(sealed.chain)
        .execute(&mut *tx)
        .await
        .unwrap();
        sqlx::query("update audit_head set seq = $1, chain = $2")
            .bind(next.seq)
            .bind(next.chain)
            .execute(&mut *tx)
            .await
            .unwrap();
        tx.commit().await.unwrap();

        assert_eq!(group.await.unwrap(), Ok(GroupAppend::HeadMoved));
        let (decision, _) = chain::seal(next, decision_entry()).unwrap();
        let guard = guard(&held.call, args_hash(1));
        let again = test.store().append_decisions(next, &[decision], &[], &[&guard]).await;
        assert_eq!(again, Ok(GroupAppend::Guarded(vec![0])));
        assert_eq!(test.checked_log().await.len(), 2);
    })
    .await;
}

#[tokio::test]
async fn of_two_transactions_in_a_deadlock_one_is_contended() {
    on_postgres(async |test: TestStore| {
        let store = test.store();
        let (a, b) = (agent("a"), agent("b"));
        let (mut first, mut second) = (store.begin().await.unwrap(), store.begin().await.unwrap());
        first.lock_agent(&a).await.unwrap();
        second.lock_agent(&b).await.unwrap();
        let one = async {
            let locked = first.lock_agent(&b).await;
            drop(first);
            locked
        };
        let other = async {
            let locked = second.lock_agent(&a).await;
            drop(second);
            locked
        };
        let (one, other) = tokio::join!(one, other);
        let (lost, won) = if one.is_err() { (one, other) } else { (other, one) };
        assert!(matches!(lost, Err(StoreError::Contended(_))), "{lost:?}");
        assert_eq!(won, Ok(AgentStanding { paused: false }));
    })
    .await;
}

/// Ends every session of this schema's store that has touched one of its tables in an open transaction.
async fn break_transactions(test: &TestStore) {
    test.execute(
        "select pg_terminate_backend(held.pid, 5000) from pg_locks as held
         join pg_class as touched on touched.oid = held.relation
         where touched.relnamespace = (select oid from pg_namespace where nspname = current_schema())
             and held.pid <> pg_backend_pid()",
    )
    .await
    .unwrap();
}

#[tokio::test]
async fn a_connection_lost_before_the_commit_is_contended_and_the_next_one_works() {
    on_postgres(async |test: TestStore| {
        let mut tx = test.store().begin().await.unwrap();
        assert!(tx.insert_approval(&approval()).await.unwrap());
        tx.append(bare_entry());
        break_transactions(&test).await;
        assert!(matches!(tx.commit().await, Err(StoreError::Contended(_))));
        test.append([bare_entry()]).await;
        assert_eq!(test.checked_log().await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_group_on_a_lost_connection_has_an_unknown_fate_and_the_next_one_works() {
    on_postgres(async |test: TestStore| {
        let append = async |store: SharedStore| {
            let head = store.head().await.unwrap();
            let (sealed, _) = chain::seal(head, decision_entry()).unwrap();
            store.append_decisions(head, &[sealed], &[], &[]).await
        };
        assert_eq!(append(test.store()).await, Ok(GroupAppend::Written));

        let mut other = PgConnection::connect(test.url()).await.unwrap();
        let mut tx = other.begin().await.unwrap();
        sqlx::query("select seq from audit_head for update").execute(&mut *tx).await.unwrap();
        let waits = async {
            somebody_waits_for_a_lock(&mut tx).await;
            sqlx::query(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity
                 where pg_backend_pid() = any(pg_blocking_pids(pid))",
            )
            .execute(&mut *tx)
            .await
            .unwrap();
        };
        let (appended, ()) = tokio::join!(append(test.store()), waits);
        assert!(matches!(appended, Err(StoreError::CommitUnknown(_))), "{appended:?}");
        tx.rollback().await.unwrap();

        assert_eq!(append(test.store()).await, Ok(GroupAppend::Written));
        assert_eq!(test.checked_log().await.len(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_transaction_in_which_something_failed_cannot_seem_committed() {
    on_postgres(async |test: TestStore| {
        let mut tx = test.store().begin().await.unwrap();
        // No such approval: the reference fails.
        tx.attach_call(&approval().call, approval().id).await.unwrap_err();
        tx.commit().await.unwrap_err();
    })
    .await;
}

#[tokio::test]
async fn a_lost_listener_wakes_everybody_and_listens_again() {
    on_postgres(async |test: TestStore| {
        let patience = Duration::from_secs(10);
        let mut changes = test.store().changes();
        test.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity
             where query = 'LISTEN \"countersign_'
                 || (select oid from pg_namespace where nspname = current_schema()) || '\"'",
        )
        .await
        .unwrap();
        assert_eq!(timeout(patience, changes.recv()).await.unwrap(), Ok(Change::Unknown));
        // After the second one it listens again.
        assert_eq!(timeout(patience, changes.recv()).await.unwrap(), Ok(Change::Unknown));
        test.commit(async |tx| tx.announce(Change::Keys)).await;
        assert_eq!(timeout(patience, next_known(&mut changes)).await.unwrap(), Change::Keys);
    })
    .await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let options = ConnectOptions { max_connections: 2 };
    let refused = storage::connect("postgres://nobody:secret@127.0.0.1:1/none", options).await.map(drop);
    let Err(StoreError::Unavailable(reason)) = refused else { panic!("{refused:?}") };
    assert!(!reason.contains("secret"), "{reason}");
}
