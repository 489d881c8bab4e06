//! The ways a message leaves.

mod email;
mod slack;
mod teams;
mod webhook;
