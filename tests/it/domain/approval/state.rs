//! The state machine of approvals.

use std::{collections::BTreeSet, time::Duration};

use countersign::domain::{
    approval::{
        code::ApprovalCode,
        outcome::{Outcome, Report, ReportedStatus, SettledStatus},
        requirement::Requirement,
        state::{
            Approval, Canceller, Claim, Claimable, Counted, Elapsed, Obstacle, Refused, ServiceDenial, State,
            StateName, Taken,
        },
        vote::Vote,
    },
    audit::payload::PayloadDigest,
    call::CallKey,
    canon::json::ArgsHash,
    identity::{AgentId, ReviewerName},
    ids::{ApprovalId, ClaimId, DecisionId, RunId, ToolUseId},
    policy::PolicyVersion,
    time::Timestamp,
};
use proptest::prelude::*;
use uuid::Uuid;

const TTL: Duration = Duration::from_secs(3_600);
const LEASE: Duration = Duration::from_secs(300);

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

fn pending() -> Approval {
    Approval {
        id: ApprovalId::from_uuid(Uuid::from_u128(1)),
        code: ApprovalCode::from_bits(1),
        call: CallKey {
            agent: AgentId::parse("bot").unwrap(),
            run: RunId::parse("run-1").unwrap(),
            turn: 0,
            tool_use_id: ToolUseId::parse("call-1").unwrap(),
        },
        tool: "issue_refund".to_owned(),
        args_hash: ArgsHash::of(&serde_json::Map::new()).unwrap(),
        payload: PayloadDigest::from_bytes([7; 32]),
        decision: DecisionId::from_uuid(Uuid::from_u128(2)),
        policy_version: PolicyVersion::from_stored("sha256:1".to_owned()),
        asked_by: BTreeSet::new(),
        reason: "over 250".to_owned(),
        requirement: Requirement::one_of_anyone(TTL),
        batch: None,
        attempt: 1,
        created_at: at(0),
        expires_at: at(0).plus(TTL),
        review: None,
        state: State::Pending { votes: vec![] },
    }
}

fn reviewer(name: &str) -> ReviewerName {
    ReviewerName::parse(name).unwrap()
}

fn vote(name: &str, now: Timestamp) -> Vote {
    Vote { reviewer: reviewer(name), groups: BTreeSet::new(), at: now }
}

fn claim(id: &str, now: Timestamp) -> Claim {
    let id = ClaimId::parse(id).unwrap();
    Claim { id, at: now, lease_expires_at: now.plus(LEASE), lease: LEASE, permit_id: "jti".to_owned() }
}

fn report(status: ReportedStatus, now: Timestamp) -> Report {
    Report { status, at: now, payload: None }
}

fn approved() -> Approval {
    pending().approve(vote("ana", at(10)), at(10)).unwrap().0
}

fn executed() -> Approval {
    approved().claim(claim("c1", at(20)), false, at(20)).unwrap()
}

fn id_of(claim: &str) -> ClaimId {
    ClaimId::parse(claim).unwrap()
}

fn why(refused: Refused) -> Obstacle {
    refused.why
}

#[test]
fn an_approve_that_meets_the_requirement_makes_it_claimable() {
    let (approval, counted) = pending().approve(vote("ana", at(10)), at(10)).unwrap();
    assert_eq!((approval.state.name(), counted), (StateName::Approved, Counted::Met));
    assert_eq!(approval.claimable(None, false, at(11)), Ok(Claimable::Now));
}

#[test]
fn the_same_reviewer_counts_once() {
    let requirement = Requirement { anyone: 2, ..Requirement::one_of_anyone(TTL) };
    let approval = Approval { requirement, ..pending() };
    let (approval, counted) = approval.approve(vote("ana", at(10)), at(10)).unwrap();
    assert_eq!(counted, Counted::MoreNeeded);
    let (approval, counted) = approval.approve(vote("ana", at(11)), at(11)).unwrap();
    assert_eq!((approval.state.name(), counted), (StateName::Pending, Counted::Repeated));
    let (approval, counted) = approval.approve(vote("bo", at(12)), at(12)).unwrap();
    assert_eq!((approval.state.name(), counted), (StateName::Approved, Counted::Met));
}

#[test]
fn a_decision_on_a_decided_approval_names_who_and_when() {
    let refused = approved().deny(reviewer("bo"), None, at(30)).unwrap_err();
    assert_eq!(why(refused), Obstacle::Decided { by: "ana".to_owned(), at: at(10) });
    let (denied, _) = pending().deny(reviewer("bo"), None, at(11)).unwrap();
    let refused = denied.approve(vote("ana", at(12)), at(12)).unwrap_err();
    assert_eq!(why(refused), Obstacle::Decided { by: "bo".to_owned(), at: at(11) });
}

#[test]
fn repeating_the_own_decision_changes_nothing() {
    let (again, counted) = approved().approve(vote("ana", at(40)), at(40)).unwrap();
    assert_eq!((again, counted), (approved(), Counted::Repeated));
    let (denied, changed) = pending().deny(reviewer("bo"), Some("no".to_owned()), at(11)).unwrap();
    assert!(changed);
    let (again, changed) = denied.clone().deny(reviewer("bo"), None, at(12)).unwrap();
    assert_eq!((again, changed), (denied, false));
}

#[test]
fn time_ends_what_nobody_decided_or_claimed() {
    for approval in [pending(), approved()] {
        let (early, elapsed) = approval.clone().at(at(3_599));
        assert_eq!((early, elapsed), (approval.clone(), Elapsed::Nothing));
        let (late, elapsed) = approval.at(at(3_600));
        assert_eq!((late.state.name(), elapsed), (StateName::Expired, Elapsed::Expired));
    }
}

#[test]
fn what_ran_out_takes_no_event_although_nobody_swept() {
    let late = at(3_600);
    assert!(pending().approve(vote("ana", late), late).is_err());
    assert!(pending().deny(reviewer("ana"), None, late).is_err());
    assert!(approved().claim(claim("c1", late), false, late).is_err());
    assert!(approved().revoke(reviewer("ana"), late).is_err());
    assert!(pending().cancel(Canceller::Requester, late).is_err());
}

#[test]
fn a_claim_is_given_once() {
    assert_eq!(executed().state.name(), StateName::Executed);
    assert_eq!(why(executed().claim(claim("c2", at(21)), false, at(21)).unwrap_err()), Obstacle::Claimed);
    assert_eq!(why(executed().claimable(None, false, at(21)).unwrap_err()), Obstacle::Claimed);
}

#[test]
fn a_lost_answer_is_given_again_while_the_lease_runs_and_nothing_is_reported() {
    let again = executed().claimable(Some(&id_of("c1")), false, at(100)).unwrap();
    assert_eq!(again, Claimable::Again(claim("c1", at(20))));
    assert!(executed().claimable(Some(&id_of("c1")), false, at(320)).is_err());
    let (reported, _) =
        executed().report(Some(&id_of("c1")), report(ReportedStatus::Succeeded, at(30)), at(30)).unwrap();
    assert!(reported.claimable(Some(&id_of("c1")), false, at(31)).is_err());
}

#[test]
fn nothing_is_claimed_within_the_grace() {
    let grace = Duration::from_secs(60);
    let approval = Approval { requirement: Requirement { grace, ..Requirement::one_of_anyone(TTL) }, ..pending() };
    let (approval, _) = approval.approve(vote("ana", at(10)), at(10)).unwrap();
    assert_eq!(why(approval.claimable(None, false, at(69)).unwrap_err()), Obstacle::Grace { until: at(70) });
    assert_eq!(approval.claimable(None, false, at(70)), Ok(Claimable::Now));
}

#[test]
fn the_first_outcome_stands_and_the_same_one_again_changes_nothing() {
    let claim = id_of("c1");
    let (done, taken) = executed().report(Some(&claim), report(ReportedStatus::Succeeded, at(30)), at(30)).unwrap();
    assert_eq!(taken, Taken::Recorded);
    let (again, taken) = done.clone().report(Some(&claim), report(ReportedStatus::Succeeded, at(31)), at(31)).unwrap();
    assert_eq!((again, taken), (done.clone(), Taken::Repeated));
    let refused = done.report(Some(&claim), report(ReportedStatus::Failed, at(32)), at(32)).unwrap_err();
    assert_eq!(why(refused), Obstacle::OutcomeStands);
}

#[test]
fn a_lease_without_a_report_ends_in_an_unknown_outcome() {
    let (unknown, elapsed) = executed().at(at(320));
    assert_eq!(elapsed, Elapsed::LeaseEnded);
    let State::Executed(execution) = &unknown.state else { panic!("still executed") };
    assert_eq!(execution.outcome, Outcome::Unknown { since: at(320), late: None, settled: None });
    assert_eq!(execution.outcome.word(), Some("unknown"));
    assert!(unknown.claimable(None, false, at(321)).is_err());
}

#[test]
fn a_late_report_is_kept_beside_the_unknown_outcome() {
    let (late, taken) =
        executed().report(Some(&id_of("c1")), report(ReportedStatus::Failed, at(400)), at(400)).unwrap();
    assert_eq!(taken, Taken::Late);
    let State::Executed(execution) = &late.state else { panic!("still executed") };
    assert_eq!(execution.outcome.word(), Some("unknown"));
    assert!(late.claimable(None, true, at(401)).is_err());
}

#[test]
fn a_heartbeat_extends_the_lease_of_the_current_claim_only() {
    let beaten = executed().heartbeat(Some(&id_of("c1")), at(200)).unwrap();
    assert_eq!(beaten.next_deadline(), Some(at(500)));
    assert_eq!(why(executed().heartbeat(Some(&id_of("c9")), at(200)).unwrap_err()), Obstacle::OtherClaim);
    let refused = executed().heartbeat(Some(&id_of("c1")), at(320)).unwrap_err();
    assert_eq!(why(refused), Obstacle::LeaseOver { at: at(320) });
}

#[test]
fn not_started_gives_the_call_back_once() {
    let not_started = |now| report(ReportedStatus::NotStarted, now);
    let (back, taken) = executed().report(Some(&id_of("c1")), not_started(at(30)), at(30)).unwrap();
    assert_eq!((back.state.name(), taken), (StateName::Approved, Taken::GivenBack));
    let again = back.claim(claim("c2", at(40)), false, at(40)).unwrap();
    assert_eq!(
        why(again.clone().report(Some(&id_of("c1")), not_started(at(41)), at(41)).unwrap_err()),
        Obstacle::OtherClaim
    );
    assert_eq!(
        why(again.report(Some(&id_of("c2")), not_started(at(41)), at(41)).unwrap_err()),
        Obstacle::GivenBackBefore
    );
}

#[test]
fn not_started_counts_only_from_a_named_claim_within_its_lease() {
    let refused = executed().report(None, report(ReportedStatus::NotStarted, at(30)), at(30)).unwrap_err();
    assert_eq!(why(refused), Obstacle::OtherClaim);
    let refused =
        executed().report(Some(&id_of("c1")), report(ReportedStatus::NotStarted, at(320)), at(320)).unwrap_err();
    assert_eq!(why(refused), Obstacle::LeaseOver { at: at(320) });
}

#[test]
fn an_idempotent_call_is_claimed_again_after_the_lease_under_a_new_id_until_it_expires() {
    assert!(executed().claimable(Some(&id_of("c2")), true, at(319)).is_err());
    assert_eq!(executed().claimable(Some(&id_of("c2")), true, at(320)), Ok(Claimable::Now));
    assert!(executed().claimable(Some(&id_of("c1")), true, at(320)).is_err());
    assert!(executed().claimable(Some(&id_of("c2")), true, at(3_600)).is_err());
    let again = executed().claim(claim("c2", at(330)), true, at(330)).unwrap();
    assert_eq!(again.next_deadline(), Some(at(630)));
}

#[test]
fn a_person_settles_an_unknown_outcome_once_and_nothing_else() {
    assert_eq!(
        why(executed().settle(reviewer("ana"), SettledStatus::Failed, at(30)).unwrap_err()),
        Obstacle::NothingToSettle
    );
    let settled = executed().settle(reviewer("ana"), SettledStatus::Succeeded, at(320)).unwrap();
    assert!(settled.claimable(None, true, at(321)).is_err());
    assert!(settled.settle(reviewer("bo"), SettledStatus::Failed, at(321)).is_err());
}

#[test]
fn an_approve_is_revoked_only_before_the_claim() {
    let revoked = approved().revoke(reviewer("bo"), at(15)).unwrap();
    assert_eq!(revoked.state.name(), StateName::Denied);
    assert!(executed().revoke(reviewer("bo"), at(25)).is_err());
    assert!(pending().revoke(reviewer("bo"), at(5)).is_err());
}

#[test]
fn a_lifted_denial_stays_a_denial_of_this_call() {
    let (denied, _) = pending().deny(reviewer("ana"), None, at(5)).unwrap();
    let lifted = denied.lift(reviewer("ana"), at(6)).unwrap();
    assert_eq!(lifted.state.name(), StateName::Denied);
    assert_eq!(why(lifted.lift(reviewer("ana"), at(7)).unwrap_err()), Obstacle::NothingToLift);
}

#[test]
fn a_denial_by_the_service_is_nobodys_to_lift() {
    let denied = approved().deny_by_service(ServiceDenial::ArgumentsDiffer, at(20)).unwrap();
    assert_eq!(why(denied.lift(reviewer("ana"), at(21)).unwrap_err()), Obstacle::NothingToLift);
}

#[test]
fn a_cancelled_call_never_runs() {
    for approval in [pending(), approved()] {
        let (cancelled, changed) = approval.cancel(Canceller::Requester, at(15)).unwrap();
        assert!(changed);
        assert!(cancelled.claimable(None, true, at(16)).is_err());
        let (again, changed) = cancelled.clone().cancel(Canceller::Requester, at(16)).unwrap();
        assert_eq!((again, changed), (cancelled, false));
    }
    assert!(executed().cancel(Canceller::Requester, at(25)).is_err());
}

#[test]
fn a_state_survives_being_written_and_read() {
    let (denied, _) = pending().deny(reviewer("ana"), Some("not \u{202e}today".to_owned()), at(5)).unwrap();
    let (unknown, _) = executed().at(at(320));
    let (reported, _) = executed().report(None, report(ReportedStatus::Failed, at(30)), at(30)).unwrap();
    for approval in [pending(), approved(), executed(), denied, unknown, reported] {
        let text = serde_json::to_string(&approval.state).unwrap();
        assert_eq!(serde_json::from_str::<State>(&text).unwrap(), approval.state, "{text}");
    }
}

/// Anything that can happen, with the seconds that pass before it.
#[derive(Clone, Debug)]
enum Step {
    Approve(u8),
    Deny(u8),
    Revoke,
    Lift,
    Cancel,
    Claim(u8, bool),
    Heartbeat(u8),
    Report(u8, ReportedStatus),
    Settle,
    ServiceDenies,
    Nothing,
}

fn steps() -> impl Strategy<Value = Vec<(i64, Step)>> {
    let status =
        prop_oneof![Just(ReportedStatus::Succeeded), Just(ReportedStatus::Failed), Just(ReportedStatus::NotStarted)];
    let step = prop_oneof![
        3 => (0..3_u8).prop_map(Step::Approve),
        1 => (0..3_u8).prop_map(Step::Deny),
        1 => Just(Step::Revoke),
        1 => Just(Step::Lift),
        1 => Just(Step::Cancel),
        4 => (0..4_u8, any::<bool>()).prop_map(|(id, reclaimable)| Step::Claim(id, reclaimable)),
        1 => (0..4_u8).prop_map(Step::Heartbeat),
        2 => (0..4_u8, status).prop_map(|(id, status)| Step::Report(id, status)),
        1 => Just(Step::Settle),
        1 => Just(Step::ServiceDenies),
        1 => Just(Step::Nothing),
    ];
    proptest::collection::vec((prop_oneof![4 => 0..5_i64, 1 => 200..2_000_i64], step), 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever happens in whatever order: no execution without the votes, none after the end, no second one of a call
    /// that is not idempotent unless the first was given back, and ended states stay ended.
    #[test]
    fn no_sequence_of_events_runs_a_call_wrongly(quorum in 1..3_u32, sequence in steps()) {
        let requirement = Requirement { anyone: quorum, ..Requirement::one_of_anyone(TTL) };
        let mut approval = Approval { requirement, ..pending() };
        let mut now = 0;
        let mut voters = BTreeSet::new();
        let mut claims = 0;
        let mut given_back = 0;
        let mut reclaims = 0;
        for (pause, step) in sequence {
            now += pause;
            let t = at(now);
            let before = approval.clone().at(t).0;
            let next = match step {
                Step::Approve(who) => before.clone().approve(vote(&format!("r{who}"), t), t).map(|(next, _)| {
                    voters.insert(who);
                    next
                }),
                Step::Deny(who) => before.clone().deny(reviewer(&format!("r{who}")), None, t).map(|(next, _)| next),
                Step::Revoke => before.clone().revoke(reviewer("r0"), t),
                Step::Lift => before.clone().lift(reviewer("r0"), t),
                Step::Cancel => before.clone().cancel(Canceller::Requester, t).map(|(next, _)| next),
                Step::Claim(id, reclaimable) => {
                    let after_lease = matches!(&before.state, State::Executed(_));
                    before.clone().claim(claim(&format!("c{id}"), t), reclaimable, t).inspect(|_| {
                        claims += 1;
                        if after_lease {
                            assert!(reclaimable);
                            reclaims += 1;
                        }
                    })
                }
                Step::Heartbeat(id) => before.clone().heartbeat(Some(&id_of(&format!("c{id}"))), t),
                Step::Report(id, status) => {
                    before.clone().report(Some(&id_of(&format!("c{id}"))), report(status, t), t).map(|(next, taken)| {
                        if taken == Taken::GivenBack {
                            given_back += 1;
                        }
                        next
                    })
                }
                Step::Settle => before.clone().settle(reviewer("r0"), SettledStatus::Failed, t),
                Step::ServiceDenies => before.clone().deny_by_service(ServiceDenial::ArgumentsDiffer, t),
                Step::Nothing => Ok(before.clone()),
            };
            let ended = matches!(
                before.state,
                State::Denied(_) | State::Expired { .. } | State::Cancelled { .. }
            );
            approval = next.unwrap_or(before.clone());
            prop_assert!(!ended || approval.state.name() == before.state.name(), "an ended approval went on");
            if matches!(approval.state, State::Executed(_)) {
                prop_assert!(u32::try_from(voters.len()).unwrap() >= quorum, "executed without the votes");
            }
            prop_assert!(given_back <= 1);
            prop_assert!(claims <= 1 + given_back + reclaims, "executed twice");
        }
    }
}
