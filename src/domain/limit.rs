//! Limits on what one tool does in a sliding window: how often it is called, and what the calls add up to.
//!
//! Pure: what was counted comes in as a fact, read under locks. What is not known, or cannot be told exactly, counts
//! as exceeded.

use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{
    call::{Arguments, CallKey},
    canon::json,
    policy::Tool,
    run::RunKey,
    time::Timestamp,
    verdict::Verdict,
};

pub mod amount;

use amount::Amount;

/// The longest window, and so how long uses are kept.
pub const LONGEST_WINDOW: Duration = Duration::from_secs(31 * 86_400);

/// A limit of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Unique in the whole policy, among the ids of rules too.
    pub id: String,
    /// Whose calls are counted together.
    pub per: Per,
    /// How far back calls count.
    pub window: Duration,
    /// The most calls.
    pub max_calls: Option<u32>,
    /// The most that they may add up to.
    pub max_sum: Option<MaxSum>,
    /// What a call is that would be one too many.
    pub on_exceed: OnExceed,
}

/// The most that an argument of all calls may add up to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaxSum {
    /// The property that is added up.
    pub argument: String,
    /// Whether it is of the kind `money`: each currency then has a sum of its own.
    pub money: bool,
    /// The greatest sum that is no excess; in whole units of the currency for money.
    pub value: Amount,
    /// The property by whose value sums are kept apart.
    pub by: Option<String>,
}

/// Whose calls count together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// Those of one agent, in all of its runs.
    Agent,
    /// Those of one family of runs.
    Run,
    /// Everybody's.
    Tool,
}

impl Per {
    /// Every scope.
    pub const ALL: [Self; 3] = [Self::Agent, Self::Run, Self::Tool];

    /// The word for it in policies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Run => "run",
            Self::Tool => "tool",
        }
    }
}

impl fmt::Display for Per {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Text that is none of the words that are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("none of the words that are known here")]
pub struct UnknownWord;

impl FromStr for Per {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|per| per.as_str() == text).ok_or(UnknownWord)
    }
}

/// What becomes of a call over the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExceed {
    /// A human is asked.
    RequireApproval,
    /// It is denied.
    Deny,
}

impl OnExceed {
    /// Both.
    pub const ALL: [Self; 2] = [Self::RequireApproval, Self::Deny];

    /// The word for it in policies.
    pub const fn as_str(self) -> &'static str {
        self.verdict().as_str()
    }

    /// The least strict verdict on a call over the limit.
    pub const fn verdict(self) -> Verdict {
        match self {
            Self::RequireApproval => Verdict::RequireApproval,
            Self::Deny => Verdict::Deny,
        }
    }
}

impl fmt::Display for OnExceed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for OnExceed {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|word| word.as_str() == text).ok_or(UnknownWord)
    }
}

/// What one call is to one limit: where it counts, and with how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measure {
    /// The limit.
    pub limit: String,
    /// Whose calls count together: the agent, the head of the run's family, or nothing.
    pub key: String,
    /// The first moment of the window that a call at the moment of measuring falls into.
    pub since: Timestamp,
    /// Which of the limit's sums it adds to; empty where there is one. A hash: values of arguments are not kept.
    pub group: String,
    /// What it adds; `None` where the limit has no sum, or the argument is no number.
    pub amount: Option<Amount>,
}

/// What was counted in the window, this very call left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// How many calls.
    pub calls: u64,
    /// What those of the call's group add up to; `None` when it cannot be told exactly.
    pub sum: Option<Amount>,
    /// What the call would add; `None` when it is no number, or the limit has no sum.
    pub adds: Option<Amount>,
}

impl Limit {
    /// What a call is to this limit.
    pub fn measure(
        &self,
        call: &CallKey,
        head: &RunKey,
        args: &Arguments,
        resolved: &Map<String, Value>,
        now: Timestamp,
    ) -> Measure {
        let key = match self.per {
            Per::Agent => call.agent.to_string(),
            Per::Run => format!("{}/{}", head.agent, head.run),
            Per::Tool => String::new(),
        };
        let (group, amount) = match &self.max_sum {
            Some(sum) => (sum.group(args, resolved), sum.amount(args, resolved)),
            None => (String::new(), None),
        };
        Measure { limit: self.id.clone(), key, since: now.minus(self.window), group, amount }
    }

    /// Whether one more call is too many. A fact that was not gathered is no proof that it is not.
    pub fn is_exceeded(&self, tally: Option<&Tally>) -> bool {
        let Some(tally) = tally else { return true };
        let by_calls = self.max_calls.is_some_and(|most| tally.calls >= u64::from(most));
        let by_sum = self.max_sum.as_ref().is_some_and(|most| {
            let sum = tally.sum.zip(tally.adds).and_then(|(sum, adds)| sum.plus(adds));
            sum.and_then(|sum| sum.exceeds(most.value)).unwrap_or(true)
        });
        by_calls || by_sum
    }
}

impl MaxSum {
    fn amount(&self, args: &Arguments, resolved: &Map<String, Value>) -> Option<Amount> {
        let amount = if self.money {
            Amount::parse(resolved.get(&self.argument)?.get("amount")?.as_str()?)
        } else {
            Amount::of(args.value().get(&self.argument)?)
        };
        // A sum that can go down again is no limit.
        amount.filter(|amount| !amount.is_negative())
    }

    fn group(&self, args: &Arguments, resolved: &Map<String, Value>) -> String {
        let currency = resolved.get(&self.argument).filter(|_| self.money).and_then(|money| money.get("currency"));
        let by = self.by.as_ref().map(|by| args.value().get(by));
        if currency.is_none() && by.is_none() {
            return String::new();
        }
        // In canonical form, so that 1 and 1.0 are one value.
        let canonical = json::canonical(&(currency, by.flatten())).unwrap_or_default();
        hex::encode(Sha256::digest(canonical))
    }
}

/// The first limit by id that a call exceeds, of those that deny it.
pub fn denying<'t>(tool: &'t Tool, tallies: &BTreeMap<String, Tally>) -> Option<&'t Limit> {
    let exceeded = tool.limits.iter().filter(|limit| limit.is_exceeded(tallies.get(&limit.id)));
    exceeded.filter(|limit| limit.on_exceed == OnExceed::Deny).min_by_key(|limit| &limit.id)
}
