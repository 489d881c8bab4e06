//! Deciding a call, and what is answered in whichever way it is asked again.

mod asking_again;
mod idempotency;
mod joining;
mod labels;

use std::time::Duration;

use countersign::{
    app::{decide_call::RefusedCall, error::Error},
    domain::{
        approval::state::StateName, audit::entry::EventKind, decision::ReasonCode, identity::AgentId, ids::RunId,
        policy::schema::ArgumentFault, time::Timestamp, verdict::Verdict,
    },
};
use serde_json::{Value, json};

use crate::support::{
    clock::START,
    entropy::NoEntropy,
    world::{POLICY, Setup, TTL, World, allowed, arguments, held, on_each_engine, on_each_engine_with, refused},
};

fn bland(reason: ReasonCode) -> RefusedCall {
    RefusedCall::Bland { reason }
}

#[tokio::test]
async fn a_call_that_policy_allows_may_run_at_once() {
    on_each_engine(|world| async move {
        let request = world.call("read_file", json!({ "path": "a.txt" }));
        let answer = allowed(world.ask(&request).await.unwrap());
        assert_eq!(answer.verdict, Verdict::Allow);
        assert_eq!(answer.args_hash, request.call.args.hash());
        assert_eq!(answer.obligations, *json!({ "max_bytes": 200_000 }).as_object().unwrap());
        assert_eq!(answer.permit, None);
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn a_permit_is_given_when_it_is_asked_for_and_says_exactly_what_was_permitted() {
    on_each_engine(|world| async move {
        let mut request = world.call("read_file", json!({ "path": "a.txt" }));
        request.permit = true;
        let answer = allowed(world.ask(&request).await.unwrap());
        let token = answer.permit.unwrap();
        let permit = world.permits.verify(&token, "read_file", START).unwrap().permit;
        assert_eq!(permit.sub.as_str(), "billing-bot");
        assert_eq!(permit.args_hash, request.call.args.hash());
        assert_eq!(permit.tool_use_id, request.call.key.tool_use_id);
        assert_eq!(serde_json::to_value(permit.key).unwrap(), json!(answer.decision));
        assert_eq!(permit.policy_version, *world.app.policy().version());
        assert_eq!(permit.obligations, answer.obligations);
    })
    .await;
}

#[tokio::test]
async fn a_call_that_needs_a_human_is_held() {
    on_each_engine(|world| async move {
        let request = world.call("send_email", json!({ "to": "x@acme.example" }));
        let held = held(world.ask(&request).await.unwrap());
        let approval = held.approval;
        assert_eq!(approval.state.name(), StateName::Pending);
        assert_eq!(approval.call, request.call.key);
        assert_eq!(approval.args_hash, request.call.args.hash());
        assert_eq!(approval.decision, held.decision);
        assert_eq!(approval.attempt, 1);
        assert_eq!(approval.expires_at, START.plus(TTL));
        assert_eq!(world.stored(&approval).await, approval);
        assert_eq!(world.events().await, [EventKind::Decision, EventKind::ApprovalRequested]);
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn what_policy_denies_is_refused_without_a_word_to_the_agent() {
    on_each_engine(|world| async move {
        let answer = world.decide("issue_refund", json!({ "order": "o-1", "amount": 100_001 })).await;
        assert_eq!(refused(answer), bland(ReasonCode::Rule));
        let answer = world.decide("no_such_tool", json!({})).await;
        assert_eq!(refused(answer), bland(ReasonCode::UnknownTool));
        assert_eq!(world.events().await, [EventKind::Decision; 2]);
    })
    .await;
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_told_to_the_agent() {
    on_each_engine(|world| async move {
        let answer = refused(world.decide("read_file", json!({ "path": 7 })).await);
        let RefusedCall::InvalidArguments { faults } = answer else { panic!("{answer:?}") };
        let pointers: Vec<&str> = faults.iter().map(|fault: &ArgumentFault| fault.pointer.as_str()).collect();
        assert_eq!(pointers, ["/path"]);
    })
    .await;
}

#[tokio::test]
async fn the_caller_may_ask_for_a_human_where_policy_would_allow() {
    on_each_engine(|world| async move {
        let mut request = world.call("read_file", json!({ "path": "a.txt" }));
        request.hold = true;
        let approval = held(world.ask(&request).await.unwrap()).approval;
        let entry = &world.entries_of(EventKind::Decision).await[0].entry;
        assert_eq!(entry.reason_code.as_deref(), Some("hold_requested"));
        // Asked again without that wish it is the same held call.
        request.hold = false;
        assert_eq!(held(world.ask(&request).await.unwrap()).approval.id, approval.id);
        world.approve(&world.ana, &approval).await.unwrap();
        world.claim(&approval, &request.call.args, None).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn asking_for_a_human_does_not_soften_a_denial() {
    on_each_engine(|world| async move {
        let mut request = world.call("issue_refund", json!({ "order": "o-1", "amount": 100_001 }));
        request.hold = true;
        assert_eq!(refused(world.ask(&request).await.unwrap()), bland(ReasonCode::Rule));
    })
    .await;
}

#[tokio::test]
async fn an_alias_is_the_very_same_tool() {
    on_each_engine(|world| async move {
        let (mut request, approval) = world.hold("mcp__mail__send_email", json!({ "to": "x@acme.example" })).await;
        assert_eq!(approval.tool, "send_email");
        request.call.tool = "send_email".to_owned();
        assert_eq!(held(world.ask(&request).await.unwrap()).approval.id, approval.id);
        let decided = world.entries_of(EventKind::Decision).await;
        assert_eq!(decided[0].entry.tool.as_deref(), Some("send_email"));
        assert_eq!(decided[0].entry.detail["presented_as"], "mcp__mail__send_email");
        // A denial under one name stands under the other.
        world.deny(&world.ana, &approval, Some("no")).await.unwrap();
        let answer = refused(world.decide("send_email", json!({ "to": "x@acme.example" })).await);
        assert_eq!(answer, RefusedCall::Declined { approval: approval.id, message: Some("no".to_owned()) });
    })
    .await;
}

#[tokio::test]
async fn a_call_without_any_possible_reviewer_is_denied() {
    let setup = Setup { reviewers: vec![], ..Setup::default() };
    on_each_engine_with(setup, |world| async move {
        let answer = world.decide("send_email", json!({ "to": "x@acme.example" })).await;
        assert_eq!(refused(answer), bland(ReasonCode::NoReviewer));
        // What needs nobody still runs.
        allowed(world.decide("read_file", json!({ "path": "a.txt" })).await);
    })
    .await;
}

#[tokio::test]
async fn one_person_in_two_groups_is_no_two_people() {
    let policy = r#"
schema = 1
[tools.pay]
risk = "send"
parameters = { type = "object", required = ["amount"], properties = { amount = { type = "number" } } }
approval = { reviewers = ["support-leads"] }
[[tools.pay.rules]]
id = "large"
when = 'args.amount > 100'
verdict = "require_approval"
reason = "over 100"
approval = { reviewers = ["finance"] }
"#;
    let alone = Setup { reviewers: vec![("ana", &["finance", "support-leads"])], ..Setup::with_policy(policy) };
    on_each_engine_with(alone, |world| async move {
        held(world.decide("pay", json!({ "amount": 100 })).await);
        assert_eq!(refused(world.decide("pay", json!({ "amount": 101 })).await), bland(ReasonCode::NoReviewer));
    })
    .await;
    on_each_engine_with(Setup::with_policy(policy), |world| async move {
        held(world.decide("pay", json!({ "amount": 101 })).await);
    })
    .await;
}

const CAPPED: &str = r#"
schema = 1
[defaults]
max_open_approvals_per_run = 2
max_open_approvals_per_agent = 3
max_refused_per_run = 2
[tools.send_email]
risk = "send"
parameters = { type = "object", required = ["to"], properties = { to = { type = "string" } } }
[tools.post_message]
risk = "send"
parameters = { type = "object", required = ["to"], properties = { to = { type = "string" } } }
"#;

async fn decided_in(world: &World, run: &str, to: &str) -> countersign::app::decide_call::DecideAnswer {
    let mut request = world.call("send_email", json!({ "to": to }));
    request.call.key.run = RunId::parse(run).unwrap();
    world.ask(&request).await.unwrap()
}

#[tokio::test]
async fn open_approvals_are_capped_per_run_and_per_agent_exactly() {
    on_each_engine_with(Setup::with_policy(CAPPED), |world| async move {
        held(decided_in(&world, "run-1", "a").await);
        let second = held(decided_in(&world, "run-1", "b").await).approval;
        assert_eq!(refused(decided_in(&world, "run-1", "c").await), bland(ReasonCode::OpenApprovalsOfRun));
        held(decided_in(&world, "run-2", "a").await);
        assert_eq!(refused(decided_in(&world, "run-3", "a").await), bland(ReasonCode::OpenApprovalsOfAgent));
        // Another agent has a count of its own, in a run of the same name as well.
        let mut request = world.call("send_email", json!({ "to": "a" }));
        request.call.key.agent = AgentId::parse("other-bot").unwrap();
        held(world.app.decide_call(&world.other_bot, &request).await.unwrap());
        // What is decided waits no more.
        world.approve(&world.ana, &second).await.unwrap();
        held(decided_in(&world, "run-1", "c").await);
        assert_eq!(refused(decided_in(&world, "run-1", "d").await), bland(ReasonCode::OpenApprovalsOfRun));
    })
    .await;
}

#[tokio::test]
async fn what_has_run_out_waits_no_more_though_nobody_wrote_it_down() {
    on_each_engine_with(Setup::with_policy(CAPPED), |world| async move {
        held(decided_in(&world, "run-1", "a").await);
        held(decided_in(&world, "run-1", "b").await);
        world.clock.advance(TTL);
        held(decided_in(&world, "run-1", "c").await);
    })
    .await;
}

#[tokio::test]
async fn a_tool_that_reviewers_keep_refusing_in_a_run_is_refused_without_asking_them() {
    on_each_engine_with(Setup::with_policy(CAPPED), |world| async move {
        for to in ["a", "b"] {
            let (_, approval) = world.hold("send_email", json!({ "to": to })).await;
            world.deny(&world.ana, &approval, None).await.unwrap();
        }
        let answer = world.decide("send_email", json!({ "to": "c" })).await;
        assert_eq!(refused(answer), bland(ReasonCode::RefusedTooOften));
        held(decided_in(&world, "run-2", "c").await);
        held(world.decide("post_message", json!({ "to": "c" })).await);
    })
    .await;
}

#[tokio::test]
async fn a_denial_answers_the_same_call_under_another_id_until_it_is_lifted() {
    on_each_engine(|world| async move {
        let args = json!({ "to": "x@acme.example" });
        let (_, approval) = world.hold("send_email", args.clone()).await;
        world.deny(&world.ana, &approval, Some("wrong person")).await.unwrap();
        let declined = RefusedCall::Declined { approval: approval.id, message: Some("wrong person".to_owned()) };
        assert_eq!(refused(world.decide("send_email", args.clone()).await), declined);
        let decided = world.entries_of(EventKind::Decision).await;
        let entry = &decided.last().unwrap().entry;
        assert_eq!(entry.verdict, Some(Verdict::Deny));
        assert_eq!(entry.reason_code.as_deref(), Some("denied_before"));
        assert_eq!(entry.approval, Some(approval.id));
        // Other arguments and other runs are other calls.
        held(world.decide("send_email", json!({ "to": "y@acme.example" })).await);
        let mut elsewhere = world.call("send_email", args.clone());
        elsewhere.call.key.run = RunId::parse("run-2").unwrap();
        held(world.ask(&elsewhere).await.unwrap());

        world.app.lift_denial(&world.ana, approval.id, Some("asked again nicely")).await.unwrap();
        held(world.decide("send_email", args).await);
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn a_denial_stands_though_policy_would_allow_the_call_by_now() {
    on_each_engine(|world| async move {
        let args = json!({ "to": "x@acme.example" });
        let (_, approval) = world.hold("send_email", args.clone()).await;
        world.deny(&world.bo, &approval, None).await.unwrap();
        world.accept(&POLICY.replace("audience = \"mail-server\"", "default = \"allow\"")).await;
        let answer = refused(world.decide("send_email", args).await);
        assert_eq!(answer, RefusedCall::Declined { approval: approval.id, message: None });
        allowed(world.decide("send_email", json!({ "to": "y@acme.example" })).await);
    })
    .await;
}

#[tokio::test]
async fn a_denial_answers_a_call_that_policy_itself_denies_as_well() {
    on_each_engine(|world| async move {
        let args = json!({ "to": "x@acme.example" });
        let (_, approval) = world.hold("send_email", args.clone()).await;
        world.deny(&world.bo, &approval, Some("no")).await.unwrap();
        world.accept(&POLICY.replace("audience = \"mail-server\"", "default = \"deny\"")).await;
        let answer = refused(world.decide("send_email", args).await);
        assert_eq!(answer, RefusedCall::Declined { approval: approval.id, message: Some("no".to_owned()) });
    })
    .await;
}

#[tokio::test]
async fn without_randomness_nothing_is_decided() {
    let setup = Setup { entropy: Some(std::sync::Arc::new(NoEntropy)), ..Setup::default() };
    on_each_engine_with(setup, |world| async move {
        for (tool, args) in [("read_file", json!({ "path": "a" })), ("send_email", json!({ "to": "x" }))] {
            let answer = world.ask(&world.call(tool, args)).await;
            assert!(matches!(answer, Err(Error::Entropy(_))), "{answer:?}");
        }
        assert_eq!(world.events().await, []);
    })
    .await;
}

const BY_TIME: &str = r#"
schema = 1
[tools.send_email]
risk = "send"
parameters = { type = "object", required = ["to"], properties = { to = { type = "string" } } }
[[tools.send_email.rules]]
id = "night"
when = 'now.hour >= 22'
verdict = "require_approval"
reason = "at night finance looks too"
approval = { reviewers = ["finance"] }
[[tools.send_email.rules]]
id = "weekend"
when = 'now.weekday >= 6'
verdict = "deny"
reason = "not at the weekend"
"#;

/// Monday to Sunday of the tests' first week.
fn at(day: u64, hour: u64) -> Timestamp {
    START.minus(Duration::from_secs(12 * 3_600)).plus(Duration::from_secs((day - 1) * 86_400 + hour * 3_600))
}

#[tokio::test]
async fn rules_read_the_time_of_the_decision() {
    on_each_engine_with(Setup::with_policy(BY_TIME), |world| async move {
        let asked_by = async |now| {
            world.clock.set(now);
            let (_, approval) = world.hold("send_email", json!({ "to": now.to_string() })).await;
            approval.asked_by.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(asked_by(at(1, 21)).await, [""; 0]);
        assert_eq!(asked_by(at(1, 22)).await, ["night"]);
        world.clock.set(at(6, 12));
        assert_eq!(refused(world.decide("send_email", json!({ "to": "x" })).await), bland(ReasonCode::Rule));
    })
    .await;
}

#[tokio::test]
async fn every_answered_decision_has_exactly_one_entry() {
    on_each_engine(|world| async move {
        let args: [(&str, Value); 5] = [
            ("read_file", json!({ "path": "a" })),
            ("write_note", json!({ "text": "a" })),
            ("send_email", json!({ "to": "a" })),
            ("unknown", json!({})),
            ("read_file", json!({})),
        ];
        for (tool, args) in &args {
            world.decide(tool, args.clone()).await;
        }
        let verdicts: Vec<_> =
            world.entries_of(EventKind::Decision).await.iter().map(|sealed| sealed.entry.verdict.unwrap()).collect();
        use Verdict::{Allow, AllowAudited, Deny, RequireApproval};
        assert_eq!(verdicts, [Allow, AllowAudited, RequireApproval, Deny, Deny]);
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn the_key_of_a_call_is_agent_run_turn_and_id_together() {
    on_each_engine(|world| async move {
        let (request, approval) = world.hold("send_email", json!({ "to": "x" })).await;
        let mut in_next_turn = request.clone();
        in_next_turn.call.key.turn = 1;
        in_next_turn.call.args = arguments(json!({ "to": "y" }));
        assert_ne!(held(world.ask(&in_next_turn).await.unwrap()).approval.id, approval.id);
        let mut in_other_run = request.clone();
        in_other_run.call.key.run = RunId::parse("run-2").unwrap();
        assert_ne!(held(world.ask(&in_other_run).await.unwrap()).approval.id, approval.id);
        let mut of_other_agent = request;
        of_other_agent.call.key.agent = AgentId::parse("other-bot").unwrap();
        let answer = world.app.decide_call(&world.other_bot, &of_other_agent).await.unwrap();
        assert_ne!(held(answer).approval.id, approval.id);
    })
    .await;
}
