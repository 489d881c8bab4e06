//! What a reviewer is shown of a held call: rendered by code from the arguments, never from the model's words.

use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use unicode_normalization::char::is_combining_mark;

use super::{approval::state::Approval, canon::json};

/// More combining marks in a row than this can cover the text around them.
const MOST_COMBINING_MARKS: usize = 2;

/// The rendered arguments of one held call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Review {
    /// The tool.
    pub tool: String,
    /// Why a human is asked: the deciding rule's reason, or the service's own.
    pub reason: String,
    /// The rules that asked.
    pub asked_by: Vec<String>,
    /// Every value of the arguments, in the canonical order of their names.
    pub arguments: Vec<ShownArgument>,
}

/// One value among the arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShownArgument {
    /// Where it stands: a JSON Pointer (RFC 6901), deceiving characters made visible.
    pub at: String,
    /// Its JSON type.
    pub kind: &'static str,
    /// Its value, deceiving characters made visible.
    pub shown: String,
}

impl Review {
    /// Renders the arguments of `approval`.
    pub fn of(approval: &Approval, args: &Map<String, Value>) -> Self {
        let mut arguments = Vec::new();
        for (name, value) in args {
            render(&format!("/{}", escape_pointer(name)), value, &mut arguments);
        }
        Self {
            tool: approval.tool.clone(),
            reason: approval.reason.clone(),
            asked_by: approval.asked_by.iter().cloned().collect(),
            arguments,
        }
    }

    /// `sha256:` and the SHA-256 of the canonical JSON of what is shown.
    pub fn hash(&self) -> String {
        let canonical = json::canonical(self).unwrap_or_default();
        format!("sha256:{}", hex::encode(Sha256::digest(canonical)))
    }
}

/// The text with every code point that could deceive written as `\u{..}`, and `\` as `\\`.
///
/// Those are controls, bidirectional and other invisible formats, default-ignorable characters, spaces other than
/// the plain one, and combining marks beyond two in a row.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut marks = 0;
    for character in text.chars() {
        marks = if is_combining_mark(character) { marks + 1 } else { 0 };
        match character {
            '"' | '\'' => shown.push(character),
            _ if is_default_ignorable(character) || marks > MOST_COMBINING_MARKS => {
                shown.extend(character.escape_unicode());
            }
            _ if marks > 0 => shown.push(character),
            // Escapes the backslash, controls, formats, odd spaces, and what is not assigned.
            _ => shown.extend(character.escape_debug()),
        }
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

fn render(at: &str, value: &Value, arguments: &mut Vec<ShownArgument>) {
    let (kind, shown) = match value {
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                render(&format!("{at}/{index}"), item, arguments);
            }
            return;
        }
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                render(&format!("{at}/{}", escape_pointer(name)), member, arguments);
            }
            return;
        }
        Value::Array(_) => ("array", "[]".to_owned()),
        Value::Object(_) => ("object", "{}".to_owned()),
        Value::Null => ("null", "null".to_owned()),
        Value::Bool(value) => ("boolean", value.to_string()),
        Value::Number(number) => ("number", number.to_string()),
        Value::String(text) => ("string", visible(text)),
    };
    arguments.push(ShownArgument { at: visible(at), kind, shown });
}

fn escape_pointer(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
