//! Everything the policy's grammar has a place for and nothing yet builds.
//!
//! Using any of it is a load error that says so, never silently ignored. This is the one list: whoever builds a thing
//! deletes its entry here.

use super::{
    fault::{Faults, Place},
    manifest::Section,
};

const HINT: &str = "this version of Countersign does not build it; take it out";

/// Keys that are known and not read yet.
const KEYS: [(Section, &str); 0] = [];

/// The known keys of `section` that are not read yet.
pub(super) fn keys(section: Section) -> impl Iterator<Item = &'static str> {
    KEYS.into_iter().filter(move |(of, _)| *of == section).map(|(_, key)| key)
}

/// Reports the use of `what` at `at`.
pub(super) fn report(faults: &mut Faults<'_>, at: &Place, what: &str) {
    faults.error(at, format!("{what}: not supported yet"), HINT);
}

/// Reports a property marked `writeOnly` or `x-secret`.
pub(super) fn secret(faults: &mut Faults<'_>, at: &Place) {
    report(faults, at, "a secret property (`writeOnly`, `x-secret`)");
}
