//! Runs the Python that checks us from the other side, in the environment that `scripts/test` makes under `target/`.

use std::{io::Write as _, process::Stdio};

use super::programs;

/// Gives a script of `tests/python` this input and returns what it prints. Fails the test when the script does.
pub(crate) fn run(script: &str, input: &str) -> String {
    let mut child =
        programs::python(script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let text = input.to_owned();
    // On a thread of its own: the script may print before it has read everything.
    let writing = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    drop(writing.join());
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
