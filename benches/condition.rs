//! How long conditions take: everyday ones, and the costliest that are admitted on the largest body.
//!
//! Run with `cargo bench --bench condition`. It prints and asserts nothing; the figures are in `MAX_COST`'s comment.

use std::{collections::BTreeSet, hint::black_box, time::Instant};

use countersign::domain::{
    canon::{FieldType, Shape},
    policy::{
        condition::{Condition, InputParts, Inputs, Request, Scope},
        schema::{JsonType, Place, Step, Typed},
    },
    time::Timestamp,
};
use serde_json::{Map, Value, json};

struct Tool {
    vars: Map<String, Value>,
}

impl Scope for Tool {
    fn argument(&self, path: &[Step]) -> Place {
        let types = match path {
            [] => JsonType::Object,
            [Step::Property(name)] if name == "amount" => JsonType::Number,
            [Step::Property(name)] if name == "items" || name == "numbers" => JsonType::Array,
            [Step::Property(name), Step::Item] if name == "numbers" => JsonType::Integer,
            _ => JsonType::String,
        };
        Place::Known(Typed {
            types: BTreeSet::from([types]),
            max_items: None,
            max_length: None,
            required: true,
            secret: false,
            non_negative: false,
        })
    }

    fn resolved(&self, _argument: &str) -> Option<Shape> {
        Some(Shape::List(&[("domain", FieldType::Text)], 50))
    }

    fn replaced_by_resolved(&self, _argument: &str) -> bool {
        false
    }

    fn var(&self, name: &str) -> Option<&Value> {
        self.vars.get(name)
    }

    fn loosens(&self) -> bool {
        false
    }

    fn tool_open(&self) -> bool {
        false
    }
}

fn measure(tool: &Tool, name: &str, args: Value, source: &str) {
    let condition = match Condition::compile(source, tool) {
        Ok(condition) => condition,
        Err(faults) => {
            println!("{name:<32} refused: {}", faults.first().map_or("", |fault| fault.message.as_str()));
            return;
        }
    };
    let Value::Object(args) = args else { return };
    let resolved =
        json!({ "to": [{ "domain": "acme.example" }, { "domain": "acme.internal" }, { "domain": "b.test" }] });
    let Value::Object(resolved) = resolved else { return };
    let agent = json!({ "id": "billing-bot", "labels": {} });
    let run = json!({ "id": "r", "labels": ["private-data"], "on_behalf_of": null });
    let once = || {
        let inputs = Inputs::new(InputParts {
            args: &args,
            resolved: &resolved,
            agent: &agent,
            context: None,
            run: Some(&run),
            now: Timestamp::from_micros(1_796_051_045_000_000),
            request: Request::None,
        });
        black_box(condition.evaluate(black_box(&inputs)))
    };
    let started = Instant::now();
    let state = once();
    let times = (200_000_000 / started.elapsed().as_nanos().max(100)).clamp(3, 1_000_000);
    let started = Instant::now();
    for _ in 0..times {
        once();
    }
    let each = started.elapsed().as_nanos() / times;
    println!("{name:<32} {:>9}.{:03} us  cost {:>6}  {state:?}", each / 1_000, each % 1_000, condition.cost());
}

/// `part` joined to itself by `&&` as often as the bounds admit.
fn most_of(tool: &Tool, part: &str) -> String {
    let repeated = |times: usize| vec![part; times].join(" && ");
    let admitted = (1..200).take_while(|times| Condition::compile(&repeated(*times), tool).is_ok()).last();
    repeated(admitted.unwrap_or(1))
}

fn main() {
    let Value::Object(vars) = json!({ "limit": 250, "domains": ["acme.example", "acme.internal", "b.test"] }) else {
        return;
    };
    let tool = Tool { vars };
    println!("everyday");
    measure(&tool, "a number and a constant", json!({ "amount": 100 }), "args.amount <= vars.limit");
    measure(&tool, "all of 3 recipients", json!({}), "resolved.to.all(r, r.domain in vars.domains)");
    measure(
        &tool,
        "labels of the run",
        json!({}),
        "\"untrusted-content\" in run.labels && \"private-data\" in run.labels",
    );
    measure(&tool, "the hour", json!({}), "now.hour >= 8 && now.hour < 18");
    measure(&tool, "a regular expression", json!({ "body": "ORD-2026-000123" }), "args.body.matches(\"ORD-[0-9-]+\")");

    println!("costliest on the largest body");
    let body = "a".repeat(255 * 1024);
    let text = json!({ "body": body, "items": [] });
    let needle = format!("args.body.contains(\"{}b{}\") == false", "a".repeat(20), "a".repeat(20));
    for (name, part) in [
        ("regular expressions", "args.body.matches(\"(a|b|[x-z]{2})*\")"),
        ("regular expressions, Unicode", "args.body.matches(\"[\\\\p{L}\\\\d]*\")"),
        ("globs", "glob(args.body, \"**a*\")"),
        ("contains", needle.as_str()),
        ("size", "size(args.body) > 1"),
        ("change of case", "args.body.lowerAscii() != \"\""),
        ("joined texts", "args.body + \"b\" != \"\""),
        ("equal texts", "args.body + \"\" == args.body"),
        ("prefixes", "args.body.startsWith(args.body)"),
    ] {
        measure(&tool, name, text.clone(), &most_of(&tool, part));
    }
    let items = json!({ "items": vec!["a".repeat(240); 1_000], "numbers": vec![1; 1_000], "body": "z" });
    for (name, part) in [
        ("numbers over 1000 items", "n + n * 2 - n == n * 2"),
        ("texts over 1000 items", "t != \"b\""),
        ("regular expression, 1000 items", "t.matches(\"[a-z]*\")"),
        ("case over 1000 items", "t.lowerAscii() != \"b\""),
    ] {
        let list = if part.contains('n') && !part.contains('t') { "numbers" } else { "items" };
        let variable = if list == "numbers" { "n" } else { "t" };
        let whole = |times: usize| format!("args.{list}.all({variable}, {})", vec![part; times].join(" && "));
        let admitted = (1..60).take_while(|times| Condition::compile(&whole(*times), &tool).is_ok()).last();
        measure(&tool, name, items.clone(), &whole(admitted.unwrap_or(1)));
    }
    measure(&tool, "in a list of 1000", items.clone(), &most_of(&tool, "!(args.body in args.items)"));
    measure(&tool, "a constant in 1000", items, &most_of(&tool, "!(\"b\" in args.items)"));
}
