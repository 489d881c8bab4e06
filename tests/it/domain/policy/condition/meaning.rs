//! What conditions come to.

use super::*;

const TRUE: RuleState = RuleState::True;
const FALSE: RuleState = RuleState::False;
const MISSING: RuleState = RuleState::Failed(Failure::MissingValue);
const WRONG_TYPE: RuleState = RuleState::Failed(Failure::WrongType);
const OVERFLOW: RuleState = RuleState::Failed(Failure::Overflow);

#[track_caller]
fn all_come_to(args: Value, expected: &[(&str, RuleState)]) {
    let call = Call::with(args);
    for (source, state) in expected {
        assert_eq!(call.evaluate(source), *state, "{source}");
    }
}

#[test]
fn numbers_compare_exactly_however_they_are_written() {
    for amount in [json!(250), json!(250.0), json!(2.5e2)] {
        all_come_to(
            json!({ "amount": amount, "count": 7 }),
            &[
                ("args.amount <= vars.limit", TRUE),
                ("args.amount < vars.limit", FALSE),
                ("args.amount == 250", TRUE),
                ("args.amount == 250.0", TRUE),
                ("args.amount == vars.whole", TRUE),
                ("args.amount != 250", FALSE),
                ("args.amount > 249.99", TRUE),
                ("args.amount >= 250.01", FALSE),
                ("args.amount + 1 == 251", TRUE),
                ("args.amount - 5000 < 0", TRUE),
                ("args.amount * 1.5 == 375", TRUE),
                ("args.amount / 100 == 2.5", TRUE),
                ("-args.amount == -250", TRUE),
                ("args.count / 2 == 3", TRUE),
                ("args.count % 2 == 1", TRUE),
                ("args.count / 2.0 == 3.5", TRUE),
                ("args.amount in [1, 250]", TRUE),
                ("args.amount in [1, 251.5]", FALSE),
            ],
        );
    }
}

#[test]
fn large_numbers_do_not_become_equal_by_rounding() {
    let call = Call::with(json!({ "count": 9_007_199_254_740_993_i64, "amount": 9_007_199_254_740_992.0 }));
    assert_eq!(call.evaluate("args.count == args.amount"), FALSE);
    assert_eq!(call.evaluate("args.count > args.amount"), TRUE);
    let call = Call::with(json!({ "count": i64::MAX, "amount": 9.3e18 }));
    assert_eq!(call.evaluate("args.count < args.amount"), TRUE);
    assert_eq!(call.evaluate("-args.amount < -args.count"), TRUE);
    let call = Call::with(json!({ "count": 3, "amount": -3.5 }));
    assert_eq!(call.evaluate("args.count > args.amount"), TRUE);
    assert_eq!(call.evaluate("-args.count > args.amount"), TRUE);
    assert_eq!(call.evaluate("-4 < args.amount"), TRUE);
}

#[test]
fn overflow_and_division_by_zero_fail() {
    all_come_to(
        json!({ "count": i64::MAX, "amount": 1e308 }),
        &[
            ("args.count + 1 > 0", OVERFLOW),
            ("args.count * 2 > 0", OVERFLOW),
            ("-args.count - 2 < 0", OVERFLOW),
            ("args.amount * 10 > 0", OVERFLOW),
            ("args.count / 0 > 0", OVERFLOW),
            ("args.count % 0 > 0", OVERFLOW),
            ("args.amount / 0 > 0", OVERFLOW),
            ("-(-args.count - 1) > 0", OVERFLOW),
        ],
    );
}

#[test]
fn what_is_missing_or_null_fails() {
    all_come_to(
        json!({ "note": null, "tags": ["a", null], "amount": null }),
        &[
            ("args.subject == \"x\"", MISSING),
            ("args.count > 1", MISSING),
            ("!args.urgent", MISSING),
            ("args.note == \"x\"", MISSING),
            ("args.note != \"x\"", MISSING),
            ("args.note in [\"x\"]", MISSING),
            ("args.amount > 100", MISSING),
            ("args.amount + 1 > 100", MISSING),
            ("args.note.contains(\"x\")", MISSING),
            ("args.tags[5] == \"x\"", MISSING),
            ("\"z\" in args.tags", MISSING),
            ("\"a\" in args.tags", TRUE),
            ("args.order.total > 1", MISSING),
            ("has(args.order.total)", MISSING),
            ("size(args.lines) == 0", MISSING),
            ("args.lines.all(l, l.price > 1)", MISSING),
            ("args.note == null", TRUE),
            ("args.note != null", FALSE),
            ("null == args.note", TRUE),
            ("has(args.note)", TRUE),
            ("has(args.subject)", FALSE),
            ("run.on_behalf_of == \"ana\"", MISSING),
            ("run.on_behalf_of == null", TRUE),
            ("agent.labels.region == \"eu\"", MISSING),
            ("context.nothing == 1", MISSING),
        ],
    );
}

#[test]
fn values_of_another_type_fail_instead_of_being_unequal() {
    all_come_to(
        json!({ "subject": 5, "amount": "NaN", "urgent": "yes", "tags": "a", "lines": [1], "few": ["1"], "order": [] }),
        &[
            ("args.subject == \"5\"", WRONG_TYPE),
            ("args.subject != \"5\"", WRONG_TYPE),
            ("args.amount <= 100", WRONG_TYPE),
            ("args.urgent", RuleState::Failed(Failure::NotBoolean)),
            ("!args.urgent", WRONG_TYPE),
            ("args.urgent || true", WRONG_TYPE),
            ("args.tags.all(t, t == \"a\")", WRONG_TYPE),
            ("args.lines.all(l, l.price > 0)", WRONG_TYPE),
            ("1 in args.few", WRONG_TYPE),
            ("args.order.total > 1", WRONG_TYPE),
            ("has(args.order.total)", WRONG_TYPE),
            ("context.ticket == 1", WRONG_TYPE),
            ("context.ticket > 1", WRONG_TYPE),
            ("context.list == \"a\"", WRONG_TYPE),
            ("context.ticket", RuleState::Failed(Failure::NotBoolean)),
            ("context.number && true", WRONG_TYPE),
            ("context.list[\"x\"] == 1", WRONG_TYPE),
        ],
    );
}

#[test]
fn evaluation_goes_from_left_to_right_and_absorbs_no_error() {
    all_come_to(
        json!({ "count": 1, "few": [1, 2, 3] }),
        &[
            ("args.urgent || true", MISSING),
            ("true || args.urgent", TRUE),
            ("args.urgent && false", MISSING),
            ("false && args.urgent", FALSE),
            ("args.count == 1 || args.urgent", TRUE),
            ("args.count == 2 || args.urgent", MISSING),
            ("args.count == 1 ? true : args.urgent", TRUE),
            ("args.count == 1 ? args.urgent : true", MISSING),
            ("args.urgent ? true : true", MISSING),
            ("args.count / 0 == 1 || true", OVERFLOW),
            ("true || (true || args.urgent) && args.urgent", TRUE),
            ("args.urgent || true || true || true || true", MISSING),
            ("true && true && true && args.urgent && false", MISSING),
            ("args.few.all(f, f < 2 && args.urgent)", MISSING),
            ("args.few.all(f, f > 1 && args.urgent)", FALSE),
            ("args.few.exists(f, f == 1 || args.urgent)", TRUE),
            ("args.few.exists(f, f == 2 || args.urgent)", MISSING),
            ("args.few.exists(f, 10 / (f - 1) == 10)", OVERFLOW),
            ("args.few.all(f, 10 / (f - 3) < 0)", OVERFLOW),
            ("args.few.exists_one(f, 10 / (f - 3) == -5)", OVERFLOW),
            ("args.few.exists(f, f == 1) || args.urgent", TRUE),
        ],
    );
}

#[test]
fn macros_go_over_lists() {
    all_come_to(
        json!({ "few": [1, 2, 3], "tags": [], "lines": [{ "price": 2, "quantity": 3 }, { "price": 5, "quantity": 1 }] }),
        &[
            ("args.few.all(f, f > 0)", TRUE),
            ("args.few.all(f, f > 1)", FALSE),
            ("args.few.exists(f, f == 3)", TRUE),
            ("args.few.exists(f, f == 4)", FALSE),
            ("args.few.exists_one(f, f == 3)", TRUE),
            ("args.few.exists_one(f, f > 1)", FALSE),
            ("args.few.exists_one(f, f > 9)", FALSE),
            ("args.tags.all(t, t == \"x\")", TRUE),
            ("size(args.tags) > 0 && args.tags.all(t, t == \"x\")", FALSE),
            ("args.tags.exists(t, t == \"x\")", FALSE),
            ("args.lines.all(l, l.price * l.quantity <= 6)", TRUE),
            ("args.lines.exists(l, has(l.sku))", FALSE),
            ("args.lines.exists(l, l.sku == \"a\")", MISSING),
            ("vars.rates.exists(r, r.sku == \"b\" && r.most == 5)", TRUE),
            ("[1, args.few[0], 3].all(i, i < 4)", TRUE),
            ("[\"a\", \"b\"].exists(i, i == \"b\")", TRUE),
            ("resolved.to.all(r, r.domain in vars.domains)", FALSE),
            ("resolved.to.exists(r, r.domain in vars.domains)", TRUE),
            ("resolved.to[0].domain in vars.domains", TRUE),
            ("resolved.subject.hosts.all(h, h.endsWith(\".example\"))", TRUE),
            ("context.list.all(i, i.contains(\"a\"))", FALSE),
            ("run.labels.exists(l, l == \"private-data\")", TRUE),
        ],
    );
}

#[test]
fn texts_are_tested_by_code_point_and_without_normalisation() {
    all_come_to(
        json!({ "subject": "Äpfel und Birnen", "note": "e\u{301}", "short": "x,y" }),
        &[
            ("size(args.subject) == 16", TRUE),
            ("args.subject.size() == 16", TRUE),
            ("args.subject.contains(\"und\")", TRUE),
            ("args.subject.startsWith(\"Ä\")", TRUE),
            ("args.subject.endsWith(\"nen\")", TRUE),
            ("args.subject.endsWith(\"Birne\")", FALSE),
            ("args.subject.lowerAscii().startsWith(\"Äpfel und b\")", TRUE),
            ("args.subject.upperAscii() == \"ÄPFEL UND BIRNEN\"", TRUE),
            ("args.note == \"é\"", FALSE),
            ("args.subject > \"Zebra\"", TRUE),
            ("args.subject + \"!\" == \"Äpfel und Birnen!\"", TRUE),
            ("\"ä\" in [\"a\", \"ä\"]", TRUE),
            ("args.short in [\"x,y\", \"z\"]", TRUE),
            ("args.short in [\"x\", \"y\"]", FALSE),
        ],
    );
}

#[test]
fn regular_expressions_match_the_whole_text() {
    all_come_to(
        json!({ "subject": "alice@corp.example", "short": "ab\n", "note": "x.evil" }),
        &[
            ("args.subject.matches(\"alice@corp[.]example\")", TRUE),
            ("matches(args.subject, \"[a-z]+@corp[.]example\")", TRUE),
            ("args.subject.matches(\"alice@corp\")", FALSE),
            ("args.subject.matches(\"corp[.]example\")", FALSE),
            ("args.subject.matches(\"alice|alice@corp.example\")", TRUE),
            ("args.subject.matches(\"a|b\")", FALSE),
            ("args.subject.matches(\"^alice@corp.example$\")", TRUE),
            ("args.subject.matches(\"(?x) alice @corp.example # end\")", TRUE),
            ("args.subject.matches(\"(?x) alice # end\")", FALSE),
            ("args.short.matches(\"ab\")", FALSE),
            ("args.short.matches(\"(?m)^ab$\")", FALSE),
            ("args.short.matches(\"ab$\")", FALSE),
            ("args.short.matches(\"ab\\n\")", TRUE),
            ("args.note.matches(\"x.*\")", TRUE),
            ("args.note.matches(\"\")", FALSE),
            ("\"\".matches(\"\")", TRUE),
        ],
    );
}

#[test]
fn a_star_in_a_glob_stops_at_slashes_and_in_hosts_at_dots() {
    all_come_to(
        json!({ "subject": "a/b/c.txt", "path": "c.txt", "short": "a+b(c)" }),
        &[
            ("glob(args.subject, \"a/*\")", FALSE),
            ("glob(args.subject, \"a/*/*.txt\")", TRUE),
            ("glob(args.subject, \"a/**\")", TRUE),
            ("glob(args.subject, \"**/c.txt\")", TRUE),
            ("glob(args.path, \"**/c.txt\")", TRUE),
            ("glob(args.subject, \"**c.txt\")", TRUE),
            ("glob(args.subject, \"*c.txt\")", FALSE),
            ("glob(args.subject, \"b/**\")", FALSE),
            ("glob(args.subject, \"a/b/c?txt\")", FALSE),
            ("glob(args.short, \"a+*(c)\")", TRUE),
            ("glob(resolved.path.name, \"*.pdf\")", TRUE),
            ("glob(resolved.path.path, \"reports/**/*.pdf\")", TRUE),
            ("glob(resolved.path.path, \"reports/*.pdf\")", FALSE),
            ("glob(resolved.url.host, \"*.acme.example\")", TRUE),
            ("glob(resolved.url.host, \"*.example\")", FALSE),
            ("glob(resolved.url.host, \"**.example\")", TRUE),
            ("glob(resolved.url.host, \"**.acme.example\")", TRUE),
            ("resolved.subject.hosts.exists(h, glob(h, \"*.example\"))", FALSE),
            ("resolved.subject.hosts.exists(h, glob(h, \"*.*.example\"))", TRUE),
            ("resolved.to.exists(r, glob(r.domain, \"*.example\"))", TRUE),
        ],
    );
}

#[test]
fn names_are_read_wherever_they_stand() {
    all_come_to(
        json!({ "order": { "total": 3 }, "tags": ["red"], "count": 1 }),
        &[
            ("args[\"order\"].total == 3", TRUE),
            ("args.order[\"total\"] == 3", TRUE),
            ("args.`order`.total == 3", TRUE),
            ("has(args.order.total) && !has(args.subject)", TRUE),
            ("has(resolved.url) && !has(resolved.url.host) == false", TRUE),
            ("agent.id == \"billing-bot\" && agent.labels.team == \"billing\"", TRUE),
            ("\"team\" in agent.labels", TRUE),
            ("has(agent.labels.region)", FALSE),
            ("\"private-data\" in run.labels", TRUE),
            ("\"untrusted-content\" in run.labels", FALSE),
            ("run.id == \"run-1\"", TRUE),
            ("context.ticket.startsWith(\"T-\") && context.flag", TRUE),
            ("has(context.other)", FALSE),
            ("\"ticket\" in context", TRUE),
            ("vars.per_tag[args.tags[0]] == 10", TRUE),
            ("vars.per_tag[\"blue\"] == 20", TRUE),
            ("vars.domains[args.count] == \"acme.internal\"", TRUE),
            ("has(vars.limit)", TRUE),
            ("resolved.url.port == 443 && !resolved.url.is_ip", TRUE),
            ("resolved[\"url\"].host.endsWith(\".acme.example\")", TRUE),
            ("now.year == 2026 && now.month == 11 && now.day == 30 && now.weekday == 1", TRUE),
            ("now.hour == 15 && now.minute == 4 && now.unix == 1796051045", TRUE),
        ],
    );
}

#[test]
fn a_fact_that_was_not_gathered_is_missing_and_not_empty() {
    let call = Call { context: None, run: None, ..Call::with(json!({ "short": "x", "subject": " " })) };
    for source in ["has(context.x)", "context.flag", "\"a\" in run.labels", "run.id != \"x\"", "!(\"a\" in run.labels)"]
    {
        assert_eq!(call.evaluate(source), MISSING, "{source}");
    }
    assert_eq!(call.evaluate_with(&compiled("requested(args.short)"), Request::NotGathered), MISSING);
}

#[test]
fn requested_asks_the_trusted_request() {
    let call = Call::with(json!({ "short": "ana", "amount": 12.5, "count": 3, "subject": " \t", "note": null }));
    let names = |value: RequestedValue<'_>| {
        matches!(value, RequestedValue::Text("ana") | RequestedValue::Int(3) | RequestedValue::Double(_))
    };
    let states = |request: Request<'_>| {
        ["args.short", "args.count", "args.amount", "args.subject", "args.note"]
            .map(|value| call.evaluate_with(&compiled(&format!("requested({value})")), request))
    };
    assert_eq!(states(Request::Made(&names)), [TRUE, TRUE, TRUE, MISSING, MISSING]);
    assert_eq!(states(Request::None), [FALSE, FALSE, FALSE, MISSING, MISSING]);
    let free = Call { context: Some(json!({ "x": [1], "y": true })), ..Call::with(json!({})) };
    assert_eq!(free.evaluate_with(&compiled("requested(context.x)"), Request::Made(&names)), WRONG_TYPE);
    assert_eq!(free.evaluate_with(&compiled("requested(context.y)"), Request::Made(&names)), WRONG_TYPE);
}

#[test]
fn a_list_longer_than_its_bound_fails() {
    let too_long = RuleState::Failed(Failure::ListTooLong);
    let list = |length: usize| vec!["a"; length];
    let call = Call::with(json!({ "tags": list(1_001), "to": list(51) }));
    assert_eq!(call.evaluate("args.tags.exists(t, t == \"a\")"), too_long);
    assert_eq!(call.evaluate("\"a\" in args.tags"), too_long);
    assert_eq!(call.evaluate("args.to.exists(t, t == \"a\")"), too_long);
    assert_eq!(call.evaluate("args.to[0] == \"a\" && size(args.tags) > 1"), TRUE);
    let call = Call::with(json!({ "tags": list(1_000), "to": list(50) }));
    assert_eq!(call.evaluate("args.tags.all(t, t == \"a\")"), TRUE);
    assert_eq!(call.evaluate("\"b\" in args.to"), FALSE);
}

#[test]
fn what_a_condition_reads_is_listed() {
    let condition = compiled(
        "args.amount > 1 && args.lines.all(l, l.price > 0) && resolved.url.port == 1 || run.id == agent.id \
         || requested(args.amount)",
    );
    let property = |name: &str| Step::Property(name.to_owned());
    let reads = condition.reads();
    assert_eq!(
        reads.arguments,
        [vec![property("amount")], vec![property("lines")], vec![property("lines"), Step::Item, property("price")],]
    );
    assert_eq!(reads.resolved.iter().map(String::as_str).collect::<Vec<_>>(), ["url"]);
    assert_eq!((reads.run, reads.agent, reads.requested, reads.context, reads.now), (true, true, true, false, false));
    let reads = compiled("now.hour < 6 && has(context.x) && vars.limit > 3").reads().clone();
    assert_eq!((reads.run, reads.agent, reads.requested, reads.context, reads.now), (false, false, false, true, true));
}
