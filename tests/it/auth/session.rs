//! The tokens of forms.

use std::time::Duration;

use countersign::{
    auth::session::{FormFault, FormKey, LATEST, SOONEST},
    domain::session::Secret,
};
use proptest::prelude::*;

use crate::support::clock::START;

fn key(seed: u8, about: &str) -> FormKey {
    FormKey::new(&Secret::new([seed; 32]), about)
}

#[test]
fn a_token_counts_for_its_secret_and_what_it_is_about_alone() {
    let token = key(1, "a").field(START);
    let later = START.plus(SOONEST);
    assert_eq!(key(1, "a").check(&token, later), Ok(()));
    assert_eq!(key(2, "a").check(&token, later), Err(FormFault::Foreign));
    assert_eq!(key(1, "b").check(&token, later), Err(FormFault::Foreign));
}

#[test]
fn a_token_counts_from_a_second_to_half_a_day() {
    let key = key(1, "a");
    let token = key.field(START);
    let micro = Duration::from_micros(1);
    assert_eq!(key.check(&token, START.minus(micro)), Err(FormFault::TooSoon));
    assert_eq!(key.check(&token, START.plus(SOONEST).minus(micro)), Err(FormFault::TooSoon));
    assert_eq!(key.check(&token, START.plus(SOONEST)), Ok(()));
    assert_eq!(key.check(&token, START.plus(LATEST).minus(micro)), Ok(()));
    assert_eq!(key.check(&token, START.plus(LATEST)), Err(FormFault::TooOld));
}

#[test]
fn nothing_shows_the_key() {
    assert_eq!(format!("{:?}", key(1, "a")), "FormKey { about: \"a\", .. }");
    assert_eq!(format!("{:?}", Secret::new([1; 32])), "Secret(..)");
}

proptest! {
    #[test]
    fn no_other_text_is_a_token(text in ".*", position in 0_usize..200, other in any::<char>()) {
        let key = key(1, "a");
        let later = START.plus(SOONEST);
        prop_assert_eq!(key.check(&text, later), Err(FormFault::Foreign));
        let token = key.field(START);
        let mut changed: Vec<char> = token.chars().collect();
        let position = position % changed.len();
        changed[position] = other;
        let changed: String = changed.into_iter().collect();
        if changed != token {
            prop_assert_eq!(key.check(&changed, later), Err(FormFault::Foreign));
        }
    }

    #[test]
    fn a_secret_is_read_in_one_spelling(bytes in any::<[u8; 32]>(), text in "[A-Za-z0-9_-]{43}") {
        let secret = Secret::new(bytes);
        prop_assert_eq!(Secret::parse(&secret.to_text()), Some(secret));
        if let Some(read) = Secret::parse(&text) {
            prop_assert_eq!(read.to_text(), text);
        }
    }
}
