//! Keys: made and taken back by the operator, with an entry each.

use countersign::{
    app::{error::Error, keys, ports::Change},
    domain::{
        audit::entry::{Actor, EventKind},
        ids::KeyId,
    },
};
use uuid::Uuid;

use crate::support::{
    clock::START,
    store::next_known,
    world::{on_each_engine, shown_key},
};

#[tokio::test]
async fn a_new_key_is_logged_by_name_and_role_and_never_by_its_hash() {
    on_each_engine(|world| async move {
        let stored = world.store.keys().await.unwrap();
        let created = world.entries_of(EventKind::KeyCreated).await;
        assert_eq!(created.len(), stored.len());
        for sealed in &created {
            let key = stored.iter().find(|key| sealed.entry.detail["key"] == key.id().to_string()).unwrap();
            assert_eq!(sealed.entry.detail["name"], key.name().as_str());
            let text = serde_json::to_string(&sealed.entry).unwrap();
            assert!(!text.contains(&hex::encode(key.hash())));
        }
        assert_eq!(created[0].entry.detail["roles"], serde_json::json!(["agent"]));
    })
    .await;
}

#[tokio::test]
async fn a_key_is_revoked_once_and_everybody_is_told() {
    on_each_engine(|world| async move {
        let mut changes = world.store.changes();
        let key = shown_key(&world.bot);
        let operator = Actor { name: "root".to_owned(), via: "cli".to_owned() };
        keys::revoke_key(&world.store, &operator, key, START).await.unwrap();
        assert_eq!(next_known(&mut changes).await, Change::Keys);
        let revoked = world.entries_of(EventKind::KeyRevoked).await;
        assert_eq!(revoked[0].entry.detail["key"], key.to_string());
        assert_eq!(revoked[0].entry.actor, operator);
        assert_eq!(keys::revoke_key(&world.store, &operator, key, START).await, Err(Error::NotFound));
        let nobodys = KeyId::from_uuid(Uuid::from_u128(1));
        assert_eq!(keys::revoke_key(&world.store, &operator, nobodys, START).await, Err(Error::NotFound));
        assert_eq!(world.entries_of(EventKind::KeyRevoked).await.len(), 1);
        world.assert_log_is_whole().await;
    })
    .await;
}
