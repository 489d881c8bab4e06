//! Sealing of the private key in the store.

use countersign::auth::permit::{SealError, SealKey, SigningKey};

fn key() -> SealKey {
    SealKey::new(&[1; 32]).unwrap()
}

/// Computed with Python's `cryptography`: AES-256-GCM, key 32 bytes of 1, nonce 12 bytes of 2, additional data as
/// documented.
#[test]
fn sealed_bytes_are_what_an_independent_implementation_computes() {
    let sealed = key().seal(b"plain text", [2; 12]).unwrap();
    assert_eq!(hex::encode(sealed), "0102020202020202020202020277baa8202477b598abb8875e3bc1586f783f4056e9507fe80027");
}

#[test]
fn a_signing_key_comes_back_as_it_was() {
    let signing = SigningKey::generate(&[3; 32]).unwrap();
    let sealed = key().seal(signing.expose_pkcs8_der(), [4; 12]).unwrap();
    let unsealed = key().unseal(&sealed).unwrap();
    assert_eq!(SigningKey::from_pkcs8_der(&unsealed).unwrap().public(), signing.public());
}

#[test]
fn a_change_of_any_byte_is_noticed() {
    let sealed = key().seal(b"plain text", [2; 12]).unwrap();
    for at in 0..sealed.len() {
        for bit in 0..8 {
            let mut changed = sealed.clone();
            changed[at] ^= 1 << bit;
            assert_eq!(key().unseal(&changed), Err(SealError::Broken), "byte {at}, bit {bit}");
        }
    }
}

#[test]
fn cut_lengthened_and_empty_bytes_are_refused() {
    let sealed = key().seal(b"plain text", [2; 12]).unwrap();
    for length in 0..sealed.len() {
        assert_eq!(key().unseal(&sealed[..length]), Err(SealError::Broken), "{length}");
    }
    assert_eq!(key().unseal(&[&sealed[..], &[0]].concat()), Err(SealError::Broken));
}

#[test]
fn another_key_opens_nothing() {
    let sealed = key().seal(b"plain text", [2; 12]).unwrap();
    assert_eq!(SealKey::new(&[9; 32]).unwrap().unseal(&sealed), Err(SealError::Broken));
}

#[test]
fn a_key_in_the_clear_does_not_pass_for_a_sealed_one_nor_the_other_way_round() {
    let signing = SigningKey::generate(&[3; 32]).unwrap();
    assert_eq!(key().unseal(signing.expose_pkcs8_der()), Err(SealError::Broken));
    let sealed = key().seal(signing.expose_pkcs8_der(), [4; 12]).unwrap();
    assert!(SigningKey::from_pkcs8_der(&sealed).is_err());
}
