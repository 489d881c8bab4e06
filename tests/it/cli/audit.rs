//! `countersign audit verify`.

use std::path::Path;

use serde_json::Value;
use sqlx::{Connection as _, SqliteConnection};
use tempfile::tempdir;

use crate::support::process::{create_key, run, text};

/// What somebody does who has the file and wishes that something had not happened.
async fn rewrite(folder: &Path, statements: &str) {
    let url = format!("sqlite://{}", folder.join("countersign.db").display());
    let mut connection = SqliteConnection::connect(&url).await.unwrap();
    let triggers: Vec<(String,)> = sqlx::query_as("select name from sqlite_schema where type = 'trigger'")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    for (trigger,) in triggers {
        let statement = format!("drop trigger {trigger}");
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
    }
    sqlx::raw_sql(sqlx::AssertSqlSafe(statements.to_owned())).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

#[test]
fn a_log_nobody_touched_is_good() {
    let folder = tempdir().unwrap();
    create_key(folder.path(), &[], "support-bot", &["agent"]);
    let output = run(folder.path(), &["audit", "verify"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(text(&output.stdout).starts_with("all 1 entries are good"));
}

#[test]
fn a_log_that_is_not_there_is_not_good() {
    let folder = tempdir().unwrap();
    let output = run(folder.path(), &["audit", "verify"], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("there is no database"));
    assert!(!folder.path().join("countersign.db").exists());
}

#[tokio::test]
async fn the_first_bad_entry_is_named() {
    let folder = tempdir().unwrap();
    for name in ["one", "two", "three"] {
        create_key(folder.path(), &[], name, &["agent"]);
    }
    rewrite(folder.path(), "update audit_entries set actor = 'somebody' where seq = 2").await;
    let output = run(folder.path(), &["audit", "verify"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stdout).starts_with("entry 2 is bad"), "{}", text(&output.stdout));

    let output = run(folder.path(), &["audit", "verify", "--json"], &[]);
    assert_eq!(output.status.code(), Some(2));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["ok"], &told["checked"]), (&Value::Bool(false), &Value::from(1)));
    assert_eq!(told["fault"]["seq"], 2);
}

#[tokio::test]
async fn an_end_that_was_cut_off_shows() {
    let folder = tempdir().unwrap();
    for name in ["one", "two", "three"] {
        create_key(folder.path(), &[], name, &["agent"]);
    }
    rewrite(folder.path(), "delete from audit_entries where seq = 3").await;
    let output = run(folder.path(), &["audit", "verify"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stdout).starts_with("entry 3 is bad"), "{}", text(&output.stdout));
}
