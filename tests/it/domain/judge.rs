//! Steps 1 to 6 of the decision.

use std::{collections::BTreeMap, time::Duration};

use countersign::domain::{
    call::{Arguments, CallKey, ToolCall},
    decision::{Judgement, ReasonCode},
    facts::{Facts, RunFacts},
    identity::AgentId,
    ids::{RunId, ToolUseId},
    judge::judge,
    policy::{
        Policy,
        condition::{Failure, RuleState},
    },
    time::Timestamp,
    verdict::Verdict,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{
    clock::START,
    world::{object, policy},
};

fn call_of(agent: &str, tool: &str, args: Value) -> ToolCall {
    ToolCall {
        key: CallKey {
            agent: AgentId::parse(agent).unwrap(),
            run: RunId::parse("run-1").unwrap(),
            turn: 0,
            tool_use_id: ToolUseId::parse("call-1").unwrap(),
        },
        tool: tool.to_owned(),
        args: Arguments::new(object(args)).unwrap(),
        context: None,
    }
}

fn judged(policy: &Policy, tool: &str, args: Value) -> Judgement {
    judge(policy, &call_of("bot", tool, args), &Facts::default(), START)
}

/// What came out, and why.
fn outcome(judgement: &Judgement) -> (Verdict, ReasonCode, Option<&str>) {
    (judgement.verdict, judgement.reason.code, judgement.reason.rule.as_deref())
}

/// A tool `t` of this risk, with more in its table and after it.
fn tool(risk: &str, more: &str) -> Policy {
    policy(&format!(
        r#"
schema = 1
[tools.t]
risk = "{risk}"
obligations = {{ max_bytes = 9 }}
parameters = {{ type = "object", properties = {{ n = {{ type = "integer" }}, m = {{ type = "integer" }} }} }}
{more}
"#
    ))
}

/// A rule of that tool.
fn rule(id: &str, when: &str, verdict: &str) -> String {
    format!("[[tools.t.rules]]\nid = \"{id}\"\nwhen = '{when}'\nverdict = \"{verdict}\"\nreason = \"because {id}\"\n")
}

/// A rule over many tools.
fn floor(id: &str, when: &str, verdict: &str) -> String {
    format!(
        "[[rules]]\nid = \"{id}\"\ntools = [\"t\"]\nwhen = '{when}'\nverdict = \"{verdict}\"\nreason = \"because {id}\"\n"
    )
}

#[test]
fn without_a_rule_the_risk_decides_or_what_the_policy_says_instead() {
    for (risk, verdict) in [
        ("read", Verdict::Allow),
        ("draft", Verdict::AllowAudited),
        ("send", Verdict::RequireApproval),
        ("destructive", Verdict::RequireApproval),
    ] {
        assert_eq!(outcome(&judged(&tool(risk, ""), "t", json!({}))), (verdict, ReasonCode::Default, None));
        let denied = policy(&format!(
            "schema = 1\n[defaults]\n{risk} = \"deny\"\n[tools.t]\nrisk = \"{risk}\"\nparameters = {{ type = \"object\" }}\n"
        ));
        assert_eq!(outcome(&judged(&denied, "t", json!({}))), (Verdict::Deny, ReasonCode::Default, None));
    }
}

#[test]
fn a_paused_agent_and_an_ended_run_may_use_nothing() {
    let policy = tool("read", "");
    let call = call_of("bot", "t", json!({}));
    let paused = Facts { agent_paused: true, ..Facts::default() };
    assert_eq!(outcome(&judge(&policy, &call, &paused, START)), (Verdict::Deny, ReasonCode::AgentPaused, None));
    let ended = Facts { run: Some(RunFacts { ended: true, ..RunFacts::default() }), ..Facts::default() };
    assert_eq!(outcome(&judge(&policy, &call, &ended, START)), (Verdict::Deny, ReasonCode::RunEnded, None));
}

#[test]
fn an_unknown_tool_is_denied_and_names_are_exact() {
    let policy = tool("read", "aliases = [\"mcp__t\"]");
    for name in ["x", "T", "t ", "", "mcp__T", "ｔ"] {
        let judgement = judged(&policy, name, json!({}));
        assert_eq!(outcome(&judgement), (Verdict::Deny, ReasonCode::UnknownTool, None), "{name:?}");
        assert_eq!(judgement.tool, None);
    }
    let judgement = judged(&policy, "mcp__t", json!({}));
    assert_eq!((judgement.verdict, judgement.tool.as_deref()), (Verdict::Allow, Some("t")));
}

#[test]
fn where_agents_are_listed_each_may_use_what_its_list_names_and_others_nothing() {
    let policy =
        tool("read", "[tools.u]\nrisk = \"read\"\nparameters = { type = \"object\" }\n[agents.bot]\ntools = [\"t\"]\n");
    let of = |agent, tool| outcome(&judge(&policy, &call_of(agent, tool, json!({})), &Facts::default(), START)).1;
    assert_eq!(of("bot", "t"), ReasonCode::Default);
    assert_eq!(of("bot", "u"), ReasonCode::ToolNotGranted);
    for agent in ["stranger", "BOT"] {
        assert_eq!(of(agent, "t"), ReasonCode::ToolNotGranted, "{agent}");
    }
}

#[test]
fn a_tool_that_is_not_granted_tells_nothing_of_its_schema() {
    let policy = tool("read", "[agents.some-bot]\ntools = [\"t\"]\n");
    let judgement = judged(&policy, "t", json!({ "n": "no number" }));
    assert_eq!(outcome(&judgement), (Verdict::Deny, ReasonCode::ToolNotGranted, None));
    assert_eq!(judgement.argument_faults, []);
}

#[test]
fn arguments_that_do_not_fit_the_schema_are_denied_with_their_places() {
    let policy = tool("read", &rule("allowed", "args.n > 0", "allow_audited"));
    for (args, pointer) in [(json!({ "n": "1" }), "/n"), (json!({ "n": 1.5 }), "/n"), (json!({ "n": null }), "/n")] {
        let judgement = judged(&policy, "t", args);
        assert_eq!(outcome(&judgement), (Verdict::Deny, ReasonCode::InvalidArguments, None));
        assert_eq!(judgement.argument_faults[0].pointer, pointer);
        assert!(judgement.rules.is_empty());
        assert!(judgement.obligations.is_empty());
    }
    assert_eq!(outcome(&judged(&policy, "t", json!({ "x": 1 }))).1, ReasonCode::InvalidArguments);
}

const PLACES: &str = r#"
schema = 1
[tools.fetch]
risk = "read"
obligations = { max_bytes = 9 }
parameters = { type = "object", properties = { url = { type = "string" }, from = { type = "string" }, into = { type = "string" } } }
[tools.fetch.arguments.url]
kind = "url"
hosts = ["api.acme.example"]
[tools.fetch.arguments.from]
kind = "path"
base = "/srv"
roots = ["in"]
[tools.fetch.arguments.into]
kind = "path"
base = "/srv"
roots = ["out"]
never = ["*.pem"]
[[tools.fetch.rules]]
id = "never-reached"
when = 'args.url == ""'
verdict = "allow_audited"
reason = "x"
"#;

#[test]
fn an_argument_without_a_single_meaning_and_one_that_is_forbidden_are_denied_apart() {
    let policy = policy(&PLACES.replace("args.url == \"\"", "resolved.url.host == \"\""));
    for (args, code, argument) in [
        (json!({ "url": "https://user@api.acme.example/" }), ReasonCode::UnresolvableArgument, "url: "),
        (json!({ "url": "https://evil.example/" }), ReasonCode::Constraint, "url: "),
        (json!({ "into": "out/key.pem" }), ReasonCode::Constraint, "into: "),
        (json!({ "into": "in/a" }), ReasonCode::Constraint, "into: "),
        (json!({ "into": "out/%2e%2e/in" }), ReasonCode::UnresolvableArgument, "into: "),
        (json!({ "from": "" }), ReasonCode::UnresolvableArgument, "from: "),
    ] {
        let judgement = judged(&policy, "fetch", args.clone());
        assert_eq!((judgement.verdict, judgement.reason.code), (Verdict::Deny, code), "{args}");
        assert!(judgement.reason.rule.as_ref().unwrap().starts_with(argument), "{args}: {:?}", judgement.reason);
        assert!(judgement.obligations.is_empty() && judgement.rules.is_empty(), "{args}");
        // What goes into the log's entry repeats nothing of the value.
        let said = format!("{:?}", judgement.reason);
        for part in ["user@", "evil.example", "key.pem", "%2e"] {
            assert!(!said.contains(part), "{said}");
        }
    }
}

#[test]
fn obligations_are_the_tools_and_those_of_each_argument_that_was_given() {
    let policy = policy(&PLACES.replace("args.url == \"\"", "resolved.url.host == \"\""));
    let judgement = judged(&policy, "fetch", json!({ "from": "in/a/../b", "into": "out/c" }));
    assert_eq!(judgement.obligations["max_bytes"], 9);
    assert_eq!(judgement.obligations["resolved_paths"], json!({ "from": "/srv/in/b", "into": "/srv/out/c" }));
    assert!(!judgement.obligations.contains_key("block_private"));
    assert!(!judgement.resolved.contains_key("url"));
    let judgement = judged(&policy, "fetch", json!({ "url": "https://api.acme.example/x" }));
    assert_eq!(judgement.obligations["block_private"], true);
    assert!(!judgement.obligations.contains_key("resolved_paths"));
    assert_eq!(judgement.resolved["url"]["host"], "api.acme.example");
}

#[test]
fn the_strictest_true_rule_of_the_tool_wins_over_its_default() {
    let policy = tool(
        "send",
        &[
            rule("small", "args.n < 10", "allow"),
            rule("noted", "args.n < 5", "allow_audited"),
            rule("never", "args.n < 2", "deny"),
            rule("asked", "args.n < 3", "require_approval"),
        ]
        .concat(),
    );
    for (n, verdict, rule) in [
        (9, Verdict::Allow, Some("small")),
        (4, Verdict::AllowAudited, Some("noted")),
        (2, Verdict::RequireApproval, Some("asked")),
        (1, Verdict::Deny, Some("never")),
    ] {
        let judgement = judged(&policy, "t", json!({ "n": n }));
        assert_eq!(outcome(&judgement), (verdict, ReasonCode::Rule, rule), "{n}");
        assert_eq!(judgement.rules.len(), 4);
        assert_eq!(judgement.obligations.is_empty(), verdict == Verdict::Deny);
    }
    assert_eq!(outcome(&judged(&policy, "t", json!({ "n": 10 }))).0, Verdict::RequireApproval);
}

#[test]
fn a_rule_that_fails_counts_against_the_call_whatever_it_says() {
    // `n` is missing: a rule that would loosen is false, every other is true.
    for (risk, verdict, expected) in [
        ("send", "allow", (Verdict::RequireApproval, ReasonCode::Default, None)),
        ("send", "allow_audited", (Verdict::RequireApproval, ReasonCode::Default, None)),
        ("send", "require_approval", (Verdict::RequireApproval, ReasonCode::Rule, Some("r"))),
        ("send", "deny", (Verdict::Deny, ReasonCode::Rule, Some("r"))),
        ("read", "allow", (Verdict::Allow, ReasonCode::Rule, Some("r"))),
        ("read", "allow_audited", (Verdict::AllowAudited, ReasonCode::Rule, Some("r"))),
        ("read", "require_approval", (Verdict::RequireApproval, ReasonCode::Rule, Some("r"))),
        ("read", "deny", (Verdict::Deny, ReasonCode::Rule, Some("r"))),
    ] {
        let policy = tool(risk, &rule("r", "args.n > 1", verdict));
        let judgement = judged(&policy, "t", json!({}));
        assert_eq!(outcome(&judgement), expected, "{risk} {verdict}");
        assert_eq!(judgement.rules[0].state, RuleState::Failed(Failure::MissingValue));
    }
}

#[test]
fn a_failed_rule_that_asks_brings_its_requirement() {
    let failing =
        rule("r", "args.n > 1", "require_approval") + "approval = { reviewers = [\"finance\"], ttl = \"5m\" }\n";
    let judgement = judged(&tool("send", &failing), "t", json!({}));
    assert_eq!(judgement.asked_by, ["r"]);
    let requirement = judgement.requirement.unwrap();
    assert_eq!(requirement.groups, BTreeMap::from([("finance".to_owned(), 1)]));
    assert_eq!(requirement.ttl, Duration::from_secs(300));
}

#[test]
fn a_rule_over_many_tools_only_makes_the_verdict_stricter() {
    let loosened = rule("small", "args.n < 10", "allow");
    for (verdict, expected) in [
        ("allow", (Verdict::Allow, ReasonCode::Rule, Some("small"))),
        ("allow_audited", (Verdict::AllowAudited, ReasonCode::Floor, Some("f"))),
        ("require_approval", (Verdict::RequireApproval, ReasonCode::Floor, Some("f"))),
        ("deny", (Verdict::Deny, ReasonCode::Floor, Some("f"))),
    ] {
        let with_floor = tool("send", &(loosened.clone() + &floor("f", "args.n > 0", verdict)));
        assert_eq!(outcome(&judged(&with_floor, "t", json!({ "n": 1 }))), expected, "{verdict}");
        // One that fails holds as well as one that is true.
        let failing = tool("send", &(loosened.clone() + &floor("f", "args.m > 0", verdict)));
        assert_eq!(outcome(&judged(&failing, "t", json!({ "n": 1 }))), expected, "{verdict}");
        // A true floor is no verdict of its own: the tool's default stays.
        let by_default = tool("send", &floor("f", "args.n > 0", verdict));
        assert!(judged(&by_default, "t", json!({ "n": 1 })).verdict >= Verdict::RequireApproval);
    }
}

#[test]
fn a_floor_that_is_false_changes_nothing() {
    let policy = tool("read", &floor("f", "args.n > 0", "deny"));
    assert_eq!(outcome(&judged(&policy, "t", json!({ "n": 0 }))), (Verdict::Allow, ReasonCode::Default, None));
}

#[test]
fn a_command_that_nothing_confines_always_needs_a_human() {
    let running = |sandboxed: bool, default: &str| {
        policy(&format!(
            r#"
schema = 1
[tools.run]
risk = "draft"
sandboxed = {sandboxed}
{default}
parameters = {{ type = "object", properties = {{ command = {{ type = "string" }} }} }}
[tools.run.arguments.command]
kind = "command"
"#
        ))
    };
    for args in [json!({ "command": "ls" }), json!({})] {
        let judgement = judged(&running(false, ""), "run", args.clone());
        assert_eq!(outcome(&judgement), (Verdict::RequireApproval, ReasonCode::NotSandboxed, None));
        assert!(judgement.requirement.is_some());
        assert_eq!(outcome(&judged(&running(true, ""), "run", args.clone())).0, Verdict::AllowAudited);
        assert_eq!(outcome(&judged(&running(false, "default = \"deny\""), "run", args)).0, Verdict::Deny);
    }
}

#[test]
fn what_asks_is_joined_to_one_requirement() {
    let asking = |id: &str, group: &str, ttl: &str| {
        rule(id, "args.n > 0", "require_approval")
            + &format!("approval = {{ reviewers = [\"{group}\"], ttl = \"{ttl}\" }}\n")
    };
    let policy = tool(
        "send",
        &[
            "approval = { reviewers = [\"support\"], ttl = \"2h\" }\n",
            &asking("a", "finance", "3h"),
            &asking("b", "legal", "1h"),
        ]
        .concat(),
    );
    let judgement = judged(&policy, "t", json!({ "n": 1 }));
    assert_eq!(judgement.asked_by, ["a", "b"]);
    let requirement = judgement.requirement.unwrap();
    let groups: Vec<_> = requirement.groups.iter().map(|(group, count)| (group.as_str(), *count)).collect();
    assert_eq!(groups, [("finance", 1), ("legal", 1), ("support", 1)]);
    assert_eq!(requirement.ttl, Duration::from_secs(3_600));
    assert_eq!(requirement.needed(), 3);
    let judgement = judged(&policy, "t", json!({ "n": 0 }));
    assert_eq!(judgement.requirement.unwrap().ttl, Duration::from_secs(2 * 3_600));
}

#[test]
fn the_policys_time_to_live_counts_only_where_nothing_else_says_one() {
    let with = |more: &str| tool("send", more).approval_ttl();
    assert_eq!(with(""), Duration::from_secs(4 * 3_600));
    let longer = tool("send", "approval = { ttl = \"9h\" }");
    let requirement = judged(&longer, "t", json!({})).requirement.unwrap();
    assert_eq!(requirement.ttl, Duration::from_secs(9 * 3_600));
}

#[test]
fn a_floor_that_asks_brings_its_requirement_though_the_tool_asks_anyway() {
    let policy =
        tool("send", &(floor("f", "args.n > 0", "require_approval") + "approval = { reviewers = [\"legal\"] }\n"));
    let judgement = judged(&policy, "t", json!({ "n": 1 }));
    assert_eq!(outcome(&judgement), (Verdict::RequireApproval, ReasonCode::Default, None));
    assert_eq!(judgement.asked_by, ["f"]);
    assert!(judgement.requirement.unwrap().groups.contains_key("legal"));
}

#[test]
fn conditions_read_the_agent_its_labels_the_context_and_the_time() {
    let policy = tool(
        "read",
        &[
            floor("agent", "agent.id == \"bot\" && agent.labels.team == \"billing\"", "allow_audited"),
            floor("context", "context.ticket == \"T-1\"", "require_approval"),
            floor("time", "now.hour == 12 && now.weekday == 1", "deny"),
            "[agents.bot]\ntools = [\"t\"]\nlabels = { team = \"billing\" }\n".to_owned(),
        ]
        .concat(),
    );
    let mut call = call_of("bot", "t", json!({}));
    call.context = Some(json!({ "ticket": "T-2" }));
    let at = |hours: u64| START.plus(Duration::from_secs(hours * 3_600));
    let of = |call: &ToolCall, now: Timestamp| judge(&policy, call, &Facts::default(), now).verdict;
    assert_eq!(of(&call, at(1)), Verdict::AllowAudited);
    assert_eq!(of(&call, at(0)), Verdict::Deny);
    call.context = Some(json!({ "ticket": "T-1" }));
    assert_eq!(of(&call, at(1)), Verdict::RequireApproval);
    // A context that was not sent is absent, not empty: the rule fails, and so holds.
    call.context = None;
    assert_eq!(of(&call, at(1)), Verdict::RequireApproval);
}

#[test]
fn a_judgement_names_its_policy() {
    let policy = tool("read", "");
    assert_eq!(judged(&policy, "t", json!({})).policy_version, *policy.version());
    assert_eq!(judged(&policy, "x", json!({})).policy_version, *policy.version());
}

/// The rules of a policy, each `(verdict, true|false|failed)`.
fn generated_rules() -> impl Strategy<Value = Vec<(usize, usize)>> {
    prop::collection::vec((0..4_usize, 0..3_usize), 0..6)
}

const VERDICTS: [Verdict; 4] = Verdict::ALL;
const WHEN: [&str; 3] = ["args.n == 1", "args.n == 2", "args.m == 1"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_order_of_rules_never_matters_and_floors_only_tighten(
        own in generated_rules(),
        floors in generated_rules(),
        risk in prop::sample::select(vec!["read", "draft", "send", "destructive"]),
    ) {
        let own_texts: Vec<_> = own
            .iter()
            .enumerate()
            .map(|(index, (verdict, state))| rule(&format!("o{index}"), WHEN[*state], VERDICTS[*verdict].as_str()))
            .collect();
        let floor_texts: Vec<_> = floors
            .iter()
            .enumerate()
            .map(|(index, (verdict, state))| floor(&format!("f{index}"), WHEN[*state], VERDICTS[*verdict].as_str()))
            .collect();
        let decide = |own: &[String], floors: &[String]| {
            judged(&tool(risk, &(own.concat() + &floors.concat())), "t", json!({ "n": 1 }))
        };
        let decided = decide(&own_texts, &floor_texts);

        let default = decide(&[], &[]).verdict;
        let counts = |verdict: Verdict, state: usize, loosens: bool| match state {
            0 => Some(verdict),
            1 => None,
            _ => (!loosens).then_some(verdict),
        };
        let of_tool = own
            .iter()
            .filter_map(|(verdict, state)| counts(VERDICTS[*verdict], *state, VERDICTS[*verdict] < default))
            .max()
            .unwrap_or(default);
        let of_floors = floors.iter().filter_map(|(verdict, state)| counts(VERDICTS[*verdict], *state, false)).max();
        prop_assert_eq!(decided.verdict, of_floors.map_or(of_tool, |strictest| strictest.max(of_tool)));

        let reversed = |texts: &[String]| texts.iter().rev().cloned().collect::<Vec<_>>();
        let backwards = decide(&reversed(&own_texts), &reversed(&floor_texts));
        prop_assert_eq!(outcome(&backwards), outcome(&decided));
        prop_assert_eq!(backwards.asked_by, decided.asked_by);
        prop_assert_eq!(backwards.requirement, decided.requirement);
    }
}
