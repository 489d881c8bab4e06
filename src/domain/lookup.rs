//! What the service itself finds out about a held call: the requests to make, and what came of them. It makes none.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::canon::json;

/// The most bytes of one shown value, as canonical JSON: a reviewer reads it.
const LONGEST_VALUE: usize = 4 * 1024;

/// One look at the world, ready to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct LookupRequest {
    /// The lookup's name in the policy.
    pub name: String,
    /// The whole address. Its host is the policy's; placeholders are filled in and cannot have changed its structure.
    pub url: String,
    /// What is sent as JSON to a dry run; `None` for a plain GET.
    pub dry_run: Option<Value>,
    /// How long it may take in all.
    pub timeout: Duration,
    /// The reference of the secret that is sent as bearer token.
    pub credential: Option<String>,
    /// Whether it may go to a private, loopback or link-local address.
    pub allow_private: bool,
    /// What to show: JSON Pointers (RFC 6901) into the answer, by name.
    pub show: BTreeMap<String, String>,
}

/// A lookup that is made, or that failed before it could be.
pub type Prepared = Result<LookupRequest, (String, LookupFailure)>;

/// What a lookup found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Looked {
    /// The values to show, by name.
    Answered(BTreeMap<String, Value>),
    /// Nothing.
    Failed(LookupFailure),
}

/// Why a lookup found nothing, as a stable word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LookupFailure {
    /// An argument is empty, `.`, `..`, or would change the structure of the address.
    UnfitArgument,
    /// The secret it is to send is not at hand.
    NoCredential,
    /// The host has a private, loopback, link-local or special address, and the lookup may not go there.
    PrivateAddress,
    /// Nobody answered at the address.
    Unreachable,
    /// The answer did not come in time.
    TimedOut,
    /// The answer sends elsewhere, which is not followed.
    Redirected,
    /// The answer is no success.
    BadStatus,
    /// The answer is longer than any that is read.
    TooLong,
    /// The answer is not strict JSON.
    NotJson,
    /// The answer lacks a value to show, or has one that is too long to be shown.
    NotShowable,
}

impl LookupFailure {
    /// The word for it in reviews, answers and the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UnfitArgument => "unfit_argument",
            Self::NoCredential => "no_credential",
            Self::PrivateAddress => "private_address",
            Self::Unreachable => "unreachable",
            Self::TimedOut => "timed_out",
            Self::Redirected => "redirected",
            Self::BadStatus => "bad_status",
            Self::TooLong => "too_long",
            Self::NotJson => "not_json",
            Self::NotShowable => "not_showable",
        }
    }
}

impl fmt::Display for LookupFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl LookupRequest {
    /// What an answer with this body shows.
    pub fn read(&self, body: &[u8]) -> Looked {
        let Ok(answer) = json::parse(body) else { return Looked::Failed(LookupFailure::NotJson) };
        let shown = self.show.iter().map(|(name, pointer)| {
            let value = answer.pointer(pointer)?;
            let fits = json::canonical(value).is_ok_and(|text| text.len() <= LONGEST_VALUE);
            fits.then(|| (name.clone(), value.clone()))
        });
        shown.collect::<Option<_>>().map_or(Looked::Failed(LookupFailure::NotShowable), Looked::Answered)
    }
}

/// What the lookups of one call found, by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LookupResults(BTreeMap<String, Looked>);

impl LookupResults {
    /// What the lookup of this name found.
    pub fn get(&self, name: &str) -> Option<&Looked> {
        self.0.get(name)
    }

    /// What a lookup showed under a name of its own.
    pub fn shown(&self, lookup: &str, name: &str) -> Option<&Value> {
        match self.get(lookup)? {
            Looked::Answered(shown) => shown.get(name),
            Looked::Failed(_) => None,
        }
    }
}

impl IntoIterator for LookupResults {
    type Item = (String, Looked);
    type IntoIter = std::collections::btree_map::IntoIter<String, Looked>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl FromIterator<(String, Looked)> for LookupResults {
    fn from_iter<I: IntoIterator<Item = (String, Looked)>>(found: I) -> Self {
        Self(found.into_iter().collect())
    }
}

/// Why what is found now does not carry a claim, if it does not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupObjection {
    /// A lookup failed.
    #[error("the lookup `{lookup}` failed ({failure})")]
    Failed {
        /// Which.
        lookup: String,
        /// Why.
        failure: LookupFailure,
    },
    /// A value is not the one that the reviewers saw.
    #[error("`{name}` of the lookup `{lookup}` is not what it was when the call was held")]
    Changed {
        /// Which.
        lookup: String,
        /// The value's name.
        name: String,
    },
}

impl LookupObjection {
    /// The word for it in answers and the log.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Failed { .. } => "lookup_failed",
            Self::Changed { .. } => "lookup_changed",
        }
    }
}

/// Compares one lookup of today with what was found when the call was held. A value that must be unchanged and was not
/// seen then is a changed one: nobody approved it.
///
/// # Errors
/// The objection.
pub fn unchanged_since(
    lookup: &str,
    unchanged: &BTreeSet<String>,
    then: &LookupResults,
    now: &LookupResults,
) -> Result<(), LookupObjection> {
    let failed = |failure| Err(LookupObjection::Failed { lookup: lookup.to_owned(), failure });
    match now.get(lookup) {
        Some(Looked::Answered(_)) => {}
        Some(Looked::Failed(failure)) => return failed(*failure),
        None => return failed(LookupFailure::Unreachable),
    }
    let differs = |name: &&String| {
        let seen = then.shown(lookup, name);
        seen.is_none() || seen != now.shown(lookup, name)
    };
    match unchanged.iter().find(differs) {
        Some(name) => Err(LookupObjection::Changed { lookup: lookup.to_owned(), name: name.clone() }),
        None => Ok(()),
    }
}
