//! The same call asked again, in every state its approval may be in.

use std::time::Duration;

use countersign::{
    app::{
        decide_call::{DecideAnswer, DecideRequest, RefusedCall},
        error::Error,
        report_outcome::OutcomeReport,
    },
    domain::{
        approval::{
            outcome::ReportedStatus,
            state::{Approval, Canceller, State, StateName},
        },
        audit::entry::EventKind,
        decision::ReasonCode,
    },
};
use serde_json::{Value, json};

use super::{BY_TIME, at, bland};
use crate::support::world::{
    LEASE, POLICY, Setup, TTL, World, arguments, claimed, held, on_each_engine, on_each_engine_with, refused,
};

fn email() -> Value {
    json!({ "to": "x@acme.example", "body": "hello" })
}

fn claiming(request: &DecideRequest) -> DecideRequest {
    DecideRequest { claim: true, ..request.clone() }
}

/// The usual policy, but that e-mail needs nobody.
fn loosened() -> String {
    POLICY.replace("audience = \"mail-server\"", "default = \"allow\"")
}

/// The usual policy, but that e-mail may not be sent.
fn tightened() -> String {
    POLICY.replace("audience = \"mail-server\"", "default = \"deny\"")
}

/// The usual policy, but that finance must approve e-mail.
fn higher() -> String {
    POLICY.replace("audience = \"mail-server\"", "approval = { reviewers = [\"finance\"] }")
}

async fn now_held(world: &World, request: &DecideRequest) -> Approval {
    held(world.ask(request).await.unwrap()).approval
}

#[tokio::test]
async fn while_it_is_pending_it_is_the_same_approval_and_no_new_entry() {
    on_each_engine(|world| async move {
        let (request, approval) = world.hold("send_email", email()).await;
        let head = world.store.head().await.unwrap();
        for request in [&request, &claiming(&request)] {
            assert_eq!(now_held(&world, request).await, approval);
        }
        assert_eq!(world.store.head().await.unwrap(), head);
    })
    .await;
}

#[tokio::test]
async fn once_approved_it_says_so_and_is_not_claimed_unasked() {
    on_each_engine(|world| async move {
        let (request, approval) = world.approved("send_email", email()).await;
        let again = now_held(&world, &request).await;
        assert_eq!(again, approval);
        assert_eq!(again.state.name(), StateName::Approved);
    })
    .await;
}

#[tokio::test]
async fn once_approved_it_is_claimed_in_the_request_that_asks_for_that() {
    on_each_engine(|world| async move {
        let (request, approval) = world.approved("send_email", email()).await;
        let (held, claim) = claimed(world.ask(&claiming(&request)).await.unwrap());
        assert_eq!(claim.approval, approval.id);
        assert_eq!(held.approval.state.name(), StateName::Executed);
        assert_eq!(claim.args, *email().as_object().unwrap());
        let permit = world.permits.verify(&claim.permit, "mail-server", world.app.now()).unwrap().permit;
        assert_eq!(permit.args_hash, approval.args_hash);
        assert_eq!(world.stored(&approval).await, held.approval);
        let again = world.ask(&claiming(&request)).await;
        assert!(matches!(again, Err(Error::AlreadyExecuted(_))), "{again:?}");
        assert_eq!(world.entries_of(EventKind::Claim).await.len(), 1);
        assert_eq!(world.entries_of(EventKind::Decision).await.len(), 1);
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn once_denied_it_is_declined_with_the_message() {
    on_each_engine(|world| async move {
        let (request, approval) = world.hold("send_email", email()).await;
        world.deny(&world.bo, &approval, Some("ask Ana first")).await.unwrap();
        let head = world.store.head().await.unwrap();
        for request in [&request, &claiming(&request)] {
            let answer = refused(world.ask(request).await.unwrap());
            let message = Some("ask Ana first".to_owned());
            assert_eq!(answer, RefusedCall::Declined { approval: approval.id, message });
        }
        assert_eq!(world.store.head().await.unwrap(), head);
    })
    .await;
}

#[tokio::test]
async fn a_lifted_denial_still_answers_its_own_call() {
    on_each_engine(|world| async move {
        let (request, approval) = world.hold("send_email", email()).await;
        world.deny(&world.bo, &approval, None).await.unwrap();
        world.app.lift_denial(&world.bo, approval.id, None).await.unwrap();
        let answer = refused(world.ask(&request).await.unwrap());
        assert_eq!(answer, RefusedCall::Declined { approval: approval.id, message: None });
    })
    .await;
}

#[tokio::test]
async fn expired_calls_get_three_approvals_and_no_more() {
    on_each_engine(|world| async move {
        let (request, first) = world.hold("send_email", email()).await;
        world.clock.set(first.expires_at);
        let second = now_held(&world, &request).await;
        assert_ne!(second.id, first.id);
        assert_eq!((second.attempt, second.state.name()), (2, StateName::Pending));
        assert_eq!(world.stored(&first).await.state, State::Expired { at: first.expires_at });
        world.clock.advance(TTL);
        let third = now_held(&world, &request).await;
        assert_eq!(third.attempt, 3);
        world.clock.advance(TTL);
        for _ in 0..2 {
            let answer = refused(world.ask(&request).await.unwrap());
            assert_eq!(answer, bland(ReasonCode::ExpiredTooOften));
        }
        assert_eq!(world.entries_of(EventKind::ApprovalExpired).await.len(), 3);
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn an_approved_call_that_nobody_claimed_in_time_expires_too() {
    on_each_engine(|world| async move {
        let (request, approval) = world.approved("send_email", email()).await;
        world.clock.set(approval.expires_at);
        let again = now_held(&world, &claiming(&request)).await;
        assert_eq!((again.attempt, again.state.name()), (2, StateName::Pending));
    })
    .await;
}

#[tokio::test]
async fn an_expired_approval_does_not_become_a_way_around_by_a_loosened_policy() {
    on_each_engine(|world| async move {
        let (request, approval) = world.hold("send_email", email()).await;
        world.accept(&loosened()).await;
        world.clock.set(approval.expires_at);
        let again = now_held(&world, &request).await;
        assert_eq!((again.attempt, again.state.name()), (2, StateName::Pending));
        let decided = world.entries_of(EventKind::Decision).await;
        assert_eq!(decided[1].entry.reason_code.as_deref(), Some("held_before"));
        world.approve(&world.ana, &again).await.unwrap();
        claimed(world.ask(&claiming(&request)).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn cancelled_by_its_requester_it_stays_cancelled() {
    on_each_engine(|world| async move {
        let (request, approval) = world.hold("send_email", email()).await;
        world.app.cancel_call(&world.bot, approval.id, None).await.unwrap();
        let answer = refused(world.ask(&request).await.unwrap());
        assert_eq!(answer, RefusedCall::Cancelled { approval: approval.id });
        // That withdraws the call, not its kind.
        held(world.decide("send_email", email()).await);
    })
    .await;
}

#[tokio::test]
async fn denied_by_the_service_it_is_refused_without_a_word() {
    on_each_engine(|world| async move {
        let (request, approval) = world.approved("send_email", email()).await;
        let wrong = world.claim(&approval, &arguments(json!({ "to": "evil@evil.example" })), None).await;
        assert_eq!(wrong.unwrap_err(), Error::ArgsMismatch);
        for request in [&request, &claiming(&request)] {
            let answer = refused(world.ask(request).await.unwrap());
            assert_eq!(answer, bland(ReasonCode::DeniedBefore));
        }
        // It is no denial by a person: the same call under another id is asked about.
        held(world.decide("send_email", email()).await);
    })
    .await;
}

#[tokio::test]
async fn once_executed_it_answers_with_outcome_and_result_and_never_runs_again() {
    on_each_engine(|world| async move {
        let (request, claim) = world.claimed("send_email", email()).await;
        let executed = async |request: &DecideRequest| match world.ask(request).await {
            Err(Error::AlreadyExecuted(executed)) => *executed,
            answer => panic!("{answer:?}"),
        };
        let waiting = executed(&request).await;
        assert_eq!((waiting.claim, waiting.outcome, waiting.result), (claim.claim.clone(), None, None));
        let report = OutcomeReport {
            claim: Some(claim.claim.clone()),
            status: ReportedStatus::Succeeded,
            detail: Some("sent".to_owned()),
            result: Some(json!({ "message_id": "m-1" })),
        };
        world.app.report_outcome(&world.bot, claim.approval, &report).await.unwrap();
        let done = executed(&claiming(&request)).await;
        assert_eq!(done.outcome.as_deref(), Some("succeeded"));
        assert_eq!(done.result, Some(json!({ "message_id": "m-1" })));
    })
    .await;
}

#[tokio::test]
async fn executed_and_never_heard_of_again_it_is_unknown_and_does_not_run() {
    on_each_engine(|world| async move {
        let (request, _) = world.claimed("send_email", email()).await;
        world.clock.advance(LEASE);
        let Err(Error::AlreadyExecuted(executed)) = world.ask(&claiming(&request)).await else { panic!() };
        assert_eq!(executed.outcome.as_deref(), Some("unknown"));
        assert_eq!(world.entries_of(EventKind::OutcomeUnknown).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_idempotent_call_may_run_again_when_its_lease_is_over() {
    on_each_engine(|world| async move {
        let (request, first) = world.claimed("issue_refund", json!({ "order": "o-1", "amount": 300 })).await;
        assert!(matches!(world.ask(&claiming(&request)).await, Err(Error::AlreadyExecuted(_))));
        world.clock.advance(LEASE);
        let (_, second) = claimed(world.ask(&claiming(&request)).await.unwrap());
        assert_eq!(second.approval, first.approval);
        assert_ne!(second.claim, first.claim);
    })
    .await;
}

#[tokio::test]
async fn other_arguments_or_another_tool_under_its_id_are_refused_and_audited() {
    on_each_engine(|world| async move {
        let (request, approval) = world.hold("send_email", email()).await;
        let mut other_args = request.clone();
        other_args.call.args = arguments(json!({ "to": "evil@evil.example" }));
        let mut other_tool = request.clone();
        other_tool.call.tool = "write_note".to_owned();
        other_tool.call.args = arguments(json!({ "text": "x" }));
        let mut unknown_tool = request.clone();
        unknown_tool.call.tool = "no_such_tool".to_owned();
        let mut invalid = request.clone();
        invalid.call.args = arguments(json!({}));
        for request in [&other_args, &other_tool, &unknown_tool, &invalid] {
            assert_eq!(world.ask(request).await, Err(Error::ToolUseIdReused));
        }
        let reused = world.entries_of(EventKind::CallReused).await;
        let tools: Vec<_> = reused.iter().map(|sealed| sealed.entry.tool.as_deref().unwrap()).collect();
        assert_eq!(tools, ["send_email", "write_note", "no_such_tool", "send_email"]);
        for sealed in &reused {
            assert_eq!(sealed.entry.call.as_ref(), Some(&request.call.key));
            assert_eq!(sealed.entry.approval, Some(approval.id));
            assert_eq!(sealed.entry.actor.name, "billing-bot");
        }
        // The held call itself is none the worse.
        assert_eq!(now_held(&world, &request).await, approval);
        assert_eq!(world.entries_of(EventKind::Decision).await.len(), 1);
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn arguments_that_mean_the_same_in_another_order_are_the_same_call() {
    on_each_engine(|world| async move {
        let (mut request, approval) = world.hold("issue_refund", json!({ "order": "o-1", "amount": 300 })).await;
        request.call.args = arguments(json!({ "amount": 300.0, "order": "o-1" }));
        assert_eq!(now_held(&world, &request).await, approval);
    })
    .await;
}

#[tokio::test]
async fn a_loosened_policy_opens_no_second_way_to_run_a_held_call() {
    on_each_engine(|world| async move {
        let (request, approval) = world.hold("send_email", email()).await;
        world.accept(&loosened()).await;
        assert_eq!(now_held(&world, &request).await, approval);
        assert_eq!(now_held(&world, &claiming(&request)).await, approval);
        assert_eq!(world.entries_of(EventKind::Decision).await.len(), 1);
        // Another call is free to go.
        let other = world.decide("send_email", email()).await;
        assert!(matches!(other, DecideAnswer::Allowed(_)), "{other:?}");
        world.approve(&world.ana, &approval).await.unwrap();
        claimed(world.ask(&claiming(&request)).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_tightened_policy_leaves_a_held_call_waiting_but_not_running() {
    on_each_engine(|world| async move {
        let (request, approval) = world.hold("send_email", email()).await;
        world.accept(&tightened()).await;
        assert_eq!(now_held(&world, &request).await, approval);
        let approval = world.approve(&world.ana, &approval).await.unwrap().approval;
        let claim = world.claim(&approval, &request.call.args, None).await;
        assert!(matches!(claim, Err(Error::PolicyChanged(_))), "{claim:?}");
        assert_eq!(world.stored(&approval).await, approval);
        // A corrected policy lets it pass.
        world.accept(POLICY).await;
        world.claim(&approval, &request.call.args, None).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_approval_that_policy_has_outgrown_is_replaced_by_one_with_todays_requirement() {
    on_each_engine(|world| async move {
        let (request, approval) = world.hold("send_email", email()).await;
        world.approve(&world.bo, &approval).await.unwrap();
        world.accept(&higher()).await;
        let replaced = now_held(&world, &claiming(&request)).await;
        assert_ne!(replaced.id, approval.id);
        assert_eq!((replaced.attempt, replaced.state.name()), (2, StateName::Pending));
        assert_eq!(replaced.requirement.groups.into_iter().collect::<Vec<_>>(), [("finance".to_owned(), 1)]);
        let before = world.stored(&approval).await.state;
        assert!(matches!(before, State::Cancelled { by: Canceller::PolicyChange, .. }), "{before:?}");
        let events = world.events().await;
        use EventKind::{ApprovalCancelled, ApprovalRequested, Decision};
        assert_eq!(events[events.len() - 3..], [ApprovalCancelled, Decision, ApprovalRequested]);
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn an_approval_that_policy_has_outgrown_by_a_denial_ends_in_one() {
    on_each_engine(|world| async move {
        let (request, approval) = world.approved("send_email", email()).await;
        world.accept(&tightened()).await;
        assert_eq!(refused(world.ask(&request).await.unwrap()), bland(ReasonCode::Default));
        assert_eq!(world.stored(&approval).await.state.name(), StateName::Cancelled);
        // Loosened again, it is asked about again.
        world.accept(&loosened()).await;
        assert_eq!(now_held(&world, &request).await.attempt, 2);
    })
    .await;
}

#[tokio::test]
async fn an_approval_whose_voter_is_gone_is_replaced() {
    on_each_engine(|world| async move {
        let (request, approval) = world.hold("issue_refund", json!({ "order": "o-1", "amount": 300 })).await;
        world.approve(&world.bo, &approval).await.unwrap();
        let setup = Setup { reviewers: vec![("ana", &["finance", "support-leads"])], ..Setup::default() };
        let later = world.another_instance(setup).await;
        let replaced = now_held(&later, &claiming(&request)).await;
        assert_ne!(replaced.id, approval.id);
        assert_eq!(replaced.attempt, 2);
    })
    .await;
}

#[tokio::test]
async fn a_rule_that_asks_by_now_replaces_an_approval_under_the_same_policy() {
    on_each_engine_with(Setup::with_policy(BY_TIME), |world| async move {
        world.clock.set(at(1, 20));
        let (request, approval) = world.hold("send_email", json!({ "to": "x" })).await;
        world.approve(&world.bo, &approval).await.unwrap();
        world.clock.set(at(1, 22));
        let replaced = now_held(&world, &claiming(&request)).await;
        assert_ne!(replaced.id, approval.id);
        assert!(replaced.asked_by.contains("night"));
    })
    .await;
}

#[tokio::test]
async fn a_call_that_was_never_held_is_decided_afresh_each_time() {
    on_each_engine(|world| async move {
        let request = world.call("write_note", json!({ "text": "a" }));
        for _ in 0..2 {
            assert!(matches!(world.ask(&request).await, Ok(DecideAnswer::Allowed(_))));
        }
        world.clock.advance(Duration::from_secs(1));
        world.accept(&POLICY.replace("risk = \"draft\"", "risk = \"send\"")).await;
        now_held(&world, &request).await;
        world.accept(POLICY).await;
        now_held(&world, &request).await;
        assert_eq!(world.entries_of(EventKind::Decision).await.len(), 3);
    })
    .await;
}
