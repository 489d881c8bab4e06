//! Runs: what nobody declared is known too, and a family shares what it touched.

use countersign::domain::run::{Run, RunKey};

use crate::support::{
    sample::{agent, run},
    store::TestStore,
};

super::on_both_engines! {
    a_run_that_nobody_declared_is_known_once_it_is_locked,
    a_family_shares_its_labels,
    a_paused_agent_is_found_among_others,
}

fn key(name: &str) -> RunKey {
    RunKey { agent: agent("billing-bot"), run: run(name) }
}

async fn a_run_that_nobody_declared_is_known_once_it_is_locked(test: TestStore) {
    test.commit(async |tx| {
        assert_eq!(tx.lock_run(&key("r-1")).await, Ok(Run::new(key("r-1"))));
        assert_eq!(tx.lock_run(&key("r-1")).await, Ok(Run::new(key("r-1"))));
    })
    .await;
}

async fn a_family_shares_its_labels(test: TestStore) {
    let labels = ["private-data".to_owned(), "untrusted-content".to_owned()].into();
    test.commit(async |tx| {
        tx.lock_run(&key("r-head")).await.unwrap();
        tx.lock_run(&key("r-below")).await.unwrap();
    })
    .await;
    test.execute(
        "update runs set head_agent = agent, head_run = 'r-head', ancestors = '[{\"agent\":\"billing-bot\",\"run\":\"r-head\"}]'
         where run_id = 'r-below'",
    )
    .await
    .unwrap();
    test.commit(async |tx| {
        let below = tx.lock_run(&key("r-below")).await.unwrap();
        assert_eq!(below.ancestors, [key("r-head")]);
        tx.set_labels(below.head(), &labels).await.unwrap();
    })
    .await;
    test.commit(async |tx| {
        for name in ["r-below", "r-head"] {
            assert_eq!(tx.lock_run(&key(name)).await.unwrap().labels, labels, "{name}");
        }
    })
    .await;
}

async fn a_paused_agent_is_found_among_others(test: TestStore) {
    let (one, other, nobody) = (agent("one"), agent("other"), agent("nobody"));
    test.commit(async |tx| {
        assert!(!tx.lock_agent(&one).await.unwrap().paused);
        assert!(!tx.lock_agent(&other).await.unwrap().paused);
    })
    .await;
    test.execute("update agents set paused_at = 1 where agent = 'other'").await.unwrap();
    test.commit(async |tx| {
        assert!(!tx.lock_agent(&one).await.unwrap().paused);
        assert!(tx.lock_agent(&other).await.unwrap().paused);
        assert_eq!(tx.any_paused(&[&nobody, &one]).await, Ok(false));
        assert_eq!(tx.any_paused(&[&one, &other]).await, Ok(true));
    })
    .await;
}
