//! What stands behind a form: a token that only pages of the same session hold, and that tells how long the form was
//! looked at. It must not know what any form is for.
//!
//! A token is `<issued>.<mac>`: the moment the page was made, in microseconds since the Unix epoch, and HMAC-SHA256 (RFC
//! 2104) over what the form belongs to and that moment, in base64url. The key comes from what the browser's cookie holds,
//! which the service keeps only as a hash: nobody who reads the database can make a token.

use std::{fmt, time::Duration};

use aws_lc_rs::hmac;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::domain::{session::Secret, time::Timestamp};

/// How long a form is looked at before it is sent, at least: whatever is faster was not read by a person.
pub const SOONEST: Duration = Duration::from_secs(1);

/// After how long a form counts no longer.
pub const LATEST: Duration = Duration::from_secs(12 * 60 * 60);

/// What makes and checks the tokens of one session's forms. No `Debug` shows the key.
#[derive(Clone)]
pub struct FormKey {
    key: hmac::Key,
    about: String,
}

/// Why a form does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormFault {
    /// It has no token of this session.
    #[error("the form is not of this session")]
    Foreign,
    /// It was sent faster than anyone reads.
    #[error("the form was sent too soon")]
    TooSoon,
    /// It was left lying for too long.
    #[error("the form is too old")]
    TooOld,
}

impl FormKey {
    /// The key of the forms that belong to `about`, in the browser that holds `secret`.
    pub fn new(secret: &Secret, about: impl fmt::Display) -> Self {
        let extracted = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.expose()), b"countersign form key");
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, extracted.as_ref()), about: about.to_string() }
    }

    /// The value of the hidden field `form_token` of a page that is made now.
    pub fn field(&self, now: Timestamp) -> String {
        let issued = now.as_micros();
        let mac = hmac::sign(&self.key, self.signed(issued).as_bytes());
        format!("{issued}.{}", URL_SAFE_NO_PAD.encode(mac))
    }

    /// Checks the `form_token` of a form that was sent.
    ///
    /// # Errors
    /// [`FormFault`].
    pub fn check(&self, token: &str, now: Timestamp) -> Result<(), FormFault> {
        let (text, mac) = token.split_once('.').ok_or(FormFault::Foreign)?;
        // One moment has one spelling.
        let issued: i64 =
            text.parse().ok().filter(|issued: &i64| issued.to_string() == text).ok_or(FormFault::Foreign)?;
        let mac = URL_SAFE_NO_PAD.decode(mac).map_err(|_| FormFault::Foreign)?;
        hmac::verify(&self.key, self.signed(issued).as_bytes(), &mac).map_err(|_| FormFault::Foreign)?;
        let issued = Timestamp::from_micros(issued);
        if now < issued.plus(SOONEST) {
            Err(FormFault::TooSoon)
        } else if now >= issued.plus(LATEST) {
            Err(FormFault::TooOld)
        } else {
            Ok(())
        }
    }

    fn signed(&self, issued: i64) -> String {
        format!("{}\n{issued}", self.about)
    }
}

impl fmt::Debug for FormKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FormKey").field("about", &self.about).finish_non_exhaustive()
    }
}
