//! Denying a call and stopping its run at once.

use countersign::{
    app::error::Error,
    domain::{
        approval::state::{Canceller, State, StateName},
        audit::entry::EventKind,
        run::RunKey,
    },
};
use serde_json::json;

use crate::support::world::{decision, on_each_engine};

#[tokio::test]
async fn the_call_is_denied_its_run_stopped_and_what_else_waited_there_withdrawn() {
    on_each_engine(async |world| {
        let (_, one) = world.hold("send_email", json!({ "to": "a@x.example" })).await;
        let (_, other) = world.hold("send_email", json!({ "to": "b@x.example" })).await;
        let denial = decision(&one, false, Some("no more of this"));
        world.app.deny_and_stop(&world.bo, one.id, &denial).await.unwrap();
        assert_eq!(world.stored(&one).await.state.name(), StateName::Denied);
        assert!(matches!(world.stored(&other).await.state, State::Cancelled { by: Canceller::Stop, .. }));
        let run = world.store.run(&RunKey::of(&one.call), one.created_at).await.unwrap().unwrap().run;
        assert!(run.ended.is_some_and(|ending| ending.stopped && ending.by == "bo"));
        let events = world.events().await;
        let written = [EventKind::ApprovalDenied, EventKind::RunStopped, EventKind::ApprovalCancelled];
        assert_eq!(events[events.len() - 3..], written);
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn a_denial_that_does_not_count_stops_nothing() {
    on_each_engine(async |world| {
        let (_, one) = world.hold("send_email", json!({ "to": "a@x.example" })).await;
        world.approve(&world.ana, &one).await.unwrap();
        let refused = world.app.deny_and_stop(&world.bo, one.id, &decision(&one, false, None)).await;
        assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
        let run = world.store.run(&RunKey::of(&one.call), one.created_at).await.unwrap().unwrap().run;
        assert_eq!(run.ended, None);
        let approves = world.app.deny_and_stop(&world.bo, one.id, &decision(&one, true, None)).await;
        assert!(matches!(approves, Err(Error::Invalid(_))), "{approves:?}");
    })
    .await;
}

#[tokio::test]
async fn who_denied_before_may_still_stop_the_run() {
    on_each_engine(async |world| {
        let (_, one) = world.hold("send_email", json!({ "to": "a@x.example" })).await;
        world.deny(&world.bo, &one, None).await.unwrap();
        world.app.deny_and_stop(&world.bo, one.id, &decision(&one, false, None)).await.unwrap();
        assert_eq!(world.entries_of(EventKind::ApprovalDenied).await.len(), 1);
        assert_eq!(world.entries_of(EventKind::RunStopped).await.len(), 1);
    })
    .await;
}
