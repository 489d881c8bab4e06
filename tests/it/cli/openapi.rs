//! `countersign openapi`.

use serde_json::Value;
use tempfile::tempdir;

use crate::support::process::run;

#[test]
fn the_document_is_printed_as_json() {
    let folder = tempdir().unwrap();
    let output = run(folder.path(), &["openapi"], &[]);
    assert!(output.status.success());
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")));
    assert!(document["paths"]["/decide"]["post"].is_object());
}
