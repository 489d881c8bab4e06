//! Commands that run more than they seem to.

use serde_json::{Value, json};

use super::Desk;

const POLICY: &str = r#"
[tools.shell]
risk = "draft"
parameters = { type = "object", required = ["line"], properties = { line = { type = "string" } } }
[tools.shell.arguments.line]
kind = "command"
[[tools.shell.rules]]
id = "no-removal"
when = 'resolved.line.programs.exists(p, p in ["rm", "mkfs", "sudo"])'
verdict = "deny"
reason = "nothing is removed from here"
[[tools.shell.rules]]
id = "no-settings"
when = 'resolved.line.words.exists(w, glob(w, "**/.settings/**"))'
verdict = "deny"
reason = "settings are not changed from here"

[tools.box]
risk = "draft"
default = "require_approval"
sandboxed = true
parameters = { type = "object", required = ["line"], properties = { line = { type = ["string", "array"], items = { type = "string" } } } }
[tools.box.arguments.line]
kind = "command"
[[tools.box.rules]]
id = "version-control"
when = 'size(resolved.line.operators) == 0 && size(resolved.line.programs) == 1 && resolved.line.programs.all(p, p == "git")'
verdict = "allow"
reason = "one plain command"
"#;

fn line(line: impl Into<Value>) -> Value {
    json!({ "line": line.into() })
}

#[tokio::test]
async fn a_command_behind_another_is_seen() {
    let desk = Desk::under(POLICY).await;
    for text in [
        "git status && rm -rf /data/y",
        "git status; rm x",
        "git log | rm x",
        "git log & rm x",
        "git log || rm x",
        "echo $(rm x)",
        "echo `rm x`",
        "echo \"$(rm x)\"",
        "(rm x)",
        "{ rm x; }",
        "if true; then rm x; fi",
        "env rm x",
        "env A=1 rm x",
        "sudo ls",
        "sh -c 'rm x'",
        "bash -lc \"rm x\"",
        "xargs rm",
        "/bin/rm x",
        "r\"m\" x",
        "\\rm x",
        "nohup nice rm x",
    ] {
        let denied = desk.expect("shell", line(text), 403, "rule").await;
        assert_eq!(denied.rule.as_deref(), Some("no-removal"), "{text}");
    }
}

#[tokio::test]
async fn no_command_outside_a_sandbox_passes_without_a_person() {
    let desk = Desk::under(POLICY).await;
    for text in [
        "ls",
        "env sh -c whoami",
        "busybox sh -c 'cat /etc/group'",
        "zsh -lc uptime",
        "python3 -c \"open('a', 'w')\"",
        "tee a",
        "find . -exec shred {} +",
        "echo x 1> a",
        "cd web && git push origin main",
    ] {
        let held = desk.held("shell", line(text)).await;
        assert_eq!(held.reason_code.as_deref(), Some("not_sandboxed"), "{text}");
    }
}

#[tokio::test]
async fn a_redirection_to_a_quoted_target_is_seen() {
    let desk = Desk::under(POLICY).await;
    for text in ["echo x >\"/home/u/.settings/a.json\"", "cat a > /home/u/.settings/'b'", "tee /w/.settings/c < a"] {
        let denied = desk.expect("shell", line(text), 403, "rule").await;
        assert_eq!(denied.rule.as_deref(), Some("no-settings"), "{text}");
    }
}

#[tokio::test]
async fn a_rule_about_one_plain_command_holds_for_nothing_else() {
    let desk = Desk::under(POLICY).await;
    for plain in [json!("git status"), json!("git commit -m 'a > b && c'"), json!(["git", "status", "a; rm b"])] {
        desk.allowed("box", line(plain)).await;
    }
    for more in [
        "git status > /tmp/o",
        "git status && git push",
        "gitx status",
        "git status; x",
        "env git status",
        "git -c core.pager='rm x' log | cat",
        "GIT_PAGER=x git log & y",
        "git log $(x)",
    ] {
        desk.not_allowed("box", line(more)).await;
    }
}

#[tokio::test]
async fn what_cannot_be_seen_or_does_not_end_is_denied() {
    let desk = Desk::under(POLICY).await;
    for (text, fault) in [
        ("git status \0", "line: control_character"),
        ("git log\nrm x", "line: control_character"),
        ("git 'status", "line: unbalanced"),
        ("", "line: empty"),
        ("  ", "line: empty"),
    ] {
        desk.denied("box", line(text), "unresolvable_argument", fault).await;
    }
    // What is not shown is hashed as it came, and never passes for what is.
    desk.not_allowed("box", line("git\u{200b} status")).await;
    desk.not_allowed("shell", line("rm\u{200b} -rf /tmp/b")).await;
}
