//! Waiting approvals that are alike, as one stack: what is common is shown once, one line each shows what differs, and
//! what stands out comes first.
//!
//! The rules are few, so that a person can know them: a number is far from the others when it is more than three times
//! their median, or less than a third of it; a text stands out when more than half of all have the same one (of
//! addresses and links: the same host) and it has another; so does a value that only one has, or only one has not. No
//! rule speaks of fewer than three, and of numbers of fewer than four.

use std::{cmp::Ordering, collections::BTreeMap};

use super::{
    Review,
    fact::{Fact, Part, facts, origin},
};
use crate::domain::{approval::requirement::Requirement, identity::AgentId, limit::amount::Amount};

/// One approval that waits.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a> {
    /// Who asks.
    pub agent: &'a AgentId,
    /// What must be met.
    pub requirement: &'a Requirement,
    /// What is shown of it.
    pub review: &'a Review,
}

/// Approvals of the same agent, tool, requirement and reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// What all of them say.
    pub common: Vec<Fact>,
    /// One for each, what stands out first, else in the order they were given.
    pub lines: Vec<Line>,
}

/// One approval of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Which of those that were given.
    pub member: usize,
    /// What not all of them say.
    pub differing: Vec<Fact>,
    /// What stands out in it.
    pub unlike: Vec<Unlike>,
}

/// Something that stands out among alike approvals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unlike {
    /// Where it stands.
    pub part: Part,
    /// The place within.
    pub at: String,
    /// How it stands out.
    pub how: How,
}

/// How a value stands out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// A number more than three times the median of the others.
    FarAbove {
        /// That median.
        median: String,
    },
    /// A number less than a third of the median of the others.
    FarBelow {
        /// That median.
        median: String,
    },
    /// An address or a link to another host than most.
    OtherHost {
        /// This one's host.
        host: String,
        /// The host of most.
        most: String,
    },
    /// Another text than most.
    OtherValue {
        /// The text of most.
        most: String,
    },
    /// No other has such a value.
    OnlyHere,
    /// Every other has such a value.
    OnlyMissingHere,
}

/// Fewer than this many have nothing to stand out from.
const FEWEST: usize = 3;
/// The same of numbers, so that there is a median of three others.
const FEWEST_NUMBERS: usize = 4;
/// How many times the median is far.
const FAR: u64 = 3;

/// Puts alike ones together, in the order of the first of each stack.
pub fn stacks(waiting: &[Waiting<'_>]) -> Vec<Stack> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, one) in waiting.iter().enumerate() {
        let alike = |group: &&mut Vec<usize>| {
            group.first().and_then(|first| waiting.get(*first)).is_some_and(|first| is_alike(first, one))
        };
        match groups.iter_mut().find(alike) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    let stack = |group: Vec<usize>| {
        let reviews: Vec<&Review> =
            group.iter().filter_map(|index| waiting.get(*index)).map(|one| one.review).collect();
        let compared = compare(&reviews);
        let place = |line: Line| group.get(line.member).map(|member| Line { member: *member, ..line });
        Stack { common: compared.common, lines: compared.lines.into_iter().filter_map(place).collect() }
    };
    groups.into_iter().map(stack).collect()
}

/// Whether the same agent asks for the same tool, for the same reasons, and the same people must say yes.
fn is_alike(one: &Waiting<'_>, other: &Waiting<'_>) -> bool {
    one.agent == other.agent
        && one.review.tool == other.review.tool
        && one.requirement == other.requirement
        && one.review.reason == other.review.reason
        && one.review.asked_by == other.review.asked_by
}

/// Holds reviews against each other, whatever they are of. A member is a place in `reviews`.
pub fn compare(reviews: &[&Review]) -> Stack {
    let said: Vec<Vec<Fact>> =
        reviews.iter().map(|review| facts(review).into_iter().chain(origin(review)).collect()).collect();
    let mut places: BTreeMap<Place<'_>, Vec<Said<'_>>> = BTreeMap::new();
    for (member, own) in said.iter().enumerate() {
        for fact in own {
            places.entry((fact.part, &fact.at)).or_default().push(Said { member, fact });
        }
    }
    let is_common = |fact: &Fact| {
        let here = places.get(&(fact.part, fact.at.as_str())).map(Vec::as_slice).unwrap_or_default();
        here.len() == said.len() && here.iter().all(|other| other.fact == fact)
    };
    let mut unlike: BTreeMap<usize, Vec<Unlike>> = BTreeMap::new();
    if said.len() >= FEWEST {
        for ((part, at), here) in places.iter().filter(|((part, _), _)| *part != Part::Origin) {
            for (member, how) in standing_out(here, said.len()) {
                unlike.entry(member).or_default().push(Unlike { part: *part, at: (*at).to_owned(), how });
            }
        }
    }
    let common = said.first().into_iter().flatten().filter(|fact| is_common(fact)).cloned().collect();
    let line = |(member, own): (usize, &Vec<Fact>)| Line {
        member,
        differing: own.iter().filter(|fact| !is_common(fact)).cloned().collect(),
        unlike: unlike.remove(&member).unwrap_or_default(),
    };
    let mut lines: Vec<Line> = said.iter().enumerate().map(line).collect();
    lines.sort_by_key(|line| line.unlike.is_empty());
    Stack { common, lines }
}

/// Where a fact stands.
type Place<'a> = (Part, &'a str);

/// What one of them says in a place.
struct Said<'a> {
    member: usize,
    fact: &'a Fact,
}

/// Which of `all` stand out in one place, and how. Each is looked at once, however many there are.
fn standing_out(here: &[Said<'_>], all: usize) -> Vec<(usize, How)> {
    if let [only] = here {
        return vec![(only.member, How::OnlyHere)];
    }
    let mut found = Vec::new();
    if here.len() + 1 == all {
        let missing = (0..all).find(|member| !here.iter().any(|said| said.member == *member));
        found.extend(missing.map(|member| (member, How::OnlyMissingHere)));
    }
    found.extend(far_numbers(here));
    found.extend(few_texts(here, all));
    found
}

/// The numbers that are far from the others.
fn far_numbers(here: &[Said<'_>]) -> Vec<(usize, How)> {
    let number = |said: &Said<'_>| {
        let number = (said.fact.kind == "number").then(|| Amount::parse(&said.fact.shown)).flatten();
        number.map(|number| (said.member, number))
    };
    let mut numbers: Vec<(usize, Amount)> = here.iter().filter_map(number).collect();
    if numbers.len() < FEWEST_NUMBERS {
        return Vec::new();
    }
    numbers.sort_by(|(_, one), (_, other)| match (one.exceeds(*other), other.exceeds(*one)) {
        (Some(true), _) => Ordering::Greater,
        (_, Some(true)) => Ordering::Less,
        (Some(false) | None, Some(false) | None) => Ordering::Equal,
    });
    // Of the others, the lower of two middles: nothing is rounded.
    let middle = (numbers.len() - 2) / 2;
    let how = |(place, (member, own)): (usize, &(usize, Amount))| {
        let (_, median) = *numbers.get(if place <= middle { middle + 1 } else { middle })?;
        if median.is_negative() {
            return None;
        }
        if own.exceeds(median.times(FAR)?)? {
            return Some((*member, How::FarAbove { median: median.to_string() }));
        }
        median.exceeds(own.times(FAR)?)?.then(|| (*member, How::FarBelow { median: median.to_string() }))
    };
    numbers.iter().enumerate().filter_map(how).collect()
}

/// The texts that are not what more than half of all have; where most are addresses or links, the hosts.
fn few_texts(here: &[Said<'_>], all: usize) -> Vec<(usize, How)> {
    let texts = || here.iter().filter(|said| said.fact.kind == "string");
    let hosts: Vec<(usize, String)> =
        texts().filter_map(|said| host(&said.fact.shown).map(|host| (said.member, host))).collect();
    if !hosts.is_empty() && hosts.len() == texts().count() {
        let Some(most) = shared_by_most(hosts.iter().map(|(_, host)| host.as_str()), all) else { return Vec::new() };
        let others = hosts.iter().filter(|(_, host)| host != most);
        return others
            .map(|(member, host)| (*member, How::OtherHost { host: host.clone(), most: most.to_owned() }))
            .collect();
    }
    let Some(most) = shared_by_most(texts().map(|said| said.fact.shown.as_str()), all) else { return Vec::new() };
    let others = texts().filter(|said| said.fact.shown != most);
    others.map(|said| (said.member, How::OtherValue { most: most.to_owned() })).collect()
}

/// The text that more than half of `all` share.
fn shared_by_most<'a>(texts: impl Iterator<Item = &'a str>, all: usize) -> Option<&'a str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for text in texts {
        *counts.entry(text).or_default() += 1;
    }
    counts.into_iter().find(|(_, count)| count * 2 > all).map(|(text, _)| text)
}

/// The host of a link, or of an e-mail address, in lower case.
fn host(text: &str) -> Option<String> {
    let host = match (text.split_once("://"), text.rsplit_once('@')) {
        (Some((_, rest)), _) => {
            let authority = rest.split(['/', '?', '#', '\\']).next()?;
            authority.rsplit('@').next()?.split(':').next()?
        }
        (None, Some((_, domain))) => domain.trim_end_matches('>'),
        (None, None) => return None,
    };
    (!host.is_empty() && !host.contains(char::is_whitespace)).then(|| host.to_lowercase())
}
