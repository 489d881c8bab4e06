//! `countersign migrate`, and what needs it.

use tempfile::tempdir;

use crate::support::{
    postgres::Schema,
    process::{Process, run, text},
};

#[tokio::test]
async fn on_postgres_the_operator_migrates_before_anything_starts() {
    let schema = Schema::create().await;
    let folder = tempdir().unwrap();
    let url = schema.url();
    let environment = [("COUNTERSIGN_DATABASE_URL", url.as_str()), ("COUNTERSIGN_LISTEN", "127.0.0.1:0")];
    let refused = run(folder.path(), &["serve"], &environment);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("countersign migrate"), "{}", text(&refused.stderr));

    let migrated = run(folder.path(), &["migrate"], &environment);
    assert!(migrated.status.success(), "{}", text(&migrated.stderr));
    let again = run(folder.path(), &["migrate"], &environment);
    assert!(text(&again.stderr).contains("already"));
    Process::serve(folder.path(), &environment).kill();
    schema.drop().await;
}

#[tokio::test]
async fn a_service_may_be_told_to_migrate_itself() {
    let schema = Schema::create().await;
    let folder = tempdir().unwrap();
    let url = schema.url();
    let environment = [("COUNTERSIGN_DATABASE_URL", url.as_str()), ("COUNTERSIGN_DATABASE__AUTO_MIGRATE", "true")];
    Process::serve(folder.path(), &environment).kill();
    schema.drop().await;
}
