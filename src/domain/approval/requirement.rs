//! Who must approve a held call, and under which conditions: the strictest sum of everything that asked.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::vote::Vote;

/// Where an approve may be given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecideIn {
    /// In any channel.
    #[default]
    Any,
    /// Only on the review page.
    Web,
}

/// What must be met before a held call may run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requirement {
    /// Distinct approvers needed from each named group.
    pub groups: BTreeMap<String, u32>,
    /// Distinct approvers needed of any group, those of named groups among them.
    pub anyone: u32,
    /// How long the approval may wait and then be claimed, from its creation.
    pub ttl: Duration,
    /// How long after the last vote the call may not be claimed yet.
    pub grace: Duration,
    /// The first approve asks for a confirmation.
    pub double_confirm: bool,
    /// Where an approve may be given.
    pub decide_in: DecideIn,
}

impl Requirement {
    /// One approve by any reviewer within `ttl`: what a policy that says nothing asks for.
    pub const fn one_of_anyone(ttl: Duration) -> Self {
        Self {
            groups: BTreeMap::new(),
            anyone: 1,
            ttl,
            grace: Duration::ZERO,
            double_confirm: false,
            decide_in: DecideIn::Any,
        }
    }

    /// Both requirements at once: per group the higher number, every group, the shorter ttl, the longer grace.
    #[must_use]
    pub fn joined(mut self, other: &Self) -> Self {
        for (group, count) in &other.groups {
            let needed = self.groups.entry(group.clone()).or_default();
            *needed = (*needed).max(*count);
        }
        self.anyone = self.anyone.max(other.anyone);
        self.ttl = self.ttl.min(other.ttl);
        self.grace = self.grace.max(other.grace);
        self.double_confirm |= other.double_confirm;
        self.decide_in = self.decide_in.max(other.decide_in);
        self
    }

    /// How many approvals it takes in all.
    pub fn needed(&self) -> u32 {
        self.groups.values().sum::<u32>().max(self.anyone)
    }

    /// Whether it asks for more than `earlier` does, in people or in care. Time to live is no part of that.
    pub fn is_higher_than(&self, earlier: &Self) -> bool {
        self.anyone > earlier.anyone.max(earlier.groups.values().sum())
            || self.groups.iter().any(|(group, count)| *count > earlier.groups.get(group).copied().unwrap_or_default())
            || self.grace > earlier.grace
            || self.double_confirm && !earlier.double_confirm
            || self.decide_in > earlier.decide_in
    }

    /// Whether these votes, one of each person, meet it.
    ///
    /// A vote fills one place of a named group its voter was in; whoever is in several groups fills the place that
    /// leaves the others fillable, so the votes are matched to places, not counted per group.
    pub fn is_met_by(&self, votes: &[Vote]) -> bool {
        self.is_met_by_people_in(votes.iter().map(|vote| &vote.groups))
    }

    /// Whether people who are in these groups could meet it, if all of them approved.
    pub fn is_met_by_people_in<'a>(&self, groups: impl Iterator<Item = &'a BTreeSet<String>>) -> bool {
        let voters: Vec<_> = groups.collect();
        let places: Vec<&str> =
            self.groups.iter().flat_map(|(group, count)| (0..*count).map(move |_| group.as_str())).collect();
        let mut filled: Vec<Option<usize>> = vec![None; places.len()];
        for voter in 0..voters.len() {
            let mut tried = vec![false; places.len()];
            seat(voter, &voters, &places, &mut filled, &mut tried);
        }
        let approvals = u32::try_from(voters.len()).unwrap_or(u32::MAX);
        filled.iter().all(Option::is_some) && approvals >= self.anyone
    }
}

/// Finds a place for `voter`, moving earlier voters to other places where that frees one (Kuhn's augmenting path).
fn seat(
    voter: usize,
    voters: &[&BTreeSet<String>],
    places: &[&str],
    filled: &mut [Option<usize>],
    tried: &mut [bool],
) -> bool {
    let Some(groups) = voters.get(voter) else { return false };
    for (index, group) in places.iter().enumerate() {
        let free = tried.get(index).is_some_and(|tried| !tried);
        if !free || !groups.contains(*group) {
            continue;
        }
        if let Some(tried) = tried.get_mut(index) {
            *tried = true;
        }
        let holder = filled.get(index).copied().flatten();
        if holder.is_none_or(|holder| seat(holder, voters, places, filled, tried)) {
            if let Some(place) = filled.get_mut(index) {
                *place = Some(voter);
            }
            return true;
        }
    }
    false
}
