//! Keys that sign permits.

use base64::{Engine as _, engine::general_purpose::STANDARD, engine::general_purpose::URL_SAFE_NO_PAD};
use countersign::auth::permit::{InvalidKey, PublicKey, SigningKey};

/// The key pair of RFC 8037 appendix A, and its thumbprint there.
const RFC_8037_D: &str = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A";
const RFC_8037_X: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
const RFC_8037_THUMBPRINT: &str = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k";

/// What precedes the 32 bytes of the private key in PKCS#8 version 1, and of the public key in its own structure
/// (RFC 8410 sections 4 and 7).
const PKCS8: &str = "302e020100300506032b657004220420";
const SPKI: &str = "302a300506032b6570032100";

fn bytes(base64url: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(base64url).unwrap()
}

fn pem(label: &str, head: &str, key: &[u8]) -> String {
    let der = [hex::decode(head).unwrap(), key.to_vec()].concat();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

fn rfc_private_pem() -> String {
    pem("PRIVATE KEY", PKCS8, &bytes(RFC_8037_D))
}

#[test]
fn the_key_of_rfc_8037_has_the_thumbprint_it_has_there() {
    let key = SigningKey::generate(&bytes(RFC_8037_D).try_into().unwrap()).unwrap();
    assert_eq!(key.public().kid(), RFC_8037_THUMBPRINT);
    assert_eq!(key.public().jwk()["x"], RFC_8037_X);
}

#[test]
fn a_key_is_the_same_from_seed_pem_and_der() {
    let generated = SigningKey::generate(&bytes(RFC_8037_D).try_into().unwrap()).unwrap();
    let from_pem = SigningKey::from_pkcs8_pem(&rfc_private_pem()).unwrap();
    let from_der = SigningKey::from_pkcs8_der(generated.expose_pkcs8_der()).unwrap();
    assert_eq!(from_pem.expose_pkcs8_der(), generated.expose_pkcs8_der());
    assert_eq!(from_pem.public(), generated.public());
    assert_eq!(from_der.public(), generated.public());
}

#[test]
fn a_previous_key_may_be_given_by_its_public_or_its_private_half() {
    let public = PublicKey::from_pem(&pem("PUBLIC KEY", SPKI, &bytes(RFC_8037_X))).unwrap();
    assert_eq!(public.kid(), RFC_8037_THUMBPRINT);
    assert_eq!(PublicKey::from_pem(&rfc_private_pem()).unwrap(), public);
}

#[test]
fn what_is_no_private_ed25519_key_is_refused() {
    let public = pem("PUBLIC KEY", SPKI, &bytes(RFC_8037_X));
    let short = pem("PRIVATE KEY", PKCS8, &[1; 31]);
    let other_label = rfc_private_pem().replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    for text in ["", "secret", &public, &short, &other_label, rfc_private_pem().trim_end_matches(['-', '\n'])] {
        assert_eq!(SigningKey::from_pkcs8_pem(text).unwrap_err(), InvalidKey::Private, "{text}");
    }
    for der in [&[][..], &[0x30], &[0; 48]] {
        assert_eq!(SigningKey::from_pkcs8_der(der).unwrap_err(), InvalidKey::Private);
    }
    for text in ["", "secret", &pem("PUBLIC KEY", SPKI, &[1; 31])] {
        assert_eq!(PublicKey::from_pem(text).unwrap_err(), InvalidKey::Public, "{text}");
    }
}

#[test]
fn debug_text_shows_only_the_id_of_a_signing_key() {
    let key = SigningKey::from_pkcs8_pem(&rfc_private_pem()).unwrap();
    assert_eq!(format!("{key:?}"), format!("SigningKey {{ kid: {RFC_8037_THUMBPRINT:?}, .. }}"));
}
