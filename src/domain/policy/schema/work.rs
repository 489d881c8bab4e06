//! Bounds the work that checking a value can take: a schema that leads back to the same value, or that looks at one
//! value so often that recursion multiplies it, is refused.
//!
//! The agent chooses the value, nested up to 64 deep. Where two alternatives both describe `x` by a schema that leads
//! back to them, each level doubles the work.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::{SchemaFault, keywords, reference_pointer};

/// How deep a request nests at most (design section 5).
const MAX_VALUE_DEPTH: usize = 64;
/// How many schemas may look at the same value one inside the other.
const MAX_IN_PLACE_DEPTH: usize = 64;
/// How often one value may be looked at.
const MAX_LOOKS: u64 = 1_000;

/// A step into a value, as far as it matters here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Inward<'s> {
    Property(&'s str),
    AnyProperty,
    Prefix(usize),
    AnyItem,
}

/// Everything wrong with `root`, whose keywords were already checked.
pub(super) fn check(root: &Value) -> Vec<SchemaFault> {
    let schemas = keywords::subschemas(root);
    let index: HashMap<&str, usize> =
        schemas.iter().enumerate().map(|(at, (pointer, _))| (pointer.as_str(), at)).collect();
    let beside: Vec<Vec<usize>> = schemas.iter().map(|(pointer, schema)| beside(pointer, schema, &index)).collect();
    let inside: Vec<Vec<(Inward<'_>, usize)>> =
        schemas.iter().map(|(pointer, schema)| inside(pointer, schema, &index)).collect();

    let fault = |at: usize, message: &str, hint: &str| SchemaFault {
        pointer: schemas.get(at).map(|(pointer, _)| pointer.clone()).unwrap_or_default(),
        key: true,
        message: message.to_owned(),
        hint: hint.to_owned(),
    };
    let Some(looking) = everything_beside(&beside) else {
        let worst = circle(&beside).unwrap_or(0);
        let hint = "let a schema refer to itself only from inside a property or an item, and alternatives nest less";
        return vec![fault(worst, "too many schemas look at the same value, or one leads back to itself", hint)];
    };
    match multiplied(&looking, &inside) {
        Some(worst) => {
            let hint = "name each recursive property in one alternative only, or end the recursion";
            vec![fault(worst, "values nested in this schema would be looked at too often", hint)]
        }
        None => Vec::new(),
    }
}

/// The schemas directly beside one: they look at the same value.
fn beside(pointer: &str, schema: &Value, index: &HashMap<&str, usize>) -> Vec<usize> {
    let mut found = Vec::new();
    for (at, _) in keywords::children(pointer, schema) {
        let keyword = at.get(pointer.len() + 1..).and_then(|rest| rest.split('/').next()).unwrap_or_default();
        let same_value =
            matches!(keyword, "allOf" | "anyOf" | "oneOf" | "if" | "then" | "else" | "not" | "dependentSchemas");
        found.extend(index.get(at.as_str()).filter(|_| same_value));
    }
    let reference = schema.get("$ref").and_then(Value::as_str).and_then(reference_pointer);
    found.extend(reference.and_then(|target| index.get(target)));
    found
}

/// The schemas directly inside one: they look at a value in its value.
fn inside<'s>(pointer: &str, schema: &'s Value, index: &HashMap<&str, usize>) -> Vec<(Inward<'s>, usize)> {
    let mut found = Vec::new();
    for (keyword, value) in schema.as_object().into_iter().flatten() {
        let at = |rest: &str| index.get(format!("{pointer}/{keyword}{rest}").as_str()).copied();
        match (keyword.as_str(), value) {
            ("properties", Value::Object(named)) => found.extend(named.keys().filter_map(|name| {
                let token = name.replace('~', "~0").replace('/', "~1");
                Some((Inward::Property(name), at(&format!("/{token}"))?))
            })),
            ("patternProperties", Value::Object(named)) => found.extend(named.keys().filter_map(|name| {
                let token = name.replace('~', "~0").replace('/', "~1");
                Some((Inward::AnyProperty, at(&format!("/{token}"))?))
            })),
            ("additionalProperties" | "unevaluatedProperties", _) => {
                found.extend(at("").map(|schema| (Inward::AnyProperty, schema)));
            }
            ("prefixItems", Value::Array(items)) => {
                found.extend((0..items.len()).filter_map(|item| Some((Inward::Prefix(item), at(&format!("/{item}"))?))))
            }
            ("items" | "unevaluatedItems" | "contains", _) => {
                found.extend(at("").map(|schema| (Inward::AnyItem, schema)));
            }
            _ => {}
        }
    }
    found
}

/// For each schema, all that look at its value and how often; `None` if that never ends or grows too large.
fn everything_beside(beside: &[Vec<usize>]) -> Option<Vec<BTreeMap<usize, u64>>> {
    let mut all: Vec<BTreeMap<usize, u64>> = (0..beside.len()).map(|own| BTreeMap::from([(own, 1)])).collect();
    for _ in 0..MAX_IN_PLACE_DEPTH {
        let mut changed = false;
        let mut next = Vec::with_capacity(all.len());
        for (own, directly) in beside.iter().enumerate() {
            let mut sum = BTreeMap::from([(own, 1)]);
            for (schema, looks) in directly.iter().filter_map(|part| all.get(*part)).flatten() {
                *sum.entry(*schema).or_insert(0) += looks;
            }
            if sum.values().sum::<u64>() > MAX_LOOKS {
                return None;
            }
            changed |= all.get(own) != Some(&sum);
            next.push(sum);
        }
        if !changed {
            return Some(all);
        }
        all = next;
    }
    None
}

/// A schema from which following those beside it leads back to it, if there is one.
fn circle(beside: &[Vec<usize>]) -> Option<usize> {
    (0..beside.len()).find(|start| {
        let mut seen = vec![false; beside.len()];
        let mut ahead = vec![*start];
        while let Some(at) = ahead.pop() {
            for next in beside.get(at).into_iter().flatten() {
                if next == start {
                    return true;
                }
                if let Some(seen) = seen.get_mut(*next).filter(|seen| !**seen) {
                    *seen = true;
                    ahead.push(*next);
                }
            }
        }
        false
    })
}

/// A schema some value in whose value would be looked at more than [`MAX_LOOKS`] times, if there is one.
fn multiplied(looking: &[BTreeMap<usize, u64>], inside: &[Vec<(Inward<'_>, usize)>]) -> Option<usize> {
    let steps: Vec<BTreeMap<Inward<'_>, BTreeMap<usize, u64>>> = looking.iter().map(|all| steps(all, inside)).collect();
    let mut looks = vec![1_u64; looking.len()];
    for _ in 0..MAX_VALUE_DEPTH {
        let deeper = |schemas: &BTreeMap<usize, u64>| {
            let each = schemas.iter().map(|(schema, times)| times * looks.get(*schema).copied().unwrap_or(0));
            each.fold(0, u64::saturating_add)
        };
        let next: Vec<u64> =
            steps.iter().map(|by_step| by_step.values().map(deeper).max().unwrap_or(1).max(1)).collect();
        if let Some(worst) = next.iter().position(|looks| *looks > MAX_LOOKS) {
            return Some(worst);
        }
        if next == looks {
            return None;
        }
        looks = next;
    }
    None
}

/// The schemas that look at what each step leads to, and how often.
fn steps<'s>(
    all: &BTreeMap<usize, u64>,
    inside: &[Vec<(Inward<'s>, usize)>],
) -> BTreeMap<Inward<'s>, BTreeMap<usize, u64>> {
    let mut by_step: BTreeMap<Inward<'s>, BTreeMap<usize, u64>> = BTreeMap::new();
    for (schema, times) in all {
        for (step, child) in inside.get(*schema).into_iter().flatten() {
            *by_step.entry(*step).or_default().entry(*child).or_insert(0) += times;
        }
    }
    // What looks at any property looks at each named one too, and likewise for items.
    for (every, named) in [(Inward::AnyProperty, true), (Inward::AnyItem, false)] {
        let Some(common) = by_step.get(&every).cloned() else { continue };
        for (step, schemas) in &mut by_step {
            let covered = match step {
                Inward::Property(_) => named,
                Inward::Prefix(_) => !named,
                Inward::AnyProperty | Inward::AnyItem => false,
            };
            if covered {
                for (child, times) in &common {
                    *schemas.entry(*child).or_insert(0) += times;
                }
            }
        }
    }
    by_step
}
