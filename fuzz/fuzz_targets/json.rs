//! Strict JSON: what is read once is written in one form, which reads as itself and has the same hash.

#![no_main]

use countersign::domain::canon::json::{ArgsHash, canonical, parse};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    let value = match parse(bytes) {
        Ok(value) => value,
        Err(fault) => {
            assert!(fault.line >= 1, "a fault has a line: {fault}");
            assert!(fault.line <= bytes.iter().filter(|byte| **byte == b'\n').count() + 1, "beyond the end: {fault}");
            return;
        }
    };
    let text = canonical(&value).expect("what was parsed can be written");
    // `1.0` and `1` are two values of this library and one of JSON, so the texts are compared.
    let again = parse(&text).unwrap_or_else(|fault| panic!("the canonical form is refused: {fault}"));
    assert_eq!(canonical(&again).expect("it was written before"), text, "there are two canonical forms");
    if let (Value::Object(first), Value::Object(second)) = (&value, &again) {
        let hash = ArgsHash::of(first).expect("what was parsed has a hash");
        assert_eq!(ArgsHash::of(second).expect("it had one before"), hash, "one value has two hashes");
        assert_eq!(ArgsHash::parse(&hash.to_string()), Some(hash), "the hash's text reads as another hash");
    }
});
