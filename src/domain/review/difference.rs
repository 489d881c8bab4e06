//! What differs between two reviews of the same tool: what a reviewer who knows the last one must look at.

use super::{
    Review,
    fact::{Fact, facts},
};

/// One difference, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// There is another value in the same place.
    Changed {
        /// The value before.
        was: Fact,
        /// The value now.
        is: Fact,
    },
    /// There was none before.
    Added {
        /// The value now.
        is: Fact,
    },
    /// There is none any more.
    Gone {
        /// The value before.
        was: Fact,
    },
}

/// How `now` differs from `before` in what would run, and in what was found out about it; in the order of `now`, and
/// what is gone last. None when both say the very same.
pub fn differences(before: &Review, now: &Review) -> Vec<Difference> {
    let (before, now) = (facts(before), facts(now));
    let mut found = Vec::new();
    for is in &now {
        match before.iter().find(|was| was.is_about_the_same(is)) {
            Some(was) if was.shown == is.shown && was.kind == is.kind => {}
            Some(was) => found.push(Difference::Changed { was: was.clone(), is: is.clone() }),
            None => found.push(Difference::Added { is: is.clone() }),
        }
    }
    let gone = before.into_iter().filter(|was| !now.iter().any(|is| is.is_about_the_same(was)));
    found.extend(gone.map(|was| Difference::Gone { was }));
    found
}
