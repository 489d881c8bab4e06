//! The warnings about a policy that loads.

use countersign::domain::policy::{Policy, Severity, SourceFile};

fn warnings(text: &str) -> Vec<String> {
    let file = SourceFile { path: "policy.toml".to_owned(), text: format!("schema = 1\n{text}") };
    let loaded = Policy::load(&[file]).unwrap_or_else(|faults| panic!("{faults:#?}"));
    assert!(loaded.warnings.iter().all(|fault| fault.severity == Severity::Warning && !fault.hint.is_empty()));
    loaded.warnings.into_iter().map(|fault| format!("{}:{} {}", fault.line, fault.column, fault.message)).collect()
}

/// A tool `t` with the arguments a rule may look at, and rules as (id, condition, verdict).
fn with_rules(risk: &str, rules: &[(&str, &str, &str)]) -> String {
    let mut text = format!(
        "[tools.t]\nrisk = \"{risk}\"\nparameters = {{ properties = {{ to = {{ type = \"array\", maxItems = 5, items = {{ type = \"string\", maxLength = 99 }} }}, \
         cc = {{ type = \"array\", minItems = 1, maxItems = 5, items = {{ type = \"string\", maxLength = 99 }} }}, n = {{ type = \"integer\" }}, s = {{ type = \"string\", maxLength = 99 }} }} }}\n"
    );
    for (id, when, verdict) in rules {
        text.push_str(&format!(
            "[[tools.t.rules]]\nid = \"{id}\"\nwhen = '{when}'\nverdict = \"{verdict}\"\nreason = \"r\"\n"
        ));
    }
    text
}

fn assert_warned(text: &str, message: &str) {
    let found = warnings(text);
    assert!(found.len() == 1 && found[0].contains(message), "{message}: {found:#?}");
}

fn assert_silent(text: &str) {
    assert_eq!(warnings(text), Vec::<String>::new(), "{text}");
}

#[test]
fn a_rule_that_can_never_decide_is_told() {
    assert_warned(
        &with_rules("send", &[("a", "args.n > 1", "allow"), ("b", "args.n > 1", "deny")]),
        "`a` never decides",
    );
    assert_warned(&with_rules("send", &[("a", "args.n > 1", "allow"), ("b", "true", "deny")]), "`a` never decides");
    assert_warned(&with_rules("send", &[("a", "false", "deny")]), "`a` is never true");
    assert_silent(&with_rules("send", &[("a", "args.n > 1", "allow"), ("b", "args.n > 2", "deny")]));
}

#[test]
fn a_list_rule_that_is_true_of_an_empty_list_is_told() {
    let rule = |when| with_rules("send", &[("a", when, "allow")]);
    assert_warned(&rule("args.to.all(x, x == \"a\")"), "true of an empty list");
    assert_warned(&rule("!args.to.exists(x, x == \"a\")"), "true of an empty list");
    assert_silent(&rule("size(args.to) > 0 && args.to.all(x, x == \"a\")"));
    assert_silent(&rule("args.cc.all(x, x == \"a\")"));
    assert_silent(&rule("args.to.exists(x, x == \"a\")"));
    assert_silent(&with_rules("send", &[("a", "args.to.all(x, x == \"a\")", "deny")]));
}

#[test]
fn texts_that_look_anchored_and_are_not_are_told() {
    let rule = |when| with_rules("send", &[("a", when, "deny")]);
    assert_warned(&rule("args.s.matches(\"^abc\")"), "anchored at one end only");
    assert_warned(&rule("args.s.endsWith(\"acme.example\")"), "begins inside a name");
    assert_warned(&rule("args.s.startsWith(\"/srv/work\")"), "ends inside a name");
    assert_silent(&rule(
        "args.s.matches(\"abc.*\") || args.s.endsWith(\".acme.example\") || args.s.startsWith(\"/srv/work/\")",
    ));
    let schema = |pattern: &str| {
        format!(
            "[tools.t]\nrisk = \"read\"\nparameters = {{ properties = {{ a = {{ type = \"string\", pattern = \"{pattern}\" }} }} }}\n"
        )
    };
    assert_warned(&schema("[a-z]+"), "not anchored");
    assert_silent(&schema("^[a-z]+$"));
}

#[test]
fn a_destructive_tool_that_is_loosened_is_told() {
    assert_warned(
        "[tools.t]\nrisk = \"destructive\"\nparameters = {}\ndefault = \"allow_audited\"\napproval = { grace = \"1m\" }\n",
        "without an approval",
    );
    let with_grace = |verdict| {
        let rules = with_rules("destructive", &[("a", "args.n > 1", verdict)]);
        rules.replace("risk =", "approval = { grace = \"1m\" }\nrisk =")
    };
    assert_warned(&with_grace("allow"), "loosens the destructive tool");
    assert_silent(&with_grace("deny"));
    assert_warned(&with_rules("destructive", &[("a", "args.n > 1", "deny")]), "can be claimed at once");
}

#[test]
fn egress_that_is_called_a_read_is_told() {
    let tool = |risk: &str, hosts: &str| {
        format!(
            "[tools.t]\nrisk = \"{risk}\"\nparameters = {{ properties = {{ url = {{ type = \"string\" }} }} }}\narguments.url = {{ kind = \"url\"{hosts} }}\n"
        )
    };
    assert_warned(&tool("read", ""), "can send anything to any host");
    assert_silent(&tool("read", ", hosts = [\"api.acme.example\"]"));
    assert_silent(&tool("send", ""));
    let floor = "[[rules]]\nid = \"f\"\ntools = [\"t\"]\nwhen = '\"private\" in run.labels'\nverdict = \"deny\"\nreason = \"r\"\n";
    assert_silent(&format!("{}{floor}", tool("read", "")));
}

#[test]
fn a_property_that_looks_like_a_program_is_told() {
    let tool = |property: &str, more: &str| {
        format!("[tools.t]\nrisk = \"send\"\nparameters = {{ properties = {{ {property} }} }}\n{more}\n")
    };
    for property in ["command", "cmd", "Script", "sql"] {
        assert_warned(&tool(&format!("{property} = {{ type = \"string\" }}"), ""), "looks like a program");
    }
    assert_silent(&tool("command = { type = \"string\" }", "arguments.command.kind = \"command\""));
    assert_silent(&tool("command = { type = \"boolean\" }", ""));
}

#[test]
fn an_address_that_a_loosening_rule_does_not_read_is_told() {
    let rules = |when: &str, verdict: &str| {
        with_rules("send", &[("a", when, verdict)]).replace(
            "[[tools.t.rules]]",
            "arguments.to.kind = \"email\"\narguments.cc.kind = \"email\"\n[[tools.t.rules]]",
        )
    };
    let reads_one = "size(resolved.to) > 0 && resolved.to.all(x, x.domain == \"a.example\")";
    assert_warned(&rules(reads_one, "allow"), "without reading `cc`");
    assert_silent(&rules(reads_one, "deny"));
    assert_silent(&rules(&format!("{reads_one} && resolved.cc.all(x, x.domain == \"a.example\")"), "allow"));
}

#[test]
fn a_mentioned_number_alone_is_told() {
    let rule = |when| with_rules("send", &[("a", when, "allow")]);
    assert_warned(&rule("requested(args.n)"), "a number that was mentioned");
    assert_silent(&rule("requested(args.n) && args.n < 100"));
    assert_silent(&rule("requested(args.s)"));
}

#[test]
fn context_in_a_loosening_rule_is_told() {
    assert_warned(&with_rules("send", &[("a", "context.trusted == true", "allow")]), "what the request says of itself");
    assert_silent(&with_rules("send", &[("a", "context.trusted == true", "deny")]));
}

#[test]
fn a_nested_object_that_admits_unknown_names_is_told() {
    let tool = |object: &str| {
        format!("[tools.t]\nrisk = \"send\"\nparameters = {{ properties = {{ a = {{ {object} }} }} }}\n")
    };
    assert_warned(&tool("type = \"object\", additionalProperties = true"), "admits any property");
    assert_silent(&tool("type = \"object\", additionalProperties = false"));
    assert_silent(&tool("type = \"object\""));
}

#[test]
fn a_rule_over_many_tools_without_effect_is_told() {
    let floor = |risk: &str, verdict: &str| {
        format!(
            "[tools.t]\nrisk = \"read\"\nparameters = {{}}\n[[rules]]\nid = \"f\"\nrisk = [\"{risk}\"]\nwhen = 'now.hour > 1'\nverdict = \"{verdict}\"\nreason = \"r\"\n"
        )
    };
    assert_warned(&floor("read", "allow"), "changes nothing");
    assert_warned(&floor("send", "deny"), "covers no tool");
    assert_silent(&floor("read", "deny"));
}
