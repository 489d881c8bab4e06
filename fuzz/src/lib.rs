//! What the fuzz targets share: compiling a declaration that must be right, and resolving a value by it.

use countersign::domain::canon::{Kind, Refusal, Resolution};
use serde_json::{Map, Value};

/// The kind that this declaration of an argument compiles to.
///
/// # Panics
/// When the declaration is wrong; the targets' own are not.
pub fn kind(declaration: Value) -> Kind {
    Kind::compile(declaration.as_object().expect("a declaration is a table")).expect("the declaration is right")
}

/// What `value` resolves to, as the only argument of its call.
///
/// # Errors
/// As [`Kind::resolve`].
pub fn resolve(kind: &Kind, value: impl Into<Value>) -> Result<Resolution, Refusal> {
    kind.resolve(&value.into(), &Map::new())
}

/// The text in the field `name` of a resolved record.
///
/// # Panics
/// When there is none: every field of text is always there.
pub fn text<'r>(record: &'r Value, name: &str) -> &'r str {
    record[name].as_str().unwrap_or_else(|| panic!("no text in {name} of {record}"))
}

/// The texts in the field `name` of a resolved record.
///
/// # Panics
/// When it is no list of texts: such fields always are.
pub fn texts<'r>(record: &'r Value, name: &str) -> Vec<&'r str> {
    let items = record[name].as_array().unwrap_or_else(|| panic!("no list in {name} of {record}"));
    items.iter().map(|item| item.as_str().unwrap_or_else(|| panic!("no text in {name} of {record}"))).collect()
}
