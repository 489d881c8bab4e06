//! The file, the variables, and which of them wins.

use std::{collections::BTreeMap, ffi::OsString, os::unix::ffi::OsStringExt as _, path::PathBuf};

use countersign::{
    config::{Config, SettingsFile, Sources},
    domain::time::parse_duration,
};

use super::Written;

#[test]
fn a_variable_wins_over_the_file() {
    let settings = Written::new("listen = \"127.0.0.1:1\"\n[limits]\nclaim_lease = \"1m\"\nbody_bytes = 2048")
        .env("COUNTERSIGN_LISTEN", "127.0.0.1:2")
        .env("COUNTERSIGN_LIMITS__CLAIM_LEASE", "2m");
    let config = settings.config();
    assert_eq!(config.listen.port(), 2);
    assert_eq!(config.limits.claim_lease.as_secs(), 120);
    assert_eq!(config.limits.body_bytes, 2_048);
}

#[test]
fn every_kind_of_setting_may_be_a_variable() {
    let config = Written::new("")
        .env("COUNTERSIGN_DATABASE_URL", "postgres://app@db/countersign")
        .env("COUNTERSIGN_POLICY", "123")
        .env("COUNTERSIGN_PUBLIC_URL", "https://approve.acme.example")
        .env("COUNTERSIGN_DATABASE__AUTO_MIGRATE", "true")
        .env("COUNTERSIGN_LIMITS__BODY_BYTES", "4096")
        .env("COUNTERSIGN_SERVER__TRUSTED_PROXIES", "10.0.0.0/8, 127.0.0.1")
        .env("COUNTERSIGN_SERVER__REFUSAL_TEXT", "true")
        .env("COUNTERSIGN_REVIEWERS__ANA__GROUPS", "finance,support")
        .config();
    assert_eq!(config.database_url.expose(), "postgres://app@db/countersign");
    assert_eq!(config.policy, Some(PathBuf::from("123")));
    assert_eq!(config.public_url.as_deref(), Some("https://approve.acme.example"));
    assert!(config.database.auto_migrate);
    assert_eq!(config.limits.body_bytes, 4_096);
    assert_eq!(config.server.trusted_proxies.len(), 2);
    assert_eq!(config.server.refusal_text.as_deref(), Some("true"));
    assert_eq!(config.reviewers[0].name, "ana");
    assert_eq!(config.reviewers[0].groups, ["finance", "support"]);
}

#[test]
fn a_fault_in_a_variable_names_the_variable() {
    let settings = Written::new("")
        .env("COUNTERSIGN_LIMITS__BODY_BYTES", "many")
        .env("COUNTERSIGN_LISTN", "127.0.0.1:1")
        .env("COUNTERSIGN_POLICY", "");
    let faults: Vec<String> = settings.faults().iter().map(ToString::to_string).collect();
    assert_eq!(faults.len(), 3);
    for name in ["COUNTERSIGN_LIMITS__BODY_BYTES", "COUNTERSIGN_LISTN", "COUNTERSIGN_POLICY"] {
        assert!(faults.iter().any(|fault| fault.contains(name)), "{name}: {faults:?}");
    }
}

#[test]
fn a_variable_that_contradicts_another_source_is_a_fault() {
    let settings = Written::new("[limits]\nbody_bytes = 2048")
        .env("COUNTERSIGN_LIMITS", "5")
        .env("COUNTERSIGN_LISTEN", "127.0.0.1:1")
        .env("COUNTERSIGN_LISTEN__PORT", "1")
        .env("COUNTERSIGN_listen", "127.0.0.1:2");
    assert_eq!(settings.faulty_settings(), ["COUNTERSIGN_LIMITS", "COUNTERSIGN_LISTEN__PORT", "COUNTERSIGN_listen"]);
}

#[test]
fn a_variable_that_is_not_utf8_is_a_fault() {
    let mut settings = Written::new("");
    settings.env.insert("COUNTERSIGN_POLICY".to_owned(), OsString::from_vec(vec![0xff]));
    assert_eq!(settings.faulty_settings(), ["COUNTERSIGN_POLICY"]);
}

#[test]
fn variables_that_nobody_wrote_as_settings_are_left_alone() {
    let config = Written::new("")
        .env("COUNTERSIGN_CONFIG", "countersign.toml")
        .env("COUNTERSIGN_LOG", "debug")
        .env("COUNTERSIGN_TEST_DATABASE_URL", "postgres://test")
        .env("COUNTERSIGN_PORT", "tcp://10.0.0.7:8080")
        .env("COUNTERSIGN_PORT_8080_TCP_ADDR", "10.0.0.7")
        .env("COUNTERSIGN_SERVICE_HOST", "10.0.0.7")
        .env("COUNTERSIGN_SERVICE_PORT_HTTP", "8080")
        .env("COUNTERSIGN_DB_PORT_5432_TCP", "tcp://10.0.0.8:5432")
        .env("COUNTERSIGN_DB_SERVICE_HOST", "10.0.0.8")
        .env("LISTEN", "0.0.0.0:1");
    assert_eq!(config.config().listen.to_string(), "127.0.0.1:8080");
}

#[test]
fn a_port_that_somebody_meant_as_a_setting_is_a_fault() {
    assert_eq!(Written::new("").env("COUNTERSIGN_PORT", "9000").faulty_settings(), ["port"]);
}

#[test]
fn a_file_that_is_not_toml_is_told_with_its_line_and_without_its_text() {
    let settings = Written::new("listen = \"127.0.0.1:1\"\ndatabase_url = \"postgres://app:hunter2@db/x")
        .env("COUNTERSIGN_LIMITS__BODY_BYTES", "many");
    let faults: Vec<String> = settings.faults().iter().map(ToString::to_string).collect();
    assert_eq!(faults.len(), 2);
    assert!(faults[0].contains("countersign.toml, line 2: is not TOML"), "{}", faults[0]);
    assert!(!faults[0].contains("hunter2"), "{}", faults[0]);
}

#[test]
fn a_key_that_stands_twice_is_a_fault() {
    assert_eq!(Written::new("policy = \"a\"\npolicy = \"b\"").faults().len(), 1);
}

#[test]
fn a_file_that_was_named_must_be_there() {
    let missing = PathBuf::from("/nonexistent/countersign.toml");
    let load = |file| Config::load(&Sources { file, env: BTreeMap::new() }, parse_duration);
    assert_eq!(load(SettingsFile::Required(missing.clone())).unwrap_err()[0].setting, "/nonexistent/countersign.toml");
    assert!(load(SettingsFile::IfPresent(missing)).is_ok());
    assert!(load(SettingsFile::None).is_ok());
}
