//! The store on its two engines: one SQLite file, or Postgres for any number of instances. Implements `app::ports`.

use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::{
    app::ports::{SharedStore, StoreError},
    domain::audit::{
        chain::{self, Head, SealedEntry},
        entry::Entry,
    },
};

use self::{postgres::PostgresStore, sqlite::SqliteStore};

mod postgres;
mod rows;
mod sqlite;

/// How the store is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectOptions {
    /// How many connections transactions and reads may use at once, at least two on Postgres; beside them one commits
    /// decisions and one listens.
    pub max_connections: u32,
}

/// What keeps the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// One file, for one machine.
    Sqlite,
    /// A server, for any number of instances.
    Postgres,
}

/// A store that answered, its schema not yet looked at.
#[derive(Clone)]
pub struct ConnectedStore {
    engine: Connected,
}

#[derive(Clone)]
enum Connected {
    Sqlite(Arc<SqliteStore>),
    Postgres(Arc<PostgresStore>),
}

/// Connects to the engine that the URL names: `sqlite:path` or `sqlite://path` creates the file (mode 0600) in an
/// existing directory, `postgres://...` needs an existing database.
///
/// # Errors
/// When the URL names neither, or the store does not answer.
pub async fn connect(url: &str, options: ConnectOptions) -> Result<ConnectedStore, StoreError> {
    let engine = if url.starts_with("sqlite:") {
        Connected::Sqlite(Arc::new(SqliteStore::connect(url, options).await?))
    } else if url.starts_with("postgres:") || url.starts_with("postgresql:") {
        Connected::Postgres(Arc::new(PostgresStore::connect(url, options).await?))
    } else {
        return Err(StoreError::Unavailable("a database URL begins with postgres:// or sqlite:".to_owned()));
    };
    Ok(ConnectedStore { engine })
}

impl ConnectedStore {
    /// Which engine it is.
    pub fn engine(&self) -> Engine {
        match &self.engine {
            Connected::Sqlite(_) => Engine::Sqlite,
            Connected::Postgres(_) => Engine::Postgres,
        }
    }

    /// Brings the schema to this version's; nothing happens when it is.
    ///
    /// # Errors
    /// When a migration fails, or the schema is a later version's.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        match &self.engine {
            Connected::Sqlite(store) => store.migrate().await,
            Connected::Postgres(store) => store.migrate().await,
        }
    }

    /// How many migrations the schema lacks.
    ///
    /// # Errors
    /// When the schema is a later version's, or the store does not answer.
    pub async fn pending_migrations(&self) -> Result<usize, StoreError> {
        match &self.engine {
            Connected::Sqlite(store) => store.pending_migrations().await,
            Connected::Postgres(store) => store.pending_migrations().await,
        }
    }

    /// The store as the use cases know it.
    pub fn store(&self) -> SharedStore {
        match &self.engine {
            Connected::Sqlite(store) => Arc::<SqliteStore>::clone(store),
            Connected::Postgres(store) => Arc::<PostgresStore>::clone(store),
        }
    }
}

/// A background task that ends with its store.
struct Background(JoinHandle<()>);

impl Drop for Background {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The entries in their places after `head`.
fn seal_all(mut head: Head, entries: Vec<Entry>) -> Result<Vec<SealedEntry>, StoreError> {
    entries
        .into_iter()
        .map(|entry| {
            let (sealed, next) = chain::seal(head, entry).map_err(|error| StoreError::Unreadable(error.to_string()))?;
            head = next;
            Ok(sealed)
        })
        .collect()
}
