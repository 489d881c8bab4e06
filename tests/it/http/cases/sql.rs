//! SQL that does more than it seems to.

use serde_json::{Value, json};

use super::Desk;

fn policy() -> String {
    let mut policy = String::new();
    for dialect in ["postgres", "mysql", "sqlite", "mssql", "generic"] {
        policy.push_str(&format!(
            r#"
[tools.{dialect}]
risk = "send"
parameters = {{ type = "object", required = ["query"], properties = {{ query = {{ type = "string" }} }} }}
[tools.{dialect}.arguments.query]
kind = "sql"
dialect = "{dialect}"
[[tools.{dialect}.rules]]
id = "{dialect}-reads"
when = 'resolved.query.kind == "read" && size(resolved.query.statements) == 1'
verdict = "allow_audited"
reason = "it only reads"
[[tools.{dialect}.rules]]
id = "{dialect}-ddl"
when = 'resolved.query.kind == "ddl" || resolved.query.tables.exists(t, t == "salaries")'
verdict = "deny"
reason = "not over this tool"
"#
        ));
    }
    policy
}

fn query(query: &str) -> Value {
    json!({ "query": query })
}

#[tokio::test]
async fn plain_reads_pass_in_every_dialect() {
    let desk = Desk::under(&policy()).await;
    for dialect in ["postgres", "mysql", "sqlite", "mssql", "generic"] {
        desk.allowed(dialect, query("SELECT id, name FROM customers WHERE city = 'Oslo' ORDER BY name")).await;
        desk.allowed(dialect, query("SELECT count(*) FROM orders WHERE total > 10")).await;
        let denied = desk.expect(dialect, query("SELECT amount FROM salaries"), 403, "rule").await;
        assert_eq!(denied.rule, Some(format!("{dialect}-ddl")));
    }
}

#[tokio::test]
async fn a_second_statement_is_never_part_of_a_read() {
    let desk = Desk::under(&policy()).await;
    for (dialect, text) in [
        ("sqlite", "SELECT 1; VACUUM INTO '/tmp/copy.db'"),
        ("postgres", "SELECT 1; DELETE FROM customers"),
        ("postgres", "ROLLBACK; TRUNCATE customers"),
        ("mysql", "SELECT 1;DELETE FROM customers;"),
        ("mssql", "SELECT 1\nWAITFOR DELAY '0:1:0'"),
        ("mssql", "SELECT 1 EXEC xp_cmdshell 'dir'"),
        ("generic", "SELECT 1; SELECT 2; INSERT INTO t VALUES (1)"),
    ] {
        desk.not_allowed(dialect, query(text)).await;
    }
    desk.expect("postgres", query("DROP TABLE customers"), 403, "rule").await;
}

#[tokio::test]
async fn what_is_hidden_in_comments_or_settings_is_no_read() {
    let desk = Desk::under(&policy()).await;
    for (dialect, text) in [
        ("mysql", "SELECT 1 INTO/**/OUTFILE '/tmp/rows'"),
        ("mysql", "SELECT 1 /*!50000 INTO OUTFILE '/tmp/rows' */"),
        ("mysql", "/*!40101 DELETE */ FROM customers"),
        ("mysql", "SET sql_safe_updates = 0"),
        ("mysql", "SELECT * FROM t FOR UPDATE"),
        ("postgres", "SELECT * INTO backup FROM customers"),
        ("postgres", "WITH gone AS (DELETE FROM customers RETURNING *) SELECT * FROM gone"),
        ("postgres", "EXPLAIN ANALYZE DELETE FROM customers"),
        ("postgres", "COPY customers TO PROGRAM 'cat'"),
        ("postgres", "DO $$ BEGIN DELETE FROM customers; END $$"),
        ("postgres", "CALL purge()"),
        ("sqlite", "PRAGMA writable_schema = 1"),
        ("sqlite", "ATTACH DATABASE '/tmp/x.db' AS x"),
    ] {
        desk.not_allowed(dialect, query(text)).await;
    }
}

#[tokio::test]
async fn a_function_that_does_more_than_compute_is_no_read() {
    let desk = Desk::under(&policy()).await;
    for (dialect, text) in [
        ("postgres", "SELECT pg_read_file('/etc/hostname')"),
        ("postgres", "SELECT pg_sleep(60)"),
        ("postgres", "SELECT lo_export(1, '/tmp/x')"),
        ("postgres", "SELECT public.purge()"),
        ("mysql", "SELECT load_file('/etc/hostname')"),
        ("mysql", "SELECT sleep(60)"),
        ("sqlite", "SELECT load_extension('/tmp/x.so')"),
        ("mssql", "SELECT * FROM OPENROWSET(BULK '/tmp/x', SINGLE_CLOB) AS x"),
    ] {
        let held = desk.held(dialect, query(text)).await;
        assert_eq!(held.reason_code.as_deref(), Some("default"), "{text}");
    }
}

#[tokio::test]
async fn what_does_not_parse_is_held_and_what_is_no_sql_is_denied() {
    let desk = Desk::under(&policy()).await;
    for text in ["SELECT 'open", "SELECT FROM WHERE", "please show me the customers", "SELECT 1 /* open"] {
        desk.held("postgres", query(text)).await;
    }
    desk.denied("postgres", query(""), "unresolvable_argument", "query: empty").await;
    desk.denied("postgres", query("SELECT 1\0"), "unresolvable_argument", "query: control_character").await;
}
