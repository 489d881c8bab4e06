//! What a run has touched, and the rules that read it.

use std::sync::Arc;

use countersign::{
    app::decide_call::RefusedCall,
    domain::{audit::entry::EventKind, decision::ReasonCode, verdict::Verdict},
};
use serde_json::json;

use crate::support::world::{Setup, World, allowed, held, on_each_engine_with, refused};

const POLICY: &str = r#"
schema = 1
[tools.read_file]
risk = "read"
labels = ["private-data"]
parameters = { type = "object", required = ["path"], properties = { path = { type = "string" } } }
[tools.fetch]
risk = "read"
labels = ["untrusted-content"]
parameters = { type = "object", required = ["page"], properties = { page = { type = "string" } } }
[tools.erase]
risk = "draft"
default = "require_approval"
labels = ["private-data"]
parameters = { type = "object" }
[tools.message]
risk = "send"
default = "allow"
parameters = { type = "object" }
[[rules]]
id = "no-exfiltration"
risk = ["send"]
when = '"untrusted-content" in run.labels && "private-data" in run.labels'
verdict = "require_approval"
reason = "this run has read private data and untrusted content"
"#;

#[tokio::test]
async fn a_combination_is_held_that_each_part_alone_is_not() {
    on_each_engine_with(Setup::with_policy(POLICY), async |world: World| {
        allowed(world.decide("message", json!({})).await);
        allowed(world.decide("read_file", json!({ "path": "a" })).await);
        allowed(world.decide("message", json!({})).await);
        allowed(world.decide("fetch", json!({ "page": "a" })).await);
        let held = held(world.decide("message", json!({})).await);
        assert_eq!(held.approval.asked_by, ["no-exfiltration".to_owned()].into());
        let decisions = world.entries_of(EventKind::Decision).await;
        let labels: Vec<_> = decisions.iter().filter_map(|sealed| sealed.entry.detail.get("labels").cloned()).collect();
        assert_eq!(labels, [json!(["private-data"]), json!(["untrusted-content"])]);
    })
    .await;
}

#[tokio::test]
async fn another_run_of_the_agent_has_touched_nothing() {
    on_each_engine_with(Setup::with_policy(POLICY), async |world: World| {
        allowed(world.decide("read_file", json!({ "path": "a" })).await);
        allowed(world.decide("fetch", json!({ "page": "a" })).await);
        let mut elsewhere = world.call("message", json!({}));
        elsewhere.call.key.run = "run-2".parse().unwrap();
        allowed(world.ask(&elsewhere).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_held_call_touches_nothing_before_it_is_claimed() {
    on_each_engine_with(Setup::with_policy(POLICY), async |world: World| {
        allowed(world.decide("fetch", json!({ "page": "a" })).await);
        let (request, approval) = world.approved("erase", json!({})).await;
        allowed(world.decide("message", json!({})).await);
        world.claim(&approval, &request.call.args, None).await.unwrap();
        held(world.decide("message", json!({})).await);
    })
    .await;
}

#[tokio::test]
async fn a_call_refused_touches_nothing() {
    on_each_engine_with(Setup::with_policy(POLICY), async |world: World| {
        allowed(world.decide("fetch", json!({ "page": "a" })).await);
        let answer = refused(world.decide("read_file", json!({ "path": 7 })).await);
        assert!(matches!(answer, RefusedCall::InvalidArguments { .. }));
        allowed(world.decide("message", json!({})).await);
    })
    .await;
}

#[tokio::test]
async fn an_approved_message_is_not_claimed_once_the_run_has_touched_more() {
    let policy = POLICY.replace("default = \"allow\"\n", "");
    on_each_engine_with(Setup::with_policy(&policy), async |world: World| {
        let (request, approval) = world.approved("message", json!({})).await;
        allowed(world.decide("read_file", json!({ "path": "a" })).await);
        allowed(world.decide("fetch", json!({ "page": "a" })).await);
        let error = world.claim(&approval, &request.call.args, None).await.unwrap_err();
        assert!(error.to_string().contains("no-exfiltration"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn whoever_asks_at_once_gets_what_one_after_the_other_would_have() {
    on_each_engine_with(Setup::with_policy(POLICY), async |world: World| {
        allowed(world.decide("read_file", json!({ "path": "a" })).await);
        let world = Arc::new(world);
        let ask = |tool: &'static str, args| {
            let world = Arc::clone(&world);
            tokio::spawn(async move { world.decide(tool, args).await })
        };
        let calls = (0..10).map(|_| ask("message", json!({}))).chain([ask("fetch", json!({ "page": "a" }))]);
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap();
        }
        // In the order of the log: what was let go stands before the page, what was held after it.
        let decisions = world.entries_of(EventKind::Decision).await;
        let fetched = decisions.iter().position(|sealed| sealed.entry.tool.as_deref() == Some("fetch")).unwrap();
        for (place, sealed) in decisions.iter().enumerate().filter(|(place, _)| *place > 0 && *place != fetched) {
            let expected = if place < fetched { Verdict::Allow } else { Verdict::RequireApproval };
            assert_eq!(sealed.entry.verdict, Some(expected), "at {place} with the page at {fetched}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_paused_agent_and_an_ended_run_are_refused_whatever_they_ask() {
    on_each_engine_with(Setup::with_policy(POLICY), async |world: World| {
        for tool in ["read_file", "message", "erase"] {
            world.decide(tool, if tool == "read_file" { json!({ "path": "a" }) } else { json!({}) }).await;
        }
        world
            .storage
            .execute(
                "update runs set ending = '{\"at\":\"2026-01-01T00:00:00.000000Z\",\"by\":\"ana\",\"stopped\":true}'",
            )
            .await
            .unwrap();
        let refusal = refused(world.decide("message", json!({})).await);
        assert_eq!(refusal, RefusedCall::Bland { reason: ReasonCode::RunEnded });
        world.storage.execute("update agents set paused_at = 1").await.unwrap();
        let refusal = refused(world.decide("message", json!({})).await);
        assert_eq!(refusal, RefusedCall::Bland { reason: ReasonCode::AgentPaused });
    })
    .await;
}
