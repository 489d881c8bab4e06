//! When a second click counts.

use std::time::Duration;

use countersign::domain::{
    approval::confirmation::{Confirmation, ConfirmationFault},
    identity::ReviewerName,
    ids::ApprovalId,
    time::Timestamp,
};
use uuid::Uuid;

const MADE: Timestamp = Timestamp::from_micros(1_000_000_000);

fn after(millis: u64) -> Timestamp {
    MADE.plus(Duration::from_millis(millis))
}

fn handed_out() -> Confirmation {
    let approval = ApprovalId::from_uuid(Uuid::from_u128(1));
    Confirmation::new(approval, ReviewerName::parse("ana").unwrap(), "sha256:0".to_owned(), "cnf_1", MADE)
}

#[test]
fn a_confirmation_counts_from_two_seconds_to_five_minutes_after_the_first_click() {
    let spend = |millis| handed_out().spend("cnf_1", after(millis)).map(|spent| spent.spent);
    assert_eq!(spend(1_999), Err(ConfirmationFault::Early { valid_from: after(2_000) }));
    assert_eq!(spend(2_000), Ok(true));
    assert_eq!(spend(299_999), Ok(true));
    assert_eq!(spend(300_000), Err(ConfirmationFault::Expired { at: after(300_000) }));
}

#[test]
fn a_confirmation_counts_once() {
    let spent = handed_out().spend("cnf_1", after(2_000)).unwrap();
    assert_eq!(spent.spend("cnf_1", after(2_001)), Err(ConfirmationFault::Spent));
}

#[test]
fn another_text_is_unknown_whatever_became_of_the_one_that_was_given() {
    let spent = handed_out().spend("cnf_1", after(2_000)).unwrap();
    for confirmation in [handed_out(), spent] {
        assert_eq!(confirmation.spend("cnf_2", after(2_000)), Err(ConfirmationFault::Unknown));
    }
}

#[test]
fn the_text_itself_is_not_kept() {
    assert!(!format!("{:?}", handed_out()).contains("cnf_1"));
}
