//! The grants that an approval offers beside its buttons: at most three, computed from the arguments that are held.
//!
//! Every condition says in full what it admits, so that whoever takes it can read it; what cannot be said so in a
//! bounded condition is not offered.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Map, Value};

use super::{Lifts, Maker, Terms, check};
use crate::domain::{
    canon::Kind,
    policy::{Policy, Tool, argument::Argument},
    verdict::Risk,
};

/// How long an offered grant is good for.
const TTL: Duration = Duration::from_secs(3_600);
/// How many calls it lets through.
const USES: u32 = 10;
/// A text that names something, an order or a customer, is no longer than this.
const LONGEST_NAME: usize = 64;

/// A grant that can be taken with an approve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// What it lets through.
    pub scope: OfferScope,
    /// The same as a condition.
    pub when: String,
    /// How long it would be good.
    pub ttl: Duration,
    /// How many calls it would let through.
    pub max_uses: u32,
}

/// How wide an offered grant is, the narrowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfferScope {
    /// Exactly these arguments again.
    SameArguments,
    /// Anything for the same recipients, hosts, places and things, in no larger amounts.
    SameTarget,
    /// Every call of the tool that the same one thing asks about.
    Everything,
}

impl OfferScope {
    /// The word for it in answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SameArguments => "same_arguments",
            Self::SameTarget => "same_target",
            Self::Everything => "everything",
        }
    }
}

/// What `maker` may grant who sees a call of `tool` with these arguments, which `lifts` asked
/// about.
pub fn offers(
    policy: &Policy,
    tool: &Tool,
    lifts: &Lifts,
    args: &Map<String, Value>,
    resolved: &Map<String, Value>,
    maker: &Maker,
) -> Vec<Offer> {
    let terms = Terms { lifts: lifts.clone(), ttl: TTL, max_uses: USES };
    if lifts.is_empty() || check(policy, tool, &terms, maker).is_err() {
        return Vec::new();
    }
    // Where two things asked, nobody has seen what each of them alone asks about.
    let asked_by_one = lifts.rules.len() + usize::from(lifts.default) == 1;
    let everything = (asked_by_one && tool.risk != Risk::Destructive).then(|| "true".to_owned());
    let conditions = [
        (OfferScope::SameArguments, same_arguments(tool, args, resolved)),
        (OfferScope::SameTarget, same_target(tool, args, resolved)),
        (OfferScope::Everything, everything),
    ];
    let mut offers: Vec<Offer> = Vec::new();
    for (scope, when) in conditions {
        let Some(when) = when else { continue };
        let known = offers.iter().any(|offer| offer.when == when);
        if !known && policy.grant_condition(tool, &when).is_ok() {
            offers.push(Offer { scope, when, ttl: TTL, max_uses: USES });
        }
    }
    offers
}

/// True of these arguments alone; `None` where that cannot be said.
fn same_arguments(tool: &Tool, args: &Map<String, Value>, resolved: &Map<String, Value>) -> Option<String> {
    if tool.arguments.iter().any(|argument| argument.name.starts_with('/')) {
        return None;
    }
    let mut parts = Vec::new();
    for name in tool.schema.properties() {
        let replaced = kind_of(tool, &name).filter(|argument| argument.kind.replaces_raw_value());
        parts.push(match replaced {
            Some(argument) => same_resolved(argument, resolved)?,
            None => same_raw(&name, args.get(&name))?,
        });
    }
    joined(parts)
}

/// True of calls about the same recipients, hosts, places and things, in amounts that are no larger.
fn same_target(tool: &Tool, args: &Map<String, Value>, resolved: &Map<String, Value>) -> Option<String> {
    if tool.arguments.iter().any(|argument| argument.name.starts_with('/')) {
        return None;
    }
    let mut parts = Vec::new();
    let mut names_target = false;
    for name in tool.schema.properties() {
        let value = args.get(&name).filter(|value| !value.is_null());
        match kind_of(tool, &name) {
            Some(argument) if argument.kind.replaces_raw_value() => {
                parts.push(same_place(argument, resolved)?);
                names_target |= value.is_some();
            }
            Some(_) => {}
            None => match value {
                Some(Value::String(text)) if is_name(text) => {
                    parts.push(same_raw(&name, value)?);
                    names_target = true;
                }
                Some(Value::Number(number)) => parts.push(format!("{} <= {number}", property("args", &name)?)),
                // What was not sent may bring a new recipient along.
                None => parts.push(same_raw(&name, args.get(&name))?),
                Some(Value::String(_) | Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {}
            },
        }
    }
    if names_target { joined(parts) } else { None }
}

fn joined(parts: Vec<String>) -> Option<String> {
    (!parts.is_empty()).then(|| parts.join(" && "))
}

fn kind_of<'t>(tool: &'t Tool, property: &str) -> Option<&'t Argument> {
    tool.arguments.iter().find(|argument| argument.name == property)
}

/// A text that names something, rather than saying something.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= LONGEST_NAME && !text.contains(char::is_whitespace)
}

/// `of.name`, where the name can be written so.
fn property(of: &str, name: &str) -> Option<String> {
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let plain = starts_well && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    plain.then(|| format!("{of}.{name}"))
}

/// A scalar as conditions write it. JSON's escapes are CEL's as well.
fn literal(value: &Value) -> Option<String> {
    match value {
        Value::String(_) | Value::Number(_) | Value::Bool(_) => serde_json::to_string(value).ok(),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn same_raw(name: &str, value: Option<&Value>) -> Option<String> {
    let place = property("args", name)?;
    match value {
        None => Some(format!("!has({place})")),
        Some(Value::Null) => Some(format!("{place} == null")),
        Some(Value::Array(items)) => {
            let mut parts = vec![format!("size({place}) == {}", items.len())];
            for (index, item) in items.iter().enumerate() {
                parts.push(format!("{place}[{index}] == {}", literal(item)?));
            }
            joined(parts)
        }
        Some(scalar) => Some(format!("{place} == {}", literal(scalar)?)),
    }
}

/// The same value once more.
fn same_resolved(argument: &Argument, resolved: &Map<String, Value>) -> Option<String> {
    match &argument.kind {
        Kind::Url(_) => same_fields(argument, resolved, &["scheme", "host", "port", "path", "query", "fragment"]),
        Kind::Money(_) => same_fields(argument, resolved, &["minor", "currency"]),
        Kind::Email(_) => same_recipients(argument, resolved, true),
        Kind::Hostname(_) | Kind::Path(_) | Kind::Command(_) | Kind::Sql(_) | Kind::Text(_) => {
            same_place(argument, resolved)
        }
    }
}

/// Another value that leads to the same place: recipients, a host, a file, no more money.
fn same_place(argument: &Argument, resolved: &Map<String, Value>) -> Option<String> {
    match &argument.kind {
        Kind::Path(_) => same_fields(argument, resolved, &["path"]),
        Kind::Url(_) => same_fields(argument, resolved, &["scheme", "host", "port"]),
        Kind::Hostname(_) => same_fields(argument, resolved, &["host"]),
        Kind::Email(_) => same_recipients(argument, resolved, false),
        Kind::Money(_) => {
            let place = property("resolved", &argument.name)?;
            let Some(money) = resolved.get(&argument.name) else { return Some(format!("!has({place})")) };
            let currency = same_fields(argument, resolved, &["currency"])?;
            Some(format!("{place}.minor <= {} && {currency}", literal(money.get("minor")?)?))
        }
        // What a program does cannot be told from parts of its text.
        Kind::Command(_) | Kind::Sql(_) | Kind::Text(_) => None,
    }
}

fn same_fields(argument: &Argument, resolved: &Map<String, Value>, fields: &[&str]) -> Option<String> {
    let place = property("resolved", &argument.name)?;
    let Some(found) = resolved.get(&argument.name) else { return Some(format!("!has({place})")) };
    let fields = fields.iter().map(|field| Some(format!("{place}.{field} == {}", literal(found.get(field)?)?)));
    joined(fields.collect::<Option<_>>()?)
}

fn same_recipients(argument: &Argument, resolved: &Map<String, Value>, as_many: bool) -> Option<String> {
    let place = property("resolved", &argument.name)?;
    let Some(found) = resolved.get(&argument.name) else { return Some(format!("!has({place})")) };
    let recipients = found.as_array()?;
    if recipients.is_empty() {
        return Some(format!("size({place}) == 0"));
    }
    let addresses = recipients.iter().map(|recipient| literal(recipient.get("address")?));
    let addresses: BTreeSet<String> = addresses.collect::<Option<_>>()?;
    let listed = addresses.into_iter().collect::<Vec<_>>().join(", ");
    let count = if as_many { format!("== {}", recipients.len()) } else { "> 0".to_owned() };
    Some(format!("size({place}) {count} && {place}.all(r, r.address in [{listed}])"))
}
