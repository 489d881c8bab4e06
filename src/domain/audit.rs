//! The audit log's formats: entries, the chain over them, the Merkle tree over their leaves, payloads beside them.

pub mod chain;
pub mod entry;
pub mod merkle;
pub mod payload;
