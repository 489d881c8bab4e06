//! `countersign dev`: what a new user sees first.

use std::{os::unix::fs::PermissionsExt as _, process::Command};

use reqwest::StatusCode;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::support::process::{Caller, Process, external_mail, run, text};

/// The key in a line of the greeting.
fn key(line: &str) -> String {
    line.split_whitespace().nth(1).unwrap().to_owned()
}

/// Runs a printed command as a shell that it is pasted into does.
fn paste(line: &str) -> Value {
    let output = Command::new("sh").args(["-c", line.trim()]).output().unwrap();
    assert!(output.status.success(), "{line}\n{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn a_first_run_allows_refuses_holds_approves_claims_and_logs_all_of_it() {
    let folder = tempdir().unwrap();
    let dev = Process::dev(folder.path());
    let agent = Caller::new(&dev, &key(&dev.stdout.with("  agent ")));
    let reviewer = Caller::new(&dev, &key(&dev.stdout.with("  reviewer ")));
    let admin = Caller::new(&dev, &key(&dev.stdout.with("  admin ")));

    let (status, allowed) = agent.decide("get_order", json!({ "order_id": "AB-1234" }), "call-1").await;
    assert_eq!((status, &allowed["verdict"]), (StatusCode::OK, &json!("allow")));
    let line = dev.stdout.with("get_order");
    assert!(line.starts_with("allow "), "{line}");

    let (status, refused) = agent.decide("drop_database", json!({}), "call-2").await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(
        refused,
        json!({
            "error": "tool unavailable",
            "tool_result": { "is_error": true, "content": "tool unavailable" },
        })
    );
    assert!(dev.stdout.with("drop_database").starts_with("deny "));

    let long = json!({ "tool": "no_such_tool_whose_name_is_long", "args": {}, "run_id": "a-run-with-a-long-name", "tool_use_id": "call-1" });
    assert_eq!(agent.post("/decide", long).await.0, StatusCode::FORBIDDEN);
    dev.stdout.with(" no_such_tool_whose_name_is_long a-run-with-a-long-name ");

    let (status, held) = agent.decide("send_email", external_mail(), "call-3").await;
    assert_eq!((status, &held["approval"]["state"]), (StatusCode::ACCEPTED, &json!("pending")));
    let (status, _) = agent.claim(&held, external_mail(), "claim-1").await;
    assert_eq!(status, StatusCode::CONFLICT, "nobody has approved yet");

    let (status, approved) = reviewer.approve(&held).await;
    assert_eq!((status, &approved["state"]), (StatusCode::OK, &json!("approved")));
    let (status, claimed) = agent.claim(&held, external_mail(), "claim-1").await;
    assert_eq!((status, &claimed["claim_id"]), (StatusCode::OK, &json!("claim-1")));
    let (status, _) = agent.claim(&held, external_mail(), "claim-2").await;
    assert_eq!(status, StatusCode::CONFLICT, "it runs once");
    let outcome = format!("/approvals/{}/outcome", held["approval"]["id"].as_str().unwrap());
    let (status, _) = agent.post(&outcome, json!({ "claim_id": "claim-1", "status": "succeeded" })).await;
    assert_eq!(status, StatusCode::NO_CONTENT);

    let (status, log) = admin.get("/audit?run_id=run-1&limit=200").await;
    assert_eq!(status, StatusCode::OK);
    let events: Vec<&str> =
        log["items"].as_array().unwrap().iter().rev().map(|entry| entry["event"].as_str().unwrap()).collect();
    let story = ["approval.requested", "approval.vote", "approval.approved", "claim", "outcome"];
    let told: Vec<&str> = events.iter().copied().filter(|event| story.contains(event)).collect();
    assert_eq!(told, story, "{events:?}");
    assert_eq!(events.iter().filter(|event| **event == "decision").count(), 3);
    let (_, verified) = admin.get("/audit/verify").await;
    assert_eq!(verified["ok"], json!(true), "{verified}");
}

#[tokio::test]
async fn the_printed_commands_work_when_pasted() {
    let folder = tempdir().unwrap();
    let dev = Process::dev(folder.path());
    let held = paste(&dev.stdout.with("curl "));
    assert_eq!(held["verdict"], "require_approval");
    let approved = paste(&dev.stdout.with("/decision"));
    assert_eq!(approved["state"], "approved");
    assert!(dev.stdout.with("approval.approved").contains("by dev"));
}

#[test]
fn a_second_start_has_the_same_keys_which_only_their_owner_can_read() {
    let folder = tempdir().unwrap();
    let first = Process::dev(folder.path());
    let before = first.stdout.with("  agent ");
    first.signal("INT");
    assert!(first.ended().success());
    let second = Process::dev(folder.path());
    assert_eq!(second.stdout.with("  agent "), before);

    let kept = folder.path().join(".countersign");
    assert_eq!(kept.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(kept.join("keys.json").metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn the_printed_link_shows_a_button_and_is_another_one_at_each_start() {
    let folder = tempdir().unwrap();
    let first = Process::dev(folder.path());
    let link = key(&first.stdout.with("  inbox "));
    let browser = reqwest::Client::new();
    let page = browser.get(&link).send().await.unwrap();
    assert_eq!(page.status(), StatusCode::OK);
    let cookie = page.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.starts_with("sign-in=") && cookie.contains("HttpOnly") && !cookie.contains("Secure"), "{cookie}");
    assert!(page.text().await.unwrap().contains("<button"));
    assert_eq!(browser.head(&link).send().await.unwrap().status(), StatusCode::OK);
    first.signal("INT");
    assert!(first.ended().success());
    let second = Process::dev(folder.path());
    assert_ne!(key(&second.stdout.with("  inbox ")), link);
}

#[test]
fn an_edit_of_the_policy_decides_as_soon_as_it_is_saved() {
    let folder = tempdir().unwrap();
    let dev = Process::dev(folder.path());
    let policy = folder.path().join(".countersign/policy.toml");
    let edited = std::fs::read_to_string(&policy).unwrap() + "\n# edited\n";
    std::fs::write(&policy, edited).unwrap();
    dev.stdout.with("policy.loaded");
}

#[test]
fn keys_are_never_shown_on_an_address_that_others_can_reach() {
    let folder = tempdir().unwrap();
    let output = run(folder.path(), &["dev", "--listen", "0.0.0.0:0"], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    assert!(text(&output.stderr).contains("countersign serve"));
}
