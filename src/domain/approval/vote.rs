//! One reviewer's approve of one approval.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::domain::{identity::ReviewerName, time::Timestamp};

/// An approve, with the voter's groups as they were at that moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    /// Who approved.
    pub reviewer: ReviewerName,
    /// The groups the voter was in.
    pub groups: BTreeSet<String>,
    /// When.
    pub at: Timestamp,
}
