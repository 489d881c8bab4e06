//! `countersign serve`: what it refuses, and how it starts, reloads and stops.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    time::Instant,
};

use reqwest::StatusCode;
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

use crate::support::process::{Caller, Process, QUICKSTART, approval_of, create_key, external_mail, run, text};

const REVIEWER: (&str, &str) = ("COUNTERSIGN_REVIEWERS__ANA__EMAIL", "ana@acme.example");

/// A folder with a copy of the quickstart policy.
fn folder_with_policy() -> TempDir {
    let folder = tempdir().unwrap();
    fs::copy(QUICKSTART, folder.path().join("policy.toml")).unwrap();
    folder
}

fn environment() -> Vec<(&'static str, &'static str)> {
    vec![("COUNTERSIGN_POLICY", "policy.toml"), REVIEWER]
}

fn replace_policy(folder: &Path, text: &str) {
    let new = folder.join("policy.new");
    fs::write(&new, text).unwrap();
    fs::rename(new, folder.join("policy.toml")).unwrap();
}

#[test]
fn everything_that_is_half_configured_is_told_at_once() {
    let folder = tempdir().unwrap();
    fs::write(
        folder.path().join("countersign.toml"),
        r#"
        policy = "policy.toml"
        colour = "blue"
        [permits]
        signing_key = "env:PERMIT_KEY"
        [audit]
        checkpoint_file = "checkpoints.jsonl"
        [reviewers.ana]
        email = "ana@acme.example"
        [reviewers.bob]
        email = "ANA@acme.example"
        [channels.chat]
        kind = "slack"
        "#,
    )
    .unwrap();
    fs::write(folder.path().join("policy.toml"), "schema = 1\n[tools.x]\nrisk = \"harmless\"\n").unwrap();
    let output = run(folder.path(), &["serve"], &[("PERMIT_KEY", "no key")]);
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stderr);
    for part in [
        "colour",
        "permits.signing_key",
        "audit.checkpoint_file",
        "reviewers.bob.email",
        "channels",
        "policy.toml:3:8: error",
    ] {
        assert!(told.contains(part), "nothing about {part} in:\n{told}");
    }
    assert!(!told.contains("no key\n") && !told.contains("blue"), "a value is repeated:\n{told}");
    assert!(!folder.path().join("countersign.db").exists(), "nothing was started");
}

#[test]
fn a_policy_whose_lookups_send_a_secret_that_is_not_there_is_refused() {
    let folder = tempdir().unwrap();
    let policy = r#"
        schema = 1
        [tools.refund]
        risk = "send"
        parameters = { type = "object", required = ["id"], properties = { id = { type = "string" } } }
        [tools.refund.lookups.order]
        url = "https://orders.acme.example/{id}"
        show = { status = "/status" }
        credential = "env:ORDERS_TOKEN"
        "#;
    fs::write(folder.path().join("policy.toml"), policy).unwrap();
    let refused = run(folder.path(), &["serve", "--check"], &environment());
    assert_eq!(refused.status.code(), Some(2));
    let told = text(&refused.stderr);
    assert!(told.contains("tools.refund.lookups.order") && told.contains("ORDERS_TOKEN"), "{told}");
    let with_secret = [environment(), vec![("ORDERS_TOKEN", "s3cret-token")]].concat();
    let taken = run(folder.path(), &["serve", "--check"], &with_secret);
    assert_eq!(taken.status.code(), Some(0), "{}", text(&taken.stderr));
    assert!(!text(&taken.stderr).contains("s3cret-token"));
}

#[test]
fn a_policy_that_names_a_group_of_nobody_is_refused() {
    let folder = tempdir().unwrap();
    let policy = fs::read_to_string(QUICKSTART).unwrap();
    let policy =
        policy.replace(r#"approval = { ttl = "1h" }"#, r#"approval = { ttl = "1h", reviewers = ["finance"] }"#);
    assert!(policy.contains("finance"));
    fs::write(folder.path().join("policy.toml"), policy).unwrap();
    let check = |environment: &[(&str, &str)]| run(folder.path(), &["serve", "--check"], environment);
    let refused = check(&environment());
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("no configured reviewer is in the group `finance`"));
    let mut with_group = environment();
    with_group.push(("COUNTERSIGN_REVIEWERS__ANA__GROUPS", "finance"));
    assert_eq!(check(&with_group).status.code(), Some(0));
}

#[test]
fn a_policy_whose_approvals_are_given_on_the_page_needs_a_way_to_sign_in_there() {
    let folder = tempdir().unwrap();
    let policy = fs::read_to_string(QUICKSTART).unwrap();
    let policy = policy.replace(r#"approval = { ttl = "1h" }"#, r#"approval = { ttl = "1h", decide_in = "web" }"#);
    assert!(policy.contains("decide_in"));
    fs::write(folder.path().join("policy.toml"), policy).unwrap();
    let check = |more: &[(&str, &str)]| {
        let environment = [environment(), more.to_vec(), vec![("SMTP", "smtps://mail.acme.example")]].concat();
        let output = run(folder.path(), &["serve", "--check"], &environment);
        (output.status.code(), text(&output.stderr).to_owned())
    };
    let elsewhere = ("COUNTERSIGN_PUBLIC_URL", "https://approve.acme.example");
    let (code, told) = check(&[elsewhere]);
    assert_eq!(code, Some(2));
    assert!(told.contains("on the page alone") && told.contains("[oidc]"), "{told}");
    let mailed = [
        elsewhere,
        ("COUNTERSIGN_CHANNELS__MAIL__KIND", "email"),
        ("COUNTERSIGN_CHANNELS__MAIL__SMTP_URL", "env:SMTP"),
        ("COUNTERSIGN_CHANNELS__MAIL__FROM", "approvals@acme.example"),
    ];
    assert_eq!(check(&mailed).0, Some(0));
    assert_eq!(check(&[]).0, Some(0), "a service on this machine prints its link");
}

#[test]
fn a_policy_that_takes_a_fresh_sign_in_needs_a_provider_and_people_who_are_known_there() {
    let folder = tempdir().unwrap();
    let policy = fs::read_to_string(QUICKSTART).unwrap();
    let policy = policy.replace(r#"approval = { ttl = "1h" }"#, r#"approval = { ttl = "1h", step_up = true }"#);
    assert!(policy.contains("step_up"));
    fs::write(folder.path().join("policy.toml"), policy).unwrap();
    let check = |more: &[(&str, &str)]| {
        let environment = [environment(), more.to_vec(), vec![("OIDC_SECRET", "s3cret")]].concat();
        let output = run(folder.path(), &["serve", "--check"], &environment);
        (output.status.code(), text(&output.stderr).to_owned())
    };
    let known = ("COUNTERSIGN_REVIEWERS__ANA__OIDC_SUBJECT", "auth0|ana");
    let provider = [
        ("COUNTERSIGN_PUBLIC_URL", "https://approve.acme.example"),
        ("COUNTERSIGN_OIDC__ISSUER", "https://login.acme.example"),
        ("COUNTERSIGN_OIDC__CLIENT_ID", "countersign"),
        ("COUNTERSIGN_OIDC__CLIENT_SECRET", "env:OIDC_SECRET"),
    ];
    let (code, told) = check(&[known]);
    assert_eq!(code, Some(2));
    assert!(told.contains("step_up") && told.contains("[oidc]"), "{told}");
    let (code, told) = check(&provider);
    assert_eq!(code, Some(2));
    assert!(told.contains("oidc_subject"), "{told}");
    let (code, told) = check(&[&provider[..], &[known]].concat());
    assert_eq!(code, Some(0), "{told}");
    assert!(!told.contains("s3cret"));
}

#[test]
fn half_a_sign_in_is_told_of_with_all_that_is_missing() {
    let folder = folder_with_policy();
    let check = |text_of_settings: &str| {
        fs::write(folder.path().join("countersign.toml"), text_of_settings).unwrap();
        let output = run(folder.path(), &["serve", "--check"], &environment());
        (output.status.code(), text(&output.stderr).to_owned())
    };
    let (code, told) = check(
        r#"
        [reviewers.ana]
        roles = ["auditor", "agent", "king"]
        [oidc]
        issuer = "http://login.acme.example"
        scopes = "email"
        [jwt]
        issuer = "https://tokens.acme.example"
        [jwt.roles]
        approver = "reviewer"
        boss = "king"
        [jwt.agents]
        "client|x" = "not a name"
        "#,
    );
    assert_eq!(code, Some(2));
    for part in
        ["reviewers.ana.roles", "oidc.issuer", "oidc.client_id", "oidc.client_secret", "oidc.scopes", "jwt.audience"]
    {
        assert!(told.contains(part), "nothing about {part} in:\n{told}");
    }
    let (_, told) = check(
        r#"
        [oidc]
        issuer = "https://login.acme.example"
        client_id = "countersign"
        client_secret = "env:PATH"
        [jwt]
        issuer = "https://tokens.acme.example"
        audience = "countersign"
        [jwt.roles]
        approver = "reviewer"
        boss = "king"
        [jwt.agents]
        "client|x" = "not a name"
        "#,
    );
    for part in ["public_url", "jwt.roles.boss", "another issuer than [oidc]", "jwt.agents.client|x"] {
        assert!(told.contains(part), "nothing about {part} in:\n{told}");
    }
}

#[test]
fn check_starts_nothing_and_says_what_to_know() {
    let folder = folder_with_policy();
    let output = run(folder.path(), &["serve", "--check"], &[("COUNTERSIGN_POLICY", "policy.toml")]);
    assert_eq!(output.status.code(), Some(0));
    let told = text(&output.stderr);
    for part in ["no reviewer", "permits.signing_key", "audit.checkpoint_key"] {
        assert!(told.contains(part), "nothing about {part} in:\n{told}");
    }
    assert!(!folder.path().join("countersign.db").exists());
}

#[tokio::test]
async fn an_empty_configuration_starts_and_permits_nothing() {
    let folder = tempdir().unwrap();
    let key = create_key(folder.path(), &[], "agent-1", &["agent"]);
    let service = Process::serve(folder.path(), &[]);
    let agent = Caller::new(&service, &key);
    let (status, _) = agent.decide("get_order", json!({ "order_id": "AB-1234" }), "call-1").await;
    assert_eq!(status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn without_any_reviewer_what_would_be_held_is_denied() {
    let folder = folder_with_policy();
    let environment = [("COUNTERSIGN_POLICY", "policy.toml")];
    let key = create_key(folder.path(), &environment, "agent-1", &["agent"]);
    let service = Process::serve(folder.path(), &environment);
    let agent = Caller::new(&service, &key);
    let (status, _) = agent.decide("send_email", external_mail(), "call-1").await;
    assert_eq!(status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn asked_to_end_it_answers_who_waits_and_ends_well() {
    let folder = folder_with_policy();
    let key = create_key(folder.path(), &environment(), "agent-1", &["agent"]);
    let service = Process::serve(folder.path(), &environment());
    let agent = Caller::new(&service, &key);
    let (_, held) = agent.decide("send_email", external_mail(), "call-1").await;
    let mut waiting = TcpStream::connect(service.url.strip_prefix("http://").unwrap()).unwrap();
    let path = format!("/approvals/{}", approval_of(&held));
    let headers = format!("host: countersign\r\nauthorization: Bearer {key}\r\nprefer: wait=60");
    write!(waiting, "GET {path} HTTP/1.1\r\n{headers}\r\n\r\n").unwrap();

    let asked = Instant::now();
    service.signal("TERM");
    let mut answer = String::new();
    waiting.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(r#""state":"pending""#), "{answer}");
    service.stderr.with("\"stopped\"");
    assert!(service.ended().success());
    assert!(asked.elapsed().as_secs() < 10, "a container runtime would have killed it");
}

#[tokio::test]
async fn a_faulty_edit_leaves_the_last_good_policy_in_force() {
    let folder = folder_with_policy();
    let key = create_key(folder.path(), &environment(), "agent-1", &["agent"]);
    let service = Process::serve(folder.path(), &environment());
    let agent = Caller::new(&service, &key);
    let good = fs::read_to_string(QUICKSTART).unwrap();

    replace_policy(folder.path(), &good.replace("auto_refund_limit = 250", "auto_refund_limit = = 250"));
    let fault = service.stderr.with("policy_fault");
    assert!(fault.contains("policy.toml:") && fault.contains("error"), "{fault}");
    service.stderr.with("the last good one stays");
    let refund = json!({ "order_id": "AB-1234", "amount": 200 });
    let (status, _) = agent.decide("issue_refund", refund.clone(), "call-1").await;
    assert_eq!(status, StatusCode::OK);

    replace_policy(folder.path(), &good.replace("auto_refund_limit = 250", "auto_refund_limit = 100"));
    service.stderr.with("a new policy is in force");
    let (status, _) = agent.decide("issue_refund", refund, "call-2").await;
    assert_eq!(status, StatusCode::ACCEPTED, "200 is over the new limit");
}

#[tokio::test]
async fn asked_to_it_reads_the_policy_at_once() {
    let folder = folder_with_policy();
    let service = Process::serve(folder.path(), &environment());
    let good = fs::read_to_string(QUICKSTART).unwrap();
    replace_policy(folder.path(), &good.replace("auto_refund_limit = 250", "auto_refund_limit = 100"));
    service.signal("HUP");
    service.stderr.with("a new policy is in force");
}

#[tokio::test]
async fn a_revoked_key_opens_nothing_within_two_seconds() {
    let folder = folder_with_policy();
    let key = create_key(folder.path(), &environment(), "agent-1", &["agent"]);
    let service = Process::serve(folder.path(), &environment());
    let agent = Caller::new(&service, &key);
    assert_eq!(agent.get("/tools").await.0, StatusCode::OK);
    let listed = run(folder.path(), &["keys", "list", "--json"], &environment());
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let id = listed[0]["id"].as_str().unwrap();
    assert!(run(folder.path(), &["keys", "revoke", id], &environment()).status.success());
    let revoked = Instant::now();
    while agent.get("/tools").await.0 != StatusCode::UNAUTHORIZED {
        assert!(revoked.elapsed().as_secs() < 2, "it still opens");
    }
}

#[tokio::test]
async fn the_log_knows_what_the_service_started_with_and_no_value_of_it() {
    let folder = folder_with_policy();
    let key = create_key(folder.path(), &environment(), "eve", &["auditor"]);
    let service = Process::serve(folder.path(), &environment());
    let auditor = Caller::new(&service, &key);
    let (_, loaded) = auditor.get("/audit?event=configuration.loaded").await;
    let settings = &loaded["items"][0]["detail"]["settings"];
    assert_eq!(settings, &json!(["listen", "policy", "reviewers.ana.email"]));
    let (_, loaded) = auditor.get("/audit?event=policy.loaded").await;
    assert_eq!(loaded["items"][0]["detail"]["changed"], json!(["policy.toml"]));
}
