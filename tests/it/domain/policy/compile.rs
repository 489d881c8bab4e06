//! What a policy that loads says, and everything that keeps one from loading.

use std::{collections::BTreeSet, time::Duration};

use countersign::domain::{
    policy::{Fault, Loaded, Policy, SourceFile, schema_files},
    verdict::{Risk, Verdict},
};

fn file(path: &str, text: &str) -> SourceFile {
    SourceFile { path: path.to_owned(), text: text.to_owned() }
}

fn load(files: &[(&str, &str)]) -> Result<Loaded, Vec<Fault>> {
    let files: Vec<_> = files.iter().map(|(path, text)| file(path, text)).collect();
    Policy::load(&files)
}

fn policy(text: &str) -> Policy {
    load(&[("policy.toml", text)]).unwrap_or_else(|faults| panic!("{faults:#?}")).policy
}

/// The faults of a policy of one file, each as `line:column message`.
fn faults(text: &str) -> Vec<String> {
    let faults = load(&[("policy.toml", text)]).expect_err("a policy that does not load");
    assert!(faults.iter().all(|fault| !fault.hint.is_empty()), "each fault has a hint: {faults:#?}");
    faults.into_iter().map(|fault| format!("{}:{} {}", fault.line, fault.column, fault.message)).collect()
}

/// A tool `t` of risk `send` with an address, a number and a text, and more lines after it.
fn with_tool(more: &str) -> String {
    format!(
        "schema = 1\n[tools.t]\nrisk = \"send\"\nparameters = {{ properties = {{ to = {{ type = \"string\" }}, n = {{ type = \"integer\" }}, \
         s = {{ type = \"string\" }}, any = {{}} }} }}\n{more}"
    )
}

/// A rule of the tool `t` after [`with_tool`].
fn with_rule(when: &str, verdict: &str, more: &str) -> String {
    with_tool(&format!(
        "{more}\n[[tools.t.rules]]\nid = \"r\"\nwhen = '{when}'\nverdict = \"{verdict}\"\nreason = \"because\"\n"
    ))
}

fn only_fault(text: &str) -> String {
    let found = faults(text);
    assert_eq!(found.len(), 1, "{found:#?}");
    found.into_iter().next().unwrap()
}

fn assert_refused(text: &str, message: &str) {
    let found = only_fault(text);
    assert!(found.contains(message), "{found}");
}

#[test]
fn the_quickstart_loads_without_a_warning() {
    let text = include_str!("../../../../examples/quickstart/policy.toml");
    let loaded = load(&[("policy.toml", text)]).unwrap();
    assert_eq!(loaded.warnings, []);
    let tools: Vec<_> = loaded.policy.tools().map(|tool| (tool.name.as_str(), tool.risk, tool.default)).collect();
    assert_eq!(
        tools,
        [
            ("add_note", Risk::Draft, Verdict::AllowAudited),
            ("delete_customer", Risk::Destructive, Verdict::RequireApproval),
            ("get_order", Risk::Read, Verdict::Allow),
            ("issue_refund", Risk::Send, Verdict::RequireApproval),
            ("read_file", Risk::Read, Verdict::Allow),
            ("run_shell", Risk::Destructive, Verdict::RequireApproval),
            ("send_email", Risk::Send, Verdict::RequireApproval),
        ]
    );
    assert!(loaded.policy.tools().all(|tool| tool.rules.iter().all(|rule| !rule.reason.is_empty())));
    assert!(loaded.policy.groups_named().is_empty());
    assert!(loaded.policy.tool("run_shell").unwrap().runs_unconfined_commands());
}

#[test]
fn a_tool_has_what_it_says_and_else_the_built_in_values() {
    let policy = policy(
        "schema = 1\n[tools.plain]\nrisk = \"draft\"\nparameters = {}\n\
         [tools.full]\nrisk = \"read\"\ndescription = \"d\"\nparameters = {}\ndefault = \"deny\"\naliases = [\"other\"]\n\
         idempotent = true\nsandboxed = true\ngrantable = false\nrecord_args = true\naudience = \"aud\"\nlease = \"30s\"\n\
         obligations = { max_bytes = 10, list = [1.5, true, \"x\"] }\napproval = { ttl = \"1h\", reviewers = [\"finance\"] }\n",
    );
    let plain = policy.tool("plain").unwrap();
    assert_eq!((plain.default, plain.idempotent, plain.grantable), (Verdict::AllowAudited, false, true));
    assert_eq!((plain.audience.as_str(), plain.lease), ("plain", None));
    assert_eq!(plain.approval.quorum, 1);
    let full = policy.tool("other").unwrap();
    assert_eq!((full.name.as_str(), full.default), ("full", Verdict::Deny));
    assert!(full.idempotent && full.sandboxed && full.record_args && !full.grantable);
    assert_eq!((full.audience.as_str(), full.lease), ("aud", Some(Duration::from_secs(30))));
    assert_eq!(serde_json::to_string(&full.obligations).unwrap(), r#"{"list":[1.5,true,"x"],"max_bytes":10}"#);
    assert_eq!(full.approval.ttl, Some(Duration::from_secs(3600)));
    assert_eq!(policy.groups_named(), BTreeSet::from(["finance"]));
    assert_eq!(policy.approval_ttl(), Duration::from_secs(4 * 3600));
    assert_eq!((policy.caps().open_per_run, policy.caps().open_per_agent, policy.caps().refused_per_run), (10, 100, 5));
}

#[test]
fn destructive_tools_and_commands_take_no_grants_by_themselves() {
    let policy = policy(
        "schema = 1\n[tools.d]\nrisk = \"destructive\"\nparameters = {}\n[tools.c]\nrisk = \"send\"\n\
         parameters = { properties = { command = { type = \"string\" } } }\narguments.command.kind = \"command\"\n\
         [tools.s]\nrisk = \"send\"\nparameters = {}\n",
    );
    let grantable = |name| policy.tool(name).unwrap().grantable;
    assert_eq!((grantable("d"), grantable("c"), grantable("s")), (false, false, true));
}

#[test]
fn defaults_by_risk_are_the_policys_and_a_tools_own_default_beats_them() {
    let policy = policy(
        "schema = 1\n[defaults]\nread = \"deny\"\napproval_ttl = \"5m\"\nmax_open_approvals_per_run = 1\n\
         [tools.a]\nrisk = \"read\"\nparameters = {}\n[tools.b]\nrisk = \"read\"\nparameters = {}\ndefault = \"allow\"\n",
    );
    assert_eq!(policy.tool("a").unwrap().default, Verdict::Deny);
    assert_eq!(policy.tool("b").unwrap().default, Verdict::Allow);
    assert_eq!(policy.approval_ttl(), Duration::from_secs(300));
    assert_eq!(policy.caps().open_per_run, 1);
}

#[test]
fn a_rule_loosens_when_it_is_looser_than_its_tools_default() {
    let loosens = |verdict| policy(&with_rule("args.n > 1", verdict, "")).tool("t").unwrap().rules[0].loosens;
    assert!(loosens("allow") && loosens("allow_audited"));
    assert!(!loosens("require_approval") && !loosens("deny"));
}

#[test]
fn an_agent_that_is_not_listed_may_use_nothing_once_any_is() {
    let tools = "[tools.a]\nrisk = \"read\"\nparameters = {}\naliases = [\"a2\"]\n[tools.b]\nrisk = \"read\"\nparameters = {}\n";
    let open = policy(&format!("schema = 1\n{tools}"));
    assert!(open.agent_may_use("anyone", open.tool("a").unwrap()));
    let listed = policy(&format!("schema = 1\n[agents.bot]\ntools = [\"a2\"]\nlabels = {{ team = \"x\" }}\n{tools}"));
    assert!(listed.agent_may_use("bot", listed.tool("a").unwrap()));
    assert!(!listed.agent_may_use("bot", listed.tool("b").unwrap()));
    assert!(!listed.agent_may_use("anyone", listed.tool("a").unwrap()));
    assert_eq!(listed.agent("bot").unwrap().labels["team"], "x");
}

#[test]
fn a_floor_covers_the_tools_in_either_list() {
    let policy = policy(
        "schema = 1\n[tools.a]\nrisk = \"read\"\nparameters = {}\n[tools.b]\nrisk = \"send\"\nparameters = {}\n\
         [tools.c]\nrisk = \"draft\"\nparameters = {}\n[[rules]]\nid = \"f\"\nrisk = [\"send\"]\ntools = [\"a\"]\n\
         when = 'now.hour > 1'\nverdict = \"deny\"\nreason = \"r\"\n",
    );
    let covered: Vec<_> =
        policy.tools().filter(|tool| !tool.floors.is_empty()).map(|tool| tool.name.as_str()).collect();
    assert_eq!(covered, ["a", "b"]);
    assert!(!policy.tool("a").unwrap().floors[0].loosens);
}

#[test]
fn the_version_is_what_sha256sum_would_say() {
    let files = [
        file("b.toml", "schema = 1\n"),
        file("a.toml", "schema = 1\n# a\n"),
        file("notes.txt", "x"),
        file("x.cases.toml", "y"),
    ];
    // Computed by coreutils: `LC_ALL=C sha256sum a.toml b.toml | sha256sum`.
    let expected = "sha256:51cbc5d9fd1c64fe4a6fa9a4dc44b4e5a0ed64c27fc8ecd720d50c6b10aa5bd8";
    let version = Policy::load(&files).unwrap().policy.version().to_string();
    assert_eq!(version, expected);
    let swapped = [file("a.toml", "schema = 1\n"), file("b.toml", "schema = 1\n# a\n")];
    assert_ne!(Policy::load(&swapped).unwrap().policy.version().to_string(), expected);
}

#[test]
fn a_schema_file_counts_into_the_version_and_an_unnamed_one_does_not() {
    let policy = "schema = 1\n[tools.a]\nrisk = \"read\"\nparameters_file = \"schemas/a.json\"\n";
    let version = |schema: &str, other: &str| {
        let loaded = load(&[("sub/policy.toml", policy), ("sub/schemas/a.json", schema), ("other.json", other)]);
        loaded.unwrap().policy.version().to_string()
    };
    assert_eq!(version("{}", "1"), version("{}", "2"));
    assert_ne!(version("{}", "1"), version("{ }", "1"));
    let wanted = schema_files(&[
        file("sub/policy.toml", policy),
        file("sub/x.cases.toml", policy.replace("a.json", "b.json").as_str()),
    ]);
    assert_eq!(wanted, BTreeSet::from(["sub/schemas/a.json".to_owned()]));
}

#[test]
fn a_folder_is_one_policy() {
    let tool = "schema = 1\n[tools.a]\nrisk = \"read\"\nparameters = {}\n";
    let loaded = load(&[
        ("a.toml", tool),
        (
            "deep/er/b.toml",
            "schema = 1\n[vars]\nlimit = 5\n[[tools.b.rules]]\nid = \"x\"\nwhen = 'vars.limit > 1'\nverdict = \"deny\"\nreason = \"r\"\n[tools.b]\nrisk = \"read\"\nparameters = {}\n",
        ),
        ("a.cases.toml", "not toml"),
    ]);
    let policy = loaded.unwrap().policy;
    assert_eq!(policy.tools().len(), 2);
    let twice = load(&[
        ("a.toml", tool),
        ("b.toml", &format!("{tool}[defaults]\n")),
        ("c.toml", "schema = 1\n[defaults]\n"),
        ("d.toml", ""),
    ])
    .unwrap_err();
    let told: Vec<_> = twice
        .iter()
        .map(|fault| (fault.file.as_str(), fault.line, fault.message.as_str(), fault.hint.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("b.toml", 2, "tools.a stands twice", "the other is at a.toml:2:8"),
            ("c.toml", 2, "[defaults] stands in more than one file", "the other is at b.toml:5:2"),
            ("d.toml", 1, "no `schema`", "begin every policy file with schema = 1"),
        ]
    );
    assert_eq!(load(&[("x.json", "{}")]).unwrap_err()[0].message, "there is no policy file");
    assert_eq!(load(&[("a\nb.toml", "schema = 1")]).unwrap_err()[0].message, "a path with a control character");
}

#[test]
fn a_tool_without_schema_or_risk_is_refused() {
    assert_eq!(faults("schema = 1\n[tools.a]\n"), ["2:8 tools.a has no `risk`", "2:8 tools.a has no schema"]);
}

#[test]
fn a_rule_without_id_condition_verdict_or_reason_is_refused() {
    let found = faults(&with_tool("[[tools.t.rules]]\n"));
    assert_eq!(found.len(), 4, "{found:#?}");
    assert!(found.iter().all(|fault| fault.starts_with("5:")), "{found:#?}");
}

#[test]
fn a_taken_rule_id_is_refused_across_the_whole_policy() {
    let text = with_rule("args.n > 1", "deny", "")
        + "[[rules]]\nid = \"r\"\ntools = [\"t\"]\nwhen = 'now.hour > 1'\nverdict = \"deny\"\nreason = \"r\"\n";
    assert_refused(&text, "the rule id `r` is taken");
    assert_refused(&with_rule("args.n > 1", "deny", "").replace("id = \"r\"", "id = \"a b\""), "no id for a rule");
}

#[test]
fn a_condition_that_names_what_is_not_there_is_refused_at_its_place() {
    let found = only_fault(&with_rule("args.n > 1 && args.amuont > 2", "deny", ""));
    assert!(found.starts_with("8:") && found.contains("amuont"), "{found}");
    let column: usize = found.split([':', ' ']).nth(1).unwrap().parse().unwrap();
    assert!((23..=35).contains(&column), "{found}");
    assert!(only_fault(&with_rule("nobody.x > 1", "deny", "")).contains("nobody"));
    assert!(only_fault(&with_rule("vars.limit > 1", "deny", "")).contains("vars.limit"));
}

#[test]
fn a_comparison_with_a_property_of_no_fixed_type_is_refused() {
    assert!(only_fault(&with_rule("args.any > 1", "deny", "")).starts_with("8:"));
}

#[test]
fn a_loosening_rule_must_not_read_the_raw_value_of_an_argument_with_a_kind() {
    let kind = "arguments.to.kind = \"email\"";
    assert_refused(&with_rule("args.to == \"a@b.example\"", "allow", kind), "raw value");
    policy(&with_rule("args.to == \"a@b.example\"", "deny", kind));
    policy(&with_rule("resolved.to.all(r, r.domain == \"b.example\")", "allow", kind));
}

#[test]
fn a_loosening_rule_on_an_open_tool_is_refused() {
    assert_refused(&with_rule("args.n > 1", "allow", "open = true"), "must not loosen an open tool");
    policy(&with_rule("args.n > 1", "deny", "open = true"));
}

#[test]
fn a_command_tool_is_not_loosened_without_a_sandbox() {
    let kind = "arguments.s.kind = \"command\"";
    assert_refused(&with_rule("args.n > 1", "allow", kind), "loosens a tool that runs commands");
    assert_refused(
        &with_tool(&format!("default = \"allow_audited\"\n{kind}\n")),
        "loose default for a tool that runs commands",
    );
    policy(&with_rule("args.n > 1", "allow", &format!("sandboxed = true\n{kind}")));
    policy(&with_rule("args.n > 1", "deny", kind));
}

#[test]
fn an_empty_allow_list_is_refused() {
    assert_refused(&with_tool("[agents.bot]\ntools = []\n"), "list of tools of agents.bot is empty");
    assert!(!faults(&with_tool("arguments.to = { kind = \"path\", base = \"/srv\", roots = [] }\n")).is_empty());
    assert!(!faults(&with_tool("arguments.to = { kind = \"url\", hosts = [] }\n")).is_empty());
    let floor = "[[rules]]\nid = \"f\"\ntools = []\nwhen = 'now.hour > 1'\nverdict = \"deny\"\nreason = \"r\"\n";
    assert_refused(&with_tool(floor), "a rule over no tools");
}

#[test]
fn a_fault_in_the_options_of_a_kind_is_told_at_its_place() {
    let found = only_fault(&with_tool(
        "[tools.t.arguments.to]\nkind = \"path\"\nbase = \"/srv\"\nroots = [\"a\"]\nnevr = [\"*.pem\"]\n",
    ));
    assert!(found.starts_with("9:"), "{found}");
    let found =
        only_fault(&with_tool("[tools.t.arguments.to]\nkind = \"path\"\nbase = \"/srv\"\nroots = [\"a\", \"../b\"]\n"));
    assert!(found.starts_with("8:15 "), "{found}");
    assert_refused(&with_tool("[tools.t.arguments.to]\nkind = \"pth\"\n"), "kind");
    assert!(!faults(&with_tool("[tools.t.arguments.to]\n")).is_empty());
}

#[test]
fn a_kind_goes_with_a_property_that_can_hold_text() {
    assert_refused(&with_tool("arguments.too.kind = \"email\"\n"), "has no property `too`");
    assert_refused(&with_tool("arguments.n.kind = \"email\"\n"), "cannot hold such a value");
}

#[test]
fn names_that_pass_for_each_other_are_refused() {
    let tools = |a: &str, b: &str| {
        format!(
            "schema = 1\n[tools.\"{a}\"]\nrisk = \"read\"\nparameters = {{}}\n[tools.\"{b}\"]\nrisk = \"read\"\nparameters = {{}}\n"
        )
    };
    for (a, b) in [("Exec_Shell", "exec_shell"), ("straße", "STRASSE"), ("\u{4d}ail", "mail")] {
        assert_refused(&tools(a, b), "can pass for");
    }
    for odd in ["\u{440}\u{430}y", "pa\u{200b}y", "pay now", "\u{ff50}ay", "p\u{430}y", "pay\u{202e}", ""] {
        assert!(!faults(&tools("ok", odd)).is_empty(), "{odd:?}");
    }
    policy(&tools("send", "senden"));
    policy(&tools("mcp__mail.send:v2/x", "mcp__mail-send"));
    let aliased = "schema = 1\n[tools.a]\nrisk = \"read\"\nparameters = {}\naliases = [\"B\"]\n[tools.b]\nrisk = \"read\"\nparameters = {}\n";
    assert_refused(aliased, "the name `b` can pass for `B`");
    assert_refused(&aliased.replace("\"B\"", "\"a\""), "the name `a` is taken");
}

#[test]
fn an_undeclared_tool_in_a_list_is_refused_with_the_nearest_name() {
    let text =
        "schema = 1\n[agents.bot]\ntools = [\"get_ordr\"]\n[tools.get_order]\nrisk = \"read\"\nparameters = {}\n";
    let found = load(&[("p.toml", text)]).unwrap_err();
    assert_eq!((found[0].line, found[0].column, found[0].hint.as_str()), (3, 10, "did you mean `get_order`?"));
    assert_refused(&text.replace("get_ordr\"]", "get_order\", \"get_order\"]"), "twice");
}

#[test]
fn variables_are_flat_and_have_names_that_conditions_can_write() {
    assert_refused("schema = 1\n[vars]\na-b = 1\n", "no name for a variable");
    assert_refused("schema = 1\n[vars]\na = { b = 1 }\n", "nested");
    assert_refused("schema = 1\n[vars]\na = [[1]]\n", "nested");
    assert_refused("schema = 1\n[vars]\na = 2026-11-30\n", "date or time");
    assert_refused("schema = 1\n[vars]\na = inf\n", "not finite");
    assert_refused("schema = 1\n[vars]\na = 9007199254740993\n", "exactly");
}

#[test]
fn terms_of_approval_go_with_rules_that_ask_for_one() {
    let text = with_rule("args.n > 1", "deny", "") + "approval = { ttl = \"1h\" }\n";
    assert_refused(&text, "asks for none");
    let asks = policy(
        &(with_rule("args.n > 1", "require_approval", "") + "approval = { reviewers = [\"ops\"], quorum = 1 }\n"),
    );
    assert_eq!(asks.groups_named(), BTreeSet::from(["ops"]));
}

#[test]
fn nothing_is_approved_by_waiting() {
    for key in ["on_timeout = \"approve\"", "on_expiry = \"allow\"", "timeout_verdict = \"allow\""] {
        let found = load(&[("p.toml", &with_tool(&format!("approval = {{ {key} }}\n")))]).unwrap_err();
        assert!(found[0].hint.contains("nothing is ever approved by waiting"), "{found:?}");
    }
}

#[test]
fn a_schema_is_refused_at_the_place_of_its_fault() {
    let text = "schema = 1\n[tools.a]\nrisk = \"read\"\n[tools.a.parameters]\ntype = \"object\"\n[tools.a.parameters.properties]\nb = { typ = \"string\" }\nc = { \"$ref\" = \"https://x.example/s.json\" }\n";
    let found = faults(text);
    assert!(found[0].starts_with("7:7 ") && found[0].contains("unknown schema keyword `typ`"), "{found:?}");
    assert!(found[1].starts_with("8:16 ") && found[1].contains("$ref"), "{found:?}");
    let schema = "{\n  \"properties\": {\n    \"b\": { \"typ\": 1 },\n    \"c\": { \"format\": \"phone\" }\n  }\n}";
    let text = "schema = 1\n[tools.a]\nrisk = \"read\"\nparameters_file = \"s.json\"\n";
    let found = load(&[("p.toml", text), ("s.json", schema)]).unwrap_err();
    let places: Vec<_> = found.iter().map(|fault| (fault.file.as_str(), fault.line, fault.column)).collect();
    assert_eq!(places, [("s.json", 3, 12), ("s.json", 4, 22)]);
}

#[test]
fn a_schema_file_is_strict_json() {
    let text = "schema = 1\n[tools.a]\nrisk = \"read\"\nparameters_file = \"s.json\"\n";
    let fault = |schema: &str| load(&[("p.toml", text), ("s.json", schema)]).unwrap_err().remove(0);
    let twice = fault("{ \"type\": \"object\",\n  \"t\\u0079pe\": \"object\" }");
    assert!(twice.message.contains("stands twice"), "{twice}");
    assert_eq!((twice.line, twice.column), (2, 3));
    assert_eq!(fault("{\n \"a\": }").line, 2);
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    assert!(fault(&deep).message.contains("nested deeper"));
}

#[test]
fn a_schema_file_stays_below_its_folder() {
    for path in [
        "../s.json",
        "/etc/s.json",
        "a/../s.json",
        "./s.json",
        "a\\\\s.json",
        "C:/s.json",
        "s.toml",
        "a//s.json",
        "https://x/s.json",
    ] {
        let text = format!("schema = 1\n[tools.a]\nrisk = \"read\"\nparameters_file = \"{path}\"\n");
        let found = load(&[("sub/p.toml", &text), ("s.json", "{}"), ("sub/s.json", "{}")]).unwrap_err();
        assert!(found[0].message.contains("not such a path"), "{path}: {found:?}");
        assert_eq!((found[0].line, found[0].column), (4, 19), "{path}");
        assert!(schema_files(&[file("sub/p.toml", &text)]).is_empty(), "{path}");
    }
    assert_refused("schema = 1\n[tools.a]\nrisk = \"read\"\nparameters_file = \"s.json\"\n", "there is no file s.json");
    let both = "schema = 1\n[tools.a]\nrisk = \"read\"\nparameters_file = \"s.json\"\nparameters = {}\n";
    assert_refused(both, "`parameters` and `parameters_file`");
}

#[test]
fn what_a_later_version_builds_is_a_load_error_that_says_so() {
    let rule =
        |approval: &str| with_rule("args.n > 1", "require_approval", "") + &format!("approval = {{ {approval} }}\n");
    let texts = [
        "schema = 1\n[tools.a]\nrisk = \"read\"\nparameters = { properties = { k = { type = \"string\", writeOnly = true } } }\n".to_owned(),
        "schema = 1\n[tools.a]\nrisk = \"read\"\nparameters = { properties = { k = { type = \"string\", x-secret = true } } }\n".to_owned(),
    ];
    for text in texts {
        let found = load(&[("p.toml", &text)]).expect_err(&text);
        assert!(found.iter().any(|fault| fault.message.ends_with("not supported yet")), "{text}\n{found:#?}");
    }
    policy(&rule("quorum = 1, reviewers = [\"a\"], grace = \"0s\", ttl = \"2h\", decide_in = \"any\""));
    policy(&rule("decide_in = \"web\", step_up = true"));
    policy(&with_tool(
        "[tools.t.arguments.to]\nkind = \"path\"\nbase = \"/srv\"\nroots = [\"a\"]\nresolve = \"lexical\"\n",
    ));
}

#[test]
fn a_floor_that_does_not_fit_one_of_its_tools_names_that_tool() {
    let text = "schema = 1\n[tools.a]\nrisk = \"send\"\nparameters = { properties = { n = { type = \"integer\" } } }\n\
                [tools.b]\nrisk = \"send\"\nparameters = {}\n[[rules]]\nid = \"f\"\nrisk = [\"send\"]\nwhen = 'args.n > 1'\n\
                verdict = \"deny\"\nreason = \"r\"\n";
    assert!(only_fault(text).ends_with("(for b)"));
    let none_has_it = only_fault(&text.replace("args.n", "args.m"));
    assert!(!none_has_it.contains("(for"), "{none_has_it}");
}

#[test]
fn a_label_is_a_short_name() {
    let labels = |labels: &str| with_tool(&format!("labels = {labels}\n"));
    assert_eq!(policy(&labels("[\"private-data\", \"a_1\"]")).tool("t").unwrap().labels.len(), 2);
    for wrong in ["[\"private data\"]", "[\"\u{fc}\"]", &format!("[\"{}\"]", "x".repeat(65))] {
        assert_refused(&labels(wrong), "not a label");
    }
    let many: Vec<String> = (0..17).map(|label| format!("\"l{label}\"")).collect();
    assert_refused(&labels(&format!("[{}]", many.join(","))), "more than 16 `labels`");
}
