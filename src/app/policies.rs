//! Which policy decides: a new one takes over at once and whole, a faulty one never.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::{
    App,
    error::Error,
    ports::{Change, StoredPolicy},
    retrying,
};
use crate::domain::{
    audit::entry::{Actor, Entry, EventKind},
    policy::{Fault, Policy, PolicyVersion, SourceFile},
};

impl App {
    /// Stores a compiled policy and lets it decide from now on.
    ///
    /// # Errors
    /// As the store's; the policy before stays in force then.
    pub async fn accept_policy(&self, policy: Policy, files: &[SourceFile]) -> Result<(), Error> {
        self.store_policy(policy.version(), files).await?;
        self.policy.store(policy.into());
        Ok(())
    }

    /// Stores the policy that decides from the start on, which consists of `files`.
    ///
    /// # Errors
    /// As the store's.
    pub async fn record_policy(&self, files: &[SourceFile]) -> Result<(), Error> {
        self.store_policy(self.policy().version(), files).await
    }

    async fn store_policy(&self, version: &PolicyVersion, files: &[SourceFile]) -> Result<(), Error> {
        let before = self.policy().version().clone();
        let known = self.store.policy(&before).await?.map(|stored| stored.files).unwrap_or_default();
        let changed = changed_files(&known, files);
        retrying(|| async {
            let now = self.now();
            let stored = StoredPolicy {
                version: version.clone(),
                files: files.iter().map(|file| (file.path.clone(), file.text.clone())).collect(),
                accepted_at: now,
            };
            let mut tx = self.store.begin().await?;
            tx.insert_policy(&stored).await?;
            let mut entry = Entry::new(EventKind::PolicyLoaded, now, Actor::service());
            entry.policy_version = Some(version.to_string());
            entry.detail.insert("changed".to_owned(), changed.clone().into());
            tx.append(entry);
            tx.announce(Change::Policy);
            Ok(tx.commit().await?)
        })
        .await
    }

    /// Records that a policy was refused; the last good one stays in force.
    ///
    /// # Errors
    /// As the store's.
    pub async fn refuse_policy(&self, version: &PolicyVersion, faults: &[Fault]) -> Result<(), Error> {
        let mut entry = Entry::new(EventKind::PolicyRefused, self.now(), Actor::service());
        entry.policy_version = Some(version.to_string());
        entry.detail.insert("faults".to_owned(), faults.len().into());
        self.record(entry).await
    }
}

/// The paths that were added, changed or removed.
fn changed_files(before: &[(String, String)], after: &[SourceFile]) -> Vec<String> {
    let digests = |path: &str, text: &str| (path.to_owned(), Sha256::digest(text.as_bytes()));
    let before: BTreeMap<_, _> = before.iter().map(|(path, text)| digests(path, text)).collect();
    let after: BTreeMap<_, _> = after.iter().map(|file| digests(&file.path, &file.text)).collect();
    let mut paths: Vec<String> =
        before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path)).cloned().collect();
    paths.sort();
    paths.dedup();
    paths
}
