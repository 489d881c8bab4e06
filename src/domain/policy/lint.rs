//! What its author should look at in a policy that loads (design section 12).

use super::{Policy, fault::Faults, manifest::Manifest};

/// Adds the warnings about a policy without errors.
pub(super) fn check(manifest: &Manifest, policy: &Policy, faults: &mut Faults<'_>) {
    let _ = (manifest, policy, faults);
}
