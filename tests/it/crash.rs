//! A process that is killed: whatever it has answered is there after a restart, on both engines.

use reqwest::StatusCode;
use serde_json::json;

use crate::support::{
    installation::Installation,
    process::{Caller, QUICKSTART, approval_of, external_mail},
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
                let Ok(answer) = response.json::<serde_json::Value>().await else { return };
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
