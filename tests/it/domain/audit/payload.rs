//! Payloads beside the log.

use countersign::domain::audit::payload::{Payload, PayloadDigest, salted_hash};

#[test]
fn a_payload_is_named_by_its_salted_hash() {
    let payload = Payload::new("{\"a\":1}".to_owned(), [3; 16]);
    assert_eq!(payload.digest(), salted_hash(&[3; 16], b"{\"a\":1}"));
    assert_ne!(payload.digest(), Payload::new("{\"a\":1}".to_owned(), [4; 16]).digest());
}

#[test]
fn a_digest_is_read_back_from_its_text() {
    let digest = salted_hash(&[0; 16], b"x");
    assert_eq!(PayloadDigest::parse(&digest.to_string()), Some(digest));
    assert_eq!(PayloadDigest::parse("12"), None);
}
