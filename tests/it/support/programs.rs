//! Other people's programs, as `scripts/test` installs them below `target/`: Node and Python packages.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

fn below_target(variable: &str, folder: &str) -> PathBuf {
    let named = std::env::var_os(variable).map(PathBuf::from);
    named.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target").join(folder))
}

/// A script of `tests/node`, which finds its packages by `COUNTERSIGN_TEST_NODE`.
pub(crate) fn node(script: &str) -> Command {
    let packages = below_target("COUNTERSIGN_TEST_NODE", "node");
    assert!(packages.join("node_modules").is_dir(), "run scripts/test once: {} is missing", packages.display());
    let mut program = Command::new("node");
    program.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/node").join(script));
    program.env("COUNTERSIGN_TEST_NODE", packages);
    program
}

/// A script of `tests/python`, run in the environment that has its packages.
pub(crate) fn python(script: &str) -> Command {
    let python = below_target("COUNTERSIGN_TEST_PYTHON", "python").join("bin/python3");
    assert!(python.exists(), "run scripts/test once: {} is missing", python.display());
    let mut program = Command::new(python);
    program.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python").join(script));
    program
}
