//! Arguments that stand at a JSON Pointer: what loads, which values they lead to, and what rules see of them.

use std::collections::BTreeMap;

use countersign::domain::{
    call::{Arguments, CallKey, ToolCall},
    canon::path::{PathFailure, PathFinding, PathQuestion},
    decision::{Judgement, ReasonCode},
    facts::Facts,
    identity::AgentId,
    ids::{RunId, ToolUseId},
    judge::{judge, paths_to_find},
    policy::{Fault, Policy, SourceFile},
    verdict::Verdict,
};
use serde_json::{Value, json};

use crate::support::clock::START;

const SCHEMA: &str = r#"
schema = 1
[vars]
friends = ["ana@acme.example"]
[tools.t]
risk = "send"
parameters = { type = "object", properties = { items = { type = "array", maxItems = 30, items = { type = "object", properties = { path = { type = ["string", "null"] }, tags = { type = "array", maxItems = 5, items = { type = "string" } } } } }, recipients = { type = ["array", "string"], items = { type = ["string", "null"] } }, one = { type = "object", properties = { to = { type = "string" } } }, "a/b~c" = { type = "array", items = { type = "string" } }, n = { type = "integer" } } }
"#;

fn load(more: &str) -> Result<Policy, Vec<Fault>> {
    let text = format!("{SCHEMA}{more}");
    Policy::load(&[SourceFile { path: "policy.toml".to_owned(), text }]).map(|loaded| loaded.policy)
}

#[track_caller]
fn policy(more: &str) -> Policy {
    load(more).unwrap_or_else(|faults| panic!("{faults:#?}"))
}

#[track_caller]
fn assert_refused(more: &str, message: &str) {
    let found = load(more).expect_err("a policy that does not load");
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].message.contains(message), "{found:#?}");
    assert!(found[0].line > 1 && !found[0].hint.is_empty(), "{found:#?}");
}

fn argument(key: &str, options: &str) -> String {
    format!("[tools.t.arguments.{key:?}]\n{options}\n")
}

fn rule(when: &str, verdict: &str) -> String {
    format!("[[tools.t.rules]]\nid = \"r\"\nwhen = '''{when}'''\nverdict = \"{verdict}\"\nreason = \"because\"\n")
}

fn call(args: &Value) -> ToolCall {
    ToolCall {
        key: CallKey {
            agent: AgentId::parse("bot").unwrap(),
            run: RunId::parse("run-1").unwrap(),
            turn: 0,
            tool_use_id: ToolUseId::parse("call-1").unwrap(),
        },
        tool: "t".to_owned(),
        args: Arguments::new(args.as_object().unwrap().clone()).unwrap(),
        context: None,
    }
}

fn judged(policy: &Policy, args: Value) -> Judgement {
    judge(policy, &call(&args), &Facts::default(), START)
}

const EMAILS: &str = "kind = \"email\"";
const PATHS: &str = "kind = \"path\"\nbase = \"/srv\"\nnever = [\"*.pem\"]";
const ON_DISK: &str = "kind = \"path\"\nbase = \"/srv\"\nnever = [\"*.pem\"]\nresolve = \"filesystem\"";

#[test]
fn a_pointer_gives_the_list_of_what_it_leads_to_in_order_without_absent_and_null_parts() {
    let policy = policy(&argument("/items/*/path", PATHS));
    let args = json!({ "items": [{ "path": "b" }, {}, { "path": null }, { "path": "a/c" }] });
    let found = judged(&policy, args);
    let paths: Vec<_> =
        found.resolved["/items/*/path"].as_array().unwrap().iter().map(|path| path["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["/srv/b", "/srv/a/c"]);
    assert_eq!(found.obligations["resolved_paths"], json!({ "/items/0/path": "/srv/b", "/items/3/path": "/srv/a/c" }));
    assert_eq!(found.obligations["nofollow"], true);
}

#[test]
fn a_list_that_is_empty_is_empty_and_one_that_is_absent_is_absent() {
    let policy = policy(&argument("/items/*/path", PATHS));
    assert_eq!(judged(&policy, json!({ "items": [] })).resolved["/items/*/path"], json!([]));
    assert_eq!(judged(&policy, json!({ "items": [{}] })).resolved["/items/*/path"], json!([]));
    assert_eq!(judged(&policy, json!({})).resolved.get("/items/*/path"), None);
}

#[test]
fn a_pointer_without_a_star_gives_a_list_of_one() {
    let policy = policy(&argument("/one/to", EMAILS));
    let found = judged(&policy, json!({ "one": { "to": "Ana@Acme.example" } }));
    assert_eq!(found.resolved["/one/to"].as_array().unwrap().len(), 1);
    assert_eq!(judged(&policy, json!({ "one": {} })).resolved.get("/one/to"), None);
}

#[test]
fn the_lists_that_a_kind_makes_of_each_item_are_one_list() {
    let policy = policy(&argument("/recipients/*", EMAILS));
    let found = judged(&policy, json!({ "recipients": ["a@x.example, b@x.example", null, "c@x.example"] }));
    let addresses: Vec<_> = found.resolved["/recipients/*"].as_array().unwrap().iter().map(|to| &to["local"]).collect();
    assert_eq!(addresses, ["a", "b", "c"]);
}

#[test]
fn a_value_where_a_list_or_an_object_is_due_is_refused_and_never_skipped() {
    let policy = policy(&argument("/recipients/*", EMAILS));
    let found = judged(&policy, json!({ "recipients": "eve@evil.example" }));
    assert_eq!(found.verdict, Verdict::Deny);
    assert_eq!(found.reason.code, ReasonCode::UnresolvableArgument);
    assert_eq!(found.reason.rule.as_deref(), Some("/recipients/*: not_a_list"));
}

#[test]
fn one_bad_item_among_many_denies_the_call_and_is_named() {
    let policy = policy(&argument("/items/*/path", PATHS));
    let found = judged(&policy, json!({ "items": [{ "path": "a" }, { "path": "deep/key.pem" }] }));
    assert_eq!(found.reason.code, ReasonCode::Constraint);
    assert_eq!(found.reason.rule.as_deref(), Some("/items/*/path: never"));
    assert!(found.reason.text.contains("/items/1/path"), "{}", found.reason.text);
}

#[test]
fn a_rule_reads_the_list_under_the_pointer() {
    let when = r#"resolved["/recipients/*"].all(r, r.domain == "acme.example")"#;
    let policy = policy(&(argument("/recipients/*", EMAILS) + &rule(when, "allow")));
    assert_eq!(judged(&policy, json!({ "recipients": ["a@acme.example"] })).verdict, Verdict::Allow);
    let mixed = json!({ "recipients": ["a@acme.example", "b@acme.example.evil.test"] });
    assert_eq!(judged(&policy, mixed).verdict, Verdict::RequireApproval);
    assert_eq!(judged(&policy, json!({})).verdict, Verdict::RequireApproval, "what is absent holds nothing");
}

#[test]
fn names_in_a_pointer_are_escaped_as_rfc_6901_says() {
    let policy = policy(&argument("/a~1b~0c/*", EMAILS));
    let found = judged(&policy, json!({ "a/b~c": ["x@y.example"] }));
    assert_eq!(found.resolved["/a~1b~0c/*"][0]["local"], "x");
}

#[test]
fn a_pointer_that_leads_nowhere_is_a_load_error() {
    for key in ["/item/*/path", "/items/path", "/items/0/path", "/items/*/paht", "/n/*", "/items/*/path/*", "/"] {
        assert_refused(&argument(key, PATHS), "has no property");
    }
    assert_refused(&argument("/*", PATHS), "an object and no list");
    assert_refused(&argument("/a~2b/*", EMAILS), "`~`");
    assert_refused(&argument("/items/*", PATHS), "cannot hold such a value");
}

#[test]
fn two_declarations_of_one_value_or_of_one_within_the_other_are_a_load_error() {
    for (one, other) in [
        ("recipients", "/recipients"),
        ("recipients", "/recipients/*"),
        ("/items/*/tags/*", "/items/*/tags"),
        ("/one", "/one/to"),
    ] {
        let both = argument(one, EMAILS) + &argument(other, EMAILS);
        assert_refused(&both, "the same argument, or one within the other");
    }
    policy(&(argument("/items/*/tags/*", "kind = \"text\"") + &argument("/items/*/path", PATHS)));
}

#[test]
fn a_loosening_rule_reads_no_raw_value_of_an_item_with_a_kind() {
    let declared = argument("/recipients/*", EMAILS) + &argument("/items/*/path", PATHS) + &argument("/one/to", EMAILS);
    for when in [
        r#"args.items.all(i, i.path == "a")"#,
        r#"args.items[0].path == "a""#,
        r#"args.one.to in vars.friends"#,
        r#"has(args.one.to)"#,
    ] {
        assert_refused(&(declared.clone() + &rule(when, "allow")), "a loosening rule must not read the raw value");
    }
    policy(&(declared.clone() + &rule("size(args.items) < 3", "allow")));
    policy(&(declared + &rule(r#"args.items.exists(i, has(i.path) && i.path == "a")"#, "deny")));
}

#[test]
fn in_reads_the_items_of_a_list_as_well() {
    let list = SCHEMA.replace(r#"type = ["array", "string"]"#, r#"type = "array""#);
    let list = list.replace(r#"items = { type = ["string", "null"] } }, one"#, r#"items = { type = "string" } }, one"#);
    let text = list + &argument("/recipients/*", EMAILS) + &rule(r#""a@acme.example" in args.recipients"#, "allow");
    let found = Policy::load(&[SourceFile { path: "p.toml".to_owned(), text }]).unwrap_err();
    assert!(found[0].message.contains("must not read the raw value of `/recipients/*`"), "{found:#?}");
}

#[test]
fn a_list_costs_as_much_as_it_can_hold() {
    // 30 items of 5 tags each are few; 30 of 500 are not.
    let when = r#"resolved["/items/*/tags/*"].all(t, size(t.hosts) == 0 && size(t.addresses) == 0)"#;
    policy(&(argument("/items/*/tags/*", "kind = \"text\"") + &rule(when, "allow")));
    let long = SCHEMA.replace("maxItems = 5, ", "maxItems = 500, ");
    let text = long + &argument("/items/*/tags/*", "kind = \"text\"") + &rule(when, "allow");
    let found = Policy::load(&[SourceFile { path: "p.toml".to_owned(), text }]).unwrap_err();
    assert!(found[0].message.contains("steps"), "{found:#?}");
}

#[test]
fn more_values_than_a_list_may_hold_deny() {
    let unbounded = SCHEMA.replace("maxItems = 30, ", "");
    let text = unbounded + &argument("/items/*/path", PATHS) + &argument("/recipients/*", EMAILS);
    let policy = Policy::load(&[SourceFile { path: "p.toml".to_owned(), text }]).unwrap().policy;
    let paths = |count: usize| json!({ "items": vec![json!({ "path": "a" }); count] });
    assert_eq!(judged(&policy, paths(1000)).reason.code, ReasonCode::Default);
    let over = judged(&policy, paths(1001));
    assert_eq!(over.reason.rule.as_deref(), Some("/items/*/path: too_many_values"));
    let many = vec!["a@b.example"; 600].join(",");
    let over = judged(&policy, json!({ "recipients": [many, many] }));
    assert_eq!(over.reason.rule.as_deref(), Some("/recipients/*: too_many_values"));
}

#[test]
fn every_kind_can_be_declared_and_is_held_to_the_types_it_takes() {
    for (key, kind) in [
        ("/one/to", "kind = \"hostname\""),
        ("/one/to", "kind = \"sql\"\ndialect = \"sqlite\""),
        ("/one/to", "kind = \"money\"\ncurrency = \"EUR\""),
        ("n", "kind = \"money\"\ncurrency = \"EUR\""),
        ("/one/to", "kind = \"text\""),
        ("/one/to", "kind = \"url\""),
    ] {
        policy(&argument(key, kind));
    }
    assert_refused(&argument("n", "kind = \"text\""), "cannot hold such a value");
    assert_refused(&argument("/one/to", "kind = \"phone\""), "there is no such kind");
}

#[test]
fn only_paths_that_a_call_may_come_to_are_looked_up() {
    let policy = policy(&(argument("/items/*/path", ON_DISK) + "[agents.bot]\ntools = [\"t\"]\n"));
    let asked = |args: Value| paths_to_find(&policy, &call(&args));
    let question = PathQuestion { base: "/srv".to_owned(), below: "a/b".to_owned() };
    assert_eq!(
        asked(json!({ "items": [{ "path": "a//b" }, { "path": "x.pem" }, { "path": "../x" }] })),
        BTreeMap::from([("/items/0/path".to_owned(), question)])
    );
    assert_eq!(asked(json!({ "items": [{ "path": "a" }], "unknown": 1 })), BTreeMap::new());
    let stranger = ToolCall {
        key: CallKey { agent: AgentId::parse("stranger").unwrap(), ..call(&json!({})).key },
        ..call(&json!({ "items": [{ "path": "a" }] }))
    };
    assert_eq!(paths_to_find(&policy, &stranger), BTreeMap::new());
}

#[test]
fn the_place_on_disk_is_judged_like_the_path_and_is_what_rules_see() {
    let policy = policy(&argument("/items/*/path", &(ON_DISK.to_owned() + "\nroots = [\"pub\"]")));
    let found = |finding: Option<PathFinding>| {
        let paths = finding.map(|finding| ("/items/0/path".to_owned(), finding)).into_iter().collect();
        let facts = Facts { paths, ..Facts::default() };
        judge(&policy, &call(&json!({ "items": [{ "path": "pub/link" }] })), &facts, START)
    };
    let at = |place: &str| found(Some(PathFinding::At(place.to_owned())));

    let fine = at("pub/real.txt");
    assert_eq!(fine.resolved["/items/*/path"][0]["path"], "/srv/pub/real.txt");
    assert_eq!(fine.obligations["resolved_paths"]["/items/0/path"], "/srv/pub/real.txt");

    for place in ["elsewhere/x", "pub/key.pem", ""] {
        assert_eq!(at(place).reason.code, ReasonCode::Constraint, "{place}");
    }
    for place in ["pub/../x", "pub//x", "/pub/x", "pub/a\\b", "pub/x\u{200b}"] {
        assert_eq!(at(place).reason.code, ReasonCode::UnresolvableArgument, "{place}");
    }
    let failed = found(Some(PathFinding::Failed(PathFailure::LinkOutOfBase)));
    assert_eq!(failed.reason.code, ReasonCode::UnresolvableArgument);
    assert_eq!(failed.reason.rule.as_deref(), Some("/items/*/path: link_out_of_base"));
    assert_eq!(found(None).reason.rule.as_deref(), Some("/items/*/path: not_looked_up"));
}

#[test]
fn a_step_back_has_no_single_meaning_where_links_are_followed() {
    let policy = policy(&argument("/items/*/path", ON_DISK));
    let found = judged(&policy, json!({ "items": [{ "path": "a/../b" }] }));
    assert_eq!(found.reason.rule.as_deref(), Some("/items/*/path: parent_step"));
}

#[test]
fn more_paths_than_are_looked_up_deny() {
    let wide = SCHEMA.replace("maxItems = 30, ", "");
    let text = wide + &argument("/items/*/path", ON_DISK);
    let policy = Policy::load(&[SourceFile { path: "p.toml".to_owned(), text }]).unwrap().policy;
    let items: Vec<_> = (0..201).map(|number| json!({ "path": format!("f{number}") })).collect();
    let call = call(&json!({ "items": items }));
    let questions = paths_to_find(&policy, &call);
    assert_eq!(questions.len(), 200);
    let paths = questions.into_iter().map(|(place, question)| (place, PathFinding::At(question.below))).collect();
    let found = judge(&policy, &call, &Facts { paths, ..Facts::default() }, START);
    assert_eq!(found.reason.rule.as_deref(), Some("/items/*/path: not_looked_up"));
}

#[test]
fn findings_are_recorded_and_read_again() {
    let facts = Facts {
        paths: BTreeMap::from([
            ("a".to_owned(), PathFinding::At("x/y".to_owned())),
            ("b".to_owned(), PathFinding::Failed(PathFailure::TooLong)),
        ]),
        ..Facts::default()
    };
    let written = serde_json::to_value(&facts).unwrap();
    assert_eq!(written["paths"], json!({ "a": { "at": "x/y" }, "b": { "failed": "too_long" } }));
    assert_eq!(serde_json::from_value::<Facts>(written).unwrap(), facts);
}
