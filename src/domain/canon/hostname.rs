//! The kind `hostname`, and the rules for hosts that `url` and `email` share. It never asks the DNS.
//!
//! Grammar: a host of the WHATWG URL Standard (section 3, "Hosts"), of which only what every resolver reads alike is
//! taken: LDH labels (RFC 1123, 2.1) or internationalised labels (UTS #46) that mapping would leave as they are but
//! for case, of one script each (UTS #39); an IPv4 address as four decimal numbers (RFC 6943, 3.1.1, "strict"); an IPv6
//! address in brackets in its canonical form (RFC 5952). Names resolve to their A-labels in lower case.
//!
//! Which suffixes are public is what the Public Suffix List says, compiled in by the `psl` crate; which addresses are
//! public is what the IANA registries of special-purpose addresses leave (RFC 6890 and its successors).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use ipnet::{Ipv4Net, Ipv6Net};
use serde_json::{Map, Value, json};
use unicode_security::{MixedScript, skeleton};

use super::characters::only_visible;
use super::options::Options;
use super::{FieldType, OptionFault, Refusal, Resolution, Shape};

/// No host in text form is longer, U-labels in UTF-8 included.
const LONGEST_HOST: usize = 1024;
/// The longest label of a host, in characters (RFC 1035, 2.3.4); as an A-label none is shorter than written.
const LONGEST_LABEL: usize = 63;

/// IPv4 networks nothing of which is a public host, from IANA's registry; the last is Azure's metadata address.
const NOT_PUBLIC_V4: [Ipv4Net; 17] = [
    Ipv4Net::new_assert(Ipv4Addr::new(0, 0, 0, 0), 8),
    Ipv4Net::new_assert(Ipv4Addr::new(10, 0, 0, 0), 8),
    Ipv4Net::new_assert(Ipv4Addr::new(100, 64, 0, 0), 10),
    Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8),
    Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 0, 0), 16),
    Ipv4Net::new_assert(Ipv4Addr::new(172, 16, 0, 0), 12),
    Ipv4Net::new_assert(Ipv4Addr::new(192, 0, 0, 0), 24),
    Ipv4Net::new_assert(Ipv4Addr::new(192, 0, 2, 0), 24),
    Ipv4Net::new_assert(Ipv4Addr::new(192, 88, 99, 0), 24),
    Ipv4Net::new_assert(Ipv4Addr::new(192, 168, 0, 0), 16),
    Ipv4Net::new_assert(Ipv4Addr::new(192, 175, 48, 0), 24),
    Ipv4Net::new_assert(Ipv4Addr::new(198, 18, 0, 0), 15),
    Ipv4Net::new_assert(Ipv4Addr::new(198, 51, 100, 0), 24),
    Ipv4Net::new_assert(Ipv4Addr::new(203, 0, 113, 0), 24),
    Ipv4Net::new_assert(Ipv4Addr::new(224, 0, 0, 0), 4),
    Ipv4Net::new_assert(Ipv4Addr::new(240, 0, 0, 0), 4),
    Ipv4Net::new_assert(Ipv4Addr::new(168, 63, 129, 16), 32),
];

/// The only IPv6 network from which global unicast addresses are handed out.
const GLOBAL_V6: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Networks within it that are not public or that carry an IPv4 address inside (Teredo, ORCHID, documentation, 6to4).
const NOT_PUBLIC_V6: [Ipv6Net; 4] = [
    Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    Ipv6Net::new_assert(Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    Ipv6Net::new_assert(Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Top-level names that are never hosts of the public internet: IANA's special-use domain names, and `internal`.
const SPECIAL_USE: [&str; 9] = ["alt", "arpa", "example", "internal", "invalid", "local", "localhost", "onion", "test"];

/// Names by which hosts files call the loopback address.
const LOOPBACK_NAMES: [&str; 5] =
    ["localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback", "localhost6.localdomain6"];

/// Names by which cloud machines reach the service that hands out their credentials.
const METADATA_NAMES: [&str; 6] = [
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.packet.net",
    "instance-data",
    "instance-data.ec2.internal",
];

/// Characters that IDNA 2003 and IDNA 2008 read as different names (UTS #46, section 7, "deviation characters").
const DEVIATIONS: [char; 4] = ['\u{df}', '\u{3c2}', '\u{200c}', '\u{200d}'];

/// A host in its one form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    /// A-labels in lower case, joined by dots.
    Name(String),
    Address(IpAddr),
}

impl Host {
    /// Reads a host, whatever the policy says of it.
    pub(super) fn parse(text: &str) -> Result<Self, Refusal> {
        if text.is_empty() {
            return Err(Refusal::unresolvable("empty_host", "the host is empty"));
        }
        if text.len() > LONGEST_HOST {
            return Err(Refusal::unresolvable("too_long", format!("a host has at most {LONGEST_HOST} bytes")));
        }
        only_visible(text)?;
        if let Some(bracketed) = text.strip_prefix('[') {
            return parse_v6(bracketed);
        }
        if !text.chars().all(|c| !c.is_ascii() || c.is_ascii_alphanumeric() || matches!(c, '-' | '.')) {
            return Err(Refusal::unresolvable("host_character", "the host holds a character no host name has"));
        }
        if text.ends_with('.') {
            return Err(Refusal::unresolvable("trailing_dot", "the host ends with a dot"));
        }
        if text.split('.').any(|label| label.is_empty() || label.starts_with('-') || label.ends_with('-')) {
            return Err(Refusal::unresolvable("host_label", "a label of the host is empty or begins or ends with `-`"));
        }
        // The time to decode a label grows with the square of its length.
        if text.split('.').any(|label| label.chars().count() > LONGEST_LABEL) {
            return Err(Refusal::unresolvable(
                "too_long",
                format!("a label of a host has at most {LONGEST_LABEL} characters"),
            ));
        }
        if ends_in_number(text) {
            return match text.parse::<Ipv4Addr>() {
                Ok(address) => Ok(Self::Address(IpAddr::V4(address))),
                Err(_) => Err(Refusal::unresolvable("address_spelling", "the host is an oddly spelt address")),
            };
        }
        parse_name(text).map(Self::Name)
    }

    /// The text of the host as a URL shows it.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Name(name) => name.clone(),
            Self::Address(IpAddr::V4(address)) => address.to_string(),
            Self::Address(IpAddr::V6(address)) => format!("[{address}]"),
        }
    }

    /// The part of a name that someone registered (one label below a public suffix), else nothing.
    pub(super) fn registrable_domain(&self) -> &str {
        match self {
            Self::Name(name) => psl::domain_str(name).unwrap_or_default(),
            Self::Address(_) => "",
        }
    }

    pub(super) fn is_ip(&self) -> bool {
        matches!(self, Self::Address(_))
    }
}

/// WHATWG's "ends in a number": then the whole host is read as an IPv4 address, in any of its many spellings.
fn ends_in_number(text: &str) -> bool {
    let last = text.rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|byte| byte.is_ascii_digit()) {
        return true;
    }
    let Some(("", digits)) = last.split_once(['x', 'X']).map(|(zero, digits)| (zero.trim_start_matches('0'), digits))
    else {
        return false;
    };
    last.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn parse_v6(bracketed: &str) -> Result<Host, Refusal> {
    let odd = || Refusal::unresolvable("address_spelling", "the host is an oddly spelt address");
    let inside = bracketed.strip_suffix(']').ok_or_else(odd)?;
    let address: Ipv6Addr = inside.parse().map_err(|_| odd())?;
    // An IPv4 address in IPv6 clothes has two canonical forms: RFC 5952 and WHATWG write it differently.
    if address.to_string() != inside.to_ascii_lowercase() || address.to_ipv4_mapped().is_some() {
        return Err(odd());
    }
    Ok(Host::Address(IpAddr::V6(address)))
}

/// A name as A-labels, when mapping it (UTS #46) changes nothing but case.
fn parse_name(text: &str) -> Result<String, Refusal> {
    let mapping = Uts46::new();
    let ascii = mapping
        .to_ascii(text.as_bytes(), AsciiDenyList::URL, Hyphens::Allow, DnsLength::Verify)
        .map_err(|_| Refusal::unresolvable("host_name", "the host is no valid internationalised name"))?;
    let (unicode, _) = mapping.to_unicode(ascii.as_bytes(), AsciiDenyList::URL, Hyphens::Allow);
    let lower = text.to_lowercase();
    if lower.split('.').count() != ascii.split('.').count() {
        return Err(changed_by_mapping());
    }
    let ascii_top = ascii.rsplit('.').next().is_some_and(|top| !top.starts_with("xn--"));
    for ((written, a_label), u_label) in lower.split('.').zip(ascii.split('.')).zip(unicode.split('.')) {
        if written != a_label && written != u_label {
            return Err(changed_by_mapping());
        }
        if written.contains(DEVIATIONS) {
            return Err(Refusal::unresolvable("deviation_character", "old and new IDNA read the host differently"));
        }
        if u_label.is_ascii() {
            continue;
        }
        if !u_label.is_single_script() {
            return Err(Refusal::unresolvable("mixed_script", "a label of the host mixes scripts"));
        }
        // Wholly Cyrillic or Greek, but drawn like Latin; below a top-level name of its own script nobody is deceived.
        if ascii_top && skeleton(u_label).all(|character| character.is_ascii()) {
            return Err(Refusal::unresolvable("confusable_host", "a label of the host looks like Latin and is not"));
        }
    }
    if ends_in_number(&ascii) {
        return Err(Refusal::unresolvable("address_spelling", "the host is an oddly spelt address"));
    }
    Ok(ascii.into_owned())
}

fn changed_by_mapping() -> Refusal {
    Refusal::unresolvable("host_form", "the host is spelt so that mapping would change it")
}

/// Whether packets to this address leave for the public internet: it is not private, loopback, link-local, of special
/// use, or the address of a cloud's metadata.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !NOT_PUBLIC_V4.iter().any(|network| network.contains(&address)),
        IpAddr::V6(address) => {
            GLOBAL_V6.contains(&address) && !NOT_PUBLIC_V6.iter().any(|network| network.contains(&address))
        }
    }
}

fn is_loopback_name(name: &str) -> bool {
    LOOPBACK_NAMES.contains(&name) || name.ends_with(".localhost")
}

/// Whether a name can be a host of the public internet at all: several labels, below a suffix that is in the list, not
/// of special use, and not one of the names that exist to spell a private address.
fn is_public_name(name: &str) -> bool {
    let top = name.rsplit('.').next().unwrap_or_default();
    name.contains('.')
        && !SPECIAL_USE.contains(&top)
        && psl::suffix(name.as_bytes()).is_some_and(|suffix| suffix.is_known())
        && !spells_private_address(name)
}

/// Names such as `10.0.0.1.service.example` or `10-0-0-1.service.example`, which public services resolve to that very
/// address.
fn spells_private_address(name: &str) -> bool {
    let parts: Vec<&str> = name.split(['.', '-']).collect();
    parts.windows(4).any(|four| four.join(".").parse::<Ipv4Addr>().is_ok_and(|address| !is_public(IpAddr::V4(address))))
}

/// A host in running text.
pub(in crate::domain) struct PlainHost {
    /// In the form that this kind resolves it to.
    pub(in crate::domain) text: String,
    /// Whether it can hardly be anything else, such as the name of a file.
    pub(in crate::domain) is_unmistakable: bool,
}

/// A host, when `text` is one; `None` for a single label too, which any word could be.
pub(in crate::domain) fn plain_host(text: &str) -> Option<PlainHost> {
    let host = Host::parse(text).ok()?;
    let is_unmistakable = match &host {
        Host::Address(_) => true,
        Host::Name(name) => {
            let (_, top) = name.rsplit_once('.')?;
            SPECIAL_USE.contains(&top) || psl::suffix(name.as_bytes()).is_some_and(|suffix| suffix.is_known())
        }
    };
    Some(PlainHost { text: host.text(), is_unmistakable })
}

/// What the options `hosts` and `allow_ips` permit.
#[derive(Debug)]
pub(super) struct HostRules {
    /// `None`: any public host.
    listed: Option<Vec<Listed>>,
    allow_ips: bool,
}

#[derive(Debug)]
enum Listed {
    /// `"*"`
    AnyPublic,
    /// `"*.suffix"`, kept as `.suffix`: every name below it, not itself.
    Below(String),
    Exactly(Host),
}

impl HostRules {
    pub(super) fn compile(options: &mut Options<'_>) -> Self {
        let allow_ips = options.flag("allow_ips");
        let listed = options.texts("hosts").map(|items| {
            let mut listed = Vec::with_capacity(items.len());
            for (item, written) in items.iter().enumerate() {
                match compile_listed(written, allow_ips) {
                    Ok(entry) => listed.push(entry),
                    Err((message, hint)) => options.item_fault("hosts", item, message, hint),
                }
            }
            listed
        });
        Self { listed, allow_ips }
    }

    /// Whether the policy permits this host.
    pub(super) fn check(&self, host: &Host) -> Result<(), Refusal> {
        self.check_never(host)?;
        self.check_listed(host)
    }

    /// What no list of hosts can permit: addresses (unless allowed), and what is private, loopback or metadata.
    pub(super) fn check_never(&self, host: &Host) -> Result<(), Refusal> {
        match host {
            Host::Address(_) if !self.allow_ips => {
                Err(Refusal::constraint("ip_literal", "the host is an address and not a name"))
            }
            Host::Address(address) if !is_public(*address) => {
                Err(Refusal::constraint("private_address", "the host is a private or special address"))
            }
            Host::Name(name) if is_loopback_name(name) => {
                Err(Refusal::constraint("loopback_name", "the host is this very machine"))
            }
            Host::Name(name) if METADATA_NAMES.contains(&name.as_str()) => {
                Err(Refusal::constraint("metadata_name", "the host hands out a machine's credentials"))
            }
            Host::Address(_) | Host::Name(_) => Ok(()),
        }
    }

    /// Whether the list covers the host; without a list, whether it is public.
    pub(super) fn check_listed(&self, host: &Host) -> Result<(), Refusal> {
        match &self.listed {
            None if !any_public(host) => Err(Refusal::constraint("host_not_public", "the host is not a public host")),
            Some(listed) if !listed.iter().any(|entry| entry.covers(host)) => {
                Err(Refusal::constraint("host_not_listed", "the host is not one the policy lists"))
            }
            None | Some(_) => Ok(()),
        }
    }

    /// Whether the policy has a list of hosts at all.
    pub(super) fn are_listed(&self) -> bool {
        self.listed.is_some()
    }
}

impl Listed {
    fn covers(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::AnyPublic, _) => any_public(host),
            (Self::Below(suffix), Host::Name(name)) => name.ends_with(suffix.as_str()),
            (Self::Below(_), Host::Address(_)) => false,
            (Self::Exactly(listed), _) => listed == host,
        }
    }
}

fn any_public(host: &Host) -> bool {
    match host {
        Host::Name(name) => is_public_name(name),
        Host::Address(address) => is_public(*address),
    }
}

fn compile_listed(written: &str, allow_ips: bool) -> Result<Listed, (String, String)> {
    let form = "write a host such as \"api.acme.example\", \"*.acme.example\", or \"*\" for any public host";
    if written == "*" {
        return Ok(Listed::AnyPublic);
    }
    let host = |text: &str| {
        Host::parse(text).map_err(|refusal| {
            let detail = if text.contains(['/', ':', '@']) && !text.starts_with('[') {
                "it is an address of something on a host; only the host belongs here"
            } else if text.contains('*') {
                "a `*` can only stand alone or as `*.` in front of a suffix, so nothing matches"
            } else {
                refusal.detail()
            };
            (detail.to_owned(), form.to_owned())
        })
    };
    if let Some(suffix) = written.strip_prefix("*.") {
        let Host::Name(suffix) = host(suffix)? else {
            return Err(("an address has no names below it, so nothing matches".to_owned(), form.to_owned()));
        };
        if psl::suffix_str(&suffix) == Some(suffix.as_str()) {
            return Err((
                "below a public suffix anybody can have a host".to_owned(),
                "name the domain that is meant, such as \"*.acme.example\"".to_owned(),
            ));
        }
        return Ok(Listed::Below(format!(".{suffix}")));
    }
    match host(written)? {
        Host::Name(name) if is_loopback_name(&name) || METADATA_NAMES.contains(&name.as_str()) => {
            Err(("it is never permitted, so nothing matches".to_owned(), "remove it".to_owned()))
        }
        Host::Address(_) if !allow_ips => {
            Err(("addresses are not permitted, so nothing matches".to_owned(), "set allow_ips = true".to_owned()))
        }
        Host::Address(address) if !is_public(address) => {
            Err(("private and special addresses are never permitted".to_owned(), "remove it".to_owned()))
        }
        host @ (Host::Name(_) | Host::Address(_)) => Ok(Listed::Exactly(host)),
    }
}

/// A compiled `hostname` declaration.
#[derive(Debug)]
pub struct HostnameKind {
    rules: HostRules,
}

impl HostnameKind {
    pub(super) const SHAPE: Shape = Shape::Record(&[
        ("host", FieldType::Text),
        ("registrable_domain", FieldType::Text),
        ("is_ip", FieldType::Bool),
    ]);

    pub(super) fn compile(declaration: &Map<String, Value>) -> Result<Self, Vec<OptionFault>> {
        let mut options = Options::of(declaration);
        let rules = HostRules::compile(&mut options);
        options.finish(Some(Self { rules }))
    }

    pub(super) fn resolve(&self, value: &Value) -> Result<Resolution, Refusal> {
        let text = value.as_str().ok_or_else(|| Refusal::unresolvable("not_text", "a host name is a string"))?;
        let host = Host::parse(text)?;
        self.rules.check(&host)?;
        let value = json!({
            "host": host.text(),
            "registrable_domain": host.registrable_domain(),
            "is_ip": host.is_ip(),
        });
        Ok(Resolution { value, obligations: connection_obligations() })
    }
}

/// What keeps a name checked here from leading elsewhere when it is resolved: connect to the address that was looked
/// up and found public, and to no other.
pub(super) fn connection_obligations() -> Map<String, Value> {
    let mut obligations = Map::new();
    obligations.insert("pin_resolved_ip".to_owned(), Value::Bool(true));
    obligations.insert("block_private".to_owned(), Value::Bool(true));
    obligations
}
