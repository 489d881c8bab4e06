//! Payloads, remembered answers, outcomes, keys, policies, checkpoints.

use std::collections::BTreeSet;

use countersign::{
    app::ports::{Checkpoint, DecisionOutcome, IDEMPOTENCY_WINDOW, IdempotencyRecord, StoreError, StoredPolicy},
    domain::{
        audit::{merkle::Frontier, payload::PayloadDigest},
        identity::{HolderName, KeyParts, KeyRecord, KeyState, Role, Roles},
        ids::{DecisionId, KeyId},
        policy::PolicyVersion,
    },
};
use serde_json::json;

use crate::support::{
    sample::{START, agent, at, bare_entry, number, payload, uuid},
    store::TestStore,
};

super::on_both_engines! {
    a_payload_is_kept_until_it_is_erased,
    a_payload_that_was_changed_is_unreadable,
    an_answer_is_remembered_for_24_hours,
    of_two_requests_with_one_key_the_first_is_remembered,
    the_first_outcome_of_a_decision_stands,
    a_key_is_kept_whole_and_revoked_once,
    a_policy_is_kept_with_every_file,
    checkpoints_are_kept_once_a_size_and_listed_from_the_newest,
    every_instance_has_the_first_permit_key,
}

async fn a_payload_is_kept_until_it_is_erased(test: TestStore) {
    let kept = payload();
    let store = test.store();
    assert_eq!(store.payload(kept.digest()).await, Ok(None));
    test.commit(async |tx| {
        tx.insert_payload(&kept).await.unwrap();
        tx.insert_payload(&kept).await.unwrap();
    })
    .await;
    assert_eq!(store.payload(kept.digest()).await, Ok(Some(kept.clone())));
    test.execute("delete from payloads").await.unwrap();
    assert_eq!(store.payload(kept.digest()).await, Ok(None));
}

async fn a_payload_that_was_changed_is_unreadable(test: TestStore) {
    let kept = payload();
    test.commit(async |tx| tx.insert_payload(&kept).await.unwrap()).await;
    test.execute("update payloads set body = '{}'").await.unwrap();
    assert!(matches!(test.store().payload(kept.digest()).await, Err(StoreError::Unreadable(_))));
}

fn remembered(answer: &str) -> IdempotencyRecord {
    IdempotencyRecord {
        caller: "billing-bot".to_owned(),
        route: "/decide".to_owned(),
        key: "k-1 ☂".to_owned(),
        body_hash: [5; 32],
        decision: DecisionId::from_uuid(uuid()),
        answer: json!({ "verdict": answer, "n": 1.5, "zero": "\u{0}" }),
        created_at: START,
    }
}

async fn an_answer_is_remembered_for_24_hours(test: TestStore) {
    let day = IDEMPOTENCY_WINDOW.as_secs();
    let first = remembered("allow");
    let mut soon = remembered("soon");
    soon.created_at = at(day - 1);
    let mut later = remembered("later");
    later.created_at = at(day);
    test.commit(async |tx| {
        assert_eq!(tx.remembered("billing-bot", "/decide", "k-1 ☂", START).await, Ok(None));
        assert_eq!(tx.remember(&first).await, Ok(None));
    })
    .await;
    test.commit(async |tx| {
        let of = [("billing-bot", "/decide", "k-1 ☂"), ("x", "/decide", "k-1 ☂"), ("billing-bot", "/x", "k-1 ☂")];
        assert_eq!(tx.remembered(of[0].0, of[0].1, of[0].2, at(day - 1)).await, Ok(Some(first.clone())));
        assert_eq!(tx.remembered(of[0].0, of[0].1, of[0].2, at(day)).await, Ok(None));
        assert_eq!(tx.remembered(of[1].0, of[1].1, of[1].2, START).await, Ok(None));
        assert_eq!(tx.remembered(of[2].0, of[2].1, of[2].2, START).await, Ok(None));
        assert_eq!(tx.remembered(of[0].0, of[0].1, "k-2", START).await, Ok(None));
        assert_eq!(tx.remember(&soon).await, Ok(Some(first.clone())));
        assert_eq!(tx.remember(&later).await, Ok(None));
        assert_eq!(tx.remembered(of[0].0, of[0].1, of[0].2, at(day)).await, Ok(Some(later.clone())));
    })
    .await;
}

async fn of_two_requests_with_one_key_the_first_is_remembered(test: TestStore) {
    let other = test.of_another_instance().await;
    let (first, second) = (remembered("first"), remembered("second"));
    let mut tx = test.store().begin().await.unwrap();
    assert_eq!(tx.remember(&first).await, Ok(None));
    let late = async {
        let mut tx = other.begin().await.unwrap();
        let found = tx.remember(&second).await;
        tx.commit().await.unwrap();
        found
    };
    let early = async {
        // Lets the other one come as far as it can.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        tx.commit().await.unwrap();
    };
    let (found, ()) = tokio::join!(late, early);
    assert_eq!(found, Ok(Some(first)));
}

async fn the_first_outcome_of_a_decision_stands(test: TestStore) {
    let first = DecisionOutcome {
        decision: DecisionId::from_uuid(uuid()),
        status: "succeeded".to_owned(),
        payload: Some(PayloadDigest::from_bytes([9; 32])),
        at: START,
    };
    let second = DecisionOutcome { status: "failed".to_owned(), payload: None, ..first.clone() };
    let of_another = DecisionOutcome { decision: DecisionId::from_uuid(uuid()), ..second.clone() };
    test.commit(async |tx| {
        assert_eq!(tx.record_decision_outcome(&first).await, Ok(None));
        assert_eq!(tx.record_decision_outcome(&second).await, Ok(Some(first.clone())));
        assert_eq!(tx.record_decision_outcome(&of_another).await, Ok(None));
        assert_eq!(tx.record_decision_outcome(&of_another).await, Ok(Some(of_another.clone())));
    })
    .await;
}

fn key(roles: &[Role], agents: &[&str]) -> KeyRecord {
    let mut hash = [1; 32];
    hash[..4].copy_from_slice(&number().to_be_bytes());
    KeyRecord::new(KeyParts {
        id: KeyId::from_uuid(uuid()),
        name: HolderName::parse("billing-bot").unwrap(),
        roles: Roles::new(roles.iter().copied()).unwrap(),
        agents: agents.iter().map(|name| agent(name)).collect::<BTreeSet<_>>(),
        hash,
        created_at: START,
        expires_at: agents.is_empty().then(|| at(60)),
        revoked_at: None,
    })
    .unwrap()
}

async fn a_key_is_kept_whole_and_revoked_once(test: TestStore) {
    let first = key(&[Role::Agent, Role::Orchestrator], &["billing-bot", "other-bot"]);
    let second = key(&[Role::Reviewer, Role::Admin, Role::Auditor], &[]);
    let store = test.store();
    assert_eq!(store.keys().await, Ok(vec![]));
    test.commit(async |tx| {
        tx.insert_key(&first).await.unwrap();
        tx.insert_key(&second).await.unwrap();
        assert_eq!(tx.key(first.id()).await, Ok(Some(first.clone())));
        assert_eq!(tx.key(KeyId::from_uuid(uuid())).await, Ok(None));
    })
    .await;
    assert_eq!(store.keys().await, Ok(vec![first.clone(), second.clone()]));
    test.commit(async |tx| {
        assert_eq!(tx.revoke_key(first.id(), at(5)).await, Ok(true));
        assert_eq!(tx.revoke_key(first.id(), at(6)).await, Ok(false));
        assert_eq!(tx.revoke_key(KeyId::from_uuid(uuid()), at(5)).await, Ok(false));
    })
    .await;
    let keys = store.keys().await.unwrap();
    assert_eq!(keys[0].state_at(at(5)), KeyState::Revoked { at: at(5) });
    assert_eq!(keys[1], second);
}

async fn a_policy_is_kept_with_every_file(test: TestStore) {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let policy = StoredPolicy {
        version: PolicyVersion::from_stored("abc".to_owned()),
        files: vec![file("a.toml", "schema = 1\n"), file("schemas/ü.json", "{\"☂\": \"\\u0000\"}"), file("z.toml", "")],
        accepted_at: at(3),
    };
    let store = test.store();
    assert_eq!(store.policy(&policy.version).await, Ok(None));
    test.commit(async |tx| {
        assert_eq!(tx.insert_policy(&policy).await, Ok(true));
        let again = StoredPolicy { accepted_at: at(9), ..policy.clone() };
        assert_eq!(tx.insert_policy(&again).await, Ok(false));
    })
    .await;
    assert_eq!(store.policy(&policy.version).await, Ok(Some(policy)));
}

async fn checkpoints_are_kept_once_a_size_and_listed_from_the_newest(test: TestStore) {
    let of_size = |size: i64| {
        let mut frontier = Frontier::default();
        (0..size).for_each(|leaf| frontier.push([leaf as u8; 32]));
        let signed = size > 1;
        Checkpoint {
            size,
            root: frontier.root(),
            at: at(1),
            signature: signed.then(|| "c2ln".to_owned()),
            key_id: signed.then(|| "k".to_owned()),
            frontier,
        }
    };
    test.commit(async |tx| {
        for size in [1, 7, 3] {
            assert_eq!(tx.insert_checkpoint(&of_size(size)).await, Ok(true));
        }
        let again = Checkpoint { at: at(9), ..of_size(7) };
        assert_eq!(tx.insert_checkpoint(&again).await, Ok(false));
        tx.append(bare_entry());
    })
    .await;
    let store = test.store();
    assert_eq!(store.checkpoints(2).await, Ok(vec![of_size(7), of_size(3)]));
    assert_eq!(store.checkpoints(u32::MAX).await, Ok(vec![of_size(7), of_size(3), of_size(1)]));
}

async fn every_instance_has_the_first_permit_key(test: TestStore) {
    let first = test.commit(async |tx| tx.shared_permit_key(b"first \x00", START).await.unwrap()).await;
    let second = test.commit(async |tx| tx.shared_permit_key(b"second", at(1)).await.unwrap()).await;
    assert_eq!((first.as_slice(), second.as_slice()), (&b"first \x00"[..], &b"first \x00"[..]));
}
