//! Characters that deceive: what every kind refuses or folds in the same way. It knows no kind.

use unicode_normalization::UnicodeNormalization;

use super::Refusal;

/// Code points that are shown as nothing or reorder what stands around them: the property
/// `Default_Ignorable_Code_Point` of Unicode's `DerivedCoreProperties`, the two Unicode line breaks, the interlinear
/// annotations, and the replacement character, which stands where something could not be read.
const DECEIVING: [(char, char); 20] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{fffd}', '\u{fffd}'),
    ('\u{fffe}', '\u{ffff}'),
    ('\u{fdd0}', '\u{fdef}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Whether the character is invisible, reorders text, or stands for nothing.
pub(super) fn deceives(character: char) -> bool {
    !character.is_ascii() && DECEIVING.iter().any(|(low, high)| (*low..=*high).contains(&character))
}

/// Refuses control characters (NUL, line breaks, escapes, C1).
pub(super) fn no_controls(text: &str) -> Result<(), Refusal> {
    if text.contains(char::is_control) {
        return Err(Refusal::unresolvable("control_character", "it holds a control character"));
    }
    Ok(())
}

/// Refuses control characters and what [`deceives`].
pub(super) fn only_visible(text: &str) -> Result<(), Refusal> {
    no_controls(text)?;
    if text.contains(deceives) {
        return Err(Refusal::unresolvable(
            "invisible_character",
            "it holds an invisible, reordering or replacement character",
        ));
    }
    Ok(())
}

/// Refuses white space at either end, which some programs cut off and others keep.
pub(super) fn no_surrounding_space(text: &str) -> Result<(), Refusal> {
    if text.starts_with(char::is_whitespace) || text.ends_with(char::is_whitespace) {
        return Err(Refusal::unresolvable("surrounding_space", "it begins or ends with white space"));
    }
    Ok(())
}

/// Folds case and Unicode form, so that names a file system or a reader may take for one become one.
///
/// NFKC (UAX #15), then upper case and lower case, which together stand in for full case folding (`ß` and `ss`
/// meet), then NFKC again because folding can undo it. Invisible characters fall away.
pub(super) fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let composed: String = text.nfkc().filter(|character| !deceives(*character)).collect();
    composed.to_uppercase().to_lowercase().nfkc().collect()
}

/// What compatibility normalisation (NFKC, UAX #15) makes of one character.
pub(super) fn compatible_form(character: char) -> String {
    std::iter::once(character).nfkc().collect()
}
