//! Groups of decisions: all or nothing, in one chain, never past a held record or a denial.

use countersign::{
    app::ports::{GroupAppend, SharedStore},
    domain::{
        audit::{
            chain::{self, Head, SealedEntry},
            entry::Entry,
            payload::Payload,
        },
        call::CallKey,
        run::RunKey,
    },
};

use crate::support::{
    sample::{agent, approval, args_hash, at, bare_entry, call, decision_entry, denied, guard, payload, reviewer, run},
    store::TestStore,
};

super::on_both_engines! {
    a_group_is_written_with_its_payloads,
    an_empty_group_is_written_at_once,
    a_group_for_another_head_writes_nothing,
    a_group_for_another_chain_writes_nothing,
    a_call_that_was_held_is_guarded,
    a_denied_call_is_guarded_until_the_denial_is_lifted,
    a_paused_agent_and_a_run_that_ended_or_has_another_above_it_are_guarded,
    a_large_group_is_one_chain,
    instances_that_append_at_once_make_one_chain,
}

fn sealed(mut head: Head, entries: Vec<Entry>) -> Vec<SealedEntry> {
    entries
        .into_iter()
        .map(|entry| {
            let (sealed, next) = chain::seal(head, entry).unwrap();
            head = next;
            sealed
        })
        .collect()
}

async fn append(store: &SharedStore, entries: Vec<Entry>, payloads: &[&Payload]) -> GroupAppend {
    let head = store.head().await.unwrap();
    store.append_decisions(head, &sealed(head, entries), payloads, &[]).await.unwrap()
}

async fn a_group_is_written_with_its_payloads(test: TestStore) {
    let (first, second, kept) = (decision_entry(), decision_entry(), payload());
    let store = test.store();
    assert_eq!(append(&store, vec![first.clone(), second.clone()], &[&kept]).await, GroupAppend::Written);
    let log = test.checked_log().await;
    assert_eq!(log.into_iter().map(|sealed| sealed.entry).collect::<Vec<_>>(), [first, second]);
    assert_eq!(store.payload(kept.digest()).await, Ok(Some(kept.clone())));
    // The same payload again is no fault.
    assert_eq!(append(&store, vec![bare_entry()], &[&kept]).await, GroupAppend::Written);
}

async fn an_empty_group_is_written_at_once(test: TestStore) {
    assert_eq!(append(&test.store(), vec![], &[]).await, GroupAppend::Written);
    assert_eq!(test.store().head().await, Ok(Head::EMPTY));
}

async fn a_group_for_another_head_writes_nothing(test: TestStore) {
    let store = test.store();
    append(&store, vec![bare_entry()], &[]).await;
    let kept = payload();
    let group = sealed(Head::EMPTY, vec![decision_entry()]);
    let appended = store.append_decisions(Head::EMPTY, &group, &[&kept], &[&guard(&call(), args_hash(1))]).await;
    assert_eq!(appended, Ok(GroupAppend::HeadMoved));
    assert_eq!(test.checked_log().await.len(), 1);
    assert_eq!(store.payload(kept.digest()).await, Ok(None));
}

async fn a_group_for_another_chain_writes_nothing(test: TestStore) {
    let store = test.store();
    append(&store, vec![bare_entry()], &[]).await;
    let forged = Head { seq: 1, chain: [9; 32] };
    let group = sealed(forged, vec![decision_entry()]);
    assert_eq!(store.append_decisions(forged, &group, &[], &[]).await, Ok(GroupAppend::HeadMoved));
    assert_eq!(test.checked_log().await.len(), 1);
}

async fn a_call_that_was_held_is_guarded(test: TestStore) {
    let (held, free, kept) = (approval(), call(), payload());
    let mut another_turn = held.call.clone();
    another_turn.turn = 1;
    let mut another_agent = held.call.clone();
    another_agent.agent = agent("other-bot");
    test.commit(async |tx| {
        assert!(tx.insert_approval(&held).await.unwrap());
        tx.attach_call(&held.call, held.id).await.unwrap();
        tx.append(bare_entry());
    })
    .await;
    let store = test.store();
    let head = store.head().await.unwrap();
    let calls = [&free, &held.call, &another_turn, &held.call, &another_agent];
    let guards = calls.map(|call| guard(call, args_hash(1)));
    let guards = guards.iter().collect::<Vec<_>>();
    let group = sealed(head, (0..5).map(|_| decision_entry()).collect());
    let appended = store.append_decisions(head, &group, &[&kept], &guards).await;
    assert_eq!(appended, Ok(GroupAppend::Guarded(vec![1, 3])));
    assert_eq!(test.checked_log().await.len(), 1);
    assert_eq!(store.payload(kept.digest()).await, Ok(None));
    let others = [guards[0], guards[2], guards[4]];
    assert_eq!(store.append_decisions(head, &group[..3], &[], &others).await, Ok(GroupAppend::Written));
    assert_eq!(test.checked_log().await.len(), 4);
}

async fn a_denied_call_is_guarded_until_the_denial_is_lifted(test: TestStore) {
    let denied = denied(approval());
    test.commit(async |tx| {
        assert!(tx.insert_approval(&denied).await.unwrap());
        tx.append(bare_entry());
    })
    .await;
    let store = test.store();
    let mut same = call();
    same.run = denied.call.run.clone();
    let mut in_another_run = same.clone();
    in_another_run.run = run("r-other");
    let mut of_another_tool = guard(&same, denied.args_hash);
    of_another_tool.tool = "send_email".to_owned();
    let guards = [
        guard(&same, denied.args_hash),
        guard(&same, args_hash(999_999)),
        guard(&in_another_run, denied.args_hash),
        of_another_tool,
    ];
    let append = async || {
        let head = store.head().await.unwrap();
        let group = sealed(head, (0..4).map(|_| decision_entry()).collect());
        store.append_decisions(head, &group, &[], &guards.iter().collect::<Vec<_>>()).await.unwrap()
    };
    assert_eq!(append().await, GroupAppend::Guarded(vec![0]));
    test.commit(async |tx| {
        let lifted = denied.clone().lift(reviewer("ana"), at(120)).unwrap();
        tx.update_approval(&lifted).await.unwrap();
        tx.append(bare_entry());
    })
    .await;
    assert_eq!(append().await, GroupAppend::Written);
}

async fn a_paused_agent_and_a_run_that_ended_or_has_another_above_it_are_guarded(test: TestStore) {
    let in_run = |name: &str| CallKey { run: run(name), ..call() };
    let paused = CallKey { agent: agent("paused-bot"), ..call() };
    let (goes_on, ended, below) = (in_run("r-goes-on"), in_run("r-ended"), in_run("r-below"));
    test.commit(async |tx| {
        tx.lock_agent(&paused.agent).await.unwrap();
        for call in [&goes_on, &ended, &below] {
            tx.lock_agent(&call.agent).await.unwrap();
            tx.lock_run(&RunKey::of(call)).await.unwrap();
        }
    })
    .await;
    test.execute("update agents set paused_at = 1 where agent = 'paused-bot'").await.unwrap();
    test.execute("update runs set ending = '{}' where run_id = 'r-ended'").await.unwrap();
    test.execute("update runs set head_agent = agent, head_run = 'r-goes-on' where run_id = 'r-below'").await.unwrap();
    let store = test.store();
    let head = store.head().await.unwrap();
    let calls = [&goes_on, &paused, &ended, &below, &in_run("r-nobody-knows")];
    let guards = calls.map(|call| guard(call, args_hash(1)));
    let group = sealed(head, (0..5).map(|_| decision_entry()).collect());
    let appended = store.append_decisions(head, &group, &[], &guards.iter().collect::<Vec<_>>()).await;
    assert_eq!(appended, Ok(GroupAppend::Guarded(vec![1, 2, 3])));
}

async fn a_large_group_is_one_chain(test: TestStore) {
    let entries: Vec<Entry> = (0..512).map(|_| decision_entry()).collect();
    let kept: Vec<Payload> = (0..512).map(|_| payload()).collect();
    let store = test.store();
    let head = store.head().await.unwrap();
    let guards: Vec<_> = entries.iter().map(|entry| guard(entry.call.as_ref().unwrap(), args_hash(1))).collect();
    let group = sealed(head, entries);
    let payloads: Vec<&Payload> = kept.iter().collect();
    let appended = store.append_decisions(head, &group, &payloads, &guards.iter().collect::<Vec<_>>()).await;
    assert_eq!(appended, Ok(GroupAppend::Written));
    assert_eq!(test.checked_log().await, group);
    assert_eq!(store.payload(kept[511].digest()).await, Ok(Some(kept[511].clone())));
}

async fn instances_that_append_at_once_make_one_chain(test: TestStore) {
    const GROUPS: usize = 20;
    let in_groups = async |store: SharedStore| {
        for _ in 0..GROUPS {
            while append(&store, vec![decision_entry(), decision_entry()], &[]).await == GroupAppend::HeadMoved {}
        }
    };
    let in_transactions = async |store: SharedStore| {
        for _ in 0..GROUPS {
            let mut tx = store.begin().await.unwrap();
            tx.append(bare_entry());
            tx.commit().await.unwrap();
        }
    };
    let other = test.of_another_instance().await;
    tokio::join!(
        in_groups(test.store()),
        in_groups(other.clone()),
        in_transactions(test.store()),
        in_transactions(other.clone()),
    );
    assert_eq!(test.checked_log().await.len(), GROUPS * 6);
}
