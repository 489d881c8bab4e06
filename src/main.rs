//! The `countersign` binary: hands the arguments to `cli` and returns its exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    countersign::cli::run(std::env::args_os())
}
