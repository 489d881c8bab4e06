//! The memory behind `Idempotency-Key`: what is kept of an answer, and what it says when the request comes again.

use serde_json::{Value, json};

use super::{DecideAnswer, RefusedCall};
use crate::{
    app::ports::IdempotencyRecord,
    domain::{audit::chain::Hash, decision::ReasonCode, ids::ApprovalId, policy::schema::ArgumentFault},
};

/// An `Idempotency-Key`, scoped to caller and route, bound to the body.
#[derive(Clone, Debug)]
pub struct IdempotencyKey {
    /// The route it was sent to.
    pub route: &'static str,
    /// The client's text.
    pub key: String,
    /// SHA-256 of the canonical body.
    pub body_hash: Hash,
}

/// What an idempotency record keeps of an answer: why it was refused. A held call's approval tells its own state, and
/// whether a call is still permitted is decided again.
pub(super) fn memory_of(answer: &DecideAnswer) -> Value {
    match answer {
        DecideAnswer::Allowed(_) | DecideAnswer::Held(_) | DecideAnswer::Claimed(..) => Value::Null,
        DecideAnswer::Refused(RefusedCall::InvalidArguments { faults }) => json!({ "faults": faults }),
        DecideAnswer::Refused(RefusedCall::Declined { approval, message }) => {
            json!({ "declined": approval, "message": message })
        }
        DecideAnswer::Refused(RefusedCall::Bland { .. } | RefusedCall::Cancelled { .. }) => json!({ "refused": true }),
    }
}

/// The remembered refusal of a call that was not held; `None` when it was permitted.
pub(super) fn refusal_from_memory(record: &IdempotencyRecord) -> Option<RefusedCall> {
    let answer = record.answer.as_object()?;
    let field = |name: &str| answer.get(name).cloned().unwrap_or_default();
    if let Ok(faults) = serde_json::from_value::<Vec<ArgumentFault>>(field("faults")) {
        return Some(RefusedCall::InvalidArguments { faults });
    }
    if let Ok(approval) = serde_json::from_value::<ApprovalId>(field("declined")) {
        let message = serde_json::from_value(field("message")).unwrap_or_default();
        return Some(RefusedCall::Declined { approval, message });
    }
    Some(RefusedCall::Bland { reason: ReasonCode::DeniedBefore })
}
