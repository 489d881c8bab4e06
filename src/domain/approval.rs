//! Held calls: what a human must agree to, the states an approval goes through, and what ends it.

pub mod code;
pub mod confirmation;
pub mod outcome;
pub mod requesters;
pub mod requirement;
pub mod state;
pub mod vote;
