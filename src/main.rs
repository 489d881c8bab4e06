//! The `countersign` binary: hands the arguments to `cli` and returns its exit code.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// A fifth of the time of a decision was spent in the system's allocator (`docs/performance.md`).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    countersign::cli::run(std::env::args_os())
}
