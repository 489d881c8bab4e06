//! Limits as calls use them up: at the edge, at once, asked again, claimed and given back.

use std::{sync::Arc, time::Duration};

use countersign::{
    app::{
        decide_call::{DecideAnswer, DecideRequest, IdempotencyKey, RefusedCall},
        error::Error,
        report_outcome::OutcomeReport,
    },
    domain::{
        approval::outcome::ReportedStatus, audit::entry::EventKind, decision::ReasonCode, identity::AgentId, ids::RunId,
    },
};
use serde_json::{Value, json};

use super::races::at_once;
use crate::support::world::{Setup, World, allowed, claimed, held, on_each_engine_with, refused};

const POLICY: &str = r#"
schema = 1
[tools.pay]
risk = "send"
default = "allow_audited"
parameters = { type = "object", required = ["order", "amount"], properties = { order = { type = "string" }, amount = { type = "number", minimum = 0 } } }
[[tools.pay.rules]]
id = "large"
when = 'args.amount > 500'
verdict = "require_approval"
reason = "large"
[[tools.pay.limits]]
id = "ten-calls"
per = "agent"
window = "24h"
max_calls = 10
on_exceed = "deny"
[[tools.pay.limits]]
id = "hundred-an-order"
per = "tool"
window = "1h"
max_sum = { argument = "amount", value = 100, by = "order" }
on_exceed = "require_approval"

[tools.ping]
risk = "read"
parameters = { type = "object", properties = { n = { type = "integer" } } }
[[tools.ping.limits]]
id = "pings"
per = "tool"
window = "1h"
max_calls = 7
on_exceed = "deny"

[tools.note]
risk = "draft"
parameters = { type = "object", properties = {} }
[[tools.note.limits]]
id = "notes"
per = "run"
window = "1h"
max_calls = 1
on_exceed = "deny"

[tools.wire]
risk = "send"
default = "allow_audited"
parameters = { type = "object", required = ["sum", "currency"], properties = { sum = { type = "string" }, currency = { type = "string" } } }
[tools.wire.arguments.sum]
kind = "money"
currency = "/currency"
[[tools.wire.limits]]
id = "wires"
per = "agent"
window = "1h"
max_sum = { argument = "sum", value = 1.5 }
on_exceed = "deny"
"#;

fn setup() -> Setup {
    Setup::with_policy(POLICY)
}

fn pay(order: &str, amount: impl Into<Value>) -> Value {
    json!({ "order": order, "amount": amount.into() })
}

/// The reason of a bland refusal.
#[track_caller]
fn refusal(answer: DecideAnswer) -> ReasonCode {
    let refused = refused(answer);
    if let RefusedCall::Bland { reason } = refused { reason } else { panic!("{refused:?}") }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_twenty_calls_at_once_exactly_as_many_pass_as_the_limit_admits() {
    on_each_engine_with(setup(), |world| async move {
        let another = world.another_instance(setup()).await;
        let worlds = [Arc::new(world), Arc::new(another)];
        let passed = at_once(20, &worlds, |racer, world| async move {
            // Two agents, so that no lock but the limit's is in common.
            let mut request = world.call("ping", json!({ "n": racer }));
            let caller = if racer % 4 < 2 { world.bot.clone() } else { world.other_bot.clone() };
            request.call.key.agent = AgentId::parse(caller.principal.name().as_str()).unwrap();
            matches!(world.app.decide_call(&caller, &request).await.unwrap(), DecideAnswer::Allowed(_))
        })
        .await;
        assert_eq!(passed.iter().filter(|passed| **passed).count(), 7);
        worlds[0].assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sums_are_exact_under_twenty_calls_at_once() {
    on_each_engine_with(setup(), |world| async move {
        let another = world.another_instance(setup()).await;
        let worlds = [Arc::new(world), Arc::new(another)];
        // Fifteen cents each: ten make the one and a half that are admitted, in no float.
        let passed = at_once(20, &worlds, |_, world| async move {
            let args = json!({ "sum": "0.15", "currency": "EUR" });
            matches!(world.decide("wire", args).await, DecideAnswer::Allowed(_))
        })
        .await;
        assert_eq!(passed.iter().filter(|passed| **passed).count(), 10);
        // Another currency has a sum of its own.
        allowed(worlds[0].decide("wire", json!({ "sum": "1.50", "currency": "USD" })).await);
        assert_eq!(
            refusal(worlds[0].decide("wire", json!({ "sum": "0.01", "currency": "USD" })).await),
            ReasonCode::Limit
        );
    })
    .await;
}

#[tokio::test]
async fn a_call_over_a_limit_that_asks_is_held_and_the_review_names_the_limit() {
    on_each_engine_with(setup(), |world| async move {
        allowed(world.decide("pay", pay("O-1", 99.9)).await);
        allowed(world.decide("pay", pay("O-1", 0.1)).await);
        let over = held(world.decide("pay", pay("O-1", 0.01)).await).approval;
        assert_eq!(over.asked_by, ["hundred-an-order".to_owned()].into());
        assert!(over.reason.contains("hundred-an-order"));
        allowed(world.decide("pay", pay("O-2", 100)).await);
        let decisions = world.entries_of(EventKind::Decision).await;
        assert_eq!(decisions[2].entry.reason_code.as_deref(), Some("limit"));
        assert_eq!(decisions[2].entry.rule.as_deref(), Some("hundred-an-order"));
    })
    .await;
}

#[tokio::test]
async fn the_window_slides() {
    on_each_engine_with(setup(), |world| async move {
        allowed(world.decide("pay", pay("O-1", 60)).await);
        world.clock.advance(Duration::from_secs(1_800));
        allowed(world.decide("pay", pay("O-1", 40)).await);
        world.clock.advance(Duration::from_secs(1_799));
        held(world.decide("pay", pay("O-1", 60)).await);
        world.clock.advance(Duration::from_secs(1));
        allowed(world.decide("pay", pay("O-1", 60)).await);
        held(world.decide("pay", pay("O-1", 1)).await);
    })
    .await;
}

#[tokio::test]
async fn the_same_call_asked_again_counts_once() {
    on_each_engine_with(setup(), |world| async move {
        let request = world.call("note", json!({}));
        for _ in 0..3 {
            allowed(world.ask(&request).await.unwrap());
        }
        assert_eq!(refusal(world.decide("note", json!({})).await), ReasonCode::Limit);
        let other_arguments = DecideRequest { call: world.call("ping", json!({})).call, ..request.clone() };
        allowed(world.ask(&other_arguments).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_request_sent_again_under_its_key_counts_once() {
    on_each_engine_with(setup(), |world| async move {
        let key = IdempotencyKey { route: "/decide", key: "k".to_owned(), body_hash: [1; 32] };
        let request = DecideRequest { idempotency: Some(key), ..world.call("note", json!({})) };
        let first = allowed(world.ask(&request).await.unwrap());
        let again = allowed(world.ask(&request).await.unwrap());
        assert_eq!(first.decision, again.decision);
        assert_eq!(refusal(world.decide("note", json!({})).await), ReasonCode::Limit);
    })
    .await;
}

#[tokio::test]
async fn a_limit_per_run_counts_each_run_for_itself() {
    on_each_engine_with(setup(), |world| async move {
        allowed(world.decide("note", json!({})).await);
        let mut elsewhere = world.call("note", json!({}));
        elsewhere.call.key.run = RunId::parse("run-2").unwrap();
        allowed(world.ask(&elsewhere).await.unwrap());
        assert_eq!(refusal(world.decide("note", json!({})).await), ReasonCode::Limit);
    })
    .await;
}

#[tokio::test]
async fn a_held_call_counts_when_it_is_claimed() {
    on_each_engine_with(setup(), |world| async move {
        let (request, approval) = world.approved("pay", pay("O-9", 600)).await;
        // Over the sum already, which a person approved; and not counted yet.
        for order in 0..9 {
            allowed(world.decide("pay", pay(&order.to_string(), 1)).await);
        }
        world.claim(&approval, &request.call.args, None).await.unwrap();
        assert_eq!(refusal(world.decide("pay", pay("last", 1)).await), ReasonCode::Limit);
    })
    .await;
}

#[tokio::test]
async fn a_claim_over_a_limit_that_denies_is_refused_and_can_pass_later() {
    on_each_engine_with(setup(), |world| async move {
        let (request, approval) = world.approved("pay", pay("O-9", 600)).await;
        for order in 0..9 {
            allowed(world.decide("pay", pay(&order.to_string(), 1)).await);
        }
        let tenth = allowed(world.decide("pay", pay("ten", 1)).await);
        let claim = || world.claim(&approval, &request.call.args, None);
        assert!(matches!(claim().await, Err(Error::PolicyChanged(why)) if why.contains("ten-calls")));
        let within_decide = DecideRequest { claim: true, ..request.clone() };
        assert!(matches!(world.ask(&within_decide).await, Err(Error::PolicyChanged(_))));
        let refused = world.entries_of(EventKind::ClaimRefused).await;
        assert_eq!(refused[0].entry.reason_code.as_deref(), Some("limit"));
        assert_eq!(refused[0].entry.rule.as_deref(), Some("ten-calls"));

        let report = OutcomeReport { claim: None, status: ReportedStatus::NotStarted, detail: None, result: None };
        world.app.report_decision_outcome(&world.bot, tenth.decision, &report).await.unwrap();
        claimed(world.ask(&within_decide).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn only_what_was_not_started_gives_back() {
    on_each_engine_with(setup(), |world| async move {
        let (request, claimed) = world.claimed("pay", pay("O-1", 600)).await;
        world.report(&claimed, ReportedStatus::NotStarted).await.unwrap();
        allowed(world.decide("pay", pay("O-1", 100)).await);
        // Claimed again it counts again, and failed it stays counted.
        let again = world.app.approval_for_reviewer(&world.ana, claimed.approval).await.unwrap().approval;
        let claimed = world.claim(&again, &request.call.args, None).await.unwrap();
        world.report(&claimed, ReportedStatus::Failed).await.unwrap();
        for order in 0..8 {
            allowed(world.decide("pay", pay(&format!("other-{order}"), 1)).await);
        }
        assert_eq!(refusal(world.decide("pay", pay("last", 1)).await), ReasonCode::Limit);
        let failed = OutcomeReport { claim: None, status: ReportedStatus::Failed, detail: None, result: None };
        let first = world.entries_of(EventKind::Decision).await.pop().unwrap().entry;
        assert_eq!(first.reason_code.as_deref(), Some("limit"));
        let allowed_one = world.entries_of(EventKind::Decision).await.remove(2).entry.decision.unwrap();
        world.app.report_decision_outcome(&world.bot, allowed_one, &failed).await.unwrap();
        assert_eq!(refusal(world.decide("pay", pay("last", 1)).await), ReasonCode::Limit);
    })
    .await;
}

#[tokio::test]
async fn a_call_that_is_not_permitted_does_not_count() {
    on_each_engine_with(setup(), |world: World| async move {
        let (_, approval) = world.hold("pay", pay("O-1", 600)).await;
        world.deny(&world.ana, &approval, None).await.unwrap();
        allowed(world.decide("pay", pay("O-1", 100)).await);
        for _ in 0..3 {
            held(world.decide("pay", pay("O-1", 1)).await);
        }
        for order in 0..9 {
            allowed(world.decide("pay", pay(&format!("other-{order}"), 1)).await);
        }
        assert_eq!(refusal(world.decide("pay", pay("last", 1)).await), ReasonCode::Limit);
    })
    .await;
}
