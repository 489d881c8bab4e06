//! The ways a message leaves.

mod email;
mod scanners;
mod slack;
mod teams;
mod webhook;
