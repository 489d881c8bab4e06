//! What approvals take: the terms of tools and rules, owners of agents, and whether anybody could ever meet them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    super::{
        ApprovalTerms, Policy, Tool,
        fault::Place,
        manifest::{AgentEntry, ApprovalEntry, At, RuleEntry},
    },
    Compiling,
};
use crate::domain::{
    approval::requirement::{DecideIn, Requirement},
    facts::Voters,
    identity::Reviewer,
    verdict::{Risk, Verdict},
};

/// The most approvals that everything which could ask of one call may come to.
const MAX_PLACES: u32 = 100;

impl<'m> Compiling<'m, '_, '_> {
    /// The terms of a rule. `risk` is its tool's; a rule over many tools has none.
    pub(super) fn rule_terms(&mut self, entry: &RuleEntry, risk: Option<Risk>) -> Option<ApprovalTerms> {
        let approval = entry.approval.as_ref()?;
        if entry.verdict.as_ref().is_some_and(|verdict| verdict.value != Verdict::RequireApproval) {
            let hint = "terms of approval go with verdict = \"require_approval\"";
            self.faults.error(&approval.at, "`approval` in a rule that asks for none", hint);
        }
        Some(self.terms(Some(approval), risk))
    }

    /// The terms of a tool of this `risk`.
    pub(super) fn terms(&mut self, entry: Option<&ApprovalEntry>, risk: Option<Risk>) -> ApprovalTerms {
        let destructive = risk == Some(Risk::Destructive);
        let Some(entry) = entry else {
            return ApprovalTerms { double_confirm: destructive, ..ApprovalTerms::default() };
        };
        if let Some(off) = entry.double_confirm.as_ref().filter(|said| destructive && !said.value) {
            let hint = "approving what destroys always takes a second click: take the key out";
            self.faults.error(&off.at, "`double_confirm` of a destructive tool cannot be switched off", hint);
        }
        let groups: Vec<_> = entry.reviewers.iter().flat_map(|reviewers| &reviewers.value).collect();
        let escalation = self.escalation(entry);
        for group in groups.iter().copied().chain(entry.escalate.iter().flat_map(|groups| &groups.value)) {
            self.known_group(group);
        }
        ApprovalTerms {
            quorum: entry.quorum.as_ref().map_or(1, |quorum| quorum.value),
            reviewers: groups.into_iter().map(|group| group.value.clone()).collect(),
            ttl: entry.ttl.as_ref().map(|ttl| ttl.value),
            grace: entry.grace.as_ref().map_or(Duration::ZERO, |grace| grace.value),
            double_confirm: destructive || entry.double_confirm.as_ref().is_some_and(|said| said.value),
            decide_in: entry.decide_in.as_ref().map_or(DecideIn::Any, |said| said.value),
            step_up: entry.step_up.as_ref().is_some_and(|said| said.value),
            allow_self_approval: entry.allow_self_approval.as_ref().is_some_and(|said| said.value),
            escalation,
        }
    }

    fn escalation(&mut self, entry: &ApprovalEntry) -> BTreeMap<String, Duration> {
        let (groups, after) = match (&entry.escalate, &entry.escalate_after) {
            (None, None) => return BTreeMap::new(),
            (Some(groups), Some(after)) => (groups, after),
            (Some(At { at, .. }), None) => {
                self.faults.error(at, "`escalate` without `escalate_after`", "say when: escalate_after = \"1h\"");
                return BTreeMap::new();
            }
            (None, Some(At { at, .. })) => {
                self.faults.error(at, "`escalate_after` without `escalate`", "say to whom: escalate = [\"..\"]");
                return BTreeMap::new();
            }
        };
        if groups.value.is_empty() {
            self.faults.error(&groups.at, "`escalate` names no group", "name groups, or take both keys out");
        }
        if entry.reviewers.as_ref().is_none_or(|reviewers| reviewers.value.is_empty()) {
            let hint = "any reviewer may approve from the start: name the groups that are asked first in `reviewers`";
            self.faults.error(&groups.at, "`escalate` without `reviewers`", hint);
        }
        groups.value.iter().map(|group| (group.value.clone(), after.value)).collect()
    }

    fn known_group(&mut self, group: &At<String>) {
        let members = |group: &str| self.reviewers.is_none_or(|known| known.members_of(group).next().is_some());
        if !members(&group.value) {
            let hint = "groups are those of [reviewers] in the settings";
            self.faults.error(&group.at, format!("no configured reviewer is in the group `{}`", group.value), hint);
        }
    }

    /// The owners of an agent.
    pub(super) fn owners(&mut self, id: &str, entry: &AgentEntry) -> BTreeSet<String> {
        let Some(owners) = &entry.owners else { return BTreeSet::new() };
        if owners.value.is_empty() {
            let hint = "name reviewers, or take the key out";
            self.faults.error(&owners.at, format!("the list of owners of agents.{id} is empty"), hint);
        }
        for owner in &owners.value {
            if self.reviewers.is_some_and(|known| known.find(owner.value.trim()).is_none()) {
                let hint = "an owner is the name or the e-mail address of an entry of [reviewers] in the settings";
                self.faults.error(&owner.at, format!("`{}` is no configured reviewer", owner.value), hint);
            }
        }
        owners.value.iter().map(|owner| owner.value.clone()).collect()
    }

    /// Refuses what could never be met: the terms of each tool, and those of each of its rules joined with them.
    pub(super) fn requirements(&mut self, policy: &Policy) {
        for tool in policy.tools() {
            let rules = || tool.rules.iter().chain(&tool.floors);
            let all = rules().filter_map(|rule| rule.approval.as_ref());
            let needed = all.fold(tool.approval.requirement(Duration::MAX), |sum, terms| {
                sum.joined(&terms.requirement(Duration::MAX))
            });
            let Some(entry) = self.manifest.tools.get(&tool.name) else { continue };
            if needed.needed() > MAX_PLACES {
                let message = format!("an approval of {} may take {} people", tool.name, needed.needed());
                let hint = format!("its terms and those of all its rules may come to {MAX_PLACES}");
                self.faults.error(&entry.name.at, message, hint);
                continue;
            }
            match &entry.approval {
                Some(entry) => self.requirement(policy, tool, &[&tool.approval], entry),
                None if tool.may_require_approval() => {
                    let requirement = tool.approval.requirement(policy.approval_ttl());
                    self.could_be_met(policy, tool, &requirement, &entry.name.at);
                }
                None => {}
            }
            for rule in rules() {
                if let (Some(terms), Some(entry)) = (&rule.approval, self.approval_of_rule(&rule.id)) {
                    self.requirement(policy, tool, &[&tool.approval, terms], entry);
                }
            }
        }
    }

    fn approval_of_rule(&self, id: &str) -> Option<&'m ApprovalEntry> {
        let of_tools = self.manifest.tools.values().flat_map(|tool| &tool.rules);
        let mut rules = of_tools.chain(self.manifest.floors.iter().map(|floor| &floor.rule));
        rules.find(|rule| rule.id.as_ref().is_some_and(|said| said.value == id))?.approval.as_ref()
    }

    /// Checks the sum of `terms`, the last of which stand at `entry`.
    fn requirement(&mut self, policy: &Policy, tool: &Tool, terms: &[&ApprovalTerms], entry: &ApprovalEntry) {
        let ttl = terms.iter().filter_map(|terms| terms.ttl).min().unwrap_or_else(|| policy.approval_ttl());
        let sums = terms.iter().map(|terms| terms.requirement(ttl));
        let Some(joined) = sums.reduce(|sum, terms| sum.joined(&terms)) else { return };
        let hint = format!("an approval of {} waits for {} seconds at most", tool.name, ttl.as_secs());
        if let Some(after) = entry.escalate_after.as_ref().filter(|after| after.value >= ttl) {
            self.faults.error(&after.at, "`escalate_after` comes when the approval has expired", hint.clone());
        }
        if joined.grace >= ttl {
            let at = entry.grace.as_ref().map_or(&entry.at, |grace| &grace.at);
            self.faults.error(at, "`grace` outlasts the approval, so that it could never be claimed", hint);
        }
        self.could_be_met(policy, tool, &joined, &entry.at);
    }

    /// Whether the configured reviewers could meet `requirement`: those who own no agent that asks, where who asks may
    /// not approve.
    fn could_be_met(&mut self, policy: &Policy, tool: &Tool, requirement: &Requirement, at: &Place) {
        let Some(reviewers) = self.reviewers else { return };
        let groups = requirement.groups.keys().chain(requirement.escalation.keys());
        if groups.into_iter().any(|group| reviewers.members_of(group).next().is_none()) {
            // Told where the group is named.
            return;
        }
        // Who cannot sign in at the provider can never have just done so.
        let could_sign = |person: &&Reviewer| !requirement.step_up || person.oidc_subject.is_some();
        if !requirement.could_be_met_by(Voters::among(reviewers.iter().filter(could_sign)).iter()) {
            let message = format!("an approval of {} takes more people than there are", tool.name);
            let hint = if requirement.step_up {
                "too few entries of [reviewers] in the settings are in its groups and have an oidc_subject, each filling \
                 one place"
            } else {
                "too few entries of [reviewers] in the settings are in its groups, each filling one place"
            };
            self.faults.error(at, message, hint);
            return;
        }
        for (id, agent) in policy.agents().filter(|(_, agent)| agent.tools.contains(&tool.name)) {
            let owns = |person: &&Reviewer| agent.owners.iter().any(|owner| person.is_known_as(owner));
            let (owners, others): (Vec<_>, Vec<_>) = reviewers.iter().filter(could_sign).partition(owns);
            let (owners, others) = (Voters::among(owners.into_iter()), Voters::among(others.into_iter()));
            if !others.could_meet(requirement, &owners) {
                let message =
                    format!("without the owners of agents.{id}, too few could approve its calls of {}", tool.name);
                let hint = "an owner may deny, and approves only with allow_self_approval = true";
                self.faults.error(at, message, hint);
            }
        }
    }
}
