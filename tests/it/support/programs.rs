//! Other people's programs, as `scripts/test` installs them below `target/`: Node and Python packages.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
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

/// What a program prints when it is given this. Fails the test when the program does.
pub(crate) fn told(mut program: Command, input: &str) -> String {
    let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let text = input.to_owned();
    // On a thread of its own: the program may print before it has read everything.
    let writing = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    drop(writing.join());
    assert!(output.status.success(), "{program:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
