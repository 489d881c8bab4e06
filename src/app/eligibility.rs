//! Who may see a held call, who may approve it, and whose votes still stand.

use super::{
    App, ReviewerCaller,
    error::Error,
    ports::{Onlooker, Tx},
};
use crate::domain::{
    approval::{
        requesters::Requesters,
        requirement::{DecideIn, Requirement},
        state::Approval,
        vote::Vote,
    },
    identity::Credential,
    policy::Policy,
    run::Run,
    time::Timestamp,
};

impl App {
    /// The reviewers who ask for what is called in `run`: owners of its agent and of those above it, and whom it works
    /// for.
    pub(super) fn requesters(&self, policy: &Policy, run: &Run) -> Requesters {
        let agents = run.agents_above().chain([&run.key.agent]);
        Requesters::of(policy, &self.reviewers, agents, run.on_behalf_of.as_deref())
    }

    /// What a reviewer sees at `now`.
    pub(super) fn onlooker(&self, reviewer: &ReviewerCaller, now: Timestamp) -> Onlooker {
        let policy = self.policy();
        let owned = policy.agents().map(|(id, _)| id).filter(|id| self.owns(reviewer, &policy, id));
        Onlooker { groups: reviewer.groups.clone(), agents: owned.map(str::to_owned).collect(), now }
    }

    /// Whether a reviewer sees an approval at `now`: one that asks for a group of theirs or for anyone, or of an agent
    /// of theirs.
    pub(super) fn sees(&self, reviewer: &ReviewerCaller, approval: &Approval, now: Timestamp) -> bool {
        reviewer.caller.principal.scope().reaches(approval.id)
            && (approval.requirement.admits(&reviewer.groups, approval.created_at, now)
                || self.owns(reviewer, &self.policy(), approval.call.agent.as_str()))
    }

    fn owns(&self, reviewer: &ReviewerCaller, policy: &Policy, agent: &str) -> bool {
        let owners = policy.agent(agent).map(|agent| &agent.owners);
        let person = self.reviewers.get(&reviewer.name);
        owners.zip(person).is_some_and(|(owners, person)| owners.iter().any(|owner| person.is_known_as(owner)))
    }

    /// Whether a reviewer who sees an approval may approve it.
    ///
    /// # Errors
    /// [`Error::NotEligible`], saying why not.
    pub(super) fn may_approve(
        &self,
        reviewer: &ReviewerCaller,
        approval: &Approval,
        requesters: &Requesters,
        now: Timestamp,
    ) -> Result<(), Error> {
        let requirement = &approval.requirement;
        if !requirement.allow_self_approval && requesters.contains(&reviewer.name) {
            return Err(Error::NotEligible("it is your own agent that asks, or it asks on your behalf".to_owned()));
        }
        if !requirement.admits(&reviewer.groups, approval.created_at, now) {
            return Err(Error::NotEligible("it takes approvals of groups you are not in".to_owned()));
        }
        Ok(())
    }

    /// Whether an approve of what takes `requirement` may be given where this reviewer gives it. A denial may be given
    /// anywhere.
    ///
    /// # Errors
    /// [`Error::DecideInWeb`], [`Error::StepUpRequired`].
    pub(super) async fn may_approve_here(
        &self,
        tx: &mut dyn Tx,
        reviewer: &ReviewerCaller,
        requirement: &Requirement,
        now: Timestamp,
    ) -> Result<(), Error> {
        let session = match reviewer.caller.principal.credential() {
            Credential::Session(id) => tx.session(*id).await?.and_then(|record| record.standing_at(now)),
            Credential::Key(_) | Credential::Token(_) | Credential::Chat(_) => None,
        };
        match requirement.decide_in {
            DecideIn::Any => {}
            DecideIn::Web => {
                session.as_ref().ok_or(Error::DecideInWeb)?;
            }
        }
        let is_fresh = session.is_some_and(|session| session.is_fresh(now));
        if requirement.step_up && !is_fresh { Err(Error::StepUpRequired) } else { Ok(()) }
    }

    /// Why the votes of an approval no longer meet its requirement, if they do not: each voter must still be configured
    /// and still in the group, and must not be one who asks.
    pub(super) fn votes_objection(&self, approval: &Approval, requesters: &Requesters) -> Option<String> {
        let requirement = &approval.requirement;
        let stands = |vote: &Vote| {
            self.reviewers.get(&vote.reviewer)?;
            if !requirement.allow_self_approval && requesters.contains(&vote.reviewer) {
                return None;
            }
            // A deputy's vote stands when the absence is over.
            let today = self.reviewers.groups_at(&vote.reviewer, vote.at);
            Some(Vote { groups: vote.groups.intersection(&today).cloned().collect(), ..vote.clone() })
        };
        let standing: Vec<Vote> = approval.votes().iter().filter_map(stands).collect();
        let met = requirement.is_met_by(&standing, approval.created_at);
        (!met).then(|| "the votes no longer meet the requirement".to_owned())
    }
}
