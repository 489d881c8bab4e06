//! The kind `email`: recipients as a list of plain addresses, or refused. It never asks whether a mailbox exists.
//!
//! Grammar: RFC 5321 `Mailbox` with a `Dot-string` local part and a domain that is a host name; around it only what
//! RFC 5322 calls `name-addr` with a harmless display name, and lists with `,` or `;`. An object `{email, name}` is
//! one recipient. The domain resolves to A-labels (RFC 5890) and, with the local part, to lower case: RFC 5321, 2.4
//! lets a host tell local parts apart by case and advises against it, and none that matters does.
//!
//! No mail parser is used: those known read a quoted local part or display name for the address, or repair.

use serde_json::{Map, Value, json};

use super::characters::{compatible_form, no_surrounding_space, only_visible};
use super::hostname::Host;
use super::options::Options;
use super::{FieldType, OptionFault, Refusal, Resolution, Shape};

/// The most recipients of one call; more than mail servers take in one message (RFC 5321, 4.5.3.1.8, asks for 100).
const MOST_ADDRESSES: usize = 1000;
/// The longest address, in bytes: a path of 256 less its brackets (RFC 5321, 4.5.3.1.3).
const LONGEST_ADDRESS: usize = 254;
/// The longest local part, in bytes (RFC 5321, 4.5.3.1.1).
const LONGEST_LOCAL: usize = 64;
/// The longest display name, in bytes: a line of a message (RFC 5322, 2.1.1).
const LONGEST_DISPLAY: usize = 998;

/// A compiled `email` declaration.
#[derive(Debug)]
pub struct EmailKind {
    strip_tags: bool,
}

impl EmailKind {
    pub(super) const SHAPE: Shape = Shape::List(
        &[
            ("address", FieldType::Text),
            ("local", FieldType::Text),
            ("domain", FieldType::Text),
            ("display", FieldType::Text),
        ],
        MOST_ADDRESSES as u64,
    );

    pub(super) fn compile(declaration: &Map<String, Value>) -> Result<Self, Vec<OptionFault>> {
        let mut options = Options::of(declaration);
        let strip_tags = options.flag("strip_tags");
        options.finish(Some(Self { strip_tags }))
    }

    pub(super) fn resolve(&self, value: &Value) -> Result<Resolution, Refusal> {
        let mut addresses = Vec::new();
        match value {
            Value::Array(items) => {
                for item in items {
                    self.read_recipient(item, &mut addresses)?;
                }
            }
            Value::String(_) | Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {
                self.read_recipient(value, &mut addresses)?;
            }
        }
        Ok(Resolution { value: Value::Array(addresses), obligations: Map::new() })
    }

    fn read_recipient(&self, value: &Value, addresses: &mut Vec<Value>) -> Result<(), Refusal> {
        match value {
            Value::String(text) => self.read_text(text, addresses),
            Value::Object(object) => {
                if let Some(key) = object.keys().find(|key| !matches!(key.as_str(), "email" | "name")) {
                    let known = if key.is_empty() { "an empty key" } else { "a key other than email and name" };
                    return Err(Refusal::unresolvable("recipient_object", format!("a recipient object has {known}")));
                }
                let Some(Value::String(email)) = object.get("email") else {
                    return Err(Refusal::unresolvable("no_address", "a recipient object has no address"));
                };
                let name = match object.get("name") {
                    Some(Value::String(name)) => name.as_str(),
                    None | Some(Value::Null) => "",
                    Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                        return Err(Refusal::unresolvable("display_name", "a display name is a string"));
                    }
                };
                check_display(name)?;
                self.push(email, name, addresses)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
                Err(Refusal::unresolvable("not_text", "a recipient is a string or an object with an address"))
            }
        }
    }

    /// One string: an address, a display name and an address, or a list of these.
    fn read_text(&self, text: &str, addresses: &mut Vec<Value>) -> Result<(), Refusal> {
        if text.is_empty() {
            return Err(Refusal::unresolvable("empty", "an address is not empty"));
        }
        only_visible(text)?;
        no_surrounding_space(text)?;
        for part in text.split([',', ';']) {
            let part = part.trim_matches(' ');
            match part.split_once('<') {
                None => self.push(part, "", addresses)?,
                Some((display, rest)) => {
                    let address = rest.strip_suffix('>').ok_or_else(|| {
                        Refusal::unresolvable("angle_brackets", "an angle bracket is not closed at the end")
                    })?;
                    let display = unquote(display.trim_matches(' '))?;
                    check_display(display)?;
                    self.push(address, display, addresses)?;
                }
            }
        }
        Ok(())
    }

    fn push(&self, address: &str, display: &str, addresses: &mut Vec<Value>) -> Result<(), Refusal> {
        if addresses.len() >= MOST_ADDRESSES {
            return Err(Refusal::unresolvable(
                "too_many_addresses",
                format!("there are more than {MOST_ADDRESSES} addresses"),
            ));
        }
        let (local, domain) = parse_address(address)?;
        let local = match local.split_once('+') {
            Some((mailbox, _)) if self.strip_tags && (mailbox.is_empty() || mailbox.ends_with('.')) => {
                return Err(Refusal::unresolvable("local_part", "without its tag the local part is no plain one"));
            }
            Some((mailbox, _)) if self.strip_tags => mailbox.to_owned(),
            Some(_) | None => local,
        };
        addresses.push(json!({
            "address": format!("{local}@{domain}"),
            "local": local,
            "domain": domain,
            "display": display,
        }));
        Ok(())
    }
}

/// A plain address in the form that this kind resolves it to; `None` for anything else.
pub(in crate::domain) fn plain_address(text: &str) -> Option<String> {
    let (local, domain) = parse_address(text).ok()?;
    Some(format!("{local}@{domain}"))
}

/// Takes `local@domain` apart.
fn parse_address(address: &str) -> Result<(String, String), Refusal> {
    let Some((local, domain)) = address.split_once('@') else {
        return Err(Refusal::unresolvable("no_address", "there is a recipient without an address"));
    };
    if address.len() > LONGEST_ADDRESS || local.len() > LONGEST_LOCAL {
        return Err(Refusal::unresolvable("too_long", "an address or its local part is too long"));
    }
    if domain.contains('@') {
        return Err(Refusal::unresolvable("two_at_signs", "an address holds more than one `@`"));
    }
    if local.split('.').any(str::is_empty) || !local.chars().all(is_local_character) {
        return Err(Refusal::unresolvable(
            "local_part",
            "the part before `@` is no plain one: quoted, routed, encoded, not ASCII, or with a stray dot",
        ));
    }
    if local.starts_with("=?") {
        return Err(Refusal::unresolvable("encoded_word", "an address holds an encoded word"));
    }
    match Host::parse(domain)? {
        // A domain grows when it is written in ASCII, and the whole address travels in that form.
        Host::Name(domain) if local.len() + 1 + domain.len() > LONGEST_ADDRESS => {
            Err(Refusal::unresolvable("too_long", "an address is too long in ASCII form"))
        }
        Host::Name(domain) if domain.contains('.') => Ok((local.to_ascii_lowercase(), domain)),
        Host::Name(_) => Err(Refusal::unresolvable("local_domain", "the domain is a single label")),
        Host::Address(_) => Err(Refusal::unresolvable("address_literal", "the domain is a network address")),
    }
}

/// `atext` of RFC 5322, 3.2.3, and the dot, without `!` and `%`, by which old mailers route on (RFC 5321, F.2).
fn is_local_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || "#$&'*+-/=?^_`{|}~.".contains(character)
}

/// Takes the quotes off a display name that stands in them as a whole.
fn unquote(display: &str) -> Result<&str, Refusal> {
    match display.strip_prefix('"') {
        None => Ok(display),
        Some(inside) => inside
            .strip_suffix('"')
            .ok_or_else(|| Refusal::unresolvable("display_name", "a display name is quoted in part")),
    }
}

/// Refuses display names that another parser could take for an address, a group, a comment or an encoded word.
fn check_display(display: &str) -> Result<(), Refusal> {
    only_visible(display)?;
    if display.len() > LONGEST_DISPLAY {
        return Err(Refusal::unresolvable("too_long", "a display name is too long"));
    }
    let special = |text: &str| text.contains(['@', '<', '>', ',', ';', ':', '"', '\\', '(', ')', '[', ']']);
    let hidden = |character: char| !character.is_ascii() && special(&compatible_form(character));
    if special(display) || display.contains("=?") || display.contains(hidden) {
        return Err(Refusal::unresolvable("display_name", "a display name holds what can be taken for an address"));
    }
    Ok(())
}
