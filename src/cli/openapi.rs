//! `countersign openapi`.

use super::{Done, Failure, print_json};
use crate::server;

pub(super) fn run() -> Result<Done, Failure> {
    let document = serde_json::to_value(server::openapi_document()).map_err(Failure::new)?;
    print_json(&document)?;
    Ok(Done::Fine)
}
