//! Business keys of calls, approvals that ask for the very same, and the entries found by a key.

use countersign::{
    app::ports::{EntryFilter, SubjectCall},
    domain::{
        approval::state::Canceller,
        audit::entry::{Actor, Entry, EventKind},
        ids::DecisionId,
        subject::Subject,
        verdict::Verdict,
    },
};

use crate::support::{
    sample::{START, TTL, agent, approval, approved, at, call, claimed, uuid},
    store::TestStore,
};

super::on_both_engines! {
    calls_are_found_by_any_of_their_keys_the_newest_first_and_each_once,
    entries_are_found_by_the_key_of_their_call,
    open_approvals_of_the_very_same_are_found_in_any_run,
}

fn subject(name: &str, value: &str) -> Subject {
    Subject { name: name.to_owned(), value: value.to_owned() }
}

fn settled() -> SubjectCall {
    SubjectCall {
        call: call(),
        tool: "issue_refund".to_owned(),
        decision: DecisionId::from_uuid(uuid()),
        verdict: Verdict::RequireApproval,
        approval: Some(approval().id),
        at: at(1),
    }
}

async fn insert(test: &TestStore, subjects: &[Subject], call: &SubjectCall) {
    test.commit(async |tx| {
        tx.insert_subjects(subjects, call).await.unwrap();
        let mut entry = Entry::new(EventKind::Decision, START, Actor::service());
        entry.decision = Some(call.decision);
        tx.append(entry);
    })
    .await;
}

async fn calls_are_found_by_any_of_their_keys_the_newest_first_and_each_once(test: TestStore) {
    let (order, customer) = (subject("order", "A-17 ☂"), subject("customer", "c-1"));
    let (first, second) = (settled(), SubjectCall { approval: None, verdict: Verdict::Deny, ..settled() });
    insert(&test, &[order.clone(), customer.clone()], &first).await;
    insert(&test, std::slice::from_ref(&customer), &second).await;
    insert(&test, &[subject("order", "A-18"), subject("other", "A-17 ☂")], &settled()).await;
    let store = test.store();
    let both = [order.clone(), customer];
    assert_eq!(store.calls_on(&both, 10).await.unwrap(), [second.clone(), first.clone()]);
    assert_eq!(store.calls_on(&both, 1).await.unwrap(), [second]);
    assert_eq!(store.calls_on(&[order], 10).await.unwrap(), [first]);
    assert_eq!(store.calls_on(&[], 10).await.unwrap(), []);
}

async fn entries_are_found_by_the_key_of_their_call(test: TestStore) {
    let (one, other) = (settled(), settled());
    insert(&test, &[subject("order", "A-17")], &one).await;
    insert(&test, &[subject("order", "A-18")], &other).await;
    let filter = EntryFilter { subject: Some(subject("order", "A-17")), ..EntryFilter::default() };
    let found = test.store().entries(&filter, None, 10).await.unwrap();
    assert_eq!(found.iter().map(|sealed| sealed.entry.decision).collect::<Vec<_>>(), [Some(one.decision)]);
    let narrower = EntryFilter { event: Some(EventKind::Claim), ..filter.clone() };
    assert_eq!(test.store().entries(&narrower, None, 10).await.unwrap(), []);
    let later = EntryFilter { from: Some(START), ..filter };
    assert_eq!(test.store().entries(&later, None, 10).await.unwrap().len(), 1);
}

async fn open_approvals_of_the_very_same_are_found_in_any_run(test: TestStore) {
    let pending = approval();
    let alike = |mut other: countersign::domain::approval::state::Approval| {
        other.args_hash = pending.args_hash;
        other
    };
    let yes = alike(approved(approval()));
    let gone = [
        alike(claimed(approval())),
        alike(approval().cancel(Canceller::Requester, at(1)).unwrap().0),
        countersign::domain::approval::state::Approval { tool: "other".to_owned(), ..alike(approval()) },
        approval(),
    ];
    test.commit(async |tx| {
        for approval in [&pending, &yes].into_iter().chain(&gone) {
            assert!(tx.insert_approval(approval).await.unwrap());
        }
    })
    .await;
    let store = test.store();
    let bot = agent("billing-bot");
    let open = async |now| store.open_twins(&bot, &pending.tool, pending.args_hash, now, 10).await.unwrap();
    assert_eq!(open(at(2)).await, [yes.clone(), pending.clone()]);
    assert_eq!(open(START.plus(TTL)).await, []);
    assert_eq!(store.open_twins(&agent("other-bot"), &pending.tool, pending.args_hash, START, 10).await.unwrap(), []);
}
