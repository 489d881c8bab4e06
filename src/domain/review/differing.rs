//! What an argument with a kind stands for, where that is not simply what stands in it: a path below its root, the words
//! of a command, both forms of an internationalised host.

use serde_json::{Map, Value};

use super::{ShownValue, pointer, render as render_plainly};
use crate::domain::canon::json;

/// How an internationalised label begins in its ASCII form (RFC 5890, A-label).
const A_LABEL: &str = "xn--";

/// Shows what the argument of this name resolved to, as far as it differs. A list stands record by record.
pub(super) fn render(name: &str, args: &Map<String, Value>, resolved: &Value, shown: &mut Vec<ShownValue>) {
    let at = if name.starts_with('/') { name.to_owned() } else { pointer(name) };
    let written = written(name, args);
    let mut show = |at: &str, record: &Value| {
        if !says_no_more(record, &written, false) {
            let before = shown.len();
            render_plainly(at, &without_empty(record), shown);
            for value in shown.iter_mut().skip(before) {
                if let Some(unicode) = unicode_form(&value.shown) {
                    value.shown = format!("{} ({unicode})", value.shown);
                }
            }
        }
    };
    match resolved.as_array() {
        Some(records) => {
            for (index, record) in records.iter().enumerate() {
                show(&format!("{at}/{index}"), record);
            }
        }
        None => show(&at, resolved),
    }
}

/// The text of the property that the argument stands in.
fn written(name: &str, args: &Map<String, Value>) -> String {
    let property = match name.strip_prefix('/') {
        Some(pointer) => pointer.split('/').next().unwrap_or_default().replace("~1", "/").replace("~0", "~"),
        None => name.to_owned(),
    };
    match args.get(&property) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => json::canonical(other).ok().and_then(|text| String::from_utf8(text).ok()).unwrap_or_default(),
        None => String::new(),
    }
}

/// Whether every text in `resolved` can be read in what was written. Several texts in a list are more: where one ends
/// and the next begins.
fn says_no_more(resolved: &Value, written: &str, in_list: bool) -> bool {
    match resolved {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => written.contains(text.as_str()) && !text.contains(A_LABEL),
        Value::Array(items) => {
            (items.len() <= 1 || in_list) && items.iter().all(|item| says_no_more(item, written, true))
        }
        Value::Object(members) => members.values().all(|member| says_no_more(member, written, false)),
    }
}

/// The record without members that say nothing.
fn without_empty(record: &Value) -> Value {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    match record.as_object() {
        Some(members) => {
            let said = members.iter().filter(|(_, value)| !empty(value));
            Value::Object(said.map(|(name, value)| (name.clone(), value.clone())).collect())
        }
        None => record.clone(),
    }
}

/// The Unicode form of the host that the text is, or ends in after `@`.
fn unicode_form(text: &str) -> Option<String> {
    let host = text.rsplit('@').next()?;
    let is_host = host.contains(A_LABEL) && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'));
    let (unicode, outcome) = idna::domain_to_unicode(host);
    (is_host && outcome.is_ok()).then(|| super::visible(&unicode))
}
