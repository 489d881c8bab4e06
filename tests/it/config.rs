//! Mirrors `src/config`: settings from text and a map of variables; the process's own environment is never touched.

use std::{collections::BTreeMap, ffi::OsString, time::Duration};

use countersign::{
    config::{Config, ConfigFault, Draft, Engine, SettingsFile, Sources},
    domain::time::parse_duration,
};
use tempfile::TempDir;

mod channels;
mod secret;
mod source;

/// A configuration written to a directory of its own, and variables.
struct Written {
    directory: TempDir,
    env: BTreeMap<String, OsString>,
}

impl Written {
    fn new(toml: &str) -> Self {
        let directory = TempDir::new().unwrap();
        std::fs::write(directory.path().join("countersign.toml"), toml).unwrap();
        Self { directory, env: BTreeMap::new() }
    }

    fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.into());
        self
    }

    fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn draft(&self) -> Draft {
        let file = SettingsFile::Required(self.directory.path().join("countersign.toml"));
        Config::draft(&Sources { file, env: self.env.clone() }, parse_duration)
    }

    fn config(&self) -> Config {
        self.draft().finish().unwrap()
    }

    fn faults(&self) -> Vec<ConfigFault> {
        self.draft().finish().unwrap_err()
    }

    fn faulty_settings(&self) -> Vec<String> {
        self.faults().into_iter().map(|fault| fault.setting).collect()
    }
}

#[test]
fn an_empty_configuration_is_valid_and_has_the_documented_defaults() {
    let config = Written::new("").config();
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.public_url, None);
    assert_eq!(config.public_url_at(config.listen), "http://127.0.0.1:8080");
    assert_eq!(config.database_url.engine(), Engine::Sqlite);
    assert_eq!(config.database_url.expose(), "sqlite://countersign.db");
    assert!(!config.database.auto_migrate);
    assert_eq!(config.policy, None);
    assert!(config.reviewers.is_empty());
    assert!(config.permits.signing_key.is_none() && config.permits.seal_key.is_none());
    assert!(config.permits.previous_keys.is_empty());
    assert!(config.audit.checkpoint_key.is_none() && config.audit.checkpoint_file.is_none());
    assert_eq!(config.audit.checkpoint_every, Duration::from_secs(60));
    assert_eq!(config.audit.minimum_retention, Duration::from_secs(183 * 86_400));
    assert_eq!(config.limits.body_bytes, 262_144);
    assert_eq!(config.limits.requests_per_second, None);
    assert_eq!(config.limits.claim_lease, Duration::from_secs(300));
    assert_eq!(config.limits.database_connections, 16);
    assert_eq!(config.server.metrics_listen, None);
    assert!(config.server.trusted_proxies.is_empty());
    assert_eq!(config.server.request_timeout, Duration::from_secs(30));
    assert_eq!(config.server.refusal_text, None);
}

#[test]
fn every_setting_is_read_from_the_file() {
    let config = Written::new(
        r#"
        listen = "0.0.0.0:9000"
        public_url = "https://approve.acme.example/"
        database_url = "postgres://app:hunter2@db.internal/countersign"
        policy = "policies"
        [database]
        auto_migrate = true
        [reviewers.ben]
        [reviewers.ana]
        groups = ["finance", "support-leads"]
        email = "ana@acme.example"
        slack_user = "T0123/U0123ABCD"
        oidc_subject = "auth0|ana"
        [audit]
        minimum_retention = "365d"
        [limits]
        body_bytes = 1048576
        requests_per_second = 50
        claim_lease = "90s"
        database_connections = 40
        [server]
        metrics_listen = "127.0.0.1:9100"
        trusted_proxies = ["10.0.0.0/8", "::1"]
        request_timeout = "1500ms"
        refusal_text = "this tool is not available"
        "#,
    )
    .config();
    assert_eq!(config.listen.to_string(), "0.0.0.0:9000");
    assert_eq!(config.public_url_at(config.listen), "https://approve.acme.example");
    assert_eq!(config.database_url.engine(), Engine::Postgres);
    assert!(config.database.auto_migrate);
    assert_eq!(config.policy.unwrap().to_str(), Some("policies"));
    let names: Vec<&str> = config.reviewers.iter().map(|reviewer| reviewer.name.as_str()).collect();
    assert_eq!(names, ["ana", "ben"]);
    assert_eq!(config.reviewers[0].groups, ["finance", "support-leads"]);
    assert_eq!(config.reviewers[0].email.as_deref(), Some("ana@acme.example"));
    assert_eq!(config.reviewers[0].slack_user.as_deref(), Some("T0123/U0123ABCD"));
    assert_eq!(config.reviewers[0].oidc_subject.as_deref(), Some("auth0|ana"));
    assert_eq!(config.audit.minimum_retention, Duration::from_secs(365 * 86_400));
    assert_eq!(config.limits.body_bytes, 1_048_576);
    assert_eq!(config.limits.requests_per_second, Some(50));
    assert_eq!(config.limits.claim_lease, Duration::from_secs(90));
    assert_eq!(config.limits.database_connections, 40);
    assert_eq!(config.server.metrics_listen.unwrap().to_string(), "127.0.0.1:9100");
    let proxies: Vec<String> = config.server.trusted_proxies.iter().map(ToString::to_string).collect();
    assert_eq!(proxies, ["10.0.0.0/8", "::1/128"]);
    assert_eq!(config.server.request_timeout, Duration::from_millis(1_500));
    assert_eq!(config.server.refusal_text.as_deref(), Some("this tool is not available"));
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let settings = Written::new(
        r#"
        lisen = "127.0.0.1:8080"
        listen = "localhost"
        public_url = "ftp://acme.example"
        database_url = "mysql://db/x"
        policy = ""
        reviewers = { ana = { groups = "finance", phone = "1" }, ben = 1 }
        [database]
        auto_migrate = "yes"
        [permits]
        signing_key = "-----BEGIN PRIVATE KEY-----"
        previous_keys = ["file:/nonexistent/key.pem"]
        seal_key = "env:NOT_SET"
        [audit]
        checkpoint_every = "1h"
        minimum_retention = "half a year"
        [limits]
        body_bytes = 0
        claim_lease = "5 minutes"
        [server]
        trusted_proxies = ["10.0.0.0/8", "everyone"]
        request_timeout = 30
        refusal_text = "two\nlines"
        [channels.finance]
        kind = "slack"
        "#,
    );
    let mut faulty = settings.faulty_settings();
    faulty.sort();
    assert_eq!(
        faulty,
        [
            "audit.checkpoint_every",
            "audit.minimum_retention",
            "channels.finance.bot_token",
            "channels.finance.channel",
            "channels.finance.team",
            "database.auto_migrate",
            "database_url",
            "limits.body_bytes",
            "limits.claim_lease",
            "lisen",
            "listen",
            "permits.previous_keys",
            "permits.seal_key",
            "permits.signing_key",
            "policy",
            "public_url",
            "reviewers.ana.groups",
            "reviewers.ana.phone",
            "reviewers.ben",
            "server.refusal_text",
            "server.request_timeout",
            "server.trusted_proxies",
        ]
    );
}

#[test]
fn a_fault_reads_as_a_sentence_with_a_hint() {
    let texts = |toml| Written::new(toml).faults().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        texts("[limits]\nbody_bytes = -1"),
        ["limits.body_bytes: is not a number it may be; write a whole number from 1024 to 16777216"]
    );
    assert_eq!(texts("[database]\nurl = \"x\""), ["database.url: is no setting; known here: auto_migrate"]);
    assert_eq!(texts("limits = 3"), ["limits: is not a table; write [limits]"]);
}

#[test]
fn checkpoint_settings_without_the_key_are_half_a_configuration() {
    let settings = Written::new("[audit]\ncheckpoint_file = \"checkpoints.jsonl\"\ncheckpoint_every = \"5m\"");
    assert_eq!(settings.faulty_settings(), ["audit.checkpoint_every", "audit.checkpoint_file"]);
    let whole = Written::new("[audit]\ncheckpoint_key = \"env:KEY\"\ncheckpoint_file = \"c.jsonl\"").env("KEY", "pem");
    assert_eq!(whole.config().audit.checkpoint_key.unwrap().expose(), "pem");
}

#[test]
fn metrics_need_a_listener_of_their_own() {
    let settings = Written::new("[server]\nmetrics_listen = \"127.0.0.1:8080\"");
    assert_eq!(settings.faulty_settings(), ["server.metrics_listen"]);
}

#[test]
fn an_address_with_more_than_scheme_host_and_path_is_no_public_url() {
    for url in [
        "",
        "approve.acme.example",
        "//approve.acme.example",
        "javascript:alert(1)",
        "https://user@acme.example",
        "https://:pw@acme.example",
        "https://acme.example/?a=b",
        "https://acme.example/#x",
        "https://",
    ] {
        let settings = Written::new(&format!("public_url = \"{url}\""));
        assert_eq!(settings.faulty_settings(), ["public_url"], "{url}");
    }
    let below = Written::new("public_url = \"https://Acme.example/countersign/\"").config();
    assert_eq!(below.public_url.as_deref(), Some("https://acme.example/countersign"));
}

#[test]
fn only_databases_that_outlive_the_process_are_taken() {
    for url in [
        "sqlite://",
        "sqlite://?mode=rwc",
        "sqlite::memory:",
        "sqlite://:memory:",
        "sqlite://x.db?mode=memory",
        "postgres:db",
        "postgres://user@:port",
        "countersign.db",
        "http://db/x",
    ] {
        let settings = Written::new(&format!("database_url = \"{url}\""));
        assert_eq!(settings.faulty_settings(), ["database_url"], "{url}");
    }
    for (url, engine) in [
        ("postgres:///countersign?host=/run/postgresql", Engine::Postgres),
        ("postgresql://db/countersign", Engine::Postgres),
        ("sqlite:///var/lib/countersign/data.db", Engine::Sqlite),
    ] {
        let config = Written::new(&format!("database_url = \"{url}\"")).config();
        assert_eq!((config.database_url.engine(), config.database_url.expose()), (engine, url));
    }
}

#[test]
fn a_fault_found_elsewhere_stops_the_start_like_any_other() {
    let mut draft = Written::new("").draft();
    let fault = ConfigFault::new("reviewers.ben.email", "also names ana", "give each person one entry");
    draft.add(fault.clone());
    assert_eq!(draft.finish().unwrap_err(), [fault]);
}
