//! Permits, signed here and checked both here and with nothing but Ed25519 and the published keys.

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use countersign::{
    app::ports::{Permit, PermitKey, PermitSigner as _},
    auth::permit::{PermitRefused, PermitSigner, SigningKey},
    domain::{
        canon::json::ArgsHash,
        identity::AgentId,
        ids::{ApprovalId, DecisionId, RunId, ToolUseId},
        policy::PolicyVersion,
        time::Timestamp,
    },
};
use serde_json::{Value, json};
use uuid::Uuid;

mod keys;
mod seal;

const ISSUER: &str = "https://approve.acme.example";

fn signer() -> PermitSigner {
    PermitSigner::new(ISSUER, SigningKey::generate(&[1; 32]).unwrap(), vec![])
}

fn permit() -> Permit {
    Permit {
        aud: "mail-server".to_owned(),
        sub: AgentId::parse("billing-bot").unwrap(),
        jti: Uuid::from_u128(7).to_string(),
        key: PermitKey::Approval(ApprovalId::from_uuid(Uuid::from_u128(8))),
        tool: "send_email".to_owned(),
        args_hash: ArgsHash::of(&serde_json::Map::new()).unwrap(),
        run_id: RunId::parse("run-1").unwrap(),
        tool_use_id: ToolUseId::parse("toolu_1").unwrap(),
        policy_version: PolicyVersion::from_stored("sha256:11".to_owned()),
        obligations: json!({"max_redirects": 0}).as_object().unwrap().clone(),
    }
}

fn now() -> Timestamp {
    Timestamp::from_micros(1_800_000_000_900_000)
}

fn decoded(part: &str) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

fn encoded(part: &Value) -> String {
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(part).unwrap())
}

/// The token with header and claims changed and signed again by `key`, by hand.
fn resigned(token: &str, key: &SigningKey, change: impl FnOnce(&mut Value, &mut Value)) -> String {
    let parts: Vec<&str> = token.split('.').collect();
    let (mut header, mut claims) = (decoded(parts[0]), decoded(parts[1]));
    change(&mut header, &mut claims);
    let message = format!("{}.{}", encoded(&header), encoded(&claims));
    let pair = aws_lc_rs::signature::Ed25519KeyPair::from_pkcs8(key.expose_pkcs8_der()).unwrap();
    let signature = URL_SAFE_NO_PAD.encode(pair.sign(message.as_bytes()).as_ref());
    format!("{message}.{signature}")
}

fn refusal(token: &str) -> PermitRefused {
    signer().verifier().verify(token, "mail-server", now()).unwrap_err()
}

#[test]
fn a_permit_is_checked_with_the_published_key_and_plain_ed25519() {
    let signer = signer();
    let token = signer.sign(&permit(), now()).unwrap();
    let parts: Vec<&str> = token.split('.').collect();
    assert_eq!(parts.len(), 3);

    let jwk = &signer.jwks()["keys"][0];
    let public = URL_SAFE_NO_PAD.decode(jwk["x"].as_str().unwrap()).unwrap();
    let signature = URL_SAFE_NO_PAD.decode(parts[2]).unwrap();
    let message = format!("{}.{}", parts[0], parts[1]);
    UnparsedPublicKey::new(&ED25519, public).verify(message.as_bytes(), &signature).unwrap();

    assert_eq!(decoded(parts[0]), json!({"typ": "permit+jwt", "alg": "EdDSA", "kid": jwk["kid"]}));
    assert_eq!(
        decoded(parts[1]),
        json!({
            "iss": ISSUER,
            "aud": "mail-server",
            "sub": "billing-bot",
            "jti": "00000000-0000-0000-0000-000000000007",
            "key": "apr_00000000-0000-0000-0000-000000000008",
            "tool": "send_email",
            "args_hash": "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
            "run_id": "run-1",
            "tool_use_id": "toolu_1",
            "policy_version": "sha256:11",
            "obligations": {"max_redirects": 0},
            "nbf": 1_800_000_000,
            "exp": 1_800_000_060,
        })
    );
}

#[test]
fn what_was_signed_is_read_back() {
    for key in [permit().key, PermitKey::Decision(DecisionId::from_uuid(Uuid::from_u128(9)))] {
        let permit = Permit { key, ..permit() };
        let token = signer().sign(&permit, now()).unwrap();
        let claims = signer().verifier().verify(&token, "mail-server", now()).unwrap();
        assert_eq!(claims.permit, permit);
        assert_eq!(claims.iss, ISSUER);
    }
}

#[test]
fn a_permit_holds_for_sixty_seconds() {
    let token = signer().sign(&permit(), now()).unwrap();
    let at =
        |second: i64| signer().verifier().verify(&token, "mail-server", Timestamp::from_micros(second * 1_000_000));
    assert!(matches!(at(1_799_999_999), Err(PermitRefused::NotNow)));
    assert!(at(1_800_000_000).is_ok());
    assert!(at(1_800_000_059).is_ok());
    assert!(matches!(at(1_800_000_060), Err(PermitRefused::NotNow)));
}

#[test]
fn a_permit_for_another_audience_or_of_another_issuer_is_refused() {
    let token = signer().sign(&permit(), now()).unwrap();
    let refused = signer().verifier().verify(&token, "shell-server", now());
    assert!(matches!(refused, Err(PermitRefused::Invalid(_))));
    let other = PermitSigner::new("https://evil.example", SigningKey::generate(&[1; 32]).unwrap(), vec![]);
    assert!(matches!(refusal(&other.sign(&permit(), now()).unwrap()), PermitRefused::Invalid(_)));
}

#[test]
fn a_key_that_is_not_published_signs_no_permit() {
    let other = PermitSigner::new(ISSUER, SigningKey::generate(&[2; 32]).unwrap(), vec![]);
    let token = other.sign(&permit(), now()).unwrap();
    assert!(matches!(refusal(&token), PermitRefused::UnknownKey));

    let kid = signer().jwks()["keys"][0]["kid"].clone();
    let posing = resigned(&token, &SigningKey::generate(&[2; 32]).unwrap(), |header, _| header["kid"] = kid);
    assert!(matches!(refusal(&posing), PermitRefused::Invalid(_)));
}

#[test]
fn a_changed_token_is_refused_wherever_it_was_changed() {
    let token = signer().sign(&permit(), now()).unwrap();
    for at in 0..token.len() {
        let mut bytes = token.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(bytes).unwrap();
        assert!(signer().verifier().verify(&changed, "mail-server", now()).is_err(), "{at}: {changed}");
    }
}

#[test]
fn an_unsigned_token_is_refused() {
    let token = signer().sign(&permit(), now()).unwrap();
    let parts: Vec<&str> = token.split('.').collect();
    for alg in ["none", "None", "NONE", ""] {
        let mut header = decoded(parts[0]);
        header["alg"] = alg.into();
        for signature in ["", parts[2]] {
            let forged = format!("{}.{}.{signature}", encoded(&header), parts[1]);
            assert!(matches!(refusal(&forged), PermitRefused::NotAPermit), "{alg}");
        }
    }
    assert!(matches!(refusal(&format!("{}.{}.", parts[0], parts[1])), PermitRefused::Invalid(_)));
}

/// The public key is no secret: whoever takes it for one could sign with it.
#[test]
fn a_token_signed_by_hmac_with_the_public_key_is_refused() {
    let signer = signer();
    let jwk = signer.jwks()["keys"][0].clone();
    let public = URL_SAFE_NO_PAD.decode(jwk["x"].as_str().unwrap()).unwrap();
    let token = signer.sign(&permit(), now()).unwrap();
    let parts: Vec<&str> = token.split('.').collect();
    let header = json!({"typ": "permit+jwt", "alg": "HS256", "kid": jwk["kid"]});
    let message = format!("{}.{}", encoded(&header), parts[1]);
    for secret in [public, serde_json::to_vec(&jwk).unwrap()] {
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &secret);
        let tag = URL_SAFE_NO_PAD.encode(aws_lc_rs::hmac::sign(&key, message.as_bytes()).as_ref());
        assert!(matches!(refusal(&format!("{message}.{tag}")), PermitRefused::NotAPermit));
    }
}

#[test]
fn a_token_of_another_type_is_no_permit_though_the_key_signed_it() {
    let key = SigningKey::generate(&[1; 32]).unwrap();
    let token = signer().sign(&permit(), now()).unwrap();
    for typ in [json!("JWT"), json!("at+jwt"), Value::Null] {
        let other = resigned(&token, &key, |header, _| header["typ"] = typ);
        assert!(matches!(refusal(&other), PermitRefused::NotAPermit));
    }
    let critical = resigned(&token, &key, |header, _| header["crit"] = json!(["exp"]));
    assert!(matches!(refusal(&critical), PermitRefused::NotAPermit));
}

#[test]
fn a_permit_without_one_of_its_claims_is_refused() {
    let key = SigningKey::generate(&[1; 32]).unwrap();
    let token = signer().sign(&permit(), now()).unwrap();
    assert!(signer().verifier().verify(&resigned(&token, &key, |_, _| {}), "mail-server", now()).is_ok());
    for claim in [
        "iss",
        "aud",
        "sub",
        "jti",
        "key",
        "tool",
        "args_hash",
        "run_id",
        "tool_use_id",
        "policy_version",
        "obligations",
        "nbf",
        "exp",
    ] {
        let without = resigned(&token, &key, |_, claims| {
            claims.as_object_mut().unwrap().remove(claim);
        });
        assert!(matches!(refusal(&without), PermitRefused::Invalid(_)), "{claim}");
    }
}

#[test]
fn the_key_set_has_every_key_once_the_current_one_first_and_no_private_part() {
    let old = SigningKey::generate(&[2; 32]).unwrap();
    let current = SigningKey::generate(&[1; 32]).unwrap();
    let previous = vec![old.public().clone(), current.public().clone(), old.public().clone()];
    let kids = json!([current.public().kid(), old.public().kid()]);
    let jwks = PermitSigner::new(ISSUER, current, previous).jwks();
    let keys = jwks["keys"].as_array().unwrap();
    assert_eq!(Value::Array(keys.iter().map(|key| key["kid"].clone()).collect()), kids);
    for key in keys {
        let members: Vec<&str> = key.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(members, ["alg", "crv", "kid", "kty", "use", "x"]);
        assert_eq!((&key["kty"], &key["crv"]), (&json!("OKP"), &json!("Ed25519")));
        assert_eq!((&key["use"], &key["alg"]), (&json!("sig"), &json!("EdDSA")));
    }
}

#[test]
fn permits_of_the_previous_key_pass_after_rotation() {
    let old = SigningKey::generate(&[1; 32]).unwrap().public().clone();
    let token = signer().sign(&permit(), now()).unwrap();
    let rotated = PermitSigner::new(ISSUER, SigningKey::generate(&[2; 32]).unwrap(), vec![old]);
    assert!(rotated.verifier().verify(&token, "mail-server", now()).is_ok());
}
