//! `examples/wiring`: what an agent's own code adds to its loop, run as a reader would run it.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{
    installation::Installation,
    process::{Caller, Lines, QUICKSTART},
};

const GATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/wiring/gate.py");

async fn a_loop_runs_what_is_permitted_once_and_tells_what_came_of_it(installation: Installation) {
    let service = installation.start();
    let mut playing = Command::new("python3")
        .arg(GATE)
        .args(["--url", &service.url, "--key", &installation.agent_key])
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is needed to run the example; install it");
    let printed = Lines::of(playing.stdout.take().unwrap());
    printed.with("get_order: {'order': 'AB-1234', 'status': 'shipped'}");
    printed.with("read_file: tool unavailable");
    printed.with("send_email: sent to bo@acme.example");
    printed.with("waiting for AP-");

    let reviewer = Caller::new(&service, &installation.reviewer_key);
    let (_, page) = reviewer.get("/approvals?state=pending").await;
    let held = &page["items"][0];
    let decision = serde_json::json!({ "decision": "approve", "args_hash": held["args_hash"] });
    let path = format!("/approvals/{}", held["id"].as_str().unwrap());
    assert_eq!(reviewer.post(&format!("{path}/decision"), decision).await.0, 200);
    printed.with("send_email: sent to ana@customer.example");
    assert!(playing.wait().unwrap().success());

    assert_eq!(reviewer.get(&path).await.1["state"], "executed");
    let auditor = Caller::new(&service, &installation.auditor_key);
    let (_, page) = auditor.get("/audit?event=outcome").await;
    let told: Vec<&Value> = page["items"].as_array().unwrap().iter().map(|entry| &entry["tool"]).collect();
    assert_eq!(told, ["send_email", "send_email"], "{page:#}");
    service.kill();
    installation.end().await;
}

#[tokio::test]
async fn a_loop_runs_what_is_permitted_once_and_tells_what_came_of_it_on_sqlite() {
    a_loop_runs_what_is_permitted_once_and_tells_what_came_of_it(Installation::on_sqlite(QUICKSTART)).await;
}

#[tokio::test]
async fn a_loop_runs_what_is_permitted_once_and_tells_what_came_of_it_on_postgres() {
    let installation = Installation::on_postgres(QUICKSTART).await;
    a_loop_runs_what_is_permitted_once_and_tells_what_came_of_it(installation).await;
}
