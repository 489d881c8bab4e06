//! What came of a call: reports, in time and late, and calls that are withdrawn.

use std::time::Duration;

use countersign::{
    app::{error::Error, report_outcome::OutcomeReport},
    domain::{
        approval::{
            outcome::{Outcome, ReportedStatus},
            state::{Obstacle, Refused, State, StateName},
        },
        audit::entry::EventKind,
        ids::{ClaimId, DecisionId},
    },
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::world::{LEASE, allowed, held, on_each_engine, refused};

fn email() -> Value {
    json!({ "to": "x@acme.example" })
}

fn report(claim: Option<&ClaimId>, status: ReportedStatus, result: Option<Value>) -> OutcomeReport {
    OutcomeReport { claim: claim.cloned(), status, detail: None, result }
}

#[track_caller]
fn obstacle<T: std::fmt::Debug>(answer: Result<T, Error>) -> Obstacle {
    match answer {
        Err(Error::Refused(Refused { why, .. })) => why,
        answer => panic!("{answer:?}"),
    }
}

#[tokio::test]
async fn the_first_outcome_stands_and_the_same_one_repeated_changes_nothing() {
    on_each_engine(|world| async move {
        let (_, claim) = world.claimed("send_email", email()).await;
        let send = async |status, result| {
            world.app.report_outcome(&world.bot, claim.approval, &report(Some(&claim.claim), status, result)).await
        };
        send(ReportedStatus::Failed, Some(json!({ "code": 7 }))).await.unwrap();
        let head = world.store.head().await.unwrap();
        send(ReportedStatus::Failed, Some(json!({ "code": 7 }))).await.unwrap();
        assert_eq!(world.store.head().await.unwrap(), head);
        for (status, result) in [
            (ReportedStatus::Succeeded, Some(json!({ "code": 7 }))),
            (ReportedStatus::Failed, Some(json!({ "code": 8 }))),
            (ReportedStatus::Failed, None),
            (ReportedStatus::NotStarted, None),
        ] {
            assert_eq!(send(status, result).await, Err(Error::OutcomeStands), "{status:?}");
        }
        let entry = &world.entries_of(EventKind::Outcome).await[0].entry;
        assert_eq!(entry.detail["status"], "failed");
        assert_eq!(entry.detail["claim_id"], claim.claim.to_string());
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn only_the_current_claim_of_the_own_approval_reports() {
    on_each_engine(|world| async move {
        let (_, claim) = world.claimed("send_email", email()).await;
        let other = ClaimId::parse("other").unwrap();
        let others = report(Some(&other), ReportedStatus::Failed, None);
        let answer = world.app.report_outcome(&world.bot, claim.approval, &others).await;
        assert_eq!(obstacle(answer), Obstacle::OtherClaim);
        let mine = report(Some(&claim.claim), ReportedStatus::Succeeded, None);
        let answer = world.app.report_outcome(&world.other_bot, claim.approval, &mine).await;
        assert_eq!(answer, Err(Error::NotFound));
        let (_, unclaimed) = world.approved("send_email", json!({ "to": "y" })).await;
        let answer = world.app.report_outcome(&world.bot, unclaimed.id, &mine).await;
        assert_eq!(obstacle(answer), Obstacle::State(StateName::Approved));
        world.app.report_outcome(&world.bot, claim.approval, &mine).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_report_after_the_lease_is_kept_as_late_and_the_outcome_stays_unknown() {
    on_each_engine(|world| async move {
        let (request, claim) = world.claimed("send_email", email()).await;
        world.clock.set(claim.lease_expires_at);
        world.report(&claim, ReportedStatus::Succeeded).await.unwrap();
        let stored = world.store.approval(claim.approval).await.unwrap().unwrap();
        let State::Executed(execution) = stored.state else { panic!() };
        assert!(matches!(&execution.outcome, Outcome::Unknown { late: Some(late), .. }
            if late.status == ReportedStatus::Succeeded));
        assert_eq!(execution.outcome.word(), Some("unknown"));
        world.report(&claim, ReportedStatus::Succeeded).await.unwrap();
        assert_eq!(world.report(&claim, ReportedStatus::Failed).await, Err(Error::OutcomeStands));
        let Err(Error::AlreadyExecuted(_)) = world.ask(&request).await else { panic!() };
        use EventKind::{OutcomeLate, OutcomeUnknown};
        let events = world.events().await;
        assert_eq!(events[events.len() - 2..], [OutcomeUnknown, OutcomeLate]);
    })
    .await;
}

#[tokio::test]
async fn a_call_that_never_began_goes_back_once() {
    on_each_engine(|world| async move {
        let (request, approval) = world.approved("send_email", email()).await;
        let first = world.claim(&approval, &request.call.args, Some("first")).await.unwrap();
        let unnamed = report(None, ReportedStatus::NotStarted, None);
        let answer = world.app.report_outcome(&world.bot, approval.id, &unnamed).await;
        assert_eq!(obstacle(answer), Obstacle::OtherClaim);
        world.report(&first, ReportedStatus::NotStarted).await.unwrap();
        assert_eq!(world.stored(&approval).await.state.name(), StateName::Approved);
        let head = world.store.head().await.unwrap();
        world.report(&first, ReportedStatus::NotStarted).await.unwrap();
        assert_eq!(world.store.head().await.unwrap(), head);
        let second = world.claim(&approval, &request.call.args, Some("second")).await.unwrap();
        let again = world.report(&second, ReportedStatus::NotStarted).await;
        assert_eq!(obstacle(again), Obstacle::GivenBackBefore);
        world.report(&second, ReportedStatus::Succeeded).await.unwrap();
        assert_eq!(world.entries_of(EventKind::ClaimReturned).await.len(), 1);
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn not_started_counts_only_within_the_lease() {
    on_each_engine(|world| async move {
        let (_, claim) = world.claimed("send_email", email()).await;
        world.clock.advance(LEASE);
        let late = world.report(&claim, ReportedStatus::NotStarted).await;
        assert_eq!(obstacle(late), Obstacle::LeaseOver { at: claim.lease_expires_at });
    })
    .await;
}

#[tokio::test]
async fn a_call_given_back_is_bound_by_its_time_to_live_as_before() {
    on_each_engine(|world| async move {
        let (request, approval) = world.approved("send_email", email()).await;
        world.clock.set(approval.expires_at.minus(Duration::from_secs(1)));
        let claim = world.claim(&approval, &request.call.args, Some("first")).await.unwrap();
        world.clock.set(approval.expires_at);
        world.report(&claim, ReportedStatus::NotStarted).await.unwrap();
        let again = world.claim(&approval, &request.call.args, Some("second")).await;
        assert_eq!(obstacle(again), Obstacle::State(StateName::Expired));
    })
    .await;
}

#[tokio::test]
async fn a_permitted_call_reports_to_its_decision_once() {
    on_each_engine(|world| async move {
        let decision = allowed(world.decide("read_file", json!({ "path": "a" })).await).decision;
        let send = async |status, result| {
            world.app.report_decision_outcome(&world.bot, decision, &report(None, status, result)).await
        };
        send(ReportedStatus::Succeeded, Some(json!("contents"))).await.unwrap();
        send(ReportedStatus::Succeeded, Some(json!("contents"))).await.unwrap();
        assert_eq!(send(ReportedStatus::Succeeded, None).await, Err(Error::OutcomeStands));
        assert_eq!(send(ReportedStatus::Failed, Some(json!("contents"))).await, Err(Error::OutcomeStands));
        let outcomes = world.entries_of(EventKind::Outcome).await;
        assert_eq!(outcomes.len(), 1);
        assert_eq!(outcomes[0].entry.decision, Some(decision));
        let mine = report(None, ReportedStatus::Succeeded, None);
        let answer = world.app.report_decision_outcome(&world.other_bot, decision, &mine).await;
        assert_eq!(answer, Err(Error::NotFound));
        let nobodys = DecisionId::from_uuid(Uuid::from_u128(1));
        assert_eq!(world.app.report_decision_outcome(&world.bot, nobodys, &mine).await, Err(Error::NotFound));
    })
    .await;
}

#[tokio::test]
async fn the_decision_of_a_held_call_reports_to_its_approval_and_a_refused_one_to_nothing() {
    on_each_engine(|world| async move {
        let request = world.call("send_email", email());
        let held = held(world.ask(&request).await.unwrap());
        world.approve(&world.ana, &held.approval).await.unwrap();
        let claim = world.claim(&held.approval, &request.call.args, None).await.unwrap();
        let done = report(Some(&claim.claim), ReportedStatus::Succeeded, None);
        world.app.report_decision_outcome(&world.bot, held.decision, &done).await.unwrap();
        assert_eq!(world.report(&claim, ReportedStatus::Failed).await, Err(Error::OutcomeStands));

        refused(world.decide("no_such_tool", json!({})).await);
        let decision = world.entries_of(EventKind::Decision).await.pop().unwrap().entry.decision.unwrap();
        let answer = world.app.report_decision_outcome(&world.bot, decision, &done).await;
        assert!(matches!(answer, Err(Error::Invalid(_))), "{answer:?}");
    })
    .await;
}

#[tokio::test]
async fn a_call_is_withdrawn_by_who_asked_and_only_before_the_claim() {
    on_each_engine(|world| async move {
        let (request, approval) = world.approved("send_email", email()).await;
        let foreign = world.app.cancel_call(&world.other_bot, approval.id, None).await;
        assert_eq!(foreign, Err(Error::NotFound));
        let cancelled = world.app.cancel_call(&world.bot, approval.id, None).await.unwrap();
        assert_eq!(cancelled.state.name(), StateName::Cancelled);
        let head = world.store.head().await.unwrap();
        assert_eq!(world.app.cancel_call(&world.bot, approval.id, None).await.unwrap(), cancelled);
        assert_eq!(world.store.head().await.unwrap(), head);
        let claim = world.claim(&approval, &request.call.args, None).await;
        assert_eq!(obstacle(claim), Obstacle::State(StateName::Cancelled));
        let vote = world.approve(&world.ana, &approval).await;
        assert_eq!(obstacle(vote), Obstacle::State(StateName::Cancelled));

        let (_, claimed) = world.claimed("send_email", json!({ "to": "y" })).await;
        let late = world.app.cancel_call(&world.bot, claimed.approval, None).await;
        assert_eq!(obstacle(late), Obstacle::State(StateName::Executed));
    })
    .await;
}
