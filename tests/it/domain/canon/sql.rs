//! Tests of the kind `sql`.

use std::time::{Duration, Instant};

use countersign::domain::canon::Kind;
use serde_json::{Value, json};

use super::{fault, item, kind, named, resolved, unresolvable};

const DIALECTS: [&str; 5] = ["postgres", "mysql", "sqlite", "mssql", "generic"];

fn sql(dialect: &str) -> Kind {
    kind(json!({ "kind": "sql", "dialect": dialect }))
}

fn effect(dialect: &str, text: &str) -> Value {
    resolved(&sql(dialect), text)["kind"].clone()
}

fn is_read(dialect: &str, text: &str) -> bool {
    effect(dialect, text) == "read"
}

#[test]
fn a_plain_query_is_a_read_in_every_dialect() {
    for dialect in DIALECTS {
        for text in [
            "SELECT 1",
            "sElEcT 1;",
            ";;SELECT 1",
            "(SELECT 1)",
            "SELECT a, b AS c FROM t WHERE x = 'it''s; DROP TABLE t' AND y IN (1, 2) ORDER BY a",
            "SELECT \"a;b\" FROM t",
            "SELECT 1 -- ; DROP TABLE users",
            "SELECT /* note */ count(*) FROM orders o JOIN customers c ON o.customer_id = c.id GROUP BY c.name HAVING count(*) > 1",
            "WITH recent AS (SELECT * FROM orders) SELECT max(total) FROM recent UNION ALL SELECT 0",
            "SELECT CASE WHEN a > 1 THEN 'x' ELSE upper(b) END, row_number() OVER (PARTITION BY a ORDER BY b) FROM t",
            "SELECT * FROM (SELECT a FROM t) s WHERE EXISTS (SELECT 1 FROM u WHERE u.a = s.a)",
        ] {
            assert!(is_read(dialect, text), "{dialect}: {text}");
        }
    }
}

#[test]
fn a_query_that_does_more_than_read_is_none() {
    for dialect in DIALECTS {
        for text in [
            "SELECT * INTO copy FROM t",
            "SELECT * FROM t FOR UPDATE",
            "SELECT * FROM t FOR SHARE",
            "WITH gone AS (DELETE FROM t RETURNING *) SELECT * FROM gone",
            "WITH a AS (SELECT 1) INSERT INTO b SELECT * FROM a",
            "SELECT pg_read_file('/etc/passwd')",
            "SELECT pg_sleep(10)",
            "SELECT * FROM t WHERE id = sleep(5)",
            "SELECT load_file('/etc/passwd')",
            "SELECT load_extension('x')",
            "SELECT nextval('s')",
            "SELECT set_config('role', 'admin', false)",
            "SELECT * FROM dblink('x', 'y')",
            "SELECT * FROM OPENROWSET('SQLNCLI', 'x', 'SELECT 1')",
            "SELECT evil.lower('x')",
            "SELECT 1 INTO/**/OUTFILE '/tmp/x'",
            "SELECT count(*) FILTER (WHERE pg_sleep(1) IS NULL) FROM t",
            "SELECT 1 ORDER BY pg_sleep(1)",
            "SELECT 1 LIMIT (SELECT setval('s', 1))",
        ] {
            assert!(!is_read(dialect, text), "{dialect}: {text}");
        }
    }
}

#[test]
fn statements_that_are_no_queries_are_none() {
    for dialect in DIALECTS {
        for text in [
            "DO $$ BEGIN DELETE FROM t; END $$",
            "CALL wipe()",
            "SET ROLE admin",
            "SET sql_log_bin=0",
            "COMMIT; DROP TABLE users",
            "EXPLAIN ANALYZE DELETE FROM t",
            "EXPLAIN (ANALYZE) DELETE FROM t",
            "EXPLAIN ANALYZE SELECT 1",
            "COPY t TO PROGRAM 'sh'",
            "COPY t TO '/tmp/x'",
            "COPY t FROM STDIN",
            "COPY (SELECT pg_sleep(1)) TO STDOUT",
            "EXEC xp_cmdshell 'id'",
            "PRAGMA writable_schema=1",
            "PRAGMA journal_mode(off)",
            "ATTACH DATABASE '/x' AS y",
            "VACUUM INTO '/tmp/x'",
            "GRANT ALL ON t TO x",
            "SHOW TABLES WHERE sleep(5)",
        ] {
            assert!(!is_read(dialect, text), "{dialect}: {text}");
        }
    }
}

#[test]
fn statements_that_only_describe_are_reads_where_they_exist() {
    for (dialect, text) in [
        ("postgres", "SHOW search_path"),
        ("postgres", "EXPLAIN DELETE FROM users"),
        ("postgres", "COPY users TO STDOUT"),
        ("mysql", "SHOW TABLES"),
        ("mysql", "DESCRIBE users"),
        ("sqlite", "PRAGMA table_info(t)"),
        ("generic", "EXPLAIN SELECT 1"),
    ] {
        assert!(is_read(dialect, text), "{dialect}: {text}");
    }
    assert_eq!(resolved(&sql("postgres"), "COPY users TO STDOUT")["tables"], json!(["users"]));
}

#[test]
fn a_statement_of_one_database_is_no_read_where_another_would_run_it() {
    // SQL Server takes EXPLAIN for a procedure, fails to find it, and deletes.
    for text in ["EXPLAIN DELETE FROM users", "EXPLAIN INSERT INTO t SELECT 1", "EXPLAIN UPDATE t SET a = 1"] {
        assert!(!is_read("generic", text) && !is_read("mssql", text), "{text}");
    }
    for dialect in ["sqlite", "mssql"] {
        assert_eq!(resolved(&sql(dialect), "COPY users TO STDOUT")["kind"], "other");
    }
}

#[test]
fn nothing_behind_the_word_end_goes_unread() {
    for dialect in DIALECTS {
        for text in ["SELECT 1 END, load_file('/etc/passwd')", "SELECT 1 FROM t END; SELECT sleep(9)"] {
            assert!(!is_read(dialect, text), "{dialect}: {text}");
        }
        assert!(is_read(dialect, "SELECT CASE WHEN a = 1 THEN 2 ELSE 3 END FROM t"), "{dialect}");
    }
}

#[test]
fn a_second_statement_is_never_a_read() {
    for dialect in DIALECTS {
        for text in [
            "SELECT 1; SELECT 2",
            "SELECT 2; VACUUM INTO '/tmp/o.db'",
            "SELECT 1;-- \nDELETE FROM t",
            "SELECT 1\nWAITFOR DELAY '0:0:30'",
            "SELECT 1 SHUTDOWN; ",
        ] {
            assert!(
                !is_read(dialect, text) || (text.contains("SHUTDOWN") && !matches!(dialect, "mssql" | "generic")),
                "{dialect}: {text}"
            );
        }
    }
    assert_eq!(resolved(&sql("postgres"), "SELECT 1; DELETE FROM t")["statements"], json!(["read", "write"]));
    assert_eq!(effect("postgres", "SELECT 1; DELETE FROM t"), "write");
}

#[test]
fn effects_are_told_apart() {
    for (text, expected) in [
        ("INSERT INTO t VALUES (1)", "write"),
        ("UPDATE t SET a = 1", "write"),
        ("DELETE FROM t", "write"),
        ("CREATE TABLE t (a INT)", "ddl"),
        ("DROP TABLE t", "ddl"),
        ("ALTER TABLE t ADD COLUMN a INT", "ddl"),
        ("TRUNCATE TABLE t", "ddl"),
        ("GRANT ALL ON t TO x", "other"),
        ("SELECT 'unterminated", "other"),
        ("hello", "other"),
        ("-- nothing", "other"),
        ("WITH a AS (DELETE FROM t RETURNING 1) SELECT * FROM a", "write"),
    ] {
        assert_eq!(effect("postgres", text), expected, "{text}");
    }
}

#[test]
fn what_lexers_read_differently_is_never_a_read() {
    for (dialect, text) in [
        ("generic", "SELECT 'a\\'; DROP TABLE t; -- '"),
        ("postgres", "SELECT 'a\\'"),
        ("mysql", "SELECT 'a\\' '"),
        ("mysql", "SELECT 1 /*!50000 INTO OUTFILE 'x' */"),
        ("mysql", "SELECT /*+ SET_VAR(foreign_key_checks=OFF) */ 1"),
        ("generic", "/*!50000 DELETE */ SELECT 1"),
        ("generic", "SELECT 1 /* a /* b */ c */"),
        ("postgres", "SELECT 1 /* a /* b */ */"),
        ("generic", "SELECT 1 --1"),
        ("generic", "SELECT 1 # x"),
        ("postgres", "SELECT 1 -- x\rDELETE FROM t"),
        ("generic", "SELECT $$ a $$"),
        ("generic", "SELECT [a' ]"),
        ("generic", "SELECT `a' ; x`"),
        ("postgres", "SELECT\u{a0}1"),
        ("postgres", "SELECT 1\u{200b}"),
        ("mssql", "SELECT 1 shutdown"),
        ("generic", "SELECT a delete"),
        ("mysql", "SELECT @a := 1"),
        ("mssql", "SELECT * FROM t WITH (TABLOCKX)"),
        ("postgres", "SELECT 'x'::mytype"),
        ("postgres", "SELECT 'x'::mytype[]"),
        ("postgres", "SELECT mytype 'x'"),
        ("postgres", "SELECT 1 OPERATOR(evil.+) 2"),
    ] {
        assert!(!is_read(dialect, text), "{dialect}: {text}");
    }
}

#[test]
fn tables_and_functions_are_named() {
    let value =
        resolved(&sql("postgres"), "SELECT count(*), Lower(o.x) FROM Public.Orders o, \"Users\" u JOIN t ON true");
    assert_eq!(value["tables"], json!(["\"Users\"", "public.orders", "t"]));
    assert_eq!(value["functions"], json!(["count", "lower"]));
    for text in [
        "EXPLAIN DELETE FROM t",
        "INSERT INTO t SELECT 1",
        "UPDATE t SET a = 1",
        "COPY t FROM STDIN",
        "SELECT 1 WHERE 1 IN (SELECT a FROM t)",
        "EXPLAIN SELECT * FROM t",
    ] {
        assert_eq!(resolved(&sql("postgres"), text)["tables"], json!(["t"]), "{text}");
    }
    assert_eq!(resolved(&sql("mssql"), "SELECT * FROM [Users]")["tables"], json!(["users"]));
    assert_eq!(resolved(&sql("postgres"), "SELECT * FROM \"a.b\"")["tables"], json!(["\"a.b\""]));
    assert_eq!(resolved(&sql("postgres"), "SELECT * FROM generate_series(1, 2)")["tables"], json!([]));
}

#[test]
fn a_common_table_expression_hides_only_what_it_hides() {
    let tables = |text: &str| resolved(&sql("postgres"), text)["tables"].clone();
    assert_eq!(tables("WITH a AS (SELECT * FROM t) SELECT * FROM a"), json!(["t"]));
    assert_eq!(tables("WITH users AS (SELECT * FROM users) SELECT * FROM users"), json!(["users"]));
    assert_eq!(tables("WITH RECURSIVE a AS (SELECT 1 UNION SELECT * FROM a) SELECT * FROM a"), json!([]));
    assert_eq!(tables("WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a, b"), json!(["b"]));
    assert_eq!(tables("SELECT * FROM (WITH users AS (SELECT 1) SELECT * FROM users) s, users"), json!(["users"]));
    assert_eq!(tables("WITH a AS (SELECT 1) SELECT * FROM (SELECT * FROM a) s"), json!([]));
    assert_eq!(tables("WITH a AS (SELECT 1) SELECT * FROM s.a"), json!(["s.a"]));
    assert_eq!(tables("WITH \"a\" AS (SELECT 1) SELECT * FROM a"), json!(["a"]));
}

#[test]
fn no_rule_about_all_tables_holds_for_what_is_not_known() {
    for text in ["TABLE secrets", "SELECT 1 UNION TABLE secrets", "SHOW search_path"] {
        let value = resolved(&sql("postgres"), text);
        assert!(value["tables"].as_array().expect("a list").contains(&json!("(unknown)")), "{text}: {value}");
    }
    for text in ["SELECT 'unterminated", "-- nothing", "SELECT 'a\\'"] {
        let value = resolved(&sql("postgres"), text);
        assert!(value["tables"].as_array().expect("a list").contains(&json!("(unknown)")), "{text}");
        assert!(value["functions"].as_array().expect("a list").contains(&json!("(unknown)")), "{text}");
    }
}

#[test]
fn a_policy_can_add_functions() {
    let kind = kind(json!({ "kind": "sql", "dialect": "postgres", "functions": ["Slugify", "app.area"] }));
    assert_eq!(resolved(&kind, "SELECT slugify(x), app.area(y) FROM t")["kind"], "read");
    assert_eq!(resolved(&kind, "SELECT area(y) FROM t")["kind"], "other");
}

#[test]
fn an_empty_text_and_nul_are_refused() {
    assert_eq!(unresolvable(&sql("generic"), ""), "empty");
    assert_eq!(unresolvable(&sql("generic"), "SELECT 1\0; DROP TABLE t"), "control_character");
    assert_eq!(unresolvable(&sql("generic"), json!(1)), "not_text");
}

#[test]
fn options_that_cannot_work_are_faults() {
    assert_eq!(fault(json!({ "kind": "sql", "dialect": "oracle" })), named("dialect"));
    assert_eq!(fault(json!({ "kind": "sql", "functions": [] })), named("functions"));
    assert_eq!(fault(json!({ "kind": "sql", "functions": ["a", "b()"] })), item("functions", 1));
}

#[test]
fn large_and_deep_texts_end_soon() {
    let begun = Instant::now();
    for dialect in DIALECTS {
        let kind = sql(dialect);
        for text in [
            "(".repeat(30_000),
            format!("SELECT {}1{}", "(".repeat(24), ")".repeat(24)),
            format!("SELECT * FROM {}t{}", "(".repeat(24), ")".repeat(24)),
            format!("SELECT * FROM {}SELECT 1{}", "(".repeat(24), ")".repeat(24)),
            format!("SELECT {}", "CASE WHEN ".repeat(5_000)),
            format!("SELECT {}1", "NOT ".repeat(790)),
            format!("SELECT {}1", "- ".repeat(790)),
            format!("SELECT 1{}", "+1".repeat(790)),
            format!("SELECT 1{}", " UNION SELECT 1".repeat(790)),
            format!("SELECT 1{}", "::int".repeat(790)),
            format!("SELECT 1{}", "+1".repeat(20_000)),
            format!("SELECT {}1", "a.".repeat(20_000)),
            format!("SELECT 1 WHERE x IN (1{})", ",1".repeat(20_000)),
            format!("SELECT 1 FROM t{}", " JOIN t ON 1".repeat(4_000)),
            format!("SELECT {}", "interval ".repeat(5_000)),
            format!("SELECT {}", "array[".repeat(5_000)),
            format!("SELECT {}", "date ".repeat(5_000)),
            "/*".repeat(30_000),
            "'".repeat(60_001),
            "\"".repeat(60_001),
            "a ".repeat(30_000),
            ";".repeat(60_000),
            "WITH a AS (".repeat(5_000),
        ] {
            resolved(&kind, text);
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}
