//! How policy files are read: strictly, with every fault told at once and at its place.

use countersign::domain::policy::{Fault, Policy, Severity, SourceFile};

fn faults(text: &str) -> Vec<Fault> {
    let file = SourceFile { path: "dir/policy.toml".to_owned(), text: text.to_owned() };
    Policy::load(&[file]).expect_err("a policy that does not load")
}

/// `line:column message | hint` of each fault.
fn told(text: &str) -> Vec<String> {
    let told = faults(text).into_iter();
    told.map(|fault| format!("{}:{} {} | {}", fault.line, fault.column, fault.message, fault.hint)).collect()
}

#[test]
fn every_fault_is_told_at_once_with_file_line_column_and_hint() {
    let text = "\
schema = 1
tool = 5
[defaults]
reed = \"allow\"
send = \"alow\"
approval_ttl = \"4 hours\"
max_refused_per_run = 0
[tools.mail]
risk = \"sent\"
parameters = { properties = { to = { typ = \"string\" } } }
idempotent = \"yes\"
alias = [\"x\"]
lease = \"48h\"
[[tools.mail.rules]]
id = \"a\"
when = 'args.n > 1'
verdict = \"deny\"
";
    assert_eq!(
        told(text),
        [
            "2:1 unknown key `tool` in the file | did you mean `tools`?",
            "4:1 unknown key `reed` in defaults | did you mean `read`?",
            "5:8 `send` of defaults is not one of \"allow\", \"allow_audited\", \"require_approval\", \"deny\" | this is a string; write one of \"allow\", \"allow_audited\", \"require_approval\", \"deny\"",
            "6:16 `approval_ttl` of defaults is not a length of time such as \"90s\", \"30m\" or \"4h\", from 1s to 30d | this is a string; write a length of time such as \"90s\", \"30m\" or \"4h\", from 1s to 30d",
            "7:23 `max_refused_per_run` of defaults is not a whole number from 1 to 100000 | this is an integer; write a whole number from 1 to 100000",
            "9:8 `risk` of tools.mail is not one of \"read\", \"draft\", \"send\", \"destructive\" | this is a string; write one of \"read\", \"draft\", \"send\", \"destructive\"",
            "10:38 in the schema of mail, at /properties/to/typ: unknown schema keyword `typ` | did you mean `type`?",
            "11:14 `idempotent` of tools.mail is not true or false | this is a string; write true or false",
            "12:1 unknown key `alias` in tools.mail | did you mean `aliases`?",
            "13:9 `lease` of tools.mail is not a length of time such as \"90s\", \"30m\" or \"4h\", from 1s to 24h | this is a string; write a length of time such as \"90s\", \"30m\" or \"4h\", from 1s to 24h",
            "14:1 a rule in [[tools.mail.rules]] has no `reason` | say why, for the people who read the log and the review",
        ]
    );
    for fault in faults(text) {
        assert_eq!((fault.file.as_str(), fault.severity), ("dir/policy.toml", Severity::Error));
    }
}

#[test]
fn a_fault_prints_as_compilers_print_it() {
    let fault = faults("schema = 2\n").remove(0);
    assert_eq!(
        fault.to_string(),
        "dir/policy.toml:1:10: error: policies of schema 2 are not known here\n  \
         hint: begin every policy file with schema = 1"
    );
}

#[test]
fn what_is_not_toml_is_told_for_all_of_the_file() {
    let found = told("schema = 1\n[a\nb = \n[tools.x]\nrisk = \"read\"\nrisk = \"send\"\n");
    assert!(found.len() >= 2, "{found:#?}");
    assert!(found.iter().all(|fault| fault.contains("not TOML")), "{found:#?}");
    assert!(found.iter().any(|fault| fault.starts_with("6:1 ") && fault.contains("duplicate key")), "{found:#?}");
}

#[test]
fn values_of_the_wrong_type_are_told_and_not_guessed() {
    let found = told(
        "schema = \"1\"\nvars = 1\nagents = []\nrules = {}\n[tools]\na = 1\n[tools.b]\nrisk = \"read\"\nparameters = \"x\"\n\
         aliases = \"x\"\ndescription = 1\narguments = { x = 1 }\nobligations = 1\n",
    );
    let places: Vec<_> = found.iter().map(|fault| fault.split(' ').next().unwrap()).collect();
    assert_eq!(places, ["1:10", "2:8", "3:10", "4:1", "6:1", "9:14", "10:11", "11:15", "12:15", "13:15"], "{found:#?}");
}

#[test]
fn integers_that_json_does_not_carry_exactly_are_refused_at_both_ends() {
    let message = "an integer that JSON does not carry exactly";
    for number in ["9007199254740992", "-9007199254740992", "9223372036854775807", "-9223372036854775808"] {
        let found = told(&format!("schema = 1\n[vars]\nx = {number}\n"));
        assert!(found.iter().any(|fault| fault.starts_with(&format!("3:5 {message}"))), "{number}: {found:?}");
    }
}

#[test]
fn columns_count_characters() {
    let found = told("schema = 1\n[vars]\nx = [\"äöü😀\", inf]\n");
    assert!(found[0].starts_with("3:14 "), "{found:#?}");
}

#[test]
fn a_fault_in_a_condition_is_placed_in_the_string_it_stands_in() {
    let tool = "schema = 1\n[tools.a]\nrisk = \"read\"\nparameters = {}\n[[tools.a.rules]]\nid = \"r\"\nverdict = \"deny\"\nreason = \"r\"\n";
    // A name that is not there is told at the dot before it.
    let place = |when: &str| {
        let fault = faults(&format!("{tool}{when}\n")).remove(0);
        (fault.line, fault.column)
    };
    assert_eq!(place("when = 'vars.x > 1'"), (9, 13));
    assert_eq!(place("when = 'now.hour > 1 && vars.x > 1'"), (9, 29));
    assert_eq!(place("when = \"\\\"a\\\" == \\\"\\u00e9\\\" || vars.x > 1\""), (9, 36));
    assert_eq!(place("when = '''\nnow.hour > 1 &&\n  vars.x > 1'''"), (11, 7));
    assert_eq!(place("when = \"\"\"\\\n    now.hour > 1 && \\\n    vars.x > 1\"\"\""), (11, 9));
}

#[test]
fn a_slip_of_a_key_is_told_with_the_key_that_is_meant() {
    let found = told(
        "schema = 1\n[tools.a]\nrisk = \"read\"\nparameters = {}\napproval = { step_up = true, step_upp = true }\n",
    );
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].contains("did you mean `step_up`?"), "{found:#?}");
}

#[test]
fn a_huge_or_deep_file_is_refused() {
    assert!(told(&format!("schema = 1\n#{}", "x".repeat(2_000_000)))[0].contains("larger than"));
    let deep = format!("schema = 1\n[vars]\nx = {}{}\n", "[".repeat(2000), "]".repeat(2000));
    assert!(!told(&deep).is_empty());
}
