//! Creating and revoking keys. Whoever holds the database may: these are commands of the operator, not routes.

use super::{
    error::Error,
    ports::{Change, SharedStore},
    retrying,
};
use crate::domain::{
    audit::entry::{Actor, Entry, EventKind},
    identity::KeyRecord,
    ids::KeyId,
    time::Timestamp,
};

/// Stores a new key.
///
/// # Errors
/// As the store's.
pub async fn create_key(store: &SharedStore, actor: &Actor, key: &KeyRecord, now: Timestamp) -> Result<(), Error> {
    retrying(|| async {
        let mut tx = store.begin().await?;
        tx.insert_key(key).await?;
        let mut entry = Entry::new(EventKind::KeyCreated, now, actor.clone());
        let roles: Vec<&str> = key.roles().iter().map(|role| role.as_str()).collect();
        entry.detail.insert("key".to_owned(), key.id().to_string().into());
        entry.detail.insert("name".to_owned(), key.name().to_string().into());
        entry.detail.insert("roles".to_owned(), roles.into());
        tx.append(entry);
        tx.announce(Change::Keys);
        Ok(tx.commit().await?)
    })
    .await
}

/// Revokes a key.
///
/// # Errors
/// [`Error::NotFound`] when there is none of this id or it is revoked already.
pub async fn revoke_key(store: &SharedStore, actor: &Actor, id: KeyId, now: Timestamp) -> Result<(), Error> {
    retrying(|| async {
        let mut tx = store.begin().await?;
        if !tx.revoke_key(id, now).await? {
            return Err(Error::NotFound);
        }
        let mut entry = Entry::new(EventKind::KeyRevoked, now, actor.clone());
        entry.detail.insert("key".to_owned(), id.to_string().into());
        tx.append(entry);
        tx.announce(Change::Keys);
        Ok(tx.commit().await?)
    })
    .await
}
