//! A tool server: runs a tool only for a permit that it has checked by itself, and counts what it did.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use countersign::{
    app::ports::PermitKey,
    auth::permit::{PermitVerifier, PublicKey},
    domain::{call::Arguments, time::Timestamp},
};
use serde_json::Value;

/// A server for tools of one audience, which knows nothing of the service but its public keys.
pub(crate) struct ToolServer {
    permits: PermitVerifier,
    seen: Mutex<BTreeSet<String>>,
    effects: Mutex<Vec<Effect>>,
}

/// Something that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Effect {
    /// The decision or approval that permitted it.
    pub(crate) key: String,
    pub(crate) tool: String,
    pub(crate) args_hash: String,
}

/// Why nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoEffect {
    /// The permit is none, or not for this server, or not for now.
    Permit,
    /// The permit is for another tool.
    OtherTool,
    /// The permit is for other arguments.
    OtherArguments,
    /// The permit was used before.
    UsedBefore,
}

/// The header of an Ed25519 public key in SubjectPublicKeyInfo (RFC 8410, section 4).
const ED25519: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

impl ToolServer {
    pub(crate) fn new(permits: PermitVerifier) -> Self {
        Self { permits, seen: Mutex::default(), effects: Mutex::default() }
    }

    /// A server that trusts whoever publishes this JWK set (RFC 7517) as `issuer`.
    pub(crate) fn trusting(issuer: &str, jwks: &Value) -> Self {
        let keys = jwks["keys"].as_array().unwrap().iter().map(|key| {
            let x = URL_SAFE_NO_PAD.decode(key["x"].as_str().unwrap()).unwrap();
            let der = STANDARD.encode([ED25519.as_slice(), &x].concat());
            let pem = format!("-----BEGIN PUBLIC KEY-----\n{der}\n-----END PUBLIC KEY-----\n");
            PublicKey::from_pem(&pem).unwrap()
        });
        Self::new(PermitVerifier::new(issuer, &keys.collect::<Vec<_>>()))
    }

    /// Runs `tool`, whose audience has its own name, if the permit says so.
    pub(crate) fn run(&self, permit: &str, tool: &str, args: &Arguments, now: Timestamp) -> Result<(), NoEffect> {
        let claims = self.permits.verify(permit, tool, now).map_err(|_| NoEffect::Permit)?;
        if claims.permit.tool != tool {
            return Err(NoEffect::OtherTool);
        }
        if claims.permit.args_hash != args.hash() {
            return Err(NoEffect::OtherArguments);
        }
        if !self.seen.lock().unwrap().insert(claims.permit.jti) {
            return Err(NoEffect::UsedBefore);
        }
        let key = match claims.permit.key {
            PermitKey::Decision(id) => id.to_string(),
            PermitKey::Approval(id) => id.to_string(),
        };
        let effect = Effect { key, tool: tool.to_owned(), args_hash: args.hash().to_string() };
        self.effects.lock().unwrap().push(effect);
        Ok(())
    }

    /// Everything that was done, in order.
    pub(crate) fn effects(&self) -> Vec<Effect> {
        self.effects.lock().unwrap().clone()
    }

    /// How often each decision or approval was acted on.
    pub(crate) fn times(&self) -> BTreeMap<String, u32> {
        let mut times = BTreeMap::new();
        for effect in self.effects.lock().unwrap().iter() {
            *times.entry(effect.key.clone()).or_default() += 1;
        }
        times
    }
}
