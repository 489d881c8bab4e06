//! What approvals take, as policies say it: read, summed up, and refused when nobody could ever meet it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use countersign::domain::{
    identity::{GroupName, ReviewerDirectory, ReviewerEntry, ReviewerName},
    policy::{Policy, SourceFile},
};

const TOOL: &str = "schema = 1\n[tools.t]\nrisk = \"send\"\nparameters = {}\n";
const RULE: &str =
    "[[tools.t.rules]]\nid = \"r\"\nwhen = 'now.hour > 1'\nverdict = \"require_approval\"\nreason = \"r\"\n";
const FLOOR: &str =
    "[[rules]]\nid = \"f\"\nrisk = [\"send\"]\nwhen = 'now.hour > 1'\nverdict = \"require_approval\"\nreason = \"r\"\n";
const DESTRUCTIVE: &str = "schema = 1\n[tools.t]\nrisk = \"destructive\"\nparameters = {}\n";

fn files(text: &str) -> [SourceFile; 1] {
    [SourceFile { path: "policy.toml".to_owned(), text: text.to_owned() }]
}

#[track_caller]
fn policy(text: &str) -> Policy {
    Policy::load(&files(text)).unwrap_or_else(|faults| panic!("{text}\n{faults:#?}")).policy
}

/// What is wrong, where the reviewers are known.
fn told(text: &str, reviewers: Option<&ReviewerDirectory>) -> Vec<String> {
    let loaded = match reviewers {
        Some(reviewers) => Policy::load_for(&files(text), reviewers),
        None => Policy::load(&files(text)),
    };
    let faults = loaded.err().unwrap_or_default();
    assert!(faults.iter().all(|fault| !fault.hint.is_empty() && fault.line > 0));
    faults.into_iter().map(|fault| fault.message).collect()
}

#[track_caller]
fn assert_told(text: &str, reviewers: Option<&ReviewerDirectory>, message: &str) {
    let found = told(text, reviewers);
    assert!(found.len() == 1 && found[0].contains(message), "{message}: {found:#?}\n{text}");
}

fn people(of: &[(&str, &[&str])]) -> ReviewerDirectory {
    let entries = of.iter().map(|(name, groups)| ReviewerEntry {
        name: ReviewerName::parse(name).unwrap(),
        groups: groups.iter().map(|group| GroupName::parse(group).unwrap()).collect(),
        email: Some(format!("{name}@acme.example")),
        slack_user: None,
        oidc_subject: None,
        absence: None,
    });
    ReviewerDirectory::new(entries).unwrap()
}

fn tool_with(approval: &str) -> String {
    format!("{TOOL}approval = {{ {approval} }}\n")
}

fn rule_with(tools: &str, rules: &str) -> String {
    format!("{}{RULE}approval = {{ {rules} }}\n", tool_with(tools))
}

#[test]
fn the_terms_of_an_approval_are_read_as_they_are_written() {
    let policy = policy(&tool_with(
        "quorum = 2, reviewers = [\"finance\", \"legal\"], ttl = \"4h\", grace = \"1m\", double_confirm = true, \
         allow_self_approval = true, escalate = [\"managers\"], escalate_after = \"1h\"",
    ));
    let requirement = policy.tool("t").unwrap().approval.requirement(Duration::from_secs(9));
    assert_eq!(requirement.groups, BTreeMap::from([("finance".to_owned(), 2), ("legal".to_owned(), 2)]));
    assert_eq!((requirement.anyone, requirement.needed()), (0, 4));
    assert_eq!(requirement.grace, Duration::from_secs(60));
    assert!(requirement.double_confirm && requirement.allow_self_approval);
    assert_eq!(requirement.escalation, BTreeMap::from([("managers".to_owned(), Duration::from_secs(3_600))]));
    assert_eq!(policy.groups_named(), BTreeSet::from(["finance", "legal", "managers"]));
}

#[test]
fn owners_are_one_or_several() {
    let owners = |owner: &str| {
        let policy = policy(&format!("{TOOL}[agents.bot]\ntools = [\"t\"]\nowner = {owner}\n"));
        policy.agent("bot").unwrap().owners.iter().cloned().collect::<Vec<_>>()
    };
    assert_eq!(owners("\"ana\""), ["ana"]);
    assert_eq!(owners("[\"ana\", \"bo@acme.example\"]"), ["ana", "bo@acme.example"]);
    let with = |owner: &str| format!("{TOOL}[agents.bot]\ntools = [\"t\"]\nowner = {owner}\n");
    assert_told(&with("[]"), None, "list of owners of agents.bot is empty");
    assert_told(&with("\" \""), None, "`owner` of agents.bot is empty");
    assert_told(&with("7"), None, "`owner` of agents.bot is not a string");
}

#[test]
fn the_second_click_on_what_destroys_cannot_be_switched_off() {
    assert!(policy(DESTRUCTIVE).tool("t").unwrap().approval.double_confirm);
    assert!(
        policy(&format!("{DESTRUCTIVE}approval = {{ ttl = \"1h\" }}\n")).tool("t").unwrap().approval.double_confirm
    );
    assert!(!policy(TOOL).tool("t").unwrap().approval.double_confirm);
    let off = "approval = { double_confirm = false }\n";
    assert_told(&format!("{DESTRUCTIVE}{off}"), None, "cannot be switched off");
    assert_told(&format!("{DESTRUCTIVE}{RULE}{off}"), None, "cannot be switched off");
    policy(&format!("{TOOL}{off}"));
}

#[test]
fn an_escalation_has_a_moment_and_somebody_to_fill_in_for() {
    let with = |keys: &str| tool_with(&format!("reviewers = [\"finance\"], {keys}"));
    assert_told(&with("escalate = [\"managers\"]"), None, "`escalate` without `escalate_after`");
    assert_told(&with("escalate_after = \"1h\""), None, "`escalate_after` without `escalate`");
    assert_told(&with("escalate = [], escalate_after = \"1h\""), None, "names no group");
    let no_group = tool_with("escalate = [\"managers\"], escalate_after = \"1h\"");
    assert_told(&no_group, None, "`escalate` without `reviewers`");
    let late = "ttl = \"1h\", escalate = [\"managers\"], escalate_after = \"1h\"";
    assert_told(&with(late), None, "when the approval has expired");
    let by_default = with("escalate = [\"managers\"], escalate_after = \"4h\"");
    assert_told(&by_default, None, "when the approval has expired");
    let by_tool = rule_with("ttl = \"30m\"", "reviewers = [\"a\"], escalate = [\"b\"], escalate_after = \"30m\"");
    assert_told(&by_tool, None, "when the approval has expired");
}

#[test]
fn what_could_never_be_claimed_is_refused() {
    assert_told(&tool_with("ttl = \"1m\", grace = \"1m\""), None, "`grace` outlasts the approval");
    assert_told(&rule_with("grace = \"2m\"", "ttl = \"1m\""), None, "`grace` outlasts the approval");
    policy(&tool_with("ttl = \"1m\", grace = \"59s\""));
}

#[test]
fn the_number_of_people_is_bounded() {
    assert_told(&tool_with("quorum = 21"), None, "not a whole number from 1 to 20");
    assert_told(&tool_with("quorum = 0"), None, "not a whole number from 1 to 20");
    let many = |groups: usize| {
        let names: Vec<_> = (0..groups).map(|group| format!("\"g{group}\"")).collect();
        tool_with(&format!("quorum = 20, reviewers = [{}]", names.join(", ")))
    };
    policy(&many(5));
    assert_told(&many(6), None, "may take 120 people");
}

#[test]
fn what_takes_more_people_than_there_are_is_refused_where_they_are_known() {
    let two = people(&[("ana", &["finance", "legal"]), ("bo", &["legal"])]);
    for (text, message) in [
        (tool_with("quorum = 3"), "takes more people than there are"),
        (tool_with("quorum = 2, reviewers = [\"finance\"]"), "takes more people than there are"),
        (tool_with("reviewers = [\"nobody\"]"), "no configured reviewer is in the group `nobody`"),
        (
            tool_with("reviewers = [\"finance\"], escalate = [\"nobody\"], escalate_after = \"1h\""),
            "no configured reviewer is in the group `nobody`",
        ),
        (rule_with("reviewers = [\"finance\"]", "quorum = 2, reviewers = [\"legal\"]"), "more people than there are"),
        (format!("{TOOL}{FLOOR}approval = {{ quorum = 3 }}\n"), "takes more people than there are"),
    ] {
        assert_told(&text, Some(&two), message);
        // With nobody configured the service starts, and denies.
        assert_eq!(told(&text, Some(&people(&[]))), Vec::<String>::new());
        assert_eq!(told(&text, None), Vec::<String>::new());
    }
    for text in [
        tool_with("quorum = 2"),
        tool_with("reviewers = [\"finance\", \"legal\"]"),
        tool_with("quorum = 2, reviewers = [\"finance\"], escalate = [\"legal\"], escalate_after = \"1h\""),
    ] {
        assert_eq!(told(&text, Some(&two)), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn an_owner_is_a_reviewer_and_not_the_only_one_who_could_approve() {
    let two = people(&[("ana", &["finance"]), ("bo", &[])]);
    let owned = |owner: &str, tool: &str| format!("{tool}[agents.bot]\ntools = [\"t\"]\nowner = \"{owner}\"\n");
    assert_told(&owned("nobody", TOOL), Some(&two), "`nobody` is no configured reviewer");
    let finance = tool_with("reviewers = [\"finance\"]");
    assert_told(&owned("ANA@acme.example", &finance), Some(&two), "without the owners of agents.bot");
    for text in [
        owned("ana", TOOL),
        owned("bo", &finance),
        owned("ana", &tool_with("reviewers = [\"finance\"], allow_self_approval = true")),
        owned("nobody", TOOL).replace("nobody", "bo"),
    ] {
        assert_eq!(told(&text, Some(&two)), Vec::<String>::new(), "{text}");
    }
    // What asks nobody needs nobody.
    let read = TOOL.replace("send", "read");
    assert_eq!(told(&owned("ana", &read), Some(&people(&[("ana", &[])]))), Vec::<String>::new());
    assert_told(&owned("ana", TOOL), Some(&people(&[("ana", &[])])), "without the owners of agents.bot");
}
