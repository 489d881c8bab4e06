//! Cards for tests to render.

use std::collections::BTreeMap;

use countersign::{
    app::ports::Card,
    domain::{
        approval::requirement::DecideIn,
        review::{Approvers, AskingRule, Review, ShownValue, visible},
        run::RunKey,
        verdict::Risk,
    },
};

use crate::support::sample;

/// A value of the arguments, as reviews show it.
pub(super) fn shown(at: &str, kind: &str, text: &str) -> ShownValue {
    ShownValue { at: visible(at), kind: kind.to_owned(), shown: visible(text) }
}

/// A pending refund with these arguments.
pub(super) fn card(arguments: Vec<ShownValue>) -> Card {
    let approval = sample::approval();
    let review = Review {
        tool: approval.tool.clone(),
        risk: Risk::Send,
        reversible: false,
        idempotent: true,
        reason: approval.reason.clone(),
        asked_by: vec![AskingRule { rule: "large-refund".to_owned(), reason: "over 5000".to_owned() }],
        arguments,
        resolved: Vec::new(),
        subjects: Vec::new(),
        lookups: Vec::new(),
        chain: vec![RunKey::of(&approval.call)],
        on_behalf_of: Some(visible("alice@acme.example")),
        approvers: Approvers { groups: BTreeMap::new(), need: 1, grace_seconds: 0, double_confirm: false },
        expires_at: approval.expires_at,
    };
    Card {
        url: format!("https://approve.test/review/approvals/{}", approval.id),
        now: sample::at(30),
        review: Some(review),
        rationale: Some("The customer was charged twice.".to_owned()),
        approval,
    }
}

/// A refund of 6000.
pub(super) fn refund() -> Card {
    card(vec![shown("/amount", "number", "6000"), shown("/order", "string", "A-17")])
}

/// One that is decided on the web alone.
pub(super) fn web_only() -> Card {
    let mut card = refund();
    card.approval.requirement.decide_in = DecideIn::Web;
    card
}
