//! Who must approve, who may, and how: on each engine.

use std::time::Duration;

use countersign::{
    app::{
        ReviewerCaller,
        confirm::ToConfirm,
        decide_call::RefusedCall,
        error::Error,
        ports::ApprovalFilter,
        review::{Decided, ReviewDecision},
    },
    domain::{
        approval::{
            confirmation::ConfirmationFault,
            state::{Approval, Obstacle, Refused, State, StateName},
        },
        audit::entry::EventKind,
        decision::ReasonCode,
    },
};
use serde_json::json;

use crate::support::{
    clock::START,
    world::{Setup, World, counted, decision, on_each_engine_with, refused},
};

const PAUSE: Duration = Duration::from_secs(2);

/// A policy whose one tool is approved so.
fn policy(approval: &str) -> String {
    format!(
        "schema = 1\n[agents.billing-bot]\ntools = [\"wire\"]\n[tools.wire]\nrisk = \"send\"\n\
         parameters = {{ properties = {{ n = {{ type = \"integer\" }} }} }}\napproval = {{ {approval} }}\n"
    )
}

/// The same, where somebody owns the agent.
fn owned_by(owner: &str, approval: &str) -> String {
    policy(approval).replace("tools = [\"wire\"]\n", &format!("tools = [\"wire\"]\nowner = \"{owner}\"\n"))
}

/// Ana of finance, Bo of support, and Cy, who manages.
fn setup(policy: String) -> Setup {
    let reviewers: Vec<(_, &[_])> = vec![("ana", &["finance", "support"]), ("bo", &["support"]), ("cy", &["managers"])];
    Setup { policy, reviewers, ..Setup::default() }
}

async fn hold(world: &World) -> Approval {
    world.hold("wire", json!({ "n": 1 })).await.1
}

async fn state(world: &World, approval: &Approval) -> StateName {
    world.stored(approval).await.state.name()
}

/// The first click of an approve with double confirm.
async fn first_click(world: &World, by: &ReviewerCaller, approval: &Approval) -> ToConfirm {
    match world.app.decide_approval(by, approval.id, &decision(approval, true, None)).await.unwrap() {
        Decided::ToConfirm(to_confirm) => to_confirm,
        Decided::Counted(counted) => panic!("{counted:?}"),
    }
}

async fn second_click(
    world: &World,
    by: &ReviewerCaller,
    approval: &Approval,
    confirmation: &str,
) -> Result<Decided, Error> {
    let confirmation = Some(confirmation.to_owned());
    let decision = ReviewDecision { confirmation, ..decision(approval, true, None) };
    world.app.decide_approval(by, approval.id, &decision).await
}

#[tokio::test]
async fn a_quorum_is_distinct_people_and_a_second_approve_of_one_adds_nothing() {
    on_each_engine_with(setup(policy("quorum = 2")), |world| async move {
        let approval = hold(&world).await;
        for _ in 0..2 {
            let approval = world.approve(&world.ana, &approval).await.unwrap().approval;
            assert_eq!(approval.state.name(), StateName::Pending);
            assert_eq!(approval.missing_text(START).as_deref(), Some("one more from anyone"));
        }
        assert_eq!(world.entries_of(EventKind::ApprovalVote).await.len(), 1);
        let approval = world.approve(&world.cy(), &approval).await.unwrap().approval;
        assert_eq!(approval.state.name(), StateName::Approved);
        assert_eq!(approval.missing_text(START), None);
    })
    .await;
}

#[tokio::test]
async fn two_people_who_are_in_both_groups_or_one_fill_two_places_and_one_person_fills_one() {
    on_each_engine_with(setup(policy("reviewers = [\"finance\", \"support\"]")), |world| async move {
        let approval = hold(&world).await;
        let approval = world.approve(&world.ana, &approval).await.unwrap().approval;
        assert_eq!(approval.state.name(), StateName::Pending);
        assert_eq!(approval.counting_votes(), 1);
        let approval = world.approve(&world.bo, &approval).await.unwrap().approval;
        assert_eq!(approval.state.name(), StateName::Approved);
    })
    .await;
}

#[tokio::test]
async fn the_owner_of_an_agent_sees_its_approvals_and_denies_them_and_does_not_approve() {
    on_each_engine_with(setup(owned_by("cy", "reviewers = [\"support\"]")), |world| async move {
        let approval = hold(&world).await;
        let cy = world.cy();
        assert_eq!(world.app.approval_for_reviewer(&cy, approval.id).await.unwrap().approval, approval);
        let listed = world.app.list_approvals(&cy, ApprovalFilter::default(), None, 9).await.unwrap().approvals;
        assert_eq!(listed, std::slice::from_ref(&approval));
        assert!(matches!(world.approve(&cy, &approval).await, Err(Error::NotEligible(_))));
        assert_eq!(state(&world, &approval).await, StateName::Pending);
        world.deny(&cy, &approval, Some("not mine")).await.unwrap();
        assert_eq!(state(&world, &approval).await, StateName::Denied);
        // What is not owned is not seen.
        world.accept(&policy("reviewers = [\"support\"]")).await;
        assert_eq!(world.app.approval_for_reviewer(&cy, approval.id).await, Err(Error::NotFound));
        let listed = world.app.list_approvals(&cy, ApprovalFilter::default(), None, 9).await.unwrap().approvals;
        assert_eq!(listed, []);
    })
    .await;
}

#[tokio::test]
async fn an_owner_in_the_group_approves_only_where_the_policy_allows_it() {
    let allowing = owned_by("bo", "reviewers = [\"support\"], allow_self_approval = true");
    on_each_engine_with(setup(owned_by("bo", "reviewers = [\"support\"]")), move |world| {
        let allowing = allowing.clone();
        async move {
            let approval = hold(&world).await;
            assert!(matches!(world.approve(&world.bo, &approval).await, Err(Error::NotEligible(_))));
            world.accept(&allowing).await;
            // What was held under stricter terms stays so.
            assert!(matches!(world.approve(&world.bo, &approval).await, Err(Error::NotEligible(_))));
            let approval = hold(&world).await;
            world.approve(&world.bo, &approval).await.unwrap();
            assert_eq!(state(&world, &approval).await, StateName::Approved);
        }
    })
    .await;
}

#[tokio::test]
async fn whom_the_run_works_for_does_not_approve_and_may_deny() {
    on_each_engine_with(setup(policy("reviewers = [\"support\"]")), |world| async move {
        let approval = hold(&world).await;
        world.on_behalf_of("BO").await;
        assert!(matches!(world.approve(&world.bo, &approval).await, Err(Error::NotEligible(_))));
        world.deny(&world.bo, &approval, None).await.unwrap();
        assert_eq!(state(&world, &approval).await, StateName::Denied);
    })
    .await;
}

#[tokio::test]
async fn a_call_that_only_who_asks_could_approve_is_denied_at_once() {
    on_each_engine_with(setup(policy("reviewers = [\"finance\"]")), |world| async move {
        hold(&world).await;
        world.on_behalf_of("ana").await;
        let answer = world.decide("wire", json!({ "n": 2 })).await;
        assert_eq!(refused(answer), RefusedCall::Bland { reason: ReasonCode::NoReviewer });
        world.accept(&policy("reviewers = [\"finance\"], allow_self_approval = true")).await;
        hold(&world).await;
    })
    .await;
}

#[tokio::test]
async fn a_vote_of_somebody_who_turned_out_to_ask_carries_no_claim() {
    on_each_engine_with(setup(policy("")), |world| async move {
        let (request, approval) = world.approved("wire", json!({ "n": 1 })).await;
        world.on_behalf_of("ana").await;
        let claim = world.claim(&approval, &request.call.args, None).await;
        assert_eq!(claim, Err(Error::PolicyChanged("the votes no longer meet the requirement".to_owned())));
        world.on_behalf_of("bo").await;
        world.claim(&approval, &request.call.args, None).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_vote_of_somebody_who_left_the_group_or_the_settings_carries_no_claim() {
    on_each_engine_with(setup(policy("reviewers = [\"finance\"]")), |world| async move {
        let (request, approval) = world.approved("wire", json!({ "n": 1 })).await;
        let approving = policy("reviewers = [\"finance\"]");
        let moved: Vec<(_, &[_])> = vec![("ana", &["support"]), ("bo", &["finance"])];
        let gone: Vec<(_, &[_])> = vec![("bo", &["finance"])];
        for reviewers in [moved, gone] {
            let later = world.another_instance(Setup { reviewers, ..setup(approving.clone()) }).await;
            let claim = later.claim(&approval, &request.call.args, None).await;
            assert!(matches!(claim, Err(Error::PolicyChanged(_))), "{claim:?}");
        }
        world.claim(&approval, &request.call.args, None).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_group_joined_after_the_vote_does_not_make_it_count_for_that_group() {
    on_each_engine_with(setup(policy("reviewers = [\"support\"]")), |world| async move {
        let (request, approval) = world.approved("wire", json!({ "n": 1 })).await;
        let reviewers: Vec<(_, &[_])> = vec![("ana", &["managers"]), ("bo", &["support"])];
        let later = world.another_instance(Setup { reviewers, ..setup(policy("reviewers = [\"support\"]")) }).await;
        let claim = later.claim(&approval, &request.call.args, None).await;
        assert!(matches!(claim, Err(Error::PolicyChanged(_))), "{claim:?}");
    })
    .await;
}

#[tokio::test]
async fn an_escalated_group_sees_nothing_before_its_moment_and_approves_after_it() {
    let escalating = policy("reviewers = [\"finance\"], escalate = [\"managers\"], escalate_after = \"1h\"");
    on_each_engine_with(setup(escalating), |world| async move {
        let approval = hold(&world).await;
        let cy = world.cy();
        let listed = async || {
            let page = world.app.list_approvals(&cy, ApprovalFilter::default(), None, 9).await.unwrap();
            page.approvals.len()
        };
        world.clock.advance(Duration::from_secs(3_599));
        assert_eq!(world.app.approval_for_reviewer(&cy, approval.id).await, Err(Error::NotFound));
        assert_eq!(world.approve(&cy, &approval).await, Err(Error::NotFound));
        assert_eq!(listed().await, 0);
        world.clock.advance(Duration::from_secs(1));
        let seen = world.app.approval_for_reviewer(&cy, approval.id).await.unwrap().approval;
        let now = START.plus(Duration::from_secs(3_600));
        assert_eq!(seen.missing_text(now).as_deref(), Some("one more from finance (managers may fill in)"));
        assert_eq!(listed().await, 1);
        let approval = world.approve(&cy, &approval).await.unwrap().approval;
        assert_eq!(approval.state.name(), StateName::Approved);
    })
    .await;
}

#[tokio::test]
async fn an_approve_with_double_confirm_counts_with_its_confirmation_and_once() {
    on_each_engine_with(setup(policy("double_confirm = true")), |world| async move {
        let approval = hold(&world).await;
        let to_confirm = first_click(&world, &world.ana, &approval).await;
        assert_eq!((to_confirm.valid_from, to_confirm.expires_at), (START.plus(PAUSE), START.plus(PAUSE * 150)));
        assert_eq!(world.stored(&approval).await, approval);
        assert_eq!(world.entries_of(EventKind::ApprovalToConfirm).await.len(), 1);
        assert_eq!(world.entries_of(EventKind::ApprovalVote).await.len(), 0);

        let text = &to_confirm.confirmation;
        let early = second_click(&world, &world.ana, &approval, text).await;
        assert_eq!(early, Err(Error::Confirmation(ConfirmationFault::Early { valid_from: to_confirm.valid_from })));
        world.clock.advance(PAUSE);
        let others = second_click(&world, &world.bo, &approval, text).await;
        assert_eq!(others, Err(Error::Confirmation(ConfirmationFault::Unknown)));
        let wrong = second_click(&world, &world.ana, &approval, "cnf_0").await;
        assert_eq!(wrong, Err(Error::Confirmation(ConfirmationFault::Unknown)));
        let confirmed = counted(second_click(&world, &world.ana, &approval, text).await.unwrap()).approval;
        assert_eq!(confirmed.state.name(), StateName::Approved);
        assert_eq!(world.entries_of(EventKind::ApprovalVote).await.len(), 1);
        // Repeating one's own is no fault, with whatever confirmation.
        counted(second_click(&world, &world.ana, &approval, text).await.unwrap());
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn a_confirmation_is_for_one_approval_and_for_the_last_first_click() {
    on_each_engine_with(setup(policy("double_confirm = true")), |world| async move {
        let (one, other) = (hold(&world).await, hold(&world).await);
        let first = first_click(&world, &world.ana, &one).await;
        let of_other = first_click(&world, &world.ana, &other).await;
        let again = first_click(&world, &world.ana, &one).await;
        world.clock.advance(PAUSE);
        for text in [&first.confirmation, &of_other.confirmation] {
            let answer = second_click(&world, &world.ana, &one, text).await;
            assert_eq!(answer, Err(Error::Confirmation(ConfirmationFault::Unknown)));
        }
        counted(second_click(&world, &world.ana, &one, &again.confirmation).await.unwrap());
        world.clock.advance(Duration::from_secs(298));
        let late = second_click(&world, &world.ana, &other, &of_other.confirmation).await;
        assert_eq!(late, Err(Error::Confirmation(ConfirmationFault::Expired { at: of_other.expires_at })));
    })
    .await;
}

#[tokio::test]
async fn a_denial_takes_no_second_click_and_who_may_not_approve_is_given_no_confirmation() {
    on_each_engine_with(setup(owned_by("cy", "double_confirm = true")), |world| async move {
        let approval = hold(&world).await;
        let cy = world.cy();
        assert!(matches!(world.approve(&cy, &approval).await, Err(Error::NotEligible(_))));
        world.deny(&cy, &approval, None).await.unwrap();
        let late = world.approve(&world.ana, &approval).await;
        let Err(Error::Refused(Refused { why, .. })) = late else { panic!("{late:?}") };
        assert_eq!(why, Obstacle::Decided { by: "cy".to_owned(), at: START });
    })
    .await;
}

#[tokio::test]
async fn within_the_grace_an_approve_is_taken_back_and_nothing_is_claimed() {
    on_each_engine_with(setup(policy("grace = \"10m\"")), |world| async move {
        let (request, approval) = world.approved("wire", json!({ "n": 1 })).await;
        let until = START.plus(Duration::from_secs(600));
        let early = world.claim(&approval, &request.call.args, None).await;
        let Err(Error::Refused(Refused { why, .. })) = early else { panic!("{early:?}") };
        assert_eq!(why, Obstacle::Grace { until });
        world.app.revoke_approval(&world.bo, approval.id, Some("wait")).await.unwrap();
        world.clock.set(until);
        assert!(world.claim(&approval, &request.call.args, None).await.is_err());

        let (request, approval) = world.approved("wire", json!({ "n": 2 })).await;
        world.clock.advance(Duration::from_secs(600));
        let claimed = world.claim(&approval, &request.call.args, None).await.unwrap();
        let late = world.app.revoke_approval(&world.bo, claimed.approval, None).await;
        assert!(matches!(late, Err(Error::Refused(_))), "{late:?}");
    })
    .await;
}

#[tokio::test]
async fn a_requirement_that_was_raised_meanwhile_refuses_the_claim_and_asks_anew() {
    for raised in ["quorum = 2", "double_confirm = true", "grace = \"1m\"", "reviewers = [\"finance\"]"] {
        let raised = policy(raised);
        on_each_engine_with(setup(policy("")), move |world| {
            let raised = raised.clone();
            async move {
                let (mut request, approval) = world.approved("wire", json!({ "n": 1 })).await;
                world.accept(&raised).await;
                let claim = world.claim(&approval, &request.call.args, None).await;
                assert!(matches!(claim, Err(Error::PolicyChanged(_))), "{claim:?}");
                assert_eq!(state(&world, &approval).await, StateName::Approved);
                // A policy that was put right lets it pass.
                world.accept(&policy("")).await;
                request.claim = true;
                world.ask(&request).await.unwrap();
                assert!(matches!(world.stored(&approval).await.state, State::Executed(_)));
            }
        })
        .await;
    }
}
