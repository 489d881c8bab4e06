//! Steps 7 to 9 of the decision.

use std::collections::BTreeMap;

use countersign::domain::{
    call::{Arguments, CallKey, ToolCall},
    decision::{Decision, Judgement, ReasonCode},
    facts::{Facts, SettleFacts, StandingDenial, Voters},
    identity::{AgentId, GroupName, ReviewerDirectory, ReviewerEntry, ReviewerName},
    ids::{ApprovalId, RunId, ToolUseId},
    judge::judge,
    policy::Policy,
    settle::settle,
    verdict::Verdict,
};
use serde_json::json;
use uuid::Uuid;

use crate::support::{
    clock::START,
    world::{object, policy},
};

const POLICY: &str = r#"
schema = 1
[defaults]
max_open_approvals_per_run = 3
max_open_approvals_per_agent = 7
max_refused_per_run = 2
[tools.look]
risk = "read"
obligations = { max_bytes = 9 }
parameters = { type = "object" }
[tools.send]
risk = "send"
obligations = { max_bytes = 9 }
parameters = { type = "object" }
approval = { reviewers = ["support"] }
[[tools.send.rules]]
id = "always"
when = 'agent.id == "bot"'
verdict = "require_approval"
reason = "always"
approval = { reviewers = ["finance"] }
[tools.never]
risk = "send"
default = "deny"
parameters = { type = "object" }
"#;

fn voters(groups: &[&[&str]]) -> Voters {
    let entries = groups.iter().enumerate().map(|(index, groups)| ReviewerEntry {
        name: ReviewerName::parse(&format!("r{index}")).unwrap(),
        groups: groups.iter().map(|group| GroupName::parse(group).unwrap()).collect(),
        email: None,
        slack_user: None,
        oidc_subject: None,
        absence: None,
    });
    Voters::of(&ReviewerDirectory::new(entries).unwrap())
}

fn facts() -> SettleFacts {
    SettleFacts {
        standing_denial: None,
        open_in_run: 0,
        open_of_agent: 0,
        refused_of_tool_in_run: 0,
        voters: voters(&[&["support"], &["finance"]]),
        limits: BTreeMap::new(),
        grants: Vec::new(),
        joins: false,
        requesters: voters(&[]),
    }
}

fn judged(policy: &Policy, tool: &str) -> Judgement {
    let call = ToolCall {
        key: CallKey {
            agent: AgentId::parse("bot").unwrap(),
            run: RunId::parse("run-1").unwrap(),
            turn: 0,
            tool_use_id: ToolUseId::parse("call-1").unwrap(),
        },
        tool: tool.to_owned(),
        args: Arguments::new(object(json!({}))).unwrap(),
        context: None,
    };
    judge(policy, &call, &Facts::default(), START)
}

fn settled(tool: &str, facts: &SettleFacts) -> Decision {
    let policy = policy(POLICY);
    settle(&policy, judged(&policy, tool), facts, START)
}

fn outcome(decision: &Decision) -> (Verdict, ReasonCode) {
    (decision.judgement.verdict, decision.judgement.reason.code)
}

#[test]
fn what_nothing_stands_against_is_left_as_it_was_judged() {
    let policy = policy(POLICY);
    for tool in ["look", "send", "never"] {
        let decision = settled(tool, &facts());
        assert_eq!(decision, Decision { judgement: judged(&policy, tool), standing_denial: None, grant: None });
    }
}

#[test]
fn a_standing_denial_denies_whatever_was_judged() {
    let denial =
        StandingDenial { approval: ApprovalId::from_uuid(Uuid::from_u128(1)), message_to_agent: Some("no".to_owned()) };
    let facts = SettleFacts { standing_denial: Some(denial.clone()), ..facts() };
    for tool in ["look", "send", "never", "unknown"] {
        let decision = settled(tool, &facts);
        assert_eq!(outcome(&decision), (Verdict::Deny, ReasonCode::DeniedBefore), "{tool}");
        assert_eq!(decision.standing_denial, Some(denial.clone()));
        assert!(decision.judgement.obligations.is_empty());
    }
}

#[test]
fn a_requirement_that_nobody_could_ever_meet_is_a_denial() {
    for (people, could) in [
        (voters(&[]), false),
        (voters(&[&[], &[], &[]]), false),
        (voters(&[&["support"], &["support"]]), false),
        (voters(&[&["support", "finance"]]), false),
        (voters(&[&["support", "finance"], &[]]), false),
        (voters(&[&["support", "finance"], &["support"]]), true),
        (voters(&[&["finance"], &["support", "finance"]]), true),
    ] {
        let decision = settled("send", &SettleFacts { voters: people.clone(), ..facts() });
        let expected =
            if could { (Verdict::RequireApproval, ReasonCode::Rule) } else { (Verdict::Deny, ReasonCode::NoReviewer) };
        assert_eq!(outcome(&decision), expected, "{people:?}");
    }
    // What asks nobody needs nobody.
    assert_eq!(outcome(&settled("look", &SettleFacts { voters: voters(&[]), ..facts() })).0, Verdict::Allow);
}

#[test]
fn who_asks_helps_to_meet_a_requirement_only_where_it_says_so() {
    let facts = SettleFacts { voters: voters(&[&["support"]]), requesters: voters(&[&["finance"]]), ..facts() };
    assert_eq!(outcome(&settled("send", &facts)), (Verdict::Deny, ReasonCode::NoReviewer));
    let allowing = POLICY.replace("approval = {", "approval = { allow_self_approval = true,");
    let policy = policy(&allowing);
    let decision = settle(&policy, judged(&policy, "send"), &facts, START);
    assert_eq!(outcome(&decision), (Verdict::RequireApproval, ReasonCode::Rule));
}

#[test]
fn caps_are_exact() {
    let with = |open_in_run, open_of_agent, refused_of_tool_in_run| {
        outcome(&settled("send", &SettleFacts { open_in_run, open_of_agent, refused_of_tool_in_run, ..facts() }))
    };
    assert_eq!(with(2, 6, 1), (Verdict::RequireApproval, ReasonCode::Rule));
    assert_eq!(with(3, 3, 0), (Verdict::Deny, ReasonCode::OpenApprovalsOfRun));
    assert_eq!(with(0, 7, 0), (Verdict::Deny, ReasonCode::OpenApprovalsOfAgent));
    assert_eq!(with(0, 0, 2), (Verdict::Deny, ReasonCode::RefusedTooOften));
    assert_eq!(with(u32::MAX, u32::MAX, u32::MAX).0, Verdict::Deny);
}

#[test]
fn caps_bind_only_what_waits_for_people() {
    let full = SettleFacts { open_in_run: 99, open_of_agent: 99, refused_of_tool_in_run: 99, ..facts() };
    assert_eq!(outcome(&settled("look", &full)), (Verdict::Allow, ReasonCode::Default));
    assert_eq!(outcome(&settled("never", &full)), (Verdict::Deny, ReasonCode::Default));
}

#[test]
fn a_settled_denial_still_names_the_rule_that_asked() {
    let decision = settled("send", &SettleFacts { open_in_run: 3, ..facts() });
    assert_eq!(decision.judgement.reason.rule.as_deref(), Some("always"));
    assert_eq!(decision.judgement.asked_by, ["always"]);
}

#[test]
fn the_facts_can_be_written_down_and_read_again() {
    let facts = facts();
    let written = serde_json::to_string(&facts).unwrap();
    assert_eq!(serde_json::from_str::<SettleFacts>(&written).unwrap(), facts);
}
