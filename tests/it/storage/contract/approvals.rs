//! Approvals: every state, every way to find one.

use std::collections::BTreeSet;

use countersign::{
    app::ports::{ApprovalFilter, Onlooker, SharedStore},
    domain::{
        approval::{
            confirmation::Confirmation,
            outcome::{Report, ReportedStatus, SettledStatus},
            state::{Approval, Canceller, ServiceDenial, State, StateName},
        },
        facts::StandingDenial,
        run::RunKey,
    },
};

use crate::support::{
    sample::{
        TTL, agent, approval, approval_for, approved, args_hash, at, bare_entry, call, claimed, denied, reviewer, run,
    },
    store::TestStore,
};

super::on_both_engines! {
    an_approval_comes_back_in_every_state,
    a_code_that_is_taken_is_refused_and_the_transaction_goes_on,
    a_call_is_held_by_the_approval_it_was_attached_to_last,
    an_open_approval_of_the_same_call_is_found_until_it_is_decided,
    a_denial_by_a_person_stands_until_it_is_lifted,
    open_approvals_are_counted_by_run_and_agent,
    denials_by_people_are_counted_by_tool_and_run,
    approvals_are_due_when_their_next_deadline_has_passed,
    approvals_are_listed_by_any_filter,
    pages_go_from_the_newest_approval_to_the_oldest,
    a_reviewer_sees_what_names_a_group_of_theirs_or_none,
    an_escalated_group_sees_from_its_moment_on_and_an_owner_at_once,
    the_last_decided_approval_of_an_agent_and_tool_before_one_is_found,
    the_last_confirmation_of_a_reviewer_is_kept_and_spent,
    calls_that_wait_for_a_lock_see_what_was_committed_before_them,
}

async fn insert(test: &TestStore, approvals: &[&Approval]) {
    test.commit(async |tx| {
        for approval in approvals {
            assert!(tx.insert_approval(approval).await.unwrap());
        }
        tx.append(bare_entry());
    })
    .await;
}

fn in_every_state() -> Vec<Approval> {
    let now = at(130);
    let report = Report { status: ReportedStatus::Succeeded, at: now, payload: None };
    let lease_over = || claimed(approval()).at(at(1_000)).0;
    vec![
        approval_for(&["finance", "support-leads"]),
        approved(approval_for(&["finance"])),
        denied(approval()),
        denied(approval()).lift(reviewer("ana"), now).unwrap(),
        approval().deny_by_service(ServiceDenial::ArgumentsDiffer, now).unwrap(),
        approval().at(at(TTL.as_secs())).0,
        approval().cancel(Canceller::Requester, now).unwrap().0,
        claimed(approval()),
        claimed(approval()).report(None, report.clone(), now).unwrap().0,
        lease_over(),
        lease_over().report(None, report, at(1_001)).unwrap().0,
        lease_over().settle(reviewer("bob"), SettledStatus::Failed, at(2_000)).unwrap(),
    ]
}

async fn an_approval_comes_back_in_every_state(test: TestStore) {
    let store = test.store();
    for wanted in in_every_state() {
        let pending = Approval { state: State::Pending { votes: Vec::new() }, ..wanted.clone() };
        insert(&test, &[&pending]).await;
        assert_eq!(store.approval(pending.id).await, Ok(Some(pending.clone())));
        test.commit(async |tx| {
            assert_eq!(tx.approval(pending.id).await, Ok(Some(pending.clone())));
            tx.update_approval(&wanted).await.unwrap();
            assert_eq!(tx.approval(pending.id).await, Ok(Some(wanted.clone())));
            tx.append(bare_entry());
        })
        .await;
        assert_eq!(store.approval(wanted.id).await, Ok(Some(wanted)));
    }
    assert_eq!(store.approval(approval().id).await, Ok(None));
}

async fn a_code_that_is_taken_is_refused_and_the_transaction_goes_on(test: TestStore) {
    let first = approval_for(&["finance"]);
    let mut second = approval_for(&["finance"]);
    insert(&test, &[&first]).await;
    let free = second.code.clone();
    test.commit(async |tx| {
        second.code = first.code.clone();
        assert!(!tx.insert_approval(&second).await.unwrap());
        second.code = free;
        assert!(tx.insert_approval(&second).await.unwrap());
        tx.append(bare_entry());
    })
    .await;
    assert_eq!(test.store().approval(second.id).await, Ok(Some(second)));
}

async fn a_call_is_held_by_the_approval_it_was_attached_to_last(test: TestStore) {
    let (first, second, joined) = (approval(), approval(), call());
    insert(&test, &[&first, &second]).await;
    test.commit(async |tx| {
        assert_eq!(tx.held(&first.call).await, Ok(None));
        tx.attach_call(&first.call, first.id).await.unwrap();
        tx.attach_call(&joined, first.id).await.unwrap();
        assert_eq!(tx.held(&first.call).await, Ok(Some(first.clone())));
        assert_eq!(tx.held(&joined).await, Ok(Some(first.clone())));
        let mut attached = vec![first.call.clone(), joined.clone()];
        attached.sort();
        let mut stored = tx.attached_calls(first.id).await.unwrap();
        stored.sort();
        assert_eq!(stored, attached);
        tx.append(bare_entry());
    })
    .await;
    test.commit(async |tx| {
        tx.attach_call(&first.call, second.id).await.unwrap();
        assert_eq!(tx.held(&first.call).await, Ok(Some(second.clone())));
        assert_eq!(tx.attached_calls(first.id).await, Ok(vec![joined.clone()]));
        assert_eq!(tx.attached_calls(approval().id).await, Ok(vec![]));
        tx.append(bare_entry());
    })
    .await;
}

async fn an_open_approval_of_the_same_call_is_found_until_it_is_decided(test: TestStore) {
    let first = approval();
    let mut newer = approval();
    newer.call.run = first.call.run.clone();
    newer.args_hash = first.args_hash;
    insert(&test, &[&first, &newer]).await;
    let (owner, home) = (first.call.agent.clone(), first.call.run.clone());
    test.commit(async |tx| {
        let hash = first.args_hash;
        assert_eq!(tx.open_alike(&owner, &home, "issue_refund", hash).await, Ok(Some(newer.clone())));
        assert_eq!(tx.open_alike(&owner, &home, "send_email", hash).await, Ok(None));
        assert_eq!(tx.open_alike(&owner, &run("r-other"), "issue_refund", hash).await, Ok(None));
        assert_eq!(tx.open_alike(&agent("other-bot"), &home, "issue_refund", hash).await, Ok(None));
        assert_eq!(tx.open_alike(&owner, &home, "issue_refund", args_hash(999_999)).await, Ok(None));
        tx.update_approval(&claimed(newer.clone())).await.unwrap();
        assert_eq!(tx.open_alike(&owner, &home, "issue_refund", hash).await, Ok(Some(first.clone())));
        let first_approved = approved(first.clone());
        tx.update_approval(&first_approved).await.unwrap();
        assert_eq!(tx.open_alike(&owner, &home, "issue_refund", hash).await, Ok(Some(first_approved)));
        tx.update_approval(&denied(first.clone())).await.unwrap();
        assert_eq!(tx.open_alike(&owner, &home, "issue_refund", hash).await, Ok(None));
        tx.append(bare_entry());
    })
    .await;
}

async fn a_denial_by_a_person_stands_until_it_is_lifted(test: TestStore) {
    let first = denied(approval());
    let (owner, home, hash) = (first.call.agent.clone(), first.call.run.clone(), first.args_hash);
    let mut newer = denied(approval());
    newer.call.run = home.clone();
    newer.args_hash = hash;
    let mut by_service = approval().deny_by_service(ServiceDenial::ArgumentsDiffer, at(60)).unwrap();
    by_service.call.run = home.clone();
    by_service.args_hash = hash;
    insert(&test, &[&by_service]).await;
    test.commit(async |tx| {
        assert_eq!(tx.standing_denial(&owner, &home, "issue_refund", hash).await, Ok(None));
        assert!(tx.insert_approval(&first).await.unwrap());
        assert!(tx.insert_approval(&newer).await.unwrap());
        tx.append(bare_entry());
    })
    .await;
    test.commit(async |tx| {
        let of = |approval: &Approval| {
            Some(StandingDenial { approval: approval.id, message_to_agent: Some("not \u{0} today ☂".to_owned()) })
        };
        assert_eq!(tx.standing_denial(&owner, &home, "issue_refund", hash).await, Ok(of(&newer)));
        tx.update_approval(&newer.clone().lift(reviewer("ana"), at(120)).unwrap()).await.unwrap();
        assert_eq!(tx.standing_denial(&owner, &home, "issue_refund", hash).await, Ok(of(&first)));
        assert_eq!(tx.standing_denial(&owner, &home, "send_email", hash).await, Ok(None));
        assert_eq!(tx.standing_denial(&owner, &run("r-other"), "issue_refund", hash).await, Ok(None));
        assert_eq!(tx.standing_denial(&owner, &home, "issue_refund", args_hash(999_999)).await, Ok(None));
        tx.append(bare_entry());
    })
    .await;
}

async fn open_approvals_are_counted_by_run_and_agent(test: TestStore) {
    let (first, elsewhere) = (approval(), approval());
    let mut in_run = approval();
    in_run.call.run = first.call.run.clone();
    let mut of_another_agent = approval();
    of_another_agent.call.agent = agent("other-bot");
    let mut expires_sooner = approval();
    expires_sooner.call.run = first.call.run.clone();
    expires_sooner.expires_at = at(10);
    let (decided, withdrawn) = (approved(approval()), denied(approval()));
    insert(&test, &[&first, &elsewhere, &in_run, &of_another_agent, &expires_sooner, &decided, &withdrawn]).await;
    test.commit(async |tx| {
        let (owner, home) = (&first.call.agent, &first.call.run);
        assert_eq!(tx.open_counts(owner, home, at(9)).await, Ok((3, 4)));
        assert_eq!(tx.open_counts(owner, home, at(10)).await, Ok((2, 3)));
        assert_eq!(tx.open_counts(owner, &run("r-other"), at(10)).await, Ok((0, 3)));
        assert_eq!(tx.open_counts(owner, home, at(TTL.as_secs())).await, Ok((0, 0)));
    })
    .await;
}

async fn denials_by_people_are_counted_by_tool_and_run(test: TestStore) {
    let first = denied(approval());
    let home = first.call.run.clone();
    let of_run = |mut approval: Approval| {
        approval.call.run = home.clone();
        approval
    };
    let second = of_run(denied(approval()).lift(reviewer("ana"), at(90)).unwrap());
    let by_service = of_run(approval().deny_by_service(ServiceDenial::ArgumentsDiffer, at(60)).unwrap());
    let mut of_another_tool = of_run(denied(approval()));
    of_another_tool.tool = "send_email".to_owned();
    insert(&test, &[&first, &second, &by_service, &of_another_tool, &denied(approval()), &of_run(approval())]).await;
    test.commit(async |tx| {
        assert_eq!(tx.refused_count(&first.call.agent, &home, "issue_refund").await, Ok(2));
        assert_eq!(tx.refused_count(&first.call.agent, &home, "send_email").await, Ok(1));
        assert_eq!(tx.refused_count(&agent("other-bot"), &home, "issue_refund").await, Ok(0));
    })
    .await;
}

async fn approvals_are_due_when_their_next_deadline_has_passed(test: TestStore) {
    let (pending, executed, over) = (approval(), claimed(approval()), denied(approval()));
    insert(&test, &[&pending, &executed, &over]).await;
    let store = test.store();
    let lease_ends = at(420);
    assert_eq!(store.due_approvals(at(419), 10).await, Ok(vec![]));
    assert_eq!(store.due_approvals(lease_ends, 10).await, Ok(vec![executed.id]));
    assert_eq!(store.due_approvals(at(TTL.as_secs()), 10).await, Ok(vec![executed.id, pending.id]));
    assert_eq!(store.due_approvals(at(TTL.as_secs()), 1).await, Ok(vec![executed.id]));
    test.commit(async |tx| {
        tx.update_approval(&executed.at(lease_ends).0).await.unwrap();
        tx.append(bare_entry());
    })
    .await;
    assert_eq!(store.due_approvals(at(TTL.as_secs()), 10).await, Ok(vec![pending.id]));
}

async fn approvals_are_listed_by_any_filter(test: TestStore) {
    let (first, decided, executed) = (approval(), approved(approval()), claimed(approval()));
    let unknown = claimed(approval()).at(at(1_000)).0;
    let settled = claimed(approval()).at(at(1_000)).0.settle(reviewer("ana"), SettledStatus::Failed, at(2_000));
    let settled = settled.unwrap();
    let mut of_another_agent = approval();
    of_another_agent.call.agent = agent("other-bot");
    of_another_agent.call.run = first.call.run.clone();
    let every = [&first, &decided, &executed, &unknown, &settled, &of_another_agent];
    insert(&test, &every).await;
    let store = test.store();
    let list = async |filter: ApprovalFilter| store.approvals(&filter, None, 100).await.unwrap();
    let all = ApprovalFilter::default;
    assert_eq!(list(all()).await, every.into_iter().rev().cloned().collect::<Vec<_>>());
    let pending = list(ApprovalFilter { state: Some(StateName::Pending), ..all() }).await;
    assert_eq!(pending, [of_another_agent.clone(), first.clone()]);
    let executions = list(ApprovalFilter { state: Some(StateName::Executed), ..all() }).await;
    assert_eq!(executions, [settled, unknown.clone(), executed]);
    assert_eq!(list(ApprovalFilter { unsettled: true, ..all() }).await, vec![unknown.clone()]);
    let of_agent = list(ApprovalFilter { agent: Some(agent("other-bot")), ..all() }).await;
    assert_eq!(of_agent, [of_another_agent.clone()]);
    let of_run = list(ApprovalFilter { run: Some(first.call.run.clone()), ..all() }).await;
    assert_eq!(of_run, [of_another_agent, first.clone()]);
    let joined = ApprovalFilter {
        agent: Some(agent("billing-bot")),
        run: Some(first.call.run.clone()),
        state: Some(StateName::Pending),
        ..all()
    };
    assert_eq!(list(joined).await, [first]);
    assert_eq!(list(ApprovalFilter { state: Some(StateName::Pending), unsettled: true, ..all() }).await, []);
}

async fn pages_go_from_the_newest_approval_to_the_oldest(test: TestStore) {
    let approvals: Vec<Approval> = (0..5).map(|_| approval()).collect();
    insert(&test, &approvals.iter().collect::<Vec<_>>()).await;
    let store = test.store();
    for state in [None, Some(StateName::Pending)] {
        let filter = ApprovalFilter { state, ..ApprovalFilter::default() };
        let first = store.approvals(&filter, None, 2).await.unwrap();
        assert_eq!(first, [approvals[4].clone(), approvals[3].clone()]);
        let second = store.approvals(&filter, Some(approvals[3].id), 2).await.unwrap();
        assert_eq!(second, [approvals[2].clone(), approvals[1].clone()]);
        assert_eq!(store.approvals(&filter, Some(approvals[0].id), 2).await, Ok(vec![]));
    }
}

async fn a_reviewer_sees_what_names_a_group_of_theirs_or_none(test: TestStore) {
    let (anyone, finance, both) =
        (approval_for(&[]), approval_for(&["finance"]), approval_for(&["finance", "support-leads"]));
    insert(&test, &[&anyone, &finance, &both]).await;
    let store = test.store();
    let seen = async |groups: &[&str]| store.approvals(&looking(groups, &[], 0), None, 10).await.unwrap();
    assert_eq!(seen(&["finance"]).await, [both.clone(), finance, anyone.clone()]);
    assert_eq!(seen(&["support-leads", "x"]).await, [both, anyone.clone()]);
    assert_eq!(seen(&["x"]).await, vec![anyone.clone()]);
    assert_eq!(seen(&[]).await, [anyone]);
}

async fn an_escalated_group_sees_from_its_moment_on_and_an_owner_at_once(test: TestStore) {
    let mut escalating = approval_for(&["finance"]);
    let hour = std::time::Duration::from_secs(3_600);
    escalating.requirement.escalation = [("managers".to_owned(), hour), ("finance".to_owned(), hour)].into();
    let mut open = approval_for(&["finance"]);
    open.requirement.anyone = 2;
    insert(&test, &[&escalating, &open]).await;
    let store = test.store();
    let seen = async |filter: ApprovalFilter| store.approvals(&filter, None, 10).await.unwrap();
    assert_eq!(seen(looking(&["managers"], &[], 3_599)).await, [open.clone()]);
    assert_eq!(seen(looking(&["managers"], &[], 3_600)).await, [open.clone(), escalating.clone()]);
    assert_eq!(seen(looking(&["finance"], &[], 0)).await, [open.clone(), escalating.clone()]);
    assert_eq!(seen(looking(&[], &["billing-bot"], 0)).await, [open.clone(), escalating]);
    assert_eq!(seen(looking(&[], &["other-bot"], 9_999)).await, [open]);
}

async fn the_last_decided_approval_of_an_agent_and_tool_before_one_is_found(test: TestStore) {
    let earlier = denied(approval());
    let last = claimed(approval());
    let mut of_another_tool = approved(approval());
    of_another_tool.tool = "send_email".to_owned();
    let mut of_another_agent = approved(approval());
    of_another_agent.call.agent = agent("other-bot");
    let waits = approval();
    let one = approval();
    let later = approved(approval());
    insert(&test, &[&earlier, &last, &of_another_tool, &of_another_agent, &waits, &one, &later]).await;
    let store = test.store();
    let bot = agent("billing-bot");
    let found = async |tool: &str, before| store.last_decided(&bot, tool, before).await.unwrap();
    assert_eq!(found("issue_refund", one.id).await, Some(last.clone()));
    assert_eq!(found("issue_refund", last.id).await, Some(earlier.clone()));
    assert_eq!(found("issue_refund", earlier.id).await, None);
    assert_eq!(found("send_email", one.id).await, Some(of_another_tool));
}

async fn the_last_confirmation_of_a_reviewer_is_kept_and_spent(test: TestStore) {
    let (one, other) = (approval(), approval());
    insert(&test, &[&one, &other]).await;
    let new = |text| Confirmation::new(one.id, reviewer("ana"), "sha256:0".to_owned(), text, at(0));
    test.commit(async |tx| {
        assert_eq!(tx.confirmation(one.id, &reviewer("ana")).await, Ok(None));
        tx.put_confirmation(&new("first")).await.unwrap();
        tx.put_confirmation(&new("second")).await.unwrap();
        assert_eq!(tx.confirmation(one.id, &reviewer("ana")).await, Ok(Some(new("second"))));
        assert_eq!(tx.confirmation(one.id, &reviewer("bob")).await, Ok(None));
        assert_eq!(tx.confirmation(other.id, &reviewer("ana")).await, Ok(None));
        let spent = new("second").spend("second", at(2)).unwrap();
        tx.put_confirmation(&spent).await.unwrap();
        assert_eq!(tx.confirmation(one.id, &reviewer("ana")).await, Ok(Some(spent)));
        tx.append(bare_entry());
    })
    .await;
}

/// What somebody in these groups, who owns these agents, sees so many seconds after the start.
fn looking(groups: &[&str], agents: &[&str], seconds: u64) -> ApprovalFilter {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<BTreeSet<_>>();
    let onlooker = Onlooker { groups: texts(groups), agents: texts(agents), now: at(seconds) };
    ApprovalFilter { visible_to: Some(onlooker), ..ApprovalFilter::default() }
}

async fn calls_that_wait_for_a_lock_see_what_was_committed_before_them(test: TestStore) {
    const CAP: u32 = 3;
    let home = run("r-capped");
    let other = test.of_another_instance().await;
    let one = async |store: &SharedStore| {
        let mut new = approval();
        new.call.run = home.clone();
        let mut tx = store.begin().await.unwrap();
        tx.lock_agent(&new.call.agent).await.unwrap();
        tx.lock_run(&RunKey { agent: new.call.agent.clone(), run: home.clone() }).await.unwrap();
        let (open, _) = tx.open_counts(&new.call.agent, &home, at(0)).await.unwrap();
        if open < CAP {
            assert!(tx.insert_approval(&new).await.unwrap());
            tx.append(bare_entry());
        }
        tx.commit().await.unwrap();
        open < CAP
    };
    let store = test.store();
    let (a, b, c, d, e, f) = tokio::join!(one(&store), one(&other), one(&store), one(&other), one(&store), one(&other));
    assert_eq!([a, b, c, d, e, f].into_iter().filter(|held| *held).count(), 3);
}
