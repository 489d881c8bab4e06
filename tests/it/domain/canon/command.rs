//! Tests of the kind `command`.

use countersign::domain::canon::Kind;
use serde_json::{Value, json};

use super::{kind, resolved, unresolvable};

fn command() -> Kind {
    kind(json!({ "kind": "command" }))
}

fn programs(value: impl Into<Value>) -> Value {
    resolved(&command(), value)["programs"].clone()
}

#[test]
fn a_simple_command_has_one_program() {
    assert_eq!(
        resolved(&command(), "git commit -m 'a > b'"),
        json!({ "words": ["git", "commit", "-m", "a > b"], "programs": ["git"], "operators": [] })
    );
}

#[test]
fn chained_commands_are_all_named() {
    assert_eq!(programs("git status && rm -rf /x"), json!(["git", "rm"]));
    assert_eq!(programs("a;b|c||d & e"), json!(["a", "b", "c", "d", "e"]));
    assert_eq!(resolved(&command(), "a&&b 2>&1|c")["operators"], json!(["&&", ">&", "|"]));
}

#[test]
fn redirections_have_targets_and_no_programs() {
    let value = resolved(&command(), "echo x >\"/w/.conf/a.json\" 2>>err <in");
    assert_eq!(value["programs"], json!(["echo"]));
    assert_eq!(value["operators"], json!([">", ">>", "<"]));
    assert_eq!(value["words"], json!(["echo", "x", "/w/.conf/a.json", "err", "in"]));
    assert_eq!(programs(">out rm x"), json!(["rm"]));
}

#[test]
fn quotes_and_directories_do_not_hide_a_program() {
    for text in ["rm x", "\"rm\" x", "r'm' x", "\\rm x", "/bin/rm x", "A=1 B+=2 rm x", "! rm x", "{ rm x; }", "(rm x)"]
    {
        assert_eq!(programs(text), json!(["rm"]), "{text}");
    }
}

#[test]
fn commands_within_commands_are_named() {
    assert_eq!(programs("echo $(rm x)"), json!(["echo", "rm"]));
    assert_eq!(programs("echo \"a $(rm \"$(id)\") b\""), json!(["echo", "rm", "id"]));
    assert_eq!(programs("echo `rm \\`id\\``"), json!(["echo", "rm", "id"]));
    assert_eq!(programs("diff <(ls a) >(tee b)"), json!(["diff", "ls", "tee"]));
    assert_eq!(programs("echo '$(rm x)' \\$(id)")[0], "echo");
    assert_eq!(programs("echo '$(rm x)'"), json!(["echo"]));
}

#[test]
fn shells_and_wrappers_name_what_they_run() {
    assert_eq!(programs("env sh -c whoami x"), json!(["env", "sh", "whoami"]));
    assert_eq!(programs("bash -lc 'uptime; rm x'"), json!(["bash", "uptime", "rm"]));
    assert_eq!(programs("busybox sh -c 'cat /etc/shadow'"), json!(["busybox", "sh", "cat"]));
    assert_eq!(programs("sudo -u root rm x"), json!(["sudo", "root", "rm"]));
    assert_eq!(programs("timeout 5 rm x"), json!(["timeout", "5", "rm"]));
    assert_eq!(programs("env A=1 rm x"), json!(["env", "rm"]));
    assert_eq!(programs("su root -c rm"), json!(["su", "rm"]));
    assert_eq!(programs("eval 'rm x'"), json!(["eval", "rm"]));
    assert_eq!(programs("bash script.sh x"), json!(["bash"]));
    assert_eq!(programs("find . -name x -exec sh -c 'rm \"$1\"' _ {} \\;"), json!(["find", "sh", "rm"]));
}

#[test]
fn an_argument_vector_is_read_by_no_shell() {
    assert_eq!(
        resolved(&command(), json!(["rm", "-rf", "a b; c"])),
        json!({ "words": ["rm", "-rf", "a b; c"], "programs": ["rm"], "operators": [] })
    );
    assert_eq!(programs(json!(["sh", "-c", "rm x"])), json!(["sh", "rm"]));
    assert_eq!(programs(json!([])), json!([]));
}

#[test]
fn what_no_shell_would_read_whole_is_refused() {
    for (text, code) in [
        ("", "empty"),
        ("  ", "empty"),
        ("a\0b", "control_character"),
        ("a\nb", "control_character"),
        ("a\tb", "control_character"),
        ("echo 'a", "unbalanced"),
        ("echo \"a", "unbalanced"),
        ("echo `a", "unbalanced"),
        ("echo $(a", "unbalanced"),
        ("echo a)", "unbalanced"),
        ("echo \"$(a\"", "unbalanced"),
        ("echo a\\", "unbalanced"),
    ] {
        assert_eq!(unresolvable(&command(), text), code, "{text:?}");
    }
    assert_eq!(unresolvable(&command(), json!([""])), "empty");
    assert_eq!(unresolvable(&command(), json!(["a", 1])), "not_text");
    assert_eq!(unresolvable(&command(), json!({ "command": "a" })), "not_text");
}

#[test]
fn nesting_and_length_are_bounded() {
    assert_eq!(unresolvable(&command(), "$(".repeat(10_000)), "too_deep");
    assert_eq!(unresolvable(&command(), "(".repeat(10_000)), "too_deep");
    let within_eval = |inside: String, _| format!("eval {}", inside.replace('\\', "\\\\").replace(' ', "\\ "));
    assert_eq!(programs((0..3).fold("id".to_owned(), within_eval)), json!(["eval", "eval", "eval", "id"]));
    assert_eq!(unresolvable(&command(), (0..10).fold("id".to_owned(), within_eval)), "too_deep");
    assert_eq!(unresolvable(&command(), "a".repeat(70_000)), "too_long");
    resolved(&command(), format!("{}id{}", "$(".repeat(8), ")".repeat(8)));
}

#[test]
fn invisible_characters_stay_for_the_reviewer_to_see() {
    assert_eq!(programs("rm\u{200b} -rf /tmp/a"), json!(["rm\u{200b}"]));
}
