//! Mirrors `src/http`: the whole router on the real use cases, without a socket.

mod approvals;
mod audit;
mod batch;
mod bodies;
mod bulk_decisions;
mod cases;
mod decide;
mod grants;
mod log_lines;
mod lookups;
mod openapi;
mod outbox;
mod rate;
mod refusals;
mod request_ids;
mod requirements;
mod reviews;
mod roles;
mod runs;
mod service;
mod sign_in;
mod slack;
mod waiting;
