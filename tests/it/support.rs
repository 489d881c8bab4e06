//! What tests of several modules share.

pub(crate) mod agentdojo;
pub(crate) mod broken_store;
pub(crate) mod clock;
pub(crate) mod entropy;
pub(crate) mod faulty_store;
pub(crate) mod installation;
pub(crate) mod keys;
pub(crate) mod lookups;
pub(crate) mod orders;
pub(crate) mod postgres;
pub(crate) mod process;
pub(crate) mod python;
pub(crate) mod sample;
pub(crate) mod service;
pub(crate) mod slack;
pub(crate) mod store;
pub(crate) mod tool_server;
pub(crate) mod world;
