//! Stacks of alike approvals, and what stands out in them.

use countersign::domain::{
    approval::requirement::Requirement,
    identity::AgentId,
    review::{
        Review,
        alike::{How, Stack, Waiting, compare, stacks},
    },
};
use serde_json::{Value, json};

use super::shown;
use crate::support::sample::TTL;

/// What stands out, as `member:place`.
fn outliers(stack: &Stack) -> Vec<(usize, &str, &How)> {
    let lines = stack.lines.iter();
    lines.flat_map(|line| line.unlike.iter().map(|unlike| (line.member, unlike.at.as_str(), &unlike.how))).collect()
}

fn compared(all: &[Value]) -> Stack {
    let reviews: Vec<Review> = all.iter().map(shown).collect();
    compare(&reviews.iter().collect::<Vec<_>>())
}

#[test]
fn what_is_common_is_said_once_and_what_differs_per_line() {
    let stack = compared(&[json!({ "currency": "EUR", "order": "A" }), json!({ "currency": "EUR", "order": "B" })]);
    let common: Vec<&str> = stack.common.iter().map(|fact| fact.shown.as_str()).collect();
    assert_eq!(common, ["EUR", "run-1"]);
    let differing = stack.lines.iter().map(|line| line.differing.iter().map(|fact| fact.shown.as_str()).collect());
    assert_eq!(differing.collect::<Vec<Vec<&str>>>(), [["A"], ["B"]]);
}

#[test]
fn one_alone_says_everything_and_stands_out_in_nothing() {
    let stack = compared(&[json!({ "amount": 9_000 })]);
    assert_eq!((stack.common.len(), stack.lines.len()), (2, 1));
    assert_eq!((&stack.lines[0].differing[..], &stack.lines[0].unlike[..]), (&[][..], &[][..]));
}

#[test]
fn a_number_far_from_the_median_of_the_others_stands_out_and_comes_first() {
    let stack = compared(&[10, 12, 11, 37, 3].map(|amount| json!({ "amount": amount })));
    let (above, below) = (How::FarAbove { median: "10".to_owned() }, How::FarBelow { median: "11".to_owned() });
    assert_eq!(outliers(&stack), [(3, "/amount", &above), (4, "/amount", &below)]);
    assert_eq!(stack.lines.iter().map(|line| line.member).collect::<Vec<_>>(), [3, 4, 0, 1, 2]);
}

#[test]
fn three_times_the_median_is_not_yet_far_and_three_numbers_are_too_few() {
    assert_eq!(outliers(&compared(&[10, 10, 10, 30].map(|amount| json!({ "amount": amount })))), []);
    assert_eq!(outliers(&compared(&[10, 10, 3_000].map(|amount| json!({ "amount": amount })))), []);
    assert_eq!(outliers(&compared(&[10, 10, 10, 31].map(|amount| json!({ "amount": amount })))).len(), 1);
}

#[test]
fn exact_decimals_are_compared_and_not_their_nearest_floats() {
    let amounts = ["0.1", "0.1", "0.1", "0.30000000000000001"];
    let all = amounts.map(|amount| {
        let mut review = shown(&json!({ "amount": 0 }));
        review.arguments[0].shown = amount.to_owned();
        review
    });
    let stack = compare(&all.iter().collect::<Vec<_>>());
    assert_eq!(outliers(&stack), [(3, "/amount", &How::FarAbove { median: "0.1".to_owned() })]);
}

#[test]
fn an_address_at_another_host_than_most_stands_out() {
    let to = ["a@acme.example", "b@acme.example", "c@ACME.example", "d@evil.example"];
    let stack = compared(&to.map(|to| json!({ "to": to })));
    let how = How::OtherHost { host: "evil.example".to_owned(), most: "acme.example".to_owned() };
    assert_eq!(outliers(&stack), [(3, "/to", &how)]);
}

#[test]
fn a_link_hides_its_host_neither_behind_a_name_nor_a_port() {
    let urls = ["https://acme.example/1", "https://acme.example:443/2", "https://acme.example@evil.example/3"];
    let stack = compared(&urls.map(|url| json!({ "url": url })));
    let how = How::OtherHost { host: "evil.example".to_owned(), most: "acme.example".to_owned() };
    assert_eq!(outliers(&stack), [(2, "/url", &how)]);
}

#[test]
fn another_text_than_most_and_a_value_of_one_alone_stand_out() {
    let stack = compared(&[
        json!({ "currency": "EUR" }),
        json!({ "currency": "EUR", "note": "now" }),
        json!({ "currency": "USD" }),
        json!({ "currency": "EUR" }),
    ]);
    let other = How::OtherValue { most: "EUR".to_owned() };
    assert_eq!(outliers(&stack), [(1, "/note", &How::OnlyHere), (2, "/currency", &other)]);
    let stack = compared(&[json!({ "a": 1, "b": 1 }), json!({ "a": 1, "b": 1 }), json!({ "b": 1 })]);
    assert_eq!(outliers(&stack), [(2, "/a", &How::OnlyMissingHere)]);
}

#[test]
fn where_every_text_differs_none_stands_out() {
    let stack = compared(&["A", "B", "C", "D"].map(|order| json!({ "order": order })));
    assert_eq!(outliers(&stack), []);
}

#[test]
fn only_the_same_agent_tool_requirement_and_reasons_are_alike() {
    let bot = AgentId::parse("bot").unwrap();
    let other_bot = AgentId::parse("other-bot").unwrap();
    let requirement = Requirement::one_of_anyone(TTL);
    let twice = Requirement { anyone: 2, ..requirement.clone() };
    let review = shown(&json!({ "a": 1 }));
    let other_reason = Review { reason: "over 5000".to_owned(), ..review.clone() };
    let other_tool = Review { tool: "send_email".to_owned(), ..review.clone() };
    let waiting = [
        Waiting { agent: &bot, requirement: &requirement, review: &review },
        Waiting { agent: &other_bot, requirement: &requirement, review: &review },
        Waiting { agent: &bot, requirement: &twice, review: &review },
        Waiting { agent: &bot, requirement: &requirement, review: &other_reason },
        Waiting { agent: &bot, requirement: &requirement, review: &other_tool },
        Waiting { agent: &bot, requirement: &requirement, review: &review },
    ];
    let found = stacks(&waiting);
    let members = |stack: &Stack| stack.lines.iter().map(|line| line.member).collect::<Vec<_>>();
    assert_eq!(found.iter().map(members).collect::<Vec<_>>(), [vec![0, 5], vec![1], vec![2], vec![3], vec![4]]);
}
