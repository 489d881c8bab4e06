//! The reviewers who ask for a call themselves: they may deny it, and not approve it.

use std::collections::BTreeSet;

use crate::domain::{
    identity::{AgentId, ReviewerDirectory, ReviewerName},
    policy::Policy,
};

/// Those who own an agent that asks, or on whose behalf it asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requesters(BTreeSet<ReviewerName>);

impl Requesters {
    /// Who in `directory` owns one of `agents` (the one that calls, and those above it), or is whom their run works for.
    pub fn of<'a>(
        policy: &Policy,
        directory: &ReviewerDirectory,
        agents: impl IntoIterator<Item = &'a AgentId>,
        on_behalf_of: Option<&str>,
    ) -> Self {
        let agents = agents.into_iter().filter_map(|agent| policy.agent(agent.as_str()));
        let identities: Vec<&str> =
            agents.flat_map(|agent| agent.owners.iter().map(String::as_str)).chain(on_behalf_of).collect();
        let asks = directory.iter().filter(|person| identities.iter().any(|identity| person.is_known_as(identity)));
        Self(asks.map(|person| person.name.clone()).collect())
    }

    /// Whether `reviewer` is one of them.
    pub fn contains(&self, reviewer: &ReviewerName) -> bool {
        self.0.contains(reviewer)
    }
}
