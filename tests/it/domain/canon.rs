//! Tests of the kinds: each turns a value into one form, or refuses it.

mod command;
mod corpora;
mod email;
mod glob;
mod hostname;
mod json;
mod kind;
mod money;
mod path;
mod properties;
mod sql;
mod text;
mod url;

use countersign::domain::canon::{Kind, OptionFault, Refusal};
use serde_json::{Map, Value, json};

/// Compiles a declaration that must be right.
fn kind(declaration: Value) -> Kind {
    Kind::compile(declaration.as_object().expect("a table")).expect("a right declaration")
}

/// The faults of a declaration that must be wrong.
fn faults(declaration: Value) -> Vec<OptionFault> {
    let faults = Kind::compile(declaration.as_object().expect("a table")).expect_err("a wrong declaration");
    assert!(faults.iter().all(|fault| !fault.message.is_empty() && !fault.hint.is_empty()));
    faults
}

/// The one fault of a declaration: its option and item.
fn fault(declaration: Value) -> (Option<String>, Option<usize>) {
    let mut faults = faults(declaration);
    assert_eq!(faults.len(), 1, "{faults:?}");
    let fault = faults.remove(0);
    (fault.option, fault.item)
}

fn named(option: &str) -> (Option<String>, Option<usize>) {
    (Some(option.to_owned()), None)
}

fn item(option: &str, item: usize) -> (Option<String>, Option<usize>) {
    (Some(option.to_owned()), Some(item))
}

fn resolve(kind: &Kind, value: impl Into<Value>) -> Result<Value, Refusal> {
    kind.resolve(&value.into(), &Map::new()).map(|resolution| resolution.value)
}

fn resolved(kind: &Kind, value: impl Into<Value>) -> Value {
    let value = value.into();
    resolve(kind, value.clone()).unwrap_or_else(|refusal| panic!("{value} was refused: {refusal:?}"))
}

/// The code of a refusal for want of a single meaning.
fn unresolvable(kind: &Kind, value: impl Into<Value>) -> &'static str {
    let value = value.into();
    match resolve(kind, value.clone()) {
        Err(refusal @ Refusal::Unresolvable { .. }) => refusal.code(),
        other => panic!("{value} gave {other:?}"),
    }
}

/// The code of a refusal by the policy's options.
fn forbidden(kind: &Kind, value: impl Into<Value>) -> &'static str {
    let value = value.into();
    match resolve(kind, value.clone()) {
        Err(refusal @ Refusal::Constraint { .. }) => refusal.code(),
        other => panic!("{value} gave {other:?}"),
    }
}

fn obligations(kind: &Kind, value: impl Into<Value>) -> Value {
    json!(kind.resolve(&value.into(), &Map::new()).expect("a good value").obligations)
}
