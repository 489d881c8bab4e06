//! What a schema says about the values at one place, seen through `$ref`, `allOf`, `anyOf`, `oneOf` and conditionals.
//!
//! Where it cannot be exact it says less: a type too many, no bound, not required. Following the schemas that look at
//! one value ends, because one that leads back to the same value was refused when the policy was loaded.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{JsonType, Place, Step, Typed, referenced};

const ALL_TYPES: [JsonType; 7] = [
    JsonType::Null,
    JsonType::Boolean,
    JsonType::Integer,
    JsonType::Number,
    JsonType::String,
    JsonType::Array,
    JsonType::Object,
];

/// What is known about a value.
#[derive(Clone)]
enum Known<'s> {
    /// This schema holds.
    Schema(&'s Value),
    /// All of these hold.
    All(Vec<Self>),
    /// One of these holds, at least.
    Any(Vec<Self>),
    /// Nothing.
    Nothing,
}

/// What is known about a value inside another.
enum Inside<'s> {
    /// It is declared, whichever alternative holds.
    Declared(Known<'s>),
    /// It is declared by an alternative, and another one is silent.
    Perhaps(Known<'s>),
    /// It is not declared, and properties are taken that are not.
    Open,
    /// It is not declared.
    Absent,
}

/// What the schema `root` says about the value that `path` leads to.
pub(super) fn at(root: &Value, open: bool, path: &[Step]) -> Place {
    let looking = Looking { root, open };
    let (known, required, secret) = match looking.follow(path) {
        Ok(followed) => followed,
        Err(nowhere) => return nowhere,
    };
    Place::Known(Typed {
        types: looking.types(&known),
        max_items: looking.bound(&known, &MAX_ITEMS),
        max_length: looking.bound(&known, &MAX_LENGTH),
        required,
        secret,
        non_negative: looking.non_negative(&known),
    })
}

/// Whether the value that `path` leads to can be a list without items.
pub(super) fn can_be_empty_list(root: &Value, open: bool, path: &[Step]) -> bool {
    let looking = Looking { root, open };
    match looking.follow(path) {
        Ok((known, _, _)) => looking.can_be_empty_list(&known),
        Err(Place::Open | Place::Known(_)) => true,
        Err(Place::Unknown) => false,
    }
}

/// The properties of the whole that are declared.
pub(super) fn property_names(root: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut ahead = vec![root];
    while let Some(schema) = ahead.pop() {
        let own = schema.get("properties").and_then(Value::as_object);
        names.extend(own.into_iter().flat_map(Map::keys).cloned());
        ahead.extend(super::closing::in_place(root, schema));
    }
    names
}

/// A keyword that bounds the size of values of one type.
struct Bound {
    keyword: &'static str,
    of: JsonType,
    measure: fn(&Value) -> Option<u64>,
}

const MAX_ITEMS: Bound =
    Bound { keyword: "maxItems", of: JsonType::Array, measure: |value| u64::try_from(value.as_array()?.len()).ok() };
const MAX_LENGTH: Bound = Bound {
    keyword: "maxLength",
    of: JsonType::String,
    measure: |value| u64::try_from(value.as_str()?.chars().count()).ok(),
};

struct Looking<'s> {
    root: &'s Value,
    /// Whether the schema is used as written, so that an object that says nothing takes any property.
    open: bool,
}

impl<'s> Looking<'s> {
    /// What is known where `path` ends, whether all on the way is required, and whether anything on it is secret.
    fn follow(&self, path: &[Step]) -> Result<(Known<'s>, bool, bool), Place> {
        let mut known = Known::Schema(self.root);
        let mut required = true;
        let mut secret = self.secret(&known);
        for (depth, step) in path.iter().enumerate() {
            let found = match step {
                Step::Property(name) => {
                    // Arguments are an object, whether or not the schema says so.
                    let object = depth == 0 || self.types(&known) == BTreeSet::from([JsonType::Object]);
                    required &= object && self.requires(&known, name);
                    self.property(&known, name)
                }
                Step::Item => self.item(&known),
            };
            known = match found {
                Inside::Declared(known) | Inside::Perhaps(known) => known,
                Inside::Open => return Err(Place::Open),
                Inside::Absent => return Err(Place::Unknown),
            };
            secret |= self.secret(&known);
        }
        Ok((known, required, secret))
    }

    /// Whether a list without items is possible.
    fn can_be_empty_list(&self, known: &Known<'s>) -> bool {
        if !self.types(known).contains(&JsonType::Array) {
            return false;
        }
        match known {
            Known::Nothing => true,
            Known::All(all) => all.iter().all(|known| self.can_be_empty_list(known)),
            Known::Any(any) => any.iter().any(|known| self.can_be_empty_list(known)),
            Known::Schema(schema) => {
                let own = schema.get("minItems").and_then(whole).unwrap_or(0) == 0;
                let all = self.all_of(schema).into_iter().all(|all| self.can_be_empty_list(&Known::Schema(all)));
                let any = alternatives(schema)
                    .into_iter()
                    .all(|any| any.iter().any(|one| self.can_be_empty_list(&Known::Schema(one))));
                own && all && any
            }
        }
    }

    /// The types of the values that are possible.
    fn types(&self, known: &Known<'s>) -> BTreeSet<JsonType> {
        match known {
            Known::Nothing => BTreeSet::from(ALL_TYPES),
            Known::All(all) => all.iter().map(|known| self.types(known)).fold(BTreeSet::from(ALL_TYPES), common),
            Known::Any(any) => any.iter().flat_map(|known| self.types(known)).collect(),
            Known::Schema(Value::Bool(false)) => BTreeSet::new(),
            Known::Schema(schema) => {
                let mut types = own_types(schema);
                for all in self.all_of(schema) {
                    types = common(types, self.types(&Known::Schema(all)));
                }
                for any in alternatives(schema) {
                    let any = any.iter().flat_map(|one| self.types(&Known::Schema(one))).collect();
                    types = common(types, any);
                }
                types
            }
        }
    }

    /// The upper bound on the size of values of one type, where every way to be valid has one.
    fn bound(&self, known: &Known<'s>, bound: &Bound) -> Option<u64> {
        if !self.types(known).contains(&bound.of) {
            return Some(0);
        }
        match known {
            Known::Nothing => None,
            Known::All(all) => all.iter().filter_map(|known| self.bound(known, bound)).min(),
            Known::Any(any) => largest(any.iter().map(|known| self.bound(known, bound))),
            Known::Schema(schema) => {
                let own = schema.get(bound.keyword).and_then(whole);
                let listed =
                    listed(schema).map(|values| values.iter().filter_map(|value| (bound.measure)(value)).max());
                let all = self.all_of(schema).into_iter().filter_map(|all| self.bound(&Known::Schema(all), bound));
                let any = alternatives(schema)
                    .into_iter()
                    .filter_map(|any| largest(any.iter().map(|one| self.bound(&Known::Schema(one), bound))));
                all.chain(any).chain(own).chain(listed.flatten()).min()
            }
        }
    }

    /// Whether every number that is possible is zero or more.
    fn non_negative(&self, known: &Known<'s>) -> bool {
        match known {
            Known::Nothing => false,
            Known::All(all) => all.iter().any(|known| self.non_negative(known)),
            Known::Any(any) => !any.is_empty() && any.iter().all(|known| self.non_negative(known)),
            Known::Schema(schema) => {
                let own = ["minimum", "exclusiveMinimum"]
                    .iter()
                    .any(|key| schema.get(key).and_then(Value::as_f64).is_some_and(|least| least >= 0.0));
                let listed = listed(schema)
                    .is_some_and(|values| values.iter().all(|value| value.as_f64().is_none_or(|number| number >= 0.0)));
                own || listed
                    || self.all_of(schema).into_iter().any(|all| self.non_negative(&Known::Schema(all)))
                    || alternatives(schema)
                        .into_iter()
                        .any(|any| !any.is_empty() && any.iter().all(|one| self.non_negative(&Known::Schema(one))))
            }
        }
    }

    /// Whether every object that is possible has the property `name`.
    fn requires(&self, known: &Known<'s>, name: &str) -> bool {
        match known {
            Known::Nothing => false,
            Known::All(all) => all.iter().any(|known| self.requires(known, name)),
            Known::Any(any) => !any.is_empty() && any.iter().all(|known| self.requires(known, name)),
            Known::Schema(schema) => {
                let own = schema.get("required").and_then(Value::as_array);
                own.is_some_and(|required| required.iter().any(|one| one == name))
                    || self.all_of(schema).into_iter().any(|all| self.requires(&Known::Schema(all), name))
                    || alternatives(schema)
                        .into_iter()
                        .any(|any| !any.is_empty() && any.iter().all(|one| self.requires(&Known::Schema(one), name)))
            }
        }
    }

    /// What is known about the property `name`.
    fn property(&self, known: &Known<'s>, name: &str) -> Inside<'s> {
        match known {
            Known::Nothing => Inside::Open,
            Known::All(all) => in_all(all.iter().map(|known| self.property(known, name)).collect()),
            Known::Any(any) => in_any(any.iter().map(|known| self.property(known, name)).collect()),
            Known::Schema(schema) => {
                if !self.types(known).contains(&JsonType::Object) {
                    return Inside::Absent;
                }
                self.beside(schema, self.own_property(schema, name), |known| self.property(known, name))
            }
        }
    }

    /// What is known about any item.
    fn item(&self, known: &Known<'s>) -> Inside<'s> {
        match known {
            Known::Nothing => Inside::Declared(Known::Nothing),
            Known::All(all) => in_all(all.iter().map(|known| self.item(known)).collect()),
            Known::Any(any) => in_any(any.iter().map(|known| self.item(known)).collect()),
            Known::Schema(schema) => {
                if !self.types(known).contains(&JsonType::Array) {
                    return Inside::Absent;
                }
                match self.beside(schema, own_item(schema), |known| self.item(known)) {
                    // A list that says nothing about its items takes any.
                    Inside::Absent | Inside::Open => Inside::Declared(Known::Nothing),
                    Inside::Perhaps(known) => Inside::Declared(Known::Any(vec![known, Known::Nothing])),
                    declared @ Inside::Declared(_) => declared,
                }
            }
        }
    }

    /// Joins what a schema says itself with what those beside it say about the same value.
    fn beside(&self, schema: &'s Value, own: Inside<'s>, look: impl Fn(&Known<'s>) -> Inside<'s>) -> Inside<'s> {
        let mut all = vec![own];
        all.extend(self.all_of(schema).into_iter().map(|all| look(&Known::Schema(all))));
        for any in alternatives(schema) {
            all.push(in_any(any.iter().map(|one| look(&Known::Schema(one))).collect()));
        }
        let certain = in_all(all);
        if matches!(certain, Inside::Declared(_)) {
            return certain;
        }
        let then = ["then", "else"].iter().filter_map(|keyword| schema.get(keyword));
        let named = schema.get("dependentSchemas").and_then(Value::as_object).into_iter().flatten();
        let sometimes = then.chain(named.map(|(_, part)| part)).map(|part| look(&Known::Schema(part)));
        in_any(std::iter::once(certain).chain(sometimes).collect())
    }

    fn own_property(&self, schema: &'s Value, name: &str) -> Inside<'s> {
        let named = schema.get("properties").and_then(|properties| properties.get(name));
        let patterns = schema.get("patternProperties").and_then(Value::as_object).into_iter().flatten();
        let matching =
            patterns.filter(|(pattern, _)| regex::Regex::new(pattern).is_ok_and(|regex| regex.is_match(name)));
        let declared: Vec<_> = named.into_iter().chain(matching.map(|(_, schema)| schema)).map(Known::Schema).collect();
        if !declared.is_empty() {
            return Inside::Declared(Known::All(declared));
        }
        match schema.get("additionalProperties").or_else(|| schema.get("unevaluatedProperties")) {
            Some(Value::Bool(false)) => Inside::Absent,
            Some(_) => Inside::Open,
            None if self.open && *schema != Value::Bool(false) => Inside::Open,
            None => Inside::Absent,
        }
    }

    /// The schemas that all hold beside this one.
    fn all_of(&self, schema: &'s Value) -> Vec<&'s Value> {
        let all = schema.get("allOf").and_then(Value::as_array).into_iter().flatten();
        let reference = schema.get("$ref").and_then(Value::as_str);
        all.chain(reference.and_then(|reference| referenced(self.root, reference))).collect()
    }

    /// Whether the value is marked secret.
    fn secret(&self, known: &Known<'s>) -> bool {
        match known {
            Known::Nothing => false,
            Known::All(several) | Known::Any(several) => several.iter().any(|known| self.secret(known)),
            Known::Schema(schema) => {
                let marked = |key| schema.get(key) == Some(&Value::Bool(true));
                marked("writeOnly")
                    || marked("x-secret")
                    || super::closing::in_place(self.root, schema)
                        .into_iter()
                        .any(|part| self.secret(&Known::Schema(part)))
            }
        }
    }
}

/// The alternatives of `anyOf` and of `oneOf`.
fn alternatives(schema: &Value) -> Vec<&Vec<Value>> {
    ["anyOf", "oneOf"].iter().filter_map(|keyword| schema.get(keyword)?.as_array()).collect()
}

/// The values that `const` or `enum` list, and no others can be.
fn listed(schema: &Value) -> Option<Vec<&Value>> {
    match schema.get("const") {
        Some(only) => Some(vec![only]),
        None => schema.get("enum").and_then(Value::as_array).map(|values| values.iter().collect()),
    }
}

fn own_types(schema: &Value) -> BTreeSet<JsonType> {
    let named: Option<BTreeSet<_>> = match schema.get("type") {
        Some(Value::String(name)) => Some(types_named(name).collect()),
        Some(Value::Array(names)) => Some(names.iter().filter_map(Value::as_str).flat_map(types_named).collect()),
        Some(_) | None => None,
    };
    let listed = listed(schema).map(|values| values.into_iter().flat_map(types_of).collect());
    [named, listed].into_iter().flatten().fold(BTreeSet::from(ALL_TYPES), common)
}

/// The types that `type` means by a word: every integer is a number.
fn types_named(name: &str) -> impl Iterator<Item = JsonType> + use<> {
    let types: &'static [JsonType] = match name {
        "null" => &[JsonType::Null],
        "boolean" => &[JsonType::Boolean],
        "integer" => &[JsonType::Integer],
        "number" => &[JsonType::Integer, JsonType::Number],
        "string" => &[JsonType::String],
        "array" => &[JsonType::Array],
        "object" => &[JsonType::Object],
        _ => &[],
    };
    types.iter().copied()
}

fn types_of(value: &Value) -> impl Iterator<Item = JsonType> + use<> {
    types_named(match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        // `1.0` is an integer to JSON Schema.
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    })
}

fn own_item<'s>(schema: &'s Value) -> Inside<'s> {
    let prefix = schema.get("prefixItems").and_then(Value::as_array).into_iter().flatten();
    let rest = schema.get("items").or_else(|| schema.get("unevaluatedItems"));
    let mut items: Vec<_> = prefix.chain(rest).map(Known::Schema).collect();
    match (rest, items.is_empty()) {
        (None, true) => Inside::Absent,
        (None, false) => {
            items.push(Known::Nothing);
            Inside::Declared(Known::Any(items))
        }
        (Some(_), _) => Inside::Declared(Known::Any(items)),
    }
}

/// Joins what schemas say that all look at the same value.
fn in_all(all: Vec<Inside<'_>>) -> Inside<'_> {
    let (mut sure, mut perhaps, mut open) = (Vec::new(), Vec::new(), false);
    for inside in all {
        match inside {
            Inside::Declared(known) => sure.push(known),
            Inside::Perhaps(known) => perhaps.push(known),
            Inside::Open => open = true,
            Inside::Absent => {}
        }
    }
    match (sure.is_empty(), perhaps.is_empty(), open) {
        // Who declares it only perhaps may have been silent about this value.
        (false, _, _) => Inside::Declared(Known::All(sure)),
        (true, false, false) => Inside::Perhaps(Known::Any(perhaps)),
        (true, false, true) => {
            perhaps.push(Known::Nothing);
            Inside::Declared(Known::Any(perhaps))
        }
        (true, true, true) => Inside::Open,
        (true, true, false) => Inside::Absent,
    }
}

/// Joins what alternatives say, at least one of which holds.
fn in_any(any: Vec<Inside<'_>>) -> Inside<'_> {
    let (mut declared, mut every_one, mut open) = (Vec::new(), true, false);
    for inside in any {
        match inside {
            Inside::Declared(known) => declared.push(known),
            Inside::Perhaps(known) => {
                declared.push(known);
                every_one = false;
            }
            Inside::Open => open = true,
            Inside::Absent => every_one = false,
        }
    }
    if declared.is_empty() {
        return if open { Inside::Open } else { Inside::Absent };
    }
    declared.extend(open.then_some(Known::Nothing));
    if every_one { Inside::Declared(Known::Any(declared)) } else { Inside::Perhaps(Known::Any(declared)) }
}

fn common(one: BTreeSet<JsonType>, other: BTreeSet<JsonType>) -> BTreeSet<JsonType> {
    one.intersection(&other).copied().collect()
}

/// The largest, if there is one for each.
fn largest(bounds: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    bounds.collect::<Option<Vec<_>>>()?.into_iter().max()
}

/// A non-negative whole number, also when it is written with a fraction of zero.
fn whole(value: &Value) -> Option<u64> {
    value
        .as_u64()
        .or_else(|| value.as_f64().filter(|number| number.fract() == 0.0 && *number >= 0.0).map(|number| number as u64))
}
