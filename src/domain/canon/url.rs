//! The kind `url`: an absolute web address, taken apart, or refused. It fetches nothing and follows nothing.
//!
//! Grammar: RFC 3986 `scheme "://" host [":" port] path-abempty ["?" query] ["#" fragment]` for the schemes whose hosts
//! the WHATWG URL Standard defines, with letters beyond ASCII where that standard encodes them. The text is split here
//! by RFC 3986 and again by the `url` crate (WHATWG); where the two could part, it is refused. The parts are given in
//! WHATWG's form. The host rules are those of `hostname`.
//!
//! `url` repairs what is refused here: white space and line breaks inside, backslashes, missing or extra slashes,
//! encoded hosts, dot segments plain or encoded, odd ports, stray percent signs: see `docs/kinds.md`.

use serde_json::{Map, Value, json};

use super::characters::only_visible;
use super::glob::Glob;
use super::hostname::{Host, HostRules, connection_obligations};
use super::options::Options;
use super::{FieldType, OptionFault, Refusal, Resolution, Shape};

/// The longest address, in bytes; common servers and clients end at half of it or less.
const LONGEST_URL: usize = 16 * 1024;

/// The schemes with hosts in the sense of WHATWG, and their default ports (URL Standard, "special scheme").
const SCHEMES: [(&str, u16); 5] = [("https", 443), ("http", 80), ("wss", 443), ("ws", 80), ("ftp", 21)];

/// A compiled `url` declaration.
#[derive(Debug)]
pub struct UrlKind {
    hosts: HostRules,
    schemes: Vec<&'static str>,
    default_scheme: Option<&'static str>,
    ports: Vec<u16>,
    urls: Option<Vec<Listed>>,
}

/// One whole address of the option `urls`.
#[derive(Debug)]
struct Listed {
    scheme: &'static str,
    host: Host,
    port: u16,
    path: Glob,
    query: Query,
}

/// What a listed address says of the query.
#[derive(Debug)]
enum Query {
    /// `?*` at its end.
    Any,
    /// The query itself, or none.
    Exactly(String),
}

/// An address split by RFC 3986.
struct Parts<'t> {
    scheme: &'static str,
    host: Host,
    port: u16,
    path: &'t str,
    query: Option<&'t str>,
    fragment: Option<&'t str>,
}

impl UrlKind {
    pub(super) const SHAPE: Shape = Shape::Record(&[
        ("scheme", FieldType::Text),
        ("host", FieldType::Text),
        ("port", FieldType::Int),
        ("path", FieldType::Text),
        ("query", FieldType::Text),
        ("fragment", FieldType::Text),
        ("registrable_domain", FieldType::Text),
        ("is_ip", FieldType::Bool),
    ]);

    pub(super) fn compile(declaration: &Map<String, Value>) -> Result<Self, Vec<OptionFault>> {
        let mut options = Options::of(declaration);
        let hosts = HostRules::compile(&mut options);
        let schemes = compile_schemes(&mut options);
        let default_scheme = compile_default_scheme(&mut options, &schemes);
        let ports = compile_ports(&mut options);
        let urls = options.texts("urls");
        let mut kind = Self { hosts, schemes, default_scheme, ports, urls: None };
        kind.urls = urls.map(|items| {
            let mut listed = Vec::with_capacity(items.len());
            for (item, written) in items.iter().enumerate() {
                match kind.compile_listed(written) {
                    Ok(entry) => listed.push(entry),
                    Err(message) => options.item_fault(
                        "urls",
                        item,
                        message,
                        "write a whole address such as \"https://api.acme.example/v1/*\"; `*` stands for one segment, \
                         `**` for any number, `?*` at the end for any query",
                    ),
                }
            }
            listed
        });
        options.finish(Some(kind))
    }

    pub(super) fn resolve(&self, value: &Value) -> Result<Resolution, Refusal> {
        let text = value.as_str().ok_or_else(|| Refusal::unresolvable("not_text", "a URL is a string"))?;
        check_characters(text)?;
        let parts = split(text, self.default_scheme)?;
        check_path(parts.path)?;
        check_escapes(parts.query.unwrap_or_default())?;
        check_escapes(parts.fragment.unwrap_or_default())?;
        let parsed = agree(text, &parts)?;
        self.check_constraints(&parts, parsed.path())?;
        let value = json!({
            "scheme": parts.scheme,
            "host": parts.host.text(),
            "port": parts.port,
            "path": parsed.path(),
            "query": parsed.query().unwrap_or_default(),
            "fragment": parsed.fragment().unwrap_or_default(),
            "registrable_domain": parts.host.registrable_domain(),
            "is_ip": parts.host.is_ip(),
        });
        let mut obligations = connection_obligations();
        obligations.insert("max_redirects".to_owned(), Value::from(0));
        Ok(Resolution { value, obligations })
    }

    fn check_constraints(&self, parts: &Parts<'_>, path: &str) -> Result<(), Refusal> {
        self.check_place(parts, self.urls.is_some())?;
        match &self.urls {
            Some(urls) if !urls.iter().any(|listed| listed.covers(parts, path)) => {
                Err(Refusal::constraint("url_not_listed", "the address is not one the policy lists"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Scheme, host and port. Without `hosts`, whole addresses that are listed name their own hosts.
    fn check_place(&self, parts: &Parts<'_>, addresses_are_listed: bool) -> Result<(), Refusal> {
        if !self.schemes.contains(&parts.scheme) {
            return Err(Refusal::constraint("scheme_not_listed", "the scheme is not one the policy lists"));
        }
        self.hosts.check_never(&parts.host)?;
        if self.hosts.are_listed() || !addresses_are_listed {
            self.hosts.check_listed(&parts.host)?;
        }
        if parts.port != default_port(parts.scheme) && !self.ports.contains(&parts.port) {
            return Err(Refusal::constraint("port_not_listed", "the port is neither the default nor listed"));
        }
        Ok(())
    }

    fn compile_listed(&self, written: &str) -> Result<Listed, String> {
        let said = |refusal: Refusal| refusal.detail().to_owned();
        check_characters(written).map_err(said)?;
        if !written.is_ascii() {
            return Err("write what is beyond ASCII in its encoded form".to_owned());
        }
        let parts = split(written, None).map_err(said)?;
        if parts.fragment.is_some() {
            return Err("a fragment is never sent, so it cannot be listed".to_owned());
        }
        check_path(parts.path).map_err(said)?;
        self.check_place(&parts, true).map_err(|refusal| format!("{}, so nothing matches", refusal.detail()))?;
        let query = match parts.query {
            Some("*") => Query::Any,
            Some(query) if query.contains('*') => return Err("in a query `*` can only stand alone".to_owned()),
            query => Query::Exactly(query.unwrap_or_default().to_owned()),
        };
        let path = Glob::compile(if parts.path.is_empty() { "/" } else { parts.path })?;
        Ok(Listed { scheme: parts.scheme, host: parts.host, port: parts.port, path, query })
    }
}

impl Listed {
    fn covers(&self, parts: &Parts<'_>, path: &str) -> bool {
        let query = match &self.query {
            Query::Any => true,
            Query::Exactly(query) => query == parts.query.unwrap_or_default(),
        };
        query
            && self.scheme == parts.scheme
            && self.host == parts.host
            && self.port == parts.port
            && self.path.matches(path)
    }
}

/// Refuses characters that parsers strip, swap for others, or end an address at.
fn check_characters(text: &str) -> Result<(), Refusal> {
    if text.is_empty() {
        return Err(Refusal::unresolvable("empty", "a URL is not empty"));
    }
    if text.len() > LONGEST_URL {
        return Err(Refusal::unresolvable("too_long", format!("a URL has at most {LONGEST_URL} bytes")));
    }
    only_visible(text)?;
    if text.contains(char::is_whitespace) {
        return Err(Refusal::unresolvable("white_space", "it holds white space"));
    }
    if text.contains('\\') {
        return Err(Refusal::unresolvable("backslash", "it holds a backslash, which browsers take for a slash"));
    }
    if text.contains(['<', '>', '"', '`']) {
        return Err(Refusal::unresolvable("url_character", "it holds a character that ends a URL in running text"));
    }
    Ok(())
}

/// Splits as RFC 3986 does, and takes only an authority of the plain form `host[:port]`.
fn split<'t>(text: &'t str, default_scheme: Option<&'static str>) -> Result<Parts<'t>, Refusal> {
    let (scheme, rest) = match (written_scheme(text), default_scheme) {
        (Some((scheme, rest)), _) => (known_scheme(scheme)?, rest),
        (None, Some(scheme)) => (scheme, text),
        (None, None) => {
            return Err(Refusal::unresolvable("no_scheme", "it is no absolute address: it lacks `scheme://`"));
        }
    };
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if authority.contains('@') {
        return Err(Refusal::unresolvable("userinfo", "it holds a user name before the host"));
    }
    let (host, port) = split_port(authority)?;
    let host = Host::parse(host)?;
    let (before_fragment, fragment) = match tail.split_once('#') {
        Some((before, fragment)) => (before, Some(fragment)),
        None => (tail, None),
    };
    let (path, query) = match before_fragment.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (before_fragment, None),
    };
    Ok(Parts { scheme, host, port: port.unwrap_or(default_port(scheme)), path, query, fragment })
}

/// What stands before and after `://`, when it is the beginning of the address.
fn written_scheme(text: &str) -> Option<(&str, &str)> {
    text.split_once("://").filter(|(scheme, _)| !scheme.contains(['/', '?', '#']))
}

fn known_scheme(written: &str) -> Result<&'static str, Refusal> {
    SCHEMES.iter().map(|(scheme, _)| *scheme).find(|scheme| written.eq_ignore_ascii_case(scheme)).ok_or_else(|| {
        // RFC 3986, 3.1; anything else is no scheme but a text that happens to hold `://`.
        let well_formed = written.starts_with(|c: char| c.is_ascii_alphabetic())
            && written.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
        if well_formed {
            Refusal::constraint("scheme_not_listed", "the scheme is none of the web's")
        } else {
            Refusal::unresolvable("no_scheme", "it does not begin with a scheme")
        }
    })
}

fn default_port(scheme: &str) -> u16 {
    SCHEMES.iter().find(|(known, _)| *known == scheme).map_or(0, |(_, port)| *port)
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>), Refusal> {
    let after_address = authority.rfind(']').map_or(0, |end| end + 1);
    let (address, rest) = authority.split_at(after_address);
    let Some(colon) = rest.find(':') else { return Ok((authority, None)) };
    if !address.is_empty() && colon != 0 {
        return Err(Refusal::unresolvable("port", "the port is oddly spelt"));
    }
    let (host, port) = authority.split_at(after_address + colon);
    let digits = port.strip_prefix(':').unwrap_or_default();
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    match digits.parse::<u16>() {
        Ok(port) if plain => Ok((host, Some(port))),
        Ok(_) | Err(_) => Err(Refusal::unresolvable("port", "the port is oddly spelt")),
    }
}

/// Refuses a path whose segments are not what they look like, before or after decoding.
fn check_path(path: &str) -> Result<(), Refusal> {
    let decoded = check_escapes(path)?;
    for escaped in escapes(path) {
        if escaped.is_ascii_alphanumeric() || matches!(escaped, b'-' | b'.' | b'_' | b'~') {
            return Err(Refusal::unresolvable(
                "encoded_unreserved",
                "its path encodes a character that needs no encoding",
            ));
        }
        if matches!(escaped, b'/' | b'\\') {
            return Err(Refusal::unresolvable("encoded_separator", "its path holds an encoded slash or backslash"));
        }
        if escaped.is_ascii_control() {
            return Err(Refusal::unresolvable("encoded_control", "its path holds an encoded control character"));
        }
    }
    if escapes(&decoded).next().is_some() {
        return Err(Refusal::unresolvable("double_encoding", "its path is encoded twice"));
    }
    // Some servers cut path parameters (`;...`) off before they resolve dot segments.
    if path.split('/').any(|segment| matches!(segment.split(';').next(), Some("." | ".."))) {
        return Err(Refusal::unresolvable("dot_segment", "its path holds a `.` or `..` segment"));
    }
    Ok(())
}

/// Refuses escapes that are not `%` and two hex digits, or that decode to NUL or to what is no UTF-8; gives back the
/// decoded text.
fn check_escapes(text: &str) -> Result<String, Refusal> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let (Some(high), Some(low)) = (bytes.next().and_then(hex), bytes.next().and_then(hex)) else {
            return Err(Refusal::unresolvable("percent_sign", "it holds a `%` without two hex digits after it"));
        };
        decoded.push(high << 4 | low);
    }
    if decoded.contains(&0) {
        return Err(Refusal::unresolvable("encoded_control", "it holds an encoded NUL"));
    }
    String::from_utf8(decoded)
        .map_err(|_| Refusal::unresolvable("encoded_bytes", "it holds encoded bytes that are no UTF-8"))
}

/// The bytes that a text holds as `%` and two hex digits.
fn escapes(text: &str) -> impl Iterator<Item = u8> {
    text.as_bytes().windows(3).filter_map(|window| match *window {
        [b'%', high, low] => Some(hex(high)? << 4 | hex(low)?),
        _ => None,
    })
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// Parses once more, as WHATWG does, and refuses the address when the two readings differ.
fn agree(text: &str, parts: &Parts<'_>) -> Result<url::Url, Refusal> {
    let differ = || Refusal::unresolvable("parsers_differ", "two standards read it differently");
    let absolute = if written_scheme(text).is_some() { text.to_owned() } else { format!("{}://{text}", parts.scheme) };
    let parsed = url::Url::parse(&absolute).map_err(|_| differ())?;
    let same = parsed.scheme() == parts.scheme
        && parsed.host_str() == Some(parts.host.text().as_str())
        && parsed.port_or_known_default() == Some(parts.port)
        && parsed.username().is_empty()
        && parsed.password().is_none()
        && parsed.path().split('/').count() == parts.path.split('/').count().max(2)
        && parsed.query().is_some() == parts.query.is_some()
        && parsed.fragment().is_some() == parts.fragment.is_some();
    if same { Ok(parsed) } else { Err(differ()) }
}

fn compile_schemes(options: &mut Options<'_>) -> Vec<&'static str> {
    let Some(written) = options.texts("schemes") else { return vec!["https"] };
    let mut schemes = Vec::with_capacity(written.len());
    for (item, text) in written.iter().enumerate() {
        match SCHEMES.iter().find(|(scheme, _)| scheme == text) {
            Some((scheme, _)) => schemes.push(*scheme),
            None => options.item_fault(
                "schemes",
                item,
                "addresses of this scheme have no host to judge by",
                "the schemes are https, http, wss, ws and ftp, in lower case",
            ),
        }
    }
    schemes
}

fn compile_default_scheme(options: &mut Options<'_>, schemes: &[&'static str]) -> Option<&'static str> {
    let written = options.text("default_scheme")?;
    let scheme = schemes.iter().copied().find(|scheme| *scheme == written);
    if scheme.is_none() {
        options.fault(
            "default_scheme",
            "it is not one of schemes, so every address without a scheme would be refused",
            format!("write default_scheme = \"{}\"", schemes.first().copied().unwrap_or("https")),
        );
    }
    scheme
}

fn compile_ports(options: &mut Options<'_>) -> Vec<u16> {
    let mut ports = Vec::new();
    for (item, value) in options.list("ports").unwrap_or_default().iter().enumerate() {
        match value.as_u64().and_then(|port| u16::try_from(port).ok()) {
            Some(port) if port > 0 => ports.push(port),
            Some(_) | None => options.item_fault("ports", item, "it is no port", "write ports = [8443]"),
        }
    }
    ports
}
