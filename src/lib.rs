//! Countersign: the permission system that stands between AI agents and their tools.
//!
//! `domain` decides and knows nothing of the outside; `app` holds one file per use case and the ports it
//! needs; `storage`, `filesystem`, `outbound`, `channels` and `auth` implement those; `http`, `worker` and `cli` call in;
//! `server` wires it all together. `tests/architecture.rs` holds the direction of every import.

pub mod app;
pub mod auth;
pub mod channels;
pub mod cli;
pub mod config;
pub mod domain;
pub mod filesystem;
pub mod http;
pub mod outbound;
pub mod server;
pub mod storage;
pub mod telemetry;
pub mod worker;
