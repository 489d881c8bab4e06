//! Everything the policy's grammar has a place for and nothing yet builds.
//!
//! Using any of it is a load error that says so, never silently ignored. This is the one list: whoever builds a thing
//! deletes its entry here.

use super::{
    fault::{Faults, Place},
    manifest::{ApprovalEntry, Section},
};

const HINT: &str = "this version of Countersign does not build it; take it out";

/// Keys that are known and not read yet.
const KEYS: [(Section, &str); 7] = [
    (Section::Agent, "owner"),
    (Section::Approval, "double_confirm"),
    (Section::Approval, "decide_in"),
    (Section::Approval, "step_up"),
    (Section::Approval, "allow_self_approval"),
    (Section::Approval, "escalate"),
    (Section::Approval, "escalate_after"),
];

/// The known keys of `section` that are not read yet.
pub(super) fn keys(section: Section) -> impl Iterator<Item = &'static str> {
    KEYS.into_iter().filter(move |(of, _)| *of == section).map(|(_, key)| key)
}

/// Reports the use of `what` at `at`.
pub(super) fn report(faults: &mut Faults<'_>, at: &Place, what: &str) {
    faults.error(at, format!("{what}: not supported yet"), HINT);
}

/// Reports whether the terms of an approval need more than one approval by one reviewer, at once.
pub(super) fn approval(faults: &mut Faults<'_>, approval: &ApprovalEntry) {
    if let Some(quorum) = approval.quorum.as_ref().filter(|quorum| quorum.value > 1) {
        report(faults, &quorum.at, "a `quorum` above one");
    }
    if let Some(reviewers) = approval.reviewers.as_ref().filter(|reviewers| reviewers.value.len() > 1) {
        report(faults, &reviewers.at, "more than one group in `reviewers`");
    }
    if let Some(grace) = approval.grace.as_ref().filter(|grace| !grace.value.is_zero()) {
        report(faults, &grace.at, "`grace`");
    }
}

/// Reports a property marked `writeOnly` or `x-secret`.
pub(super) fn secret(faults: &mut Faults<'_>, at: &Place) {
    report(faults, at, "a secret property (`writeOnly`, `x-secret`)");
}
