//! Calls that join an open approval of the same run, tool and arguments.

use countersign::{
    app::{decide_call::DecideRequest, error::Error},
    domain::{approval::state::StateName, audit::entry::EventKind, ids::RunId},
};
use serde_json::{Value, json};

use super::{BY_TIME, at};
use crate::support::world::{Setup, TTL, World, arguments, claimed, held, on_each_engine, on_each_engine_with};

fn email() -> Value {
    json!({ "to": "x@acme.example" })
}

fn joining(world: &World, args: Value) -> DecideRequest {
    DecideRequest { join: true, ..world.call("send_email", args) }
}

#[tokio::test]
async fn a_call_that_joins_is_held_by_the_same_approval() {
    on_each_engine(|world| async move {
        let (_, approval) = world.hold("send_email", email()).await;
        let request = joining(&world, email());
        let joined = held(world.ask(&request).await.unwrap());
        assert_eq!(joined.approval, approval);
        assert_ne!(joined.decision, approval.decision);
        let entries = world.entries_of(EventKind::ApprovalJoined).await;
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].entry.call.as_ref(), Some(&request.call.key));
        assert_eq!(entries[0].entry.decision, Some(joined.decision));
        assert_eq!(world.entries_of(EventKind::ApprovalRequested).await.len(), 1);
        assert_eq!(world.entries_of(EventKind::Decision).await.len(), 2);
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn two_joined_calls_run_once() {
    on_each_engine(|world| async move {
        let (first, approval) = world.hold("send_email", email()).await;
        let second = joining(&world, email());
        held(world.ask(&second).await.unwrap());
        world.approve(&world.ana, &approval).await.unwrap();
        claimed(world.ask(&DecideRequest { claim: true, ..second.clone() }).await.unwrap());
        for request in [first, second] {
            let again = world.ask(&DecideRequest { claim: true, ..request }).await;
            assert!(matches!(again, Err(Error::AlreadyExecuted(_))), "{again:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn without_the_wish_to_join_a_call_is_held_for_itself() {
    on_each_engine(|world| async move {
        let (_, approval) = world.hold("send_email", email()).await;
        assert_ne!(held(world.decide("send_email", email()).await).approval.id, approval.id);
    })
    .await;
}

#[tokio::test]
async fn only_an_open_approval_of_the_same_run_tool_and_arguments_is_joined() {
    on_each_engine(|world| async move {
        let (_, approval) = world.hold("send_email", email()).await;
        let other_args = held(world.ask(&joining(&world, json!({ "to": "y" }))).await.unwrap());
        assert_ne!(other_args.approval.id, approval.id);
        let mut other_run = joining(&world, email());
        other_run.call.key.run = RunId::parse("run-2").unwrap();
        assert_ne!(held(world.ask(&other_run).await.unwrap()).approval.id, approval.id);
        world.clock.advance(TTL);
        let after = held(world.ask(&joining(&world, email())).await.unwrap());
        assert_ne!(after.approval.id, approval.id);
        assert_eq!(after.approval.state.name(), StateName::Pending);
        // What time did to the one looked at is in the log.
        assert_eq!(world.stored(&approval).await.state.name(), StateName::Expired);
    })
    .await;
}

#[tokio::test]
async fn an_approved_call_is_joined_and_can_be_claimed_at_once() {
    on_each_engine(|world| async move {
        let (_, approval) = world.approved("send_email", email()).await;
        let request = joining(&world, email());
        assert_eq!(held(world.ask(&request).await.unwrap()).approval, approval);
        claimed(world.ask(&DecideRequest { claim: true, ..request }).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn an_approval_that_asks_for_less_than_is_asked_now_is_not_joined() {
    on_each_engine_with(Setup::with_policy(BY_TIME), |world| async move {
        world.clock.set(at(1, 20));
        let (_, by_day) = world.hold("send_email", email()).await;
        world.clock.set(at(1, 22));
        let by_night = held(world.ask(&joining(&world, email())).await.unwrap()).approval;
        assert_ne!(by_night.id, by_day.id);
        assert!(by_night.asked_by.contains("night"));
    })
    .await;
}

#[tokio::test]
async fn a_joined_call_under_whose_id_something_else_is_asked_is_named_in_the_log() {
    on_each_engine(|world| async move {
        world.hold("send_email", email()).await;
        let mut request = joining(&world, email());
        held(world.ask(&request).await.unwrap());
        request.call.args = arguments(json!({ "to": "evil@evil.example" }));
        assert_eq!(world.ask(&request).await, Err(Error::ToolUseIdReused));
        let reused = world.entries_of(EventKind::CallReused).await;
        assert_eq!(reused[0].entry.call.as_ref(), Some(&request.call.key));
    })
    .await;
}
