//! From the question to the outcome: arguments that change on the way, time that runs out, policy that moves, answers
//! that are lost, and whoever asks twice.

use std::time::Duration;

use axum::http::Method;
use countersign::domain::{audit::entry::EventKind, policy::Policy};
use serde_json::{Value, json};

use super::{Desk, SourceFile, with};
use crate::support::service::{Answer, approval_path};

const POLICY: &str = r#"
[tools.pay]
risk = "send"
approval = { ttl = "1h" }
parameters = { type = "object", required = ["amount"], properties = { amount = { type = "number" }, to = { type = ["string", "null"], maxLength = 100 }, cc = { type = "string" } } }
[[tools.pay.rules]]
id = "small"
when = 'args.amount > 0 && args.amount < 100'
verdict = "allow"
reason = "small"
[[tools.pay.rules]]
id = "to-nobody"
when = 'has(args.to) && args.to == "nobody"'
verdict = "require_approval"
reason = "who is that?"

[tools.note]
risk = "draft"
parameters = { type = "object", properties = { text = { type = "string" } } }
"#;

fn pay(amount: i64) -> Value {
    json!({ "amount": amount })
}

impl Desk {
    /// A held call and the answer that held it.
    async fn hold(&self, args: Value) -> (Value, Value) {
        let call = self.call("pay", args);
        let answer = self.send(&call).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        (call, answer.json())
    }

    async fn decide(&self, held: &Value, word: &str) -> Answer {
        let path = format!("{}/decision", approval_path(&held["approval"]));
        self.service.post("ana", &path, &json!({ "decision": word, "args_hash": held["args_hash"] })).await
    }

    async fn approved(&self, args: Value) -> (Value, Value) {
        let (call, held) = self.hold(args).await;
        assert_eq!(self.decide(&held, "approve").await.status, 200);
        (call, held)
    }

    async fn claim(&self, held: &Value, body: Value) -> Answer {
        self.service.post("bot", &format!("{}/claim", approval_path(&held["approval"])), &body).await
    }

    async fn state(&self, held: &Value) -> Value {
        self.service.get("bot", &approval_path(&held["approval"])).await.json()["state"].clone()
    }

    async fn accept(&self, policy: &str) {
        let text = format!("schema = 1\n{policy}");
        let files = [SourceFile { path: "policy.toml".to_owned(), text }];
        let loaded = Policy::load(&files).unwrap_or_else(|faults| panic!("{faults:#?}"));
        self.service.app.accept_policy(loaded.policy, &files).await.unwrap();
    }
}

#[tokio::test]
async fn the_order_of_names_and_their_escapes_change_nothing_about_what_was_approved() {
    let desk = Desk::under(POLICY).await;
    let (_, held) = desk.approved(json!({ "amount": 500, "to": "\u{e9}\u{1f600}" })).await;
    let path = format!("{}/claim", approval_path(&held["approval"]));
    let body = r#"{"args":{"to":"\u00e9\ud83d\ude00","amount":5e2}}"#;
    let answer =
        desk.service.request(Method::POST, &path).key("bot").text(body).header("content-type", "application/json");
    assert_eq!(answer.send().await.status, 200);
}

#[tokio::test]
async fn arguments_of_another_type_or_with_more_in_them_are_other_arguments() {
    let desk = Desk::under(POLICY).await;
    for other in [
        json!({ "amount": "500" }),
        json!({ "amount": 500, "to": null }),
        json!({ "amount": 500, "cc": "all@corp.example" }),
        json!({ "amount": 5_000 }),
        json!({}),
    ] {
        let (_, held) = desk.approved(pay(500)).await;
        let refused = desk.claim(&held, json!({ "args": other })).await;
        assert_eq!(refused.problem(409), "args_mismatch", "{other}");
        assert_eq!(desk.state(&held).await, "denied", "{other}");
        assert_eq!(desk.claim(&held, json!({ "args": pay(500) })).await.status, 409, "it died of it");
    }
    assert_eq!(desk.service.logged(EventKind::ClaimRefused).await.len(), 5);
}

#[tokio::test]
async fn a_call_that_changes_when_it_is_asked_again_is_another_call() {
    let desk = Desk::under(POLICY).await;
    let (call, held) = desk.approved(pay(500)).await;
    let changed = with(call.clone(), json!({ "args": pay(501) }));
    assert_eq!(desk.send(&changed).await.problem(409), "tool_use_id_reused");
    assert_eq!(desk.send(&with(changed, json!({ "tool_use_id": "c2" }))).await.status, 202);
    assert_eq!(desk.state(&held).await, "approved");
    // A second call just like the approved one is no second use of it.
    assert_eq!(desk.send(&with(call, json!({ "tool_use_id": "c3", "claim": true }))).await.status, 202);
}

#[tokio::test]
async fn a_name_that_stands_twice_at_any_depth_is_no_request_at_all() {
    let desk = Desk::under(POLICY).await;
    for body in [
        r#"{"tool":"pay","tool":"note","args":{"amount":5},"run_id":"r","tool_use_id":"c"}"#,
        r#"{"tool":"pay","args":{"amount":5,"amount":5000},"run_id":"r","tool_use_id":"c"}"#,
        r#"{"tool":"pay","args":{"amount":5},"context":{"a":{"b":1,"\u0062":2}},"run_id":"r","tool_use_id":"c"}"#,
    ] {
        let request = desk.service.request(Method::POST, "/decide").key("bot").text(body);
        let answer = request.header("content-type", "application/json").send().await;
        assert_eq!(answer.problem(400), "invalid_json", "{body}");
    }
    assert!(desk.service.logged(EventKind::Decision).await.is_empty());
}

#[tokio::test]
async fn an_amount_that_is_none_or_below_nothing_is_never_a_small_one() {
    let desk = Desk::under(POLICY).await;
    desk.allowed("pay", pay(99)).await;
    for amount in [json!(-500), json!(0), json!(100), json!(1e21)] {
        desk.held("pay", json!({ "amount": amount })).await;
    }
    for amount in [json!("NaN"), json!("-Inf"), json!(null), json!(" "), json!(true), json!([50])] {
        desk.expect("pay", json!({ "amount": amount }), 422, "invalid_arguments").await;
    }
    // What a rule that asks cannot read counts as true.
    desk.held("pay", json!({ "amount": 50, "to": null })).await;
}

#[tokio::test]
async fn what_asks_for_a_person_outranks_what_allows() {
    let desk = Desk::under(POLICY).await;
    let entry = desk.held("pay", json!({ "amount": 50, "to": "nobody" })).await;
    assert_eq!(entry.rule.as_deref(), Some("to-nobody"));
}

#[tokio::test]
async fn a_policy_that_is_exchanged_under_load_decides_each_call_whole() {
    let desk = Desk::under(POLICY).await;
    let denying = POLICY.replace("verdict = \"allow\"\n", "verdict = \"deny\"\n");
    for round in 0..6 {
        desk.accept(if round % 2 == 0 { &denying } else { POLICY }).await;
        for _ in 0..5 {
            let (answer, entry) = desk.ask("pay", pay(50)).await;
            assert_eq!(answer.status, if round % 2 == 0 { 403 } else { 200 });
            assert_eq!(entry.policy_version.as_deref(), Some(desk.service.app.policy().version().as_str()));
        }
    }
}

#[tokio::test]
async fn nobody_at_the_keyboard_is_no_approval() {
    let desk = Desk::under(POLICY).await;
    let (call, held) = desk.hold(pay(500)).await;
    desk.service.clock.advance(Duration::from_secs(3_600));
    let seen = desk.service.get("bot", &approval_path(&held["approval"])).await.json();
    assert_eq!((&seen["state"], &seen["tool_result"]["content"]), (&json!("expired"), &json!("approval expired")));
    assert_eq!(desk.claim(&held, json!({ "args": pay(500) })).await.problem(409), "approval_expired");
    let again = desk.send(&call).await;
    assert_eq!((again.status, &again.json()["approval"]["attempt"]), (202, &json!(2)));
}

#[tokio::test]
async fn an_approval_a_second_before_its_end_is_not_claimed_a_second_after_it() {
    let desk = Desk::under(POLICY).await;
    let (_, held) = desk.hold(pay(500)).await;
    desk.service.clock.advance(Duration::from_secs(3_599));
    assert_eq!(desk.decide(&held, "approve").await.status, 200);
    desk.service.clock.advance(Duration::from_secs(2));
    assert_eq!(desk.claim(&held, json!({ "args": pay(500) })).await.problem(409), "approval_expired");
}

#[tokio::test]
async fn an_approval_does_not_outlive_the_policy_it_was_given_under() {
    let desk = Desk::under(POLICY).await;
    let (call, held) = desk.approved(pay(500)).await;
    desk.accept(&POLICY.replace("risk = \"send\"\n", "risk = \"send\"\ndefault = \"deny\"\n")).await;
    assert_eq!(desk.claim(&held, json!({ "args": pay(500) })).await.problem(409), "policy_changed");
    assert_eq!(desk.state(&held).await, "approved", "a corrected policy can let it pass");
    let stricter = POLICY.to_owned()
        + "[[tools.pay.rules]]\nid = \"new\"\nwhen = 'args.amount > 400'\nverdict = \"require_approval\"\nreason = \"r\"\n";
    desk.accept(&stricter.replace("[tools.note]", "[tools.notes]")).await;
    assert_eq!(desk.claim(&held, json!({ "args": pay(500) })).await.problem(409), "policy_changed");
    // Asked again, it is a new question, under the rule that was not there.
    let asked = desk.send(&call).await.json();
    assert_ne!(asked["approval"]["id"], held["approval"]["id"]);
    assert_eq!(asked["approval"]["attempt"], 2);
    assert_eq!(desk.state(&held).await, "cancelled");
}

#[tokio::test]
async fn a_rule_that_is_gone_while_a_call_waits_is_no_fault_of_the_claim() {
    let desk = Desk::under(POLICY).await;
    let (_, held) = desk.hold(json!({ "amount": 50, "to": "nobody" })).await;
    desk.accept(&POLICY.replace("args.to == \"nobody\"", "args.to == \"somebody else\"")).await;
    assert_eq!(desk.decide(&held, "approve").await.status, 200);
    assert_eq!(desk.claim(&held, json!({ "args": { "amount": 50, "to": "nobody" } })).await.status, 200);
}

#[tokio::test]
async fn a_decision_on_one_call_is_none_on_another() {
    let desk = Desk::under(POLICY).await;
    let (_, first) = desk.hold(pay(500)).await;
    let (_, second) = desk.hold(pay(600)).await;
    assert_eq!(desk.decide(&second, "approve").await.status, 200);
    assert_eq!(desk.state(&first).await, "pending");
    let path = format!("{}/decision", approval_path(&first["approval"]));
    let stale = json!({ "decision": "approve", "args_hash": second["args_hash"] });
    let refused = desk.service.post("ana", &path, &stale).await;
    assert_eq!(refused.problem(409), "stale_args");
    assert_eq!(refused.json()["current"], first["args_hash"]);
    let late = desk.decide(&second, "deny").await;
    assert_eq!((late.problem(409).as_str(), &late.json()["by"]), ("decided", &json!("ana")));
}

#[tokio::test]
async fn a_denied_call_sent_twenty_times_bothers_nobody_twice() {
    let desk = Desk::under(POLICY).await;
    let (call, held) = desk.hold(pay(500)).await;
    assert_eq!(desk.decide(&held, "deny").await.status, 200);
    for number in 0..20 {
        let answer = desk.send(&with(call.clone(), json!({ "tool_use_id": format!("again-{number}") }))).await;
        assert_eq!((answer.status, &answer.json()["error"]), (403, &json!("declined by reviewer")));
    }
    assert_eq!(desk.service.logged(EventKind::ApprovalRequested).await.len(), 1);
    let lift = format!("{}/lift", approval_path(&held["approval"]));
    assert_eq!(desk.service.post("ana", &lift, &json!({})).await.status, 200);
    assert_eq!(desk.send(&with(call, json!({ "tool_use_id": "after" }))).await.status, 202);
}

#[tokio::test]
async fn an_agent_that_withdraws_its_call_has_not_denied_it() {
    let desk = Desk::under(POLICY).await;
    let (_, held) = desk.hold(pay(500)).await;
    let cancel = format!("{}/cancel", approval_path(&held["approval"]));
    assert_eq!(desk.service.post("bot", &cancel, &json!({})).await.status, 200);
    assert_eq!(desk.state(&held).await, "cancelled");
    assert_eq!(desk.decide(&held, "approve").await.problem(409), "approval_cancelled");
    let decided = desk.service.post("bot", &format!("{}/decision", approval_path(&held["approval"])), &json!({})).await;
    assert_eq!(decided.status, 403, "and it decides nothing");
}

#[tokio::test]
async fn a_claim_without_an_outcome_is_unknown_and_nobodys_to_take() {
    let desk = Desk::under(POLICY).await;
    let (call, held) = desk.approved(pay(500)).await;
    assert_eq!(desk.claim(&held, json!({ "args": pay(500), "claim_id": "one" })).await.status, 200);
    desk.service.clock.advance(Duration::from_secs(300));
    assert_eq!(desk.claim(&held, json!({ "args": pay(500), "claim_id": "two" })).await.problem(409), "already_claimed");
    let asked = desk.send(&with(call, json!({ "claim": true }))).await;
    assert_eq!((asked.problem(409).as_str(), &asked.json()["outcome"]), ("already_executed", &json!("unknown")));
    let open = desk.service.get("ana", "/approvals?unsettled=true").await.json();
    assert_eq!(open["items"][0]["id"], held["approval"]["id"]);
}

#[tokio::test]
async fn a_key_for_a_request_is_bound_to_its_words_and_its_sender() {
    let desk = Desk::under(POLICY).await;
    let send = async |holder: &str, call: &Value| {
        let request = desk.service.request(Method::POST, "/decide").key(holder).header("idempotency-key", "k1");
        request.json(call).send().await
    };
    let call = desk.call("pay", pay(10));
    let first = send("bot", &call).await;
    assert_eq!(first.status, 200);
    assert_eq!(send("bot", &call).await.json()["decision_id"], first.json()["decision_id"]);
    let other = with(call.clone(), json!({ "args": pay(99_999) }));
    assert_eq!(send("bot", &other).await.problem(409), "idempotency_conflict");
    let of_another = send("other-bot", &call).await;
    assert_ne!(of_another.json()["decision_id"], first.json()["decision_id"]);
}

#[tokio::test]
async fn a_bypass_that_the_request_claims_is_read_by_nobody() {
    let desk = Desk::under(POLICY).await;
    let context = json!({ "permission_mode": "bypassPermissions", "trusted": true, "allow": true });
    let call = with(desk.call("pay", pay(500)), json!({ "context": context }));
    assert_eq!(desk.send(&call).await.status, 202);
}
