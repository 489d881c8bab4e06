//! `countersign keys`.

use serde_json::Value;
use tempfile::tempdir;

use crate::support::process::{create_key, run, text};

#[test]
fn a_new_key_stands_alone_on_standard_output_and_is_listed_without_itself() {
    let folder = tempdir().unwrap();
    let arguments = ["keys", "create", "--name", "support-bot", "--role", "agent", "--role", "orchestrator"];
    let made = run(folder.path(), &[&arguments[..], &["--expires", "90d"]].concat(), &[]);
    assert!(made.status.success());
    let key = text(&made.stdout);
    assert!(key.starts_with("cs_") && key.lines().count() == 1 && key.ends_with('\n'), "{key}");
    assert!(!text(&made.stderr).contains(key.trim_end()));

    let listed = run(folder.path(), &["keys", "list"], &[]);
    let table = text(&listed.stdout);
    assert!(table.contains("support-bot") && table.contains("agent,orchestrator") && table.contains("active until"));
    assert!(!table.contains(key.trim_end()));
}

#[test]
fn a_key_is_revoked_once() {
    let folder = tempdir().unwrap();
    create_key(folder.path(), &[], "support-bot", &["agent"]);
    let listed = |_: ()| -> Value {
        serde_json::from_slice(&run(folder.path(), &["keys", "list", "--json"], &[]).stdout).unwrap()
    };
    let before = listed(());
    assert_eq!(before[0]["state"], "active");
    let id = before[0]["id"].as_str().unwrap();
    assert!(run(folder.path(), &["keys", "revoke", id], &[]).status.success());
    assert_eq!(listed(())[0]["state"], "revoked");
    let again = run(folder.path(), &["keys", "revoke", id], &[]);
    assert_eq!(again.status.code(), Some(1));
}

#[test]
fn a_reviewer_is_an_entry_of_the_settings() {
    let folder = tempdir().unwrap();
    let arguments = ["keys", "create", "--name", "ana", "--role", "reviewer"];
    let refused = run(folder.path(), &arguments, &[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stdout.is_empty());
    assert!(text(&refused.stderr).contains("[reviewers]"));
    let environment = [("COUNTERSIGN_REVIEWERS__ANA__EMAIL", "ana@acme.example")];
    assert!(run(folder.path(), &arguments, &environment).status.success());
}

#[test]
fn who_proposes_never_decides() {
    let folder = tempdir().unwrap();
    let arguments = ["keys", "create", "--name", "ana", "--role", "agent", "--role", "admin"];
    let refused = run(folder.path(), &arguments, &[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("never share a key"));
}

#[test]
fn a_word_that_is_no_role_ends_with_one_and_not_with_findings() {
    let folder = tempdir().unwrap();
    let refused = run(folder.path(), &["keys", "create", "--name", "ana", "--role", "boss"], &[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("agent, orchestrator, reviewer, auditor or admin"));
}
