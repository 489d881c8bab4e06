//! Limits: exact sums, and what counts as exceeded.

use std::time::Duration;

use countersign::domain::{
    call::CallKey,
    identity::AgentId,
    ids::{RunId, ToolUseId},
    limit::{Limit, MaxSum, OnExceed, Per, Tally, amount::Amount},
    run::RunKey,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::support::{clock::START, world::arguments};

fn amount(text: &str) -> Amount {
    Amount::parse(text).unwrap()
}

#[test]
fn an_amount_is_exact_or_none() {
    for text in ["0", "0.1", "12.50", "-3", "9007199254740991", "0.000000000000000000000000000001"] {
        assert!(Amount::parse(text).is_some(), "{text}");
    }
    for text in
        ["", "-", ".5", "5.", "1e3", "+1", " 1", "1_000", "NaN", "1.2.3", "١", "0.0000000000000000000000000000001"]
    {
        assert_eq!(Amount::parse(text), None, "{text}");
    }
    assert_eq!(Amount::parse(&"9".repeat(40)), None);
    assert_eq!(amount("12.50").to_string(), "12.5");
    assert_eq!(amount("0.05").to_string(), "0.05");
    assert_eq!(amount("-0.5").to_string(), "-0.5");
}

#[test]
fn ten_times_a_tenth_is_one() {
    let sum = (0..10).try_fold(Amount::ZERO, |sum, _| sum.plus(amount("0.1")));
    assert_eq!(sum, Some(amount("1")));
    assert_eq!(amount("0.1").times(10), Some(amount("1")));
    assert_eq!(Amount::of(&json!(0.1)), Some(amount("0.1")));
    assert_eq!(Amount::of(&json!(20)), Some(amount("20")));
}

#[test]
fn what_is_no_number_and_what_overflows_is_no_amount() {
    for value in [json!("20"), json!(null), json!(true), json!([1]), json!(1e300)] {
        assert_eq!(Amount::of(&value), None, "{value}");
    }
    let most = amount(&i128::MAX.to_string());
    assert_eq!(most.plus(amount("1")), None);
    assert_eq!(most.times(2), None);
    assert_eq!(most.plus(amount("0.1")), None);
    assert_eq!(most.exceeds(amount("0.1")), None);
}

proptest! {
    #[test]
    fn sums_are_those_of_whole_cents(cents in proptest::collection::vec(0_i64..1_000_000_000, 0..50)) {
        let sum = cents.iter().try_fold(Amount::ZERO, |sum, cents| {
            sum.plus(amount(&format!("{}.{:02}", cents / 100, cents % 100)))
        });
        let whole: i64 = cents.iter().sum();
        prop_assert_eq!(sum, Some(amount(&format!("{}.{:02}", whole / 100, whole % 100))));
    }
}

fn limit(max_calls: Option<u32>, max_sum: Option<&str>) -> Limit {
    Limit {
        id: "daily".to_owned(),
        per: Per::Agent,
        window: Duration::from_secs(60),
        max_calls,
        max_sum: max_sum.map(|value| MaxSum {
            argument: "amount".to_owned(),
            money: false,
            value: amount(value),
            by: Some("order".to_owned()),
        }),
        on_exceed: OnExceed::Deny,
    }
}

#[test]
fn the_last_call_within_a_limit_passes_and_the_next_does_not() {
    let tally = |calls| Tally { calls, sum: Some(Amount::ZERO), adds: None };
    assert!(!limit(Some(3), None).is_exceeded(Some(&tally(2))));
    assert!(limit(Some(3), None).is_exceeded(Some(&tally(3))));
    let tally = |sum: &str, adds: &str| Tally { calls: 1, sum: Some(amount(sum)), adds: Some(amount(adds)) };
    assert!(!limit(None, Some("100")).is_exceeded(Some(&tally("99.9", "0.1"))));
    assert!(limit(None, Some("100")).is_exceeded(Some(&tally("99.9", "0.11"))));
}

#[test]
fn what_is_not_known_counts_as_exceeded() {
    assert!(limit(Some(3), None).is_exceeded(None));
    let unknown_sum = Tally { calls: 0, sum: None, adds: Some(amount("1")) };
    let no_number = Tally { calls: 0, sum: Some(Amount::ZERO), adds: None };
    assert!(limit(None, Some("100")).is_exceeded(Some(&unknown_sum)));
    assert!(limit(None, Some("100")).is_exceeded(Some(&no_number)));
}

#[test]
fn a_call_counts_with_its_agent_its_family_or_everybody() {
    let call = CallKey {
        agent: AgentId::parse("child").unwrap(),
        run: RunId::parse("c-1").unwrap(),
        turn: 0,
        tool_use_id: ToolUseId::parse("t").unwrap(),
    };
    let head = RunKey { agent: AgentId::parse("parent").unwrap(), run: RunId::parse("p-1").unwrap() };
    let measure = |per, args: Value| {
        let limit = Limit { per, ..limit(None, Some("5")) };
        limit.measure(&call, &head, &arguments(args), &Map::new(), START)
    };
    let args = json!({ "amount": 2.5, "order": "O-1" });
    assert_eq!(measure(Per::Agent, args.clone()).key, "child");
    assert_eq!(measure(Per::Run, args.clone()).key, "parent/p-1");
    assert_eq!(measure(Per::Tool, args.clone()).key, "");
    let measured = measure(Per::Tool, args.clone());
    assert_eq!((measured.amount, measured.since), (Some(amount("2.5")), START.minus(Duration::from_secs(60))));
    assert!(!measured.group.contains("O-1"), "values are not kept");
    assert_ne!(measure(Per::Tool, json!({ "amount": 1, "order": "O-2" })).group, measured.group);
    let (one, same) = (json!({ "amount": 1, "order": 1 }), json!({ "amount": 1, "order": 1.0 }));
    assert_eq!(measure(Per::Tool, one).group, measure(Per::Tool, same).group);
    assert_eq!(measure(Per::Tool, json!({ "amount": -1, "order": "O-1" })).amount, None);
    assert_eq!(measure(Per::Tool, json!({ "order": "O-1" })).amount, None);
}
