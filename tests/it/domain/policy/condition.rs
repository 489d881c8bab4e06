//! Conditions: what they mean, what is refused when they are loaded, and that nothing makes them panic.

use std::collections::BTreeSet;

use countersign::domain::{
    canon::{FieldType, Shape},
    policy::{
        condition::{
            Condition, ConditionFault, Failure, InputParts, Inputs, Request, RequestedValue, RuleState, Scope,
        },
        schema::{JsonType, Place, Step, Typed},
    },
    time::Timestamp,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

mod faults;
mod hostile;
mod meaning;

/// A tool with one argument of each sort, and how the rule stands to it.
#[derive(Clone, Copy, Default)]
struct Tool {
    loosens: bool,
    open: bool,
}

const URL: Shape = Shape::Record(&[
    ("scheme", FieldType::Text),
    ("host", FieldType::Text),
    ("port", FieldType::Int),
    ("path", FieldType::Text),
    ("is_ip", FieldType::Bool),
]);
const EMAILS: Shape =
    Shape::List(&[("address", FieldType::Text), ("domain", FieldType::Text), ("display", FieldType::Text)], 50);
const PATH: Shape = Shape::Record(&[("path", FieldType::Text), ("name", FieldType::Text)]);
const TEXT: Shape = Shape::Record(&[("hosts", FieldType::TextList)]);

fn typed(types: &[JsonType]) -> Typed {
    let types: BTreeSet<_> = types.iter().copied().collect();
    Typed { types, max_items: None, max_length: None, required: true, secret: false, non_negative: false }
}

fn known(types: &[JsonType]) -> Place {
    Place::Known(typed(types))
}

impl Scope for Tool {
    fn argument(&self, path: &[Step]) -> Place {
        let name = path
            .iter()
            .map(|step| match step {
                Step::Property(name) => name.as_str(),
                Step::Item => "*",
            })
            .collect::<Vec<_>>()
            .join("/");
        match name.as_str() {
            "" | "order" => known(&[JsonType::Object]),
            "amount" | "order/total" | "lines/*/price" => known(&[JsonType::Number]),
            "count" | "lines/*/quantity" | "few/*" => known(&[JsonType::Integer]),
            "subject" | "url" | "to/*" | "tags/*" | "lines/*/sku" | "path" | "pair/*" | "lines/*/file" => {
                known(&[JsonType::String])
            }
            "short" => Place::Known(Typed { max_length: Some(100), ..typed(&[JsonType::String]) }),
            "urgent" => known(&[JsonType::Boolean]),
            "note" => known(&[JsonType::String, JsonType::Null]),
            "mixed" => known(&[JsonType::String, JsonType::Number]),
            "anything" => Place::Open,
            "token" => Place::Known(Typed { secret: true, ..typed(&[JsonType::String]) }),
            "to" => Place::Known(Typed { max_items: Some(50), ..typed(&[JsonType::Array]) }),
            "pair" => Place::Known(Typed { max_items: Some(2), ..typed(&[JsonType::Array]) }),
            "few" => Place::Known(Typed { max_items: Some(10), ..typed(&[JsonType::Array]) }),
            "tags" | "lines" => known(&[JsonType::Array]),
            "lines/*" => known(&[JsonType::Object]),
            _ => Place::Unknown,
        }
    }

    fn resolved(&self, argument: &str) -> Option<Shape> {
        match argument {
            "url" => Some(URL),
            "to" => Some(EMAILS),
            "path" => Some(PATH),
            "subject" => Some(TEXT),
            "/lines/*/file" => Some(Shape::List(&[("name", FieldType::Text)], 1_000)),
            _ => None,
        }
    }

    fn replaced_by_resolved(&self, argument: &str) -> bool {
        matches!(argument, "url" | "to" | "path" | "/lines/*/file")
    }

    fn var(&self, name: &str) -> Option<&Value> {
        vars().get(name)
    }

    fn loosens(&self) -> bool {
        self.loosens
    }

    fn tool_open(&self) -> bool {
        self.open
    }
}

fn vars() -> &'static Map<String, Value> {
    static VARS: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(|| {
        object(json!({
            "limit": 250,
            "ratio": 1.5,
            "whole": 250.0,
            "domains": ["acme.example", "acme.internal"],
            "per_tag": { "red": 10, "blue": 20 },
            "rates": [{ "sku": "a", "most": 3 }, { "sku": "b", "most": 5 }],
            "mixed": ["a", 1],
            "nothing": [],
        }))
    });
    &VARS
}

fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(map) = value { map } else { panic!("{value} is no object") }
}

/// What a call brings, with harmless defaults.
struct Call {
    args: Map<String, Value>,
    resolved: Map<String, Value>,
    agent: Value,
    context: Option<Value>,
    run: Option<Value>,
    now: Timestamp,
}

impl Call {
    fn with(args: Value) -> Self {
        Self {
            args: object(args),
            resolved: object(json!({
                "url": { "scheme": "https", "host": "api.acme.example", "port": 443, "path": "/v1/x", "is_ip": false },
                "to": [
                    { "address": "ana@acme.example", "domain": "acme.example", "display": "" },
                    { "address": "bo@evil.example", "domain": "evil.example", "display": "Bo" },
                ],
                "path": { "path": "reports/2026/q.v1.pdf", "name": "q.v1.pdf" },
                "subject": { "hosts": ["a.b.example"] },
            })),
            agent: json!({ "id": "billing-bot", "labels": { "team": "billing" } }),
            context: Some(json!({ "ticket": "T-1", "flag": true, "number": 7, "list": ["a", "b"] })),
            run: Some(json!({ "id": "run-1", "labels": ["private-data"], "on_behalf_of": null })),
            now: Timestamp::parse_rfc3339("2026-11-30T15:04:05Z").unwrap(),
        }
    }

    fn evaluate_with(&self, condition: &Condition, request: Request<'_>) -> RuleState {
        condition.evaluate(&Inputs::new(InputParts {
            args: &self.args,
            resolved: &self.resolved,
            agent: &self.agent,
            context: self.context.as_ref(),
            run: self.run.as_ref(),
            now: self.now,
            request,
        }))
    }

    fn evaluate(&self, source: &str) -> RuleState {
        self.evaluate_with(&compiled(source), Request::None)
    }
}

#[track_caller]
fn compiled(source: &str) -> Condition {
    match Condition::compile(source, &Tool::default()) {
        Ok(condition) => condition,
        Err(faults) => panic!("{source}: {faults:?}"),
    }
}

fn faults(source: &str, tool: Tool) -> Vec<ConditionFault> {
    match Condition::compile(source, &tool) {
        Ok(_) => Vec::new(),
        Err(faults) => faults,
    }
}
