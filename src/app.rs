//! The use cases: one file each, one transaction each, committed in sight. They know the domain and the ports only.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use uuid::Uuid;

use crate::domain::{
    audit::{
        entry::{Actor, Entry, EventKind},
        payload::Salt,
    },
    call::{CallKey, ToolCall},
    canon::path::PathFinding,
    channel::Channels,
    facts::{Facts, RunFacts},
    identity::{Credential, Principal, ReviewerDirectory, ReviewerName},
    judge::paths_to_find,
    policy::{Policy, Tool},
    run::{Run, RunKey},
    time::Timestamp,
};

pub mod agents;
pub mod audit_log;
pub mod checkpoints;
pub mod claim_call;
pub mod confirm;
pub mod decide_batch;
pub mod decide_call;
pub mod decide_many;
pub mod deliver;
pub mod deny_and_stop;
pub mod desk;
pub mod destinations;
mod eligibility;
pub mod error;
pub mod expire;
pub mod grants;
mod kept;
pub mod keys;
mod limits;
pub mod links;
pub mod list_tools;
mod lookups;
pub mod policies;
pub mod ports;
pub mod report_outcome;
pub mod review;
pub mod runs;
pub mod sessions;
pub mod sign_in;
mod tell;
mod tokens;
mod trusted_texts;

use audit_log::DecisionLog;
use error::Error;
use ports::{Clock, Entropy, LookupClient, PathResolver, PermitSigner, SharedStore, StoreError, Tx};
use sessions::SignInSettings;
use trusted_texts::TrustedTexts;

/// What every use case works with.
pub struct App {
    store: SharedStore,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    permits: Arc<dyn PermitSigner>,
    paths: Arc<dyn PathResolver>,
    lookups: Arc<dyn LookupClient>,
    log: DecisionLog,
    texts: TrustedTexts,
    policy: ArcSwap<Policy>,
    reviewers: ReviewerDirectory,
    channels: Channels,
    settings: Settings,
    sign_in: SignInSettings,
}

/// Settings of the use cases.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where people and tool servers reach the service, without a trailing slash.
    pub public_url: String,
    /// How long a claim waits for its report, when the tool does not say.
    pub claim_lease: Duration,
}

/// Who asks, in which request.
#[derive(Clone, Debug)]
pub struct Caller {
    /// What the key resolved to.
    pub principal: Principal,
    /// The request's id, for the log.
    pub request_id: String,
}

impl Caller {
    /// The caller as the log names it.
    pub fn actor(&self) -> Actor {
        Actor { name: self.principal.name().to_string(), via: self.principal.credential().to_string() }
    }

    /// A log entry by this caller.
    pub fn entry(&self, event: EventKind, at: Timestamp) -> Entry {
        Entry { request_id: Some(self.request_id.clone()), ..Entry::new(event, at, self.actor()) }
    }
}

/// A configured reviewer who asks: the only way to a vote.
#[derive(Clone, Debug)]
pub struct ReviewerCaller {
    /// Who asks.
    pub caller: Caller,
    /// The entry of `[reviewers]`.
    pub name: ReviewerName,
    /// The groups of that entry.
    pub groups: BTreeSet<String>,
}

/// Everything an [`App`] is made of.
pub struct Parts {
    /// The durable memory.
    pub store: SharedStore,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of randomness.
    pub entropy: Arc<dyn Entropy>,
    /// The permit key.
    pub permits: Arc<dyn PermitSigner>,
    /// The disk that paths may have to be looked up on.
    pub paths: Arc<dyn PathResolver>,
    /// What looks at the world for reviewers.
    pub lookups: Arc<dyn LookupClient>,
    /// The writer of decisions.
    pub log: DecisionLog,
    /// The policy to begin with.
    pub policy: Policy,
    /// Who may vote.
    pub reviewers: ReviewerDirectory,
    /// Who is told of what.
    pub channels: Channels,
    /// Settings.
    pub settings: Settings,
}

impl App {
    /// Puts the use cases together.
    pub fn new(parts: Parts) -> Self {
        Self {
            store: parts.store,
            clock: parts.clock,
            entropy: parts.entropy,
            permits: parts.permits,
            paths: parts.paths,
            lookups: parts.lookups,
            log: parts.log,
            texts: TrustedTexts::default(),
            policy: ArcSwap::from_pointee(parts.policy),
            reviewers: parts.reviewers,
            channels: parts.channels,
            settings: parts.settings,
            sign_in: SignInSettings::default(),
        }
    }

    /// The same, where people sign in like this. Without it nothing but personal links opens a session.
    #[must_use]
    pub fn with_sign_in(self, sign_in: SignInSettings) -> Self {
        Self { sign_in, ..self }
    }

    /// The policy that decides now.
    pub fn policy(&self) -> Arc<Policy> {
        self.policy.load_full()
    }

    /// The durable memory, for reads that are no use case of their own.
    pub fn store(&self) -> &SharedStore {
        &self.store
    }

    /// The public permit keys.
    pub fn jwks(&self) -> serde_json::Value {
        self.permits.jwks()
    }

    /// The configured reviewers.
    pub fn reviewers(&self) -> &ReviewerDirectory {
        &self.reviewers
    }

    /// Who is told of what.
    pub fn channels(&self) -> &Channels {
        &self.channels
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Where the paths of this call lead on disk, looked at before locks are taken.
    async fn found_paths(&self, policy: &Policy, call: &ToolCall) -> BTreeMap<String, PathFinding> {
        let questions = paths_to_find(policy, call);
        if questions.is_empty() { BTreeMap::new() } else { self.paths.find(questions).await }
    }

    /// Locks the agent and the run of a call of `tool`: the run, and everything `judge` needs to know.
    async fn facts_under_locks(
        &self,
        tx: &mut dyn Tx,
        call: &CallKey,
        tool: Option<&Tool>,
        paths: BTreeMap<String, PathFinding>,
    ) -> Result<(Facts, Run), Error> {
        let standing = tx.lock_agent(&call.agent).await?;
        let run = tx.lock_run(&RunKey::of(call)).await?;
        let above: Vec<_> = run.agents_above().collect();
        let agent_paused = standing.paused || !above.is_empty() && tx.any_paused(&above).await?;
        let request = match tool {
            Some(tool) if tool.reads_request() => Some(self.trusted_request(&run).await?),
            Some(_) | None => None,
        };
        Ok((Facts { agent_paused, run: Some(RunFacts { request, ..run.facts() }), paths }, run))
    }

    /// Adds what `tool` touches to what the run's family has touched: it was permitted in this transaction.
    async fn join_labels(&self, tx: &mut dyn Tx, run: &Run, tool: &Tool, entry: &mut Entry) -> Result<(), Error> {
        let new: Vec<&String> = tool.labels.difference(&run.labels).collect();
        if new.is_empty() {
            return Ok(());
        }
        entry.detail.insert("labels".to_owned(), new.into_iter().cloned().collect::<Vec<_>>().into());
        let labels = run.labels.union(&tool.labels).cloned().collect();
        Ok(tx.set_labels(run.head(), &labels).await?)
    }

    /// The moment, read with the locks in hand, when what the caller showed is good still.
    async fn valid_now(&self, tx: &mut dyn Tx, caller: &Caller) -> Result<Timestamp, Error> {
        match caller.principal.credential() {
            Credential::Key(id) => {
                let key = tx.key(*id).await?;
                let now = self.now();
                key.and_then(|key| key.principal_at(now)).map(|_| now).ok_or(Error::KeyRevoked)
            }
            Credential::Session(id) => {
                let session = tx.session(*id).await?;
                let now = self.now();
                session.and_then(|record| record.standing_at(now)).map(|_| now).ok_or(Error::KeyRevoked)
            }
            // Each was checked on its way in; a chat and an issuer keep no record here.
            Credential::Token(_) | Credential::Chat(_) => Ok(self.now()),
        }
    }

    fn salt(&self) -> Result<Salt, Error> {
        let mut salt = Salt::default();
        self.entropy.fill(&mut salt)?;
        Ok(salt)
    }

    /// A UUIDv7 (RFC 9562) of `now`.
    fn uuid(&self, now: Timestamp) -> Result<Uuid, Error> {
        let mut random = [0; 10];
        self.entropy.fill(&mut random)?;
        let millis = u64::try_from(now.as_micros() / 1_000).unwrap_or_default();
        Ok(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }
}

/// Runs a use case's transaction again while another one is in its way: nothing was committed then.
///
/// `attempt` is not an `AsyncFn`, for the futures of one are not known to be `Send`.
async fn retrying<T, F, A>(attempt: F) -> Result<T, Error>
where
    F: Fn() -> A,
    A: Future<Output = Result<T, Error>>,
{
    const ATTEMPTS: u32 = 5;
    for _ in 1..ATTEMPTS {
        match attempt().await {
            Err(Error::Store(StoreError::Contended(_))) => {}
            answer => return answer,
        }
    }
    attempt().await
}
