//! Tests of globs.

use std::time::{Duration, Instant};

use countersign::domain::canon::glob::Glob;

fn matches(pattern: &str, text: &str) -> bool {
    Glob::compile(pattern).expect("a right pattern").matches(text)
}

#[test]
fn a_star_stops_at_a_slash() {
    assert!(matches("src/*", "src/main.rs"));
    assert!(!matches("src/*", "src/private/key.js"));
    assert!(matches("*.pem", "key.pem"));
    assert!(!matches("*.pem", "a/key.pem"));
}

#[test]
fn a_pattern_matches_the_whole_text() {
    assert!(!matches("a", "ab"));
    assert!(!matches("a", "ba"));
    assert!(!matches("a", "a/b"));
}

#[test]
fn two_stars_stand_for_any_number_of_segments() {
    assert!(matches("**/key", "key"));
    assert!(matches("**/key", "a/b/key"));
    assert!(!matches("**/key", "a/b/monkey"));
    assert!(matches("a/**/b", "a/b"));
    assert!(matches("a/**/b", "a/x/y/b"));
    assert!(matches("**", "a/b/c"));
}

#[test]
fn two_stars_at_the_end_ask_for_something_below() {
    assert!(matches("a/**", "a/b"));
    assert!(matches("a/**", "a/b/c"));
    assert!(!matches("a/**", "a"));
    assert!(!matches("a/**", "ab/c"));
}

#[test]
fn two_stars_go_back_as_far_as_needed() {
    assert!(matches("**/a/*/c", "a/a/b/c"));
    assert!(matches("**/a/**/b/*", "a/b/a/x/b/c"));
    assert!(!matches("**/a/**/b", "b/a"));
}

#[test]
fn a_wildcard_never_matches_an_empty_segment() {
    assert!(!matches("a/*", "a/"));
    assert!(!matches("*", ""));
    assert!(matches("a/", "a/"));
}

#[test]
fn a_question_mark_takes_one_character() {
    assert!(matches("?.txt", "é.txt"));
    assert!(!matches("?.txt", "ab.txt"));
    assert!(!matches("a?b", "a/b"));
}

#[test]
fn a_class_takes_one_of_its_characters() {
    assert!(matches("[a-c]x", "bx"));
    assert!(!matches("[a-c]x", "dx"));
    assert!(matches("[!a-c]x", "dx"));
    assert!(!matches("a[!x]b", "a/b"));
    assert!(matches("[*]", "*"));
    assert!(matches("[a-]", "-"));
}

#[test]
fn braces_give_a_choice() {
    assert!(matches("*.{pem,key}", "a.key"));
    assert!(!matches("*.{pem,key}", "a.crt"));
    assert!(matches("{a,b/c}/{d,e}", "b/c/e"));
}

#[test]
fn what_can_match_nothing_does_not_compile() {
    for pattern in [
        "",
        "a//b",
        "a/../b",
        "./a",
        "[]",
        "[z-a]",
        "a[b",
        "a]",
        "{a}",
        "{a,b",
        "a}",
        "{a,{b,c}}",
        "a**",
        "a\\b",
        "{,a}",
    ] {
        assert!(Glob::compile(pattern).is_err(), "{pattern}");
    }
}

#[test]
fn what_is_too_big_does_not_compile() {
    assert!(Glob::compile(&"a".repeat(2000)).is_err());
    assert!(Glob::compile(&"{a,b}".repeat(7)).is_err());
}

#[test]
fn a_hostile_pattern_takes_no_more_than_the_product_of_the_lengths() {
    let glob = Glob::compile(&format!("{}b", "*a".repeat(400))).expect("a right pattern");
    let text = "a".repeat(20_000);
    let begun = Instant::now();
    assert!(!glob.matches(&text));
    assert!(begun.elapsed() < Duration::from_secs(5));
}
