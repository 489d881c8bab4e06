//! Text for Slack: escaped, measured and cut the way Slack counts. It must not know what a text says.
//!
//! Slack does not say what it counts; UTF-16 units after escaping are the most that it could be. Text that comes from
//! outside has been through [`visible`](crate::domain::review::visible) before it comes here.

use serde_json::{Value, json};

/// The longest text of a section.
pub(super) const LONGEST_SECTION: usize = 3_000;

/// How a character is written in any text of Slack, where not as itself.
const fn entity(character: char) -> Option<&'static str> {
    match character {
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        _ => None,
    }
}

/// How long a character is when it is escaped.
fn escaped_units(character: char) -> usize {
    entity(character).map_or(character.len_utf16(), str::len)
}

/// The text with the three characters written out that could begin a mention, a link or an entity.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match entity(character) {
            Some(entity) => escaped.push_str(entity),
            None => escaped.push(character),
        }
    }
    escaped
}

/// How long Slack takes a text to be once it is escaped.
pub fn units(text: &str) -> usize {
    text.chars().map(escaped_units).sum()
}

/// The text in pieces that are no longer than `most` when they are escaped.
pub(super) fn pieces(text: &str, most: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let (mut piece, mut length) = (String::new(), 0);
    for character in text.chars() {
        let more = escaped_units(character);
        if length + more > most && !piece.is_empty() {
            pieces.push(std::mem::take(&mut piece));
            length = 0;
        }
        piece.push(character);
        length += more;
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

/// The text, or its beginning with a mark behind it, no longer than `most` when it is escaped.
pub(super) fn cut(text: &str, most: usize) -> String {
    const MARK: &str = " [cut]";
    if units(text) <= most {
        return text.to_owned();
    }
    let head = pieces(text, most.saturating_sub(MARK.len())).into_iter().next().unwrap_or_default();
    format!("{head}{MARK}")
}

/// A text object that Slack reads no markup in. What is longer than `most` is cut.
pub(super) fn plain(text: &str, most: usize) -> Value {
    json!({ "type": "plain_text", "text": escaped(&cut(text, most)), "emoji": false })
}
