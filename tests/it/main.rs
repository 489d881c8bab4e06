//! The integration tests; their modules mirror `src`.
//!
//! Each is marked `cfg(test)` so that the lints which forbid panics know it, its plain functions included, for a test.

#[cfg(test)]
mod agentdojo;
#[cfg(test)]
mod app;
#[cfg(test)]
mod auth;
#[cfg(test)]
mod channels;
#[cfg(test)]
mod cli;
#[cfg(test)]
mod config;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod domain;
#[cfg(test)]
mod exfiltration;
#[cfg(test)]
mod filesystem;
#[cfg(test)]
mod http;
#[cfg(test)]
mod model;
#[cfg(test)]
mod outbound;
#[cfg(test)]
mod storage;
#[cfg(test)]
mod support;
#[cfg(test)]
mod telemetry;
#[cfg(test)]
mod web;
#[cfg(test)]
mod wiring;
#[cfg(test)]
mod worker;
