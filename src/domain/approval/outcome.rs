//! What came of an executed call.

use serde::{Deserialize, Serialize};

use crate::domain::{audit::payload::PayloadDigest, identity::ReviewerName, time::Timestamp};

/// What the stack reports of a call it claimed or was allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportedStatus {
    /// It ran and did what it was asked.
    Succeeded,
    /// It ran, or began to, and failed.
    Failed,
    /// It never began: nothing happened.
    NotStarted,
}

/// A report as recorded; what the stack wrote in it is a payload beside the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// What the stack says happened.
    pub status: ReportedStatus,
    /// When it was recorded.
    pub at: Timestamp,
    /// `detail` and `result` of the report, when there were any.
    pub payload: Option<PayloadDigest>,
}

/// How a call whose outcome nobody reported was settled by a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settlement {
    /// What the person found.
    pub status: SettledStatus,
    /// Who looked.
    pub by: ReviewerName,
    /// When.
    pub at: Timestamp,
}

/// What a person can find of a call with an unknown outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettledStatus {
    /// It had run.
    Succeeded,
    /// It had failed, or had never run.
    Failed,
}

/// Where an executed call stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Outcome {
    /// Claimed, and no report yet.
    Awaited,
    /// The stack reported within the lease.
    Reported(Report),
    /// The lease ended without a report.
    Unknown {
        /// When the lease ended.
        since: Timestamp,
        /// A report that came after that.
        late: Option<Report>,
        /// What a person found.
        settled: Option<Settlement>,
    },
}

impl Outcome {
    /// The word for it in answers: none while it is awaited.
    pub const fn word(&self) -> Option<&'static str> {
        match self {
            Self::Awaited => None,
            Self::Reported(report) => Some(report.status.as_str()),
            Self::Unknown { settled: Some(settlement), .. } => Some(settlement.status.as_str()),
            Self::Unknown { settled: None, .. } => Some("unknown"),
        }
    }

    /// What the stack wrote in its report.
    pub const fn payload(&self) -> Option<PayloadDigest> {
        match self {
            Self::Awaited | Self::Unknown { late: None, .. } => None,
            Self::Reported(report) | Self::Unknown { late: Some(report), .. } => report.payload,
        }
    }
}

impl ReportedStatus {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::NotStarted => "not_started",
        }
    }
}

impl SettledStatus {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }
    }
}
