//! What tests of several modules share.

pub(crate) mod postgres;
pub(crate) mod sample;
pub(crate) mod store;
