//! Changes: what one instance commits wakes those who wait at any.

use std::time::Duration;

use countersign::{app::ports::Change, storage::Engine};
use tokio::time::timeout;

use crate::support::{
    sample::{approval, bare_entry},
    store::{TestStore, next_known},
};

/// So long and no longer: a change that does not come fails the test.
const PATIENCE: Duration = Duration::from_secs(10);

super::on_both_engines! {
    a_commit_announces_its_changes_in_order,
    every_subscriber_hears_of_a_change,
    another_instance_hears_of_a_change,
}

async fn a_commit_announces_its_changes_in_order(test: TestStore) {
    let id = approval().id;
    let mut changes = test.store().changes();
    test.commit(async |tx| {
        tx.announce(Change::Approval(id));
        tx.announce(Change::Keys);
        tx.announce(Change::Policy);
        tx.append(bare_entry());
    })
    .await;
    for expected in [Change::Approval(id), Change::Keys, Change::Policy] {
        assert_eq!(timeout(PATIENCE, next_known(&mut changes)).await.unwrap(), expected);
    }
}

async fn every_subscriber_hears_of_a_change(test: TestStore) {
    let (mut first, mut second) = (test.store().changes(), test.store().changes());
    test.commit(async |tx| tx.announce(Change::Keys)).await;
    assert_eq!(timeout(PATIENCE, next_known(&mut first)).await.unwrap(), Change::Keys);
    assert_eq!(timeout(PATIENCE, next_known(&mut second)).await.unwrap(), Change::Keys);
}

async fn another_instance_hears_of_a_change(test: TestStore) {
    let id = approval().id;
    let other = test.of_another_instance().await;
    let mut changes = other.changes();
    test.commit(async |tx| {
        tx.announce(Change::Approval(id));
        tx.append(bare_entry());
    })
    .await;
    let heard = timeout(PATIENCE, changes.recv()).await.unwrap().unwrap();
    match test.engine() {
        Engine::Postgres => assert_eq!(heard, Change::Approval(id)),
        // Another process's file: that something changed is all there is to know.
        Engine::Sqlite => assert_eq!(heard, Change::Unknown),
    }
}
