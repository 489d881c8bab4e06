//! What the decision needs to know beside policy and call. Absent is not empty: what reads an absent fact fails.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{approval::requirement::Requirement, identity::ReviewerDirectory, ids::ApprovalId};

/// Facts for `judge`: gathered before the decision, without locks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// The agent is paused: it may use no tool.
    pub agent_paused: bool,
    /// The run, when it was gathered.
    pub run: Option<RunFacts>,
}

/// What is known of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunFacts {
    /// The run was ended or stopped: it may use no tool.
    pub ended: bool,
    /// What conditions read as `run`.
    pub value: Value,
}

/// Facts for `settle`: read under row locks in the transaction that records the decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SettleFacts {
    /// A reviewer denied the same call in this run and has not lifted it.
    pub standing_denial: Option<StandingDenial>,
    /// Approvals of this run that wait for a human.
    pub open_in_run: u32,
    /// Approvals of this agent that wait for a human.
    pub open_of_agent: u32,
    /// Calls of this tool in this run that reviewers denied.
    pub refused_of_tool_in_run: u32,
    /// Who may vote.
    pub voters: Voters,
}

/// A reviewer's denial that still stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandingDenial {
    /// The approval that was denied.
    pub approval: ApprovalId,
    /// What the reviewer wrote to the agent.
    pub message_to_agent: Option<String>,
}

/// How many configured reviewers there are, and in which groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Voters {
    /// All reviewers.
    pub total: u32,
    /// Reviewers of each group that has any.
    pub by_group: BTreeMap<String, u32>,
}

impl Voters {
    /// Counts the directory.
    pub fn of(directory: &ReviewerDirectory) -> Self {
        let mut voters = Self::default();
        for reviewer in directory.iter() {
            voters.total = voters.total.saturating_add(1);
            for group in &reviewer.groups {
                let count = voters.by_group.entry(group.to_string()).or_default();
                *count = count.saturating_add(1);
            }
        }
        voters
    }

    /// Whether these reviewers could ever meet `requirement`.
    pub fn could_meet(&self, requirement: &Requirement) -> bool {
        requirement.anyone <= self.total
            && requirement
                .groups
                .iter()
                .all(|(group, count)| self.by_group.get(group).copied().unwrap_or_default() >= *count)
    }
}
