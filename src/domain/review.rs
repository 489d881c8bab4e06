//! What a reviewer is shown of a held call: rendered once by code, from the arguments and the service's own lookups,
//! never from the model's words. It is stored as shown, and its hash is what a decision is about.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{
    approval::requirement::Requirement,
    audit::{chain::Hash, payload::PayloadDigest},
    canon::json,
    decision::Judgement,
    lookup::{Looked, LookupResults},
    policy::{Tool, lookup::Method},
    run::{Run, RunKey},
    subject::Subject,
    time::Timestamp,
    verdict::Risk,
};

pub mod alike;
pub mod difference;
mod differing;
pub mod fact;
mod visible;

pub use visible::visible;

/// Everything that a review is rendered from.
#[derive(Clone, Copy)]
pub struct Held<'a> {
    /// The tool.
    pub tool: &'a Tool,
    /// The arguments.
    pub args: &'a Value,
    /// What policy said of the call.
    pub judgement: &'a Judgement,
    /// What must be met.
    pub requirement: &'a Requirement,
    /// The run it belongs to.
    pub run: &'a Run,
    /// What the tool's lookups found.
    pub lookups: &'a LookupResults,
    /// Until when people may decide, and the call be claimed.
    pub expires_at: Timestamp,
}

/// What a reviewer is shown of one held call.
///
/// Its canonical JSON is what is stored and hashed, so a field that is added must be left out where it is empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    /// The tool.
    pub tool: String,
    /// What it can do to the world.
    pub risk: Risk,
    /// Whether that can be undone.
    pub reversible: bool,
    /// Whether running it twice has the effect of running it once.
    pub idempotent: bool,
    /// Why a human is asked: the deciding rule's reason, or the service's own.
    pub reason: String,
    /// The rules that asked.
    pub asked_by: Vec<AskingRule>,
    /// Every value of the arguments, in the canonical order of their names.
    pub arguments: Vec<ShownValue>,
    /// What arguments with a kind stand for, where that is not what stands in them.
    pub resolved: Vec<ShownValue>,
    /// What the call is about.
    pub subjects: Vec<Subject>,
    /// What the service itself found out.
    pub lookups: Vec<ShownLookup>,
    /// Who asks: the run of the call, and the runs above it, the nearest first.
    pub chain: Vec<RunKey>,
    /// Whom the run works for.
    pub on_behalf_of: Option<String>,
    /// Who must approve.
    pub approvers: Approvers,
    /// Until when.
    pub expires_at: Timestamp,
}

/// A rule that asked for a human.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskingRule {
    /// Its id.
    pub rule: String,
    /// Its reason.
    pub reason: String,
}

/// One value, deceiving characters made visible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownValue {
    /// Where it stands: a JSON Pointer (RFC 6901).
    pub at: String,
    /// Its JSON type.
    pub kind: String,
    /// The value.
    pub shown: String,
}

/// What one lookup found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownLookup {
    /// Its name.
    pub name: String,
    /// It is a dry run: what would come of the call, not what is.
    pub preview: bool,
    /// Why it found nothing, when it failed.
    pub failed: Option<String>,
    /// The values.
    pub values: Vec<ShownValue>,
}

/// Who must approve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approvers {
    /// How many of each named group.
    pub groups: BTreeMap<String, u32>,
    /// How many people in all.
    pub need: u32,
    /// How many seconds after the last approve the call cannot be claimed yet.
    pub grace_seconds: u64,
    /// Whether an approve must be confirmed.
    pub double_confirm: bool,
}

/// SHA-256 of the canonical JSON of a review: what was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReviewHash(Hash);

/// The stored review of an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReviewRef {
    /// The payload that holds it.
    pub payload: PayloadDigest,
    /// Its hash, which decisions may name.
    pub hash: ReviewHash,
}

impl ReviewHash {
    /// The hash of a review's canonical text.
    pub fn of(text: &str) -> Self {
        Self(Sha256::digest(text).into())
    }

    /// The hash with these bytes.
    pub const fn from_bytes(bytes: Hash) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &Hash {
        &self.0
    }
}

/// `sha256:` and 64 hex digits.
impl fmt::Display for ReviewHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex::encode(self.0))
    }
}

impl Review {
    /// Renders a held call.
    pub fn of(held: Held<'_>) -> Self {
        let Held { tool, args, judgement, requirement, run, lookups, expires_at } = held;
        let none = Map::new();
        let args_map = args.as_object().unwrap_or(&none);
        let mut arguments = Vec::new();
        for (name, value) in args_map {
            render(&pointer(name), value, &mut arguments);
        }
        let mut resolved = Vec::new();
        for (name, value) in &judgement.resolved {
            differing::render(name, args_map, value, &mut resolved);
        }
        let subjects = tool.subjects(args).into_iter();
        Self {
            tool: tool.name.clone(),
            risk: tool.risk,
            reversible: tool.risk.is_reversible(),
            idempotent: tool.idempotent,
            reason: judgement.reason.text.clone(),
            asked_by: judgement.asked_by.iter().map(|rule| asking(tool, rule)).collect(),
            arguments,
            resolved,
            subjects: subjects.map(|subject| Subject { value: visible(&subject.value), ..subject }).collect(),
            lookups: tool
                .lookups
                .iter()
                .map(|lookup| shown_lookup(&lookup.name, lookup.method, lookups.get(&lookup.name)))
                .collect(),
            chain: std::iter::once(&run.key).chain(&run.ancestors).cloned().collect(),
            on_behalf_of: run.on_behalf_of.as_deref().map(visible),
            approvers: Approvers {
                groups: requirement.groups.clone(),
                need: requirement.needed(),
                grace_seconds: requirement.grace.as_secs(),
                double_confirm: requirement.double_confirm,
            },
            expires_at,
        }
    }

    /// Its canonical text: what is stored and hashed.
    ///
    /// # Errors
    /// Never for a review that was rendered.
    pub fn canonical(&self) -> Result<String, serde_json::Error> {
        let bytes = json::canonical(self)?;
        String::from_utf8(bytes).map_err(serde::ser::Error::custom)
    }

    /// Reads that text.
    pub fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

fn asking(tool: &Tool, id: &str) -> AskingRule {
    let rule = tool.rules.iter().chain(&tool.floors).find(|rule| rule.id == id);
    AskingRule { rule: id.to_owned(), reason: rule.map(|rule| rule.reason.clone()).unwrap_or_default() }
}

fn shown_lookup(name: &str, method: Method, looked: Option<&Looked>) -> ShownLookup {
    let mut shown =
        ShownLookup { name: name.to_owned(), preview: method == Method::Post, failed: None, values: Vec::new() };
    match looked {
        Some(Looked::Answered(values)) => {
            for (name, value) in values {
                render(&pointer(name), value, &mut shown.values);
            }
        }
        Some(Looked::Failed(failure)) => shown.failed = Some(failure.to_string()),
        None => shown.failed = Some("not_made".to_owned()),
    }
    shown
}

/// Shows every value within `value`, which stands at `at`; the items of a list each apart.
fn render(at: &str, value: &Value, shown: &mut Vec<ShownValue>) {
    let (kind, text) = match value {
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                render(&format!("{at}/{index}"), item, shown);
            }
            return;
        }
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                render(&format!("{at}{}", pointer(name)), member, shown);
            }
            return;
        }
        Value::Array(_) => ("array", "[]".to_owned()),
        Value::Object(_) => ("object", "{}".to_owned()),
        Value::Null => ("null", "null".to_owned()),
        Value::Bool(value) => ("boolean", value.to_string()),
        Value::Number(number) => ("number", number.to_string()),
        Value::String(text) => ("string", visible(text)),
    };
    shown.push(ShownValue { at: visible(at), kind: kind.to_owned(), shown: text });
}

/// The pointer to a member of this name.
fn pointer(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}
