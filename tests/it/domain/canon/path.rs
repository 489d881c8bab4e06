//! Tests of the kind `path`.

use countersign::domain::canon::Kind;
use serde_json::{Value, json};

use super::{fault, forbidden, item, kind, named, obligations, resolved, unresolvable};

fn agent_files() -> Kind {
    kind(json!({
        "kind": "path",
        "base": "/srv/agent",
        "roots": ["workspace", "public_data"],
        "never": ["*.pem", ".env", "private/**", "café.txt", "a/b*/c"],
    }))
}

fn path_of(value: &str) -> Value {
    resolved(&agent_files(), value)["path"].clone()
}

#[test]
fn a_relative_path_resolves_below_base() {
    assert_eq!(
        resolved(&agent_files(), "workspace/notes/Plan.TXT"),
        json!({ "path": "/srv/agent/workspace/notes/Plan.TXT", "root": "workspace", "name": "Plan.TXT", "extension": "txt" })
    );
}

#[test]
fn an_absolute_path_below_base_is_the_same_path() {
    assert_eq!(path_of("/srv/agent/workspace/a.txt"), path_of("workspace/a.txt"));
}

#[test]
fn dots_and_repeated_slashes_that_stay_inside_are_resolved() {
    assert_eq!(path_of("./workspace//a/./b/../c.txt"), "/srv/agent/workspace/a/c.txt");
    assert_eq!(path_of("workspace/dir/"), "/srv/agent/workspace/dir");
    assert_eq!(path_of("workspace"), "/srv/agent/workspace");
    assert_eq!(path_of("workspace/../public_data/x"), "/srv/agent/public_data/x");
}

#[test]
fn ordinary_names_are_taken_as_they_are() {
    for name in [
        "..hidden",
        "-rf",
        "100%.txt",
        "a b.txt",
        "日本.txt",
        "a~",
        "Outer$Inner.class",
        "[slug].tsx",
        "10:30:00.log",
        "a.tar.gz",
        "x+y=z,@#!&().md",
    ] {
        assert_eq!(path_of(&format!("workspace/{name}")), format!("/srv/agent/workspace/{name}"));
    }
}

#[test]
fn the_executor_is_bound_to_the_resolved_path_without_links() {
    assert_eq!(
        obligations(&agent_files(), "workspace/./a"),
        json!({ "nofollow": true, "resolved_path": "/srv/agent/workspace/a" })
    );
}

#[test]
fn a_path_outside_the_roots_is_forbidden() {
    assert_eq!(forbidden(&agent_files(), "other/a"), "outside_roots");
    assert_eq!(forbidden(&agent_files(), "workspace-evil/a"), "outside_roots");
    assert_eq!(forbidden(&agent_files(), "."), "outside_roots");
    assert_eq!(forbidden(&agent_files(), "Workspace/a"), "outside_roots");
}

#[test]
fn stepping_out_of_base_is_forbidden_even_when_it_comes_back() {
    assert_eq!(forbidden(&agent_files(), "../../etc/passwd"), "outside_roots");
    assert_eq!(forbidden(&agent_files(), "workspace/../../agent/workspace/a"), "outside_roots");
    assert_eq!(forbidden(&agent_files(), "/srv/agent/../agent/workspace/a"), "outside_roots");
}

#[test]
fn an_absolute_path_outside_base_is_forbidden() {
    assert_eq!(forbidden(&agent_files(), "/etc/passwd"), "outside_base");
    assert_eq!(forbidden(&agent_files(), "/srv/agent-evil/workspace/a"), "outside_base");
    assert_eq!(forbidden(&agent_files(), "/srv/x/../agent/workspace/a"), "outside_base");
}

#[test]
fn never_beats_roots_at_any_depth() {
    for path in
        ["workspace/key.pem", "workspace/a/.env", "workspace/.env/b", "workspace/x.pem/y", "/srv/agent/workspace/.env"]
    {
        assert_eq!(forbidden(&agent_files(), path), "never", "{path}");
    }
}

#[test]
fn never_with_a_slash_covers_the_directory_itself_and_all_below() {
    for path in
        ["workspace/private", "workspace/private/", "workspace/x/private/a/b", "private/a", "workspace/a/bb/c/d"]
    {
        assert_eq!(forbidden(&agent_files(), path), "never", "{path}");
    }
    assert_eq!(path_of("workspace/privateer"), "/srv/agent/workspace/privateer");
}

#[test]
fn never_ignores_case_and_unicode_form() {
    for path in [
        "workspace/KEY.Pem",
        "workspace/.ENV",
        "workspace/PRIVATE/a",
        "workspace/cafe\u{301}.txt",
        "workspace/CAFÉ.TXT",
        "workspace/ｋｅｙ.pem",
        "workspace/.en\u{1d5cf}",
    ] {
        assert_eq!(forbidden(&agent_files(), path), "never", "{path}");
    }
}

#[test]
fn a_time_in_a_name_cannot_hide_what_is_never_permitted() {
    let kind = kind(json!({ "kind": "path", "base": "/srv", "never": ["log1", "d/x1"] }));
    assert_eq!(forbidden(&kind, "log1:2"), "never");
    assert_eq!(forbidden(&kind, "d/x1:2"), "never");
}

#[test]
fn spellings_that_others_read_as_another_file_are_refused() {
    for (path, code) in [
        ("", "empty"),
        ("workspace/a\0.txt", "control_character"),
        ("workspace/a\nb", "control_character"),
        ("workspace/a\u{85}b", "control_character"),
        ("workspace\\a", "backslash"),
        ("\\\\host\\share", "backslash"),
        ("//host/share", "network_path"),
        ("workspace/%2e%2e/a", "percent_encoded"),
        ("workspace/a%2Fb", "percent_encoded"),
        ("workspace/%252e", "percent_encoded"),
        ("workspace/%u002e", "percent_encoded"),
        ("~/a", "tilde"),
        ("workspace/~root/a", "tilde"),
        ("workspace/a./b", "trailing_dot_or_space"),
        ("workspace/.env ", "surrounding_space"),
        ("workspace/a /b", "trailing_dot_or_space"),
        ("workspace/.../a", "trailing_dot_or_space"),
        ("C:/a", "colon"),
        ("c:a", "colon"),
        ("file:///etc/passwd", "colon"),
        ("workspace/a.txt:stream", "colon"),
        ("workspace/.env::$DATA", "colon"),
        ("workspace/PRIVAT~1/a", "short_name"),
        ("workspace/.e\u{200b}nv", "invisible_character"),
        ("workspace/\u{202e}txt.exe", "invisible_character"),
        ("workspace/\u{ff0e}\u{ff0e}/a", "lookalike_separator"),
        ("workspace\u{2215}a", "lookalike_separator"),
        ("workspace/\u{2025}/a", "lookalike_separator"),
    ] {
        assert_eq!(unresolvable(&agent_files(), path), code, "{path:?}");
    }
}

#[test]
fn what_is_too_long_for_a_file_system_is_refused() {
    assert_eq!(unresolvable(&agent_files(), "a/".repeat(3000)), "too_long");
    assert_eq!(unresolvable(&agent_files(), "a".repeat(256)), "too_long");
    // Short enough by itself, and too long below base.
    assert_eq!(unresolvable(&agent_files(), format!("workspace/{}a", "abcdefg/".repeat(510))), "too_long");
}

#[test]
fn only_a_string_is_a_path() {
    for value in [json!(1), json!(true), json!(["workspace/a"]), json!({ "path": "workspace/a" })] {
        assert_eq!(unresolvable(&agent_files(), value), "not_text");
    }
}

#[test]
fn without_roots_base_is_the_root() {
    let kind = kind(json!({ "kind": "path", "base": "/srv/data/" }));
    assert_eq!(
        resolved(&kind, "a.txt"),
        json!({ "path": "/srv/data/a.txt", "root": ".", "name": "a.txt", "extension": "txt" })
    );
    assert_eq!(resolved(&kind, ".")["path"], "/srv/data");
}

#[test]
fn the_top_can_be_base() {
    let kind = kind(json!({ "kind": "path", "base": "/", "roots": ["srv"], "never": ["/etc/**"] }));
    assert_eq!(resolved(&kind, "/srv/x")["path"], "/srv/x");
    assert_eq!(forbidden(&kind, "/etc"), "never");
    assert_eq!(forbidden(&kind, "../etc"), "outside_roots");
}

#[test]
fn the_narrowest_root_is_named() {
    let kind = kind(json!({ "kind": "path", "base": "/srv", "roots": [".", "a", "/srv/a/b"] }));
    assert_eq!(resolved(&kind, "a/b/c")["root"], "/srv/a/b");
    assert_eq!(resolved(&kind, "a/c")["root"], "a");
}

#[test]
fn roots_ignore_case_only_when_told_to() {
    let kind = kind(json!({ "kind": "path", "base": "/srv", "roots": ["Work"], "case_insensitive": true }));
    assert_eq!(resolved(&kind, "/SRV/WORK/a")["path"], "/srv/WORK/a");
}

#[test]
fn a_name_that_is_a_root_only_when_folded_is_another_directory() {
    let kind = kind(json!({ "kind": "path", "base": "/srv", "roots": ["work", "Über"], "case_insensitive": true }));
    assert_eq!(resolved(&kind, "üBER/a")["root"], "Über");
    for text in ["\u{ff57}ork/a", "wor\u{212a}/a", "U\u{308}ber/a"] {
        assert_eq!(forbidden(&kind, text), "outside_roots");
    }
    assert_eq!(forbidden(&kind, "/\u{17f}rv/work/a"), "outside_base");
}

#[test]
fn options_that_cannot_work_are_faults() {
    let with = |options: Value| {
        let mut declaration = json!({ "kind": "path", "base": "/srv/agent" });
        declaration.as_object_mut().expect("a table").extend(options.as_object().expect("a table").clone());
        fault(declaration)
    };
    assert_eq!(fault(json!({ "kind": "path" })), (None, None));
    assert_eq!(fault(json!({ "kind": "path", "base": "srv" })), named("base"));
    assert_eq!(fault(json!({ "kind": "path", "base": "/srv/../etc" })), named("base"));
    assert_eq!(fault(json!({ "kind": "path", "base": "C:\\srv" })), named("base"));
    assert_eq!(with(json!({ "roots": [] })), named("roots"));
    assert_eq!(with(json!({ "roots": "workspace" })), named("roots"));
    assert_eq!(with(json!({ "roots": ["a", "*"] })), item("roots", 1));
    assert_eq!(with(json!({ "roots": ["../x"] })), item("roots", 0));
    assert_eq!(with(json!({ "roots": ["/etc"] })), item("roots", 0));
    assert_eq!(with(json!({ "roots": [""] })), item("roots", 0));
    assert_eq!(with(json!({ "never": [] })), named("never"));
    assert_eq!(with(json!({ "never": ["a", ""] })), item("never", 1));
    assert_eq!(with(json!({ "never": ["../**"] })), item("never", 0));
    assert_eq!(with(json!({ "never": ["/etc/**"] })), item("never", 0));
    assert_eq!(with(json!({ "never": ["~/.ssh"] })), item("never", 0));
    assert_eq!(with(json!({ "never": ["private/"] })), item("never", 0));
    assert_eq!(with(json!({ "never": ["C:\\a"] })), item("never", 0));
    assert_eq!(with(json!({ "case_insensitive": "yes" })), named("case_insensitive"));
    assert_eq!(with(json!({ "resolve": "magic" })), named("resolve"));
    assert_eq!(with(json!({ "nevr": ["a"] })), named("nevr"));
}

#[test]
fn an_absolute_never_holds_at_that_place_only() {
    let kind = kind(json!({ "kind": "path", "base": "/srv", "never": ["/srv/a/**", "/**/b"] }));
    assert_eq!(forbidden(&kind, "a"), "never");
    assert_eq!(forbidden(&kind, "a/x/y"), "never");
    assert_eq!(forbidden(&kind, "x/b/y"), "never");
    assert_eq!(resolved(&kind, "x/a")["path"], "/srv/x/a");
}
