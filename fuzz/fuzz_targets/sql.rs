//! SQL: a text called a read is one statement, stays one when nothing but space is added, stops being one when a
//! statement is, and is never called a write in another spelling or by the dialects it stands for.

#![no_main]

use std::sync::LazyLock;

use countersign::domain::canon::Kind;
use countersign_fuzz::{kind, resolve, text, texts};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use sqlparser::dialect::{Dialect, GenericDialect, MsSqlDialect, MySqlDialect, PostgreSqlDialect, SQLiteDialect};
use sqlparser::parser::Parser;

static DIALECTS: LazyLock<[(&str, Kind, Box<dyn Dialect + Send + Sync>); 5]> = LazyLock::new(|| {
    let named = |name: &'static str| kind(json!({ "kind": "sql", "dialect": name }));
    [
        ("generic", named("generic"), Box::new(GenericDialect {})),
        ("postgres", named("postgres"), Box::new(PostgreSqlDialect {})),
        ("mysql", named("mysql"), Box::new(MySqlDialect {})),
        ("sqlite", named("sqlite"), Box::new(SQLiteDialect {})),
        ("mssql", named("mssql"), Box::new(MsSqlDialect {})),
    ]
});

fuzz_target!(|input: &str| {
    for (name, kind, dialect) in DIALECTS.iter() {
        let Some(value) = read(kind, input) else { continue };
        let statements = texts(&value, "statements");
        let effects = ["read", "write", "ddl", "other"];
        assert!(statements.iter().all(|effect| effects.contains(effect)), "{value}");
        let all = texts(&value, "tables").into_iter().chain(texts(&value, "functions"));
        assert!(all.into_iter().all(|name| !name.is_empty()), "something without a name: {value}");
        if text(&value, "kind") != "read" {
            continue;
        }
        assert_eq!(statements, ["read"], "{name}: a read is one statement");
        // At the end of the text a comment may be open, which a line break closes.
        assert_eq!(read(kind, &format!(" \n{input}\n ")), Some(value), "{name}: space makes another statement of it");
        // To SQLite a comment may be open at the end of the text; what closes it does no harm in a line comment.
        let closing = if effect(kind, &format!("{input} */")) == "read" { " */" } else { "" };
        for added in ["DELETE FROM t", "DROP TABLE t", "SELECT pg_sleep(9)", "SET x = 1", "SELECT 1"] {
            assert_ne!(
                effect(kind, &format!("{input}{closing}\n;\n{added}")),
                "read",
                "{name}: {added} is hidden by it"
            );
            assert_ne!(effect(kind, &format!("{added}\n;\n{input}")), "read", "{name}: {added} is hidden before it");
        }
        if *name == "generic" {
            for (other, kind, _) in DIALECTS.iter() {
                assert!(!writes(kind, input), "{other} calls a write what is a read for every dialect");
            }
        }
        let Ok(parsed) = Parser::parse_sql(dialect.as_ref(), input) else { continue };
        let printed: Vec<String> = parsed.iter().map(ToString::to_string).collect();
        let printed = printed.join(";");
        assert!(!writes(kind, &printed), "{name}: spelt differently it is a write: {printed}");
    }
});

fn read(kind: &Kind, input: &str) -> Option<Value> {
    resolve(kind, input).ok().map(|resolution| resolution.value)
}

fn effect(kind: &Kind, input: &str) -> String {
    read(kind, input).map(|value| text(&value, "kind").to_owned()).unwrap_or_default()
}

fn writes(kind: &Kind, input: &str) -> bool {
    matches!(effect(kind, input).as_str(), "write" | "ddl")
}
