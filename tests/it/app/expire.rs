//! The sweep that writes down what time alone has changed.

use std::time::Duration;

use countersign::domain::{approval::state::StateName, audit::entry::EventKind};
use serde_json::json;

use crate::support::world::{LEASE, TTL, on_each_engine};

#[tokio::test]
async fn what_ran_out_is_written_down_once() {
    on_each_engine(|world| async move {
        let (_, pending) = world.hold("send_email", json!({ "to": "a" })).await;
        let (_, approved) = world.approved("send_email", json!({ "to": "b" })).await;
        let (_, denied) = world.hold("send_email", json!({ "to": "c" })).await;
        world.deny(&world.ana, &denied, None).await.unwrap();
        world.clock.set(pending.expires_at.minus(Duration::from_micros(1)));
        assert_eq!(world.app.record_elapsed().await.unwrap(), 0);
        world.clock.set(pending.expires_at);
        assert_eq!(world.app.record_elapsed().await.unwrap(), 2);
        assert_eq!(world.app.record_elapsed().await.unwrap(), 0);
        assert_eq!(world.stored(&pending).await.state.name(), StateName::Expired);
        assert_eq!(world.stored(&approved).await.state.name(), StateName::Expired);
        assert_eq!(world.stored(&denied).await.state.name(), StateName::Denied);
        assert_eq!(world.entries_of(EventKind::ApprovalExpired).await.len(), 2);
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn a_lease_that_ended_without_a_report_leaves_the_outcome_unknown() {
    on_each_engine(|world| async move {
        let (_, claim) = world.claimed("send_email", json!({ "to": "a" })).await;
        world.clock.advance(LEASE);
        assert_eq!(world.app.record_elapsed().await.unwrap(), 1);
        assert_eq!(world.entries_of(EventKind::OutcomeUnknown).await.len(), 1);
        // Neither does it expire afterwards.
        world.clock.advance(TTL);
        assert_eq!(world.app.record_elapsed().await.unwrap(), 0);
        let stored = world.store.approval(claim.approval).await.unwrap().unwrap();
        assert_eq!(stored.state.name(), StateName::Executed);
    })
    .await;
}

#[tokio::test]
async fn a_sweep_takes_no_more_than_a_batch_and_the_next_one_the_rest() {
    on_each_engine(|world| async move {
        for number in 0..101 {
            let mut request = world.call("send_email", json!({ "to": number.to_string() }));
            request.call.key.run = countersign::domain::ids::RunId::parse(&format!("run-{number}")).unwrap();
            if number == 100 {
                world.clock.advance(TTL);
            }
            world.ask(&request).await.unwrap();
        }
        assert_eq!(world.app.record_elapsed().await.unwrap(), 100);
        world.clock.advance(TTL);
        assert_eq!(world.app.record_elapsed().await.unwrap(), 1);
    })
    .await;
}
