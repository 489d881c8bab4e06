//! The approval's state machine: which event may follow which state, and the data each state holds.
//!
//! Transitions consume the approval and take `now`. Time itself is an event too: [`Approval::at`] applies what has
//! run out, and every transition starts there, so that a sweeper which is late changes nothing.

use std::{collections::BTreeSet, fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    code::ApprovalCode,
    outcome::{Outcome, Report, ReportedStatus, SettledStatus, Settlement},
    requirement::{Missing, Requirement},
    vote::Vote,
};
use crate::domain::{
    audit::payload::PayloadDigest,
    call::CallKey,
    canon::json::ArgsHash,
    identity::ReviewerName,
    ids::{ApprovalId, BatchId, ClaimId, DecisionId},
    policy::PolicyVersion,
    review::ReviewRef,
    time::Timestamp,
};

/// How many approvals one call may have, one after the other expired.
pub const MAX_ATTEMPTS: u32 = 3;

/// The durable record of one held call.
#[derive(Clone, Debug, PartialEq)]
pub struct Approval {
    /// Its id.
    pub id: ApprovalId,
    /// Its short code, the same in every channel.
    pub code: ApprovalCode,
    /// The call that was held.
    pub call: CallKey,
    /// The tool by its own name.
    pub tool: String,
    /// The hash of exactly the arguments that may run.
    pub args_hash: ArgsHash,
    /// The payload that holds those arguments.
    pub payload: PayloadDigest,
    /// The decision that held the call.
    pub decision: DecisionId,
    /// The policy that held it.
    pub policy_version: PolicyVersion,
    /// The rules that asked for a human, by id; empty when it was the tool's default.
    pub asked_by: BTreeSet<String>,
    /// Why it was held, for reviewers.
    pub reason: String,
    /// What must be met.
    pub requirement: Requirement,
    /// The batch it was asked about in, when it was: its held calls are reviewed together.
    pub batch: Option<BatchId>,
    /// 1 for the first approval of this call.
    pub attempt: u32,
    /// When it was made.
    pub created_at: Timestamp,
    /// From this moment on it can be neither approved nor claimed.
    pub expires_at: Timestamp,
    /// What its reviewers are shown; `None` for one that was held before reviews were kept.
    pub review: Option<ReviewRef>,
    /// Where it stands.
    pub state: State,
}

/// Where an approval stands, with exactly the data of that state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    /// Waits for votes.
    Pending {
        /// Those it has.
        votes: Vec<Vote>,
    },
    /// May be claimed.
    Approved(Grantable),
    /// Will never run.
    Denied(Denial),
    /// Nobody decided, or nobody claimed, in time.
    Expired {
        /// When it ran out.
        at: Timestamp,
    },
    /// Withdrawn.
    Cancelled {
        /// By whom.
        by: Canceller,
        /// When.
        at: Timestamp,
    },
    /// Claimed, once.
    Executed(Execution),
}

/// The data of an approved call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grantable {
    /// The votes that met the requirement.
    pub votes: Vec<Vote>,
    /// When they did.
    pub at: Timestamp,
    /// Not claimable before this.
    pub claim_after: Timestamp,
    /// A claim was already given back as `not_started`; that happens once.
    pub given_back: bool,
}

/// The data of a denied call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// A person, or the service.
    pub by: Denier,
    /// When.
    pub at: Timestamp,
    /// What the reviewer wrote to the agent.
    pub message_to_agent: Option<String>,
    /// Who lifted the denial for later calls, and when.
    pub lifted: Option<Lift>,
}

/// Who undid a denial for later calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lift {
    /// The reviewer.
    pub by: ReviewerName,
    /// When.
    pub at: Timestamp,
}

/// Who denied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "who", rename_all = "snake_case")]
pub enum Denier {
    /// A person; figures about people count these only.
    Reviewer {
        /// Who.
        name: ReviewerName,
    },
    /// The service itself.
    Service {
        /// Why.
        cause: ServiceDenial,
    },
}

/// Why the service denies a held call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceDenial {
    /// Claimed with other arguments than those approved.
    ArgumentsDiffer,
    /// The stored arguments no longer have the approved hash.
    StoredArgumentsDiffer,
    /// The stored review is no longer the one that was rendered.
    StoredReviewDiffers,
}

impl ServiceDenial {
    /// The word for it in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ArgumentsDiffer => "args_mismatch",
            Self::StoredArgumentsDiffer => "stored_args_mismatch",
            Self::StoredReviewDiffers => "stored_review_mismatch",
        }
    }
}

/// Who withdrew a held call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Canceller {
    /// The agent that asked.
    Requester,
    /// The service, because today's policy asks for something else; a new approval follows.
    PolicyChange,
    /// A pause of the agent.
    Pause,
    /// A stop or the end of the run.
    Stop,
}

/// The data of a claimed call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// The approval as it was before the claim.
    pub approved: Grantable,
    /// The current claim.
    pub claim: Claim,
    /// What came of it.
    pub outcome: Outcome,
}

/// The one-time right to execute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Chosen by the client, or by the service.
    pub id: ClaimId,
    /// When it was given.
    pub at: Timestamp,
    /// Until when a report is awaited.
    pub lease_expires_at: Timestamp,
    /// How far a heartbeat extends the lease.
    pub lease: Duration,
    /// The permit's `jti`: the repeated answer to a lost claim carries the same permit.
    pub permit_id: String,
}

/// The name of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateName {
    /// Waits for votes.
    Pending,
    /// May be claimed.
    Approved,
    /// Will never run.
    Denied,
    /// Ran out of time.
    Expired,
    /// Withdrawn.
    Cancelled,
    /// Claimed.
    Executed,
}

impl StateName {
    /// Every state.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Approved, Self::Denied, Self::Expired, Self::Cancelled, Self::Executed];

    /// The word for it in answers, filters and the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
            Self::Executed => "executed",
        }
    }

    /// Reads that word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl State {
    /// Its name.
    pub const fn name(&self) -> StateName {
        match self {
            Self::Pending { .. } => StateName::Pending,
            Self::Approved(_) => StateName::Approved,
            Self::Denied(_) => StateName::Denied,
            Self::Expired { .. } => StateName::Expired,
            Self::Cancelled { .. } => StateName::Cancelled,
            Self::Executed(_) => StateName::Executed,
        }
    }
}

/// What may happen to an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A reviewer approves.
    Approve,
    /// A reviewer denies.
    Deny,
    /// A reviewer takes an approve back before the claim.
    Revoke,
    /// A reviewer lifts a denial for later calls.
    Lift,
    /// The requester, a pause or a stop withdraws it.
    Cancel,
    /// The stack takes the right to execute.
    Claim,
    /// The stack extends its lease.
    Heartbeat,
    /// The stack reports what came of it.
    Report,
    /// A person settles an unknown outcome.
    Settle,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Approve => "approve",
            Self::Deny => "deny",
            Self::Revoke => "revoke",
            Self::Lift => "lift",
            Self::Cancel => "cancel",
            Self::Claim => "claim",
            Self::Heartbeat => "heartbeat",
            Self::Report => "report",
            Self::Settle => "settle",
        })
    }
}

/// An event that the state does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{event} is not possible: {why}")]
pub struct Refused {
    /// What was tried.
    pub event: Event,
    /// The state it was tried in.
    pub state: StateName,
    /// What stands in the way.
    pub why: Obstacle,
}

/// What stands in the way of an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// The state takes no such event.
    #[error("the approval is {0}")]
    State(StateName),
    /// Somebody decided already.
    #[error("{by} decided at {at}")]
    Decided {
        /// Who.
        by: String,
        /// When.
        at: Timestamp,
    },
    /// This reviewer's approve is already counted.
    #[error("this reviewer has approved already")]
    AlreadyVoted,
    /// The grace period runs.
    #[error("not claimable before {until}")]
    Grace {
        /// Until when.
        until: Timestamp,
    },
    /// Another claim was first.
    #[error("claimed already")]
    Claimed,
    /// The claim named is not the current one.
    #[error("not the current claim")]
    OtherClaim,
    /// The lease is over.
    #[error("the lease ended at {at}")]
    LeaseOver {
        /// When.
        at: Timestamp,
    },
    /// An outcome stands already, and this one differs.
    #[error("an outcome is recorded already")]
    OutcomeStands,
    /// `not_started` was reported before.
    #[error("the call was given back once already")]
    GivenBackBefore,
    /// The outcome is not unknown, or is settled.
    #[error("the outcome is not open")]
    NothingToSettle,
    /// The denial is the service's, or is lifted already.
    #[error("there is no standing denial by a reviewer")]
    NothingToLift,
}

/// What time alone did to an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elapsed {
    /// Nothing.
    Nothing,
    /// Its time to live ran out.
    Expired,
    /// The lease of its claim ended without a report.
    LeaseEnded,
}

/// How an approve went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// More votes are needed.
    MoreNeeded,
    /// The requirement is met.
    Met,
    /// The same reviewer had approved; nothing changed.
    Repeated,
}

/// How a report was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// As the outcome.
    Recorded,
    /// `not_started`: the approval may be claimed again.
    GivenBack,
    /// After the lease: kept beside the unknown outcome.
    Late,
    /// The same report was there already; nothing changed.
    Repeated,
}

impl Approval {
    /// The approval as it stands at `now`, and what time did to it.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> (Self, Elapsed) {
        let expired = now >= self.expires_at;
        let elapsed = match &mut self.state {
            State::Pending { .. } | State::Approved(_) if expired => {
                self.state = State::Expired { at: self.expires_at };
                Elapsed::Expired
            }
            State::Executed(execution)
                if execution.outcome == Outcome::Awaited && now >= execution.claim.lease_expires_at =>
            {
                let since = execution.claim.lease_expires_at;
                execution.outcome = Outcome::Unknown { since, late: None, settled: None };
                Elapsed::LeaseEnded
            }
            State::Pending { .. }
            | State::Approved(_)
            | State::Denied(_)
            | State::Expired { .. }
            | State::Cancelled { .. }
            | State::Executed(_) => Elapsed::Nothing,
        };
        (self, elapsed)
    }

    /// The votes it has, as far as its state keeps them.
    pub fn votes(&self) -> &[Vote] {
        match &self.state {
            State::Pending { votes } => votes,
            State::Approved(approved) | State::Executed(Execution { approved, .. }) => &approved.votes,
            State::Denied(_) | State::Expired { .. } | State::Cancelled { .. } => &[],
        }
    }

    /// How many of its votes fill a place.
    pub fn counting_votes(&self) -> u32 {
        let missing = self.requirement.missing(self.votes(), self.created_at);
        missing.iter().fold(self.requirement.needed(), |left, missing| left.saturating_sub(missing.count))
    }

    /// The approves it still waits for; none when it waits for none.
    pub fn missing(&self) -> Vec<Missing> {
        match &self.state {
            State::Pending { votes } => self.requirement.missing(votes, self.created_at),
            State::Approved(_)
            | State::Denied(_)
            | State::Expired { .. }
            | State::Cancelled { .. }
            | State::Executed(_) => Vec::new(),
        }
    }

    /// The same in words, and who may fill in at `now`; `None` when it waits for nobody.
    pub fn missing_text(&self, now: Timestamp) -> Option<String> {
        let missing = self.missing();
        let mut text = missing.iter().map(ToString::to_string).reduce(|all, one| format!("{all}, {one}"))?;
        let stand_ins: Vec<&str> = self.requirement.escalated(self.created_at, now).collect();
        if !stand_ins.is_empty() && missing.iter().any(|missing| missing.group.is_some()) {
            text.push_str(&format!(" ({} may fill in)", stand_ins.join(", ")));
        }
        Some(text)
    }

    /// When time will next change this approval by itself.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        match &self.state {
            State::Pending { .. } | State::Approved(_) => Some(self.expires_at),
            State::Executed(Execution { outcome: Outcome::Awaited, claim, .. }) => Some(claim.lease_expires_at),
            State::Executed(_) | State::Denied(_) | State::Expired { .. } | State::Cancelled { .. } => None,
        }
    }

    /// Counts a reviewer's approve.
    ///
    /// # Errors
    /// When the approval is not pending.
    pub fn approve(self, vote: Vote, now: Timestamp) -> Result<(Self, Counted), Refused> {
        let (mut approval, _) = self.at(now);
        match approval.state {
            State::Pending { votes } if votes.iter().any(|cast| cast.reviewer == vote.reviewer) => {
                approval.state = State::Pending { votes };
                Ok((approval, Counted::Repeated))
            }
            State::Pending { mut votes } => {
                votes.push(vote);
                if approval.requirement.is_met_by(&votes, approval.created_at) {
                    let claim_after = now.plus(approval.requirement.grace);
                    approval.state = State::Approved(Grantable { votes, at: now, claim_after, given_back: false });
                    Ok((approval, Counted::Met))
                } else {
                    approval.state = State::Pending { votes };
                    Ok((approval, Counted::MoreNeeded))
                }
            }
            State::Approved(ref approved) if approved.votes.iter().any(|cast| cast.reviewer == vote.reviewer) => {
                Ok((approval, Counted::Repeated))
            }
            State::Approved(_)
            | State::Denied(_)
            | State::Expired { .. }
            | State::Cancelled { .. }
            | State::Executed(_) => Err(approval.refuse_decision(Event::Approve)),
        }
    }

    /// Denies: one reviewer is enough. Returns whether anything changed.
    ///
    /// # Errors
    /// When the approval is not pending, unless this reviewer's own denial stands.
    pub fn deny(
        self,
        reviewer: ReviewerName,
        message_to_agent: Option<String>,
        now: Timestamp,
    ) -> Result<(Self, bool), Refused> {
        let (mut approval, _) = self.at(now);
        match &approval.state {
            State::Pending { .. } => {
                let by = Denier::Reviewer { name: reviewer };
                approval.state = State::Denied(Denial { by, at: now, message_to_agent, lifted: None });
                Ok((approval, true))
            }
            State::Denied(Denial { by: Denier::Reviewer { name }, .. }) if *name == reviewer => Ok((approval, false)),
            State::Denied(_)
            | State::Approved(_)
            | State::Expired { .. }
            | State::Cancelled { .. }
            | State::Executed(_) => Err(approval.refuse_decision(Event::Deny)),
        }
    }

    /// Takes an approve back: the call will not run.
    ///
    /// # Errors
    /// When the approval is not approved and unclaimed.
    pub fn revoke(self, reviewer: ReviewerName, now: Timestamp) -> Result<Self, Refused> {
        let (mut approval, _) = self.at(now);
        match &approval.state {
            State::Approved(_) => {
                let by = Denier::Reviewer { name: reviewer };
                approval.state = State::Denied(Denial { by, at: now, message_to_agent: None, lifted: None });
                Ok(approval)
            }
            State::Pending { .. }
            | State::Denied(_)
            | State::Expired { .. }
            | State::Cancelled { .. }
            | State::Executed(_) => Err(approval.refuse_state(Event::Revoke)),
        }
    }

    /// Undoes a reviewer's denial for later calls; this one stays denied.
    ///
    /// # Errors
    /// When no reviewer's denial stands.
    pub fn lift(self, reviewer: ReviewerName, now: Timestamp) -> Result<Self, Refused> {
        let (mut approval, _) = self.at(now);
        match &mut approval.state {
            State::Denied(Denial { by: Denier::Reviewer { .. }, lifted: lifted @ None, .. }) => {
                *lifted = Some(Lift { by: reviewer, at: now });
                Ok(approval)
            }
            State::Denied(_) => Err(approval.refuse(Event::Lift, Obstacle::NothingToLift)),
            State::Pending { .. }
            | State::Approved(_)
            | State::Expired { .. }
            | State::Cancelled { .. }
            | State::Executed(_) => Err(approval.refuse_state(Event::Lift)),
        }
    }

    /// Withdraws a call that has not been claimed. Returns whether anything changed.
    ///
    /// # Errors
    /// When it is decided otherwise or claimed; cancelling again is no error.
    pub fn cancel(self, by: Canceller, now: Timestamp) -> Result<(Self, bool), Refused> {
        let (mut approval, _) = self.at(now);
        match &approval.state {
            State::Pending { .. } | State::Approved(_) => {
                approval.state = State::Cancelled { by, at: now };
                Ok((approval, true))
            }
            State::Cancelled { by: before, .. } if *before == by => Ok((approval, false)),
            State::Cancelled { .. } | State::Denied(_) | State::Expired { .. } | State::Executed(_) => {
                Err(approval.refuse_state(Event::Cancel))
            }
        }
    }

    /// The service denies: what was presented or stored is not what was approved.
    ///
    /// # Errors
    /// When the approval can no longer run anyway.
    pub fn deny_by_service(self, cause: ServiceDenial, now: Timestamp) -> Result<Self, Refused> {
        let (mut approval, _) = self.at(now);
        match &approval.state {
            State::Pending { .. } | State::Approved(_) => {
                let by = Denier::Service { cause };
                approval.state = State::Denied(Denial { by, at: now, message_to_agent: None, lifted: None });
                Ok(approval)
            }
            State::Denied(_) | State::Expired { .. } | State::Cancelled { .. } | State::Executed(_) => {
                Err(approval.refuse_state(Event::Deny))
            }
        }
    }

    /// Whether a claim could be given at `now`, apart from what the policy of today says.
    ///
    /// A repeat of the current claim, its lease running and its outcome awaited, is answered again.
    ///
    /// # Errors
    /// What stands in the way.
    pub fn claimable(&self, claim: Option<&ClaimId>, reclaimable: bool, now: Timestamp) -> Result<Claimable, Refused> {
        let (approval, _) = self.clone().at(now);
        match &approval.state {
            State::Approved(approved) if now < approved.claim_after => {
                let until = approved.claim_after;
                Err(approval.refuse(Event::Claim, Obstacle::Grace { until }))
            }
            State::Approved(_) => Ok(Claimable::Now),
            State::Executed(Execution { claim: current, outcome: Outcome::Awaited, .. })
                if claim == Some(&current.id) =>
            {
                Ok(Claimable::Again(current.clone()))
            }
            State::Executed(Execution {
                claim: current,
                outcome: Outcome::Unknown { late: None, settled: None, .. },
                ..
            }) if reclaimable && now < approval.expires_at && claim != Some(&current.id) => Ok(Claimable::Now),
            State::Executed(_) => Err(approval.refuse(Event::Claim, Obstacle::Claimed)),
            State::Pending { .. } | State::Denied(_) | State::Expired { .. } | State::Cancelled { .. } => {
                Err(approval.refuse_state(Event::Claim))
            }
        }
    }

    /// Gives the claim: exactly one of any number of claims gets here with an approved approval.
    ///
    /// # Errors
    /// As [`Approval::claimable`], and when the claim is only a repeat.
    pub fn claim(self, claim: Claim, reclaimable: bool, now: Timestamp) -> Result<Self, Refused> {
        let refused = match self.claimable(Some(&claim.id), reclaimable, now) {
            Ok(Claimable::Now) => None,
            Ok(Claimable::Again(_)) => Some(self.refuse(Event::Claim, Obstacle::Claimed)),
            Err(refused) => Some(refused),
        };
        if let Some(refused) = refused {
            return Err(refused);
        }
        let (mut approval, _) = self.at(now);
        let approved = match approval.state {
            State::Approved(approved) | State::Executed(Execution { approved, .. }) => approved,
            State::Pending { .. } | State::Denied(_) | State::Expired { .. } | State::Cancelled { .. } => {
                return Err(approval.refuse_state(Event::Claim));
            }
        };
        approval.state = State::Executed(Execution { approved, claim, outcome: Outcome::Awaited });
        Ok(approval)
    }

    /// Extends the lease of the current claim by its length from `now`.
    ///
    /// # Errors
    /// When this is not the current claim, or its lease is over.
    pub fn heartbeat(self, claim: Option<&ClaimId>, now: Timestamp) -> Result<Self, Refused> {
        let (mut approval, _) = self.at(now);
        let obstacle = match &mut approval.state {
            State::Executed(execution) if claim.is_some_and(|claim| *claim != execution.claim.id) => {
                Obstacle::OtherClaim
            }
            State::Executed(execution) => match &execution.outcome {
                Outcome::Awaited => {
                    execution.claim.lease_expires_at = now.plus(execution.claim.lease);
                    return Ok(approval);
                }
                Outcome::Unknown { since, .. } => Obstacle::LeaseOver { at: *since },
                Outcome::Reported(_) => Obstacle::OutcomeStands,
            },
            State::Pending { .. }
            | State::Approved(_)
            | State::Denied(_)
            | State::Expired { .. }
            | State::Cancelled { .. } => return Err(approval.refuse_state(Event::Heartbeat)),
        };
        Err(approval.refuse(Event::Heartbeat, obstacle))
    }

    /// Takes the stack's report.
    ///
    /// The first report stands and the same one repeated changes nothing. `not_started` counts only from the
    /// current claim, within the lease, once.
    ///
    /// # Errors
    /// What stands in the way.
    pub fn report(self, claim: Option<&ClaimId>, report: Report, now: Timestamp) -> Result<(Self, Taken), Refused> {
        let (mut approval, _) = self.at(now);
        let obstacle = match &mut approval.state {
            State::Executed(execution) if claim.is_some_and(|claim| *claim != execution.claim.id) => {
                Obstacle::OtherClaim
            }
            State::Executed(execution) => match (&mut execution.outcome, report.status) {
                (Outcome::Awaited, ReportedStatus::NotStarted) if claim.is_none() => Obstacle::OtherClaim,
                (Outcome::Awaited, ReportedStatus::NotStarted) if execution.approved.given_back => {
                    Obstacle::GivenBackBefore
                }
                (Outcome::Awaited, ReportedStatus::NotStarted) => {
                    let approved = Grantable { given_back: true, ..execution.approved.clone() };
                    approval.state = State::Approved(approved);
                    return Ok((approval, Taken::GivenBack));
                }
                (outcome @ Outcome::Awaited, ReportedStatus::Succeeded | ReportedStatus::Failed) => {
                    *outcome = Outcome::Reported(report);
                    return Ok((approval, Taken::Recorded));
                }
                (Outcome::Reported(stands) | Outcome::Unknown { late: Some(stands), .. }, status)
                    if stands.status == status && stands.payload == report.payload =>
                {
                    return Ok((approval, Taken::Repeated));
                }
                (Outcome::Unknown { since, .. }, ReportedStatus::NotStarted) => Obstacle::LeaseOver { at: *since },
                (Outcome::Unknown { late: late @ None, .. }, ReportedStatus::Succeeded | ReportedStatus::Failed) => {
                    *late = Some(report);
                    return Ok((approval, Taken::Late));
                }
                (
                    Outcome::Reported(_) | Outcome::Unknown { late: Some(_), .. },
                    ReportedStatus::Succeeded | ReportedStatus::Failed | ReportedStatus::NotStarted,
                ) => Obstacle::OutcomeStands,
            },
            State::Approved(Grantable { given_back: true, .. }) if report.status == ReportedStatus::NotStarted => {
                return Ok((approval, Taken::Repeated));
            }
            State::Pending { .. }
            | State::Approved(_)
            | State::Denied(_)
            | State::Expired { .. }
            | State::Cancelled { .. } => return Err(approval.refuse_state(Event::Report)),
        };
        Err(approval.refuse(Event::Report, obstacle))
    }

    /// A person says what came of a call with an unknown outcome. It stays unclaimable.
    ///
    /// # Errors
    /// When the outcome is not unknown, or is settled.
    pub fn settle(self, reviewer: ReviewerName, status: SettledStatus, now: Timestamp) -> Result<Self, Refused> {
        let (mut approval, _) = self.at(now);
        match &mut approval.state {
            State::Executed(Execution { outcome: Outcome::Unknown { settled: settled @ None, .. }, .. }) => {
                *settled = Some(Settlement { status, by: reviewer, at: now });
                Ok(approval)
            }
            State::Executed(_) => Err(approval.refuse(Event::Settle, Obstacle::NothingToSettle)),
            State::Pending { .. }
            | State::Approved(_)
            | State::Denied(_)
            | State::Expired { .. }
            | State::Cancelled { .. } => Err(approval.refuse_state(Event::Settle)),
        }
    }

    fn refuse(&self, event: Event, why: Obstacle) -> Refused {
        Refused { event, state: self.state.name(), why }
    }

    fn refuse_state(&self, event: Event) -> Refused {
        self.refuse(event, Obstacle::State(self.state.name()))
    }

    /// For a decision on what is decided: names who decided, and when.
    fn refuse_decision(&self, event: Event) -> Refused {
        let decided = match &self.state {
            State::Approved(approved) | State::Executed(Execution { approved, .. }) => {
                approved.votes.last().map(|vote| (vote.reviewer.to_string(), approved.at))
            }
            State::Denied(Denial { by: Denier::Reviewer { name }, at, .. }) => Some((name.to_string(), *at)),
            State::Denied(Denial { by: Denier::Service { .. }, at, .. }) => Some(("the service".to_owned(), *at)),
            State::Pending { .. } | State::Expired { .. } | State::Cancelled { .. } => None,
        };
        match decided {
            Some((by, at)) => self.refuse(event, Obstacle::Decided { by, at }),
            None => self.refuse_state(event),
        }
    }
}

/// How a claim can be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimable {
    /// It may be given now.
    Now,
    /// It was given already: the same answer again.
    Again(Claim),
}
