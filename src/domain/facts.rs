//! What the decision needs to know beside policy and call. Absent is not empty: what reads an absent fact fails.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    approval::requirement::Requirement,
    canon::path::PathFinding,
    grant::StandingGrant,
    identity::{AgentId, Reviewer, ReviewerDirectory},
    ids::ApprovalId,
    limit::Tally,
    requested::TrustedRequest,
};

/// Facts for `judge`: gathered before the decision, without locks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// The agent, or one above it, is paused: it may use no tool.
    pub agent_paused: bool,
    /// The run, when it was gathered.
    pub run: Option<RunFacts>,
    /// Where paths lead on disk, by the place of each in the arguments: a property's name, or a JSON Pointer. Only of
    /// those that must be looked up.
    #[serde(default)]
    pub paths: BTreeMap<String, PathFinding>,
}

/// What is known of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFacts {
    /// The run was ended or stopped: it may use no tool.
    pub ended: bool,
    /// The agents whose runs this one was started by: a tool must be granted to each of them as well.
    #[serde(default)]
    pub agents_above: Vec<AgentId>,
    /// What the humans asked, when it was gathered: a rule of the tool must ask for it.
    #[serde(default)]
    pub request: Option<TrustedRequest>,
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
    /// Who may vote, but for `requesters`.
    pub voters: Voters,
    /// The reviewers who ask for the call themselves, and may vote only where the requirement allows that.
    #[serde(default)]
    pub requesters: Voters,
    /// What the limits of the tool have counted, by their ids.
    pub limits: BTreeMap<String, Tally>,
    /// The grants for this run and tool, the oldest first; none for a call that its caller wants held, or that was held
    /// before.
    pub grants: Vec<StandingGrant>,
    /// The call is attached to an approval that is open already, and so opens none.
    pub joins: bool,
}

/// A reviewer's denial that still stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandingDenial {
    /// The approval that was denied.
    pub approval: ApprovalId,
    /// What the reviewer wrote to the agent.
    pub message_to_agent: Option<String>,
}

/// The configured reviewers, each by nothing but the groups he is in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Voters(Vec<BTreeSet<String>>);

impl Voters {
    /// Everybody in the directory.
    pub fn of(directory: &ReviewerDirectory) -> Self {
        Self::among(directory.iter())
    }

    /// These reviewers.
    pub fn among<'a>(reviewers: impl Iterator<Item = &'a Reviewer>) -> Self {
        let groups = |reviewer: &Reviewer| reviewer.groups.iter().map(ToString::to_string).collect();
        Self(reviewers.map(groups).collect())
    }

    /// Whether there is nobody.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The groups of each.
    pub fn iter(&self) -> impl Iterator<Item = &BTreeSet<String>> {
        self.0.iter()
    }

    /// Whether these reviewers could ever meet `requirement`, each filling one place; with the help of `requesters`, who
    /// ask themselves, only if it allows that.
    pub fn could_meet(&self, requirement: &Requirement, requesters: &Self) -> bool {
        let helping = requesters.0.iter().filter(|_| requirement.allow_self_approval);
        requirement.could_be_met_by(self.0.iter().chain(helping))
    }
}
