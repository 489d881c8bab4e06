//! Everything a use case can answer instead of its result. `http::error` maps it, in one place.

use super::{
    decide_many::InTheWay,
    ports::{EntropyError, SigningError, StoreError},
    runs::RunRefused,
};
use crate::domain::{
    approval::{confirmation::ConfirmationFault, state::Refused},
    canon::json::ArgsHash,
    grant::TooWide,
    ids::{ApprovalId, ClaimId},
    lookup::LookupObjection,
    policy::condition::ConditionFault,
    time::Timestamp,
};

/// Why a use case did not do what was asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The store did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No random bytes.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// No permit.
    #[error(transparent)]
    Signing(#[from] SigningError),
    /// A value of ours has no canonical JSON.
    #[error("a record has no canonical form: {0}")]
    Unwritable(String),
    /// There is no such thing, or it is not for this caller to know.
    #[error("not found")]
    NotFound,
    /// The caller's key was revoked or expired in the meantime.
    #[error("the key is no longer valid")]
    KeyRevoked,
    /// The approval's state does not take this event.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The decision names arguments that are not the ones held.
    #[error("args_hash is not the one held")]
    StaleArgs {
        /// The hash of the arguments that are held.
        current: ArgsHash,
    },
    /// The decision names a review that is not the current one.
    #[error("review_hash is not the current one")]
    StaleReview {
        /// The hash of the review as it is shown now.
        current: String,
    },
    /// The reviewer may see, but not approve.
    #[error("not eligible to approve: {0}")]
    NotEligible(String),
    /// It is decided on the review page alone.
    #[error("this is approved on the review page only")]
    DecideInWeb,
    /// It takes a sign-in at the provider within the last minutes.
    #[error("this takes a fresh sign-in")]
    StepUpRequired,
    /// The second click on an approve does not count.
    #[error(transparent)]
    Confirmation(#[from] ConfirmationFault),
    /// A claim presented other arguments than those approved; the approval is dead.
    #[error("the arguments are not those approved")]
    ArgsMismatch,
    /// Today's policy does not permit what yesterday's held.
    #[error("the policy has changed: {0}")]
    PolicyChanged(String),
    /// A path leads to another place on disk than the one that was approved.
    #[error("the path has moved: {0}")]
    PathMoved(String),
    /// The service's own look at the world does not stand behind a claim.
    #[error(transparent)]
    Lookup(LookupObjection),
    /// The id of a held call came with another tool or other arguments.
    #[error("this tool_use_id names another call")]
    ToolUseIdReused,
    /// The `Idempotency-Key` came with another body.
    #[error("this Idempotency-Key was used with another body")]
    IdempotencyConflict,
    /// The call is executed: it never runs again.
    #[error("already executed")]
    AlreadyExecuted(Box<AlreadyExecuted>),
    /// An outcome is recorded, and this one differs.
    #[error("an outcome is recorded already")]
    OutcomeStands,
    /// A grant would be wider than allowed.
    #[error(transparent)]
    GrantTooWide(#[from] TooWide),
    /// The condition of a grant does not compile.
    #[error("the condition does not compile")]
    Condition(Vec<ConditionPlace>),
    /// The approval does not offer the grant that the decision takes.
    #[error("the approval does not offer this grant")]
    OfferGone,
    /// Something stands in the way of what was to be done to a run.
    #[error(transparent)]
    Run(#[from] RunRefused),
    /// Of many decisions these could not be taken, so none was.
    #[error("{} of the decisions could not be taken", .0.len())]
    InTheWay(Vec<InTheWay>),
    /// What was asked for cannot be done with these values.
    #[error("{0}")]
    Invalid(String),
}

/// Where a condition is at fault, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionPlace {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// How to mend it.
    pub hint: String,
}

impl ConditionPlace {
    /// Where `fault` stands in `source`; one of the condition as a whole stands at its beginning.
    pub fn of(fault: ConditionFault, source: &str) -> Self {
        let before = source.chars().take(fault.column.unwrap_or_default());
        let (line, column) = before.fold((1, 1), |(line, column), character| match character {
            '\n' => (line + 1, 1),
            _ => (line, column + 1),
        });
        Self { line, column, message: fault.message, hint: fault.hint }
    }
}

/// What is known of a call that ran, or whose claim is out.
#[derive(Clone, Debug, PartialEq)]
pub struct AlreadyExecuted {
    /// Its approval.
    pub approval: ApprovalId,
    /// The claim it ran under.
    pub claim: ClaimId,
    /// `null`, `succeeded`, `failed` or `unknown`.
    pub outcome: Option<String>,
    /// What the stack reported as its result.
    pub result: Option<serde_json::Value>,
    /// When it was claimed.
    pub claimed_at: Timestamp,
}
