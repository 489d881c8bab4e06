//! What an evaluation costs at most, added up while a condition is checked.
//!
//! A node is one step; the body of a macro costs its steps for each item, `in` one for each item it looks at, and what
//! goes through a text one for so many bytes. A list or text without a bound in the schema counts as 1,000 items or a
//! whole body of 256 KiB; all texts within one list together are no longer than that body, however many they are.

use crate::domain::policy::condition::known::Known;

use super::Checker;

/// The most steps that an evaluation may take.
///
/// Measured with `benches/condition.rs` on one core of a shared 2-core machine: with a body of 256 KiB the costliest
/// condition within this bound takes 1.7 ms (patterns that go through the whole body, 0.43 ms each), 1,000 items with
/// as many comparisons as the bound admits 0.2 ms, and an everyday condition 0.05 to 0.3 us.
pub(super) const MAX_COST: u64 = 20_000;
/// The bytes of text that a function goes through in one step.
const BYTES_PER_STEP: u64 = 256;
/// The bytes that a pattern or a search goes through in one step: those look at one byte after the other.
const SEARCHED_BYTES_PER_STEP: u64 = 64;
/// The bytes that `==`, `<`, `in` and the like compare in one step: they stop at the first difference and look at
/// many bytes at once.
pub(super) const COMPARED_BYTES_PER_STEP: u64 = 4096;

/// What an evaluation takes at most.
#[derive(Clone, Copy, Default)]
pub(super) struct Cost {
    /// Steps of one evaluation; within the body of a macro, of one item.
    pub(super) steps: u64,
    /// Steps that all items of a macro share.
    pub(super) shared: u64,
}

impl Cost {
    /// All steps together.
    pub(super) fn total(self) -> u64 {
        self.steps.saturating_add(self.shared)
    }

    /// Adds steps that every evaluation, or every item, takes.
    pub(super) fn add(&mut self, steps: u64) {
        self.steps = self.steps.saturating_add(steps);
    }

    /// Adds the body of a macro that is evaluated for each of so many items.
    pub(super) fn add_for_each(&mut self, body: Self, items: u64) {
        self.add(body.steps.saturating_add(1).saturating_mul(items));
        self.shared = self.shared.saturating_add(body.shared);
    }
}

impl Checker<'_> {
    pub(super) fn text_work(&mut self, text: &Known) {
        self.work(text.most_bytes, text.bytes_of_all_items, BYTES_PER_STEP);
    }

    pub(super) fn search_work(&mut self, text: &Known) {
        self.work(text.most_bytes, text.bytes_of_all_items, SEARCHED_BYTES_PER_STEP);
    }

    pub(super) fn comparison_work(&mut self, left: &Known, right: &Known) {
        let shared = match (left.bytes_of_all_items, right.bytes_of_all_items) {
            (Some(left), Some(right)) => Some(left.min(right)),
            (shared, None) | (None, shared) => shared,
        };
        self.work(left.most_bytes.min(right.most_bytes), shared, COMPARED_BYTES_PER_STEP);
    }

    /// Adds the steps to go through a text of at most `bytes`, of at most `all` over all items of the macro around.
    fn work(&mut self, bytes: u64, all: Option<u64>, bytes_per_step: u64) {
        match (&self.inside, all) {
            (Some(inside), Some(all)) => {
                let all = inside.most_items.saturating_mul(bytes).min(all);
                self.cost.shared = self.cost.shared.saturating_add(all / bytes_per_step);
            }
            (Some(_) | None, Some(_) | None) => {
                self.cost.add(bytes / bytes_per_step);
            }
        }
    }
}
