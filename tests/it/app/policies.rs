//! Which policy decides, and what is recorded when that changes.

use countersign::{
    app::ports::Change,
    domain::{
        audit::entry::EventKind,
        policy::{Policy, SourceFile},
    },
};
use serde_json::json;

use crate::support::{
    store::next_known,
    world::{POLICY, World, allowed, files, held, on_each_engine, policy},
};

async fn accept(world: &World, files: &[SourceFile]) {
    world.app.accept_policy(Policy::load(files).unwrap().policy, files).await.unwrap();
}

async fn last_change(world: &World) -> serde_json::Value {
    world.entries_of(EventKind::PolicyLoaded).await.pop().unwrap().entry.detail["changed"].clone()
}

#[tokio::test]
async fn an_accepted_policy_decides_from_then_on_and_is_kept_whole() {
    on_each_engine(|world| async move {
        let mut changes = world.store.changes();
        allowed(world.decide("write_note", json!({ "text": "a" })).await);
        let stricter = POLICY.replace("risk = \"draft\"", "risk = \"send\"");
        world.accept(&stricter).await;
        // Word of the keys that were made before may still be on its way.
        while next_known(&mut changes).await != Change::Policy {}
        held(world.decide("write_note", json!({ "text": "a" })).await);
        let version = world.app.policy().version().clone();
        assert_eq!(version, *policy(&stricter).version());
        let stored = world.store.policy(&version).await.unwrap().unwrap();
        assert_eq!(stored.files, [("policy.toml".to_owned(), stricter)]);
        let decided = world.entries_of(EventKind::Decision).await;
        assert_eq!(decided[1].entry.policy_version, Some(version.to_string()));
        assert_ne!(decided[0].entry.policy_version, decided[1].entry.policy_version);
    })
    .await;
}

#[tokio::test]
async fn the_files_that_changed_are_named_in_the_log() {
    on_each_engine(|world| async move {
        let base = files(POLICY);
        accept(&world, &base).await;
        let mut more = base.clone();
        more.push(SourceFile { path: "more.toml".to_owned(), text: "schema = 1\n[vars]\nx = 1\n".to_owned() });
        accept(&world, &more).await;
        assert_eq!(last_change(&world).await, json!(["more.toml"]));
        more[1].text.push_str("y = 2\n");
        more[0].text.push_str("# a comment\n");
        accept(&world, &more).await;
        assert_eq!(last_change(&world).await, json!(["more.toml", "policy.toml"]));
        accept(&world, &base).await;
        assert_eq!(last_change(&world).await, json!(["more.toml", "policy.toml"]));
        accept(&world, &base).await;
        assert_eq!(last_change(&world).await, json!([]));
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn a_refused_policy_is_logged_and_the_last_good_one_stays() {
    on_each_engine(|world| async move {
        let before = world.app.policy().version().clone();
        let faults = Policy::load(&files("schema = 1\n[tools.x]\nrisk = \"reed\"\n")).unwrap_err();
        let version = policy(&POLICY.replace("4h", "5h")).version().clone();
        world.app.refuse_policy(&version, &faults).await.unwrap();
        assert_eq!(*world.app.policy().version(), before);
        let entry = &world.entries_of(EventKind::PolicyRefused).await[0].entry;
        assert_eq!(entry.detail["faults"], faults.len());
    })
    .await;
}
