//! The hash chain over entries.

use countersign::domain::{
    audit::{
        chain::{ChainFault, Head, SealedEntry, check, seal},
        entry::{Actor, Entry, EventKind},
    },
    time::Timestamp,
};
use sha2::{Digest, Sha256};

fn entry(reason: &str) -> Entry {
    let mut entry = Entry::new(EventKind::Decision, Timestamp::from_micros(1_800_000_000_000_000), Actor::service());
    entry.reason = Some(reason.to_owned());
    entry
}

fn log(reasons: &[&str]) -> Vec<SealedEntry> {
    let mut head = Head::EMPTY;
    let mut log = Vec::new();
    for reason in reasons {
        let (sealed, next) = seal(head, entry(reason)).unwrap();
        log.push(sealed);
        head = next;
    }
    log
}

fn first_fault(log: &[SealedEntry]) -> Option<(i64, ChainFault)> {
    let mut head = Head::EMPTY;
    for sealed in log {
        match check(head, sealed) {
            Ok(next) => head = next,
            Err(fault) => return Some((sealed.seq, fault)),
        }
    }
    None
}

#[test]
fn an_untouched_log_is_good() {
    assert_eq!(first_fault(&log(&["a", "b", "c"])), None);
}

#[test]
fn the_leaf_is_computed_over_the_canonical_entry_with_its_place() {
    let sealed = &log(&["a"])[0];
    let canonical = r#"{"actor":{"name":"countersign","via":"service"},"approval":null,"at":1800000000000000,"call":null,"code":null,"decision":null,"detail":{},"event":"decision","payload":null,"policy_version":null,"reason":"a","reason_code":null,"request_id":null,"rule":null,"seq":1,"tool":null,"verdict":null}"#;
    let mut leaf = Sha256::new();
    leaf.update([0]);
    leaf.update(canonical);
    assert_eq!(sealed.leaf, <[u8; 32]>::from(leaf.finalize()));
    let mut chain = Sha256::new();
    chain.update([0; 32]);
    chain.update(sealed.leaf);
    assert_eq!(sealed.chain, <[u8; 32]>::from(chain.finalize()));
}

#[test]
fn a_changed_column_shows_at_its_entry() {
    let mut changed = log(&["a", "b", "c"]);
    changed[1].entry.reason = Some("x".to_owned());
    assert_eq!(first_fault(&changed), Some((2, ChainFault::Leaf)));
}

#[test]
fn an_entry_recomputed_by_a_forger_breaks_the_chain_after_it() {
    let mut forged = log(&["a", "b", "c"]);
    let before = Head { seq: 1, chain: forged[0].chain };
    forged[1] = seal(before, entry("x")).unwrap().0;
    assert_eq!(first_fault(&forged), Some((3, ChainFault::Chain)));
}

#[test]
fn a_missing_or_moved_entry_shows() {
    let mut missing = log(&["a", "b", "c"]);
    missing.remove(1);
    assert_eq!(first_fault(&missing), Some((3, ChainFault::Gap { expected: 2 })));
    let mut moved = log(&["a", "b", "c"]);
    moved.swap(0, 1);
    assert_eq!(first_fault(&moved), Some((2, ChainFault::Gap { expected: 1 })));
    moved[0].seq = 1;
    assert_eq!(first_fault(&moved), Some((1, ChainFault::Leaf)));
}

#[test]
fn every_event_is_written_and_read_by_the_same_word() {
    let word = |event: EventKind| serde_json::to_value(event).unwrap().as_str().unwrap().to_owned();
    for event in [EventKind::Decision, EventKind::ApprovalRequested, EventKind::OutcomeUnknown, EventKind::KeyRevoked] {
        assert_eq!(word(event), event.as_str());
        assert_eq!(EventKind::parse(event.as_str()), Some(event));
    }
    assert_eq!(EventKind::parse("no such event"), None);
}
