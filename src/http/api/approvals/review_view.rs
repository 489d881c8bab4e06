//! The review as answers carry it: the very JSON that was stored and hashed.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use crate::domain::{
    review::{Approvers, AskingRule, Review, ShownLookup, ShownValue},
    run::RunKey,
    subject::Subject,
    time::Timestamp,
};

/// What was rendered of a held call, by code, from its arguments and the service's own lookups. Characters that could
/// deceive are written as `\u{..}`, a run of spaces with its length as `\u{20×3}`.
#[derive(Serialize, ToSchema)]
#[schema(as = Review)]
pub(super) struct ReviewView {
    tool: String,
    /// `read`, `draft`, `send` or `destructive`.
    risk: &'static str,
    /// Whether what it does can be undone.
    reversible: bool,
    /// Whether running it twice has the effect of running it once.
    idempotent: bool,
    /// Why people are asked.
    reason: String,
    /// The rules that asked; none when it was the tool's default.
    asked_by: Vec<AskingRuleView>,
    /// Every value among the arguments; the items of a list each apart.
    arguments: Vec<ShownValueView>,
    /// What arguments with a kind stand for, where that is not what stands in them.
    resolved: Vec<ShownValueView>,
    /// The business keys of the call.
    subjects: Vec<SubjectView>,
    /// What the service itself found out.
    lookups: Vec<ShownLookupView>,
    /// The run of the call, and the runs above it, the nearest first.
    chain: Vec<ChainLinkView>,
    /// Whom the run works for.
    on_behalf_of: Option<String>,
    /// Who must approve.
    approvers: ApproversView,
    /// Until when people may decide, and the call be claimed.
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
}

/// A rule that asked for people.
#[derive(Serialize, ToSchema)]
#[schema(as = AskingRule)]
struct AskingRuleView {
    rule: String,
    reason: String,
}

/// One value.
#[derive(Serialize, ToSchema)]
#[schema(as = ShownValue)]
struct ShownValueView {
    /// JSON Pointer (RFC 6901).
    at: String,
    /// Its JSON type.
    kind: String,
    /// Its value.
    shown: String,
}

/// A business key.
#[derive(Serialize, ToSchema)]
#[schema(as = Subject)]
struct SubjectView {
    name: String,
    value: String,
}

/// What one lookup found.
#[derive(Serialize, ToSchema)]
#[schema(as = ShownLookup)]
struct ShownLookupView {
    name: String,
    /// It is a dry run: what would come of the call, not what is.
    preview: bool,
    /// Why it found nothing, such as `timed_out`; `null` when it did.
    failed: Option<String>,
    values: Vec<ShownValueView>,
}

/// One run of the chain.
#[derive(Serialize, ToSchema)]
#[schema(as = ChainLink)]
struct ChainLinkView {
    agent: String,
    run: String,
}

/// Who must approve.
#[derive(Serialize, ToSchema)]
#[schema(as = Approvers)]
struct ApproversView {
    /// How many of each named group.
    groups: BTreeMap<String, u32>,
    /// How many people in all.
    need: u32,
    /// How many seconds after the last approve the call cannot be claimed yet.
    grace_seconds: u64,
    /// Whether an approve must be confirmed.
    double_confirm: bool,
}

impl From<Review> for ReviewView {
    fn from(review: Review) -> Self {
        Self {
            tool: review.tool,
            risk: review.risk.as_str(),
            reversible: review.reversible,
            idempotent: review.idempotent,
            reason: review.reason,
            asked_by: review.asked_by.into_iter().map(AskingRuleView::from).collect(),
            arguments: shown(review.arguments),
            resolved: shown(review.resolved),
            subjects: review.subjects.into_iter().map(SubjectView::from).collect(),
            lookups: review.lookups.into_iter().map(ShownLookupView::from).collect(),
            chain: review.chain.into_iter().map(ChainLinkView::from).collect(),
            on_behalf_of: review.on_behalf_of,
            approvers: review.approvers.into(),
            expires_at: review.expires_at,
        }
    }
}

fn shown(values: Vec<ShownValue>) -> Vec<ShownValueView> {
    let view = |ShownValue { at, kind, shown }| ShownValueView { at, kind, shown };
    values.into_iter().map(view).collect()
}

impl From<AskingRule> for AskingRuleView {
    fn from(asking: AskingRule) -> Self {
        Self { rule: asking.rule, reason: asking.reason }
    }
}

impl From<Subject> for SubjectView {
    fn from(subject: Subject) -> Self {
        Self { name: subject.name, value: subject.value }
    }
}

impl From<ShownLookup> for ShownLookupView {
    fn from(lookup: ShownLookup) -> Self {
        let ShownLookup { name, preview, failed, values } = lookup;
        Self { name, preview, failed, values: shown(values) }
    }
}

impl From<RunKey> for ChainLinkView {
    fn from(key: RunKey) -> Self {
        Self { agent: key.agent.to_string(), run: key.run.to_string() }
    }
}

impl From<Approvers> for ApproversView {
    fn from(approvers: Approvers) -> Self {
        let Approvers { groups, need, grace_seconds, double_confirm } = approvers;
        Self { groups, need, grace_seconds, double_confirm }
    }
}
