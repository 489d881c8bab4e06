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
    assert_eq!(document["openapi"].as_str().map(|version| &version[..3]), Some("3.1"));
    assert!(document["paths"]["/decide"]["post"].is_object());
}
