//! `countersign why`.

use serde_json::Value;
use tempfile::tempdir;

use crate::support::process::{Caller, Process, QUICKSTART, approval_of, create_key, external_mail, run, text};

const ENVIRONMENT: [(&str, &str); 2] =
    [("COUNTERSIGN_POLICY", QUICKSTART), ("COUNTERSIGN_REVIEWERS__ANA__EMAIL", "ana@acme.example")];

#[tokio::test]
async fn a_held_call_is_explained_from_its_decision_to_its_claim() {
    let folder = tempdir().unwrap();
    let agent_key = create_key(folder.path(), &ENVIRONMENT, "support-bot", &["agent"]);
    let reviewer_key = create_key(folder.path(), &ENVIRONMENT, "ana", &["reviewer"]);
    let service = Process::serve(folder.path(), &ENVIRONMENT);
    let (agent, reviewer) = (Caller::new(&service, &agent_key), Caller::new(&service, &reviewer_key));
    let mut mail = external_mail();
    mail["subject"] = "clear\u{1b}[2Jthe screen".into();
    let (_, held) = agent.decide("send_email", mail.clone(), "call-1").await;
    reviewer.approve(&held).await;
    agent.claim(&held, mail, "claim-1").await;

    let explained = |id: &str| text(&run(folder.path(), &["why", id], &ENVIRONMENT).stdout);
    let story = explained(approval_of(&held));
    for part in
        ["require_approval", "internal-recipients", "customer.example", "approval.vote", "by ana", "claim-1", "policy"]
    {
        assert!(story.contains(part), "nothing about {part} in:\n{story}");
    }
    assert!(!story.contains('\u{1b}'), "what a caller wrote commands no terminal");
    assert_eq!(explained(held["decision_id"].as_str().unwrap()), story);
    assert_eq!(explained(held["approval"]["code"].as_str().unwrap()), story);

    let json = run(folder.path(), &["why", approval_of(&held), "--json"], &ENVIRONMENT);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["entries"][0]["entry"]["event"], "decision");
    assert_eq!(json["entries"][0]["payload"]["args"]["to"][0], "ana@customer.example");
}

#[test]
fn what_the_log_does_not_know_is_no_finding() {
    let folder = tempdir().unwrap();
    create_key(folder.path(), &[], "support-bot", &["agent"]);
    let unknown = run(folder.path(), &["why", "dec_01976d2c-0000-7000-8000-000000000000"], &[]);
    assert_eq!(unknown.status.code(), Some(1));
    let no_id = run(folder.path(), &["why", "yesterday"], &[]);
    assert_eq!(no_id.status.code(), Some(1));
    assert!(text(&no_id.stderr).contains("AP-"));
}
