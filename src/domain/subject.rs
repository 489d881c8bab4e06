//! Business keys: what a call is about, in the words of the business, such as `order:A-17`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::canon::json;

/// The longest value of a business key, in bytes.
const LONGEST: usize = 256;

/// One business key of a call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Subject {
    /// What sort of thing, as the policy calls it.
    pub name: String,
    /// Which one.
    pub value: String,
}

impl Subject {
    /// The key that `value` is; `None` when it is no scalar, empty, too long, or holds control characters.
    pub fn of(name: &str, value: &Value) -> Option<Self> {
        let value = match value {
            Value::String(text) => text.clone(),
            Value::Number(_) | Value::Bool(_) => String::from_utf8(json::canonical(value).ok()?).ok()?,
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        Self::new(name, &value)
    }

    /// Reads `name:value`, as auditors write it.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, value) = text.split_once(':')?;
        Self::new(name, value)
    }

    fn new(name: &str, value: &str) -> Option<Self> {
        let fits = !name.is_empty() && !value.is_empty() && value.len() <= LONGEST && !value.contains(char::is_control);
        fits.then(|| Self { name: name.to_owned(), value: value.to_owned() })
    }
}
