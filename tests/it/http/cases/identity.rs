//! Tools that are called by other names than their own.

use countersign::domain::audit::entry::EventKind;
use serde_json::json;

use super::{Desk, with};

const POLICY: &str = r#"
[tools.write_file]
risk = "draft"
aliases = ["mcp__files__write_file", "functions.write_file"]
parameters = { type = "object", required = ["path"], properties = { path = { type = "string" } } }
[tools.write_file.arguments.path]
kind = "path"
base = "/srv/w"
never = ["*.lock"]

[tools.crm_delete]
risk = "send"
aliases = ["crm.delete"]
parameters = { type = "object", required = ["id"], properties = { id = { type = "string" } } }

[tools.billing_delete]
risk = "send"
aliases = ["billing.delete"]
parameters = { type = "object", required = ["id"], properties = { id = { type = "string" } } }

[tools.shell]
risk = "draft"
parameters = { type = "object", required = ["line"], properties = { line = { type = "string" } } }
[tools.shell.arguments.line]
kind = "command"
"#;

#[tokio::test]
async fn a_name_that_is_nearly_a_tools_is_no_tool() {
    let desk = Desk::under(POLICY).await;
    for name in [
        "write.file",
        "Write_File",
        "WRITE_FILE",
        "write_file ",
        "write-file",
        "mcp__files__write_fil\u{435}",
        "\u{455}hell",
        "shell\u{200b}",
        "mcp__other__write_file",
        "bing_search",
    ] {
        let entry = desk.expect(name, json!({ "path": "a" }), 403, "unknown_tool").await;
        assert_eq!(entry.tool.as_deref(), Some(name));
    }
}

#[tokio::test]
async fn the_same_rules_hold_under_every_declared_name_and_the_name_that_was_used_is_kept() {
    let desk = Desk::under(POLICY).await;
    for name in ["write_file", "mcp__files__write_file", "functions.write_file"] {
        desk.allowed(name, json!({ "path": "a.txt" })).await;
        let entry = desk.expect(name, json!({ "path": "x/cargo.lock" }), 403, "constraint").await;
        assert_eq!(entry.tool.as_deref(), Some("write_file"));
        let presented = entry.detail.get("presented_as").and_then(|name| name.as_str());
        assert_eq!(presented, (name != "write_file").then_some(name));
    }
}

#[tokio::test]
async fn an_approval_of_one_tool_is_none_of_another_that_is_called_alike() {
    let desk = Desk::under(POLICY).await;
    let asked = desk.call("crm.delete", json!({ "id": "7" }));
    let held = desk.send(&asked).await.json();
    let approval = format!("/approvals/{}", held["approval"]["id"].as_str().unwrap());
    let decision = json!({ "decision": "approve", "args_hash": held["args_hash"] });
    assert_eq!(desk.service.post("ana", &format!("{approval}/decision"), &decision).await.status, 200);

    let other = with(asked.clone(), json!({ "tool": "billing.delete", "claim": true }));
    assert_eq!(desk.send(&other).await.problem(409), "tool_use_id_reused");
    assert_eq!(desk.service.logged(EventKind::CallReused).await.len(), 1);
    let same = with(asked, json!({ "tool": "crm_delete", "claim": true }));
    assert_eq!(desk.send(&same).await.status, 200);
}

#[tokio::test]
async fn arguments_in_another_harness_shape_do_not_fit() {
    let desk = Desk::under(POLICY).await;
    for args in [
        json!({ "tool_input": { "line": "rm x" } }),
        json!({ "toolCall": { "args": { "line": "rm x" } } }),
        json!({ "line": "ls", "LINE": "rm x" }),
        json!({ "line": ["rm", "x"] }),
    ] {
        desk.expect("shell", args, 422, "invalid_arguments").await;
    }
}
