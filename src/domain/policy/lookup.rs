//! A lookup as the policy declares it, and the address that the arguments of one call make of it.
//!
//! The host is the policy's. A placeholder stands for a whole segment of the path or a whole value of the query; what it
//! stands for is percent-encoded (RFC 3986, 2.1), and the address is read back: it has the very segments and values that
//! were meant, or the lookup fails. Values that some server could decode into more than one segment never get that far.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::{Map, Value};
use unicode_normalization::UnicodeNormalization as _;
use url::Url;

use crate::domain::{
    canon::json,
    lookup::{LookupFailure, LookupObjection, LookupRequest, LookupResults, Prepared, unchanged_since},
};

/// The longest value of a placeholder, in bytes.
const LONGEST_VALUE: usize = 512;
/// Stands for a placeholder's value while the form of an address is checked.
const STAND_IN: &str = "x";

/// How a lookup asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// It looks.
    Get,
    /// It tells an endpoint without effects what would be done, and shows the answer as a preview.
    Post,
}

impl Method {
    pub(super) const ALL: [Self; 2] = [Self::Get, Self::Post];
}

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Get => "GET",
            Self::Post => "POST",
        })
    }
}

impl std::str::FromStr for Method {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|method| method.to_string() == text).ok_or(())
    }
}

/// One look at the world that is taken when a call of the tool is held, and again when it is claimed.
#[derive(Clone, Debug, PartialEq)]
pub struct Lookup {
    /// Its name.
    pub name: String,
    /// How it asks.
    pub method: Method,
    /// Where it asks.
    pub address: Address,
    /// How long it may take in all.
    pub timeout: Duration,
    /// What reviewers are shown: JSON Pointers (RFC 6901) into the answer, by name.
    pub show: BTreeMap<String, String>,
    /// Of these, the ones that must be the same when the call is claimed.
    pub unchanged: BTreeSet<String>,
    /// The reference of the secret that it sends as bearer token, `env:NAME` or `file:PATH`.
    pub credential: Option<String>,
    /// Whether it may go to a private, loopback or link-local address.
    pub allow_private: bool,
}

impl Lookup {
    /// The request that these arguments make of it.
    ///
    /// # Errors
    /// Its name, and [`LookupFailure::UnfitArgument`].
    pub fn prepare(&self, args: &Map<String, Value>) -> Prepared {
        let url = self.address.filled(args).ok_or((self.name.clone(), LookupFailure::UnfitArgument))?;
        Ok(LookupRequest {
            name: self.name.clone(),
            url,
            dry_run: (self.method == Method::Post).then(|| Value::Object(args.clone())),
            timeout: self.timeout,
            credential: self.credential.clone(),
            allow_private: self.allow_private,
            show: self.show.clone(),
        })
    }

    /// Why what it finds now does not carry the claim of a call that was held with `then`.
    ///
    /// # Errors
    /// The objection.
    pub fn check_claim(&self, then: &LookupResults, now: &LookupResults) -> Result<(), LookupObjection> {
        unchanged_since(&self.name, &self.unchanged, then, now)
    }
}

/// The address of a lookup, with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// `https://host:port`, as the `url` crate writes it.
    origin: String,
    segments: Vec<Part>,
    query: Vec<(String, Part)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// Already in the form it is sent in.
    Literal(String),
    /// The argument of this name.
    Argument(String),
}

/// Where a value is put, which says what it may not hold.
#[derive(Clone, Copy)]
enum Where {
    Path,
    Query,
}

impl Part {
    fn read(text: &str) -> Result<Self, &'static str> {
        let inside = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        match inside {
            Some(name) if name.is_empty() || name.contains(['{', '}']) => {
                Err("a placeholder is the name of a property in braces")
            }
            Some(name) => Ok(Self::Argument(name.to_owned())),
            None if text.contains(['{', '}']) => {
                Err("a placeholder stands alone: a whole segment of the path, or a whole value of the query")
            }
            None => Ok(Self::Literal(text.to_owned())),
        }
    }

    fn filled(&self, args: &Map<String, Value>, place: Where) -> Option<String> {
        match self {
            Self::Literal(text) => Some(text.clone()),
            Self::Argument(name) => Some(encoded(&value_text(args.get(name)?, place)?)),
        }
    }

    fn argument(&self) -> Option<&str> {
        match self {
            Self::Argument(name) => Some(name),
            Self::Literal(_) => None,
        }
    }
}

impl Address {
    /// Reads an address with placeholders.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read(text: &str, allow_private: bool) -> Result<Self, String> {
        if text.contains('#') {
            return Err("it has a fragment, which is never sent".to_owned());
        }
        let (before, query) = text.split_once('?').map_or((text, None), |(before, query)| (before, Some(query)));
        let (scheme, rest) = before.split_once("://").ok_or("it is no absolute address")?;
        let (authority, path) = rest.split_once('/').ok_or("its host is not followed by a path; end it with `/`")?;
        if authority.contains(['{', '}']) {
            return Err("the host is fixed: no placeholder stands in it".to_owned());
        }
        let segments = path.split('/').map(Part::read).collect::<Result<Vec<_>, _>>()?;
        let pair = |pair: &str| {
            let (key, value) = pair.split_once('=').ok_or("each part of the query is written `key=value`")?;
            if key.is_empty() || key.contains(['{', '}']) {
                return Err("a key of the query is fixed and not empty");
            }
            Ok((key.to_owned(), Part::read(value)?))
        };
        let query = query.map_or(Ok(Vec::new()), |query| query.split('&').map(pair).collect::<Result<Vec<_>, _>>())?;
        let address = Self { origin: format!("{scheme}://{authority}"), segments, query };
        let written = address.written(|part| match part {
            Part::Literal(text) => text.clone(),
            Part::Argument(_) => STAND_IN.to_owned(),
        });
        let url = Url::parse(&written).map_err(|error| format!("it is no address: {error}"))?;
        let secure = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err("its scheme is not https".to_owned()),
        };
        if !url.username().is_empty() || url.password().is_some() || authority.contains('@') {
            return Err("it holds a name or password; use `credential`".to_owned());
        }
        if !secure && !allow_private {
            return Err(
                "it is not https, which only an address of a private network may lack (allow_private)".to_owned()
            );
        }
        if url.as_str() != written {
            return Err("it is not written in its normal form: lower-case host, no default port, no dot segments, \
                        everything else percent-encoded"
                .to_owned());
        }
        Ok(address)
    }

    /// The names of its placeholders.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().chain(self.query.iter().map(|(_, part)| part)).filter_map(Part::argument)
    }

    /// The address with the arguments in their places; `None` when one does not fit there.
    fn filled(&self, args: &Map<String, Value>) -> Option<String> {
        let segments =
            self.segments.iter().map(|part| part.filled(args, Where::Path)).collect::<Option<Vec<String>>>()?;
        let values =
            self.query.iter().map(|(_, part)| part.filled(args, Where::Query)).collect::<Option<Vec<String>>>()?;
        let query: Vec<(&str, &str)> =
            self.query.iter().map(|(key, _)| key.as_str()).zip(values.iter().map(String::as_str)).collect();
        let written = assembled(&self.origin, &segments, &query);
        let url = Url::parse(&written).ok()?;
        let same_segments = url.path_segments()?.eq(segments.iter().map(String::as_str));
        let same_query = url.query() == (!query.is_empty()).then(|| joined(&query)).as_deref();
        (url.as_str() == written && same_segments && same_query).then_some(written)
    }

    fn written(&self, text: impl Fn(&Part) -> String) -> String {
        let segments: Vec<String> = self.segments.iter().map(&text).collect();
        let values: Vec<String> = self.query.iter().map(|(_, part)| text(part)).collect();
        let query: Vec<(&str, &str)> =
            self.query.iter().map(|(key, _)| key.as_str()).zip(values.iter().map(String::as_str)).collect();
        assembled(&self.origin, &segments, &query)
    }
}

fn assembled(origin: &str, segments: &[String], query: &[(&str, &str)]) -> String {
    let path = segments.join("/");
    if query.is_empty() { format!("{origin}/{path}") } else { format!("{origin}/{path}?{}", joined(query)) }
}

fn joined(query: &[(&str, &str)]) -> String {
    query.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join("&")
}

/// The text of a scalar, unless it could steer: empty, dots, separators plain or once more encoded, controls, each also
/// in the compatible forms (NFKC) that some servers fold.
fn value_text(value: &Value, place: Where) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => String::from_utf8(json::canonical(value).ok()?).ok()?,
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    let folded: String = text.nfkc().collect();
    let steers = |text: &str| {
        let separator = match place {
            Where::Path => text.contains(['/', '\\', '%', '?', '#', ';']),
            Where::Query => false,
        };
        text.trim().is_empty() || matches!(text, "." | "..") || text.contains(char::is_control) || separator
    };
    (text.len() <= LONGEST_VALUE && !steers(&text) && !steers(&folded)).then_some(text)
}

/// Percent-encodes everything but the unreserved characters of RFC 3986, 2.3.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
