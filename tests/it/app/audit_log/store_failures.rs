//! A store that fails: nothing is permitted, and asking again finds what became of it.

use countersign::{
    app::{
        decide_call::{DecideAnswer, DecideRequest},
        error::Error,
        ports::StoreError,
    },
    domain::{approval::state::StateName, audit::entry::EventKind},
};
use serde_json::json;

use crate::support::{
    faulty_store::{At, Faults},
    world::{POLICY, Setup, World, allowed, files, held, on_each_engine_with, policy},
};

fn unavailable() -> StoreError {
    StoreError::Unavailable("gone".to_owned())
}

fn unknown() -> StoreError {
    StoreError::CommitUnknown("lost".to_owned())
}

fn contended() -> StoreError {
    StoreError::Contended("busy".to_owned())
}

/// Runs a test in a world whose store fails as it is told to.
async fn with_faults<F: Future<Output = ()> + Send + 'static>(test: impl Fn(World, Faults) -> F) {
    let faults = Faults::default();
    let setup = Setup { wrap: Some(faults.wrap()), ..Setup::default() };
    on_each_engine_with(setup, |world| test(world, faults.clone())).await;
    assert!(faults.are_spent());
}

fn reading(world: &World) -> DecideRequest {
    world.call("read_file", json!({ "path": "a" }))
}

fn mailing(world: &World) -> DecideRequest {
    world.call("send_email", json!({ "to": "x" }))
}

#[tokio::test]
async fn a_decision_that_cannot_be_written_is_no_permission() {
    with_faults(|world, faults| async move {
        faults.then(At::Append, unavailable()).then(At::Begin, unavailable()).then(At::Commit, unavailable());
        let before = world.store.head().await.unwrap();
        assert_eq!(world.ask(&reading(&world)).await, Err(Error::Store(unavailable())));
        let mail = mailing(&world);
        for _ in 0..2 {
            assert_eq!(world.ask(&mail).await, Err(Error::Store(unavailable())));
        }
        assert_eq!(world.store.head().await.unwrap(), before);
        allowed(world.ask(&reading(&world)).await.unwrap());
        held(world.ask(&mail).await.unwrap());
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn a_decision_whose_commit_has_an_unknown_fate_is_no_permission_and_the_log_goes_on() {
    with_faults(|world, faults| async move {
        for at in [At::Append, At::Appended] {
            faults.then(at, unknown());
            assert_eq!(world.ask(&reading(&world)).await, Err(Error::Store(unknown())));
            allowed(world.ask(&reading(&world)).await.unwrap());
        }
        // The one that was committed after all is in the log; its caller asked again.
        assert_eq!(world.entries_of(EventKind::Decision).await.len(), 3);
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn a_held_call_whose_commit_has_an_unknown_fate_is_found_by_asking_again() {
    with_faults(|world, faults| async move {
        for at in [At::Commit, At::Committed] {
            let mail = mailing(&world);
            faults.then(at, unknown());
            assert_eq!(world.ask(&mail).await, Err(Error::Store(unknown())));
            let approval = held(world.ask(&mail).await.unwrap()).approval;
            assert_eq!(held(world.ask(&mail).await.unwrap()).approval, approval);
        }
        assert_eq!(world.entries_of(EventKind::ApprovalRequested).await.len(), 2);
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn a_claim_whose_commit_has_an_unknown_fate_is_found_by_its_claim_id() {
    with_faults(|world, faults| async move {
        for at in [At::Commit, At::Committed] {
            let (request, approval) = world.approved("send_email", json!({ "to": format!("{at:?}") })).await;
            faults.then(at, unknown());
            let lost = world.claim(&approval, &request.call.args, Some("claim-1")).await;
            assert_eq!(lost, Err(Error::Store(unknown())));
            let claim = world.claim(&approval, &request.call.args, Some("claim-1")).await.unwrap();
            assert_eq!(claim.approval, approval.id);
            assert!(world.claim(&approval, &request.call.args, Some("claim-2")).await.is_err());
        }
        assert_eq!(world.entries_of(EventKind::Claim).await.len(), 2);
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn a_claim_that_cannot_be_written_is_none() {
    with_faults(|world, faults| async move {
        let (request, approval) = world.approved("send_email", json!({ "to": "x" })).await;
        faults.then(At::Commit, unavailable());
        let claim = world.claim(&approval, &request.call.args, None).await;
        assert_eq!(claim, Err(Error::Store(unavailable())));
        assert_eq!(world.stored(&approval).await.state.name(), StateName::Approved);
        world.claim(&approval, &request.call.args, None).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_transaction_that_was_in_the_way_is_no_failure() {
    with_faults(|world, faults| async move {
        let four_times = |at| {
            (0..4).for_each(|_| {
                faults.then(at, contended());
            })
        };
        four_times(At::Append);
        allowed(world.ask(&reading(&world)).await.unwrap());
        four_times(At::Begin);
        let approval = held(world.ask(&mailing(&world)).await.unwrap()).approval;
        four_times(At::Commit);
        world.approve(&world.ana, &approval).await.unwrap();
        assert_eq!(world.entries_of(EventKind::Decision).await.len(), 2);
        assert_eq!(world.entries_of(EventKind::ApprovalVote).await.len(), 1);
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn a_store_that_is_always_in_the_way_is_a_failure_at_last() {
    with_faults(|world, faults| async move {
        for _ in 0..5 {
            faults.then(At::Append, contended());
        }
        assert_eq!(world.ask(&reading(&world)).await, Err(Error::Store(contended())));
        for _ in 0..5 {
            faults.then(At::Begin, contended());
        }
        assert_eq!(world.ask(&mailing(&world)).await, Err(Error::Store(contended())));
        let answer = world.ask(&reading(&world)).await;
        assert!(matches!(answer, Ok(DecideAnswer::Allowed(_))), "{answer:?}");
    })
    .await;
}

#[tokio::test]
async fn a_policy_that_cannot_be_stored_does_not_decide() {
    with_faults(|world, faults| async move {
        let before = world.app.policy().version().clone();
        let stricter = POLICY.replace("risk = \"read\"", "risk = \"send\"");
        for (at, error) in [(At::Commit, unavailable()), (At::Committed, unknown())] {
            faults.then(at, error.clone());
            let answer = world.app.accept_policy(policy(&stricter), &files(&stricter)).await;
            assert_eq!(answer, Err(Error::Store(error)));
            assert_eq!(*world.app.policy().version(), before);
        }
        world.accept(&stricter).await;
        assert_ne!(*world.app.policy().version(), before);
    })
    .await;
}
