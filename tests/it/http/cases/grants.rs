//! Grants that let through more than their maker saw: beginnings of words, programs without what they are told.

use serde_json::{Value, json};

use super::{Desk, with};

const POLICY: &str = r#"
[tools.remove]
risk = "send"
parameters = { type = "object", required = ["path"], properties = { path = { type = "string", maxLength = 200 }, recursive = { type = "boolean" } } }

[tools.fetch]
risk = "send"
parameters = { type = "object", required = ["program", "url"], properties = { program = { type = "string", maxLength = 50 }, url = { type = "string", maxLength = 500 } } }

[tools.shell]
risk = "send"
parameters = { type = "object", required = ["line"], properties = { line = { type = "string" } } }
[tools.shell.arguments.line]
kind = "command"

[tools.erase]
risk = "destructive"
parameters = { type = "object", properties = {} }
"#;

impl Desk {
    /// Grants what `when` says of `tool` in the run `run-g`; the status of the answer and its code.
    async fn grant(&self, tool: &str, when: &str) -> (u16, Value) {
        let body =
            json!({ "agent": "bot", "run_id": "run-g", "tool": tool, "when": when, "ttl": "1h", "max_uses": 50 });
        let answer = self.service.post("ana", "/grants", &body).await;
        let code = if answer.status == 201 { Value::Null } else { answer.json()["code"].clone() };
        (answer.status, code)
    }

    /// The status of a new call in that run.
    async fn in_granted_run(&self, tool: &str, args: Value) -> u16 {
        let call = self.call(tool, args);
        let id = call["run_id"].clone();
        self.send(&with(call, json!({ "run_id": "run-g", "tool_use_id": id }))).await.status
    }
}

#[tokio::test]
async fn a_grant_for_one_value_is_none_for_what_begins_like_it() {
    let desk = Desk::under(POLICY).await;
    assert_eq!(desk.grant("remove", "args.path == \"/tmp/one\"").await.0, 201);
    assert_eq!(desk.in_granted_run("remove", json!({ "path": "/tmp/one" })).await, 200);
    for path in ["/tmp/one-old", "/tmp/one && x", "/tmp/one\n", " /tmp/one", "/tmp/ONE", "/tmp/one/"] {
        assert_eq!(desk.in_granted_run("remove", json!({ "path": path })).await, 202, "{path:?}");
    }
    // In another run it is none at all.
    desk.held("remove", json!({ "path": "/tmp/one" })).await;
}

#[tokio::test]
async fn a_grant_that_names_what_is_run_with_what_covers_no_other_address() {
    let desk = Desk::under(POLICY).await;
    let when = r#"args.program == "curl" && args.url == "https://a.example""#;
    assert_eq!(desk.grant("fetch", when).await.0, 201);
    assert_eq!(desk.in_granted_run("fetch", json!({ "program": "curl", "url": "https://a.example" })).await, 200);
    for url in ["https://b.example", "https://a.example.evil.test", "https://a.example/../b"] {
        assert_eq!(desk.in_granted_run("fetch", json!({ "program": "curl", "url": url })).await, 202, "{url}");
    }
}

#[tokio::test]
async fn no_grant_lifts_what_runs_commands_or_destroys() {
    let desk = Desk::under(POLICY).await;
    let refused = (403, json!("grant_too_wide"));
    assert_eq!(desk.grant("shell", "size(resolved.line.words) > 0").await, refused);
    assert_eq!(desk.grant("erase", "agent.id == \"bot\"").await, refused);
    assert_eq!(desk.in_granted_run("shell", json!({ "line": "busybox sh -c 'uptime'" })).await, 202);
}
