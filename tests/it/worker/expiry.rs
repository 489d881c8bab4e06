//! The sweep over approvals.

use std::sync::Arc;

use countersign::{
    app::decide_call::DecideAnswer,
    domain::{approval::state::StateName, audit::entry::EventKind},
    worker::{Work as _, expiry::Expiry},
};
use serde_json::json;

use crate::support::world::{TTL, on_each_engine};

#[tokio::test]
async fn what_ran_out_is_recorded_without_anybody_asking() {
    on_each_engine(|world| async move {
        let request = world.call("send_email", json!({ "to": "a@b.example" }));
        let DecideAnswer::Held(held) = world.app.decide_call(&world.bot, &request).await.unwrap() else {
            panic!("it is not held");
        };
        let expiry = Expiry { app: Arc::clone(&world.app) };
        expiry.round().await.unwrap();
        let stored = world.store.approval(held.approval.id).await.unwrap().unwrap();
        assert_eq!(stored.state.name(), StateName::Pending);

        world.clock.advance(TTL);
        expiry.round().await.unwrap();
        let stored = world.store.approval(held.approval.id).await.unwrap().unwrap();
        assert_eq!(stored.state.name(), StateName::Expired);
        let newest = world.store.entries(&Default::default(), None, 1).await.unwrap();
        assert_eq!(newest[0].entry.event, EventKind::ApprovalExpired);
    })
    .await;
}
