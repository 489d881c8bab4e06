//! An issuer of tokens in the test's own memory, that says whatever a test wants it to say.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use countersign::{
    app::ports::sign_in::{IssuerAnswer, IssuerClient, IssuerRequest, IssuerSilent},
    auth::permit::SigningKey,
};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::Url;

/// Its name.
pub(crate) const ISSUER: &str = "https://login.test";

/// As whom the service is known there.
pub(crate) const CLIENT: &str = "countersign";

/// The secret of the service there.
pub(crate) const SECRET: &str = "se:cret+ä";

/// What a sign-in asked for, under its code.
#[derive(Clone, Debug)]
struct Asked {
    nonce: String,
    challenge: String,
    subject: String,
}

/// The issuer. Clones are the same one.
#[derive(Clone)]
pub(crate) struct MadeUpIssuer(Arc<Inner>);

struct Inner {
    codes: Mutex<BTreeMap<String, Asked>>,
    discovery: Mutex<Value>,
    keys: Mutex<Vec<String>>,
    claims: Mutex<Box<dyn Fn(Value) -> Value + Send>>,
    seconds: Mutex<i64>,
    requests: Mutex<Vec<String>>,
    down: Mutex<bool>,
}

impl MadeUpIssuer {
    /// An issuer whose clock says `seconds`.
    pub(crate) fn new(seconds: i64) -> Self {
        let discovery = json!({
            "issuer": ISSUER,
            "authorization_endpoint": format!("{ISSUER}/auth?tenant=1"),
            "token_endpoint": format!("{ISSUER}/token"),
            "jwks_uri": format!("{ISSUER}/jwks"),
            "authorization_response_iss_parameter_supported": true,
        });
        Self(Arc::new(Inner {
            codes: Mutex::default(),
            discovery: Mutex::new(discovery),
            keys: Mutex::new(vec!["one".to_owned()]),
            claims: Mutex::new(Box::new(|claims| claims)),
            seconds: Mutex::new(seconds),
            requests: Mutex::default(),
            down: Mutex::new(false),
        }))
    }

    /// Changes what it says of itself.
    pub(crate) fn discovery(&self, name: &str, value: Value) {
        self.0.discovery.lock().unwrap()[name] = value;
    }

    /// Publishes these keys.
    pub(crate) fn publish(&self, keys: &[&str]) {
        *self.0.keys.lock().unwrap() = keys.iter().map(|key| (*key).to_owned()).collect();
    }

    /// Says other things in ID tokens.
    pub(crate) fn claims(&self, change: impl Fn(Value) -> Value + Send + 'static) {
        *self.0.claims.lock().unwrap() = Box::new(change);
    }

    /// Answers nothing any more, or again.
    pub(crate) fn down(&self, down: bool) {
        *self.0.down.lock().unwrap() = down;
    }

    /// The paths that were asked for so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.0.requests.lock().unwrap().clone()
    }

    /// What a person does who is sent to `address`: signs in as `subject`. Where the browser is sent back to.
    pub(crate) fn sign_in(&self, address: &str, subject: &str) -> Url {
        let address = Url::parse(address).unwrap();
        let asked: BTreeMap<_, _> = address.query_pairs().into_owned().collect();
        assert_eq!(address.path(), "/auth");
        assert_eq!(asked["tenant"], "1");
        assert_eq!(asked["response_type"], "code");
        assert_eq!(asked["client_id"], CLIENT);
        assert_eq!(asked["code_challenge_method"], "S256");
        assert!(asked["scope"].split(' ').any(|scope| scope == "openid"));
        let mut codes = self.0.codes.lock().unwrap();
        let code = format!("code-{}", codes.len() + 1);
        let asked_for = Asked {
            nonce: asked["nonce"].clone(),
            challenge: asked["code_challenge"].clone(),
            subject: subject.to_owned(),
        };
        codes.insert(code.clone(), asked_for);
        let mut back = Url::parse(&asked["redirect_uri"]).unwrap();
        back.query_pairs_mut()
            .append_pair("code", &code)
            .append_pair("state", &asked["state"])
            .append_pair("iss", ISSUER);
        back
    }

    fn token(&self, request: &IssuerRequest) -> Result<Value, u16> {
        let (user, password) = request.basic.clone().ok_or(401_u16)?;
        if (user.as_str(), &*password) != (CLIENT, SECRET) {
            return Err(401);
        }
        let form: BTreeMap<_, _> = request.form.clone().unwrap().into_iter().collect();
        assert_eq!(form["grant_type"], "authorization_code");
        let asked = self.0.codes.lock().unwrap().remove(&form["code"]).ok_or(400_u16)?;
        if URL_SAFE_NO_PAD.encode(Sha256::digest(&form["code_verifier"])) != asked.challenge {
            return Err(400);
        }
        let now = *self.0.seconds.lock().unwrap();
        let claims = json!({
            "iss": ISSUER, "sub": asked.subject, "aud": CLIENT, "nonce": asked.nonce,
            "iat": now, "exp": now + 300, "auth_time": now - 10,
        });
        let claims = (self.0.claims.lock().unwrap())(claims);
        Ok(json!({ "token_type": "Bearer", "access_token": "unused", "id_token": signed("one", "JWT", &claims) }))
    }
}

#[async_trait]
impl IssuerClient for MadeUpIssuer {
    async fn send(&self, request: IssuerRequest) -> Result<IssuerAnswer, IssuerSilent> {
        let path = Url::parse(&request.url).unwrap().path().to_owned();
        self.0.requests.lock().unwrap().push(path.clone());
        if *self.0.down.lock().unwrap() {
            return Err(IssuerSilent("nobody answered".to_owned()));
        }
        let body = match path.as_str() {
            "/.well-known/openid-configuration" => self.0.discovery.lock().unwrap().clone(),
            "/jwks" => {
                let keys = self.0.keys.lock().unwrap();
                let mut set: Vec<Value> = keys.iter().map(|key| public(key)).collect();
                set.push(json!({ "kty": "oct", "kid": "shared", "k": URL_SAFE_NO_PAD.encode(SECRET) }));
                set.push(json!({ "kty": "future", "kid": "odd" }));
                json!({ "keys": set })
            }
            "/token" => match self.token(&request) {
                Ok(body) => body,
                Err(status) => return Ok(IssuerAnswer { status, body: b"{\"error\":\"invalid_grant\"}".to_vec() }),
            },
            _ => return Ok(IssuerAnswer { status: 404, body: Vec::new() }),
        };
        Ok(IssuerAnswer { status: 200, body: body.to_string().into_bytes() })
    }
}

fn key_of(name: &str) -> SigningKey {
    let mut seed = [0; 32];
    seed[..name.len()].copy_from_slice(name.as_bytes());
    SigningKey::generate(&seed).unwrap()
}

fn public(name: &str) -> Value {
    let mut jwk = key_of(name).public().jwk();
    jwk["kid"] = name.into();
    jwk
}

/// A token with these claims, of this type, signed with the key of this name.
pub(crate) fn signed(key: &str, typ: &str, claims: &Value) -> String {
    let mut header = Header::new(Algorithm::EdDSA);
    header.typ = Some(typ.to_owned());
    header.kid = Some(key.to_owned());
    let pair = EncodingKey::from_ed_der(key_of(key).expose_pkcs8_der());
    jsonwebtoken::encode(&header, claims, &pair).unwrap()
}

/// A token with these claims, whose signature uses the public key as a shared secret, or nothing at all.
pub(crate) fn forged(algorithm: &str, key: &str, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let header = part(&json!({ "typ": "JWT", "alg": algorithm, "kid": key }));
    let message = format!("{header}.{}", part(claims));
    if algorithm == "none" {
        return format!("{message}.");
    }
    let secret = if key == "shared" {
        SECRET.as_bytes().to_vec()
    } else {
        STANDARD.decode(STANDARD.encode(public(key)["x"].as_str().unwrap())).unwrap()
    };
    let mac =
        aws_lc_rs::hmac::sign(&aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &secret), message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(mac))
}
