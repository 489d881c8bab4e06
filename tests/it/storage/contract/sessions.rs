//! Sessions, links, and sign-ins that are under way.

use std::time::Duration;

use countersign::domain::{
    identity::ReviewerName,
    ids::{ApprovalId, SessionId},
    session::{Freshness, Link, Session, SessionRecord, SessionScope, SignInAttempt, SignInMethod},
};

use crate::support::{
    sample::{START, at, uuid},
    store::TestStore,
};

super::on_both_engines! {
    a_session_is_kept_whole_and_revoked_once,
    the_sessions_of_a_person_that_stand_are_listed_from_the_newest,
    sessions_that_were_over_long_ago_are_forgotten,
    a_link_is_kept_whole_and_spent_once,
    of_two_that_spend_a_link_one_does,
    links_to_inboxes_are_dropped_and_others_are_not,
    a_sign_in_is_taken_out_once,
}

fn name(name: &str) -> ReviewerName {
    ReviewerName::parse(name).unwrap()
}

fn session(reviewer: &str, seed: u8) -> SessionRecord {
    SessionRecord {
        session: Session {
            id: SessionId::from_uuid(uuid()),
            reviewer: name(reviewer),
            method: SignInMethod::ALL[usize::from(seed) % 3],
            scope: SessionScope::of((seed % 2 == 1).then(|| ApprovalId::from_uuid(uuid()))),
            authenticated_at: at(1),
            opened_at: at(2),
            last_seen_at: at(3),
            ends_at: at(100),
        },
        hash: [seed; 32],
        revoked_at: None,
    }
}

fn link(seed: u8, approval: Option<ApprovalId>) -> Link {
    Link {
        hash: [seed; 32],
        reviewer: name("ana"),
        scope: SessionScope::of(approval),
        created_at: START,
        expires_at: at(60),
        spent_at: None,
    }
}

async fn a_session_is_kept_whole_and_revoked_once(test: TestStore) {
    let (first, second) = (session("ana", 1), session("ben", 2));
    let store = test.store();
    assert_eq!(store.session(&first.hash).await, Ok(None));
    test.commit(async |tx| {
        tx.insert_session(&first, START).await.unwrap();
        tx.insert_session(&second, START).await.unwrap();
        assert_eq!(tx.session(first.session.id).await, Ok(Some(first.clone())));
        assert_eq!(tx.session(SessionId::from_uuid(uuid())).await, Ok(None));
    })
    .await;
    assert_eq!(store.session(&first.hash).await, Ok(Some(first.clone())));
    assert_eq!(store.session(&second.hash).await, Ok(Some(second.clone())));
    test.commit(async |tx| {
        assert_eq!(tx.revoke_session(first.session.id, at(5)).await, Ok(true));
        assert_eq!(tx.revoke_session(first.session.id, at(6)).await, Ok(false));
        tx.session_seen(second.session.id, at(9)).await.unwrap();
        tx.session_seen(second.session.id, at(8)).await.unwrap();
    })
    .await;
    assert_eq!(store.session(&first.hash).await.unwrap().unwrap().revoked_at, Some(at(5)));
    assert_eq!(store.session(&second.hash).await.unwrap().unwrap().session.last_seen_at, at(9));
}

async fn the_sessions_of_a_person_that_stand_are_listed_from_the_newest(test: TestStore) {
    let records: Vec<_> = (0..4).map(|seed| session("ana", seed)).collect();
    let others = session("ben", 9);
    test.commit(async |tx| {
        for record in records.iter().chain([&others]) {
            tx.insert_session(record, START).await.unwrap();
        }
        tx.revoke_session(records[1].session.id, at(5)).await.unwrap();
    })
    .await;
    let listed = test.store().sessions_of(&name("ana"), at(99)).await.unwrap();
    let mut expected = [&records[0], &records[2], &records[3]].map(|record| record.session.id);
    expected.sort();
    expected.reverse();
    assert_eq!(listed.iter().map(|record| record.session.id).collect::<Vec<_>>(), expected);
    assert_eq!(test.store().sessions_of(&name("ana"), at(100)).await, Ok(vec![]));
}

async fn sessions_that_were_over_long_ago_are_forgotten(test: TestStore) {
    let (old, new) = (session("ana", 1), session("ana", 2));
    test.commit(async |tx| tx.insert_session(&old, at(100)).await.unwrap()).await;
    assert!(test.store().session(&old.hash).await.unwrap().is_some());
    test.commit(async |tx| tx.insert_session(&new, at(101)).await.unwrap()).await;
    assert_eq!(test.store().session(&old.hash).await, Ok(None));
    assert!(test.store().session(&new.hash).await.unwrap().is_some());
}

async fn a_link_is_kept_whole_and_spent_once(test: TestStore) {
    let kept = link(1, Some(ApprovalId::from_uuid(uuid())));
    test.commit(async |tx| {
        tx.insert_link(&kept, START).await.unwrap();
        assert_eq!(tx.link(&kept.hash).await, Ok(Some(kept.clone())));
        assert_eq!(tx.link(&[2; 32]).await, Ok(None));
        assert_eq!(tx.spend_link(&kept.hash, at(5)).await, Ok(true));
        assert_eq!(tx.spend_link(&kept.hash, at(6)).await, Ok(false));
        assert_eq!(tx.link(&kept.hash).await.unwrap().unwrap().spent_at, Some(at(5)));
    })
    .await;
    test.commit(async |tx| tx.insert_link(&link(3, None), at(61)).await.unwrap()).await;
    test.commit(async |tx| assert_eq!(tx.link(&kept.hash).await, Ok(None), "it was over")).await;
}

async fn of_two_that_spend_a_link_one_does(test: TestStore) {
    let kept = link(1, None);
    test.commit(async |tx| tx.insert_link(&kept, START).await.unwrap()).await;
    let other = test.of_another_instance().await;
    let mut tx = test.store().begin().await.unwrap();
    assert!(tx.link(&kept.hash).await.unwrap().is_some());
    assert_eq!(tx.spend_link(&kept.hash, at(5)).await, Ok(true));
    let late = async {
        let mut tx = other.begin().await.unwrap();
        tx.link(&kept.hash).await.unwrap().unwrap().spent_at
    };
    let early = async {
        // Lets the other one come as far as it can.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        tx.commit().await.unwrap();
    };
    let (seen, ()) = tokio::time::timeout(Duration::from_secs(30), async { tokio::join!(late, early) }).await.unwrap();
    assert_eq!(seen, Some(at(5)));
}

async fn links_to_inboxes_are_dropped_and_others_are_not(test: TestStore) {
    let (inbox, approval) = (link(1, None), link(2, Some(ApprovalId::from_uuid(uuid()))));
    test.commit(async |tx| {
        tx.insert_link(&inbox, START).await.unwrap();
        tx.insert_link(&approval, START).await.unwrap();
        tx.drop_inbox_links().await.unwrap();
        assert_eq!(tx.link(&inbox.hash).await, Ok(None));
        assert_eq!(tx.link(&approval.hash).await, Ok(Some(approval.clone())));
    })
    .await;
}

async fn a_sign_in_is_taken_out_once(test: TestStore) {
    let attempt = |seed: u8, freshness| SignInAttempt {
        state_hash: [seed; 32],
        browser_hash: [7; 32],
        to: "/review?x=\u{fc}".to_owned(),
        freshness,
        expires_at: at(60),
    };
    let (first, second) = (attempt(1, Freshness::Fresh), attempt(2, Freshness::Any));
    test.commit(async |tx| {
        tx.insert_sign_in(&first, START).await.unwrap();
        tx.insert_sign_in(&second, at(59)).await.unwrap();
    })
    .await;
    test.commit(async |tx| {
        assert_eq!(tx.take_sign_in(&[1; 32]).await, Ok(Some(first.clone())));
        assert_eq!(tx.take_sign_in(&[1; 32]).await, Ok(None));
        tx.insert_sign_in(&first, at(60)).await.unwrap();
        assert_eq!(tx.take_sign_in(&[2; 32]).await, Ok(None), "it was over");
    })
    .await;
}
