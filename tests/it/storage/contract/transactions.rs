//! Transactions: all or nothing, whatever becomes of the future that runs one.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

use countersign::{
    app::ports::Change,
    domain::{
        audit::chain::{self, Head},
        run::RunKey,
    },
};

use crate::support::{
    sample::{approval, args_hash, bare_entry, decision_entry, guard, payload},
    store::TestStore,
};

super::on_both_engines! {
    a_new_database_is_not_ready_before_its_migrations,
    a_transaction_that_is_dropped_leaves_nothing,
    a_transaction_that_does_nothing_can_be_committed,
    readers_see_what_is_committed_and_do_not_wait_for_writers,
    futures_dropped_half_way_leave_the_store_whole,
}

async fn a_new_database_is_not_ready_before_its_migrations(test: TestStore) {
    let connected = test.connected();
    assert_eq!(connected.pending_migrations().await, Ok(0));
    assert_eq!(test.store().ready().await, Ok(()));
    let all = std::fs::read_dir("migrations/sqlite").unwrap().count();
    connected.migrate().await.unwrap();
    test.execute("delete from _sqlx_migrations").await.unwrap();
    assert_eq!(connected.pending_migrations().await, Ok(all));
    test.store().ready().await.unwrap_err();
    test.execute("drop table _sqlx_migrations").await.unwrap();
    assert_eq!(connected.pending_migrations().await, Ok(all));
    test.store().ready().await.unwrap_err();
}

async fn a_transaction_that_is_dropped_leaves_nothing(test: TestStore) {
    let (new, kept) = (approval(), payload());
    let mut changes = test.store().changes();
    let mut tx = test.store().begin().await.unwrap();
    tx.insert_payload(&kept).await.unwrap();
    assert!(tx.insert_approval(&new).await.unwrap());
    tx.attach_call(&new.call, new.id).await.unwrap();
    tx.append(bare_entry());
    tx.announce(Change::Approval(new.id));
    drop(tx);
    let store = test.store();
    assert_eq!(store.approval(new.id).await, Ok(None));
    assert_eq!(store.payload(kept.digest()).await, Ok(None));
    test.commit(async |tx| {
        assert_eq!(tx.held(&new.call).await, Ok(None));
        tx.announce(Change::Keys);
    })
    .await;
    assert_eq!(test.checked_log().await, []);
    assert_eq!(changes.recv().await, Ok(Change::Keys));
}

async fn a_transaction_that_does_nothing_can_be_committed(test: TestStore) {
    test.store().begin().await.unwrap().commit().await.unwrap();
    assert_eq!(test.store().head().await, Ok(Head::EMPTY));
}

async fn readers_see_what_is_committed_and_do_not_wait_for_writers(test: TestStore) {
    let new = approval();
    let store = test.store();
    let mut tx = store.begin().await.unwrap();
    assert!(tx.insert_approval(&new).await.unwrap());
    tx.append(bare_entry());
    assert_eq!(store.approval(new.id).await, Ok(None));
    assert_eq!(store.head().await, Ok(Head::EMPTY));
    tx.commit().await.unwrap();
    assert_eq!(store.approval(new.id).await, Ok(Some(new)));
    assert_eq!(store.head().await.unwrap().seq, 1);
}

/// Polls `future` so many times, with the engine's answers in between, and drops it. Whether it finished.
async fn dropped_after(polls: usize, future: impl Future) -> bool {
    let mut future = pin!(future);
    for _ in 0..polls {
        if poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

async fn futures_dropped_half_way_leave_the_store_whole(test: TestStore) {
    let store = test.store();
    for polls in 0..60 {
        let transaction = async {
            let new = approval();
            let mut tx = store.begin().await.unwrap();
            tx.lock_agent(&new.call.agent).await.unwrap();
            tx.lock_run(&RunKey::of(&new.call)).await.unwrap();
            assert!(tx.insert_approval(&new).await.unwrap());
            tx.attach_call(&new.call, new.id).await.unwrap();
            tx.append(bare_entry());
            tx.append(bare_entry());
            tx.commit().await.unwrap();
        };
        dropped_after(polls, transaction).await;
        let group = async {
            let head = store.head().await.unwrap();
            let entry = decision_entry();
            let guard = guard(entry.call.as_ref().unwrap(), args_hash(1));
            let (sealed, _) = chain::seal(head, entry).unwrap();
            store.append_decisions(head, &[sealed], &[&payload()], &[&guard]).await.unwrap();
        };
        dropped_after(polls, group).await;
    }
    let before = test.checked_log().await.len();
    test.append([bare_entry()]).await;
    let after = test.checked_log().await.len();
    assert!(after > before);
}
