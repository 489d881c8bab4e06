//! `countersign openapi`.

use super::{Done, Failure, print};
use crate::server;

pub(super) fn run() -> Result<Done, Failure> {
    print(server::openapi_document().trim_end())?;
    Ok(Done::Fine)
}
