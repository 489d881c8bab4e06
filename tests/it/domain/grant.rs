//! Grants: what they cover, who may make them, and which ones an approval offers.

use std::{collections::BTreeSet, time::Duration};

use countersign::domain::{
    call::{CallKey, ToolCall},
    decision::ReasonCode,
    facts::{Facts, SettleFacts, Voters},
    grant::{
        Lifts, Maker, StandingGrant, Terms, TooWide, check,
        offers::{Offer, OfferScope, offers},
    },
    identity::AgentId,
    ids::{GrantId, RunId, ToolUseId},
    judge::{judge, state_of},
    policy::{Policy, condition::RuleState},
    settle::settle,
    verdict::Verdict,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{
    clock::START,
    world::{arguments, object, policy},
};

const POLICY: &str = r#"
schema = 1
[tools.mail]
risk = "send"
parameters = { type = "object", required = ["to"], properties = { to = { type = "array", maxItems = 5, items = { type = "string" } }, cc = { type = "array", maxItems = 5, items = { type = "string" } }, body = { type = "string", maxLength = 2000 } } }
[tools.mail.arguments.to]
kind = "email"
[tools.mail.arguments.cc]
kind = "email"

[tools.fetch]
risk = "read"
parameters = { type = "object", required = ["url"], properties = { url = { type = "string" } } }
[tools.fetch.arguments.url]
kind = "url"
[[tools.fetch.rules]]
id = "any-fetch"
when = 'true'
verdict = "require_approval"
reason = "people look at every fetch"

[tools.refund]
risk = "send"
parameters = { type = "object", required = ["order", "amount"], properties = { order = { type = "string", maxLength = 100 }, amount = { type = "number", minimum = 0 }, note = { type = "string", maxLength = 500 } } }
approval = { reviewers = ["leads"] }
[[tools.refund.rules]]
id = "large"
when = 'args.amount > 100'
verdict = "require_approval"
reason = "large"
[[tools.refund.rules]]
id = "huge"
when = 'args.amount > 1000'
verdict = "require_approval"
reason = "huge"
approval = { reviewers = ["finance"] }
[[tools.refund.limits]]
id = "daily"
per = "agent"
window = "24h"
max_calls = 3
on_exceed = "require_approval"

[tools.shell]
risk = "send"
grantable = true
parameters = { type = "object", required = ["command"], properties = { command = { type = "string" } } }
[tools.shell.arguments.command]
kind = "command"

[tools.wipe]
risk = "destructive"
parameters = { type = "object", properties = { disk = { type = "string" } } }
"#;

fn call(tool: &str, args: Value) -> ToolCall {
    let key = CallKey {
        agent: AgentId::parse("bot").unwrap(),
        run: RunId::parse("run-1").unwrap(),
        turn: 0,
        tool_use_id: ToolUseId::parse("call-1").unwrap(),
    };
    ToolCall { key, tool: tool.to_owned(), args: arguments(args), context: None }
}

fn groups(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn maker(names: &[&str]) -> Maker {
    Maker { groups: groups(names), asks: false }
}

fn rules(names: &[&str]) -> Lifts {
    Lifts::these(groups(names))
}

fn grant(lifts: Lifts) -> StandingGrant {
    StandingGrant {
        id: GrantId::from_uuid(Uuid::from_u128(7)),
        expires_at: START.plus(Duration::from_secs(60)),
        uses_left: 1,
        lifts,
        maker: Some(maker(&["leads", "finance"])),
        condition: RuleState::True,
    }
}

/// What is decided of a call under this grant.
fn decided(
    tool: &str,
    args: Value,
    grant: StandingGrant,
    change: impl FnOnce(&mut SettleFacts),
) -> (Verdict, ReasonCode) {
    let policy = policy(POLICY);
    let judgement = judge(&policy, &call(tool, args), &Facts::default(), START);
    let tally = countersign::domain::limit::Tally { calls: 0, sum: None, adds: None };
    let mut facts = SettleFacts {
        standing_denial: None,
        open_in_run: 0,
        open_of_agent: 0,
        refused_of_tool_in_run: 0,
        voters: Voters::default(),
        limits: [("daily".to_owned(), tally)].into(),
        grants: vec![grant],
        joins: false,
        requesters: Voters::default(),
    };
    change(&mut facts);
    let decision = settle(&policy, judgement, &facts, START);
    let (verdict, reason) = (decision.judgement.verdict, decision.judgement.reason.code);
    assert_eq!(decision.grant.is_some(), reason == ReasonCode::Grant);
    (verdict, reason)
}

const GRANTED: (Verdict, ReasonCode) = (Verdict::AllowAudited, ReasonCode::Grant);
const NOBODY: (Verdict, ReasonCode) = (Verdict::Deny, ReasonCode::NoReviewer);

fn refund(amount: u32) -> Value {
    json!({ "order": "O-1", "amount": amount })
}

#[test]
fn a_grant_lifts_the_default_or_the_rules_it_names_and_nothing_else() {
    let ask = |amount, lifts| decided("refund", refund(amount), grant(lifts), |_| {});
    assert_eq!(ask(50, Lifts::the_default()), GRANTED);
    assert_eq!(ask(500, rules(&["large"])), GRANTED);
    assert_eq!(ask(500, Lifts::the_default()), NOBODY);
    assert_eq!(ask(50, rules(&["large"])), NOBODY);
    assert_eq!(ask(500, rules(&["another"])), NOBODY);
}

#[test]
fn a_grant_that_is_over_or_whose_condition_is_not_true_covers_nothing() {
    let lifts = Lifts::the_default;
    for over in [
        StandingGrant { expires_at: START, ..grant(lifts()) },
        StandingGrant { uses_left: 0, ..grant(lifts()) },
        StandingGrant { condition: RuleState::False, ..grant(lifts()) },
        StandingGrant {
            condition: RuleState::Failed(countersign::domain::policy::condition::Failure::MissingValue),
            ..grant(lifts())
        },
    ] {
        assert_eq!(decided("refund", refund(50), over, |_| {}), NOBODY);
    }
}

#[test]
fn a_grant_stands_for_no_more_than_its_makers_own_approval() {
    let by = |maker| StandingGrant { maker, ..grant(rules(&["large", "huge"])) };
    // It takes one of `leads` and one of `finance`, and one person fills one place.
    let requires_two = policy(POLICY).requirement_of(policy(POLICY).tool("refund").unwrap(), &groups(&["huge"]));
    assert_eq!(requires_two.needed(), 2);
    for maker in [None, Some(maker(&["finance"])), Some(maker(&["leads", "finance"]))] {
        assert_eq!(decided("refund", refund(5_000), by(maker), |_| {}), NOBODY);
    }
}

#[test]
fn a_limit_that_asks_is_never_lifted() {
    let over = |facts: &mut SettleFacts| facts.limits.get_mut("daily").unwrap().calls = 3;
    assert_eq!(decided("refund", refund(50), grant(Lifts::the_default()), over), NOBODY);
    assert_eq!(decided("refund", refund(50), grant(Lifts { default: true, rules: groups(&["daily"]) }), over), NOBODY);
}

#[test]
fn step_six_and_a_tool_without_grants_are_never_lifted() {
    assert_eq!(decided("shell", json!({ "command": "ls" }), grant(Lifts::the_default()), |_| {}), NOBODY);
    assert_eq!(decided("wipe", json!({}), grant(Lifts::the_default()), |_| {}), NOBODY);
}

#[test]
fn what_is_wider_than_allowed_is_said() {
    let policy = policy(POLICY);
    let terms = |ttl, max_uses| Terms { lifts: Lifts::the_default(), ttl: Duration::from_secs(ttl), max_uses };
    let make = |tool: &str, terms: &Terms, maker: &[&str]| {
        check(&policy, policy.tool(tool).unwrap(), terms, &self::maker(maker))
    };
    assert_eq!(make("refund", &terms(8 * 3_600, 50), &["leads"]), Ok(()));
    assert_eq!(make("refund", &terms(8 * 3_600 + 1, 50), &["leads"]), Err(TooWide::TooLong));
    assert_eq!(make("refund", &terms(60, 51), &["leads"]), Err(TooWide::TooManyUses));
    assert!(matches!(make("refund", &terms(60, 1), &["finance"]), Err(TooWide::NotAlone { .. })));
    assert!(matches!(make("wipe", &terms(60, 1), &["leads"]), Err(TooWide::NotGrantable { .. })));
    assert!(matches!(make("shell", &terms(60, 1), &["leads"]), Err(TooWide::Unconfined { .. })));
}

fn offered(policy: &Policy, tool: &str, lifts: &Lifts, args: Value) -> Vec<Offer> {
    let call = call(tool, args.clone());
    let judgement = judge(policy, &call, &Facts::default(), START);
    assert_eq!(judgement.verdict, Verdict::RequireApproval, "{judgement:?}");
    let maker = maker(&["leads"]);
    offers(policy, policy.tool(tool).unwrap(), lifts, &object(args), &judgement.resolved, &maker)
}

fn holds(policy: &Policy, tool: &str, when: &str, args: Value) -> bool {
    let call = call(tool, args);
    let judgement = judge(policy, &call, &Facts::default(), START);
    let condition = policy.grant_condition(policy.tool(tool).unwrap(), when).unwrap();
    state_of(&condition, policy, &call, &judgement.resolved, &Facts::default(), START) == RuleState::True
}

#[test]
fn the_narrowest_offer_is_true_of_the_same_arguments_alone() {
    let policy = policy(POLICY);
    let cases = [
        (
            "mail",
            Lifts::the_default(),
            json!({ "to": ["a@x.example"], "body": "say \"hi\"\n" }),
            vec![
                json!({ "to": ["b@x.example"], "body": "say \"hi\"\n" }),
                json!({ "to": ["a@x.example", "b@x.example"], "body": "say \"hi\"\n" }),
                json!({ "to": ["a@x.example"], "body": "other" }),
                json!({ "to": ["a@x.example"] }),
                json!({ "to": ["a@x.example"], "cc": ["b@x.example"], "body": "say \"hi\"\n" }),
            ],
        ),
        (
            "fetch",
            rules(&["any-fetch"]),
            json!({ "url": "https://acme.com/x?y=1" }),
            vec![
                json!({ "url": "https://other.com/x?y=1" }),
                json!({ "url": "https://acme.com/x?y=2" }),
                json!({ "url": "https://acme.com/x" }),
            ],
        ),
        (
            "refund",
            Lifts::the_default(),
            json!({ "order": "O-1", "amount": 12.5 }),
            vec![
                json!({ "order": "O-1-old", "amount": 12.5 }),
                json!({ "order": "O-1", "amount": 12.51 }),
                json!({ "order": "O-1", "amount": 12.5, "note": "and more" }),
            ],
        ),
    ];
    for (tool, lifts, args, others) in cases {
        let offer = offered(&policy, tool, &lifts, args.clone()).remove(0);
        assert_eq!(offer.scope, OfferScope::SameArguments);
        assert!(holds(&policy, tool, &offer.when, args), "{}", offer.when);
        for other in others {
            assert!(!holds(&policy, tool, &offer.when, other.clone()), "{} holds for {other}", offer.when);
        }
    }
}

#[test]
fn a_wider_offer_keeps_recipients_hosts_and_amounts() {
    let policy = policy(POLICY);
    let target = |tool: &str, lifts: &Lifts, args| {
        offered(&policy, tool, lifts, args)
            .into_iter()
            .find(|offer| offer.scope == OfferScope::SameTarget)
            .unwrap()
            .when
    };
    let mail = target("mail", &Lifts::the_default(), json!({ "to": ["a@x.example", "b@x.example"], "body": "a b" }));
    assert!(holds(&policy, "mail", &mail, json!({ "to": ["b@x.example"], "body": "other words" })));
    assert!(!holds(&policy, "mail", &mail, json!({ "to": ["c@x.example"], "body": "a b" })));
    assert!(!holds(&policy, "mail", &mail, json!({ "to": [], "body": "a b" })));
    assert!(!holds(&policy, "mail", &mail, json!({ "to": ["a@x.example"], "cc": ["c@x.example"], "body": "a b" })));
    let fetch = target("fetch", &rules(&["any-fetch"]), json!({ "url": "https://acme.com/x" }));
    assert!(holds(&policy, "fetch", &fetch, json!({ "url": "https://acme.com/other" })));
    assert!(!holds(&policy, "fetch", &fetch, json!({ "url": "https://other.com/x" })));
    let refund = target("refund", &Lifts::the_default(), json!({ "order": "O-1", "amount": 20 }));
    assert!(holds(&policy, "refund", &refund, json!({ "order": "O-1", "amount": 19 })));
    assert!(!holds(&policy, "refund", &refund, json!({ "order": "O-1", "amount": 21 })));
    assert!(!holds(&policy, "refund", &refund, json!({ "order": "O-2", "amount": 20 })));
}

#[test]
fn at_most_three_are_offered_the_narrowest_first_and_none_that_the_reviewer_could_not_make() {
    let policy = policy(POLICY);
    let scopes: Vec<_> =
        offered(&policy, "refund", &Lifts::the_default(), refund(20)).into_iter().map(|offer| offer.scope).collect();
    assert_eq!(scopes, [OfferScope::SameArguments, OfferScope::SameTarget, OfferScope::Everything]);
    assert_eq!(offered(&policy, "refund", &rules(&["large", "huge"]), refund(5_000)), []);
    assert_eq!(offered(&policy, "wipe", &Lifts::the_default(), json!({ "disk": "a" })), []);
    assert_eq!(offered(&policy, "shell", &Lifts::the_default(), json!({ "command": "curl https://a.example" })), []);
    assert_eq!(offered(&policy, "refund", &Lifts::default(), refund(20)), []);
    let both = Lifts { default: true, rules: groups(&["any-fetch"]) };
    let scopes: Vec<_> = offered(&policy, "fetch", &both, json!({ "url": "https://acme.com/x" }))
        .into_iter()
        .map(|offer| offer.scope)
        .collect();
    assert_eq!(scopes, [OfferScope::SameArguments, OfferScope::SameTarget]);
}

#[test]
fn arguments_that_no_bounded_condition_describes_are_not_offered_again() {
    let policy = policy(POLICY);
    let offers =
        offered(&policy, "mail", &Lifts::the_default(), json!({ "to": ["a@x.example"], "body": "x".repeat(1_500) }));
    let scopes: Vec<_> = offers.into_iter().map(|offer| offer.scope).collect();
    assert_eq!(scopes, [OfferScope::SameTarget, OfferScope::Everything]);
}

#[test]
fn who_asks_makes_no_grant_and_none_of_theirs_counts() {
    let policy = policy(POLICY);
    let asks = Maker { asks: true, ..maker(&["leads"]) };
    let terms = Terms { lifts: Lifts::the_default(), ttl: Duration::from_secs(60), max_uses: 1 };
    assert_eq!(check(&policy, policy.tool("refund").unwrap(), &terms, &asks), Err(TooWide::Excluded));
    let standing = StandingGrant { maker: Some(asks), ..grant(Lifts::the_default()) };
    assert_eq!(decided("refund", refund(50), standing, |_| {}), NOBODY);
}
