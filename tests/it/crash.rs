//! A process that is killed: whatever it has answered is there after a restart and nothing runs twice, on both engines.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use countersign::domain::time::Timestamp;

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::{
    installation::{Installation, PUBLIC_URL},
    process::{Caller, QUICKSTART, approval_of, external_mail},
    tool_server::{NoEffect, ToolServer},
    world::arguments,
};

/// Killed after each step of a held call's life, the next step goes on from there.
async fn a_held_call_survives_a_kill_after_every_step(installation: Installation) {
    let service = installation.start();
    let (status, held) =
        Caller::new(&service, &installation.agent_key).decide("send_email", external_mail(), "call-1").await;
    assert_eq!(status, StatusCode::ACCEPTED);
    service.kill();

    let service = installation.start();
    let (status, _) = Caller::new(&service, &installation.reviewer_key).approve(&held).await;
    assert_eq!(status, StatusCode::OK);
    service.kill();

    let service = installation.start();
    let agent = Caller::new(&service, &installation.agent_key);
    let (status, claimed) = agent.claim(&held, external_mail(), "claim-1").await;
    assert_eq!(status, StatusCode::OK);
    service.kill();

    let service = installation.start();
    let agent = Caller::new(&service, &installation.agent_key);
    let (status, again) = agent.claim(&held, external_mail(), "claim-1").await;
    assert_eq!(status, StatusCode::OK, "who lost the answer asks again with the claim's id");
    assert_eq!(again["lease_expires_at"], claimed["lease_expires_at"]);
    let (status, _) = agent.claim(&held, external_mail(), "claim-2").await;
    assert_eq!(status, StatusCode::CONFLICT, "and nobody else gets it");
    let outcome = format!("/approvals/{}/outcome", approval_of(&held));
    let (status, _) = agent.post(&outcome, json!({ "claim_id": "claim-1", "status": "succeeded" })).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    service.kill();

    let service = installation.start();
    let agent = Caller::new(&service, &installation.agent_key);
    let (status, _) = agent.decide("send_email", external_mail(), "call-1").await;
    assert_eq!(status, StatusCode::CONFLICT, "it is executed, and never runs again");
    service.kill();
    installation.end().await;
}

/// Killed in the middle of many calls, it has lost none that it had answered.
async fn every_answered_decision_survives_a_kill(installation: Installation) {
    const CALLERS: u32 = 8;
    let service = installation.start();
    let (answers, mut answered) = tokio::sync::mpsc::unbounded_channel();
    let url = service.url.clone();
    for caller in 0..CALLERS {
        let (answers, url, key) = (answers.clone(), url.clone(), installation.agent_key.clone());
        tokio::spawn(async move {
            let http = reqwest::Client::new();
            for call in 0.. {
                let body = json!({
                    "tool": "add_note",
                    "args": { "order_id": "AB-1234", "text": "a note" },
                    "run_id": "run-1",
                    "tool_use_id": format!("call-{caller}-{call}"),
                });
                let sent = http.post(format!("{url}/decide")).bearer_auth(&key).json(&body).send().await;
                // The process is gone.
                let Ok(response) = sent else { return };
                let Ok(answer) = response.json::<Value>().await else { return };
                answers.send(answer["decision_id"].as_str().unwrap().to_owned()).unwrap();
            }
        });
    }
    drop(answers);
    let mut decisions = Vec::new();
    while decisions.len() < 200 {
        decisions.push(answered.recv().await.unwrap());
    }
    service.kill();
    while let Some(decision) = answered.recv().await {
        decisions.push(decision);
    }

    let service = installation.start();
    let auditor = Caller::new(&service, &installation.auditor_key);
    for decision in decisions {
        let (status, _) = auditor.get(&format!("/decisions/{decision}")).await;
        assert_eq!(status, StatusCode::OK, "{decision} was answered and is gone");
    }
    service.kill();
    installation.end().await;
}

#[tokio::test]
async fn a_held_call_survives_a_kill_after_every_step_on_sqlite() {
    a_held_call_survives_a_kill_after_every_step(Installation::on_sqlite(QUICKSTART)).await;
}

#[tokio::test]
async fn a_held_call_survives_a_kill_after_every_step_on_postgres() {
    a_held_call_survives_a_kill_after_every_step(Installation::on_postgres(QUICKSTART).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answered_decision_survives_a_kill_on_sqlite() {
    every_answered_decision_survives_a_kill(Installation::on_sqlite(QUICKSTART)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answered_decision_survives_a_kill_on_postgres() {
    every_answered_decision_survives_a_kill(Installation::on_postgres(QUICKSTART).await).await;
}

/// How far a held call has come, as far as its stack was told.
#[derive(Clone, Debug)]
enum Step {
    Decide,
    Approve(Value),
    Claim(Value),
    Report(Value),
    Done(Value),
}

/// One call and the stack that drives it: after a lost answer it sends the same again.
#[derive(Clone, Debug)]
struct Driven {
    number: u32,
    step: Step,
}

/// What all drivers of one life of the process share.
struct Life {
    agent: Caller,
    reviewer: Caller,
    tools: Arc<ToolServer>,
    /// Answers until the kill.
    left: AtomicU32,
    enough: Notify,
}

impl Driven {
    fn args(&self) -> Value {
        let mut args = external_mail();
        args["subject"] = format!("Order {}", self.number).into();
        args
    }

    fn call(&self) -> Value {
        let run = format!("run-{}", self.number);
        json!({ "tool": "send_email", "args": self.args(), "run_id": run, "tool_use_id": "call-1" })
    }

    /// Goes on until the call is done or the process is gone.
    async fn drive(mut self, life: Arc<Life>) -> Self {
        while let Some(next) = self.next(&life).await {
            self.step = next;
            if life.left.fetch_sub(1, Ordering::SeqCst) == 1 {
                life.enough.notify_one();
            }
        }
        self
    }

    /// The step after this one; `None` when it is the last, or nothing answers any more.
    async fn next(&self, life: &Life) -> Option<Step> {
        match &self.step {
            Step::Decide => {
                let (status, held) = life.agent.try_post("/decide", self.call()).await?;
                assert_eq!(status, StatusCode::ACCEPTED, "{held}");
                Some(Step::Approve(held))
            }
            Step::Approve(held) => {
                let path = format!("/approvals/{}/decision", approval_of(held));
                let body = json!({ "decision": "approve", "args_hash": held["args_hash"] });
                let (status, answer) = life.reviewer.try_post(&path, body).await?;
                assert_eq!(status, StatusCode::OK, "{answer}");
                Some(Step::Claim(held.clone()))
            }
            Step::Claim(held) => {
                let path = format!("/approvals/{}/claim", approval_of(held));
                let body = json!({ "args": self.args(), "claim_id": format!("claim-{}", self.number) });
                let (status, claimed) = life.agent.try_post(&path, body).await?;
                assert_eq!(status, StatusCode::OK, "{claimed}");
                let permit = claimed["permit"].as_str().unwrap();
                let ran = life.tools.run(permit, "send_email", &arguments(self.args()), now());
                assert!(matches!(ran, Ok(()) | Err(NoEffect::UsedBefore)), "{ran:?}");
                Some(Step::Report(held.clone()))
            }
            Step::Report(held) => {
                let path = format!("/approvals/{}/outcome", approval_of(held));
                let body = json!({ "claim_id": format!("claim-{}", self.number), "status": "succeeded" });
                let (status, answer) = life.agent.try_post(&path, body).await?;
                assert_eq!(status, StatusCode::NO_CONTENT, "{answer}");
                Some(Step::Done(held.clone()))
            }
            Step::Done(_) => None,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the process under test has the clock of the machine")]
fn now() -> Timestamp {
    let micros = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
    Timestamp::from_micros(i64::try_from(micros).unwrap())
}

/// Killed again and again while many calls are on their way, each at another step.
async fn whatever_is_on_its_way_when_the_process_is_killed_runs_once(installation: Installation) {
    const CALLS: u32 = 12;
    let mut calls: Vec<Driven> = (0..CALLS).map(|number| Driven { number, step: Step::Decide }).collect();
    let service = installation.start();
    let (_, jwks) = Caller::new(&service, &installation.agent_key).get("/.well-known/jwks.json").await;
    let tools = Arc::new(ToolServer::trusting(PUBLIC_URL, &jwks));
    service.kill();

    let mut lives = 0;
    while calls.iter().any(|call| !matches!(call.step, Step::Done(_))) {
        lives += 1;
        let service = installation.start();
        let life = Arc::new(Life {
            agent: Caller::new(&service, &installation.agent_key),
            reviewer: Caller::new(&service, &installation.reviewer_key),
            tools: Arc::clone(&tools),
            // Another number each time, so that the kill falls at other places.
            left: AtomicU32::new(5 + lives % 4),
            enough: Notify::new(),
        });
        let driving: Vec<_> = calls.into_iter().map(|call| tokio::spawn(call.drive(Arc::clone(&life)))).collect();
        let all_done = async {
            let mut driven = Vec::new();
            for call in driving {
                driven.push(call.await.unwrap());
            }
            driven
        };
        let mut all_done = std::pin::pin!(all_done);
        calls = tokio::select! {
            // The last life ends with its work.
            driven = &mut all_done => driven,
            () = life.enough.notified() => {
                service.kill();
                all_done.await
            }
        };
    }
    assert!(lives > 3, "it was killed {lives} times");

    let times = tools.times();
    let service = installation.start();
    let agent = Caller::new(&service, &installation.agent_key);
    for call in &calls {
        let Step::Done(held) = &call.step else { panic!("{call:?}") };
        assert_eq!(times.get(approval_of(held)), Some(&1), "{call:?}");
        let (status, answer) = agent.post("/decide", call.call()).await;
        assert_eq!((status, &answer["outcome"]), (StatusCode::CONFLICT, &json!("succeeded")), "{answer}");
    }
    assert_eq!(times.len(), calls.len());
    service.kill();
    installation.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_on_its_way_when_the_process_is_killed_runs_once_on_sqlite() {
    whatever_is_on_its_way_when_the_process_is_killed_runs_once(Installation::on_sqlite(QUICKSTART)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_on_its_way_when_the_process_is_killed_runs_once_on_postgres() {
    whatever_is_on_its_way_when_the_process_is_killed_runs_once(Installation::on_postgres(QUICKSTART).await).await;
}
