//! A sample of the corpora that `COUNTERSIGN_CORPORA` names, asked of `/decide`. All rows are read by the kinds' own tests.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::Desk;

const POLICY: &str = r#"
[tools.read]
risk = "read"
parameters = { type = "object", required = ["path"], properties = { path = { type = "string" } } }
[tools.read.arguments.path]
kind = "path"
base = "/srv/data"

[tools.fetch]
risk = "read"
parameters = { type = "object", required = ["url"], properties = { url = { type = "string" } } }
[tools.fetch.arguments.url]
kind = "url"
hosts = ["good.example.com"]
schemes = ["https", "http"]

[tools.query]
risk = "send"
parameters = { type = "object", required = ["sql"], properties = { sql = { type = "string" } } }
[tools.query.arguments.sql]
kind = "sql"
[[tools.query.rules]]
id = "reads"
when = 'resolved.sql.kind == "read"'
verdict = "allow"
reason = "it only reads"

[tools.shell]
risk = "read"
parameters = { type = "object", required = ["line"], properties = { line = { type = "string" } } }
[tools.shell.arguments.line]
kind = "command"
"#;

/// Every `step`th row of a file, or none, said clearly, where there are no corpora.
fn sample(file: &str, step: usize) -> Vec<Value> {
    let Some(folder) = std::env::var_os("COUNTERSIGN_CORPORA") else {
        println!("SKIPPED {file}: COUNTERSIGN_CORPORA is not set, so nothing was checked");
        return Vec::new();
    };
    let path = PathBuf::from(folder).join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    // Rows with lone surrogates are no JSON for us.
    text.lines().step_by(step).filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[tokio::test]
async fn a_path_passes_only_as_the_file_it_names() {
    let desk = Desk::under(POLICY).await;
    for row in sample("path.jsonl", 10) {
        let answer = desk.send(&desk.call("read", json!({ "path": row["path"] }))).await;
        assert!(matches!(answer.status, 200 | 403), "{row}");
        if answer.status == 200 {
            assert_eq!(row["escapes_root_decoded"], false, "{row}");
            assert_eq!(answer.json()["obligations"]["resolved_paths"]["path"], row["posix_literal"], "{row}");
        }
    }
}

#[tokio::test]
async fn an_address_passes_only_to_the_listed_host() {
    let desk = Desk::under(POLICY).await;
    for row in sample("url_ssrf.jsonl", 2) {
        let answer = desk.send(&desk.call("fetch", json!({ "url": row["url"] }))).await;
        assert!(matches!(answer.status, 200 | 403), "{row}");
        if answer.status == 200 {
            assert_eq!(row["whatwg"]["host"], "good.example.com", "{row}");
        }
    }
}

#[tokio::test]
async fn sql_passes_only_when_it_reads() {
    let desk = Desk::under(POLICY).await;
    for row in sample("sql_statements.jsonl", 4) {
        let answer = desk.send(&desk.call("query", json!({ "sql": row["sql"] }))).await;
        assert!(matches!(answer.status, 200 | 202 | 403), "{row}");
        assert!(answer.status != 200 || row["read_only"] == true, "{row}");
    }
}

#[tokio::test]
async fn no_command_passes_without_a_sandbox() {
    let desk = Desk::under(POLICY).await;
    for row in sample("command_fragments.jsonl", 2) {
        let answer = desk.send(&desk.call("shell", json!({ "line": row["fragment"] }))).await;
        assert!(matches!(answer.status, 202 | 403), "{row}");
    }
}
