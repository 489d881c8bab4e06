//! The keys in memory.

use std::time::Duration;

use countersign::{auth::key_ring::KeyRing, domain::identity::Role};

use crate::support::{
    clock::START,
    keys::{expiring, record, revoked, text},
};

#[test]
fn a_key_opens_as_its_holder() {
    let ring = KeyRing::new([record("bot", Role::Agent), record("ana", Role::Reviewer)]);
    let principal = ring.authenticate(text("ana").expose(), START).unwrap();
    assert_eq!(principal.name().as_str(), "ana");
    assert!(principal.roles().contains(Role::Reviewer));
}

#[test]
fn other_text_opens_nothing() {
    let ring = KeyRing::new([record("bot", Role::Agent)]);
    let key = text("bot").expose().to_owned();
    for wrong in ["", "cs_", &key[..key.len() - 1], &format!("{key} "), &key.to_uppercase(), &"x".repeat(1_000_000)] {
        assert_eq!(ring.authenticate(wrong, START), None);
    }
}

#[test]
fn a_key_opens_until_the_moment_it_expires() {
    let end = START.plus(Duration::from_secs(60));
    let ring = KeyRing::new([expiring("bot", Role::Agent, end)]);
    let key = text("bot");
    assert!(ring.authenticate(key.expose(), end.minus(Duration::from_micros(1))).is_some());
    assert!(ring.authenticate(key.expose(), end).is_none());
}

#[test]
fn a_revoked_key_opens_nothing_whatever_its_time_says() {
    let ring = KeyRing::new([revoked("bot", Role::Agent, START.plus(Duration::from_secs(60)))]);
    assert!(ring.authenticate(text("bot").expose(), START).is_none());
}

#[test]
fn replacing_takes_keys_away_that_are_not_among_the_new_ones() {
    let ring = KeyRing::new([record("bot", Role::Agent)]);
    ring.replace([record("ana", Role::Reviewer)]);
    assert!(ring.authenticate(text("bot").expose(), START).is_none());
    assert!(ring.authenticate(text("ana").expose(), START).is_some());
}

#[test]
fn debug_text_shows_no_key() {
    let ring = KeyRing::new([record("bot", Role::Agent)]);
    assert_eq!(format!("{ring:?}"), "KeyRing { keys: 1, .. }");
}
