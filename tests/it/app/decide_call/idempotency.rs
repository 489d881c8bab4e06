//! `Idempotency-Key`: the same request sent again finds the record and answers its state now.

use std::{sync::Arc, time::Duration};

use countersign::{
    app::{
        decide_call::{DecideAnswer, DecideRequest, IdempotencyKey, RefusedCall},
        error::Error,
    },
    domain::{approval::state::StateName, audit::entry::EventKind, decision::ReasonCode, identity::AgentId},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::bland;
use crate::support::{
    clock::START,
    world::{POLICY, World, allowed, claimed, held, on_each_engine, refused},
};

/// A request with this key, whose body hashes to `body`.
fn keyed(world: &World, tool: &str, args: Value, key: &str, body: u8) -> DecideRequest {
    let key = IdempotencyKey { route: "/decide", key: key.to_owned(), body_hash: [body; 32] };
    DecideRequest { idempotency: Some(key), ..world.call(tool, args) }
}

fn read() -> (&'static str, Value) {
    ("read_file", json!({ "path": "a.txt" }))
}

fn email() -> (&'static str, Value) {
    ("send_email", json!({ "to": "x@acme.example" }))
}

#[tokio::test]
async fn the_same_request_is_the_same_decision() {
    on_each_engine(|world| async move {
        for (key, (tool, args)) in [("a", read()), ("b", ("write_note", json!({ "text": "a" })))] {
            let request = keyed(&world, tool, args, key, 1);
            let first = world.ask(&request).await.unwrap();
            allowed(first.clone());
            assert_eq!(world.ask(&request).await.unwrap(), first);
        }
        assert_eq!(world.entries_of(EventKind::Decision).await.len(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_refusal_is_the_same_refusal() {
    on_each_engine(|world| async move {
        let invalid = keyed(&world, "read_file", json!({ "path": 7 }), "a", 1);
        let first = world.ask(&invalid).await.unwrap();
        assert!(matches!(first, DecideAnswer::Refused(RefusedCall::InvalidArguments { .. })));
        assert_eq!(world.ask(&invalid).await.unwrap(), first);
        let unknown = keyed(&world, "no_such_tool", json!({}), "b", 1);
        for _ in 0..2 {
            assert!(matches!(world.ask(&unknown).await, Ok(DecideAnswer::Refused(RefusedCall::Bland { .. }))));
        }
        let (tool, args) = email();
        let (_, approval) = world.hold(tool, args.clone()).await;
        world.deny(&world.ana, &approval, Some("no")).await.unwrap();
        let declined = keyed(&world, tool, args, "c", 1);
        for _ in 0..2 {
            let answer = refused(world.ask(&declined).await.unwrap());
            assert_eq!(answer, RefusedCall::Declined { approval: approval.id, message: Some("no".to_owned()) });
        }
        assert_eq!(world.entries_of(EventKind::Decision).await.len(), 4);
    })
    .await;
}

#[tokio::test]
async fn another_body_under_the_same_key_is_a_conflict_that_changes_nothing() {
    on_each_engine(|world| async move {
        let (tool, args) = read();
        world.ask(&keyed(&world, tool, args, "k", 1)).await.unwrap();
        let head = world.store.head().await.unwrap();
        let (tool, args) = email();
        let other = world.ask(&keyed(&world, tool, args, "k", 2)).await;
        assert_eq!(other, Err(Error::IdempotencyConflict));
        assert_eq!(world.store.head().await.unwrap(), head);
    })
    .await;
}

#[tokio::test]
async fn another_agents_key_and_another_routes_key_are_other_keys() {
    on_each_engine(|world| async move {
        let (tool, args) = read();
        let request = keyed(&world, tool, args.clone(), "k", 1);
        let first = allowed(world.ask(&request).await.unwrap());
        let mut of_other_bot = keyed(&world, tool, args.clone(), "k", 2);
        of_other_bot.call.key.agent = AgentId::parse("other-bot").unwrap();
        let other = allowed(world.app.decide_call(&world.other_bot, &of_other_bot).await.unwrap());
        assert_ne!(other.decision, first.decision);
        let mut on_other_route = keyed(&world, tool, args, "k", 3);
        on_other_route.idempotency.as_mut().unwrap().route = "/approvals";
        assert_ne!(allowed(world.ask(&on_other_route).await.unwrap()).decision, first.decision);
    })
    .await;
}

#[tokio::test]
async fn a_held_request_answers_the_state_of_its_approval_now() {
    on_each_engine(|world| async move {
        let (tool, args) = email();
        let request = keyed(&world, tool, args, "k", 1);
        let approval = held(world.ask(&request).await.unwrap()).approval;
        assert_eq!(held(world.ask(&request).await.unwrap()).approval, approval);
        let approval = world.approve(&world.ana, &approval).await.unwrap().approval;
        assert_eq!(held(world.ask(&request).await.unwrap()).approval, approval);
        let (_, claim) = claimed(world.ask(&DecideRequest { claim: true, ..request.clone() }).await.unwrap());
        assert_eq!(claim.approval, approval.id);
        assert!(matches!(world.ask(&request).await, Err(Error::AlreadyExecuted(_))));
    })
    .await;
}

#[tokio::test]
async fn a_held_request_that_expired_says_so_instead_of_asking_again() {
    on_each_engine(|world| async move {
        let (tool, args) = email();
        let request = keyed(&world, tool, args, "k", 1);
        let approval = held(world.ask(&request).await.unwrap()).approval;
        world.clock.set(approval.expires_at);
        let now = held(world.ask(&request).await.unwrap()).approval;
        assert_eq!((now.id, now.state.name()), (approval.id, StateName::Expired));
        // Without the key it is a new question.
        let afresh = DecideRequest { idempotency: None, ..request };
        assert_eq!(held(world.ask(&afresh).await.unwrap()).approval.attempt, 2);
    })
    .await;
}

#[tokio::test]
async fn a_held_request_that_policy_has_outgrown_is_held_by_what_replaced_it() {
    on_each_engine(|world| async move {
        let (tool, args) = email();
        let request = keyed(&world, tool, args, "k", 1);
        let approval = held(world.ask(&request).await.unwrap()).approval;
        world.approve(&world.bo, &approval).await.unwrap();
        world.accept(&POLICY.replace("audience = \"mail-server\"", "approval = { reviewers = [\"finance\"] }")).await;
        for _ in 0..2 {
            let replaced = held(world.ask(&request).await.unwrap()).approval;
            assert_eq!((replaced.attempt, replaced.state.name()), (2, StateName::Pending));
        }
        assert_eq!(world.entries_of(EventKind::ApprovalRequested).await.len(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_permission_is_answered_again_only_while_it_still_is_one() {
    on_each_engine(|world| async move {
        let (tool, args) = read();
        let request = keyed(&world, tool, args, "k", 1);
        let first = allowed(world.ask(&request).await.unwrap());
        let reading =
            |default: &str| POLICY.replacen("risk = \"read\"", &format!("risk = \"read\"\ndefault = \"{default}\""), 1);
        world.accept(&reading("deny")).await;
        assert_eq!(refused(world.ask(&request).await.unwrap()), bland(ReasonCode::Default));
        world.accept(&reading("allow_audited")).await;
        assert_eq!(allowed(world.ask(&request).await.unwrap()).decision, first.decision);
        world.accept(&reading("require_approval")).await;
        held(world.ask(&request).await.unwrap());
        world.accept(POLICY).await;
        held(world.ask(&request).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_permit_asked_for_again_is_a_new_one_for_the_same_decision() {
    on_each_engine(|world| async move {
        let (tool, args) = read();
        let request = DecideRequest { permit: true, ..keyed(&world, tool, args, "k", 1) };
        let first = allowed(world.ask(&request).await.unwrap());
        let later = START.plus(Duration::from_secs(3_600));
        world.clock.set(later);
        let second = allowed(world.ask(&request).await.unwrap());
        assert_eq!(second.decision, first.decision);
        assert!(world.permits.verify(&first.permit.unwrap(), "read_file", later).is_err());
        let permit = world.permits.verify(&second.permit.unwrap(), "read_file", later).unwrap().permit;
        assert_eq!(serde_json::to_value(permit.key).unwrap(), json!(first.decision));
    })
    .await;
}

#[tokio::test]
async fn a_key_is_forgotten_after_a_day() {
    on_each_engine(|world| async move {
        let (tool, args) = read();
        let request = keyed(&world, tool, args.clone(), "k", 1);
        let first = allowed(world.ask(&request).await.unwrap());
        let day = Duration::from_secs(24 * 3_600);
        world.clock.set(START.plus(day).minus(Duration::from_micros(1)));
        assert_eq!(allowed(world.ask(&request).await.unwrap()).decision, first.decision);
        world.clock.set(START.plus(day));
        let other_body = keyed(&world, tool, args, "k", 2);
        assert_ne!(allowed(world.ask(&other_body).await.unwrap()).decision, first.decision);
        assert_eq!(world.ask(&request).await, Err(Error::IdempotencyConflict));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_racing_requests_with_one_key_are_one_decision() {
    on_each_engine(|world| async move {
        let world = Arc::new(world);
        let another = Arc::new(world.another_instance(crate::support::world::Setup::default()).await);
        for (number, (tool, args)) in [read(), email()].into_iter().enumerate() {
            let request = keyed(&world, tool, args, &format!("k-{number}"), 1);
            let before = world.entries_of(EventKind::Decision).await.len();
            let mut racing = JoinSet::new();
            for racer in 0..10 {
                let world = Arc::clone(if racer % 2 == 0 { &world } else { &another });
                let request = request.clone();
                racing.spawn(async move { world.ask(&request).await.unwrap() });
            }
            let decisions: Vec<_> = racing
                .join_all()
                .await
                .into_iter()
                .map(|answer| match answer {
                    DecideAnswer::Allowed(allowed) => allowed.decision,
                    DecideAnswer::Held(held) => held.decision,
                    DecideAnswer::Claimed(..) | DecideAnswer::Refused(_) => panic!("{answer:?}"),
                })
                .collect();
            assert!(decisions.iter().all(|decision| *decision == decisions[0]));
            assert_eq!(world.entries_of(EventKind::Decision).await.len(), before + 1);
        }
        world.assert_log_is_whole().await;
    })
    .await;
}
