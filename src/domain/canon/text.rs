//! The kind `text`: what a reader of a text could follow, write to, or steal. It adds to the value and replaces nothing.
//!
//! No grammar: running text. Found are hosts of links with a scheme, as WHATWG's URL parser would read them, in its
//! repairing way, since a browser will; hosts without a scheme below a suffix of the Public Suffix List, as mail and
//! chat programs make links of them; addresses (RFC 5322 `dot-atom@domain`); and the findings
//! `card` (ISO/IEC 7812: issuer's range and Luhn's digit), `iban` (ISO 13616: the country's length and mod 97 of
//! ISO 7064), `private_key` (RFC 7468 labels and their like) and `api_key` (the prefixes issuers give their keys).
//!
//! Each is looked for in the text as it stands, in its compatibility form without invisible characters, and, where
//! there are any, with HTML's character references resolved. It finds rather too much than too little: a rule that
//! loosens asks that *all* be good. Time is linear in the length: every look ahead or back is bounded.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value, json};
use unicode_normalization::UnicodeNormalization;

use super::characters::deceives;
use super::options::Options;
use super::{FieldType, OptionFault, Refusal, Resolution, Shape};

/// The longest name of a host, in bytes (RFC 1035, 2.3.4), with some room for letters beyond ASCII.
const LONGEST_HOST: usize = 512;
/// The longest local part that is looked for, in bytes (RFC 5321, 4.5.3.1.1).
const LONGEST_LOCAL: usize = 64;
/// The longest scheme that is looked for.
const LONGEST_SCHEME: usize = 16;

/// Schemes after which a browser takes what follows for a host even without slashes.
const WEB_SCHEMES: [&str; 5] = ["http", "https", "ws", "wss", "ftp"];

/// Country codes and lengths of account numbers, from the IBAN registry (ISO 13616).
const IBAN_LENGTHS: &str = "\
    AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 ES24 \
    FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 \
    LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 \
    RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30";

/// What keys begin with, and how many characters of a key must follow.
const KEY_PREFIXES: [(&str, usize); 33] = [
    ("AIza", 35),
    ("AKIA", 16),
    ("ASIA", 16),
    ("SG.", 20),
    ("dop_v1_", 40),
    ("gho_", 30),
    ("ghp_", 30),
    ("ghr_", 30),
    ("ghs_", 30),
    ("ghu_", 30),
    ("github_pat_", 22),
    ("glpat-", 20),
    ("glrt-", 20),
    ("hf_", 30),
    ("lin_api_", 32),
    ("npm_", 36),
    ("pypi-", 50),
    ("rk_live_", 16),
    ("shpat_", 32),
    ("shpss_", 32),
    ("sk-", 32),
    ("sk-ant-", 20),
    ("sk-or-", 20),
    ("sk-proj-", 20),
    ("sk_live_", 16),
    ("sk_test_", 16),
    ("whsec_", 24),
    ("xapp-", 20),
    ("xoxa-", 20),
    ("xoxb-", 20),
    ("xoxp-", 20),
    ("xoxs-", 20),
    ("ya29.", 20),
];

/// Beginnings of secret keys that are no PEM block.
const SECRET_KEY_MARKS: [&str; 2] = ["PuTTY-User-Key-File", "AGE-SECRET-KEY-1"];

/// Named character references of HTML by which a link can be hidden.
const NAMED_REFERENCES: [(&str, char); 12] = [
    ("amp", '&'),
    ("bsol", '\\'),
    ("colon", ':'),
    ("commat", '@'),
    ("gt", '>'),
    ("hyphen", '-'),
    ("lowbar", '_'),
    ("lt", '<'),
    ("nbsp", ' '),
    ("period", '.'),
    ("quot", '"'),
    ("sol", '/'),
];

/// A compiled `text` declaration; the kind has no options.
#[derive(Debug)]
pub struct TextKind;

impl TextKind {
    pub(super) const SHAPE: Shape = Shape::Record(&[
        ("hosts", FieldType::TextList),
        ("addresses", FieldType::TextList),
        ("findings", FieldType::TextList),
    ]);

    pub(super) fn compile(declaration: &Map<String, Value>) -> Result<Self, Vec<OptionFault>> {
        Options::of(declaration).finish(Some(Self))
    }

    pub(super) fn resolve(value: &Value) -> Result<Resolution, Refusal> {
        let text = value.as_str().ok_or_else(|| Refusal::unresolvable("not_text", "a text is a string"))?;
        if text.contains('\0') {
            return Err(Refusal::unresolvable("control_character", "it holds a NUL"));
        }
        let mut found = Found::default();
        found.look_through(text);
        let visible = visible_form(text);
        if visible != text {
            found.look_through(&visible);
        }
        if let Some(resolved) = resolve_references(text) {
            found.look_through(&visible_form(&resolved));
        }
        let value = json!({ "hosts": found.hosts, "addresses": found.addresses, "findings": found.findings });
        Ok(Resolution { value, obligations: Map::new() })
    }
}

/// The text as it looks: in compatibility form (NFKC), without what is not shown.
fn visible_form(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    text.nfkc().filter(|character| !deceives(*character)).collect()
}

/// The text with HTML's character references resolved; `None` when it has none.
fn resolve_references(text: &str) -> Option<String> {
    let mut resolved = String::with_capacity(text.len());
    let mut parts = text.split('&');
    resolved.push_str(parts.next().unwrap_or_default());
    let mut any = false;
    for part in parts {
        match reference(part) {
            Some((character, rest)) => {
                any = true;
                resolved.push(character);
                resolved.push_str(rest);
            }
            None => {
                resolved.push('&');
                resolved.push_str(part);
            }
        }
    }
    any.then_some(resolved)
}

/// The character that what follows an `&` stands for, and what follows the reference.
fn reference(part: &str) -> Option<(char, &str)> {
    let Some(number) = part.strip_prefix('#') else {
        let (name, character) = NAMED_REFERENCES.iter().find(|(name, _)| part.starts_with(name))?;
        return Some((*character, part.strip_prefix(name)?.trim_start_matches(';')));
    };
    let (digits, radix) = match number.strip_prefix(['x', 'X']) {
        Some(digits) => (digits, 16),
        None => (number, 10),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let (digits, rest) = digits.split_at(end);
    let character = char::from_u32(u32::from_str_radix(digits, radix).ok()?)?;
    Some((character, rest.strip_prefix(';').unwrap_or(rest)))
}

#[derive(Default)]
struct Found {
    hosts: BTreeSet<String>,
    addresses: BTreeSet<String>,
    findings: BTreeSet<&'static str>,
    /// What was read as a host before, and as which.
    read: HashMap<String, Option<String>>,
}

impl Found {
    fn look_through(&mut self, text: &str) {
        let links = self.links_with_scheme(text);
        self.links_without_scheme(text, &links);
        self.mail_addresses(text);
        if text.contains("PRIVATE KEY") && holds_private_key(text)
            || SECRET_KEY_MARKS.iter().any(|mark| text.contains(mark))
        {
            self.findings.insert("private_key");
        }
        self.at_word_starts(text);
    }

    /// Hosts after `scheme:`; gives back where the links lie, in order and apart from each other.
    fn links_with_scheme(&mut self, text: &str) -> Vec<(usize, usize)> {
        let mut links: Vec<(usize, usize)> = Vec::new();
        for (colon, _) in text.match_indices(':') {
            let (before, after) = text.split_at(colon);
            let rest = after.get(1..).unwrap_or_default();
            let scheme = last_run(before, LONGEST_SCHEME, |c| c.is_ascii_alphanumeric());
            let web = WEB_SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known));
            let slashes = rest.len() - rest.trim_start_matches(['/', '\\']).len();
            if !web && (scheme.is_empty() || !rest.starts_with("//")) {
                continue;
            }
            let start = colon + 1 + slashes;
            let tail = text.get(start..).unwrap_or_default();
            let bracketed = tail.starts_with('[');
            let authority = first_run(tail, LONGEST_HOST, |c| !ends_authority(c) || (bracketed && c == ']'));
            if authority.is_empty() {
                continue;
            }
            self.host_of_authority(authority);
            match links.last_mut() {
                // A link within a link ends with it.
                Some((_, end)) if *end > start => {}
                _ => {
                    let length = tail.find(ends_link).unwrap_or(tail.len());
                    links.push((colon, start + length));
                }
            }
        }
        links
    }

    /// The host in `user@host:port`, as a browser reads it.
    fn host_of_authority(&mut self, authority: &str) {
        let host = authority.rsplit('@').next().unwrap_or_default();
        let host = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, _)) => format!("[{address}]"),
            None => host.split(':').next().unwrap_or_default().to_owned(),
        };
        let host = host.trim_end_matches(['.', ';', '!', '*', '_', '~']);
        if host.is_empty() {
            return;
        }
        // What no standard reads is named as written: it must not vanish from a rule about all hosts.
        let host = self.browser_host(host).unwrap_or_else(|| host.to_lowercase());
        self.hosts.insert(host);
    }

    /// Names that a mail or chat program would make a link of.
    fn links_without_scheme(&mut self, text: &str, links: &[(usize, usize)]) {
        let mut links = links.iter().copied().peekable();
        let mut rest = text;
        let mut position = 0;
        while let Some(skipped) = rest.find(is_host_character) {
            position += skipped;
            rest = rest.get(skipped..).unwrap_or_default();
            let length = rest.find(|c: char| !is_host_character(c)).unwrap_or(rest.len());
            let (run, after) = rest.split_at(length);
            while links.next_if(|(_, end)| *end <= position).is_some() {}
            let within_link = links.peek().is_some_and(|(start, _)| *start <= position);
            if !within_link && run.contains(['.', '\u{3002}']) {
                let before = text.get(..position).unwrap_or_default();
                for name in run.split("..") {
                    self.bare_name(name.trim_matches(['.', '-', '_', '\u{3002}']), before, after);
                }
            }
            position += length;
            rest = after;
        }
    }

    fn bare_name(&mut self, name: &str, before: &str, after: &str) {
        if name.len() > LONGEST_HOST || !name.contains(['.', '\u{3002}']) {
            return;
        }
        // The domain of an address is no link, and neither is its local part.
        let of_address =
            before.ends_with('@') && !last_run(before.trim_end_matches('@'), 1, is_local_character).is_empty();
        if of_address || after.starts_with('@') {
            return;
        }
        let Some(host) = self.browser_host(name) else { return };
        let path_follows = after.starts_with('/') || after.starts_with(':');
        let is_link = if host.parse::<std::net::Ipv4Addr>().is_ok() {
            name.split('.').count() == 4 && (path_follows || before.ends_with("//"))
        } else {
            let known_suffix = psl::suffix(host.as_bytes()).is_some_and(|suffix| suffix.is_known());
            (known_suffix && psl::domain_str(&host).is_some()) || host.starts_with("www.") || before.ends_with("//")
        };
        if is_link {
            self.hosts.insert(host);
        }
    }

    fn mail_addresses(&mut self, text: &str) {
        for (at, _) in text.match_indices('@') {
            let (before, after) = text.split_at(at);
            let local =
                last_run(before, LONGEST_LOCAL, is_local_character).trim_start_matches(['.', '\'', '*', '_', '~']);
            let domain = first_run(after.get(1..).unwrap_or_default(), LONGEST_HOST, is_host_character);
            let domain = domain.trim_matches(['.', '-', '_', '\u{3002}']);
            if local.is_empty() || !domain.contains(['.', '\u{3002}']) {
                continue;
            }
            let domain = self.browser_host(domain).unwrap_or_else(|| domain.to_lowercase());
            self.addresses.insert(format!("{}@{domain}", local.to_lowercase()));
            // In `to=a@b.example` or `'a@b.example` the address begins after the mark.
            let shorter = local.rsplit(['=', '/', '?', '&', '\'', '{', '|', '`', '*']).next().unwrap_or_default();
            if shorter != local && !shorter.is_empty() {
                self.addresses.insert(format!("{}@{domain}", shorter.to_lowercase()));
            }
        }
    }

    /// The host as WHATWG reads it: percent-decoded, mapped, numbers taken for addresses; without a dot at its end.
    ///
    /// The same name may stand in a text ten thousand times, and reading it is what takes time here.
    fn browser_host(&mut self, text: &str) -> Option<String> {
        if let Some(known) = self.read.get(text) {
            return known.clone();
        }
        let host = url::Host::parse(text).ok().map(|host| host.to_string().trim_end_matches('.').to_owned());
        // Full stops of other scripts alone are mapped to dots, of which nothing is left.
        let host = host.filter(|host| !host.is_empty());
        self.read.insert(text.to_owned(), host.clone());
        host
    }

    /// Cards, accounts and keys: all begin where a word does.
    fn at_word_starts(&mut self, text: &str) {
        let mut before = ' ';
        for (position, character) in text.char_indices() {
            if character.is_ascii_alphanumeric() && !before.is_ascii_alphanumeric() {
                let rest = text.get(position..).unwrap_or_default();
                if character.is_ascii_digit() {
                    if begins_with_card(rest) {
                        self.findings.insert("card");
                    }
                } else if begins_with_iban(rest) {
                    self.findings.insert("iban");
                } else if begins_with_key(rest) {
                    self.findings.insert("api_key");
                }
            }
            before = character;
        }
    }
}

/// The run of such characters that a text begins with, of bounded length.
fn first_run(text: &str, longest: usize, belongs: impl Fn(char) -> bool) -> &str {
    let end = text.char_indices().find(|(at, c)| *at >= longest || !belongs(*c)).map_or(text.len(), |(at, _)| at);
    text.get(..end).unwrap_or_default()
}

/// The run of such characters that a text ends with, of bounded length.
fn last_run(text: &str, longest: usize, belongs: impl Fn(char) -> bool) -> &str {
    let start = text
        .char_indices()
        .rev()
        .take_while(|(at, c)| text.len() - at <= longest && belongs(*c))
        .last()
        .map_or(text.len(), |(at, _)| at);
    text.get(start..).unwrap_or_default()
}

fn is_host_character(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '-' | '_' | '.' | '\u{3002}')
}

/// `atext` of RFC 5322 and the dot, and letters beyond ASCII (RFC 6532).
fn is_local_character(character: char) -> bool {
    character.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(character)
}

/// Where the host of a link and what goes with it ends, for a browser or for a program that looks for links.
fn ends_authority(character: char) -> bool {
    matches!(character, '/' | '\\' | '?' | '#' | '(') || ends_link(character)
}

fn ends_link(character: char) -> bool {
    character.is_whitespace() || character.is_control() || "\"'<>`)]}|,".contains(character)
}

/// A PEM label of a private key (RFC 7468, and OpenSSH's and PGP's own).
fn holds_private_key(text: &str) -> bool {
    text.match_indices("-----BEGIN ").any(|(at, mark)| {
        let label = text.get(at + mark.len()..).unwrap_or_default();
        first_run(label, 40, |c| c.is_ascii_alphanumeric() || c == ' ').contains("PRIVATE KEY")
    })
}

fn begins_with_key(text: &str) -> bool {
    let first = text.as_bytes().first();
    let possible = KEY_PREFIXES.iter().filter(|(prefix, _)| prefix.as_bytes().first() == first);
    possible.into_iter().any(|(prefix, length)| {
        let Some(rest) = text.strip_prefix(prefix) else { return false };
        let key = first_run(rest, *length, |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        // A bare `sk-` also begins hyphenated words, which have no digits.
        key.len() >= *length && key.bytes().any(|byte| byte.is_ascii_digit())
    })
}

/// A number of 13 to 19 digits, in groups or not, in the range of a card issuer, that ends in its Luhn digit.
fn begins_with_card(text: &str) -> bool {
    let mut digits: Vec<u32> = Vec::with_capacity(19);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let Some(digit) = character.to_digit(10) else {
            // One separator, and a digit after it.
            if matches!(character, ' ' | '-') && characters.peek().is_some_and(char::is_ascii_digit) {
                continue;
            }
            return false;
        };
        if digits.len() == 19 {
            return false;
        }
        digits.push(digit);
        let group_ends = !characters.peek().is_some_and(char::is_ascii_alphanumeric);
        if group_ends && digits.len() >= 13 && is_card(&digits) {
            return true;
        }
    }
    false
}

fn is_card(digits: &[u32]) -> bool {
    let first = |count: usize| digits.iter().take(count).fold(0, |number, digit| number * 10 + digit);
    let issued = match digits.len() {
        13 | 19 if first(1) == 4 => true,
        14 => first(2) == 36 || first(2) == 38 || first(2) == 39 || (300..=305).contains(&first(3)),
        15 => first(2) == 34 || first(2) == 37,
        16 => {
            first(1) == 4
                || (51..=55).contains(&first(2))
                || (2221..=2720).contains(&first(4))
                || (3528..=3589).contains(&first(4))
                || matches!(first(2), 50 | 56..=69)
        }
        17..=19 => matches!(first(2), 50 | 56..=69),
        _ => false,
    };
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| {
            let doubled = digit * 2;
            if place % 2 == 0 {
                *digit
            } else if doubled > 9 {
                doubled - 9
            } else {
                doubled
            }
        })
        .sum();
    issued && sum.is_multiple_of(10)
}

/// An account number of its country's length, in groups or not, that leaves 1 when divided by 97.
fn begins_with_iban(text: &str) -> bool {
    let [first, second, check, digits, ..] = text.as_bytes() else { return false };
    if !(check.is_ascii_digit() && digits.is_ascii_digit()) {
        return false;
    }
    let country = [first.to_ascii_uppercase(), second.to_ascii_uppercase()];
    let length = IBAN_LENGTHS
        .split(' ')
        .find_map(|entry| entry.as_bytes().strip_prefix(&country))
        .and_then(|length| std::str::from_utf8(length).ok()?.parse::<usize>().ok());
    let Some(length) = length else { return false };
    let mut account = Vec::with_capacity(length);
    let mut characters = text.chars().peekable();
    while account.len() < length {
        let Some(character) = characters.next() else { return false };
        if let Some(value) = character.to_digit(36).filter(|_| character.is_ascii_alphanumeric()) {
            account.push(value);
            continue;
        }
        let separates = matches!(character, ' ' | '-') && characters.peek().is_some_and(char::is_ascii_alphanumeric);
        if !separates {
            return false;
        }
    }
    let ends = !characters.peek().is_some_and(char::is_ascii_alphanumeric);
    let remainder = account.iter().skip(4).chain(account.iter().take(4)).fold(0, |remainder, value| {
        if *value < 10 { (remainder * 10 + value) % 97 } else { (remainder * 100 + value) % 97 }
    });
    ends && remainder == 1
}
