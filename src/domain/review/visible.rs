//! Text as it can be trusted to look: what could deceive is written out.

use unicode_normalization::char::is_combining_mark;

/// More combining marks in a row than this can cover the text around them.
const MOST_COMBINING_MARKS: usize = 2;

/// The text with every code point that could deceive written as `\u{..}`, and `\` as `\\`.
///
/// Those are controls, bidirectional and other invisible formats, default-ignorable characters, spaces other than
/// the plain one, and combining marks beyond two in a row. A run of plain spaces is written with its length, `\u{20×3}`,
/// and a single one at either end as `\u{20}`.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut marks = 0;
    let mut characters = text.chars().peekable();
    let mut first = true;
    while let Some(character) = characters.next() {
        marks = if is_combining_mark(character) { marks + 1 } else { 0 };
        match character {
            ' ' => {
                let mut spaces = 1_usize;
                while characters.next_if_eq(&' ').is_some() {
                    spaces += 1;
                }
                match spaces {
                    1 if !first && characters.peek().is_some() => shown.push(' '),
                    1 => shown.push_str("\\u{20}"),
                    many => shown.push_str(&format!("\\u{{20×{many}}}")),
                }
            }
            '"' | '\'' => shown.push(character),
            _ if is_default_ignorable(character) || marks > MOST_COMBINING_MARKS => {
                shown.extend(character.escape_unicode());
            }
            _ if marks > 0 => shown.push(character),
            // Escapes the backslash, controls, formats, odd spaces, and what is not assigned.
            _ => shown.extend(character.escape_debug()),
        }
        first = false;
    }
    shown
}

/// Default_Ignorable_Code_Point (Unicode Character Database) beyond the formats that `escape_debug` covers.
const fn is_default_ignorable(character: char) -> bool {
    matches!(
        character,
        '\u{34f}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{ffa0}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}
