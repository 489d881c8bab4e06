//! What tests of several modules share.

pub(crate) mod agentdojo;
pub(crate) mod broken_store;
pub(crate) mod browser;
pub(crate) mod clock;
pub(crate) mod described;
pub(crate) mod entropy;
pub(crate) mod faulty_store;
pub(crate) mod installation;
pub(crate) mod issuer;
pub(crate) mod keys;
pub(crate) mod log;
pub(crate) mod lookups;
pub(crate) mod mail_server;
pub(crate) mod orders;
pub(crate) mod pages;
pub(crate) mod postgres;
pub(crate) mod process;
pub(crate) mod programs;
pub(crate) mod receiver;
pub(crate) mod sample;
pub(crate) mod service;
pub(crate) mod slack;
pub(crate) mod store;
pub(crate) mod tool_server;
pub(crate) mod world;
