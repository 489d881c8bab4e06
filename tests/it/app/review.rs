//! What people do with held calls, and how agents wait for them.

use std::{sync::Arc, time::Duration};

use countersign::{
    app::{error::Error, keys, ports::ApprovalFilter, review::ReviewDecision},
    domain::{
        approval::{
            outcome::{Outcome, ReportedStatus, SettledStatus},
            state::{Approval, Denier, Obstacle, Refused, ServiceDenial, State, StateName},
        },
        audit::entry::{Actor, EventKind},
        ids::ApprovalId,
        review::ReviewHash,
        verdict::Verdict,
    },
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{
    clock::START,
    world::{
        LEASE, POLICY, Setup, TTL, World, allowed, decision, held, on_each_engine, on_each_engine_with, refused,
        shown_key,
    },
};

fn email() -> Value {
    json!({ "to": "x@acme.example", "body": "hello" })
}

/// Held for support-leads and finance.
fn large_refund() -> Value {
    json!({ "order": "o-1", "amount": 5001 })
}

#[track_caller]
fn obstacle<T: std::fmt::Debug>(answer: Result<T, Error>) -> Obstacle {
    match answer {
        Err(Error::Refused(Refused { why, .. })) => why,
        answer => panic!("{answer:?}"),
    }
}

#[tokio::test]
async fn a_reviewer_sees_the_arguments_the_review_and_the_models_words_apart() {
    on_each_engine(|world| async move {
        let mut request = world.call("send_email", json!({ "to": "x@acme.example", "body": "a\u{202e}b" }));
        request.rationale = Some("the user asked for it".to_owned());
        let approval = held(world.ask(&request).await.unwrap()).approval;
        let seen = world.app.approval_for_reviewer(&world.bo, approval.id).await.unwrap();
        assert_eq!(seen.approval, approval);
        assert_eq!(seen.args.as_ref(), Some(request.call.args.value()));
        assert_eq!(seen.rationale.as_deref(), Some("the user asked for it"));
        let review = seen.review.unwrap();
        let shown: Vec<_> = review.arguments.iter().map(|shown| (shown.at.as_str(), shown.shown.as_str())).collect();
        assert_eq!(shown, [("/body", "a\\u{202e}b"), ("/to", "x@acme.example")]);
    })
    .await;
}

#[tokio::test]
async fn one_approve_is_enough_where_one_is_asked_for() {
    on_each_engine(|world| async move {
        let (_, approval) = world.hold("send_email", email()).await;
        let approval = world.approve(&world.bo, &approval).await.unwrap().approval;
        let State::Approved(approved) = &approval.state else { panic!() };
        assert_eq!(approved.votes[0].reviewer, world.bo.name);
        assert_eq!(approved.claim_after, START);
        assert_eq!(world.stored(&approval).await, approval);
        let votes = world.entries_of(EventKind::ApprovalVote).await;
        assert_eq!(votes[0].entry.detail["groups"], json!(["support-leads"]));
        assert_eq!(votes[0].entry.actor.name, "bo");
        assert_eq!(world.entries_of(EventKind::ApprovalApproved).await.len(), 1);
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn two_groups_take_two_people_in_whatever_order_they_come() {
    on_each_engine(|world| async move {
        for (first, second) in [(&world.ana, &world.bo), (&world.bo, &world.ana)] {
            let (_, approval) = world.hold("issue_refund", large_refund()).await;
            let approval = world.approve(first, &approval).await.unwrap().approval;
            assert_eq!(approval.state.name(), StateName::Pending);
            // The same person once more is still one person.
            assert_eq!(world.approve(first, &approval).await.unwrap().approval, approval);
            let approval = world.approve(second, &approval).await.unwrap().approval;
            assert_eq!(approval.state.name(), StateName::Approved);
        }
        assert_eq!(world.entries_of(EventKind::ApprovalVote).await.len(), 4);
    })
    .await;
}

#[tokio::test]
async fn one_denial_is_enough_whatever_else_is_missing() {
    on_each_engine(|world| async move {
        let (_, approval) = world.hold("issue_refund", large_refund()).await;
        world.approve(&world.ana, &approval).await.unwrap();
        let denied = world.deny(&world.bo, &approval, Some("too much")).await.unwrap().approval;
        let State::Denied(denial) = &denied.state else { panic!() };
        assert_eq!(denial.by, Denier::Reviewer { name: world.bo.name.clone() });
        assert_eq!(denial.message_to_agent.as_deref(), Some("too much"));
    })
    .await;
}

#[tokio::test]
async fn a_decision_on_what_is_decided_names_who_and_when() {
    on_each_engine(|world| async move {
        let (_, approval) = world.hold("send_email", email()).await;
        world.approve(&world.ana, &approval).await.unwrap();
        world.clock.advance(Duration::from_secs(60));
        let decided = Obstacle::Decided { by: "ana".to_owned(), at: START };
        assert_eq!(obstacle(world.deny(&world.bo, &approval, None).await), decided);
        assert_eq!(obstacle(world.approve(&world.bo, &approval).await), decided);
        let head = world.store.head().await.unwrap();
        // Repeating one's own is no fault, and nothing new.
        world.approve(&world.ana, &approval).await.unwrap();
        assert_eq!(world.store.head().await.unwrap(), head);
    })
    .await;
}

#[tokio::test]
async fn repeating_ones_own_denial_changes_nothing_not_even_the_message() {
    on_each_engine(|world| async move {
        let (_, approval) = world.hold("send_email", email()).await;
        let denied = world.deny(&world.ana, &approval, Some("first")).await.unwrap().approval;
        let head = world.store.head().await.unwrap();
        let again = world.deny(&world.ana, &approval, Some("second")).await.unwrap().approval;
        assert_eq!(again, denied);
        assert_eq!(world.store.head().await.unwrap(), head);
        let by_other = world.deny(&world.bo, &approval, None).await;
        assert_eq!(obstacle(by_other), Obstacle::Decided { by: "ana".to_owned(), at: START });
    })
    .await;
}

#[tokio::test]
async fn who_was_shown_something_else_decides_nothing() {
    on_each_engine(|world| async move {
        let (_, approval) = world.hold("send_email", email()).await;
        let (_, other) = world.hold("send_email", json!({ "to": "y" })).await;
        for approve in [true, false] {
            let stale = ReviewDecision { args_hash: other.args_hash, ..decision(&approval, approve, None) };
            let answer = world.app.decide_approval(&world.ana, approval.id, &stale).await;
            assert_eq!(answer.unwrap_err(), Error::StaleArgs { current: approval.args_hash });
            let current = approval.review.unwrap().hash.to_string();
            let stale =
                ReviewDecision { review_hash: Some("sha256:0".to_owned()), ..decision(&approval, approve, None) };
            let answer = world.app.decide_approval(&world.ana, approval.id, &stale).await;
            assert_eq!(answer.unwrap_err(), Error::StaleReview { current: current.clone() });
            if !approve {
                let fresh = ReviewDecision { review_hash: Some(current), ..decision(&approval, approve, None) };
                world.app.decide_approval(&world.ana, approval.id, &fresh).await.unwrap();
            }
        }
    })
    .await;
}

#[tokio::test]
async fn only_members_of_a_named_group_see_and_decide() {
    on_each_engine(|world| async move {
        let finance = POLICY.replace("reviewers = [\"support-leads\"]", "reviewers = [\"finance\"]");
        world.accept(&finance).await;
        let (_, approval) = world.hold("issue_refund", json!({ "order": "o-1", "amount": 300 })).await;
        assert_eq!(world.app.approval_for_reviewer(&world.bo, approval.id).await, Err(Error::NotFound));
        for approve in [true, false] {
            let answer = world.app.decide_approval(&world.bo, approval.id, &decision(&approval, approve, None)).await;
            assert_eq!(answer, Err(Error::NotFound));
        }
        assert_eq!(world.app.revoke_approval(&world.bo, approval.id, None).await, Err(Error::NotFound));
        assert_eq!(world.app.lift_denial(&world.bo, approval.id, None).await, Err(Error::NotFound));
        world.approve(&world.ana, &approval).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_list_shows_what_the_reviewer_may_see_newest_first_and_page_by_page() {
    on_each_engine(|world| async move {
        let mut ids = Vec::new();
        for amount in [300, 301, 302] {
            // Ids sort by the time they were made, to the millisecond.
            world.clock.advance(Duration::from_millis(1));
            ids.push(world.hold("issue_refund", json!({ "order": "o", "amount": amount })).await.1.id);
        }
        ids.reverse();
        let page = async |filter, before, limit| {
            let page = world.app.list_approvals(&world.bo, filter, before, limit).await.unwrap();
            (page.approvals.iter().map(|approval| approval.id).collect::<Vec<_>>(), page.next)
        };
        let all = ApprovalFilter::default;
        let (first, next) = page(all(), None, 2).await;
        assert_eq!(first, ids[..2]);
        assert_eq!(page(all(), next, 2).await, (ids[2..].to_vec(), None));
        assert_eq!(page(all(), None, 3).await, (ids.clone(), None));
        let pending = || ApprovalFilter { state: Some(StateName::Pending), ..ApprovalFilter::default() };
        assert_eq!(page(pending(), None, 9).await.0, ids);
        // What ran out is pending no more, though nobody has written that down.
        world.clock.advance(TTL);
        assert_eq!(page(pending(), None, 9).await.0, []);

        let finance = POLICY.replace("reviewers = [\"support-leads\"]", "reviewers = [\"finance\"]");
        world.accept(&finance).await;
        world.hold("issue_refund", json!({ "order": "o", "amount": 303 })).await;
        assert_eq!(page(pending(), None, 9).await.0, []);
        let anas = world.app.list_approvals(&world.ana, pending(), None, 9).await.unwrap();
        assert_eq!(anas.approvals.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_revoked_key_decides_nothing_though_an_instance_still_knows_it() {
    on_each_engine(|world| async move {
        let (_, approval) = world.hold("send_email", email()).await;
        let key = shown_key(&world.bo.caller);
        keys::revoke_key(&world.store, &Actor::service(), key, START).await.unwrap();
        assert_eq!(world.approve(&world.bo, &approval).await, Err(Error::KeyRevoked));
        assert_eq!(world.deny(&world.bo, &approval, None).await, Err(Error::KeyRevoked));
        assert_eq!(world.stored(&approval).await, approval);
    })
    .await;
}

#[tokio::test]
async fn an_approve_is_taken_back_until_the_claim() {
    on_each_engine(|world| async move {
        let (request, approval) = world.approved("send_email", email()).await;
        let revoked = world.app.revoke_approval(&world.bo, approval.id, Some("second thoughts")).await.unwrap();
        let State::Denied(denial) = &revoked.approval.state else { panic!() };
        assert_eq!(denial.by, Denier::Reviewer { name: world.bo.name.clone() });
        let claim = world.claim(&approval, &request.call.args, None).await;
        assert_eq!(obstacle(claim), Obstacle::State(StateName::Denied));
        assert_eq!(world.entries_of(EventKind::ApprovalRevoked).await.len(), 1);

        let (_, claimed) = world.claimed("send_email", json!({ "to": "y" })).await;
        let late = world.app.revoke_approval(&world.bo, claimed.approval, None).await;
        assert_eq!(obstacle(late), Obstacle::State(StateName::Executed));
    })
    .await;
}

#[tokio::test]
async fn only_who_denied_lifts_the_denial_and_only_once() {
    on_each_engine(|world| async move {
        let (_, approval) = world.hold("send_email", email()).await;
        let early = world.app.lift_denial(&world.ana, approval.id, None).await;
        assert_eq!(obstacle(early), Obstacle::State(StateName::Pending));
        world.deny(&world.ana, &approval, None).await.unwrap();
        let by_other = world.app.lift_denial(&world.bo, approval.id, None).await;
        assert!(matches!(by_other, Err(Error::NotEligible(_))), "{by_other:?}");
        let lifted = world.app.lift_denial(&world.ana, approval.id, Some("fine now")).await.unwrap().approval;
        assert_eq!(lifted.state.name(), StateName::Denied);
        let again = world.app.lift_denial(&world.ana, approval.id, None).await;
        assert_eq!(obstacle(again), Obstacle::NothingToLift);
        assert_eq!(world.entries_of(EventKind::ApprovalLifted).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_person_settles_an_unknown_outcome_once() {
    on_each_engine(|world| async move {
        let (_, claim) = world.claimed("send_email", email()).await;
        let settle = async |status| world.app.settle_outcome(&world.bo, claim.approval, status, Some("looked")).await;
        assert_eq!(obstacle(settle(SettledStatus::Succeeded).await), Obstacle::NothingToSettle);
        world.clock.advance(LEASE);
        let unsettled = async || {
            let filter = ApprovalFilter { unsettled: true, ..ApprovalFilter::default() };
            world.app.record_elapsed().await.unwrap();
            world.app.list_approvals(&world.bo, filter, None, 9).await.unwrap().approvals.len()
        };
        assert_eq!(unsettled().await, 1);
        let settled = settle(SettledStatus::Failed).await.unwrap().approval;
        let State::Executed(execution) = &settled.state else { panic!() };
        assert_eq!(execution.outcome.word(), Some("failed"));
        assert!(matches!(&execution.outcome, Outcome::Unknown { settled: Some(by), .. } if by.by == world.bo.name));
        assert_eq!(unsettled().await, 0);
        assert_eq!(obstacle(settle(SettledStatus::Succeeded).await), Obstacle::NothingToSettle);
        let entry = &world.entries_of(EventKind::OutcomeSettled).await[0].entry;
        assert_eq!(entry.detail["status"], "failed");
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn a_settled_call_is_not_claimed_again_though_it_is_idempotent() {
    on_each_engine(|world| async move {
        let (request, claim) = world.claimed("issue_refund", json!({ "order": "o-1", "amount": 300 })).await;
        world.clock.advance(LEASE);
        world.app.settle_outcome(&world.ana, claim.approval, SettledStatus::Succeeded, None).await.unwrap();
        let approval = world.store.approval(claim.approval).await.unwrap().unwrap();
        let again = world.claim(&approval, &request.call.args, Some("second")).await;
        assert_eq!(obstacle(again), Obstacle::Claimed);
    })
    .await;
}

#[tokio::test]
async fn arguments_that_were_rewritten_in_the_store_are_shown_to_nobody_and_decided_by_the_service() {
    on_each_engine(|world| async move {
        let (_, approval) = world.hold("send_email", email()).await;
        world.tamper_with_payload(&approval).await;
        let seen = world.app.approval_for_reviewer(&world.ana, approval.id).await.unwrap();
        assert_eq!((seen.args, seen.review), (None, None));
        let State::Denied(denial) = &seen.approval.state else { panic!("{:?}", seen.approval.state) };
        assert_eq!(denial.by, Denier::Service { cause: ServiceDenial::StoredArgumentsDiffer });
        assert_eq!(world.stored(&approval).await, seen.approval);
        let entry = &world.entries_of(EventKind::ApprovalDenied).await[0].entry;
        assert_eq!(entry.reason_code.as_deref(), Some("stored_args_mismatch"));
        // Looking again changes nothing.
        let head = world.store.head().await.unwrap();
        world.app.approval_for_reviewer(&world.ana, approval.id).await.unwrap();
        assert_eq!(world.store.head().await.unwrap(), head);
    })
    .await;
}

#[tokio::test]
async fn what_people_write_is_kept_beside_the_log_and_named_in_it() {
    on_each_engine(|world| async move {
        let (_, approval) = world.hold("send_email", email()).await;
        let denial = ReviewDecision { reason: Some("looks odd".to_owned()), ..decision(&approval, false, Some("no")) };
        world.app.decide_approval(&world.ana, approval.id, &denial).await.unwrap();
        let entry = world.entries_of(EventKind::ApprovalDenied).await.remove(0).entry;
        let payload = world.store.payload(entry.payload.unwrap()).await.unwrap().unwrap();
        let body: Value = serde_json::from_str(payload.body()).unwrap();
        assert_eq!(body, json!({ "reason": "looks odd", "message_to_agent": "no" }));
    })
    .await;
}

/// Longer than any wait here takes.
const LONG: Duration = Duration::from_secs(50);

/// `billing-bot` waits for an approval to leave a state.
fn waiting(
    world: &World,
    id: ApprovalId,
    unless: StateName,
    wait: Duration,
) -> tokio::task::JoinHandle<Result<Approval, Error>> {
    let (app, bot) = (Arc::clone(&world.app), world.bot.clone());
    tokio::spawn(async move { app.approval_for_agent(&bot, id, unless, wait).await })
}

#[tokio::test]
async fn who_does_not_wait_is_told_what_is() {
    on_each_engine(|world| async move {
        let (_, approval) = world.hold("send_email", email()).await;
        let ask = async |caller, id| world.app.approval_for_agent(caller, id, StateName::Pending, Duration::ZERO).await;
        assert_eq!(ask(&world.bot, approval.id).await.unwrap(), approval);
        assert_eq!(ask(&world.other_bot, approval.id).await, Err(Error::NotFound));
        assert_eq!(ask(&world.bot, ApprovalId::from_uuid(Uuid::from_u128(1))).await, Err(Error::NotFound));
        world.clock.set(approval.expires_at);
        assert_eq!(ask(&world.bot, approval.id).await.unwrap().state.name(), StateName::Expired);
    })
    .await;
}

#[tokio::test]
async fn who_waits_is_woken_by_a_decision() {
    on_each_engine(|world| async move {
        let (_, approval) = world.hold("send_email", email()).await;
        let waiting = waiting(&world, approval.id, StateName::Pending, LONG);
        world.approve(&world.ana, &approval).await.unwrap();
        assert_eq!(waiting.await.unwrap().unwrap().state.name(), StateName::Approved);
    })
    .await;
}

#[tokio::test]
async fn who_waits_is_woken_by_a_decision_on_another_instance() {
    on_each_engine(|world| async move {
        let another = world.another_instance(Setup::default()).await;
        let (_, approval) = world.hold("send_email", email()).await;
        let waiting = waiting(&world, approval.id, StateName::Pending, LONG);
        another.deny(&another.ana, &approval, None).await.unwrap();
        assert_eq!(waiting.await.unwrap().unwrap().state.name(), StateName::Denied);
    })
    .await;
}

#[tokio::test]
async fn who_waits_is_woken_when_the_approval_runs_out() {
    on_each_engine(|world| async move {
        let (_, approval) = world.hold("send_email", email()).await;
        let waiting = waiting(&world, approval.id, StateName::Pending, LONG);
        world.clock.set(approval.expires_at);
        world.app.record_elapsed().await.unwrap();
        assert_eq!(waiting.await.unwrap().unwrap().state.name(), StateName::Expired);
    })
    .await;
}

#[tokio::test]
async fn who_waits_for_the_outcome_is_told_of_it() {
    on_each_engine(|world| async move {
        let (request, approval) = world.approved("send_email", email()).await;
        let waiting = waiting(&world, approval.id, StateName::Approved, LONG);
        let claim = world.claim(&approval, &request.call.args, None).await.unwrap();
        assert_eq!(waiting.await.unwrap().unwrap().state.name(), StateName::Executed);
        world.report(&claim, ReportedStatus::Succeeded).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_wait_that_is_over_is_answered_with_what_is() {
    on_each_engine(|world| async move {
        let (_, approval) = world.hold("send_email", email()).await;
        let answer = waiting(&world, approval.id, StateName::Pending, Duration::from_millis(5)).await.unwrap();
        assert_eq!(answer.unwrap(), approval);
    })
    .await;
}

#[tokio::test]
async fn a_review_is_shown_as_it_was_stored_whatever_policy_says_later() {
    on_each_engine(|world| async move {
        let (_, approval) = world.hold("send_email", email()).await;
        let before = world.app.approval_for_reviewer(&world.ana, approval.id).await.unwrap();
        let payload = world.store.payload(approval.review.unwrap().payload).await.unwrap().unwrap();
        assert_eq!(before.review.as_ref().unwrap().canonical().unwrap(), payload.body());
        assert_eq!(ReviewHash::of(payload.body()), approval.review.unwrap().hash);
        let requested = &world.entries_of(EventKind::ApprovalRequested).await[0].entry;
        assert_eq!(requested.payload, Some(payload.digest()), "the log names what was shown");
        world
            .accept(
                &POLICY.replace("[tools.send_email]\nrisk = \"send\"", "[tools.send_email]\nrisk = \"destructive\""),
            )
            .await;
        let after = world.app.approval_for_reviewer(&world.ana, approval.id).await.unwrap();
        assert_eq!(after.review, before.review);
        assert_eq!(after.approval.review, before.approval.review);
        world.accept("schema = 1\n").await;
        assert_eq!(world.app.approval_for_reviewer(&world.ana, approval.id).await.unwrap().review, before.review);
    })
    .await;
}

#[tokio::test]
async fn a_review_that_was_rewritten_in_the_store_ends_its_approval() {
    on_each_engine(|world| async move {
        for look in [true, false] {
            let (_, approval) = world.hold("send_email", json!({ "to": format!("ana@acme.example{look}") })).await;
            let shown = Approval { payload: approval.review.unwrap().payload, ..approval.clone() };
            world.tamper_with_payload(&shown).await;
            if look {
                let seen = world.app.approval_for_reviewer(&world.ana, approval.id).await.unwrap();
                assert_eq!((seen.args, seen.review), (None, None));
            } else {
                assert!(matches!(world.approve(&world.ana, &approval).await, Err(Error::NotEligible(_))));
            }
            let State::Denied(denial) = world.stored(&approval).await.state else { panic!("not denied") };
            assert_eq!(denial.by, Denier::Service { cause: ServiceDenial::StoredReviewDiffers });
        }
    })
    .await;
}

/// A tool with a business key, and others on the same one.
const ORDERS: &str = r#"
schema = 1
[tools.refund]
risk = "send"
subject = { order = "/order" }
parameters = { type = "object", required = ["order", "amount"], properties = { order = { type = "string" }, amount = { type = "number" } } }
[[tools.refund.rules]]
id = "small"
when = 'args.amount <= 250'
verdict = "allow_audited"
reason = "small"
[tools.cancel_order]
risk = "read"
default = "deny"
subject = { order = "/id" }
parameters = { type = "object", properties = { id = { type = "string" } } }
"#;

#[tokio::test]
async fn the_last_calls_on_the_same_subject_stand_beside_the_review() {
    on_each_engine_with(Setup::with_policy(ORDERS), async |world: World| {
        let next = || world.clock.advance(Duration::from_millis(2));
        allowed(world.decide("refund", json!({ "order": "A-17", "amount": 3 })).await);
        next();
        refused(world.decide("cancel_order", json!({ "id": "A-17" })).await);
        next();
        // Arguments that no schema has accepted leave no value behind.
        refused(world.decide("refund", json!({ "order": "A-17" })).await);
        allowed(world.decide("refund", json!({ "order": "B-1", "amount": 3 })).await);
        next();
        let (_, earlier) = world.hold("refund", json!({ "order": "A-17", "amount": 500 })).await;
        world.deny(&world.ana, &earlier, None).await.unwrap();
        next();
        let (_, approval) = world.hold("refund", json!({ "order": "A-17", "amount": 600 })).await;
        let seen = world.app.approval_for_reviewer(&world.ana, approval.id).await.unwrap();
        let calls: Vec<_> = seen
            .same_subject
            .iter()
            .map(|before| (before.settled.tool.as_str(), before.settled.verdict, before.approval.clone()))
            .collect();
        assert_eq!(
            calls,
            [
                ("refund", Verdict::RequireApproval, Some((earlier.code, StateName::Denied))),
                ("cancel_order", Verdict::Deny, None),
                ("refund", Verdict::AllowAudited, None),
            ]
        );
        for number in 0..12 {
            next();
            allowed(world.decide("refund", json!({ "order": "A-17", "amount": number })).await);
        }
        let seen = world.app.approval_for_reviewer(&world.ana, approval.id).await.unwrap();
        assert_eq!(seen.same_subject.len(), 10);
        assert_eq!(seen.approval.review, approval.review, "what stands beside the review is no part of it");
    })
    .await;
}

#[tokio::test]
async fn another_open_approval_of_the_very_same_is_named() {
    on_each_engine(|world| async move {
        let (_, first) = world.hold("send_email", email()).await;
        let (_, second) = world.hold("send_email", email()).await;
        world.hold("send_email", json!({ "to": "y" })).await;
        let twins = async |approval: &Approval| {
            let seen = world.app.approval_for_reviewer(&world.ana, approval.id).await.unwrap();
            seen.identical.into_iter().map(|twin| twin.code).collect::<Vec<_>>()
        };
        assert_eq!(twins(&first).await, std::slice::from_ref(&second.code));
        assert_eq!(twins(&second).await, std::slice::from_ref(&first.code));
        world.deny(&world.ana, &first, None).await.unwrap();
        assert_eq!(twins(&second).await, []);
        world.clock.advance(TTL);
        assert_eq!(twins(&first).await, []);
    })
    .await;
}

#[tokio::test]
async fn what_was_erased_cannot_be_approved_any_more_and_can_be_denied() {
    on_each_engine(|world| async move {
        let (_, approval) = world.hold("send_email", email()).await;
        world.storage.execute("delete from payloads").await.unwrap();
        let refused = world.approve(&world.ana, &approval).await.unwrap_err();
        assert!(matches!(&refused, Error::NotEligible(why) if why.contains("erased")), "{refused:?}");
        world.deny(&world.ana, &approval, None).await.unwrap();
    })
    .await;
}
