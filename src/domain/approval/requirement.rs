//! Who must approve a held call, and under which conditions: the strictest sum of everything that asked.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::vote::Vote;
use crate::domain::time::Timestamp;

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

/// A word that is no place to approve in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("approvals are given in any channel, or on the web")]
pub struct UnknownPlace;

impl FromStr for DecideIn {
    type Err = UnknownPlace;

    fn from_str(word: &str) -> Result<Self, UnknownPlace> {
        match word {
            "any" => Ok(Self::Any),
            "web" => Ok(Self::Web),
            _ => Err(UnknownPlace),
        }
    }
}

impl fmt::Display for DecideIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "any",
            Self::Web => "web",
        })
    }
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
    /// An approve counts only by whoever has just shown to the sign-in provider who it is.
    #[serde(default)]
    pub step_up: bool,
    /// Whether those who ask for the call themselves (see [`Requesters`](super::requesters::Requesters)) may approve it.
    #[serde(default)]
    pub allow_self_approval: bool,
    /// Groups whose members may fill any named place, each from so long after the approval's creation on.
    #[serde(default)]
    pub escalation: BTreeMap<String, Duration>,
}

/// Approvals that are still missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Of which group; `None`: of any.
    pub group: Option<String>,
    /// How many, at least one.
    pub count: u32,
}

/// `one more from finance`, `12 more from anyone`.
impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const WORDS: [&str; 11] =
            ["none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
        let word = usize::try_from(self.count).ok().and_then(|count| WORDS.get(count));
        match word {
            Some(word) => f.write_str(word)?,
            None => write!(f, "{}", self.count)?,
        }
        write!(f, " more from {}", self.group.as_deref().unwrap_or("anyone"))
    }
}

/// A person who approved or could, as far as places are concerned.
#[derive(Clone, Copy)]
struct Approver<'a> {
    groups: &'a BTreeSet<String>,
    /// By escalation: fills any named place.
    anywhere: bool,
}

/// A place of a named group, and which approver fills it.
struct Place<'a> {
    group: &'a str,
    filled_by: Option<usize>,
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
            step_up: false,
            allow_self_approval: false,
            escalation: BTreeMap::new(),
        }
    }

    /// Both requirements at once: per group the higher number, every group, the shorter ttl, the longer grace.
    ///
    /// The sum asks for at least what each of the two asks for. So who asks may approve only if both allow it, and a
    /// group may fill in only where both let it, at the later of the two moments; what names no group is open to
    /// everyone anyway, and has no say in that.
    #[must_use]
    pub fn joined(mut self, other: &Self) -> Self {
        self.escalation = match (self.groups.is_empty(), other.groups.is_empty()) {
            (true, true) => BTreeMap::new(),
            (false, true) => self.escalation,
            (true, false) => other.escalation.clone(),
            (false, false) => {
                let later = |(group, after): (String, Duration)| {
                    other.escalation.get(&group).map(|others| (group, after.max(*others)))
                };
                self.escalation.into_iter().filter_map(later).collect()
            }
        };
        for (group, count) in &other.groups {
            let needed = self.groups.entry(group.clone()).or_default();
            *needed = (*needed).max(*count);
        }
        self.anyone = self.anyone.max(other.anyone);
        self.ttl = self.ttl.min(other.ttl);
        self.grace = self.grace.max(other.grace);
        self.double_confirm |= other.double_confirm;
        self.decide_in = self.decide_in.max(other.decide_in);
        self.step_up |= other.step_up;
        self.allow_self_approval &= other.allow_self_approval;
        self
    }

    /// How many approvals the named groups give.
    fn named(&self) -> u32 {
        self.groups.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// How many approvals it takes in all.
    pub fn needed(&self) -> u32 {
        self.named().max(self.anyone)
    }

    /// Whether it has a place that a reviewer of any group fills, or of none.
    pub fn is_open_to_anyone(&self) -> bool {
        self.groups.is_empty() || self.anyone > self.named()
    }

    /// The groups whose members may fill any named place at `now`, when the approval was made at `made`.
    pub fn escalated(&self, made: Timestamp, now: Timestamp) -> impl Iterator<Item = &str> {
        self.escalation.iter().filter(move |(_, after)| now >= made.plus(**after)).map(|(group, _)| group.as_str())
    }

    /// Whether somebody who is in `groups` at `now` could fill a place, when the approval was made at `made`.
    pub fn admits(&self, groups: &BTreeSet<String>, made: Timestamp, now: Timestamp) -> bool {
        self.is_open_to_anyone()
            || self.groups.keys().any(|group| groups.contains(group))
            || self.escalated(made, now).any(|group| groups.contains(group))
    }

    /// Whether it asks for more than `earlier` does, in people or in care. Time to live is no part of that.
    pub fn is_higher_than(&self, earlier: &Self) -> bool {
        let escalates_less =
            || earlier.escalation.iter().any(|(group, after)| self.escalation.get(group).is_none_or(|now| now > after));
        self.anyone > earlier.needed()
            || self.groups.iter().any(|(group, count)| *count > earlier.groups.get(group).copied().unwrap_or_default())
            || self.grace > earlier.grace
            || self.double_confirm && !earlier.double_confirm
            || self.decide_in > earlier.decide_in
            || self.step_up && !earlier.step_up
            || earlier.allow_self_approval && !self.allow_self_approval
            || !self.groups.is_empty() && escalates_less()
    }

    /// Whether these votes, one of each person, meet it, when the approval was made at `made`.
    ///
    /// A vote fills one place of a named group its voter was in; whoever is in several groups fills the place that
    /// leaves the others fillable, so the votes are matched to places, not counted per group. A vote by an escalated
    /// group that was cast after the escalation fills any of them.
    pub fn is_met_by(&self, votes: &[Vote], made: Timestamp) -> bool {
        self.missing(votes, made).is_empty()
    }

    /// What these votes leave open, when the approval was made at `made`: named groups first, by name.
    ///
    /// Where a voter in several groups could fill either place, this is one of the ways to go on.
    pub fn missing(&self, votes: &[Vote], made: Timestamp) -> Vec<Missing> {
        let approvers = votes.iter().map(|vote| Approver {
            groups: &vote.groups,
            anywhere: self.escalated(made, vote.at).any(|group| vote.groups.contains(group)),
        });
        self.left_open_by(&approvers.collect::<Vec<_>>())
    }

    /// Whether people who are in these groups could meet it, if all of them approved, after every escalation.
    pub fn could_be_met_by<'a>(&self, people: impl Iterator<Item = &'a BTreeSet<String>>) -> bool {
        let approvers = people
            .map(|groups| Approver { groups, anywhere: self.escalation.keys().any(|group| groups.contains(group)) });
        self.left_open_by(&approvers.collect::<Vec<_>>()).is_empty()
    }

    /// Whether one person in these groups meets it alone, before any escalation.
    pub fn is_met_alone_by(&self, groups: &BTreeSet<String>) -> bool {
        self.left_open_by(&[Approver { groups, anywhere: false }]).is_empty()
    }

    fn left_open_by(&self, approvers: &[Approver<'_>]) -> Vec<Missing> {
        let places = self.groups.iter().flat_map(|(group, count)| (0..*count).map(move |_| group.as_str()));
        let mut places: Vec<_> = places.map(|group| Place { group, filled_by: None }).collect();
        for approver in 0..approvers.len() {
            let mut tried = vec![false; places.len()];
            seat(approver, approvers, &mut places, &mut tried);
        }
        let mut missing: Vec<Missing> = Vec::new();
        for place in places.iter().filter(|place| place.filled_by.is_none()) {
            match missing.last_mut().filter(|last| last.group.as_deref() == Some(place.group)) {
                Some(last) => last.count += 1,
                None => missing.push(Missing { group: Some(place.group.to_owned()), count: 1 }),
            }
        }
        let to_come = missing
            .iter()
            .fold(u32::try_from(approvers.len()).unwrap_or(u32::MAX), |sum, missing| sum.saturating_add(missing.count));
        if let Some(count) = self.anyone.checked_sub(to_come).filter(|count| *count > 0) {
            missing.push(Missing { group: None, count });
        }
        missing
    }
}

/// Finds a place for `approver`, moving earlier ones to other places where that frees one (Kuhn's augmenting path).
fn seat(approver: usize, approvers: &[Approver<'_>], places: &mut [Place<'_>], tried: &mut [bool]) -> bool {
    let Some(Approver { groups, anywhere }) = approvers.get(approver).copied() else { return false };
    for index in 0..places.len() {
        let (Some(place), Some(tried_before)) = (places.get(index), tried.get_mut(index)) else { continue };
        if *tried_before || !(anywhere || groups.contains(place.group)) {
            continue;
        }
        *tried_before = true;
        let free = match place.filled_by {
            None => true,
            Some(holder) => seat(holder, approvers, places, tried),
        };
        if free {
            if let Some(place) = places.get_mut(index) {
                place.filled_by = Some(approver);
            }
            return true;
        }
    }
    false
}
