//! What is known of the browser that sends a request: its cookies, where it says to come from, and by which name it asks.

use axum::http::{HeaderMap, HeaderValue, header};
use url::{Host, Url};

use crate::domain::session::Secret;

/// The cookies of this installation. Those with the prefix `__Host-` can be set by nobody but this very host, over
/// https (RFC 6265bis, section 4.1.3.2); a service on loopback has no https, and so other names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cookie {
    /// Holds a session.
    Session,
    /// Holds what binds a sign-in that is under way, and the forms that come before a session, to one browser.
    SignIn,
}

/// How long a sign-in may take, in seconds.
pub(super) const SIGN_IN_SECONDS: u32 = 600;

impl Cookie {
    const fn name(self, confined: bool) -> &'static str {
        match (self, confined) {
            (Self::Session, true) => "__Host-session",
            (Self::Session, false) => "session",
            (Self::SignIn, true) => "__Host-sign-in",
            (Self::SignIn, false) => "sign-in",
        }
    }

    /// The secret in it, when it is there once and holds one.
    pub(super) fn secret(self, headers: &HeaderMap, public_url: &str) -> Option<Secret> {
        let name = self.name(is_confined(public_url));
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let mut values = pairs.filter(|(found, _)| *found == name).map(|(_, value)| value);
        match (values.next(), values.next()) {
            (Some(value), None) => Secret::parse(value),
            _ => None,
        }
    }

    /// The header that lets the browser hold `secret`.
    pub(super) fn set(self, secret: &Secret, public_url: &str) -> Option<HeaderValue> {
        let age = match self {
            Self::Session => String::new(),
            Self::SignIn => format!("; Max-Age={SIGN_IN_SECONDS}"),
        };
        self.header(&secret.to_text(), &age, public_url)
    }

    /// The header that takes it from the browser.
    pub(super) fn clear(self, public_url: &str) -> Option<HeaderValue> {
        self.header("", "; Max-Age=0", public_url)
    }

    fn header(self, value: &str, age: &str, public_url: &str) -> Option<HeaderValue> {
        let confined = is_confined(public_url);
        let secure = if confined { "; Secure" } else { "" };
        let text = format!("{}={value}; Path=/{secure}; HttpOnly; SameSite=Lax{age}", self.name(confined));
        let mut header = HeaderValue::from_str(&text).ok()?;
        header.set_sensitive(true);
        Some(header)
    }
}

/// Whether cookies are for https alone: everywhere but on loopback without it.
fn is_confined(public_url: &str) -> bool {
    !Url::parse(public_url).is_ok_and(|url| url.scheme() == "http" && is_loopback(&url))
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Whether the one `Host` header names this machine itself, so that no name of somebody else's leads here.
pub(super) fn asks_for_loopback(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let Ok(host) = host.to_str() else { return false };
    Url::parse(&format!("http://{host}/")).is_ok_and(|url| is_loopback(&url) && url.path() == "/")
}

/// Whether a form comes from a page of this service, as far as the browser says.
///
/// `Origin` must be ours; a browser that sends none must say it with `Referer`. A page that lets nobody know where
/// it is makes browsers send the origin `null`: then `Sec-Fetch-Site`, which no page can set, must say it. Where that
/// header is sent, it must agree in any case.
pub(super) fn is_from_here(headers: &HeaderMap, public_url: &str) -> bool {
    let Some(own) = Url::parse(public_url).ok().map(|url| url.origin()) else { return false };
    let one = |name| {
        let mut values = headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (None, _) => Ok(None),
            (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
            (Some(_), Some(_)) => Err(()),
        }
    };
    let is_own = |text: &str| Url::parse(text).is_ok_and(|url| url.origin() == own);
    let (Ok(origin), Ok(referer), Ok(site)) = (one("origin"), one("referer"), one("sec-fetch-site")) else {
        return false;
    };
    let same_site = match site {
        None => true,
        Some(site) => matches!(site, "same-origin" | "none"),
    };
    same_site
        && match (origin, referer) {
            (Some("null"), _) => site == Some("same-origin"),
            (Some(origin), _) => is_own(origin),
            (None, Some(referer)) => is_own(referer),
            (None, None) => false,
        }
}

/// Whether `text` is a page of this service that a sign-in may lead to: a local path below `/review`.
pub(super) fn is_local_page(text: &str) -> bool {
    const LONGEST: usize = 1_024;
    let below = text.strip_prefix("/review").is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']));
    below
        && text.len() <= LONGEST
        && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
        && !text.contains("//")
}
