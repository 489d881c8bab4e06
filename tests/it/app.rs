//! Mirrors `src/app`: every use case, on the real store, on each engine.

mod audit_log;
mod checkpoints;
mod claim_call;
mod decide_call;
mod deliver;
mod deny_and_stop;
mod desk;
mod expire;
mod grants;
mod keys;
mod limits;
mod lookups;
mod policies;
mod races;
mod report_outcome;
mod requirements;
mod review;
mod runs;
mod sign_in;
