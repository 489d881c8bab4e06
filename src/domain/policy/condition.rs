//! Conditions of rules: CEL, checked and bounded when the policy is loaded, total when evaluated.
//!
//! The `cel` crate parses; what its tree means is decided here, because its evaluator absorbs errors, has no limits
//! and compares values of different types without complaint. [`Condition::compile`] checks every name and type it
//! can and bounds the work; [`Condition::evaluate`] then reads the call's JSON as it is. Conditions are evaluated
//! from left to right: what is reached and fails makes the rule *failed*, what `||`, `&&` and `?:` skip does not.
//!
//! Where the language differs from CEL, it is stricter, or does not depend on how a number happens to be written:
//! - `==` and `in` between values of different types fail instead of being false, and so do comparisons with null,
//!   but for `x == null` with the literal;
//! - numbers are `int` when whole, else `double`; `+ - *` and comparisons take both together; `/` is a division of
//!   integers only where both sides are sure to be integers; no result is infinite;
//! - `has(x.y)` tells whether a property is there, be it null; only the last step of the path may be missing;
//! - there are no unsigned integers, bytes, maps written out, type conversions, `map` or `filter`;
//! - `matches` and `glob` match the whole text; `*` in a glob stops at `/` or, in the resolved name of a host or of
//!   an address's domain, at `.`, and `**` stops nowhere.

mod check;
mod evaluate;
mod known;
mod parse;
mod pattern;

use std::{collections::BTreeSet, fmt};

use serde_json::{Map, Value};

use crate::domain::{
    canon::Shape,
    policy::schema::{Place, Step},
    time::Timestamp,
};

/// Why a condition could not be evaluated. It names no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// A property, key or index that is reached is not there (or null where a value is needed).
    MissingValue,
    /// An operator or function met a value of a type it does not take.
    WrongType,
    /// Integer overflow, or a division by zero.
    Overflow,
    /// The condition as a whole is not a boolean.
    NotBoolean,
    /// A list is longer than the bound its cost was computed with.
    ListTooLong,
    /// Anything else that went wrong inside the evaluator.
    Internal,
}

/// What a rule's condition came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleState {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// It could not be evaluated; it counts as false in a rule that loosens and as true in every other.
    Failed(Failure),
}

/// What a condition may read, and what is known of it when the policy is loaded.
pub trait Scope {
    /// What the tool's schema says about a place in its arguments; an empty path is the arguments as a whole.
    fn argument(&self, path: &[Step]) -> Place;
    /// The shape of `resolved.NAME`, or `None` when no such argument is declared.
    fn resolved(&self, argument: &str) -> Option<Shape>;
    /// Whether the resolved form of this argument (a name, or a JSON Pointer with `*` for each item) replaces the
    /// raw value.
    fn replaced_by_resolved(&self, argument: &str) -> bool;
    /// The constant `vars.NAME`.
    fn var(&self, name: &str) -> Option<&Value>;
    /// Whether the rule's verdict is looser than the tool's default.
    fn loosens(&self) -> bool;
    /// Whether the tool admits arguments that its schema does not declare.
    fn tool_open(&self) -> bool;
}

/// Something wrong with a condition, found when the policy is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionFault {
    /// Where in the source, as a 0-based offset in characters; `None` when it is the condition as a whole.
    pub column: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// How to mend it.
    pub hint: String,
}

impl ConditionFault {
    fn whole(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { column: None, message: message.into(), hint: hint.into() }
    }
}

/// What a condition reads, whether or not an evaluation reaches it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Places in the raw arguments, each once, in the order of their first mention.
    pub arguments: Vec<Vec<Step>>,
    /// The declared arguments whose resolved form it reads.
    pub resolved: BTreeSet<String>,
    /// Whether it reads `agent`.
    pub agent: bool,
    /// Whether it reads `context`.
    pub context: bool,
    /// Whether it reads `run`.
    pub run: bool,
    /// Whether it reads `now`.
    pub now: bool,
    /// Whether it asks `requested(x)`, and so needs the run's trusted request.
    pub requested: bool,
}

/// A compiled condition.
pub struct Condition {
    source: String,
    root: evaluate::Node,
    reads: Reads,
    cost: u64,
}

impl Condition {
    /// Parses, checks and bounds a condition.
    ///
    /// # Errors
    /// Every fault at once: syntax, unknown names, types that never fit, a bound that is crossed, a loosening rule
    /// that reads what it must not.
    pub fn compile(source: &str, scope: &dyn Scope) -> Result<Self, Vec<ConditionFault>> {
        let parsed = parse::parse(source)?;
        let checked = check::check(&parsed, scope)?;
        Ok(Self { source: source.to_owned(), root: checked.root, reads: checked.reads, cost: checked.cost })
    }

    /// The text it was compiled from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What it reads.
    pub fn reads(&self) -> &Reads {
        &self.reads
    }

    /// The most work an evaluation can take, in steps of about 0.1 us at worst, for bodies of up to 256 KiB.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Evaluates it. Total: whatever goes wrong is a state, and no input panics.
    pub fn evaluate(&self, inputs: &Inputs<'_>) -> RuleState {
        match evaluate::holds(&self.root, inputs) {
            Ok(true) => RuleState::True,
            Ok(false) => RuleState::False,
            Err(failure) => RuleState::Failed(failure),
        }
    }
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condition").field("source", &self.source).field("cost", &self.cost).finish_non_exhaustive()
    }
}

/// What the conditions of one call read, borrowed from the call and its facts.
pub struct Inputs<'a> {
    args: &'a Map<String, Value>,
    resolved: &'a Map<String, Value>,
    agent: &'a Value,
    context: Option<&'a Value>,
    run: Option<&'a Value>,
    now: Timestamp,
    request: Request<'a>,
}

/// The parts of [`Inputs`]. A fact that is absent was not gathered, which is not empty: what reads it fails.
pub struct InputParts<'a> {
    /// The arguments of the call, as they came.
    pub args: &'a Map<String, Value>,
    /// What the declared arguments resolved to, by the key of their declaration.
    pub resolved: &'a Map<String, Value>,
    /// `{id, labels}`, the labels being a map of texts.
    pub agent: &'a Value,
    /// The request's context, if it was gathered.
    pub context: Option<&'a Value>,
    /// `{id, labels, on_behalf_of}`, the labels being a list of texts, if it was gathered.
    pub run: Option<&'a Value>,
    /// The time of the decision.
    pub now: Timestamp,
    /// What the human asked.
    pub request: Request<'a>,
}

impl<'a> Inputs<'a> {
    /// Brings the parts together; it copies nothing.
    pub fn new(parts: InputParts<'a>) -> Self {
        let InputParts { args, resolved, agent, context, run, now, request } = parts;
        Self { args, resolved, agent, context, run, now, request }
    }
}

/// The run's trusted request, as `requested(x)` asks about it.
#[derive(Clone, Copy)]
pub enum Request<'a> {
    /// It was not gathered; `requested(x)` fails.
    NotGathered,
    /// The run has none; `requested(x)` is false.
    None,
    /// It was made; the function says whether a value stands in it as a whole token.
    Made(&'a dyn Fn(RequestedValue<'_>) -> bool),
}

/// A value that `requested(x)` looks for. Blank texts, booleans, lists and maps never come to this: they fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RequestedValue<'a> {
    /// A text that is not blank.
    Text(&'a str),
    /// A whole number.
    Int(i64),
    /// A finite number with a fraction, or too large for an integer.
    Double(f64),
}
