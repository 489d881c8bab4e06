//! A schema of its own in the Postgres database that tests are given.

use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// Names the database tests may make schemas in.
pub(crate) const VARIABLE: &str = "COUNTERSIGN_TEST_POSTGRES";

/// A schema that no other test uses.
pub(crate) struct Schema {
    database: String,
    name: String,
}

impl Schema {
    /// Makes one. Without a database the test fails: what was not tested must not look as if it had been.
    pub(crate) async fn create() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let Ok(database) = std::env::var(VARIABLE) else {
            panic!("{VARIABLE} is not set: it names the Postgres database to test on, postgres://user@host/database");
        };
        let name = format!("test_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let schema = Self { database, name };
        schema.execute("drop schema if exists").await;
        schema.execute("create schema").await;
        schema
    }

    /// The URL of a connection that sees this schema alone. Commits do not wait for the disk there: tests end the service
    /// and never the database, which keeps what it has said until it ends itself.
    pub(crate) fn url(&self) -> String {
        let separator = if self.database.contains('?') { '&' } else { '?' };
        let options = format!("options[search_path]={}&options[synchronous_commit]=off", self.name);
        format!("{}{separator}{options}", self.database)
    }

    /// Drops it with all that is in it.
    pub(crate) async fn drop(self) {
        self.execute("drop schema if exists").await;
    }

    async fn execute(&self, what: &str) {
        let cascade = if what.starts_with("drop") { "cascade" } else { "" };
        let mut connection = PgConnection::connect(&self.database).await.unwrap();
        let statement = format!("{what} {} {cascade}", self.name);
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }
}
