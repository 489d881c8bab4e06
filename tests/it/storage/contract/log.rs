//! The log: exact, append-only, listed by any filter.

use countersign::{
    app::ports::{EntryFilter, StoreError},
    domain::{
        approval::code::ApprovalCode,
        audit::{
            chain::Head,
            entry::{Entry, EventKind},
            payload::PayloadDigest,
        },
        ids::{ApprovalId, DecisionId},
        time::Timestamp,
        verdict::Verdict,
    },
    storage::Engine,
};
use serde_json::json;

use crate::support::{
    sample::{at, bare_entry, call, decision_entry, run, uuid},
    store::TestStore,
};

super::on_both_engines! {
    an_empty_log_has_the_empty_head,
    entries_come_back_exactly_as_they_were_appended,
    entries_are_read_in_order_from_any_place,
    every_filter_finds_its_entries_and_no_others,
    filters_are_joined_by_and,
    pages_go_from_the_newest_entry_to_the_oldest,
    nothing_in_the_log_can_be_changed,
    the_head_of_the_log_only_moves_on,
    what_this_version_does_not_write_is_unreadable,
}

async fn an_empty_log_has_the_empty_head(test: TestStore) {
    assert_eq!(test.store().head().await, Ok(Head::EMPTY));
    assert_eq!(test.store().entries_after(0, 10).await, Ok(vec![]));
}

/// Every field set, with text that engines like to change.
fn full_entry() -> Entry {
    let text = |what: &str| Some(format!("{what} ☂ \u{1F4A3} e\u{301} \"'\\ \r\n\t\u{202e} {{}} $1"));
    let mut entry = bare_entry();
    entry.event = EventKind::ApprovalRequested;
    entry.at = Timestamp::from_micros(1_800_000_000_123_457);
    entry.request_id = text("request");
    entry.actor.name = "jürgen".to_owned();
    entry.actor.via = "key:key_x".to_owned();
    entry.call = Some(call());
    entry.call.as_mut().unwrap().turn = u32::MAX;
    entry.tool = text("tool");
    entry.decision = Some(DecisionId::from_uuid(uuid()));
    entry.approval = Some(ApprovalId::from_uuid(uuid()));
    entry.code = Some(ApprovalCode::from_bits(77));
    entry.verdict = Some(Verdict::RequireApproval);
    entry.reason_code = text("code");
    entry.reason = text("reason");
    entry.rule = text("rule");
    entry.policy_version = text("policy");
    entry.payload = Some(PayloadDigest::from_bytes([0xff; 32]));
    let detail = json!({
        "z": 1, "a": null, "é": ["\u{0}", "\u{7f}", "\u{1F4A3}", {"deep": [true, 0.1, -5, 1e300, 9_007_199_254_740_991_i64]}],
        "": "", "rules": {"b": "failed:missing"},
    });
    entry.detail = detail.as_object().unwrap().clone();
    entry
}

async fn entries_come_back_exactly_as_they_were_appended(test: TestStore) {
    let mut empty_texts = bare_entry();
    empty_texts.reason = Some(String::new());
    empty_texts.rule = Some("null".to_owned());
    let mut long = bare_entry();
    long.request_id = Some("r".repeat(20_000));
    long.tool = Some("t".repeat(20_000));
    let entries = [bare_entry(), full_entry(), empty_texts, long];
    test.append(entries.clone()).await;
    let log = test.checked_log().await;
    assert_eq!(log.iter().map(|sealed| sealed.seq).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(log.into_iter().map(|sealed| sealed.entry).collect::<Vec<_>>(), entries);
}

async fn entries_are_read_in_order_from_any_place(test: TestStore) {
    test.append((0..5).map(|_| bare_entry())).await;
    let places = async |after, limit| -> Vec<i64> {
        test.store().entries_after(after, limit).await.unwrap().iter().map(|sealed| sealed.seq).collect()
    };
    assert_eq!(places(0, 2).await, [1, 2]);
    assert_eq!(places(2, 10).await, [3, 4, 5]);
    assert_eq!(places(5, 10).await, [] as [i64; 0]);
}

async fn found(test: &TestStore, filter: EntryFilter) -> Vec<i64> {
    test.store().entries(&filter, None, 100).await.unwrap().iter().map(|sealed| sealed.seq).collect()
}

async fn every_filter_finds_its_entries_and_no_others(test: TestStore) {
    let mut wanted = full_entry();
    wanted.at = at(100);
    let mut other = decision_entry();
    other.at = at(200);
    test.append([decision_entry(), wanted.clone(), bare_entry(), other]).await;
    let call = wanted.call.clone().unwrap();
    let all = EntryFilter::default;
    let filters = [
        ("tool", EntryFilter { tool: wanted.tool.clone(), ..all() }),
        ("actor", EntryFilter { actor: Some(wanted.actor.name.clone()), ..all() }),
        ("verdict", EntryFilter { verdict: wanted.verdict, ..all() }),
        ("rule", EntryFilter { rule: wanted.rule.clone(), ..all() }),
        ("event", EntryFilter { event: Some(wanted.event), ..all() }),
        ("code", EntryFilter { code: wanted.code.as_ref().map(|code| code.as_str().to_owned()), ..all() }),
        ("request", EntryFilter { request_id: wanted.request_id.clone(), ..all() }),
        ("decision", EntryFilter { decision: wanted.decision, ..all() }),
        ("approval", EntryFilter { approval: wanted.approval, ..all() }),
        ("time", EntryFilter { from: Some(at(100)), until: Some(at(200)), ..all() }),
    ];
    for (name, filter) in filters {
        assert_eq!(found(&test, filter).await, [2], "{name}");
    }
    assert_eq!(found(&test, all()).await, [4, 3, 2, 1]);
    assert_eq!(found(&test, EntryFilter { run: Some(call.run.to_string()), ..all() }).await, [4, 2, 1]);
    assert_eq!(found(&test, EntryFilter { agent: Some(call.agent.to_string()), ..all() }).await, [4, 2, 1]);
    assert_eq!(found(&test, EntryFilter { from: Some(at(200)), ..all() }).await, [4]);
    assert_eq!(found(&test, EntryFilter { until: Some(at(100)), ..all() }).await, [3, 1]);
    assert_eq!(found(&test, EntryFilter { tool: Some("nothing".to_owned()), ..all() }).await, [] as [i64; 0]);
}

async fn filters_are_joined_by_and(test: TestStore) {
    let in_run = |name: &str, tool: &str, seconds| {
        let mut entry = decision_entry();
        entry.call.as_mut().unwrap().run = run(name);
        entry.tool = Some(tool.to_owned());
        entry.at = at(seconds);
        entry
    };
    test.append([in_run("a", "x", 1), in_run("b", "x", 2), in_run("a", "y", 3), in_run("a", "x", 4)]).await;
    let filter = EntryFilter {
        run: Some("a".to_owned()),
        tool: Some("x".to_owned()),
        from: Some(at(2)),
        ..EntryFilter::default()
    };
    assert_eq!(found(&test, filter).await, [4]);
    let filter = EntryFilter { tool: Some("x".to_owned()), until: Some(at(4)), ..EntryFilter::default() };
    assert_eq!(found(&test, filter).await, [2, 1]);
}

async fn pages_go_from_the_newest_entry_to_the_oldest(test: TestStore) {
    test.append((0..7).map(|index| if index % 2 == 0 { decision_entry() } else { bare_entry() })).await;
    for filter in [
        EntryFilter { event: Some(EventKind::Decision), ..EntryFilter::default() },
        EntryFilter { run: Some("r-1".to_owned()), ..EntryFilter::default() },
        EntryFilter { event: Some(EventKind::Decision), until: Some(at(1)), ..EntryFilter::default() },
    ] {
        let page = async |before| -> Vec<i64> {
            test.store().entries(&filter, before, 2).await.unwrap().iter().map(|sealed| sealed.seq).collect()
        };
        assert_eq!(page(None).await, [7, 5]);
        assert_eq!(page(Some(5)).await, [3, 1]);
        assert_eq!(page(Some(1)).await, [] as [i64; 0]);
    }
}

async fn nothing_in_the_log_can_be_changed(test: TestStore) {
    test.append([full_entry(), bare_entry()]).await;
    let before = test.checked_log().await;
    let mut statements = vec![
        "update audit_entries set reason = 'other' where seq = 1",
        "update audit_entries set reason = 'other' where seq = 99",
        "delete from audit_entries where seq = 2",
        "delete from audit_entries",
        "insert into audit_entries (seq, event, at, actor, actor_via, detail, leaf, chain)
         select seq, event, at, 'other', actor_via, detail, leaf, chain from audit_entries where seq = 1",
        "insert into audit_entries (seq, event, at, actor, actor_via, detail, leaf, chain)
         select seq, event, at, 'other', actor_via, detail, leaf, chain from audit_entries where seq = 1
         on conflict (seq) do update set actor = excluded.actor",
        "delete from checkpoints where size = 1",
    ];
    match test.engine() {
        Engine::Postgres => statements.extend(["truncate audit_entries", "truncate audit_head"]),
        Engine::Sqlite => {
            // A trigger of SQLite speaks for each row: what touches none changes nothing.
            statements.retain(|statement| !statement.contains("99") && !statement.contains("checkpoints"));
            statements.push(
                "insert or replace into audit_entries (seq, event, at, actor, actor_via, detail, leaf, chain)
                 select seq, event, at, 'other', actor_via, detail, leaf, chain from audit_entries where seq = 1",
            );
        }
    }
    for statement in statements {
        let refused = test.execute(statement).await.expect_err(statement);
        assert!(refused.contains("append-only") || refused.contains("unique"), "{statement}: {refused}");
    }
    assert_eq!(test.checked_log().await, before);
}

async fn the_head_of_the_log_only_moves_on(test: TestStore) {
    test.append([bare_entry(), bare_entry()]).await;
    for statement in [
        "update audit_head set seq = 1",
        "update audit_head set chain = (select chain from audit_entries where seq = 1)",
        "delete from audit_head",
    ] {
        test.execute(statement).await.expect_err(statement);
    }
    test.checked_log().await;
}

async fn what_this_version_does_not_write_is_unreadable(test: TestStore) {
    let blob = match test.engine() {
        Engine::Sqlite => "zeroblob(32)",
        Engine::Postgres => "decode(repeat('00', 32), 'hex')",
    };
    test.execute(&format!(
        "insert into audit_entries (seq, event, at, actor, actor_via, detail, leaf, chain)
         values (1, 'of.another.version', 0, 'x', 'y', '{{}}', {blob}, {blob})"
    ))
    .await
    .unwrap();
    assert!(matches!(test.store().entries_after(0, 1).await, Err(StoreError::Unreadable(_))));
}
