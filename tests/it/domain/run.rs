//! Families of runs, and where a run stands.

use countersign::domain::run::{
    Ending, FamilyFault, KnownRun, MOST_ANCESTORS, NewestTurn, Run, RunKey, RunLease, RunStatus,
};

use crate::support::sample::{START, agent, at, run};

fn named(name: &str) -> Run {
    Run::new(RunKey { agent: agent("bot"), run: run(name) })
}

#[test]
fn a_run_below_another_has_what_both_families_touched() {
    let (mut parent, mut child) = (named("parent"), named("child"));
    parent.labels.insert("private-data".to_owned());
    child.labels.insert("untrusted-content".to_owned());
    child.put_under(&parent, false).unwrap();
    assert_eq!(child.ancestors, [parent.key.clone()]);
    assert_eq!(child.head(), &parent.key);
    assert_eq!(child.labels.len(), 2);
    assert_eq!(child.facts().agents_above, [agent("bot")]);
}

#[test]
fn a_run_below_another_works_for_whom_that_works_unless_it_says_otherwise() {
    let (mut parent, mut child, mut another) = (named("parent"), named("child"), named("another"));
    parent.on_behalf_of = Some("ana".to_owned());
    another.on_behalf_of = Some("bo".to_owned());
    child.put_under(&parent, false).unwrap();
    another.put_under(&parent, false).unwrap();
    assert_eq!((child.on_behalf_of.as_deref(), another.on_behalf_of.as_deref()), (Some("ana"), Some("bo")));
}

#[test]
fn a_run_has_one_place_in_one_family() {
    let (parent, other) = (named("parent"), named("other"));
    let mut child = named("child");
    child.put_under(&parent, false).unwrap();
    assert_eq!(child.clone().put_under(&other, false), Err(FamilyFault::HasParent));
    assert_eq!(named("head").put_under(&parent, true), Err(FamilyFault::HasRunsBelow));
    assert_eq!(parent.clone().put_under(&parent, false), Err(FamilyFault::Circle));
    assert_eq!(parent.clone().put_under(&child, false), Err(FamilyFault::Circle));
    let mut ended = named("ended");
    ended.ended = Some(Ending { at: START, by: "ana".to_owned(), stopped: true });
    assert_eq!(named("late").put_under(&ended, false), Err(FamilyFault::ParentEnded));
}

#[test]
fn a_family_is_at_most_eight_deep() {
    let mut deepest = named("r0");
    for depth in 1..=MOST_ANCESTORS {
        let mut next = named(&format!("r{depth}"));
        next.put_under(&deepest, false).unwrap();
        deepest = next;
    }
    assert_eq!(deepest.ancestors.len(), 8);
    assert_eq!(named("r9").put_under(&deepest, false), Err(FamilyFault::TooDeep));
}

#[test]
fn a_run_stands_where_its_newest_turn_does() {
    let known = |held, waiting, lease| KnownRun {
        run: named("r"),
        newest: Some(NewestTurn { turn: 3, held, mark: 2 * held, waiting }),
        lease,
        parked: None,
    };
    let lease = |turn, mark, until| Some(RunLease { turn, mark, until });
    for (known, status) in [
        (known(0, 0, None), RunStatus::Running),
        (known(2, 1, None), RunStatus::AwaitingApproval),
        (known(2, 0, None), RunStatus::Ready),
        (known(2, 0, lease(3, 4, Some(at(1)))), RunStatus::Running),
        (known(2, 0, lease(3, 4, Some(START))), RunStatus::Ready),
        (known(2, 0, lease(3, 4, None)), RunStatus::Running),
        (known(2, 0, lease(2, 4, None)), RunStatus::Ready),
        (known(2, 0, lease(3, 2, Some(at(1)))), RunStatus::Ready),
        (KnownRun { newest: None, ..known(0, 0, None) }, RunStatus::Running),
    ] {
        assert_eq!(known.status(START), status, "{known:?}");
        let mut ended = known;
        ended.run.ended = Some(Ending { at: START, by: "ana".to_owned(), stopped: false });
        assert_eq!(ended.status(START), RunStatus::Ended);
    }
}

#[test]
fn every_status_has_a_word() {
    for status in RunStatus::ALL {
        assert_eq!(RunStatus::parse(status.as_str()), Some(status));
    }
    assert_eq!(RunStatus::parse("Ready"), None);
}
