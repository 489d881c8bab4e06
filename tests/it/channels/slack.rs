//! Mirrors `src/channels/slack`, against a stand-in for Slack and the libraries that Slack itself publishes.

mod cards;
mod courier;
mod hostile;
mod interaction;
mod message;
mod signature;
