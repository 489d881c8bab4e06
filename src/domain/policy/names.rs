//! The names of tools: which ones are taken, and which ones look like another.

use unicode_normalization::UnicodeNormalization;
use unicode_security::{GeneralSecurityProfile, MixedScript};

/// The longest name of a tool, in characters.
const MAX_LENGTH: usize = 128;

/// The form in which two names must differ: NFKC with case folded away (by way of upper case, so that letters whose
/// folding is longer than themselves fold too).
pub(super) fn folded(name: &str) -> String {
    let upper = name.nfkc().collect::<String>().to_uppercase();
    upper.to_lowercase().nfkc().collect()
}

/// What keeps `name` from being the name of a tool, if anything.
pub(super) fn fault(name: &str) -> Option<&'static str> {
    if name.is_empty() || name.chars().count() > MAX_LENGTH {
        return Some("has no or more than 128 characters");
    }
    // Zero-width, bidirectional, compatibility and other characters that Unicode's profile for identifiers leaves out.
    let plain = |c: char| if c.is_ascii() { c.is_ascii_graphic() } else { c.identifier_allowed() };
    if !name.chars().all(plain) {
        return Some("has a character that cannot be seen or is not fit for names");
    }
    if !name.is_single_script() {
        return Some("mixes scripts, so that it can pass for another name");
    }
    None
}
