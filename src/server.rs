//! Puts the service together and takes it down again: the only place where the layers meet.

use std::{io, net::SocketAddr, num::NonZeroU32, path::PathBuf, sync::Arc, time::Duration};

use axum::{Router, serve::ListenerExt as _};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::{Notify, watch},
    task::{JoinHandle, JoinSet},
    time::timeout,
};

use crate::{
    app::{
        App, Parts, Settings,
        audit_log::DecisionLog,
        error::Error,
        ports::{CheckpointSigner, Clock, SharedStore, StoreError},
    },
    auth::{key_ring::KeyRing, permit::PermitSigner},
    config::{Config, Engine},
    domain::{
        audit::entry::{Actor, Entry, EventKind},
        identity::ReviewerName,
    },
    filesystem::Disk,
    http::{
        self,
        state::{HttpParts, HttpSettings, HttpState},
    },
    outbound::Outbound,
    storage::{self, ConnectOptions, ConnectedStore},
    worker::{
        Work, Workers, checkpoint::Checkpoints, expiry::Expiry, key_refresh::KeyRefresh, outbox::Outbox,
        policy_reload::PolicyReload, unauthenticated::Unauthenticated,
    },
};

mod couriers;
pub mod keys;
mod permit_key;
pub mod policy_files;
pub mod prepare;
mod sign_in;
pub mod system;

pub use crate::{
    http::openapi::document as openapi_document,
    telemetry::{Format as LogFormat, TelemetryError, start as start_logging},
};

use permit_key::NoPermitKey;
use prepare::{PermitKeys, Prepared};
use system::{SystemClock, SystemEntropy};

/// The commit this binary was built from, when the build says it.
const COMMIT: Option<&str> = option_env!("COUNTERSIGN_COMMIT");

/// How a service stops. Together these stay below the ten seconds that container runtimes give before they kill.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// How long it still accepts requests after it says that it is not ready, so that whoever sends them can notice.
    pub notice: Duration,
    /// How long requests may then take to end.
    pub drain: Duration,
}

impl Patience {
    /// For a service behind something that looks at `/readyz`.
    pub const SERVICE: Self = Self { notice: Duration::from_secs(1), drain: Duration::from_secs(7) };
    /// For one that a person stops at a terminal.
    pub const TERMINAL: Self = Self { notice: Duration::ZERO, drain: Duration::from_secs(2) };
}

/// How long the writer of decisions may take for what waits when everything else has stopped.
const FLUSH: Duration = Duration::from_secs(1);

/// Why a service does not start, or a command cannot do its work.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The database does not answer, or not as it should.
    #[error("the database: {0}")]
    Store(#[from] StoreError),
    /// Its schema is an older version's.
    #[error("the database lacks {0} migration(s): run `countersign migrate`, or set database.auto_migrate = true")]
    PendingMigrations(usize),
    /// Nothing to read.
    #[error("there is no database {0}: set database_url to the one that is meant")]
    NoDatabase(PathBuf),
    /// Somebody else listens there, or nobody may.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the operating system says.
        error: io::Error,
    },
    /// No permits can be signed.
    #[error("permits: {0}")]
    PermitKey(#[from] NoPermitKey),
    /// What must be recorded at the start cannot be.
    #[error("the audit log: {0}")]
    Record(#[from] Error),
    /// The operating system gives no signals.
    #[error("signals: {0}")]
    Signals(io::Error),
}

/// Something that must not end did.
#[derive(Debug, thiserror::Error)]
#[error("{0} has ended: without it nothing can be permitted")]
pub struct Died(&'static str);

/// Connects to the database of the settings, whatever version its schema has.
///
/// # Errors
/// When it does not answer.
pub async fn connect(config: &Config) -> Result<ConnectedStore, StartError> {
    let options = ConnectOptions { max_connections: config.limits.database_connections };
    Ok(storage::connect(config.database_url.expose(), options).await?)
}

/// Opens the store of the settings, its schema this version's: on SQLite, and where the settings say so, it is brought
/// up to date first.
///
/// # Errors
/// [`StartError::Store`], or [`StartError::PendingMigrations`] where the operator migrates.
pub async fn open(config: &Config) -> Result<SharedStore, StartError> {
    if !config.database.auto_migrate && config.database_url.engine() == Engine::Postgres {
        return open_existing(config).await;
    }
    let connected = connect(config).await?;
    connected.migrate().await?;
    Ok(connected.store())
}

/// Opens the store of the settings, and neither makes nor migrates anything: an empty database would only tell whoever
/// mistyped its name that all is well.
///
/// # Errors
/// [`StartError::NoDatabase`] when there is none, [`StartError::PendingMigrations`], [`StartError::Store`].
pub async fn open_existing(config: &Config) -> Result<SharedStore, StartError> {
    if let Some(path) = sqlite_file(config)
        && !path.exists()
    {
        return Err(StartError::NoDatabase(path));
    }
    let connected = connect(config).await?;
    match connected.pending_migrations().await? {
        0 => Ok(connected.store()),
        pending => Err(StartError::PendingMigrations(pending)),
    }
}

fn sqlite_file(config: &Config) -> Option<PathBuf> {
    let rest = config.database_url.expose().strip_prefix("sqlite://")?;
    Some(rest.split_once('?').map_or(rest, |(path, _)| path).into())
}

/// Brings the schema to this version's; how many migrations it took.
///
/// # Errors
/// When the database does not answer, a migration fails, or the schema is a later version's.
pub async fn migrate(config: &Config) -> Result<usize, StartError> {
    let connected = connect(config).await?;
    let pending = connected.pending_migrations().await?;
    connected.migrate().await?;
    Ok(pending)
}

/// A service that answers requests.
pub struct Running {
    address: SocketAddr,
    public_url: String,
    app: Arc<App>,
    writer: JoinHandle<()>,
    workers: Workers,
    serving: JoinSet<io::Result<()>>,
    signals: JoinSet<()>,
    draining: watch::Sender<bool>,
    closing: watch::Sender<bool>,
}

/// Starts a service.
///
/// # Errors
/// [`StartError`]; nothing is left running then.
pub async fn start(prepared: Prepared) -> Result<Running, StartError> {
    let Prepared { config, reviewers, ways, permit_keys, checkpoint_key, credentials, sign_in, source, files, loaded } =
        prepared;
    let store = open(&config).await?;
    let listener = listen(config.listen).await?;
    let address = listener.local_addr().map_err(|error| StartError::Listen { address: config.listen, error })?;
    let metrics_listener = match config.server.metrics_listen {
        Some(address) => Some(listen(address).await?),
        None => None,
    };
    let public_url = config.public_url_at(address);
    let permits = permit_signer(&store, permit_keys, &public_url).await?;

    let outbound = Outbound::new(credentials);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let slack = ways.slack_doors(&outbound);
    let (channels, couriers) = ways.couriers(&outbound, &clock);
    let (log, writer) = DecisionLog::new(Arc::clone(&store));
    let app = App::new(Parts {
        store: Arc::clone(&store),
        clock,
        entropy: Arc::new(SystemEntropy),
        permits: Arc::new(permits),
        paths: Arc::new(Disk::default()),
        lookups: Arc::new(outbound.clone()),
        log,
        policy: loaded.policy,
        reviewers,
        channels,
        settings: Settings { public_url: public_url.clone(), claim_lease: config.limits.claim_lease },
    });
    let app = Arc::new(app.with_sign_in(sign_in::settings(&config, sign_in, &public_url, &outbound)));
    app.record(configuration_entry(&config)).await?;
    app.record_policy(&files).await?;

    let keys = Arc::new(KeyRing::new(store.keys().await?));
    let (draining, closing) = (watch::Sender::new(false), watch::Sender::new(false));
    let state = HttpState::new(HttpParts {
        app: Arc::clone(&app),
        keys: Arc::clone(&keys),
        slack,
        settings: HttpSettings {
            body_bytes: config.limits.body_bytes,
            requests_per_second: config.limits.requests_per_second.and_then(NonZeroU32::new),
            request_timeout: config.server.request_timeout,
            refusal_text: config.server.refusal_text,
            public_url: public_url.clone(),
            commit: COMMIT.unwrap_or("unknown").to_owned(),
            checkpoints_signed: checkpoint_key.is_some(),
            metrics_elsewhere: metrics_listener.is_some(),
        },
        draining: draining.subscribe(),
    });

    let reload = Arc::new(PolicyReload::new(Arc::clone(&app), source, files));
    let nudged = Arc::new(Notify::new());
    let mut signals = JoinSet::new();
    let mut hangup = signal(SignalKind::hangup()).map_err(StartError::Signals)?;
    signals.spawn({
        let (reload, nudged) = (Arc::clone(&reload), Arc::clone(&nudged));
        async move {
            while hangup.recv().await.is_some() {
                reload.ask();
                nudged.notify_one();
            }
        }
    });

    let signer = checkpoint_key.map(|key| -> Arc<dyn CheckpointSigner> { key });
    let every = config.audit.checkpoint_every;
    let checkpoints = Checkpoints::new(Arc::clone(&app), signer, every, config.audit.checkpoint_file);
    let take = Arc::new(move |records| keys.replace(records));
    let mut workers = Workers::default();
    let mut work = |work: Arc<dyn Work>, nudged: Arc<Notify>| workers.start(work, store.changes(), nudged);
    work(Arc::new(Expiry { app: Arc::clone(&app) }), Arc::default());
    work(Arc::new(Outbox::new(Arc::clone(&app), Arc::new(couriers))), Arc::default());
    work(Arc::new(KeyRefresh { store: Arc::clone(&store), take }), Arc::default());
    work(Arc::new(checkpoints), Arc::default());
    work(reload, nudged);
    let counts = state.clone();
    let take = Box::new(move || counts.metrics.drain_unauthenticated());
    work(Arc::new(Unauthenticated::new(Arc::clone(&app), take)), Arc::default());

    let mut serving = JoinSet::new();
    if let Some(listener) = metrics_listener {
        serving.spawn(serve(listener, http::metrics_router(state.clone()), closing.subscribe()));
    }
    serving.spawn(serve(listener, http::router(state), closing.subscribe()));
    let writer = tokio::spawn(writer.run());
    Ok(Running { address, public_url, app, writer, workers, serving, signals, draining, closing })
}

impl Running {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where people and tool servers reach it.
    pub fn public_url(&self) -> &str {
        &self.public_url
    }

    /// What it remembers.
    pub fn store(&self) -> &SharedStore {
        self.app.store()
    }

    /// The address that opens the inbox of `reviewer` in a browser on this machine, once.
    ///
    /// # Errors
    /// When this service is not for this machine alone, or the store does not answer.
    pub async fn inbox_link(&self, reviewer: &ReviewerName) -> Result<String, Error> {
        self.app.make_inbox_link(reviewer).await
    }

    /// Goes on until `stop`, and then stops in order: not ready, no new requests, those that run come to their end, no
    /// workers, nothing left to write.
    ///
    /// # Errors
    /// [`Died`] when a part ends that must not, so that whoever watches the process starts it again.
    pub async fn run_until(mut self, stop: impl Future<Output = ()>, patience: Patience) -> Result<(), Died> {
        let died = tokio::select! {
            () = stop => Ok(()),
            _ = &mut self.writer => Err(Died("the writer of decisions")),
            _ = self.serving.join_next() => Err(Died("the listener")),
        };
        tracing::info!("stopping");
        self.draining.send_replace(true);
        if died.is_ok() {
            tokio::time::sleep(patience.notice).await;
        }
        self.closing.send_replace(true);
        let all_ended = async { while self.serving.join_next().await.is_some() {} };
        if timeout(patience.drain, all_ended).await.is_err() {
            tracing::warn!("requests were cut off: they took too long to end");
        }
        self.serving.shutdown().await;
        self.signals.shutdown().await;
        if timeout(patience.drain, self.workers.stop()).await.is_err() {
            tracing::warn!("a worker was cut off: it took too long to end");
        }
        died?;
        // The last door to the writer: it ends when it has written what waits.
        drop(self.app);
        if timeout(FLUSH, self.writer).await.is_err() {
            tracing::warn!("the writer of decisions was cut off");
        }
        tracing::info!("stopped");
        Ok(())
    }
}

/// Returns when the process is asked to end.
///
/// # Errors
/// When the operating system gives no signals.
pub fn asked_to_stop() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

async fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).await.map_err(|error| StartError::Listen { address, error })
}

async fn serve(listener: TcpListener, router: Router, mut closing: watch::Receiver<bool>) -> io::Result<()> {
    // Answers are small and waited for: none may sit in the kernel until the next one comes.
    let listener = listener.tap_io(|connection| {
        if let Err(error) = connection.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps its delay");
        }
    });
    let closed = async move {
        // An error means that the service itself is gone.
        let _ = closing.wait_for(|closing| *closing).await;
    };
    axum::serve(listener, router).with_graceful_shutdown(closed).await
}

async fn permit_signer(store: &SharedStore, keys: PermitKeys, issuer: &str) -> Result<PermitSigner, StartError> {
    let PermitKeys { current, previous, seal } = keys;
    let current = match current {
        Some(key) => key,
        None => permit_key::shared(store, seal.as_ref(), &SystemEntropy, SystemClock.now()).await?,
    };
    Ok(PermitSigner::new(issuer, current, previous))
}

fn configuration_entry(config: &Config) -> Entry {
    let mut entry = Entry::new(EventKind::ConfigurationLoaded, SystemClock.now(), Actor::service());
    entry.detail.insert("version".to_owned(), env!("CARGO_PKG_VERSION").into());
    entry.detail.insert("settings".to_owned(), config.written.clone().into());
    entry
}
