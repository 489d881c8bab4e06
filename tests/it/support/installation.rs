//! A service on data of its own, which can be stopped, killed and started again.

use tempfile::{TempDir, tempdir};

use super::{
    postgres::Schema,
    process::{Process, create_key, run, text},
};

/// Where the service says it is reached.
pub(crate) const PUBLIC_URL: &str = "https://approve.test";

/// A service that can be killed and started again over the same data.
pub(crate) struct Installation {
    folder: TempDir,
    schema: Option<Schema>,
    environment: Vec<(&'static str, String)>,
    pub(crate) agent_key: String,
    pub(crate) reviewer_key: String,
    pub(crate) auditor_key: String,
}

impl Installation {
    /// On a file.
    pub(crate) fn on_sqlite(policy: &str) -> Self {
        Self::new(policy, None)
    }

    /// On a server.
    pub(crate) async fn on_postgres(policy: &str) -> Self {
        Self::new(policy, Some(Schema::create().await))
    }

    fn new(policy: &str, schema: Option<Schema>) -> Self {
        let folder = tempdir().unwrap();
        let mut environment = vec![
            ("COUNTERSIGN_POLICY", policy.to_owned()),
            ("COUNTERSIGN_REVIEWERS__ANA__EMAIL", "ana@acme.example".to_owned()),
            ("COUNTERSIGN_DATABASE__AUTO_MIGRATE", "true".to_owned()),
            ("COUNTERSIGN_PUBLIC_URL", PUBLIC_URL.to_owned()),
        ];
        environment.extend(schema.as_ref().map(|schema| ("COUNTERSIGN_DATABASE_URL", schema.url())));
        let borrowed: Vec<_> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let agent_key = create_key(folder.path(), &borrowed, "support-bot", &["agent"]);
        let reviewer_key = create_key(folder.path(), &borrowed, "ana", &["reviewer"]);
        let auditor_key = create_key(folder.path(), &borrowed, "eve", &["auditor"]);
        Self { folder, schema, environment, agent_key, reviewer_key, auditor_key }
    }

    fn borrowed(&self) -> Vec<(&str, &str)> {
        self.environment.iter().map(|(name, value)| (*name, value.as_str())).collect()
    }

    /// Starts the service, for the first time or again.
    pub(crate) fn start(&self) -> Process {
        Process::serve(self.folder.path(), &self.borrowed())
    }

    /// Checks the log and takes everything away.
    pub(crate) async fn end(self) {
        let verified = run(self.folder.path(), &["audit", "verify"], &self.borrowed());
        assert!(verified.status.success(), "{}", text(&verified.stdout));
        if let Some(schema) = self.schema {
            schema.drop().await;
        }
    }
}
