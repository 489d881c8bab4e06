//! Runs: what humans asked, families, parking and resuming, ending, stopping, pausing.

use std::{sync::Arc, time::Duration};

use countersign::{
    app::{
        claim_call::Presented,
        decide_call::{DecideAnswer, DecideRequest, RefusedCall},
        error::Error,
        runs::{Declaration, IfMatch, ParentName, RunRefused},
    },
    domain::{
        approval::state::{Canceller, State},
        audit::entry::EventKind,
        decision::ReasonCode,
        run::{FamilyFault, RunKey, RunStatus},
        verdict::Verdict,
    },
};
use serde_json::{Value, json};

use crate::support::world::{LEASE, RUN, Setup, World, allowed, held, on_each_engine, on_each_engine_with, refused};

const POLICY: &str = r#"
schema = 1
[agents.billing-bot]
tools = ["send", "read", "erase", "note"]
[agents.other-bot]
tools = ["send", "note", "erase"]
[tools.send]
risk = "send"
parameters = { type = "object", required = ["to"], properties = { to = { type = "string" }, amount = { type = "number" } } }
[tools.send.arguments.to]
kind = "email"
[[tools.send.rules]]
id = "asked-for"
when = 'resolved.to.all(r, requested(r.address))'
verdict = "allow_audited"
reason = "the user named every recipient"
[[tools.send.rules]]
id = "private"
when = '"private-data" in run.labels'
verdict = "require_approval"
reason = "the run has read private data"
[tools.read]
risk = "read"
labels = ["private-data"]
parameters = { type = "object", properties = {} }
[tools.erase]
risk = "destructive"
parameters = { type = "object", properties = {} }
[tools.note]
risk = "read"
parameters = { type = "object", properties = {} }
"#;

fn key(agent: &str, run: &str) -> RunKey {
    RunKey { agent: agent.parse().unwrap(), run: run.parse().unwrap() }
}

fn own() -> RunKey {
    key("billing-bot", RUN)
}

fn below(parent: &str) -> Declaration {
    let parent = Some(ParentName { run: parent.parse().unwrap(), agent: None });
    Declaration { parent, ..Declaration::default() }
}

fn asking(text: &str) -> Declaration {
    Declaration { request: Some(text.to_owned()), ..Declaration::default() }
}

impl World {
    async fn declare(&self, run: &RunKey, declared: &Declaration) -> Result<(), Error> {
        self.app.declare_run(&self.desk, run, declared).await
    }

    /// A call of any run, of any of the two agents.
    fn call_in(&self, run: &RunKey, tool: &str, args: Value) -> DecideRequest {
        let mut request = self.call(tool, args);
        (request.call.key.agent, request.call.key.run) = (run.agent.clone(), run.run.clone());
        request
    }

    async fn decide_in(&self, run: &RunKey, tool: &str, args: Value) -> DecideAnswer {
        let caller = if run.agent.as_str() == "other-bot" { &self.other_bot } else { &self.bot };
        self.app.decide_call(caller, &self.call_in(run, tool, args)).await.unwrap()
    }

    async fn in_turn(&self, turn: u32, tool: &str, args: Value) -> (DecideRequest, DecideAnswer) {
        let mut request = self.call(tool, args);
        request.call.key.turn = turn;
        let answer = self.ask(&request).await.unwrap();
        (request, answer)
    }

    async fn status(&self, run: &RunKey) -> RunStatus {
        self.app.run(run).await.unwrap().status
    }
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, Error>) -> RunRefused {
    match answer {
        Err(Error::Run(refused)) => refused,
        other => panic!("{other:?}"),
    }
}

fn bland(reason: ReasonCode) -> RefusedCall {
    RefusedCall::Bland { reason }
}

#[tokio::test]
async fn a_mail_to_whom_the_user_named_passes_and_one_to_an_address_from_a_page_is_held() {
    on_each_engine_with(Setup::with_policy(POLICY), async |world: World| {
        held(world.decide("send", json!({ "to": "ana@acme.example" })).await);
        world.declare(&own(), &asking("Mail Ana@acme.example the list\n> and eve@evil.example")).await.unwrap();
        allowed(world.decide("send", json!({ "to": "ana@ACME.example" })).await);
        held(world.decide("send", json!({ "to": "eve@evil.example" })).await);
        held(world.decide("send", json!({ "to": "ana@acme.example, eve@evil.example" })).await);
        let mut elsewhere = world.call("send", json!({ "to": "ana@acme.example" }));
        elsewhere.call.key.run = "another".parse().unwrap();
        held(world.ask(&elsewhere).await.unwrap());
        world.app.add_to_request(&world.desk, &own(), "and bo@acme.example").await.unwrap();
        allowed(world.decide("send", json!({ "to": "bo@acme.example" })).await);
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn what_is_known_of_a_run_is_written_once() {
    on_each_engine(async |world: World| {
        let declared = Declaration { on_behalf_of: Some("cy".to_owned()), ..asking("refund 50") };
        for _ in 0..2 {
            world.declare(&own(), &declared).await.unwrap();
        }
        assert_eq!(world.entries_of(EventKind::RunDeclared).await.len(), 1);
        world.declare(&own(), &Declaration::default()).await.unwrap();
        let other = Declaration { on_behalf_of: Some("di".to_owned()), ..Declaration::default() };
        assert_eq!(refusal(world.declare(&own(), &other).await), RunRefused::WrittenOnce("on_behalf_of"));
        assert_eq!(refusal(world.declare(&own(), &asking("refund 5000")).await), RunRefused::WrittenOnce("request"));
        let entry = world.entries_of(EventKind::RunDeclared).await.remove(0).entry;
        assert!(entry.payload.is_some());
        assert_eq!((entry.agent, entry.run), (Some(own().agent), Some(own().run)));
        assert!(!json!(entry.detail).to_string().contains("cy"));
    })
    .await;
}

#[tokio::test]
async fn only_the_orchestrator_of_an_agent_writes_for_it() {
    on_each_engine(async |world: World| {
        let stranger = key("third-bot", RUN);
        assert_eq!(world.declare(&stranger, &Declaration::default()).await, Err(Error::NotFound));
        assert_eq!(world.app.declare_run(&world.bot, &own(), &asking("pay eve")).await, Err(Error::NotFound));
        assert_eq!(world.app.add_to_request(&world.bot, &own(), "pay eve").await, Err(Error::NotFound));
        assert_eq!(world.app.end_run(&world.bot, &own()).await, Err(Error::NotFound));
        let declared = Declaration {
            parent: Some(ParentName { run: "r".parse().unwrap(), agent: Some(stranger.agent) }),
            ..Declaration::default()
        };
        assert_eq!(world.declare(&own(), &declared).await, Err(Error::NotFound));
    })
    .await;
}

#[tokio::test]
async fn all_that_was_asked_is_bounded() {
    on_each_engine(async |world: World| {
        world.declare(&own(), &asking(&"a".repeat(40_000))).await.unwrap();
        world.app.add_to_request(&world.desk, &own(), &"b".repeat(25_536)).await.unwrap();
        assert_eq!(refusal(world.app.add_to_request(&world.desk, &own(), "c").await), RunRefused::RequestTooLong);
    })
    .await;
}

#[tokio::test]
async fn a_run_below_shares_what_the_family_touched_and_was_asked() {
    on_each_engine_with(Setup::with_policy(POLICY), async |world: World| {
        let child = key("other-bot", "child");
        world.declare(&own(), &asking("mail ana@acme.example")).await.unwrap();
        world.declare(&child, &below(RUN)).await.unwrap();
        world.declare(&child, &below(RUN)).await.unwrap();
        allowed(world.decide_in(&child, "send", json!({ "to": "ana@acme.example" })).await);
        allowed(world.decide("read", json!({})).await);
        held(world.decide_in(&child, "send", json!({ "to": "ana@acme.example" })).await);
        let reviewed = held(world.decide_in(&child, "erase", json!({})).await).approval;
        let reviewed = world.app.approval_for_reviewer(&world.ana, reviewed.id).await.unwrap();
        assert_eq!(reviewed.above, [own()]);
    })
    .await;
}

#[tokio::test]
async fn what_a_run_touched_before_it_came_under_another_is_the_familys_too() {
    on_each_engine_with(Setup::with_policy(POLICY), async |world: World| {
        let child = key("billing-bot", "child");
        allowed(world.decide_in(&child, "read", json!({})).await);
        world.declare(&own(), &asking("mail ana@acme.example")).await.unwrap();
        allowed(world.decide("send", json!({ "to": "ana@acme.example" })).await);
        world.declare(&child, &below(RUN)).await.unwrap();
        held(world.decide("send", json!({ "to": "ana@acme.example" })).await);
    })
    .await;
}

#[tokio::test]
async fn a_tool_must_be_granted_to_every_agent_above() {
    on_each_engine_with(Setup::with_policy(POLICY), async |world: World| {
        let parent = key("other-bot", "parent");
        let child = key("billing-bot", "child");
        world.declare(&parent, &Declaration::default()).await.unwrap();
        allowed(world.decide_in(&child, "read", json!({})).await);
        world.declare(&child, &below("parent")).await.unwrap();
        let answer = refused(world.decide_in(&child, "read", json!({})).await);
        assert_eq!(answer, bland(ReasonCode::ToolNotGranted));
        allowed(world.decide_in(&child, "note", json!({})).await);
    })
    .await;
}

#[tokio::test]
async fn a_run_finds_its_place_in_a_family_or_is_told_why_not() {
    on_each_engine(async |world: World| {
        let (a, b) = (key("billing-bot", "a"), key("billing-bot", "b"));
        assert_eq!(refusal(world.declare(&a, &below("b")).await), RunRefused::ParentUnknown);
        world.declare(&b, &Declaration::default()).await.unwrap();
        world.declare(&a, &below("b")).await.unwrap();
        assert_eq!(refusal(world.declare(&b, &below("a")).await), RunRefused::Family(FamilyFault::HasRunsBelow));
        assert_eq!(refusal(world.declare(&b, &below("b")).await), RunRefused::Family(FamilyFault::Circle));
        world.declare(&key("other-bot", "c"), &Declaration::default()).await.unwrap();
        assert_eq!(refusal(world.declare(&a, &below("c")).await), RunRefused::Family(FamilyFault::HasParent));
        world.declare(&key("billing-bot", "c"), &Declaration::default()).await.unwrap();
        assert_eq!(refusal(world.declare(&key("other-bot", "d"), &below("c")).await), RunRefused::ParentAmbiguous);
        // Agents that share the id of their runs: the other one's is meant.
        world.declare(&key("other-bot", "b"), &below("b")).await.unwrap();
        world.app.end_run(&world.desk, &b).await.unwrap();
        let late = key("billing-bot", "late");
        let parent = Some(ParentName { run: b.run.clone(), agent: Some(b.agent.clone()) });
        let declared = Declaration { parent, ..Declaration::default() };
        assert_eq!(refusal(world.declare(&late, &declared).await), RunRefused::Family(FamilyFault::ParentEnded));
    })
    .await;
}

#[tokio::test]
async fn the_end_of_a_run_reaches_below_and_withdraws_what_waits() {
    on_each_engine(async |world: World| {
        let child = key("other-bot", "child");
        world.declare(&own(), &Declaration::default()).await.unwrap();
        world.declare(&child, &below(RUN)).await.unwrap();
        let (request, pending) = world.hold("send_email", json!({ "to": "a" })).await;
        let (approved_call, approved) = world.approved("send_email", json!({ "to": "b" })).await;
        let of_child = held(world.decide_in(&child, "send_email", json!({ "to": "c" })).await).approval;
        for _ in 0..2 {
            world.app.end_run(&world.desk, &own()).await.unwrap();
        }
        for approval in [&pending, &approved, &of_child] {
            let State::Cancelled { by, .. } = world.stored(approval).await.state else { panic!("{approval:?}") };
            assert_eq!(by, Canceller::Stop);
        }
        assert_eq!(world.entries_of(EventKind::RunEnded).await.len(), 2);
        assert_eq!(refused(world.ask(&request).await.unwrap()), bland(ReasonCode::RunEnded));
        world.claim(&approved, &approved_call.call.args, None).await.unwrap_err();
        for tool in ["read_file", "drop_table"] {
            let args = if tool == "read_file" { json!({ "path": "a" }) } else { json!({ "name": "d" }) };
            assert_eq!(refused(world.decide_in(&own(), tool, args.clone()).await), bland(ReasonCode::RunEnded));
            assert_eq!(refused(world.decide_in(&child, tool, args).await), bland(ReasonCode::RunEnded));
        }
        assert_eq!(refusal(world.app.add_to_request(&world.desk, &own(), "more").await), RunRefused::Ended);
        assert_eq!(refusal(world.declare(&own(), &asking("more")).await), RunRefused::Ended);
        world.declare(&child, &below(RUN)).await.unwrap();
        assert_eq!(world.status(&child).await, RunStatus::Ended);
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn a_reviewer_stops_a_run_that_nobody_declared() {
    on_each_engine(async |world: World| {
        let unknown = world.app.stop_run(&world.bo, &own(), None).await;
        assert_eq!(unknown, Err(Error::NotFound));
        allowed(world.decide("read_file", json!({ "path": "a" })).await);
        assert_eq!(world.status(&own()).await, RunStatus::Running);
        world.app.stop_run(&world.bo, &own(), Some("it reads too much")).await.unwrap();
        let entry = world.entries_of(EventKind::RunStopped).await.remove(0).entry;
        assert_eq!(entry.actor.name, "bo");
        assert!(entry.payload.is_some());
        let answer = refused(world.decide("read_file", json!({ "path": "a" })).await);
        assert_eq!(answer, bland(ReasonCode::RunEnded));
        let mut other = world.call("read_file", json!({ "path": "a" }));
        other.call.key.run = "another".parse().unwrap();
        allowed(world.ask(&other).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_pause_binds_every_instance_and_those_below_until_an_admin_ends_it() {
    on_each_engine(async |world: World| {
        let other = world.another_instance(Setup::default()).await;
        let child = key("other-bot", "child");
        world.declare(&own(), &Declaration::default()).await.unwrap();
        world.declare(&child, &below(RUN)).await.unwrap();
        let (request, approval) = world.approved("send_email", json!({ "to": "a" })).await;
        let of_child = held(world.decide_in(&child, "send_email", json!({ "to": "b" })).await).approval;
        let agent = own().agent;
        for _ in 0..2 {
            world.app.pause_agent(&world.bo, &agent, Some("odd")).await.unwrap();
        }
        for approval in [&approval, &of_child] {
            assert!(matches!(world.stored(approval).await.state, State::Cancelled { by: Canceller::Pause, .. }));
        }
        other.claim(&approval, &request.call.args, None).await.unwrap_err();
        for run in [own(), key("billing-bot", "another"), child.clone()] {
            let answer = refused(other.decide_in(&run, "read_file", json!({ "path": "a" })).await);
            assert_eq!(answer, bland(ReasonCode::AgentPaused), "{run:?}");
        }
        allowed(other.decide_in(&key("other-bot", "own"), "read_file", json!({ "path": "a" })).await);
        for _ in 0..2 {
            other.app.resume_agent(&world.ana.caller, &agent).await.unwrap();
        }
        assert_eq!(held(world.ask(&request).await.unwrap()).approval.attempt, 2);
        allowed(world.decide_in(&child, "read_file", json!({ "path": "a" })).await);
        assert_eq!(world.entries_of(EventKind::AgentPaused).await.len(), 1);
        assert_eq!(world.entries_of(EventKind::AgentResumed).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_stop_and_a_claim_at_once_leave_the_call_run_or_withdrawn_and_never_both() {
    on_each_engine(async |world: World| {
        let world = Arc::new(world);
        for name in 0..6 {
            let run = key("billing-bot", &format!("run-{name}"));
            let request = world.call_in(&run, "send_email", json!({ "to": "a" }));
            let approval = held(world.ask(&request).await.unwrap()).approval;
            world.approve(&world.ana, &approval).await.unwrap();
            let (claiming, stopping) = (Arc::clone(&world), Arc::clone(&world));
            let id = approval.id;
            let claim = tokio::spawn(async move {
                let presented = Presented { args: &request.call.args, claim: None };
                claiming.app.claim_call(&claiming.bot, id, &presented).await
            });
            let stop = tokio::spawn(async move { stopping.app.stop_run(&stopping.ana, &run, None).await });
            stop.await.unwrap().unwrap();
            let claimed = claim.await.unwrap().is_ok();
            let state = world.stored(&approval).await.state;
            assert_eq!(claimed, matches!(state, State::Executed(_)), "{state:?}");
            assert_eq!(!claimed, matches!(state, State::Cancelled { .. }), "{state:?}");
        }
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn a_stop_and_an_approve_at_once_leave_nothing_to_claim() {
    on_each_engine(async |world: World| {
        let world = Arc::new(world);
        for name in 0..6 {
            let run = key("billing-bot", &format!("run-{name}"));
            let request = world.call_in(&run, "send_email", json!({ "to": "a" }));
            let approval = held(world.ask(&request).await.unwrap()).approval;
            let (approving, stopping, held) = (Arc::clone(&world), Arc::clone(&world), approval.clone());
            let approve = tokio::spawn(async move { approving.approve(&approving.ana, &held).await });
            let stop = tokio::spawn(async move { stopping.app.stop_run(&stopping.bo, &run, None).await });
            stop.await.unwrap().unwrap();
            // First or too late.
            let _ = approve.await.unwrap();
            assert!(matches!(world.stored(&approval).await.state, State::Cancelled { by: Canceller::Stop, .. }));
            world.claim(&approval, &request.call.args, None).await.unwrap_err();
        }
    })
    .await;
}

#[tokio::test]
async fn of_ten_workers_exactly_one_takes_a_ready_run_up() {
    on_each_engine(async |world: World| {
        world.approved("send_email", json!({ "to": "a" })).await;
        let world = Arc::new(world);
        let workers = (0..10).map(|_| {
            let world = Arc::clone(&world);
            tokio::spawn(async move { world.app.resume_run(&world.bot, &own()).await })
        });
        let mut won = 0;
        for worker in workers.collect::<Vec<_>>() {
            match worker.await.unwrap() {
                Ok(resumed) => {
                    won += 1;
                    assert_eq!(resumed.view.status, RunStatus::Running);
                }
                other => assert!(matches!(refusal(other), RunRefused::Leased { .. })),
            }
        }
        assert_eq!(won, 1);
        assert_eq!(world.entries_of(EventKind::RunResumed).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_run_is_ready_again_when_its_worker_is_not_heard_of() {
    on_each_engine(async |world: World| {
        assert_eq!(world.app.resume_run(&world.bot, &own()).await, Err(Error::NotFound));
        let (_, approval) = world.hold("send_email", json!({ "to": "a" })).await;
        let waiting = refusal(world.app.resume_run(&world.bot, &own()).await);
        assert_eq!(waiting, RunRefused::NotReady(RunStatus::AwaitingApproval));
        world.deny(&world.ana, &approval, Some("no")).await.unwrap();
        world.app.resume_run(&world.bot, &own()).await.unwrap();
        world.clock.advance(LEASE - Duration::from_micros(1));
        assert_eq!(world.status(&own()).await, RunStatus::Running);
        world.clock.advance(Duration::from_micros(1));
        assert_eq!(world.status(&own()).await, RunStatus::Ready);
        world.app.resume_run(&world.bot, &own()).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn parking_what_comes_next_ends_the_turn_until_something_else_is_held() {
    on_each_engine(async |world: World| {
        let (_, approval) = world.hold("send_email", json!({ "to": "a" })).await;
        let park = async |replaces: Option<IfMatch>| {
            world.app.park_run(&world.bot, &own(), "text/plain", b"state", replaces.as_ref()).await
        };
        let first = park(None).await.unwrap();
        world.approve(&world.ana, &approval).await.unwrap();
        assert_eq!(world.status(&own()).await, RunStatus::Ready);
        world.app.resume_run(&world.bot, &own()).await.unwrap();
        assert_eq!(refusal(park(None).await), RunRefused::NothingMatched);
        assert_eq!(refusal(park(Some(IfMatch::OneOf(vec!["other".to_owned()]))).await), RunRefused::ParkedDiffers);
        let second = park(Some(IfMatch::OneOf(vec![first.clone()]))).await.unwrap();
        assert_ne!(first, second);
        world.clock.advance(LEASE);
        assert_eq!(world.status(&own()).await, RunStatus::Running);
        // The same turn, for stacks that do not count them.
        let (_, next) = world.hold("send_email", json!({ "to": "b" })).await;
        assert_eq!(world.status(&own()).await, RunStatus::AwaitingApproval);
        world.approve(&world.ana, &next).await.unwrap();
        assert_eq!(world.status(&own()).await, RunStatus::Ready);
        world.app.end_run(&world.desk, &own()).await.unwrap();
        assert_eq!(refusal(park(Some(IfMatch::Anything)).await), RunRefused::Ended);
        assert_eq!(refusal(world.app.resume_run(&world.bot, &own()).await), RunRefused::Ended);
    })
    .await;
}

#[tokio::test]
async fn an_approval_outlives_the_process_that_asked_for_it() {
    on_each_engine(async |world: World| {
        let (request, answer) = world.in_turn(4, "send_email", json!({ "to": "a" })).await;
        let approval = held(answer).approval;
        world.app.park_run(&world.bot, &own(), "application/json", b"{\"turn\":4}", None).await.unwrap();
        let next = world.another_instance(Setup::default()).await;
        drop(world);
        next.approve(&next.ana, &approval).await.unwrap();
        let page = next.app.list_runs(&own().agent, Some(RunStatus::Ready), None, 10, Duration::ZERO).await.unwrap();
        assert_eq!(page.runs.len(), 1);
        let resumed = next.app.resume_run(&next.bot, &own()).await.unwrap().view;
        assert_eq!(resumed.parked.unwrap().body, b"{\"turn\":4}");
        let [call] = resumed.calls.as_slice() else { panic!("{:?}", resumed.calls) };
        assert_eq!((&call.tool_use_id, call.verdict), (&request.call.key.tool_use_id, Verdict::RequireApproval));
        next.claim(&approval, &request.call.args, None).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn only_the_newest_turn_counts() {
    on_each_engine(async |world: World| {
        let (_, answer) = world.in_turn(1, "send_email", json!({ "to": "a" })).await;
        held(answer);
        assert_eq!(world.status(&own()).await, RunStatus::AwaitingApproval);
        allowed(world.in_turn(2, "read_file", json!({ "path": "a" })).await.1);
        assert_eq!(world.status(&own()).await, RunStatus::Running);
        let view = world.app.run(&own()).await.unwrap();
        assert_eq!(view.known.newest.unwrap().turn, 2);
        assert_eq!(view.calls.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn whoever_waits_for_a_ready_run_is_told_at_once() {
    on_each_engine(async |world: World| {
        let (_, approval) = world.hold("send_email", json!({ "to": "a" })).await;
        let world = Arc::new(world);
        let waiting = {
            let world = Arc::clone(&world);
            let (agent, wait) = (own().agent, Duration::from_secs(60));
            tokio::spawn(async move { world.app.list_runs(&agent, Some(RunStatus::Ready), None, 10, wait).await })
        };
        tokio::task::yield_now().await;
        world.approve(&world.ana, &approval).await.unwrap();
        let page = waiting.await.unwrap().unwrap();
        assert_eq!(page.runs[0].0.run.key, own());
    })
    .await;
}
