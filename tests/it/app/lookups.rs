//! The service's own look at the world, when a call is held and when it is claimed.

use countersign::{
    app::error::Error,
    domain::{
        approval::state::StateName,
        audit::entry::EventKind,
        lookup::{LookupFailure, LookupObjection},
        verdict::Verdict,
    },
};
use serde_json::{Value, json};

use crate::support::world::{Setup, World, allowed, claimed, held, on_each_engine_with, refused};

const POLICY: &str = r#"
schema = 1
[tools.refund]
risk = "send"
idempotent = true
parameters = { type = "object", required = ["order", "amount"], properties = { order = { type = "string" }, amount = { type = "number" } } }
[[tools.refund.rules]]
id = "small"
when = 'args.amount <= 250'
verdict = "allow_audited"
reason = "small"
[[tools.refund.rules]]
id = "absurd"
when = 'args.amount > 100000'
verdict = "deny"
reason = "absurd"
[tools.refund.lookups.order]
url = "https://orders.acme.example/orders/{order}"
show = { status = "/status", total = "/total" }
unchanged = ["total"]
credential = "env:ORDERS_TOKEN"
"#;

fn setup() -> Setup {
    Setup::with_policy(POLICY)
}

fn refund() -> Value {
    json!({ "order": "A-17", "amount": 300 })
}

fn order(world: &World, status: &str, total: u32) {
    world.outside.answer("order", &[("status", json!(status)), ("total", json!(total))]);
}

fn changed() -> Error {
    Error::Lookup(LookupObjection::Changed { lookup: "order".to_owned(), name: "total".to_owned() })
}

fn failed(failure: LookupFailure) -> Error {
    Error::Lookup(LookupObjection::Failed { lookup: "order".to_owned(), failure })
}

#[tokio::test]
async fn only_a_call_that_is_about_to_be_held_is_looked_into() {
    on_each_engine_with(setup(), async |world: World| {
        order(&world, "paid", 900);
        allowed(world.decide("refund", json!({ "order": "A-17", "amount": 3 })).await);
        refused(world.decide("refund", json!({ "order": "A-17", "amount": 1_000_000 })).await);
        refused(world.decide("refund", json!({ "order": "A-17" })).await);
        assert_eq!(world.outside.asked(), []);
        held(world.decide("refund", refund()).await);
        let asked = world.outside.asked();
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].url, "https://orders.acme.example/orders/A-17");
        assert_eq!(asked[0].credential.as_deref(), Some("env:ORDERS_TOKEN"));
    })
    .await;
}

#[tokio::test]
async fn a_call_asked_again_while_it_waits_is_not_looked_into_again() {
    on_each_engine_with(setup(), async |world: World| {
        order(&world, "paid", 900);
        let (request, _) = world.hold("refund", refund()).await;
        held(world.ask(&request).await.unwrap());
        assert_eq!(world.outside.asked().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn what_was_found_is_shown_stored_and_looked_at_again_for_the_claim() {
    on_each_engine_with(setup(), async |world: World| {
        order(&world, "paid", 900);
        let (request, approval) = world.approved("refund", refund()).await;
        // What need not stay the same may change.
        order(&world, "shipped", 900);
        let seen = world.app.approval_for_reviewer(&world.ana, approval.id).await.unwrap();
        let lookups = seen.review.unwrap().lookups;
        let values: Vec<_> = lookups[0].values.iter().map(|value| (value.at.as_str(), value.shown.as_str())).collect();
        assert_eq!(values, [("/status", "paid"), ("/total", "900")]);
        let payload = world.store.payload(approval.payload).await.unwrap().unwrap();
        let input: Value = serde_json::from_str(payload.body()).unwrap();
        assert_eq!(input["lookups"], json!({ "order": { "answered": { "status": "paid", "total": 900 } } }));
        world.claim(&approval, &request.call.args, None).await.unwrap();
        assert_eq!(world.outside.asked().len(), 2);
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn a_changed_value_refuses_the_claim_and_the_approval_stays() {
    on_each_engine_with(setup(), async |world: World| {
        order(&world, "paid", 900);
        let (request, approval) = world.approved("refund", refund()).await;
        order(&world, "paid", 901);
        assert_eq!(world.claim(&approval, &request.call.args, None).await.unwrap_err(), changed());
        let entry = &world.entries_of(EventKind::ClaimRefused).await[0].entry;
        assert_eq!(entry.reason_code.as_deref(), Some("lookup_changed"));
        assert!(!entry.reason.as_deref().unwrap().contains("901"), "an entry holds no value");
        assert_eq!(world.stored(&approval).await.state.name(), StateName::Approved);
        order(&world, "paid", 900);
        world.claim(&approval, &request.call.args, None).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_lookup_that_fails_is_shown_as_failed_can_be_approved_and_carries_no_claim() {
    on_each_engine_with(setup(), async |world: World| {
        world.outside.fail("order", LookupFailure::TimedOut);
        let (request, approval) = world.approved("refund", refund()).await;
        let seen = world.app.approval_for_reviewer(&world.ana, approval.id).await.unwrap();
        assert_eq!(seen.review.unwrap().lookups[0].failed.as_deref(), Some("timed_out"));
        let args = &request.call.args;
        assert_eq!(world.claim(&approval, args, None).await.unwrap_err(), failed(LookupFailure::TimedOut));
        // Nobody has seen the total that is found now.
        order(&world, "paid", 900);
        assert_eq!(world.claim(&approval, args, None).await.unwrap_err(), changed());
        let reasons: Vec<_> = world
            .entries_of(EventKind::ClaimRefused)
            .await
            .into_iter()
            .map(|sealed| sealed.entry.reason_code)
            .collect();
        assert_eq!(reasons, [Some("lookup_failed".to_owned()), Some("lookup_changed".to_owned())]);
    })
    .await;
}

#[tokio::test]
async fn asking_again_with_a_claim_is_looked_into_like_a_claim() {
    on_each_engine_with(setup(), async |world: World| {
        order(&world, "paid", 900);
        let (mut request, _) = world.approved("refund", refund()).await;
        request.claim = true;
        order(&world, "paid", 1);
        assert_eq!(world.ask(&request).await.unwrap_err(), changed());
        world.outside.fail("order", LookupFailure::Unreachable);
        assert_eq!(world.ask(&request).await.unwrap_err(), failed(LookupFailure::Unreachable));
        order(&world, "paid", 900);
        claimed(world.ask(&request).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_repeated_claim_is_answered_without_another_look() {
    on_each_engine_with(setup(), async |world: World| {
        order(&world, "paid", 900);
        let (request, approval) = world.approved("refund", refund()).await;
        let first = world.claim(&approval, &request.call.args, Some("w-1")).await.unwrap();
        let before = world.outside.asked().len();
        world.outside.fail("order", LookupFailure::TimedOut);
        assert_eq!(world.claim(&approval, &request.call.args, Some("w-1")).await.unwrap(), first);
        assert_eq!(world.outside.asked().len(), before);
    })
    .await;
}

#[tokio::test]
async fn other_arguments_are_never_looked_up() {
    on_each_engine_with(setup(), async |world: World| {
        order(&world, "paid", 900);
        let (_, approval) = world.approved("refund", refund()).await;
        let other = world.call("refund", json!({ "order": "B-1", "amount": 300 }));
        assert_eq!(world.claim(&approval, &other.call.args, None).await.unwrap_err(), Error::ArgsMismatch);
        assert!(world.outside.asked().iter().all(|request| request.url.ends_with("/A-17")));
    })
    .await;
}

#[tokio::test]
async fn a_value_that_could_steer_is_not_asked_about_and_shown_as_failed() {
    on_each_engine_with(setup(), async |world: World| {
        let (_, approval) = world.hold("refund", json!({ "order": "../admin", "amount": 300 })).await;
        assert_eq!(world.outside.asked(), []);
        let seen = world.app.approval_for_reviewer(&world.ana, approval.id).await.unwrap();
        assert_eq!(seen.review.unwrap().lookups[0].failed.as_deref(), Some("unfit_argument"));
    })
    .await;
}

#[tokio::test]
async fn a_hold_that_expired_is_looked_into_afresh() {
    on_each_engine_with(setup(), async |world: World| {
        order(&world, "paid", 900);
        let (request, first) = world.hold("refund", refund()).await;
        world.clock.advance(crate::support::world::TTL);
        order(&world, "paid", 800);
        let second = held(world.ask(&request).await.unwrap()).approval;
        assert_ne!(first.id, second.id);
        let seen = world.app.approval_for_reviewer(&world.ana, second.id).await.unwrap();
        assert_eq!(seen.review.unwrap().lookups[0].values[1].shown, "800");
        world.approve(&world.ana, &second).await.unwrap();
        world.claim(&second, &request.call.args, None).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_lookup_that_todays_policy_adds_must_have_been_seen() {
    on_each_engine_with(setup(), async |world: World| {
        order(&world, "paid", 900);
        let (request, approval) = world.approved("refund", refund()).await;
        let more = "[tools.refund.lookups.stock]\nurl = \"https://stock.acme.example/\"\nshow = { left = \"/left\" }\n\
                    unchanged = [\"left\"]\n";
        world.accept(&format!("{POLICY}{more}")).await;
        world.outside.answer("stock", &[("left", json!(3))]);
        let changed = LookupObjection::Changed { lookup: "stock".to_owned(), name: "left".to_owned() };
        assert_eq!(world.claim(&approval, &request.call.args, None).await.unwrap_err(), Error::Lookup(changed));
    })
    .await;
}

#[tokio::test]
async fn a_call_that_is_held_on_request_is_looked_into_as_well() {
    on_each_engine_with(setup(), async |world: World| {
        order(&world, "paid", 900);
        let mut request = world.call("refund", json!({ "order": "A-17", "amount": 3 }));
        request.hold = true;
        held(world.ask(&request).await.unwrap());
        assert_eq!(world.outside.asked().len(), 1);
        let decisions = world.entries_of(EventKind::Decision).await;
        assert_eq!(decisions.len(), 1, "what is asked twice is decided once");
        assert_eq!(decisions[0].entry.verdict, Some(Verdict::RequireApproval));
    })
    .await;
}
