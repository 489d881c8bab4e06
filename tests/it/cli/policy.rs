//! `countersign policy check`.

use std::fs;

use serde_json::Value;
use tempfile::tempdir;

use crate::support::process::{QUICKSTART, run, text};

const FAULTY: &str = "schema = 1\n\n[tools.x]\nrisk = \"harmless\"\nparametres = {}\n";

#[test]
fn a_good_policy_is_fine() {
    let folder = tempdir().unwrap();
    let output = run(folder.path(), &["policy", "check", QUICKSTART], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("version sha256:"));
}

#[test]
fn every_fault_is_told_with_its_place() {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("policy.toml"), FAULTY).unwrap();
    let output = run(folder.path(), &["policy", "check", "policy.toml"], &[]);
    assert_eq!(output.status.code(), Some(2));
    let told = text(&output.stdout);
    assert!(told.contains("policy.toml:4:8: error:"), "{told}");
    assert!(told.contains("policy.toml:5:1: error:"), "{told}");
}

#[test]
fn machines_get_the_same_as_json() {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("policy.toml"), FAULTY).unwrap();
    let output = run(folder.path(), &["policy", "check", "policy.toml", "--json"], &[]);
    assert_eq!(output.status.code(), Some(2));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["policy_version"], Value::Null);
    assert_eq!(told["errors"].as_u64().unwrap(), told["faults"].as_array().unwrap().len() as u64);
    let lines: Vec<_> = told["faults"].as_array().unwrap().iter().map(|fault| fault["line"].as_u64()).collect();
    assert!(lines.contains(&Some(4)) && lines.contains(&Some(5)), "{told}");
}

#[test]
fn a_folder_is_one_policy_without_its_cases_and_hidden_files() {
    let folder = tempdir().unwrap();
    let inside = folder.path().join("policy/mail");
    fs::create_dir_all(&inside).unwrap();
    fs::write(folder.path().join("policy/main.toml"), "schema = 1\n").unwrap();
    fs::write(inside.join("mail.toml"), FAULTY).unwrap();
    fs::write(inside.join("mail.cases.toml"), "no policy").unwrap();
    fs::write(inside.join(".mail.toml"), "no policy either").unwrap();
    let output = run(folder.path(), &["policy", "check", "policy"], &[]);
    let told = text(&output.stdout);
    assert!(told.contains("mail/mail.toml:4:8: error:"), "{told}");
    assert!(!told.contains("cases") && !told.contains(".mail"), "{told}");
}

#[test]
fn a_link_out_of_the_folder_is_not_followed() {
    let folder = tempdir().unwrap();
    fs::create_dir(folder.path().join("policy")).unwrap();
    std::os::unix::fs::symlink(QUICKSTART, folder.path().join("policy/linked.toml")).unwrap();
    let output = run(folder.path(), &["policy", "check", "policy"], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("leads out of the policy's folder"));
}

#[test]
fn what_cannot_be_read_is_no_finding() {
    let folder = tempdir().unwrap();
    let output = run(folder.path(), &["policy", "check", "nowhere.toml"], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("nowhere.toml cannot be read"));
}

#[test]
fn a_schema_file_beside_the_policy_is_read_with_it() {
    let folder = tempdir().unwrap();
    let policy = "schema = 1\n[tools.x]\nrisk = \"read\"\nparameters_file = \"schemas/x.json\"\n";
    fs::write(folder.path().join("policy.toml"), policy).unwrap();
    fs::create_dir(folder.path().join("schemas")).unwrap();
    fs::write(folder.path().join("schemas/x.json"), r#"{"type":"object","properties":{}}"#).unwrap();
    let output = run(folder.path(), &["policy", "check", "policy.toml"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}
