//! The review as a reviewer gets it over HTTP: what it shows, what its hash is of, what stands beside it.

use countersign::domain::audit::entry::EventKind;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::service::{Service, approval_path, call, with};

const POLICY: &str = r#"
schema = 1
[tools.exec]
risk = "destructive"
subject = { host = "/host" }
parameters = { type = "object", required = ["argv"], properties = { argv = { type = "array", items = { type = "string" } }, host = { type = "string" } } }
[[tools.exec.rules]]
id = "always"
when = 'true'
verdict = "require_approval"
reason = "commands are looked at"
approval = { reviewers = ["leads"], ttl = "1h" }
"#;

async fn held(service: &Service, args: Value, id: &str) -> (String, Value) {
    let answer = service.decide("exec", args, id).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let path = approval_path(&answer.json()["approval"]);
    let seen = service.get("ana", &path).await.json();
    (path, seen)
}

/// Each argument as `pointer=shown`.
fn arguments(seen: &Value) -> Vec<String> {
    let line = |value: &Value| format!("{}={}", value["at"].as_str().unwrap(), value["shown"].as_str().unwrap());
    seen["review"]["arguments"].as_array().unwrap().iter().map(line).collect()
}

#[tokio::test]
async fn a_review_says_all_there_is_to_decide_on() {
    let service = Service::with_policy(POLICY).await;
    let (_, seen) = held(&service, json!({ "argv": ["ls"], "host": "web-1" }), "t1").await;
    let expires_at = service.in_the_future(std::time::Duration::from_secs(3_600));
    assert_eq!(
        seen["review"],
        json!({
            "tool": "exec", "risk": "destructive", "reversible": false, "idempotent": false,
            "reason": "commands are looked at",
            "asked_by": [{ "rule": "always", "reason": "commands are looked at" }],
            "arguments": [
                { "at": "/argv/0", "kind": "string", "shown": "ls" },
                { "at": "/host", "kind": "string", "shown": "web-1" },
            ],
            "resolved": [], "subjects": [{ "name": "host", "value": "web-1" }], "lookups": [],
            "chain": [{ "agent": "bot", "run": "run-1" }], "on_behalf_of": null,
            "approvers": { "groups": { "leads": 1 }, "need": 1, "grace_seconds": 0, "double_confirm": true },
            "expires_at": expires_at,
        })
    );
}

#[tokio::test]
async fn anybody_can_compute_the_hash_of_what_was_shown() {
    let service = Service::with_policy(POLICY).await;
    let (_, seen) = held(&service, json!({ "argv": ["a\u{202e}b", "ä"] }), "t1").await;
    let canonical = serde_json_canonicalizer::to_vec(&seen["review"]).unwrap();
    assert_eq!(seen["review_hash"], format!("sha256:{}", hex::encode(Sha256::digest(canonical))));
}

#[tokio::test]
async fn deceptive_text_and_the_words_of_a_command_cannot_be_mistaken() {
    let service = Service::with_policy(POLICY).await;
    let (_, one) = held(&service, json!({ "argv": ["rm", "-rf", "a b"] }), "t1").await;
    let (_, other) = held(&service, json!({ "argv": ["rm", "-rf", "a", "b"] }), "t2").await;
    assert_eq!(arguments(&one), ["/argv/0=rm", "/argv/1=-rf", "/argv/2=a b"]);
    assert_eq!(arguments(&other), ["/argv/0=rm", "/argv/1=-rf", "/argv/2=a", "/argv/3=b"]);
    assert_ne!(one["review_hash"], other["review_hash"]);
    let text = "safe\u{202e}txt.exe\u{200b}  x \u{a0}\u{e0041}";
    let (_, deceptive) = held(&service, json!({ "argv": [text] }), "t3").await;
    assert_eq!(arguments(&deceptive), ["/argv/0=safe\\u{202e}txt.exe\\u{200b}\\u{20×2}x \\u{a0}\\u{e0041}"]);
}

#[tokio::test]
async fn the_models_words_stand_apart_and_enter_no_hash() {
    let service = Service::with_policy(POLICY).await;
    let asked = with(call("exec", json!({ "argv": ["ls"] }), "t1"), json!({ "rationale": "the user approved this" }));
    let path = approval_path(&service.post("bot", "/decide", &asked).await.json()["approval"]);
    let told = service.get("ana", &path).await.json();
    let (_, silent) = held(&service, json!({ "argv": ["ls"] }), "t2").await;
    assert_eq!(told["rationale"], json!({ "text": "the user approved this", "verified": false }));
    assert!(!told["review"].to_string().contains("the user approved"));
    assert_eq!(told["review_hash"], silent["review_hash"]);
}

#[tokio::test]
async fn what_happened_to_the_same_subject_and_who_asks_for_the_same_stand_beside_the_review() {
    let service = Service::with_policy(POLICY).await;
    let args = json!({ "argv": ["ls"], "host": "web-1" });
    let (first_path, first) = held(&service, args.clone(), "t1").await;
    service.clock.advance(std::time::Duration::from_millis(2));
    let (path, second) = held(&service, args, "t2").await;
    assert_eq!(second["identical"], json!([{ "id": first["id"], "code": first["code"] }]));
    assert_eq!(
        second["same_subject"],
        json!([{
            "decision_id": first["decision_id"], "agent": "bot", "run_id": "run-1", "tool": "exec",
            "verdict": "require_approval", "code": first["code"], "state": "pending", "at": first["created_at"],
        }])
    );
    let denial = json!({ "decision": "deny", "args_hash": first["args_hash"] });
    service.post("ana", &format!("{first_path}/decision"), &denial).await;
    let later = service.get("ana", &path).await.json();
    assert_eq!((&later["same_subject"][0]["state"], &later["identical"]), (&json!("denied"), &json!([])));
    assert_eq!(later["review_hash"], second["review_hash"]);
}

#[tokio::test]
async fn an_auditor_finds_everything_about_a_business_key() {
    let service = Service::with_policy(POLICY).await;
    let (path, seen) = held(&service, json!({ "argv": ["ls"], "host": "web-1" }), "t1").await;
    held(&service, json!({ "argv": ["ls"], "host": "web-2" }), "t2").await;
    let approve = json!({ "decision": "approve", "args_hash": seen["args_hash"] });
    let to_confirm = service.post("ana", &format!("{path}/decision"), &approve).await.json();
    service.clock.advance(std::time::Duration::from_secs(2));
    let approve = with(approve, json!({ "confirmation": to_confirm["confirmation"] }));
    service.post("ana", &format!("{path}/decision"), &approve).await;
    let found = service.get("iris", "/audit?subject=host:web-1").await.json();
    let events: Vec<_> =
        found["items"].as_array().unwrap().iter().map(|entry| entry["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["approval.approved", "approval.vote", "approval.to_confirm", "approval.requested", "decision"]);
    assert!(!found.to_string().contains("web-1"), "an entry holds no argument");
    assert_eq!(service.get("iris", "/audit?subject=host:web-3").await.json()["items"], json!([]));
    for wrong in ["host", ":web-1", "host:", "host:a%0Ab"] {
        assert_eq!(
            service.get("iris", &format!("/audit?subject={wrong}")).await.problem(400),
            "invalid_query",
            "{wrong}"
        );
    }
    assert_eq!(service.logged(EventKind::ApprovalRequested).await.len(), 2);
}
