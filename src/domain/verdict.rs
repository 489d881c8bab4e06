//! The two ordered scales of the policy: what a tool can do to the world, and what the policy says to a call.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// What the policy says to one call, from the loosest to the strictest; the order of the variants is that order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The call may run.
    Allow,
    /// The call may run, and its whole input is kept.
    AllowAudited,
    /// The call may run once people have approved it.
    RequireApproval,
    /// The call may not run.
    Deny,
}

impl Verdict {
    /// Every verdict, from the loosest to the strictest.
    pub const ALL: [Self; 4] = [Self::Allow, Self::AllowAudited, Self::RequireApproval, Self::Deny];

    /// The word for it in policies, answers and the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::AllowAudited => "allow_audited",
            Self::RequireApproval => "require_approval",
            Self::Deny => "deny",
        }
    }
}

/// What a tool can do to the world, from the mildest to the gravest; the order of the variants is that order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// It observes.
    Read,
    /// It changes something locally and reversibly.
    Draft,
    /// Its effect leaves the system.
    Send,
    /// It destroys.
    Destructive,
}

impl Risk {
    /// Every risk class, from the mildest to the gravest.
    pub const ALL: [Self; 4] = [Self::Read, Self::Draft, Self::Send, Self::Destructive];

    /// The word for it in policies, answers and the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Draft => "draft",
            Self::Send => "send",
            Self::Destructive => "destructive",
        }
    }

    /// Whether what such a tool does can be undone.
    pub const fn is_reversible(self) -> bool {
        match self {
            Self::Read | Self::Draft => true,
            Self::Send | Self::Destructive => false,
        }
    }

    /// The verdict on a tool of this class when nothing else in the policy speaks.
    pub const fn built_in_default(self) -> Verdict {
        match self {
            Self::Read => Verdict::Allow,
            Self::Draft => Verdict::AllowAudited,
            Self::Send | Self::Destructive => Verdict::RequireApproval,
        }
    }
}

/// A word that names no verdict or no risk class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such word")]
pub struct UnknownWord;

impl FromStr for Verdict {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        Self::ALL.into_iter().find(|verdict| verdict.as_str() == word).ok_or(UnknownWord)
    }
}

impl FromStr for Risk {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        Self::ALL.into_iter().find(|risk| risk.as_str() == word).ok_or(UnknownWord)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
