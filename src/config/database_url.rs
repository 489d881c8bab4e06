//! The address of the database, which may hold a password.

use std::fmt;

use secrecy::{ExposeSecret as _, SecretString};

/// A database's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// `postgres://` or `postgresql://`.
    Postgres,
    /// `sqlite://`, one file.
    Sqlite,
}

/// Where the database is. No `Debug` shows more than its kind.
#[derive(Clone)]
pub struct DatabaseUrl {
    engine: Engine,
    url: SecretString,
}

impl DatabaseUrl {
    /// Its kind.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// The URL with its password.
    pub fn expose(&self) -> &str {
        self.url.expose_secret()
    }

    /// Reads a URL; on failure, what is wrong with it. A database in memory is refused: every connection would have one
    /// of its own, and the log would be gone with the process.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let engine = match text.split_once("://") {
            Some(("postgres" | "postgresql", _)) if url::Url::parse(text).is_ok() => Engine::Postgres,
            Some(("sqlite", rest)) if rest.contains(":memory:") || rest.contains("mode=memory") => {
                return Err("names a database in memory");
            }
            Some(("sqlite", rest)) if !rest.is_empty() && !rest.starts_with('?') => Engine::Sqlite,
            Some(_) | None => return Err("is no database's URL"),
        };
        Ok(Self { engine, url: SecretString::from(text) })
    }
}

/// `sqlite://countersign.db`: one file in the working directory.
impl Default for DatabaseUrl {
    fn default() -> Self {
        Self { engine: Engine::Sqlite, url: SecretString::from("sqlite://countersign.db") }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseUrl").field("engine", &self.engine).finish_non_exhaustive()
    }
}
