//! Requirements: how they add up, and when votes meet them.

use std::{collections::BTreeMap, time::Duration};

use countersign::domain::{
    approval::{
        requirement::{DecideIn, Missing, Requirement},
        vote::Vote,
    },
    identity::ReviewerName,
    time::Timestamp,
};
use proptest::prelude::*;

const MADE: Timestamp = Timestamp::from_micros(0);
const HOUR: Duration = Duration::from_secs(3_600);

fn groups(of: &[(&str, u32)]) -> Requirement {
    let groups = of.iter().map(|(group, count)| ((*group).to_owned(), *count)).collect();
    Requirement { groups, anyone: 0, ..Requirement::one_of_anyone(HOUR) }
}

fn vote(name: &str, of: &[&str]) -> Vote {
    let groups = of.iter().map(|group| (*group).to_owned()).collect();
    Vote { reviewer: ReviewerName::parse(name).unwrap(), groups, at: Timestamp::from_micros(0) }
}

#[test]
fn joining_takes_the_strictest_of_everything() {
    let mut finance = groups(&[("finance", 2), ("leads", 1)]);
    finance.grace = Duration::from_secs(10);
    let mut leads = groups(&[("leads", 3)]);
    leads.ttl = HOUR / 2;
    leads.double_confirm = true;
    leads.decide_in = DecideIn::Web;
    let joined = finance.clone().joined(&leads);
    assert_eq!(joined.groups, BTreeMap::from([("finance".to_owned(), 2), ("leads".to_owned(), 3)]));
    assert_eq!((joined.ttl, joined.grace), (HOUR / 2, Duration::from_secs(10)));
    assert_eq!((joined.double_confirm, joined.decide_in), (true, DecideIn::Web));
    assert_eq!(leads.joined(&finance), joined);
}

#[test]
fn anyone_adds_nobody_where_groups_already_give_as_many() {
    let joined = groups(&[("finance", 1)]).joined(&Requirement::one_of_anyone(HOUR));
    assert_eq!(joined.needed(), 1);
    assert!(joined.is_met_by(&[vote("ana", &["finance"])], MADE));
    assert!(!joined.is_met_by(&[vote("bo", &["leads"])], MADE));
}

#[test]
fn one_person_fills_one_place() {
    let requirement = groups(&[("finance", 1), ("leads", 1)]);
    assert!(!requirement.is_met_by(&[vote("ana", &["finance", "leads"])], MADE));
    assert!(requirement.is_met_by(&[vote("ana", &["finance", "leads"]), vote("bo", &["finance"])], MADE));
    assert!(requirement.is_met_by(&[vote("bo", &["finance"]), vote("ana", &["finance", "leads"])], MADE));
}

#[test]
fn votes_of_strangers_to_the_groups_do_not_count_for_them() {
    let requirement = groups(&[("finance", 2)]);
    assert!(!requirement.is_met_by(&[vote("ana", &["finance"]), vote("bo", &["leads"])], MADE));
    assert!(!requirement.is_met_by(&[], MADE));
}

#[test]
fn a_requirement_is_higher_when_it_asks_for_more_people_or_more_care() {
    let one = Requirement::one_of_anyone(HOUR);
    assert!(!one.is_higher_than(&one));
    assert!(Requirement { anyone: 2, ..one.clone() }.is_higher_than(&one));
    assert!(groups(&[("finance", 1)]).is_higher_than(&one));
    assert!(!one.is_higher_than(&groups(&[("finance", 1)])));
    assert!(Requirement { grace: HOUR, ..one.clone() }.is_higher_than(&one));
    assert!(Requirement { double_confirm: true, ..one.clone() }.is_higher_than(&one));
    assert!(Requirement { decide_in: DecideIn::Web, ..one.clone() }.is_higher_than(&one));
    assert!(Requirement { step_up: true, ..one.clone() }.is_higher_than(&one));
    assert!(one.clone().joined(&Requirement { step_up: true, ..one.clone() }).step_up);
    assert!(!Requirement { ttl: HOUR / 2, ..one.clone() }.is_higher_than(&one));
}

fn at(seconds: u64) -> Timestamp {
    MADE.plus(Duration::from_secs(seconds))
}

/// Finance and legal, and managers who fill in after an hour.
fn escalating() -> Requirement {
    let escalation = BTreeMap::from([("managers".to_owned(), HOUR)]);
    Requirement { escalation, ..groups(&[("finance", 1), ("legal", 1)]) }
}

fn late(name: &str, of: &[&str]) -> Vote {
    Vote { at: at(3_600), ..vote(name, of) }
}

#[test]
fn an_escalated_group_fills_any_place_with_votes_cast_from_then_on() {
    let requirement = escalating();
    let early = vote("max", &["managers"]);
    assert!(!requirement.is_met_by(&[vote("ana", &["finance"]), early.clone()], MADE));
    assert!(requirement.is_met_by(&[vote("ana", &["finance"]), late("max", &["managers"])], MADE));
    assert!(requirement.is_met_by(&[late("max", &["managers"]), late("mia", &["managers"])], MADE));
    // One person is one place, however many groups and escalations there are.
    assert!(!requirement.is_met_by(&[late("max", &["managers", "finance", "legal"])], MADE));
    // Who fills any place makes room for who fills only one.
    assert!(requirement.is_met_by(&[late("max", &["managers"]), vote("ana", &["finance"])], MADE));
    let just_before = Vote { at: at(3_599), ..early };
    assert!(!requirement.is_met_by(&[vote("ana", &["finance"]), just_before], MADE));
}

#[test]
fn who_could_fill_a_place_is_admitted_and_nobody_else() {
    let requirement = escalating();
    let of = |group: &str| [group.to_owned()].into();
    assert!(requirement.admits(&of("legal"), MADE, at(0)));
    assert!(!requirement.admits(&of("managers"), MADE, at(3_599)));
    assert!(requirement.admits(&of("managers"), MADE, at(3_600)));
    assert!(!requirement.admits(&of("support"), MADE, at(9_999)));
    assert!(Requirement::one_of_anyone(HOUR).admits(&of("support"), MADE, at(0)));
    // Two people, one of them of finance: the other may be anybody.
    assert!(Requirement { anyone: 2, ..groups(&[("finance", 1)]) }.admits(&of("support"), MADE, at(0)));
    assert!(!Requirement { anyone: 1, ..groups(&[("finance", 1)]) }.admits(&of("support"), MADE, at(0)));
}

#[test]
fn what_is_missing_is_told_in_figures_and_in_words() {
    let told = |requirement: &Requirement, votes: &[Vote]| {
        let missing = requirement.missing(votes, MADE);
        missing.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let requirement = Requirement { anyone: 4, ..groups(&[("finance", 2), ("legal", 1)]) };
    assert_eq!(told(&requirement, &[]), ["two more from finance", "one more from legal", "one more from anyone"]);
    let finance = vote("ana", &["finance"]);
    assert_eq!(
        told(&requirement, std::slice::from_ref(&finance)),
        ["one more from finance", "one more from legal", "one more from anyone"]
    );
    let votes = [finance.clone(), vote("bo", &["finance"]), vote("cy", &["x"])];
    assert_eq!(told(&requirement, &votes), ["one more from legal"]);
    assert_eq!(requirement.missing(&votes, MADE), [Missing { group: Some("legal".to_owned()), count: 1 }]);
    // A third vote of finance fills no place of legal, and is one of anyone's.
    let votes = [finance, vote("bo", &["finance"]), vote("cy", &["finance"])];
    assert_eq!(told(&requirement, &votes), ["one more from legal"]);
    let anyone = Requirement { anyone: 12, ..Requirement::one_of_anyone(HOUR) };
    assert_eq!(told(&anyone, &[]), ["12 more from anyone"]);
    assert_eq!(anyone.missing(&[], MADE), [Missing { group: None, count: 12 }]);
}

#[test]
fn a_group_fills_in_only_where_everything_that_names_groups_lets_it() {
    let after = |group: &str, hours: u32| BTreeMap::from([(group.to_owned(), HOUR * hours)]);
    let tool = Requirement { escalation: after("managers", 1), ..groups(&[("support", 1)]) };
    // What names no group is open to everyone, and has no say.
    let anyone = Requirement::one_of_anyone(HOUR);
    assert_eq!(anyone.clone().joined(&tool).escalation, tool.escalation);
    assert_eq!(tool.clone().joined(&anyone).escalation, tool.escalation);
    // The later moment counts.
    let slower = Requirement { escalation: after("managers", 2), ..groups(&[("finance", 1)]) };
    assert_eq!(tool.clone().joined(&slower).escalation, after("managers", 2));
    assert_eq!(slower.joined(&tool).escalation, after("managers", 2));
    // Nobody fills in where one of them says nothing of it.
    assert_eq!(tool.clone().joined(&groups(&[("finance", 1)])).escalation, BTreeMap::new());
    let others = Requirement { escalation: after("board", 1), ..groups(&[("finance", 1)]) };
    assert_eq!(tool.joined(&others).escalation, BTreeMap::new());
}

#[test]
fn who_asks_may_approve_only_where_everything_that_asks_allows_it() {
    let allowing = Requirement { allow_self_approval: true, ..Requirement::one_of_anyone(HOUR) };
    assert!(allowing.clone().joined(&allowing).allow_self_approval);
    assert!(!allowing.clone().joined(&Requirement::one_of_anyone(HOUR)).allow_self_approval);
    assert!(!Requirement::one_of_anyone(HOUR).joined(&allowing).allow_self_approval);
}

#[test]
fn a_requirement_is_higher_when_fewer_may_meet_it() {
    let named = groups(&[("finance", 1), ("legal", 1)]);
    assert!(named.is_higher_than(&escalating()));
    assert!(!escalating().is_higher_than(&named));
    let later = Requirement { escalation: [("managers".to_owned(), HOUR * 2)].into(), ..named.clone() };
    assert!(later.is_higher_than(&escalating()));
    assert!(!escalating().is_higher_than(&later));
    let allowing = Requirement { allow_self_approval: true, ..named.clone() };
    assert!(named.is_higher_than(&allowing));
    assert!(!allowing.is_higher_than(&named));
    // Everyone may meet it anyway.
    assert!(!Requirement::one_of_anyone(HOUR).is_higher_than(&escalating()));
}

#[test]
fn a_requirement_of_an_older_version_escalates_to_nobody_and_lets_nobody_approve_for_themselves() {
    let mut stored = serde_json::to_value(escalating()).unwrap();
    let members = stored.as_object_mut().unwrap();
    members.remove("escalation");
    members.remove("allow_self_approval");
    let read: Requirement = serde_json::from_value(stored).unwrap();
    assert_eq!(read, groups(&[("finance", 1), ("legal", 1)]));
}

const GROUPS: [&str; 3] = ["finance", "legal", "managers"];

fn any_requirement() -> impl Strategy<Value = Requirement> {
    let counts = prop::collection::btree_map(prop::sample::select(GROUPS.to_vec()), 1..3_u32, 0..3);
    let escalation = prop::collection::btree_map(prop::sample::select(GROUPS.to_vec()), 0..3_u64, 0..3);
    (counts, 0..4_u32, escalation).prop_map(|(counts, anyone, escalation)| Requirement {
        groups: counts.into_iter().map(|(group, count)| (group.to_owned(), count)).collect(),
        anyone,
        escalation: escalation
            .into_iter()
            .map(|(group, seconds)| (group.to_owned(), Duration::from_secs(seconds)))
            .collect(),
        ..Requirement::one_of_anyone(HOUR)
    })
}

fn any_votes() -> impl Strategy<Value = Vec<Vote>> {
    let of = prop::collection::btree_set(prop::sample::select(GROUPS.to_vec()), 0..3);
    prop::collection::vec((of, 0..3_u64), 0..6).prop_map(|votes| {
        let cast = votes.into_iter().enumerate().map(|(index, (of, seconds))| {
            let of: Vec<_> = of.into_iter().collect();
            Vote { at: at(seconds), ..vote(&format!("r{index}"), &of) }
        });
        cast.collect()
    })
}

proptest! {
    #[test]
    fn a_sum_is_met_only_by_what_meets_each_part(one in any_requirement(), other in any_requirement(), votes in any_votes()) {
        let sum = one.clone().joined(&other);
        if sum.is_met_by(&votes, MADE) {
            prop_assert!(one.is_met_by(&votes, MADE) && other.is_met_by(&votes, MADE));
        }
        prop_assert_eq!(sum, other.joined(&one));
    }

    #[test]
    fn one_vote_more_never_leaves_more_open(requirement in any_requirement(), votes in any_votes()) {
        let open = |votes: &[Vote]| requirement.missing(votes, MADE).iter().map(|missing| missing.count).sum::<u32>();
        for count in 0..votes.len() {
            let (before, after) = (open(&votes[..count]), open(&votes[..=count]));
            prop_assert!(after <= before && before - after <= 1);
        }
        let met = requirement.is_met_by(&votes, MADE);
        prop_assert!(!met || requirement.could_be_met_by(votes.iter().map(|vote| &vote.groups)));
    }
}
