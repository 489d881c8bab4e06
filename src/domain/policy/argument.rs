//! Where an argument with a kind stands, and which values stand there in one call. It knows nothing of what they mean.

use serde_json::{Map, Value};

use super::schema::{JsonType, Place as Found, Schema, Step};
use crate::domain::canon::{Kind, Refusal, Shape};

/// How many values a pointer may lead to where not every list on its way has a `maxItems`.
const MOST_WITHOUT_BOUND: u64 = 1_000;

/// An argument with a kind.
#[derive(Debug)]
pub struct Argument {
    /// Its key in the policy and in `resolved`: a property's name, or a JSON Pointer (RFC 6901) with `*` for each item.
    pub name: String,
    /// What gives its values one meaning.
    pub kind: Kind,
    steps: Vec<Step>,
    /// How many values a pointer leads to at most; `None` for a property, which is no list.
    most: Option<u64>,
}

/// The values of one argument in one call. A part that is absent or null is left out.
#[derive(Debug, PartialEq)]
pub enum Values<'a> {
    /// There is none; neither is there a list that could hold one.
    Absent,
    /// The value of a property.
    One(&'a Value),
    /// What a pointer leads to, in order, each with its own pointer (`/items/3/path`).
    Each(Vec<(String, &'a Value)>),
}

impl Argument {
    /// An argument that stands where `steps` lead to in arguments of this schema.
    pub(super) fn new(name: String, kind: Kind, steps: Vec<Step>, schema: &Schema) -> Self {
        let most = is_pointer(&name).then(|| most_values(&steps, schema));
        Self { name, kind, steps, most }
    }

    /// What `resolved` holds under its key. A list that comes out longer than this says is refused: each of its values
    /// costs work, and more room in the log than it takes in the request.
    pub fn shape(&self) -> Shape {
        match (self.kind.shape(), self.most) {
            (shape, None) => shape,
            (Shape::Record(fields), Some(most)) => Shape::List(fields, most),
            // The lists of all values are one list.
            (Shape::List(fields, most_of_one), Some(most)) => Shape::List(fields, most.max(most_of_one)),
        }
    }

    /// Whether it stands where `steps` lead to.
    pub(super) fn stands_at(&self, steps: &[Step]) -> bool {
        self.steps == steps
    }

    /// Whether it is the property of this name, or stands within it.
    pub(super) fn stands_below(&self, property: &str) -> bool {
        matches!(self.steps.first(), Some(Step::Property(first)) if first == property)
    }

    /// Whether its list can be there without a value in it.
    pub(super) fn can_be_empty(&self, schema: &Schema) -> bool {
        if self.most.is_none() {
            return schema.can_be_empty_list(&self.steps);
        }
        let Some(first_list) = self.steps.iter().position(|step| *step == Step::Item) else { return false };
        let (way, _) = self.steps.split_at(first_list);
        let always_there = matches!(schema.at(way), Found::Known(typed) if typed.required);
        (first_list..=self.steps.len()).any(|depth| {
            let (way, ahead) = self.steps.split_at(depth);
            match ahead.first() {
                Some(Step::Item) => schema.can_be_empty_list(way),
                Some(Step::Property(_)) | None => match schema.at(way) {
                    Found::Known(typed) => typed.types.contains(&JsonType::Null) || (always_there && !typed.required),
                    Found::Open | Found::Unknown => true,
                },
            }
        })
    }

    /// The values that stand there.
    ///
    /// # Errors
    /// A refusal where the way leads through a value that is no list or no object: nobody would have looked into it.
    pub fn values<'a>(&self, args: &'a Map<String, Value>) -> Result<Values<'a>, Refusal> {
        let mut steps = self.steps.iter();
        let Some(Step::Property(first)) = steps.next() else { return Ok(Values::Absent) };
        let Some(value) = present(args.get(first)) else { return Ok(Values::Absent) };
        if !is_pointer(&self.name) {
            return Ok(Values::One(value));
        }
        let mut values = vec![(format!("/{}", escaped(first)), value)];
        let mut listed = false;
        for step in steps {
            let mut next = Vec::with_capacity(values.len());
            for (pointer, value) in values {
                match (step, value) {
                    (Step::Property(name), Value::Object(object)) => {
                        next.extend(
                            present(object.get(name)).map(|inside| (format!("{pointer}/{}", escaped(name)), inside)),
                        );
                    }
                    (Step::Item, Value::Array(items)) => {
                        let items = items.iter().enumerate();
                        next.extend(
                            items
                                .filter(|(_, item)| !item.is_null())
                                .map(|(index, item)| (format!("{pointer}/{index}"), item)),
                        );
                    }
                    (Step::Property(_), _) => {
                        return Err(Refusal::unresolvable("not_an_object", "there is a value where an object is due"));
                    }
                    (Step::Item, _) => {
                        return Err(Refusal::unresolvable("not_a_list", "there is a value where a list is due"));
                    }
                }
            }
            listed |= *step == Step::Item;
            if next.is_empty() && !listed {
                return Ok(Values::Absent);
            }
            values = next;
        }
        Ok(Values::Each(values))
    }
}

fn present(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_null())
}

fn is_pointer(name: &str) -> bool {
    name.starts_with('/')
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The way that an argument's key names: one property, or the steps of a JSON Pointer in which `*` is each item.
///
/// # Errors
/// What is wrong with the pointer.
pub(super) fn steps_of(name: &str) -> Result<Vec<Step>, &'static str> {
    let Some(pointer) = name.strip_prefix('/') else { return Ok(vec![Step::Property(name.to_owned())]) };
    let steps: Vec<_> = pointer.split('/').map(step).collect::<Option<_>>().ok_or("`~` stands before 0 or 1 only")?;
    match steps.first() {
        Some(Step::Property(_)) => Ok(steps),
        Some(Step::Item) | None => Err("the arguments are an object and no list"),
    }
}

fn step(token: &str) -> Option<Step> {
    if token == "*" {
        return Some(Step::Item);
    }
    let mut name = String::with_capacity(token.len());
    let mut characters = token.chars();
    while let Some(character) = characters.next() {
        name.push(match character {
            '~' => match characters.next() {
                Some('0') => '~',
                Some('1') => '/',
                Some(_) | None => return None,
            },
            other => other,
        });
    }
    Some(Step::Property(name))
}

/// How many values these steps may lead to.
fn most_values(steps: &[Step], schema: &Schema) -> u64 {
    let lists = steps.iter().enumerate().filter(|(_, step)| **step == Step::Item);
    let bounds = lists.map(|(depth, _)| match schema.at(steps.get(..depth).unwrap_or_default()) {
        Found::Known(typed) => typed.max_items,
        Found::Open | Found::Unknown => None,
    });
    bounds.collect::<Option<Vec<_>>>().map_or(MOST_WITHOUT_BOUND, |all| all.into_iter().fold(1, u64::saturating_mul))
}
