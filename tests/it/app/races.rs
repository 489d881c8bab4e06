//! Many at once, on one instance and on two: one wins, whoever it is, and the log stays whole.

use std::{future::Future, sync::Arc, time::Duration};

use countersign::{
    app::{decide_call::DecideAnswer, error::Error},
    domain::{
        approval::{
            outcome::ReportedStatus,
            state::{Obstacle, Refused, StateName},
        },
        audit::entry::EventKind,
        decision::ReasonCode,
    },
};
use serde_json::json;
use tokio::{sync::Barrier, task::JoinSet};

use crate::support::world::{POLICY, Setup, World, on_each_engine, on_each_engine_with};

/// Runs these tasks at once, each on one of the instances.
pub(super) async fn at_once<T, F>(
    count: usize,
    instances: &[Arc<World>],
    task: impl Fn(usize, Arc<World>) -> F,
) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let start = Arc::new(Barrier::new(count));
    let mut racing = JoinSet::new();
    for racer in 0..count {
        let work = task(racer, Arc::clone(&instances[racer % instances.len()]));
        let start = Arc::clone(&start);
        racing.spawn(async move {
            start.wait().await;
            work.await
        });
    }
    racing.join_all().await
}

async fn two_instances(world: World) -> [Arc<World>; 2] {
    let another = world.another_instance(Setup::default()).await;
    [Arc::new(world), Arc::new(another)]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn exactly_one_of_fifty_claims_gets_it() {
    on_each_engine(|world| async move {
        let worlds = two_instances(world).await;
        let (request, approval) = worlds[0].approved("send_email", json!({ "to": "x" })).await;
        let answers = at_once(50, &worlds, |racer, world| {
            let (args, approval) = (request.call.args.clone(), approval.clone());
            async move { world.claim(&approval, &args, Some(&format!("claim-{racer}"))).await }
        })
        .await;
        let given = answers.iter().filter(|answer| answer.is_ok()).count();
        let refused = answers
            .iter()
            .filter(|answer| matches!(answer, Err(Error::Refused(Refused { why: Obstacle::Claimed, .. }))))
            .count();
        assert_eq!((given, refused), (1, 49));
        assert_eq!(worlds[0].entries_of(EventKind::Claim).await.len(), 1);
        worlds[0].assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn exactly_one_of_many_claims_within_decide_and_without_gets_it() {
    on_each_engine(|world| async move {
        let worlds = two_instances(world).await;
        let (mut request, approval) = worlds[0].approved("send_email", json!({ "to": "x" })).await;
        request.claim = true;
        let given = at_once(20, &worlds, |racer, world| {
            let (request, approval) = (request.clone(), approval.clone());
            async move {
                if racer % 4 < 2 {
                    match world.ask(&request).await {
                        Ok(DecideAnswer::Claimed(..)) => true,
                        Err(Error::AlreadyExecuted(_)) => false,
                        answer => panic!("{answer:?}"),
                    }
                } else {
                    world.claim(&approval, &request.call.args, None).await.is_ok()
                }
            }
        })
        .await;
        assert_eq!(given.iter().filter(|given| **given).count(), 1);
        assert_eq!(worlds[0].entries_of(EventKind::Claim).await.len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_same_claim_sent_twice_at_once_is_one_claim_with_one_answer() {
    on_each_engine(|world| async move {
        let worlds = two_instances(world).await;
        let (request, approval) = worlds[0].approved("send_email", json!({ "to": "x" })).await;
        let answers = at_once(8, &worlds, |_, world| {
            let (args, approval) = (request.call.args.clone(), approval.clone());
            async move { world.claim(&approval, &args, Some("claim-1")).await.unwrap() }
        })
        .await;
        assert!(answers.iter().all(|answer| *answer == answers[0]));
        assert_eq!(worlds[0].entries_of(EventKind::Claim).await.len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn approve_deny_and_cancel_at_once_end_in_one_state_that_the_log_tells_alike() {
    on_each_engine(|world| async move {
        let worlds = two_instances(world).await;
        for round in 0..5 {
            let (_, approval) = worlds[0].hold("send_email", json!({ "to": round.to_string() })).await;
            let won = at_once(9, &worlds, |racer, world| {
                let approval = approval.clone();
                async move {
                    match racer % 3 {
                        0 => world.approve(&world.ana, &approval).await.map(drop),
                        1 => world.deny(&world.bo, &approval, None).await.map(drop),
                        _ => world.app.cancel_call(&world.bot, approval.id, None).await.map(drop),
                    }
                    .is_ok()
                    .then_some(racer % 3)
                }
            })
            .await;
            let won: Vec<_> = won.into_iter().flatten().collect();
            let state = worlds[0].stored(&approval).await.state.name();
            match state {
                // An approve can still be withdrawn by who asked, so both may have been.
                StateName::Cancelled => assert!(won.contains(&2) && !won.contains(&1), "{won:?}"),
                StateName::Approved => assert!(won.iter().all(|who| *who == 0), "{won:?}"),
                StateName::Denied => assert!(won.iter().all(|who| *who == 1), "{won:?}"),
                StateName::Pending | StateName::Expired | StateName::Executed => panic!("{state}"),
            }
        }
        let log = worlds[0].events().await;
        let count = |event| log.iter().filter(|found| **found == event).count();
        assert!(count(EventKind::ApprovalDenied) + count(EventKind::ApprovalCancelled) <= 5);
        worlds[0].assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn everything_at_once_at_the_edge_of_expiry_ends_in_one_state() {
    on_each_engine(|world| async move {
        let worlds = two_instances(world).await;
        let ends = [
            (EventKind::Claim, StateName::Executed),
            (EventKind::ApprovalRevoked, StateName::Denied),
            (EventKind::ApprovalCancelled, StateName::Cancelled),
            (EventKind::ApprovalExpired, StateName::Expired),
        ];
        for round in 0..5 {
            let (request, approval) = worlds[0].approved("send_email", json!({ "to": round.to_string() })).await;
            worlds[0].clock.set(approval.expires_at.minus(Duration::from_micros(1)));
            at_once(10, &worlds, |racer, world| {
                let (request, approval) = (request.clone(), approval.clone());
                async move {
                    match racer {
                        0 => world.clock.set(approval.expires_at),
                        1 | 2 => drop(world.app.record_elapsed().await.unwrap()),
                        3 | 4 => drop(world.claim(&approval, &request.call.args, None).await),
                        5 | 6 => drop(world.app.revoke_approval(&world.ana, approval.id, None).await),
                        _ => drop(world.app.cancel_call(&world.bot, approval.id, None).await),
                    }
                }
            })
            .await;
            worlds[0].app.record_elapsed().await.unwrap();
            let state = worlds[0].stored(&approval).await.state.name();
            let ended: Vec<_> = worlds[0]
                .store
                .entries_after(0, u32::MAX)
                .await
                .unwrap()
                .into_iter()
                .filter(|sealed| sealed.entry.approval == Some(approval.id))
                .filter_map(|sealed| ends.iter().find(|(event, _)| *event == sealed.entry.event))
                .map(|(_, state)| *state)
                .collect();
            assert_eq!(ended, [state]);
        }
        worlds[0].assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_call_asked_many_times_at_once_is_held_once() {
    on_each_engine(|world| async move {
        let worlds = two_instances(world).await;
        let request = worlds[0].call("send_email", json!({ "to": "x" }));
        let ids = at_once(12, &worlds, |_, world| {
            let request = request.clone();
            async move { crate::support::world::held(world.ask(&request).await.unwrap()).approval.id }
        })
        .await;
        assert!(ids.iter().all(|id| *id == ids[0]));
        assert_eq!(worlds[0].entries_of(EventKind::ApprovalRequested).await.len(), 1);
        assert_eq!(worlds[0].entries_of(EventKind::Decision).await.len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_calls_at_once_never_hold_more_than_the_cap() {
    on_each_engine(|world| async move {
        let worlds = two_instances(world).await;
        let answers = at_once(16, &worlds, |racer, world| async move {
            world.decide("send_email", json!({ "to": racer.to_string() })).await
        })
        .await;
        let held = answers.iter().filter(|answer| matches!(answer, DecideAnswer::Held(_))).count();
        assert_eq!(held, 10);
        let over = countersign::app::decide_call::RefusedCall::Bland { reason: ReasonCode::OpenApprovalsOfRun };
        let refused = answers.iter().filter(|answer| **answer == DecideAnswer::Refused(over.clone())).count();
        assert_eq!(refused, 6);
        worlds[0].assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_same_call_asked_and_asked_for_a_human_at_once_never_runs_after_it_was_held() {
    on_each_engine(|world| async move {
        let worlds = two_instances(world).await;
        for round in 0..5 {
            let request = worlds[0].call("read_file", json!({ "path": round.to_string() }));
            at_once(8, &worlds, |racer, world| {
                let mut request = request.clone();
                request.hold = racer % 2 == 0;
                async move { drop(world.ask(&request).await.unwrap()) }
            })
            .await;
            let mut held = false;
            for sealed in worlds[0].entries_of(EventKind::Decision).await {
                if sealed.entry.call.as_ref() == Some(&request.call.key) {
                    assert!(!held, "decided again after it was held");
                    held = sealed.entry.approval.is_some();
                }
            }
            assert!(held);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_call_that_is_held_while_policy_loosens_elsewhere_never_gets_a_second_way_to_run() {
    on_each_engine(|world| async move {
        let worlds = two_instances(world).await;
        let loose = POLICY.replace("[tools.send_email]\n", "[tools.send_email]\ndefault = \"allow\"\n");
        worlds[1].accept(&loose).await;
        for round in 0..5 {
            let request = worlds[0].call("send_email", json!({ "to": round.to_string() }));
            at_once(10, &worlds, |_, world| {
                let request = request.clone();
                async move { drop(world.ask(&request).await.unwrap()) }
            })
            .await;
            let mut held = None;
            for sealed in worlds[0].entries_of(EventKind::Decision).await {
                if sealed.entry.call.as_ref() == Some(&request.call.key) {
                    assert_eq!(held, None, "decided again after it was held");
                    held = sealed.entry.approval;
                }
            }
            // Whoever asks first may have been allowed; once somebody held it, only its approval lets it run.
            let held = held.expect("the stricter instance asked as well");
            for world in &worlds {
                let answer = world.ask(&request).await.unwrap();
                assert!(matches!(answer, DecideAnswer::Held(again) if again.approval.id == held));
            }
        }
        worlds[0].assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_vote_of_each_group_at_once_meets_the_requirement_once() {
    on_each_engine(|world| async move {
        let worlds = two_instances(world).await;
        let (_, approval) = worlds[0].hold("issue_refund", json!({ "order": "o", "amount": 5001 })).await;
        at_once(8, &worlds, |racer, world| {
            let approval = approval.clone();
            async move {
                let by = if racer % 4 < 2 { &world.ana } else { &world.bo };
                world.approve(by, &approval).await.unwrap();
            }
        })
        .await;
        assert_eq!(worlds[0].stored(&approval).await.state.name(), StateName::Approved);
        assert_eq!(worlds[0].entries_of(EventKind::ApprovalVote).await.len(), 2);
        assert_eq!(worlds[0].entries_of(EventKind::ApprovalApproved).await.len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_different_reports_at_once_one_stands() {
    on_each_engine(|world| async move {
        let worlds = two_instances(world).await;
        let (_, claim) = worlds[0].claimed("send_email", json!({ "to": "x" })).await;
        let answers = at_once(8, &worlds, |racer, world| {
            let claim = claim.clone();
            let status = if racer % 4 < 2 { ReportedStatus::Succeeded } else { ReportedStatus::Failed };
            async move { world.report(&claim, status).await }
        })
        .await;
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 4);
        assert_eq!(answers.iter().filter(|answer| **answer == Err(Error::OutcomeStands)).count(), 4);
        assert_eq!(worlds[0].entries_of(EventKind::Outcome).await.len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_idempotent_call_is_claimed_again_by_one_of_many() {
    on_each_engine(|world| async move {
        let worlds = two_instances(world).await;
        let (request, claim) = worlds[0].claimed("issue_refund", json!({ "order": "o", "amount": 300 })).await;
        worlds[0].clock.set(claim.lease_expires_at);
        let approval = worlds[0].store.approval(claim.approval).await.unwrap().unwrap();
        let answers = at_once(10, &worlds, |racer, world| {
            let (args, approval) = (request.call.args.clone(), approval.clone());
            async move { world.claim(&approval, &args, Some(&format!("again-{racer}"))).await }
        })
        .await;
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_policy_that_is_replaced_meanwhile_decides_each_call_whole() {
    let loose = POLICY.to_owned();
    let strict = loose.replace("risk = \"draft\"", "risk = \"destructive\"");
    on_each_engine_with(Setup::with_policy(&loose.clone()), move |world| {
        let (loose, strict) = (loose.clone(), strict.clone());
        async move {
            let worlds = [Arc::new(world)];
            at_once(12, &worlds, |racer, world| {
                let policy = if racer % 4 == 0 { loose.clone() } else { strict.clone() };
                async move {
                    if racer % 2 == 0 {
                        world.accept(&policy).await;
                    } else {
                        world.decide("write_note", json!({ "text": racer.to_string() })).await;
                    }
                }
            })
            .await;
            let version = |text: &str| crate::support::world::policy(text).version().to_string();
            let (loose, strict) = (version(&loose), version(&strict));
            for sealed in worlds[0].entries_of(EventKind::Decision).await {
                use countersign::domain::verdict::Verdict::{AllowAudited, RequireApproval};
                let expected = if sealed.entry.policy_version.as_ref() == Some(&loose) {
                    AllowAudited
                } else {
                    assert_eq!(sealed.entry.policy_version.as_ref(), Some(&strict));
                    RequireApproval
                };
                assert_eq!(sealed.entry.verdict, Some(expected));
            }
            worlds[0].assert_log_is_whole().await;
        }
    })
    .await;
}
