//! A store with an empty database, on either engine.

use std::future::Future;

use countersign::{
    app::ports::{Change, SharedStore, Tx},
    domain::audit::{
        chain::{self, Head, SealedEntry},
        entry::Entry,
    },
    storage::{self, ConnectOptions, ConnectedStore, Engine},
};
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};
use tempfile::TempDir;
use tokio::task::LocalSet;

use super::postgres::Schema;

/// A migrated store, and ways around it.
pub(crate) struct TestStore {
    connected: ConnectedStore,
    url: String,
}

const OPTIONS: ConnectOptions = ConnectOptions { max_connections: 8 };

impl TestStore {
    /// Connects to an empty database and brings it to this version's schema.
    pub(crate) async fn new(url: String) -> Self {
        let connected = storage::connect(&url, OPTIONS).await.unwrap();
        connected.migrate().await.unwrap();
        Self { connected, url }
    }

    pub(crate) fn engine(&self) -> Engine {
        self.connected.engine()
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn connected(&self) -> &ConnectedStore {
        &self.connected
    }

    pub(crate) fn store(&self) -> SharedStore {
        self.connected.store()
    }

    /// Another instance's store on the same database.
    pub(crate) async fn of_another_instance(&self) -> SharedStore {
        storage::connect(&self.url, OPTIONS).await.unwrap().store()
    }

    /// Runs a statement behind the store's back, as somebody with the database's password would.
    pub(crate) async fn execute(&self, statement: &str) -> Result<(), String> {
        let statement = AssertSqlSafe(statement.to_owned());
        let done = match self.engine() {
            Engine::Sqlite => {
                let mut connection = SqliteConnection::connect(&self.url).await.unwrap();
                sqlx::raw_sql(statement).execute(&mut connection).await.map(drop)
            }
            Engine::Postgres => {
                let mut connection = PgConnection::connect(&self.url).await.unwrap();
                sqlx::raw_sql(statement).execute(&mut connection).await.map(drop)
            }
        };
        done.map_err(|error| error.to_string())
    }

    /// Runs `work` in a transaction and commits it.
    pub(crate) async fn commit<T>(&self, work: impl AsyncFnOnce(&mut dyn Tx) -> T) -> T {
        let mut tx = self.store().begin().await.unwrap();
        let result = work(tx.as_mut()).await;
        tx.commit().await.unwrap();
        result
    }

    /// Appends these entries in a transaction.
    pub(crate) async fn append(&self, entries: impl IntoIterator<Item = Entry>) {
        self.commit(async |tx| entries.into_iter().for_each(|entry| tx.append(entry))).await;
    }

    /// Every entry, after checking that they are the unbroken chain that the head says.
    pub(crate) async fn checked_log(&self) -> Vec<SealedEntry> {
        let store = self.store();
        let recorded = store.head().await.unwrap();
        // More may be there than a moment ago.
        let entries = store.entries_after(0, u32::MAX).await.unwrap();
        let mut heads = vec![Head::EMPTY];
        for sealed in &entries {
            heads.push(chain::check(heads[heads.len() - 1], sealed).unwrap());
        }
        assert!(heads.contains(&recorded), "{recorded:?} is no head of {entries:?}");
        entries
    }
}

/// Runs a test on a fresh SQLite file.
pub(crate) async fn on_sqlite<F: Future<Output = ()>>(test: impl FnOnce(TestStore) -> F) {
    let folder = TempDir::new().unwrap();
    test(TestStore::new(sqlite_url(&folder)).await).await;
}

/// The URL of a database in a folder.
pub(crate) fn sqlite_url(folder: &TempDir) -> String {
    format!("sqlite://{}", folder.path().join("test.db").display())
}

/// Runs a test in a fresh Postgres schema, which is dropped even when the test fails.
pub(crate) async fn on_postgres<F: Future<Output = ()> + 'static>(test: impl FnOnce(TestStore) -> F) {
    let schema = Schema::create().await;
    let test = test(TestStore::new(schema.url()).await);
    // A task of its own, so that a panic ends the test and not the clearing up.
    let outcome = LocalSet::new().run_until(async { tokio::task::spawn_local(test).await }).await;
    schema.drop().await;
    if let Err(failure) = outcome {
        std::panic::resume_unwind(failure.into_panic());
    }
}

/// The next change that is not [`Change::Unknown`].
pub(crate) async fn next_known(changes: &mut tokio::sync::broadcast::Receiver<Change>) -> Change {
    loop {
        match changes.recv().await.unwrap() {
            Change::Unknown | Change::Outbox => {}
            known @ (Change::Approval(_) | Change::Keys | Change::Policy) => return known,
        }
    }
}
