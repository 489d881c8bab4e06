//! Conditions of rules: CEL, checked and bounded when the policy is loaded, total when evaluated.

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

/// A compiled condition.
#[derive(Debug)]
pub struct Condition {}
