//! Requirements of more than one click, as reviewers and agents meet them.

use std::time::Duration;

use countersign::domain::{audit::entry::EventKind, identity::ReviewerEntry};
use serde_json::{Value, json};

use crate::support::service::{Answer, DELETION_HASH, Service, approval_path, decision, deletion, reviewer, with};

/// A policy whose one tool is approved so.
fn policy(risk: &str, approval: &str) -> String {
    format!(
        "schema = 1\n[agents.bot]\ntools = [\"delete_customer\"]\n[tools.delete_customer]\nrisk = \"{risk}\"\n\
         parameters = {{ properties = {{ customer = {{ type = \"string\" }} }} }}\napproval = {{ {approval} }}\n"
    )
}

fn owned_by(owner: &str, approval: &str) -> String {
    policy("send", approval)
        .replace("tools = [\"delete_customer\"]\n", &format!("tools = [\"delete_customer\"]\nowner = {owner}\n"))
}

/// Ana of finance and legal, Ben of legal, and Cleo, who manages.
fn people() -> Vec<ReviewerEntry> {
    let cleo = ReviewerEntry { email: Some("cleo@acme.example".to_owned()), ..reviewer("cleo", &["managers"]) };
    vec![reviewer("ana", &["finance", "legal"]), reviewer("ben", &["legal"]), cleo]
}

/// A service with one held call, and the path of its approval.
async fn held_under(policy: &str) -> (Service, String) {
    let service = Service::under(policy, people()).await;
    let path = approval_path(&service.held("t1").await);
    (service, path)
}

async fn decide(service: &Service, holder: &str, path: &str, body: &Value) -> Answer {
    service.post(holder, &format!("{path}/decision"), body).await
}

async fn approve(service: &Service, holder: &str, path: &str) -> Answer {
    decide(service, holder, path, &decision("approve")).await
}

async fn claim(service: &Service, path: &str) -> Answer {
    service.post("bot", &format!("{path}/claim"), &json!({ "args": deletion() })).await
}

#[tokio::test]
async fn a_quorum_of_two_takes_two_people() {
    let (service, path) = held_under(&policy("send", "quorum = 2")).await;
    for _ in 0..2 {
        let answer = approve(&service, "ana", &path).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.json()["state"], "pending");
        assert_eq!(answer.json()["missing"], json!([{ "group": null, "count": 1 }]));
        assert_eq!(answer.json()["missing_text"], "one more from anyone");
        assert_eq!(service.get("bot", &path).await.json()["votes"], json!({ "have": 1, "need": 2 }));
    }
    let answer = approve(&service, "cleo", &path).await.json();
    assert_eq!(
        (&answer["state"], &answer["missing"], &answer["missing_text"]),
        (&json!("approved"), &json!([]), &json!(null))
    );
    assert_eq!(claim(&service, &path).await.status, 200);
}

#[tokio::test]
async fn the_agent_sees_nothing_of_who_must_approve() {
    let (service, path) = held_under(&policy("send", "reviewers = [\"finance\", \"legal\"]")).await;
    let seen = service.get("bot", &path).await.json();
    for field in ["missing", "missing_text", "requirement"] {
        assert!(seen.get(field).is_none(), "{field}");
    }
    assert_eq!(seen["votes"], json!({ "have": 0, "need": 2 }));
}

#[tokio::test]
async fn one_person_in_two_groups_fills_one_place() {
    let (service, path) = held_under(&policy("send", "reviewers = [\"finance\", \"legal\"]")).await;
    let answer = approve(&service, "ana", &path).await.json();
    assert_eq!(answer["state"], "pending");
    assert_eq!(answer["missing_text"], "one more from legal");
    assert_eq!(service.get("bot", &path).await.json()["votes"], json!({ "have": 1, "need": 2 }));
    let listed = service.get("ben", "/approvals").await.json();
    assert_eq!(listed["items"][0]["missing"], json!([{ "group": "legal", "count": 1 }]));
    assert_eq!(approve(&service, "ben", &path).await.json()["state"], "approved");
    let votes = service.logged(EventKind::ApprovalVote).await;
    assert_eq!(votes[0].entry.detail["groups"], json!(["finance", "legal"]));
}

#[tokio::test]
async fn the_owner_of_an_agent_denies_and_does_not_approve() {
    let policy = owned_by("\"Cleo@ACME.example\"", "reviewers = [\"legal\"]");
    let (service, path) = held_under(&policy).await;
    assert_eq!(service.get("cleo", &path).await.status, 200);
    assert_eq!(approve(&service, "cleo", &path).await.problem(403), "not_eligible");
    let recorded = service.logged(EventKind::RequestRefused).await;
    assert_eq!(recorded[0].entry.reason_code.as_deref(), Some("not_eligible"));
    assert_eq!(recorded[0].entry.actor.name, "cleo");
    let answer = decide(&service, "cleo", &path, &decision("deny")).await;
    assert_eq!((answer.status, &answer.json()["state"]), (200, &json!("denied")));
}

#[tokio::test]
async fn an_owner_approves_where_the_policy_allows_it() {
    let policy = owned_by("[\"ben\", \"ana\"]", "reviewers = [\"legal\"], allow_self_approval = true");
    let (service, path) = held_under(&policy).await;
    assert_eq!(approve(&service, "ben", &path).await.json()["state"], "approved");
    assert_eq!(claim(&service, &path).await.status, 200);
}

#[tokio::test]
async fn an_escalated_group_does_not_exist_for_the_approval_before_its_moment() {
    let policy = policy("send", "reviewers = [\"finance\"], escalate = [\"managers\"], escalate_after = \"1h\"");
    let (service, path) = held_under(&policy).await;
    let from = service.in_the_future(Duration::from_secs(3_600));
    let seen = service.get("ana", &path).await.json();
    assert_eq!(seen["requirement"]["escalation"], json!([{ "group": "managers", "from": from }]));
    assert_eq!(service.get("cleo", &path).await.problem(404), "not_found");
    assert_eq!(approve(&service, "cleo", &path).await.problem(404), "not_found");
    assert_eq!(service.get("cleo", "/approvals").await.json()["items"], json!([]));
    service.clock.advance(Duration::from_secs(3_600));
    assert_eq!(service.get("cleo", "/approvals").await.json()["items"][0]["state"], "pending");
    let seen = service.get("cleo", &path).await.json();
    assert_eq!(seen["missing_text"], "one more from finance (managers may fill in)");
    assert_eq!(approve(&service, "cleo", &path).await.json()["state"], "approved");
    assert_eq!(claim(&service, &path).await.status, 200);
}

#[tokio::test]
async fn what_destroys_takes_a_second_click() {
    let (service, path) = held_under(&policy("destructive", "")).await;
    assert_eq!(service.get("ana", &path).await.json()["requirement"]["double_confirm"], true);
    let first = approve(&service, "ana", &path).await;
    assert_eq!(first.status, 202, "{first:?}");
    let first = first.json();
    assert_eq!(first["valid_from"], service.in_the_future(Duration::from_secs(2)));
    assert_eq!(first["expires_at"], service.in_the_future(Duration::from_secs(300)));
    assert_eq!(service.get("bot", &path).await.json()["votes"], json!({ "have": 0, "need": 1 }));

    let second = with(decision("approve"), json!({ "confirmation": first["confirmation"] }));
    let early = decide(&service, "ana", &path, &second).await;
    assert_eq!(early.problem(409), "confirmation_early");
    assert_eq!(early.json()["valid_from"], first["valid_from"]);
    service.clock.advance(Duration::from_secs(2));
    assert_eq!(decide(&service, "ben", &path, &second).await.problem(409), "confirmation_unknown");
    let recorded = service.logged(EventKind::RequestRefused).await;
    assert_eq!(recorded[0].entry.reason_code.as_deref(), Some("confirmation_unknown"));
    let answer = decide(&service, "ana", &path, &second).await;
    assert_eq!((answer.status, &answer.json()["state"]), (200, &json!("approved")));
    assert_eq!(claim(&service, &path).await.status, 200);
    // The text stands in no table and in no entry.
    let text = first["confirmation"].as_str().unwrap();
    let entries = service.store.entries_after(0, 1_000).await.unwrap();
    assert!(!format!("{entries:?}").contains(text));
}

#[tokio::test]
async fn a_confirmation_is_spent_by_the_vote_and_does_not_outlive_five_minutes() {
    let (service, path) = held_under(&policy("destructive", "quorum = 2")).await;
    let click = async |holder: &str, confirmation: &Value| {
        let body = with(decision("approve"), json!({ "confirmation": confirmation }));
        decide(&service, holder, &path, &body).await
    };
    let anas = approve(&service, "ana", &path).await.json()["confirmation"].clone();
    let bens = approve(&service, "ben", &path).await.json()["confirmation"].clone();
    service.clock.advance(Duration::from_secs(2));
    assert_eq!(click("ana", &anas).await.json()["missing_text"], "one more from anyone");
    // The own vote stands; the same click again is no second one.
    assert_eq!(click("ana", &anas).await.json()["missing_text"], "one more from anyone");
    service.clock.advance(Duration::from_secs(298));
    assert_eq!(click("ben", &bens).await.problem(409), "confirmation_expired");
    let other = json!({ "decision": "approve", "args_hash": DELETION_HASH, "confirmation": 7 });
    assert_eq!(decide(&service, "ben", &path, &other).await.problem(400), "invalid_field");
}

#[tokio::test]
async fn within_the_grace_the_claim_waits_and_any_reviewer_takes_the_approve_back() {
    let (service, path) = held_under(&policy("send", "grace = \"90s\"")).await;
    let approved = approve(&service, "ana", &path).await.json();
    assert_eq!(approved["requirement"]["grace_seconds"], 90);
    let early = claim(&service, &path).await;
    assert_eq!(early.problem(425), "within_grace");
    assert_eq!(early.header("retry-after"), "90");
    let revoked = service.post("cleo", &format!("{path}/revoke"), &json!({})).await.json();
    assert_eq!(revoked["denial"]["reviewer"], "cleo");
    service.clock.advance(Duration::from_secs(90));
    assert_eq!(claim(&service, &path).await.problem(409), "approval_denied");
}

#[tokio::test]
async fn a_requirement_raised_by_a_new_policy_refuses_the_claim() {
    let (service, path) = held_under(&policy("send", "")).await;
    approve(&service, "ana", &path).await;
    service.accept(&policy("send", "quorum = 2")).await;
    assert_eq!(claim(&service, &path).await.problem(409), "policy_changed");
    service.accept(&policy("send", "")).await;
    assert_eq!(claim(&service, &path).await.status, 200);
}

#[tokio::test]
async fn a_voter_who_is_no_longer_configured_carries_no_claim() {
    let policy = policy("send", "");
    let (service, path) = held_under(&policy).await;
    approve(&service, "ana", &path).await;
    let service = service.restarted(&policy, vec![reviewer("ben", &["legal"])]).await;
    assert_eq!(claim(&service, &path).await.problem(409), "policy_changed");
    let service = service.restarted(&policy, people()).await;
    assert_eq!(claim(&service, &path).await.status, 200);
}

#[tokio::test]
async fn a_stale_hash_is_told_the_current_one_and_a_decided_approval_who_and_when() {
    let (service, path) = held_under(&policy("send", "quorum = 2")).await;
    let stale = json!({ "decision": "approve", "args_hash": format!("sha256:{}", "0".repeat(64)) });
    let answer = decide(&service, "ana", &path, &stale).await;
    assert_eq!(
        (answer.problem(409), answer.json()["current"].as_str()),
        ("stale_args".to_owned(), Some(DELETION_HASH))
    );
    approve(&service, "ana", &path).await;
    approve(&service, "ben", &path).await;
    let late = approve(&service, "cleo", &path).await;
    assert_eq!((late.problem(409), late.json()["by"].as_str()), ("decided".to_owned(), Some("ben")));
    assert_eq!(late.json()["at"], service.in_the_future(Duration::ZERO));
}
