//! The ways a message leaves.

mod email;
mod teams;
mod webhook;
