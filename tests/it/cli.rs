//! The commands, as processes.

mod audit;
mod dev;
mod healthcheck;
mod keys;
mod migrate;
mod openapi;
mod policy;
mod serve;
mod slack;
mod why;
