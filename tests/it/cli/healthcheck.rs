//! `countersign healthcheck`.

use std::net::TcpListener;

use tempfile::tempdir;

use crate::support::process::{Process, run, text};

#[test]
fn a_service_that_answers_is_healthy() {
    let folder = tempdir().unwrap();
    let service = Process::serve(folder.path(), &[]);
    let address = service.url.strip_prefix("http://").unwrap();
    let output = run(folder.path(), &["healthcheck", "--listen", address], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn where_nobody_listens_nothing_is_healthy() {
    let folder = tempdir().unwrap();
    // Nobody else gets this port while it is held, and nobody answers there.
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = held.local_addr().unwrap().to_string();
    let output = run(folder.path(), &["healthcheck", "--listen", &address], &[]);
    assert_eq!(output.status.code(), Some(1));
}
