//! Work that is handed on, and a store that somebody else keeps busy.

use axum::http::Method;
use countersign::domain::audit::entry::EventKind;
use serde_json::{Value, json};

use super::{Desk, with};

const POLICY: &str = r#"
[agents.bot]
tools = ["look", "restart"]
[agents.other-bot]
tools = ["look", "wipe"]
[tools.look]
risk = "read"
parameters = { type = "object", properties = {} }
[tools.restart]
risk = "send"
parameters = { type = "object", properties = {} }
[tools.wipe]
risk = "send"
parameters = { type = "object", properties = {} }
"#;

#[tokio::test]
async fn a_sub_agent_may_use_what_it_and_every_agent_above_it_may() {
    let desk = Desk::under(POLICY).await;
    desk.service.add_orchestrator("desk", &["bot", "other-bot"]).await;
    for (run, body) in [
        ("above", json!({ "agent": "bot" })),
        ("below", json!({ "agent": "other-bot", "parent_run_id": "above", "parent_agent": "bot" })),
    ] {
        let request = desk.service.request(Method::PUT, &format!("/runs/{run}")).key("desk").json(&body);
        let answer = request.send().await;
        assert_eq!(answer.status, 204, "{answer:?}");
    }
    let status = async |tool: &str, id: &str| {
        let call = json!({ "tool": tool, "args": {}, "run_id": "below", "tool_use_id": id });
        desk.service.post("other-bot", "/decide", &call).await.status
    };
    assert_eq!(status("look", "c1").await, 200);
    assert_eq!(status("wipe", "c2").await, 403, "the agent above may not");
    assert_eq!(status("restart", "c3").await, 403, "it may not itself");
    let denied = desk.service.logged(EventKind::Decision).await;
    let reasons: Vec<_> = denied.iter().filter_map(|sealed| sealed.entry.reason_code.as_deref()).collect();
    assert_eq!(reasons, ["default", "tool_not_granted", "tool_not_granted"]);
    // Alone, it may.
    let alone = with(desk.call("wipe", json!({})), json!({ "run_id": "alone" }));
    assert_eq!(desk.service.post("other-bot", "/decide", &alone).await.status, 202);
}

#[tokio::test]
async fn a_store_that_somebody_else_keeps_busy_permits_nothing_and_goes_on_after() {
    let desk = Desk::under(POLICY).await;
    let call = desk.call("look", json!({}));
    let lock = desk.service.lock_writes().await;
    let answer = desk.send(&call).await;
    let told: Value = answer.json();
    assert_eq!((answer.status, &told["error"]), (503, &json!("tool unavailable")));
    // Reading waits for nobody.
    assert_eq!(desk.service.get("iris", "/audit").await.status, 200);
    drop(lock);
    assert_eq!(desk.send(&call).await.status, 200);
    assert_eq!(desk.service.logged(EventKind::Decision).await.len(), 1);
}
