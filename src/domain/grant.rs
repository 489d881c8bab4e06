//! Grants: a reviewer's temporary, narrow rule for one run. A grant lifts only what its maker saw asking, and stands
//! for nothing its maker could not approve alone (design section 6.6).

use std::{collections::BTreeSet, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    approval::requirement::Requirement,
    audit::payload::{Payload, PayloadDigest},
    decision::{Judgement, ReasonCode},
    identity::ReviewerName,
    ids::{ApprovalId, GrantId},
    policy::{Policy, Tool, condition::RuleState},
    run::RunKey,
    time::Timestamp,
    verdict::Verdict,
};

pub mod offers;

/// The longest a grant may be good for.
pub const LONGEST_TTL: Duration = Duration::from_secs(8 * 3_600);
/// The most calls it may let through.
pub const MOST_USES: u32 = 50;

/// A grant as it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Its id.
    pub id: GrantId,
    /// Who made it.
    pub maker: ReviewerName,
    /// The run it is for, and no other.
    pub run: RunKey,
    /// The tool it is for, by its own name.
    pub tool: String,
    /// What it lets through, as a condition; `None` when the text was erased, and then it is nothing.
    pub when: Option<String>,
    /// The payload that holds the condition, and why the grant was made.
    pub payload: PayloadDigest,
    /// What it lifts.
    pub lifts: Lifts,
    /// The groups that would have to approve what it lets through; empty for any reviewer.
    pub groups: BTreeSet<String>,
    /// The most calls it lets through.
    pub max_uses: u32,
    /// The approval it was made with, if it was.
    pub approval: Option<ApprovalId>,
    /// When it was made.
    pub created_at: Timestamp,
    /// From this moment on it lets nothing through.
    pub expires_at: Timestamp,
    /// Who took it back, and when.
    pub revoked: Option<Revocation>,
}

/// The text of a grant, kept as a payload: what was written for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantText {
    /// The condition.
    pub when: String,
    /// Why it was made.
    pub reason: Option<String>,
}

impl GrantText {
    /// What stands in this payload.
    pub fn of(payload: &Payload) -> Option<Self> {
        serde_json::from_str(payload.body()).ok()
    }
}

/// Who took a grant back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocation {
    /// The reviewer.
    pub by: ReviewerName,
    /// When.
    pub at: Timestamp,
}

/// What a grant lifts: what asked for a human and need not any more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifts {
    /// Rules, by id.
    pub rules: BTreeSet<String>,
    /// The tool's default, where no rule of the tool is true.
    pub default: bool,
}

/// A grant and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRecord {
    /// The grant.
    pub grant: Grant,
    /// How many calls it let through.
    pub uses: u32,
    /// Its run has ended.
    pub run_ended: bool,
}

/// Whether a grant still lets calls through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantState {
    /// It does, as far as the policy lets it.
    Live,
    /// Taken back.
    Revoked,
    /// Its run has ended.
    RunEnded,
    /// Its time is over.
    Expired,
    /// Every use is used.
    Spent,
}

impl GrantState {
    /// The word for it in answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Revoked => "revoked",
            Self::RunEnded => "run_ended",
            Self::Expired => "expired",
            Self::Spent => "spent",
        }
    }
}

impl GrantRecord {
    /// Where it stands at `now`.
    pub fn state_at(&self, now: Timestamp) -> GrantState {
        if self.grant.revoked.is_some() {
            GrantState::Revoked
        } else if self.run_ended {
            GrantState::RunEnded
        } else if now >= self.grant.expires_at {
            GrantState::Expired
        } else if self.uses >= self.grant.max_uses {
            GrantState::Spent
        } else {
            GrantState::Live
        }
    }
}

/// A reviewer, as far as it matters for approving alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maker {
    /// The groups the reviewer is in.
    pub groups: BTreeSet<String>,
    /// Whether it is the reviewer's own agent that asks, or asks on the reviewer's behalf.
    pub asks: bool,
}

impl Maker {
    /// Whether the reviewer alone could approve what takes this, now and for calls to come: a sign-in that was fresh when
    /// the grant was made is not when it is used.
    fn could_approve_alone(&self, requirement: &Requirement) -> bool {
        !requirement.step_up
            && (requirement.allow_self_approval || !self.asks)
            && requirement.is_met_alone_by(&self.groups)
    }
}

/// A grant as the decision about one call sees it: a fact of `settle`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandingGrant {
    /// Which one.
    pub id: GrantId,
    /// From this moment on it lets nothing through.
    pub expires_at: Timestamp,
    /// How many calls it lets through beside those it has let through, this very call left out.
    pub uses_left: u32,
    /// What it lifts.
    pub lifts: Lifts,
    /// Its maker as of now; `None` when that is no reviewer any more.
    pub maker: Option<Maker>,
    /// What its condition comes to for this call; failed when it does not compile with today's policy.
    pub condition: RuleState,
}

impl StandingGrant {
    /// Whether it lets through a call of `tool` with this judgement.
    pub fn covers(&self, tool: &Tool, judgement: &Judgement, now: Timestamp) -> bool {
        let alone = match (&self.maker, &judgement.requirement) {
            (Some(maker), Some(requirement)) => maker.could_approve_alone(requirement),
            (Some(_) | None, Some(_) | None) => false,
        };
        tool.grantable
            && !tool.runs_unconfined_commands()
            && now < self.expires_at
            && self.uses_left > 0
            && self.condition == RuleState::True
            && self.lifts.all_that_asks(tool, judgement)
            && alone
    }
}

impl Lifts {
    /// The tool's default, and no rule.
    pub fn the_default() -> Self {
        Self { default: true, ..Self::default() }
    }

    /// These rules, and not the tool's default.
    pub fn these(rules: BTreeSet<String>) -> Self {
        Self { rules, default: false }
    }

    /// Whether it lifts nothing.
    pub fn is_empty(&self) -> bool {
        !self.default && self.rules.is_empty()
    }

    /// Whether nothing but what it lifts asks for a human. Limits, step 6, a caller's wish and an earlier hold are
    /// never lifted.
    fn all_that_asks(&self, tool: &Tool, judgement: &Judgement) -> bool {
        let asks_by_rule = matches!(judgement.reason.code, ReasonCode::Rule | ReasonCode::Floor);
        let asks_by_default = judgement.reason.code == ReasonCode::Default;
        // A limit may have taken the id of a rule that is gone.
        let is_rule = |id: &String| tool.all_rules().any(|rule| rule.id == *id);
        (asks_by_rule || (asks_by_default && self.default))
            && judgement.asked_by.iter().all(|id| self.rules.contains(id) && is_rule(id))
    }
}

/// Why a grant would be wider than allowed. Reviewers may know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooWide {
    /// The policy gives none for the tool.
    #[error("the policy gives no grants for `{tool}`; `grantable = true` beside the tool would")]
    NotGrantable {
        /// The tool.
        tool: String,
    },
    /// Step 6 asks for a human about every call, and is never lifted.
    #[error("`{tool}` runs commands outside a sandbox, and a grant never lifts that")]
    Unconfined {
        /// The tool.
        tool: String,
    },
    /// It is to last too long.
    #[error("a grant is good for at most 8h")]
    TooLong,
    /// It is to let too many calls through.
    #[error("a grant lets at most {MOST_USES} calls through")]
    TooManyUses,
    /// What it lifts takes more than its maker's approval.
    #[error("it would stand for more than your own approval: such a call takes {needed}")]
    NotAlone {
        /// Who must approve.
        needed: String,
    },
    /// What it lifts takes a fresh sign-in for each call.
    #[error("each such call takes a fresh sign-in, and no grant stands for that")]
    StepUp,
    /// The run is over, and so is every grant for it.
    #[error("the run has ended")]
    RunEnded,
    /// The maker may not approve calls of this run.
    #[error("it is your own agent that asks, or it asks on your behalf")]
    Excluded,
    /// The agent may not use the tool at all.
    #[error("the agent may not use `{tool}`, and a grant never lifts a denial")]
    Denied {
        /// The tool.
        tool: String,
    },
}

/// How long a grant is to be good, for how many calls, and what it is to lift.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What it lifts.
    pub lifts: Lifts,
    /// How long.
    pub ttl: Duration,
    /// For how many calls.
    pub max_uses: u32,
}

/// Whether this reviewer may make a grant for `tool` on these terms.
///
/// # Errors
/// Why it would be wider than allowed.
pub fn check(policy: &Policy, tool: &Tool, terms: &Terms, maker: &Maker) -> Result<(), TooWide> {
    let name = || tool.name.clone();
    if !tool.grantable {
        return Err(TooWide::NotGrantable { tool: name() });
    }
    if tool.runs_unconfined_commands() {
        return Err(TooWide::Unconfined { tool: name() });
    }
    if terms.ttl > LONGEST_TTL {
        return Err(TooWide::TooLong);
    }
    if terms.max_uses > MOST_USES {
        return Err(TooWide::TooManyUses);
    }
    let requirement = policy.requirement_of(tool, &terms.lifts.rules);
    if maker.could_approve_alone(&requirement) {
        return Ok(());
    }
    if requirement.step_up {
        return Err(TooWide::StepUp);
    }
    if maker.asks && !requirement.allow_self_approval {
        return Err(TooWide::Excluded);
    }
    let groups = requirement.groups.iter().map(|(group, count)| format!("{count} of `{group}`"));
    let anyone = (requirement.anyone > 1).then(|| format!("{} people", requirement.anyone));
    Err(TooWide::NotAlone { needed: groups.chain(anyone).collect::<Vec<_>>().join(" and ") })
}

/// The rules of `tool` that ask for a human: what a grant can lift beside the default.
pub fn liftable(tool: &Tool) -> impl Iterator<Item = &str> {
    tool.all_rules().filter(|rule| rule.verdict == Verdict::RequireApproval).map(|rule| rule.id.as_str())
}
