//! The directory of reviewers.

use std::collections::BTreeSet;

use countersign::domain::{
    identity::{Absence, DirectoryFault, GroupName, ReviewerDirectory, ReviewerEntry, ReviewerName},
    time::Timestamp,
};

fn entry(name: &str, groups: &[&str]) -> ReviewerEntry {
    ReviewerEntry {
        name: ReviewerName::parse(name).unwrap(),
        groups: groups.iter().map(|group| GroupName::parse(group).unwrap()).collect::<BTreeSet<_>>(),
        email: None,
        slack_user: None,
        oidc_subject: None,
        absence: None,
    }
}

fn with_email(name: &str, email: &str) -> ReviewerEntry {
    ReviewerEntry { email: Some(email.to_owned()), ..entry(name, &[]) }
}

fn shared(entries: impl IntoIterator<Item = ReviewerEntry>) -> Vec<(String, String, &'static str)> {
    ReviewerDirectory::new(entries)
        .unwrap_err()
        .into_iter()
        .map(|fault| match fault {
            DirectoryFault::SharedIdentity { first, second, field, .. } => {
                (first.to_string(), second.to_string(), field)
            }
            DirectoryFault::InvalidIdentity { .. } | DirectoryFault::InvalidAbsence { .. } => panic!("{fault}"),
        })
        .collect()
}

#[test]
fn members_of_a_group_are_those_who_name_it() {
    let directory = ReviewerDirectory::new([
        entry("cleo", &["finance"]),
        entry("ana", &["finance", "support"]),
        entry("ben", &["support"]),
    ])
    .unwrap();
    let names = |group| directory.members_of(group).map(|r| r.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names("finance"), ["ana", "cleo"]);
    assert_eq!(names("support"), ["ana", "ben"]);
    assert!(names("legal").is_empty());
    assert!(names("").is_empty());
}

fn away(name: &str, groups: &[&str], deputy: &str) -> ReviewerEntry {
    let deputy = ReviewerName::parse(deputy).unwrap();
    let absence = Absence { from: Timestamp::from_micros(10), until: Timestamp::from_micros(20), deputy };
    ReviewerEntry { absence: Some(absence), ..entry(name, groups) }
}

#[test]
fn a_deputy_has_the_groups_of_an_absent_person_as_long_as_the_absence_lasts() {
    let directory = ReviewerDirectory::new([away("ana", &["finance"], "ben"), entry("ben", &["support"])]).unwrap();
    let ben = ReviewerName::parse("ben").unwrap();
    let groups = |at| directory.groups_at(&ben, Timestamp::from_micros(at)).into_iter().collect::<Vec<_>>();
    assert_eq!(groups(9), ["support"]);
    assert_eq!(groups(10), ["finance", "support"]);
    assert_eq!(groups(19), ["finance", "support"]);
    assert_eq!(groups(20), ["support"]);
    let ana = directory.get(&ReviewerName::parse("ana").unwrap()).unwrap();
    assert_eq!(directory.reached_at(ana, Timestamp::from_micros(10)).name, ben);
    assert_eq!(directory.reached_at(ana, Timestamp::from_micros(20)).name, ana.name);
}

#[test]
fn deputies_make_no_chain() {
    let entries = [away("ana", &["finance"], "ben"), away("ben", &["support"], "cleo"), entry("cleo", &[])];
    let directory = ReviewerDirectory::new(entries).unwrap();
    let cleo = ReviewerName::parse("cleo").unwrap();
    let groups = directory.groups_at(&cleo, Timestamp::from_micros(15));
    assert_eq!(groups.into_iter().collect::<Vec<_>>(), ["support"]);
}

#[test]
fn an_absence_needs_another_reviewer_and_a_length() {
    let backwards = {
        let entry = away("cleo", &[], "ana");
        let absence = entry.absence.clone().map(|absence| Absence { until: absence.from, ..absence });
        ReviewerEntry { absence, ..entry }
    };
    let faults = ReviewerDirectory::new([away("ana", &[], "ana"), away("ben", &[], "nobody"), backwards]).unwrap_err();
    let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "the absence of reviewer ana names the person as the own deputy",
            "the absence of reviewer ben names a deputy who is no reviewer",
            "the absence of reviewer cleo ends before it begins",
        ]
    );
}

#[test]
fn no_entries_make_an_empty_directory() {
    assert!(ReviewerDirectory::new([]).unwrap().is_empty());
}

#[test]
fn a_person_is_found_by_every_identity_in_any_case() {
    let ana = ReviewerEntry {
        email: Some("Ana@Acme.example".to_owned()),
        slack_user: Some("U0123ABCD".to_owned()),
        oidc_subject: Some("auth0|ana".to_owned()),
        absence: None,
        ..entry("ana", &[])
    };
    let directory = ReviewerDirectory::new([ana.clone()]).unwrap();
    for identity in ["ana", "ANA", "ana@acme.example", "u0123abcd", "AUTH0|ANA", "ａｎａ"] {
        assert_eq!(directory.find(identity), Some(&ana), "{identity}");
    }
    for identity in ["", "an", "ana ", "ana@acme.example.evil.example"] {
        assert_eq!(directory.find(identity), None, "{identity:?}");
    }
}

#[test]
fn an_entry_is_got_by_its_exact_name_only() {
    let directory = ReviewerDirectory::new([entry("ana", &[])]).unwrap();
    assert!(directory.get(&ReviewerName::parse("ana").unwrap()).is_some());
    assert!(directory.get(&ReviewerName::parse("Ana").unwrap()).is_none());
}

#[test]
fn an_identity_in_two_entries_is_a_fault_whatever_its_case() {
    let found = shared([with_email("ana", "ana@acme.example"), with_email("ben", "ANA@ACME.example")]);
    assert_eq!(found, [("ana".to_owned(), "ben".to_owned(), "email")]);
    let found = shared([with_email("ana", "strasse@a.example"), with_email("ben", "straße@a.example")]);
    assert_eq!(found, [("ana".to_owned(), "ben".to_owned(), "email")]);
    assert_eq!(shared([entry("ana", &[]), entry("Ana", &[])]), [("ana".to_owned(), "Ana".to_owned(), "name")]);
    assert_eq!(shared([entry("ana", &[]), entry("ana", &[])]), [("ana".to_owned(), "ana".to_owned(), "name")]);
}

#[test]
fn one_persons_name_may_not_be_another_persons_address() {
    let found = shared([entry("ana@acme.example", &[]), with_email("ben", "ana@acme.example")]);
    assert_eq!(found, [("ana@acme.example".to_owned(), "ben".to_owned(), "email")]);
}

#[test]
fn one_person_may_have_the_same_identity_twice() {
    assert!(ReviewerDirectory::new([with_email("ana@acme.example", "ana@acme.example")]).is_ok());
}

#[test]
fn every_fault_is_told_at_once_with_its_place() {
    let faults = ReviewerDirectory::new([
        with_email("ana", ""),
        with_email("ben", "ben"),
        with_email("cleo", "c@x@y"),
        ReviewerEntry { slack_user: Some("U1 ".to_owned()), ..entry("dan", &[]) },
        with_email("DAN", "dan@acme.example"),
    ])
    .unwrap_err();
    let places: Vec<_> = faults.iter().map(|fault| (fault.place().0.to_string(), fault.place().1)).collect();
    let expected = [("ana", "email"), ("ben", "email"), ("cleo", "email"), ("dan", "slack_user"), ("DAN", "name")];
    assert_eq!(places, expected.map(|(name, field)| (name.to_owned(), field)));
}
