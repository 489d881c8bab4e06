//! What was decided about a call, and everything that led to it.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    approval::requirement::Requirement,
    facts::StandingDenial,
    ids::GrantId,
    policy::{PolicyVersion, condition::RuleState, schema::ArgumentFault},
    verdict::Verdict,
};

/// Why a verdict is what it is, as a stable word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasonCode {
    /// The agent is paused.
    AgentPaused,
    /// The run has ended.
    RunEnded,
    /// No tool has this name.
    UnknownTool,
    /// The tool is not in the agent's list.
    ToolNotGranted,
    /// The arguments do not fit the tool's schema.
    InvalidArguments,
    /// An argument has no single meaning.
    UnresolvableArgument,
    /// An argument breaks a hard constraint.
    Constraint,
    /// A rule of the tool.
    Rule,
    /// A rule over many tools.
    Floor,
    /// The tool's default.
    Default,
    /// The tool runs commands outside a sandbox.
    NotSandboxed,
    /// One call more than a limit admits.
    Limit,
    /// A reviewer's grant covers the call.
    Grant,
    /// The caller asked for a human although policy would allow.
    HoldRequested,
    /// The call was held before: policy that has loosened since opens no second way to run it.
    HeldBefore,
    /// A reviewer denied the same call before.
    DeniedBefore,
    /// No reviewer could ever meet the requirement.
    NoReviewer,
    /// Too many approvals of this run wait already.
    OpenApprovalsOfRun,
    /// Too many approvals of this agent wait already.
    OpenApprovalsOfAgent,
    /// Reviewers denied this tool too often in this run.
    RefusedTooOften,
    /// The call expired too often without a decision.
    ExpiredTooOften,
}

impl ReasonCode {
    /// The word for it in the log and for operators.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AgentPaused => "agent_paused",
            Self::RunEnded => "run_ended",
            Self::UnknownTool => "unknown_tool",
            Self::ToolNotGranted => "tool_not_granted",
            Self::InvalidArguments => "invalid_arguments",
            Self::UnresolvableArgument => "unresolvable_argument",
            Self::Constraint => "constraint",
            Self::Rule => "rule",
            Self::Floor => "floor",
            Self::Default => "default",
            Self::NotSandboxed => "not_sandboxed",
            Self::Limit => "limit",
            Self::Grant => "grant",
            Self::HoldRequested => "hold_requested",
            Self::HeldBefore => "held_before",
            Self::DeniedBefore => "denied_before",
            Self::NoReviewer => "no_reviewer",
            Self::OpenApprovalsOfRun => "open_approvals_of_run",
            Self::OpenApprovalsOfAgent => "open_approvals_of_agent",
            Self::RefusedTooOften => "refused_too_often",
            Self::ExpiredTooOften => "expired_too_often",
        }
    }
}

impl fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why: for machines, and for people who may know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// The stable word.
    pub code: ReasonCode,
    /// The sentence; from the policy or from code, never from the arguments.
    pub text: String,
    /// The rule, constraint or argument that decided, as `rule-id` or `argument: fault_code`.
    pub rule: Option<String>,
}

/// The state of one rule in this decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleTrace {
    /// The rule.
    pub rule: String,
    /// What its condition came to.
    pub state: RuleState,
}

/// What `judge` says: steps 1 to 6.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The verdict so far.
    pub verdict: Verdict,
    /// Why.
    pub reason: Reason,
    /// The tool's own name; `None` when no tool has the presented one.
    pub tool: Option<String>,
    /// Every rule that was evaluated.
    pub rules: Vec<RuleTrace>,
    /// What the arguments with a kind resolved to.
    pub resolved: Map<String, Value>,
    /// What the executor must keep to.
    pub obligations: Map<String, Value>,
    /// What a human must agree to, when the verdict is to ask one.
    pub requirement: Option<Requirement>,
    /// The rules and limits that ask for a human, by id; empty when the tool's default or step 6 asks.
    pub asked_by: Vec<String>,
    /// Where the arguments do not fit the schema.
    pub argument_faults: Vec<ArgumentFault>,
    /// The policy that judged.
    pub policy_version: PolicyVersion,
}

/// What `settle` says: the final verdict, and what it rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The judgement, with the final verdict and reason.
    pub judgement: Judgement,
    /// The denial by a reviewer that answers this call as well.
    pub standing_denial: Option<StandingDenial>,
    /// The grant that lets the call through, and that it is a use of.
    pub grant: Option<GrantId>,
}

/// The version of the engine that decided, recorded with every decision.
pub const ENGINE_VERSION: &str = env!("CARGO_PKG_VERSION");
