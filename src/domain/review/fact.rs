//! A review taken apart into single facts, so that two of them can be held against each other.

use super::{Review, ShownLookup, ShownValue};

/// Where a fact of a review comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// It stands in the arguments.
    Argument,
    /// It is what an argument stands for.
    Resolved,
    /// The service looked it up.
    Lookup,
    /// It is about who asks: the run, and whom it works for.
    Origin,
}

/// One thing that a review says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Where it comes from.
    pub part: Part,
    /// Where it stands: a JSON Pointer, for a lookup behind its name; for an origin a word.
    pub at: String,
    /// The JSON type.
    pub kind: String,
    /// What is shown of it.
    pub shown: String,
}

impl Fact {
    fn of(part: Part, value: &ShownValue) -> Self {
        Self { part, at: value.at.clone(), kind: value.kind.clone(), shown: value.shown.clone() }
    }

    /// Whether both stand in the same place.
    pub fn is_about_the_same(&self, other: &Self) -> bool {
        self.part == other.part && self.at == other.at
    }
}

/// Everything that a review says of the call itself, in the order it is shown.
pub fn facts(review: &Review) -> Vec<Fact> {
    let arguments = review.arguments.iter().map(|value| Fact::of(Part::Argument, value));
    let resolved = review.resolved.iter().map(|value| Fact::of(Part::Resolved, value));
    let mut facts: Vec<Fact> = arguments.chain(resolved).collect();
    for ShownLookup { name, failed, values, .. } in &review.lookups {
        let found =
            values.iter().map(|value| Fact { at: format!("/{name}{}", value.at), ..Fact::of(Part::Lookup, value) });
        facts.extend(found);
        facts.extend(failed.as_ref().map(|failure| Fact {
            part: Part::Lookup,
            at: format!("/{name}"),
            kind: "failure".to_owned(),
            shown: failure.clone(),
        }));
    }
    facts
}

/// What a review says of who asks.
pub fn origin(review: &Review) -> Vec<Fact> {
    let fact =
        |at: &str, shown: String| Fact { part: Part::Origin, at: at.to_owned(), kind: "string".to_owned(), shown };
    let run = review.chain.first().map(|own| fact("run", own.run.to_string()));
    let person = review.on_behalf_of.clone().map(|person| fact("on behalf of", person));
    run.into_iter().chain(person).collect()
}
