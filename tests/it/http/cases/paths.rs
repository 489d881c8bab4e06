//! Paths that mean another file than they seem to.

use std::{fs, os::unix::fs::symlink};

use countersign::domain::audit::entry::EventKind;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::Desk;

const POLICY: &str = r#"
[tools.read]
risk = "read"
parameters = { type = "object", required = ["path"], properties = { path = { type = "string" } } }
[tools.read.arguments.path]
kind = "path"
base = "/srv/desk"
roots = ["inbox", "reports"]
never = ["*.key", ".vault", ".vault/**", "reports/payroll/**", "*secret*"]

[tools.write]
risk = "draft"
default = "require_approval"
parameters = { type = "object", required = ["path"], properties = { path = { type = "string" } } }
[tools.write.arguments.path]
kind = "path"
base = "/srv/desk"
[[tools.write.rules]]
id = "top-of-the-inbox"
when = 'glob(resolved.path.path, "/srv/desk/inbox/*")'
verdict = "allow"
reason = "notes lie there"

[tools.move]
risk = "draft"
parameters = { type = "object", required = ["files"], properties = { files = { type = "array", items = { type = "object", properties = { from = { type = "string" }, to = { type = "string" } } } } } }
[tools.move.arguments."/files/*/from"]
kind = "path"
base = "/srv/desk"
roots = ["inbox"]
[tools.move.arguments."/files/*/to"]
kind = "path"
base = "/srv/desk"
roots = ["reports"]

[tools.run]
risk = "draft"
parameters = { type = "object", required = ["argv"], properties = { argv = { type = "array", items = { type = "string" } }, cwd = { type = "string" } } }
[tools.run.arguments.argv]
kind = "command"
[tools.run.arguments.cwd]
kind = "path"
base = "/"
never = ["/boot/**"]
"#;

fn path(path: &str) -> Value {
    json!({ "path": path })
}

#[tokio::test]
async fn what_is_never_permitted_is_not_permitted_in_absolute_form_or_other_case_either() {
    let desk = Desk::under(POLICY).await;
    for forbidden in [
        "reports/host.key",
        "/srv/desk/reports/host.key",
        "/srv/desk/./reports//host.key",
        "reports/HOST.KEY",
        "inbox/.vault",
        "inbox/.vault/a/b",
        "inbox/x/.Vault/a",
        "reports/payroll",
        "reports/payroll/2025/may",
        "inbox/old/reports/payroll/may",
        "inbox/my-Secret-plan.md",
    ] {
        desk.denied("read", path(forbidden), "constraint", "path: never").await;
    }
    desk.allowed("read", path("/srv/desk/reports/2025.txt")).await;
}

#[tokio::test]
async fn a_root_is_a_directory_and_not_the_beginning_of_a_name() {
    let desk = Desk::under(POLICY).await;
    for outside in ["inbox-old/a", "reports.bak", "inboxes", ".", "other/a"] {
        desk.denied("read", path(outside), "constraint", "path: outside_roots").await;
    }
    for outside in ["/srv/desk-evil/inbox/a", "/srv", "/etc/passwd", "/srv/other/../desk/inbox/a"] {
        desk.denied("read", path(outside), "constraint", "path: outside_base").await;
    }
}

#[tokio::test]
async fn a_way_out_is_denied_wherever_it_begins() {
    let desk = Desk::under(POLICY).await;
    for out in [
        "../../root/.bashrc",
        "inbox/../../x",
        "inbox/../reports/../../desk2/a",
        "inbox/..",
        "/srv/desk/../desk/inbox/a",
    ] {
        desk.denied("read", path(out), "constraint", "path: outside_roots").await;
    }
    desk.allowed("read", path("inbox/../reports/a.txt")).await;
}

#[tokio::test]
async fn spellings_that_another_reader_takes_for_another_path_are_denied() {
    let desk = Desk::under(POLICY).await;
    for (spelt, fault) in [
        ("inbox\\..\\..\\x", "backslash"),
        ("e:\\Shared\\Books\\q1.xlsx", "backslash"),
        ("E:/Shared/Books/q1.xlsx", "colon"),
        ("//fileserver/share/a", "network_path"),
        ("inbox/%2e%2e/%2e%2e/x", "percent_encoded"),
        ("inbox%2fa", "percent_encoded"),
        ("~/a", "tilde"),
        ("inbox/a.txt.", "trailing_dot_or_space"),
        ("inbox/... /a", "trailing_dot_or_space"),
        ("inbox/a.txt::$DATA", "colon"),
        ("inbox/PROGRA~1", "short_name"),
        ("inbox\u{ff0f}..\u{ff0f}a", "lookalike_separator"),
        ("", "empty"),
    ] {
        desk.denied("read", path(spelt), "unresolvable_argument", &format!("path: {fault}")).await;
    }
    for hidden in ["inbox/a\0b", "inbox/a\u{200b}", "inbox/\u{202e}txt.a", "inbox/a\nb"] {
        desk.expect("read", path(hidden), 403, "unresolvable_argument").await;
    }
}

#[tokio::test]
async fn one_star_stops_at_a_slash() {
    let desk = Desk::under(POLICY).await;
    desk.allowed("write", path("inbox/note.md")).await;
    desk.held("write", path("inbox/private/note.md")).await;
    desk.held("write", path("inbox")).await;
}

#[tokio::test]
async fn the_working_directory_of_a_command_is_a_path_too() {
    let desk = Desk::under(POLICY).await;
    let run = |cwd: &str| json!({ "argv": ["ls"], "cwd": cwd });
    desk.denied("run", run("/boot"), "constraint", "cwd: never").await;
    desk.denied("run", run("/boot/grub"), "constraint", "cwd: never").await;
    desk.held("run", run("/home")).await;
}

#[tokio::test]
async fn each_of_many_paths_is_looked_at_and_carries_its_own_obligation() {
    let desk = Desk::under(POLICY).await;
    let files = json!({ "files": [
        { "from": "inbox/a", "to": "reports/a" },
        { "from": "inbox/b", "to": "reports/x/b" },
    ] });
    let allowed = desk.allowed("move", files).await;
    assert_eq!(
        allowed["obligations"],
        json!({
            "nofollow": true,
            "resolved_paths": {
                "/files/0/from": "/srv/desk/inbox/a",
                "/files/0/to": "/srv/desk/reports/a",
                "/files/1/from": "/srv/desk/inbox/b",
                "/files/1/to": "/srv/desk/reports/x/b",
            },
        })
    );
    let mixed = json!({ "files": [{ "from": "inbox/a", "to": "reports/a" }, { "from": "inbox/b", "to": "inbox/c" }] });
    desk.denied("move", mixed, "constraint", "/files/*/to: outside_roots").await;
}

/// A base with a file and links in it, and a policy about it.
fn on_disk() -> (TempDir, String) {
    let folder = TempDir::new().unwrap();
    let base = folder.path().join("base");
    fs::create_dir_all(base.join("pub/deep")).unwrap();
    fs::create_dir_all(base.join("hidden")).unwrap();
    fs::write(base.join("pub/a.txt"), "a").unwrap();
    fs::write(folder.path().join("outside"), "o").unwrap();
    let tool = |name: &str, risk: &str| {
        format!(
            "[tools.{name}]\nrisk = \"{risk}\"\nparameters = {{ type = \"object\", required = [\"path\"], properties = \
             {{ path = {{ type = \"string\" }} }} }}\n[tools.{name}.arguments.path]\nkind = \"path\"\nbase = {base:?}\n\
             roots = [\"pub\"]\nnever = [\"*.pem\"]\nresolve = \"filesystem\"\n"
        )
    };
    let policy = tool("read", "read") + &tool("send", "send");
    (folder, policy)
}

#[tokio::test]
async fn a_link_is_followed_below_base_and_never_out_of_it() {
    let (folder, policy) = on_disk();
    let desk = Desk::under(&policy).await;
    let base = folder.path().join("base");
    symlink("a.txt", base.join("pub/inside")).unwrap();
    symlink("../../outside", base.join("pub/out")).unwrap();
    symlink(folder.path(), base.join("pub/up")).unwrap();
    symlink("../hidden", base.join("pub/other-root")).unwrap();
    symlink("../pub/k.pem", base.join("pub/harmless.txt")).unwrap();

    let allowed = desk.allowed("read", path("pub/inside")).await;
    let real = base.join("pub/a.txt");
    assert_eq!(allowed["obligations"]["resolved_paths"]["path"], real.to_str().unwrap());
    assert_eq!(allowed["obligations"]["nofollow"], true);

    let unresolvable = "unresolvable_argument";
    desk.denied("read", path("pub/out"), unresolvable, "path: link_out_of_base").await;
    desk.denied("read", path("pub/up/outside"), unresolvable, "path: link_out_of_base").await;
    desk.denied("read", path("pub/a.txt/x"), unresolvable, "path: not_a_directory").await;
    desk.denied("read", path("pub/inside/../a.txt"), unresolvable, "path: parent_step").await;
    desk.denied("read", path("pub/other-root/x"), "constraint", "path: outside_roots").await;
    desk.denied("read", path("pub/harmless.txt"), "constraint", "path: never").await;
    desk.denied("read", path("pub/k.pem"), "constraint", "path: never").await;
}

#[tokio::test]
async fn a_file_that_is_to_be_made_is_permitted_where_its_directory_is() {
    let (folder, policy) = on_disk();
    let desk = Desk::under(&policy).await;
    symlink("deep", folder.path().join("base/pub/d")).unwrap();
    let allowed = desk.allowed("read", path("pub/d/new/file")).await;
    let made = folder.path().join("base/pub/deep/new/file");
    assert_eq!(allowed["obligations"]["resolved_paths"]["path"], made.to_str().unwrap());
}

#[tokio::test]
async fn a_base_that_cannot_be_looked_at_permits_nothing() {
    let (folder, policy) = on_disk();
    let desk = Desk::under(&policy).await;
    fs::rename(folder.path().join("base"), folder.path().join("moved")).unwrap();
    desk.denied("read", path("pub/a.txt"), "unresolvable_argument", "path: no_base").await;
}

#[tokio::test]
async fn a_path_that_leads_elsewhere_since_it_was_approved_is_not_claimed() {
    let (folder, policy) = on_disk();
    let desk = Desk::under(&policy).await;
    let link = folder.path().join("base/pub/link");
    symlink("a.txt", &link).unwrap();
    let call = desk.call("send", path("pub/link"));
    let held = desk.send(&call).await;
    assert_eq!(held.status, 202);
    let held = held.json();
    let approval = format!("/approvals/{}", held["approval"]["id"].as_str().unwrap());
    let decision = json!({ "decision": "approve", "args_hash": held["args_hash"] });
    assert_eq!(desk.service.post("ana", &format!("{approval}/decision"), &decision).await.status, 200);

    let swap = |target: &str| {
        fs::remove_file(&link).unwrap();
        symlink(target, &link).unwrap();
    };
    let claim =
        || async { desk.service.post("bot", &format!("{approval}/claim"), &json!({ "args": path("pub/link") })).await };
    for elsewhere in ["b.txt", "../../outside", "../hidden/x"] {
        swap(elsewhere);
        assert_eq!(claim().await.problem(409), "path_moved", "{elsewhere}");
    }
    let refused = desk.service.logged(EventKind::ClaimRefused).await;
    assert!(refused.iter().all(|sealed| sealed.entry.reason_code.as_deref() == Some("path_moved")));
    assert_eq!(refused.len(), 3);

    // What was approved can run when it is there again.
    swap("deep/../a.txt");
    let claimed = claim().await;
    assert_eq!(claimed.status, 200, "{claimed:?}");
    let real = folder.path().join("base/pub/a.txt");
    let obligations = &claimed.json()["obligations"];
    assert_eq!(*obligations, json!({ "nofollow": true, "resolved_paths": { "path": real.to_str().unwrap() } }));
}

#[tokio::test]
async fn an_approved_path_that_leads_elsewhere_is_approved_anew_when_it_is_asked_again() {
    let (folder, policy) = on_disk();
    let desk = Desk::under(&policy).await;
    let link = folder.path().join("base/pub/link");
    symlink("a.txt", &link).unwrap();
    let call = desk.call("send", path("pub/link"));
    let held = desk.send(&call).await.json();
    let approval = format!("/approvals/{}", held["approval"]["id"].as_str().unwrap());
    let decision = json!({ "decision": "approve", "args_hash": held["args_hash"] });
    assert_eq!(desk.service.post("ana", &format!("{approval}/decision"), &decision).await.status, 200);
    fs::remove_file(&link).unwrap();
    symlink("deep", &link).unwrap();

    let again = desk.send(&super::with(call, json!({ "claim": true }))).await;
    assert_eq!(again.status, 202);
    let again = again.json();
    assert_eq!((&again["approval"]["state"], &again["approval"]["attempt"]), (&json!("pending"), &json!(2)));
    assert_ne!(again["approval"]["id"], held["approval"]["id"]);
}
