//! Who counts as asking for a call.

use countersign::domain::{
    approval::requesters::Requesters,
    identity::{AgentId, ReviewerDirectory, ReviewerEntry, ReviewerName},
};

use crate::support::world::policy;

const POLICY: &str = r#"
schema = 1
[tools.t]
risk = "send"
parameters = {}
[agents.bot]
tools = ["t"]
owner = "ana"
[agents.above]
tools = ["t"]
owner = ["BO@acme.example", "cy"]
[agents.stray]
tools = ["t"]
"#;

fn entry(name: &str) -> ReviewerEntry {
    ReviewerEntry {
        name: ReviewerName::parse(name).unwrap(),
        groups: [].into(),
        email: Some(format!("{name}@acme.example")),
        slack_user: Some(format!("T01/U{name}")),
        oidc_subject: Some(format!("auth0|{name}")),
        absence: None,
    }
}

#[track_caller]
fn assert_ask(agents: &[&str], on_behalf_of: Option<&str>, expected: &[&str]) {
    let directory = ReviewerDirectory::new(["ana", "bo", "cy", "dee"].map(entry)).unwrap();
    let agents: Vec<_> = agents.iter().map(|agent| AgentId::parse(agent).unwrap()).collect();
    let requesters = Requesters::of(&policy(POLICY), &directory, &agents, on_behalf_of);
    let found: Vec<_> = directory.iter().filter(|person| requesters.contains(&person.name)).collect();
    let names: Vec<_> = found.iter().map(|person| person.name.as_str()).collect();
    assert_eq!(names, expected);
}

#[test]
fn owners_of_the_agent_and_of_those_above_it_ask() {
    assert_ask(&["bot"], None, &["ana"]);
    assert_ask(&["bot", "above"], None, &["ana", "bo", "cy"]);
    assert_ask(&["stray"], None, &[]);
    assert_ask(&["unlisted"], None, &[]);
}

#[test]
fn whom_the_run_works_for_asks_by_whatever_identity() {
    for identity in ["dee", "DEE", " dee ", "Dee@Acme.example", "auth0|DEE", "T01/Udee", "udee", "\u{ff44}ee"] {
        assert_ask(&["stray"], Some(identity), &["dee"]);
    }
    for identity in ["", "de", "deee", "dee@other.example", "T02/Udee", "auth0|", "U"] {
        assert_ask(&["stray"], Some(identity), &[]);
    }
    assert_ask(&["bot"], Some("dee"), &["ana", "dee"]);
}
