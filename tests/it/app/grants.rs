//! Grants: made, used, used up, taken back, and taken with an approve.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use countersign::{
    app::{
        decide_call::{DecideAnswer, DecideRequest, IdempotencyKey, RefusedCall},
        error::Error,
        grants::{GrantRequest, TakenOffer},
        ports::GrantFilter,
        review::ReviewDecision,
    },
    domain::{
        audit::entry::EventKind,
        decision::ReasonCode,
        grant::{GrantRecord, GrantState, TooWide},
        identity::AgentId,
        ids::RunId,
        verdict::Verdict,
    },
};
use serde_json::{Value, json};

use super::races::at_once;
use crate::support::world::{RUN, Setup, World, allowed, decision, held, on_each_engine, on_each_engine_with, refused};

const POLICY: &str = r#"
schema = 1
[tools.send_file]
risk = "send"
aliases = ["mcp__send_file"]
parameters = { type = "object", required = ["path"], properties = { path = { type = "string" }, urgent = { type = "boolean" } } }
[[tools.send_file.rules]]
id = "urgent"
when = 'has(args.urgent) && args.urgent'
verdict = "require_approval"
reason = "urgent ones are looked at"
[[tools.send_file.limits]]
id = "files"
per = "run"
window = "1h"
max_calls = 3
on_exceed = "require_approval"

[tools.fetch]
risk = "send"
parameters = { type = "object", required = ["url"], properties = { url = { type = "string" } } }
[tools.fetch.arguments.url]
kind = "url"

[tools.run]
risk = "send"
sandboxed = true
grantable = true
parameters = { type = "object", required = ["line"], properties = { line = { type = "string" } } }
[tools.run.arguments.line]
kind = "command"

[tools.wipe]
risk = "destructive"
parameters = { type = "object", properties = {} }
"#;

fn setup() -> Setup {
    Setup::with_policy(POLICY)
}

fn request(tool: &str, when: &str) -> GrantRequest {
    GrantRequest {
        agent: AgentId::parse("billing-bot").unwrap(),
        run: RunId::parse(RUN).unwrap(),
        tool: tool.to_owned(),
        when: when.to_owned(),
        ttl: Duration::from_secs(3_600),
        max_uses: 5,
        rules: BTreeSet::new(),
        reason: None,
        idempotency: None,
    }
}

async fn grant(world: &World, tool: &str, when: &str) -> GrantRecord {
    world.app.make_grant(&world.ana, &request(tool, when)).await.unwrap()
}

fn file(path: &str) -> Value {
    json!({ "path": path })
}

async fn listed(world: &World) -> Vec<GrantRecord> {
    world.app.list_grants(&world.ana, GrantFilter::default(), None, 50).await.unwrap().grants
}

#[tokio::test]
async fn a_grant_lets_calls_through_and_the_decision_names_it() {
    on_each_engine_with(setup(), |world| async move {
        let made = grant(&world, "mcp__send_file", r#"args.path == "a""#).await;
        let call = allowed(world.decide("send_file", file("a")).await);
        assert_eq!(call.verdict, Verdict::AllowAudited);
        let id = made.grant.id.to_string();
        let decided = world.entries_of(EventKind::Decision).await.remove(0).entry;
        assert_eq!((decided.reason_code.as_deref(), decided.rule), (Some("grant"), Some(id.clone())));
        let used = world.entries_of(EventKind::GrantUsed).await.remove(0).entry;
        assert_eq!((used.decision, used.rule), (Some(call.decision), Some(id)));
        let listed = listed(&world).await;
        assert_eq!((listed[0].uses, listed[0].state_at(world.app.now())), (1, GrantState::Live));
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn a_grant_for_one_path_covers_no_other_and_no_other_tool() {
    on_each_engine_with(setup(), |world| async move {
        grant(&world, "send_file", r#"args.path == "a""#).await;
        held(world.decide("send_file", file("a-old")).await);
        held(world.decide("send_file", file("a/b")).await);
        held(world.decide("fetch", json!({ "url": "https://acme.com/" })).await);
        allowed(world.decide("send_file", file("a")).await);
    })
    .await;
}

#[tokio::test]
async fn a_second_rule_that_is_not_lifted_still_asks() {
    on_each_engine_with(setup(), |world| async move {
        grant(&world, "send_file", r#"args.path == "a""#).await;
        let approval = held(world.decide("send_file", json!({ "path": "a", "urgent": true })).await).approval;
        assert_eq!(approval.asked_by, ["urgent".to_owned()].into());
        let rules = ["urgent".to_owned()].into();
        let lifting = GrantRequest { rules, ..request("send_file", r#"args.path == "a""#) };
        world.app.make_grant(&world.ana, &lifting).await.unwrap();
        allowed(world.decide("send_file", json!({ "path": "a", "urgent": true })).await);
    })
    .await;
}

#[tokio::test]
async fn a_grant_for_one_address_covers_no_other_of_the_same_program() {
    on_each_engine_with(setup(), |world| async move {
        grant(&world, "fetch", r#"resolved.url.host == "acme.com""#).await;
        allowed(world.decide("fetch", json!({ "url": "https://acme.com/x" })).await);
        held(world.decide("fetch", json!({ "url": "https://other.com/x" })).await);
        held(world.decide("fetch", json!({ "url": "https://acme.com.other.com/x" })).await);
        let words = r#"size(resolved.line.words) == 2 && resolved.line.words[0] == "curl" && resolved.line.words[1] == "https://a.example" && size(resolved.line.operators) == 0"#;
        grant(&world, "run", words).await;
        allowed(world.decide("run", json!({ "line": "curl https://a.example" })).await);
        held(world.decide("run", json!({ "line": "curl https://b.example" })).await);
        held(world.decide("run", json!({ "line": "curl https://a.example && rm -rf x" })).await);
    })
    .await;
}

#[tokio::test]
async fn a_grant_is_for_one_run() {
    on_each_engine_with(setup(), |world| async move {
        grant(&world, "send_file", "true").await;
        let mut elsewhere = world.call("send_file", file("a"));
        elsewhere.call.key.run = RunId::parse("run-2").unwrap();
        held(world.ask(&elsewhere).await.unwrap());
        let mut others = world.call("send_file", file("a"));
        others.call.key.agent = AgentId::parse("other-bot").unwrap();
        held(world.app.decide_call(&world.other_bot, &others).await.unwrap());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn never_one_call_more_than_the_grant_says() {
    on_each_engine_with(setup(), |world| async move {
        let another = world.another_instance(setup()).await;
        let worlds = [Arc::new(world), Arc::new(another)];
        worlds[0].app.make_grant(&worlds[0].ana, &request("fetch", "true")).await.unwrap();
        let passed = at_once(20, &worlds, |racer, world| async move {
            let args = json!({ "url": format!("https://acme.com/{racer}") });
            matches!(world.decide("fetch", args).await, DecideAnswer::Allowed(_))
        })
        .await;
        assert_eq!(passed.iter().filter(|passed| **passed).count(), 5);
        let grants = listed(&worlds[0]).await;
        assert_eq!((grants[0].uses, grants[0].state_at(worlds[0].app.now())), (5, GrantState::Spent));
        assert_eq!(worlds[0].entries_of(EventKind::GrantUsed).await.len(), 5);
    })
    .await;
}

#[tokio::test]
async fn the_same_call_asked_again_is_one_use() {
    on_each_engine_with(setup(), |world| async move {
        let once = GrantRequest { max_uses: 1, ..request("send_file", "true") };
        world.app.make_grant(&world.ana, &once).await.unwrap();
        let call = world.call("send_file", file("a"));
        allowed(world.ask(&call).await.unwrap());
        allowed(world.ask(&call).await.unwrap());
        assert_eq!(listed(&world).await[0].uses, 1);
        held(world.decide("send_file", file("a")).await);
    })
    .await;
}

#[tokio::test]
async fn calls_under_a_grant_count_against_limits_and_a_limit_still_asks() {
    on_each_engine_with(setup(), |world| async move {
        grant(&world, "send_file", "true").await;
        for path in ["a", "b", "c"] {
            allowed(world.decide("send_file", file(path)).await);
        }
        let approval = held(world.decide("send_file", file("d")).await).approval;
        assert_eq!(approval.asked_by, ["files".to_owned()].into());
    })
    .await;
}

#[tokio::test]
async fn a_call_that_was_denied_stays_denied_under_a_grant() {
    on_each_engine_with(setup(), |world| async move {
        let (_, approval) = world.hold("send_file", file("a")).await;
        world.deny(&world.ana, &approval, Some("no")).await.unwrap();
        grant(&world, "send_file", "true").await;
        assert!(matches!(
            refused(world.decide("send_file", file("a")).await),
            RefusedCall::Declined { message: Some(message), .. } if message == "no"
        ));
        allowed(world.decide("send_file", file("b")).await);
        world.app.lift_denial(&world.ana, approval.id, None).await.unwrap();
        allowed(world.decide("send_file", file("a")).await);
    })
    .await;
}

#[tokio::test]
async fn a_call_that_is_held_and_one_that_its_caller_wants_held_are_not_let_through() {
    on_each_engine_with(setup(), |world| async move {
        let (request, approval) = world.hold("send_file", file("a")).await;
        grant(&world, "send_file", "true").await;
        assert_eq!(held(world.ask(&request).await.unwrap()).approval.id, approval.id);
        world.clock.advance(Duration::from_secs(3_500));
        let wanted = DecideRequest { hold: true, ..world.call("send_file", file("b")) };
        held(world.ask(&wanted).await.unwrap());
        world.clock.set(approval.expires_at);
        world.app.make_grant(&world.ana, &self::request("send_file", "true")).await.unwrap();
        assert_eq!(held(world.ask(&request).await.unwrap()).approval.attempt, 2);
    })
    .await;
}

#[tokio::test]
async fn a_grant_ends_when_its_time_is_over_and_when_it_is_taken_back() {
    on_each_engine_with(setup(), |world| async move {
        let made = grant(&world, "send_file", r#"args.path == "a""#).await;
        allowed(world.decide("send_file", file("a")).await);
        world.app.revoke_grant(&world.bo, made.grant.id).await.unwrap();
        world.app.revoke_grant(&world.bo, made.grant.id).await.unwrap();
        held(world.decide("send_file", file("a")).await);
        assert_eq!(world.entries_of(EventKind::GrantRevoked).await.len(), 1);
        // Ids sort by the time they were made.
        world.clock.advance(Duration::from_secs(1));
        let made = grant(&world, "fetch", "true").await;
        world.clock.set(made.grant.expires_at);
        held(world.decide("fetch", json!({ "url": "https://acme.com/" })).await);
        let states: Vec<_> = listed(&world).await.iter().map(|record| record.state_at(world.app.now())).collect();
        assert_eq!(states, [GrantState::Expired, GrantState::Revoked]);
    })
    .await;
}

#[tokio::test]
async fn a_grant_ends_with_its_run() {
    on_each_engine_with(setup(), |world| async move {
        let made = grant(&world, "send_file", "true").await;
        allowed(world.decide("send_file", file("a")).await);
        let ending = r#"{"at":"2026-11-30T12:00:00.000000Z","by":"orchestrator","stopped":false}"#;
        world.storage.execute(&format!("update runs set ending = '{ending}'")).await.unwrap();
        refused(world.decide("send_file", file("a")).await);
        let live = GrantFilter { live_at: Some(world.app.now()), ..GrantFilter::default() };
        assert_eq!(world.app.list_grants(&world.ana, live, None, 50).await.unwrap().grants, []);
        assert_eq!(listed(&world).await[0].state_at(world.app.now()), GrantState::RunEnded);
        let after = world.app.make_grant(&world.ana, &request("send_file", "true")).await;
        assert_eq!(after, Err(Error::GrantTooWide(TooWide::RunEnded)));
        assert!(made.grant.revoked.is_none());
    })
    .await;
}

#[tokio::test]
async fn a_grant_does_not_outlive_the_policy_it_fits() {
    on_each_engine_with(setup(), |world| async move {
        grant(&world, "send_file", "has(args.urgent) ? !args.urgent : true").await;
        allowed(world.decide("send_file", file("a")).await);
        world.accept(&POLICY.replacen("risk = \"send\"", "risk = \"send\"\ngrantable = false", 1)).await;
        held(world.decide("send_file", file("b")).await);
        let without_urgent = POLICY.replacen(", urgent = { type = \"boolean\" }", "", 1).replacen(
            "has(args.urgent) && args.urgent",
            "args.path == \"u\"",
            1,
        );
        world.accept(&without_urgent).await;
        held(world.decide("send_file", file("c")).await);
        world.accept(POLICY).await;
        allowed(world.decide("send_file", file("d")).await);
    })
    .await;
}

#[tokio::test]
async fn a_grant_ends_when_its_maker_is_no_reviewer_any_more() {
    on_each_engine_with(setup(), |world| async move {
        grant(&world, "send_file", "true").await;
        let without_ana = Setup { reviewers: vec![("bo", &[])], ..setup() };
        let another = world.another_instance(without_ana).await;
        held(another.decide("send_file", file("a")).await);
        allowed(world.decide("send_file", file("b")).await);
    })
    .await;
}

#[tokio::test]
async fn a_text_that_was_erased_or_changed_is_no_condition() {
    on_each_engine_with(setup(), |world| async move {
        grant(&world, "send_file", r#"args.path == "acme""#).await;
        allowed(world.decide("send_file", file("acme")).await);
        world
            .storage
            .execute("update payloads set body = replace(body, 'acme', 'evil') where body like '%when%'")
            .await
            .unwrap();
        held(world.decide("send_file", file("evil")).await);
        held(world.decide("send_file", file("acme")).await);
        assert_eq!(listed(&world).await[0].grant.when, None);
    })
    .await;
}

#[tokio::test]
async fn what_is_wider_than_allowed_is_refused_with_the_reason() {
    on_each_engine(|world| async move {
        let make = async |by, request: GrantRequest| world.app.make_grant(by, &request).await.unwrap_err();
        let email = || request("send_email", "true");
        let too_long = GrantRequest { ttl: Duration::from_secs(8 * 3_600 + 1), ..email() };
        assert_eq!(make(&world.ana, too_long).await, Error::GrantTooWide(TooWide::TooLong));
        let too_many = GrantRequest { max_uses: 51, ..email() };
        assert_eq!(make(&world.ana, too_many).await, Error::GrantTooWide(TooWide::TooManyUses));
        let destructive = make(&world.ana, request("drop_table", "true")).await;
        assert!(matches!(destructive, Error::GrantTooWide(TooWide::NotGrantable { .. })));
        let large = GrantRequest { rules: ["large-refund".to_owned()].into(), ..request("issue_refund", "true") };
        assert!(matches!(make(&world.bo, large).await, Error::GrantTooWide(TooWide::NotAlone { .. })));
        let no_such_rule =
            GrantRequest { rules: ["small-refund".to_owned()].into(), ..request("issue_refund", "true") };
        assert!(matches!(make(&world.ana, no_such_rule).await, Error::Invalid(_)));
        assert!(matches!(make(&world.ana, request("no_tool", "true")).await, Error::Invalid(_)));
        assert!(matches!(make(&world.ana, request("read_file", "true")).await, Error::Invalid(_)));
        assert_eq!(listed(&world).await, []);
    })
    .await;
}

#[tokio::test]
async fn a_condition_that_does_not_compile_is_refused_with_the_place() {
    on_each_engine_with(setup(), |world| async move {
        let faulty = request("send_file", "args.path == \"a\" &&\n  args.pth == \"b\"");
        let Err(Error::Condition(places)) = world.app.make_grant(&world.ana, &faulty).await else { panic!() };
        assert_eq!((places[0].line, places.len()), (2, 1));
        assert!(places[0].message.contains("args.pth") && places[0].column > 1, "{places:?}");
        // Bounded and scoped as a rule that loosens: the raw form of what has a kind is not read.
        let raw = request("fetch", r#"args.url == "https://acme.com/""#);
        assert!(matches!(world.app.make_grant(&world.ana, &raw).await, Err(Error::Condition(_))));
    })
    .await;
}

#[tokio::test]
async fn the_same_request_sent_again_is_the_same_grant() {
    on_each_engine_with(setup(), |world| async move {
        let keyed = |body: u8| GrantRequest {
            idempotency: Some(IdempotencyKey { route: "/grants", key: "k".to_owned(), body_hash: [body; 32] }),
            ..request("send_file", "true")
        };
        let first = world.app.make_grant(&world.ana, &keyed(1)).await.unwrap();
        allowed(world.decide("send_file", file("a")).await);
        let again = world.app.make_grant(&world.ana, &keyed(1)).await.unwrap();
        assert_eq!((again.grant.id, again.uses), (first.grant.id, 1));
        assert_eq!(world.app.make_grant(&world.ana, &keyed(2)).await, Err(Error::IdempotencyConflict));
        assert_eq!(world.entries_of(EventKind::GrantCreated).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn the_log_tells_of_a_grant_without_a_word_that_was_typed() {
    on_each_engine_with(setup(), |world| async move {
        let typed = GrantRequest {
            reason: Some("a typed sentence".to_owned()),
            ..request("send_file", r#"args.path == "a-value""#)
        };
        let made = world.app.make_grant(&world.ana, &typed).await.unwrap();
        let entry = world.entries_of(EventKind::GrantCreated).await.remove(0).entry;
        let text = serde_json::to_string(&entry).unwrap();
        assert!(!text.contains("a-value") && !text.contains("typed"), "{text}");
        assert_eq!((entry.payload, entry.actor.name.as_str()), (Some(made.grant.payload), "ana"));
        assert_eq!(entry.detail["max_uses"], 5);
    })
    .await;
}

#[tokio::test]
async fn a_reviewer_sees_grants_for_his_groups_and_those_for_anyone() {
    on_each_engine(|world| async move {
        let rules: BTreeSet<String> = ["large-refund".to_owned()].into();
        let setup = Setup {
            policy: crate::support::world::POLICY
                .replace("reviewers = [\"support-leads\"]", "reviewers = [\"finance\"]"),
            ..Setup::default()
        };
        let world = world.another_instance(setup).await;
        let made = GrantRequest { rules, ..request("issue_refund", "true") };
        let finance = world.app.make_grant(&world.ana, &made).await.unwrap();
        // Ids sort by the time they were made.
        world.clock.advance(Duration::from_secs(1));
        let anyone = grant(&world, "send_email", "true").await;
        let seen = world.app.list_grants(&world.bo, GrantFilter::default(), None, 50).await.unwrap();
        let seen: Vec<_> = seen.grants.iter().map(|record| record.grant.id).collect();
        assert_eq!(seen, [anyone.grant.id]);
        assert_eq!(world.app.revoke_grant(&world.bo, finance.grant.id).await, Err(Error::NotFound));
        let page = world.app.list_grants(&world.ana, GrantFilter::default(), None, 1).await.unwrap();
        assert_eq!((page.grants.len(), page.next), (1, Some(anyone.grant.id)));
        let rest = world.app.list_grants(&world.ana, GrantFilter::default(), page.next, 1).await.unwrap();
        assert_eq!((rest.grants[0].grant.id, rest.next), (finance.grant.id, None));
        let of_tool = GrantFilter { tool: Some("send_email".to_owned()), ..GrantFilter::default() };
        assert_eq!(world.app.list_grants(&world.ana, of_tool, None, 50).await.unwrap().grants.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_approve_may_take_one_of_the_grants_that_the_approval_offers() {
    on_each_engine_with(setup(), |world| async move {
        world.hold("send_file", file("b")).await;
        let (_, approval) = world.hold("send_file", file("a")).await;
        let seen = world.app.approval_for_reviewer(&world.ana, approval.id).await.unwrap();
        let offers: Vec<_> =
            seen.offers.iter().map(|offer| (offer.offer.scope.as_str(), offer.would_have_covered)).collect();
        // What keeps the path says the same as what keeps every argument, so it is offered once.
        assert_eq!(offers, [("same_arguments", 1), ("everything", 2)]);
        let offer = &seen.offers[0].offer;
        let taken = TakenOffer { when: offer.when.clone(), ttl: offer.ttl, max_uses: offer.max_uses };
        let wider = TakenOffer { max_uses: 50, ..taken.clone() };
        let take = |grant| ReviewDecision { grant: Some(grant), ..decision(&approval, true, None) };
        let answer = world.app.decide_approval(&world.ana, approval.id, &take(wider)).await;
        assert_eq!(answer.map(drop), Err(Error::OfferGone));
        world.app.decide_approval(&world.ana, approval.id, &take(taken.clone())).await.unwrap();
        // Repeating one's own decision changes nothing.
        world.app.decide_approval(&world.ana, approval.id, &take(taken)).await.unwrap();
        let grants = listed(&world).await;
        assert_eq!(grants.len(), 1);
        assert_eq!(grants[0].grant.approval, Some(approval.id));
        assert!(grants[0].grant.lifts.default && grants[0].grant.lifts.rules.is_empty());
        allowed(world.decide("send_file", file("a")).await);
        held(world.decide("send_file", file("c")).await);
        let created = world.entries_of(EventKind::GrantCreated).await.remove(0).entry;
        assert_eq!(created.approval, Some(approval.id));
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn a_grant_from_an_approval_lifts_those_that_asked_there() {
    on_each_engine(|world| async move {
        let (_, approval) = world.hold("issue_refund", json!({ "order": "O-1", "amount": 6_000 })).await;
        // It takes one of two groups, so nobody could make a grant of it alone.
        assert_eq!(world.app.approval_for_reviewer(&world.ana, approval.id).await.unwrap().offers, []);
        let (_, approval) = world.hold("issue_refund", json!({ "order": "O-1", "amount": 300 })).await;
        let offers = world.app.approval_for_reviewer(&world.bo, approval.id).await.unwrap().offers;
        assert_eq!(offers.len(), 3);
        let offer = &offers[2].offer;
        let taken = TakenOffer { when: offer.when.clone(), ttl: offer.ttl, max_uses: offer.max_uses };
        let take = ReviewDecision { grant: Some(taken), ..decision(&approval, true, None) };
        world.app.decide_approval(&world.bo, approval.id, &take).await.unwrap();
        allowed(world.decide("issue_refund", json!({ "order": "O-2", "amount": 4_000 })).await);
        let large = held(world.decide("issue_refund", json!({ "order": "O-2", "amount": 6_000 })).await).approval;
        assert_eq!(large.asked_by, ["large-refund".to_owned()].into());
    })
    .await;
}

#[tokio::test]
async fn at_the_cap_a_call_that_joins_is_held_by_the_open_approval() {
    let policy = POLICY.replacen("schema = 1", "schema = 1\n[defaults]\nmax_open_approvals_per_run = 1", 1);
    on_each_engine_with(Setup::with_policy(&policy), |world| async move {
        let (_, approval) = world.hold("send_file", file("a")).await;
        let joining = DecideRequest { join: true, ..world.call("send_file", file("a")) };
        assert_eq!(held(world.ask(&joining).await.unwrap()).approval.id, approval.id);
        let other = DecideRequest { join: true, ..world.call("send_file", file("b")) };
        let refusal = refused(world.ask(&other).await.unwrap());
        assert_eq!(refusal, RefusedCall::Bland { reason: ReasonCode::OpenApprovalsOfRun });
        let apart = refused(world.decide("send_file", file("a")).await);
        assert_eq!(apart, RefusedCall::Bland { reason: ReasonCode::OpenApprovalsOfRun });
    })
    .await;
}
