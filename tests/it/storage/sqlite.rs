//! What only the file has: its mode, its place, its plans.

use std::{os::unix::fs::PermissionsExt, sync::Arc};

use countersign::{
    app::ports::StoreError,
    storage::{self, ConnectOptions},
};
use sqlx::{Connection as _, SqliteConnection};
use tempfile::TempDir;

use crate::support::store::{TestStore, sqlite_url};

const OPTIONS: ConnectOptions = ConnectOptions { max_connections: 2 };

#[tokio::test]
async fn the_file_and_those_beside_it_are_for_their_owner_alone() {
    let folder = TempDir::new().unwrap();
    let test = TestStore::new(sqlite_url(&folder)).await;
    let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(Result::unwrap).collect();
    assert!(files.len() >= 2, "the log of the file is missing");
    for file in files {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
    }
    drop(test);
}

#[tokio::test]
async fn a_file_in_no_folder_is_refused_with_its_path() {
    let folder = TempDir::new().unwrap();
    let url = format!("sqlite:{}/missing/test.db", folder.path().display());
    let Err(StoreError::Unavailable(reason)) = storage::connect(&url, OPTIONS).await.map(drop) else {
        panic!("a store without a folder")
    };
    assert!(reason.contains("missing/test.db"), "{reason}");
}

#[tokio::test]
async fn a_database_in_memory_is_refused() {
    for url in ["sqlite::memory:", "sqlite://x.db?mode=memory"] {
        assert!(matches!(storage::connect(url, OPTIONS).await.map(drop), Err(StoreError::Unavailable(_))), "{url}");
    }
}

#[tokio::test]
async fn a_url_of_another_engine_is_refused() {
    let refused = storage::connect("mysql://root@127.0.0.1/test", OPTIONS).await.map(drop);
    assert!(matches!(refused, Err(StoreError::Unavailable(_))));
}

#[tokio::test]
async fn what_was_committed_is_there_for_the_next_process() {
    let folder = TempDir::new().unwrap();
    let test = TestStore::new(sqlite_url(&folder)).await;
    test.append([crate::support::sample::bare_entry()]).await;
    let before = test.checked_log().await;
    drop(test);
    assert_eq!(TestStore::new(sqlite_url(&folder)).await.checked_log().await, before);
}

#[tokio::test]
async fn reads_answer_while_another_process_holds_the_write_lock_and_writes_wait_for_it() {
    let folder = TempDir::new().unwrap();
    let test = TestStore::new(sqlite_url(&folder)).await;
    let mut other = SqliteConnection::connect(test.url()).await.unwrap();
    sqlx::raw_sql("begin immediate").execute(&mut other).await.unwrap();
    let store = test.store();
    let writing = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.begin().await.map(drop) }
    });
    store.head().await.unwrap();
    store.keys().await.unwrap();
    assert!(!writing.is_finished());
    sqlx::raw_sql("rollback").execute(&mut other).await.unwrap();
    writing.await.unwrap().unwrap();
}
