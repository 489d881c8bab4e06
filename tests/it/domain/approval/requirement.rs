//! Requirements: how they add up, and when votes meet them.

use std::{collections::BTreeMap, time::Duration};

use countersign::domain::{
    approval::{
        requirement::{DecideIn, Requirement},
        vote::Vote,
    },
    identity::ReviewerName,
    time::Timestamp,
};

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
    assert!(joined.is_met_by(&[vote("ana", &["finance"])]));
    assert!(!joined.is_met_by(&[vote("bo", &["leads"])]));
}

#[test]
fn one_person_fills_one_place() {
    let requirement = groups(&[("finance", 1), ("leads", 1)]);
    assert!(!requirement.is_met_by(&[vote("ana", &["finance", "leads"])]));
    assert!(requirement.is_met_by(&[vote("ana", &["finance", "leads"]), vote("bo", &["finance"])]));
    assert!(requirement.is_met_by(&[vote("bo", &["finance"]), vote("ana", &["finance", "leads"])]));
}

#[test]
fn votes_of_strangers_to_the_groups_do_not_count_for_them() {
    let requirement = groups(&[("finance", 2)]);
    assert!(!requirement.is_met_by(&[vote("ana", &["finance"]), vote("bo", &["leads"])]));
    assert!(!requirement.is_met_by(&[]));
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
    assert!(!Requirement { ttl: HOUR / 2, ..one.clone() }.is_higher_than(&one));
}
