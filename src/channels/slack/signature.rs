//! What Slack signs its requests with: version `v0`, HMAC-SHA-256 over the time and the raw body, as
//! <https://docs.slack.dev/authentication/verifying-requests-from-slack> has it. It must not know what a body says.

use aws_lc_rs::hmac;

use crate::domain::time::Timestamp;

/// How far the time of a request may be from ours, in seconds, either way.
const TOLERANCE: u64 = 300;

/// The secret that an app shares with Slack. The text itself is the key: it is not decoded.
pub struct SigningSecret(hmac::Key);

impl SigningSecret {
    /// The secret with this text.
    pub fn new(text: &str) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes()))
    }

    /// What Slack would send as `X-Slack-Signature`.
    pub fn sign(&self, timestamp: &str, body: &[u8]) -> String {
        format!("v0={}", hex::encode(hmac::sign(&self.0, &signed(timestamp, body))))
    }

    /// Whether Slack signed this body with this time; compares in constant time.
    pub fn verifies(&self, timestamp: &str, body: &[u8], signature: &str) -> bool {
        let Some(digits) = signature.strip_prefix("v0=") else { return false };
        let mut tag = [0; 32];
        let lower = !digits.bytes().any(|byte| byte.is_ascii_uppercase());
        lower
            && hex::decode_to_slice(digits, &mut tag).is_ok()
            && hmac::verify(&self.0, &signed(timestamp, body), &tag).is_ok()
    }
}

fn signed(timestamp: &str, body: &[u8]) -> Vec<u8> {
    [b"v0:", timestamp.as_bytes(), b":", body].concat()
}

/// The time of a request in seconds since the Unix epoch: digits, and nothing else.
pub fn seconds(timestamp: &str) -> Option<i64> {
    let digits = (1..=12).contains(&timestamp.len()) && timestamp.bytes().all(|byte| byte.is_ascii_digit());
    if digits { timestamp.parse().ok() } else { None }
}

/// How far ahead of the time of a request our clock is, in seconds, and whether that is near enough.
pub fn skew(sent: i64, now: Timestamp) -> (i64, bool) {
    let ahead = now.as_micros().div_euclid(1_000_000).saturating_sub(sent);
    (ahead, ahead.unsigned_abs() <= TOLERANCE)
}
