//! The settings: `countersign.toml` and `COUNTERSIGN_*`, read strictly into values that need no second look. A leaf: it
//! must not know what any setting is used for, and only `cli` and `server` read it.
//!
//! A setting `a.b` is the key `b` of the table `[a]`, or the variable `COUNTERSIGN_A__B`, which wins. Whatever is not
//! understood, half set or not yet supported is a fault, and all faults are told at once; so a service either runs with
//! exactly the settings that were written, or not at all. Relative paths are relative to the working directory.

use std::{fmt, net::SocketAddr, path::PathBuf, time::Duration};

use ipnet::IpNet;

mod channels;
mod database_url;
mod reader;
mod secret;
mod sign_in;
mod source;

pub use channels::{CallbackSettings, ChannelMeans, ChannelSettings, SlackSettings, WebhookSettings};
pub use database_url::{DatabaseUrl, Engine};
pub use secret::{Secret, SecretBytes, SecretSource};
pub use sign_in::{JwtSettings, OidcSettings};
pub use source::{SettingsFile, Sources};

use reader::{Reader, Section};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const CENTURY: Duration = Duration::from_secs(36_525 * 24 * 60 * 60);

/// How a length of time is read from text such as `4h`. It comes in as an argument because policies read the same words,
/// and what they mean is not for the settings to say.
pub type ParseDuration = fn(&str) -> Option<Duration>;

/// Something wrong with the settings. It never repeats a value, which may be secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFault {
    /// The setting, as `table.key`; or the file or variable, when it cannot be read at all.
    pub setting: String,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub hint: String,
}

impl ConfigFault {
    /// A fault of `setting`.
    pub fn new(setting: impl Into<String>, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { setting: setting.into(), message: message.into(), hint: hint.into() }
    }
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.setting, self.message, self.hint)
    }
}

/// Every setting. An empty configuration gives the defaults stated here.
#[derive(Debug)]
pub struct Config {
    /// Where the service listens; `127.0.0.1:8080`.
    pub listen: SocketAddr,
    /// The address people and tool servers reach it by, without a slash at the end. See [`Config::public_url_at`].
    pub public_url: Option<String>,
    /// The database; `sqlite://countersign.db`.
    pub database_url: DatabaseUrl,
    /// `[database]`.
    pub database: DatabaseSettings,
    /// The policy, a file or a folder.
    pub policy: Option<PathBuf>,
    /// `[reviewers]`, in the order of their names.
    pub reviewers: Vec<ReviewerSettings>,
    /// `[oidc]`, when it is set.
    pub oidc: Option<OidcSettings>,
    /// `[jwt]`, when it is set.
    pub jwt: Option<JwtSettings>,
    /// `[channels]`, in the order of their names.
    pub channels: Vec<ChannelSettings>,
    /// `[callbacks]`, in the order of their agents.
    pub callbacks: Vec<CallbackSettings>,
    /// `[permits]`.
    pub permits: PermitSettings,
    /// `[audit]`.
    pub audit: AuditSettings,
    /// `[limits]`.
    pub limits: LimitSettings,
    /// `[server]`.
    pub server: ServerSettings,
    /// Where the secrets are that a policy names.
    pub secrets: SecretSource,
    /// The names of the settings that were written, without their values: what the audit log keeps of them.
    pub written: Vec<String>,
}

/// `[database]`.
#[derive(Debug)]
pub struct DatabaseSettings {
    /// Whether `serve` brings a Postgres schema up to date itself; no. On SQLite it always does.
    pub auto_migrate: bool,
}

/// One entry of `[reviewers]`, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewerSettings {
    /// The entry's name.
    pub name: String,
    /// The groups the person is in.
    pub groups: Vec<String>,
    /// The person's e-mail address.
    pub email: Option<String>,
    /// The person's user id in Slack.
    pub slack_user: Option<String>,
    /// The person's subject at the sign-in provider.
    pub oidc_subject: Option<String>,
    /// What the person may be beside a reviewer when signed in: `auditor`, `admin`.
    pub roles: Vec<String>,
    /// When the person is away, and who decides instead; all three or none.
    pub absence: AbsenceSettings,
}

/// The absence of a reviewer, as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AbsenceSettings {
    /// From this moment on, RFC 3339.
    pub from: Option<String>,
    /// Until this moment, RFC 3339.
    pub until: Option<String>,
    /// Who decides instead.
    pub deputy: Option<String>,
}

/// `[permits]`.
#[derive(Debug)]
pub struct PermitSettings {
    /// The private key that signs, PKCS#8 in PEM; without one the service makes its own and keeps it in the store.
    pub signing_key: Option<Secret>,
    /// Keys that signed before and are still published, in PEM.
    pub previous_keys: Vec<Secret>,
    /// 32 bytes in base64 that seal a key kept in the store.
    pub seal_key: Option<SecretBytes>,
}

/// `[audit]`.
#[derive(Debug)]
pub struct AuditSettings {
    /// The private key that signs checkpoints, in PEM; without one nothing is signed.
    pub checkpoint_key: Option<Secret>,
    /// How often a checkpoint is signed when the log has grown; one minute.
    pub checkpoint_every: Duration,
    /// The file checkpoints are appended to, so that they leave the database.
    pub checkpoint_file: Option<PathBuf>,
    /// How long payloads are kept at least; 183 days.
    pub minimum_retention: Duration,
}

/// `[limits]`.
#[derive(Debug)]
pub struct LimitSettings {
    /// The largest request body in bytes; 262,144.
    pub body_bytes: usize,
    /// How many requests a second one caller may make; as many as it likes when not set.
    pub requests_per_second: Option<u32>,
    /// How long a claimed call may run without a sign of life, unless its tool says otherwise; five minutes.
    pub claim_lease: Duration,
    /// The most connections to the database; 16.
    pub database_connections: u32,
}

/// `[server]`.
#[derive(Debug)]
pub struct ServerSettings {
    /// A listener for `/metrics` alone; without one they are served with everything else.
    pub metrics_listen: Option<SocketAddr>,
    /// Networks whose `X-Forwarded-For` is believed; none.
    pub trusted_proxies: Vec<IpNet>,
    /// How long a request may take, the time it asked to wait for a human not counted; 30 seconds.
    pub request_timeout: Duration,
    /// What a refusal tells the model; `tool unavailable` when not set.
    pub refusal_text: Option<String>,
}

/// Settings that were read and are not in force: whoever starts the service may look for faults that the settings alone
/// do not show, a key that is none or two reviewers who are one, and adds them, so that all are told at once.
#[derive(Debug)]
pub struct Draft {
    config: Config,
    faults: Vec<ConfigFault>,
}

impl Draft {
    /// The settings, with the default for each that is faulty. To be looked at, not run with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Adds a fault found elsewhere.
    pub fn add(&mut self, fault: ConfigFault) {
        self.faults.push(fault);
    }

    /// The settings, to run with.
    ///
    /// # Errors
    ///
    /// Every fault, if there is any.
    pub fn finish(self) -> Result<Config, Vec<ConfigFault>> {
        if self.faults.is_empty() { Ok(self.config) } else { Err(self.faults) }
    }
}

impl Config {
    /// Reads the settings and the secrets they name.
    pub fn draft(sources: &Sources, parse_duration: ParseDuration) -> Draft {
        let mut faults = Vec::new();
        let tree = source::merge(sources, &mut faults);
        let written = source::names(&tree);
        let reader = Reader::new(&sources.env, parse_duration, faults);
        let secrets = SecretSource::new(sources.env.clone());
        let config = Self { written, secrets, ..Self::read(Section::root(&reader, tree)) };
        Draft { config, faults: reader.into_faults() }
    }

    /// Reads the settings and the secrets they name, where nobody else has faults to add.
    ///
    /// # Errors
    ///
    /// Every fault, if there is any.
    pub fn load(sources: &Sources, parse_duration: ParseDuration) -> Result<Self, Vec<ConfigFault>> {
        Self::draft(sources, parse_duration).finish()
    }

    /// The address people and tool servers reach the service by, without a slash at the end: `public_url`, or else
    /// where it `listens`.
    pub fn public_url_at(&self, listens: SocketAddr) -> String {
        self.public_url.clone().unwrap_or_else(|| format!("http://{listens}"))
    }

    fn read(mut root: Section<'_>) -> Self {
        let listen = root.address("listen").unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8080)));
        let config = Self {
            listen,
            public_url: root.base_url("public_url"),
            database_url: root.database_url("database_url").unwrap_or_default(),
            database: DatabaseSettings::read(root.section("database")),
            policy: root.path("policy"),
            reviewers: root.entries("reviewers").into_iter().map(ReviewerSettings::read).collect(),
            oidc: root.optional_section("oidc").and_then(OidcSettings::read),
            jwt: root.optional_section("jwt").and_then(JwtSettings::read),
            channels: root.entries("channels").into_iter().filter_map(ChannelSettings::read).collect(),
            callbacks: root.entries("callbacks").into_iter().filter_map(CallbackSettings::read).collect(),
            permits: PermitSettings::read(root.section("permits")),
            audit: AuditSettings::read(root.section("audit")),
            limits: LimitSettings::read(root.section("limits")),
            server: ServerSettings::read(root.section("server"), listen),
            secrets: SecretSource::default(),
            written: Vec::new(),
        };
        root.finish();
        config
    }
}

impl DatabaseSettings {
    fn read(mut section: Section<'_>) -> Self {
        let settings = Self { auto_migrate: section.boolean("auto_migrate").unwrap_or(false) };
        section.finish();
        settings
    }
}

impl ReviewerSettings {
    fn read((name, mut section): (String, Section<'_>)) -> Self {
        let settings = Self {
            name,
            groups: section.texts("groups"),
            email: section.text("email"),
            slack_user: section.text("slack_user"),
            oidc_subject: section.text("oidc_subject"),
            roles: section.texts("roles"),
            absence: AbsenceSettings {
                from: section.text("absent_from"),
                until: section.text("absent_until"),
                deputy: section.text("deputy"),
            },
        };
        section.finish();
        settings
    }
}

impl PermitSettings {
    fn read(mut section: Section<'_>) -> Self {
        let settings = Self {
            signing_key: section.secret("signing_key"),
            previous_keys: section.secrets("previous_keys"),
            seal_key: section.secret_bytes("seal_key"),
        };
        section.finish();
        settings
    }
}

impl AuditSettings {
    fn read(mut section: Section<'_>) -> Self {
        for key in ["checkpoint_every", "checkpoint_file"] {
            if section.has(key) && !section.has("checkpoint_key") {
                section.fault(key, "does nothing without audit.checkpoint_key", "set the key too, or neither");
            }
        }
        let settings = Self {
            checkpoint_key: section.secret("checkpoint_key"),
            checkpoint_every: section.duration("checkpoint_every", Duration::from_secs(1)..=DAY).unwrap_or(MINUTE),
            checkpoint_file: section.path("checkpoint_file"),
            minimum_retention: section.duration("minimum_retention", Duration::ZERO..=CENTURY).unwrap_or(183 * DAY),
        };
        section.finish();
        settings
    }
}

impl LimitSettings {
    fn read(mut section: Section<'_>) -> Self {
        let settings = Self {
            body_bytes: section.number("body_bytes", 1_024..=16_777_216).unwrap_or(262_144),
            requests_per_second: section.number("requests_per_second", 1..=1_000_000),
            claim_lease: section.duration("claim_lease", Duration::from_secs(1)..=DAY).unwrap_or(5 * MINUTE),
            database_connections: section.number("database_connections", 2..=1_000).unwrap_or(16),
        };
        section.finish();
        settings
    }
}

impl ServerSettings {
    fn read(mut section: Section<'_>, listen: SocketAddr) -> Self {
        let metrics_listen = section.address("metrics_listen");
        if metrics_listen == Some(listen) {
            section.fault("metrics_listen", "is the same as listen", "give another port, or leave it out");
        }
        let settings = Self {
            metrics_listen,
            trusted_proxies: section.networks("trusted_proxies"),
            request_timeout: section
                .duration("request_timeout", Duration::from_millis(100)..=HOUR)
                .unwrap_or(Duration::from_secs(30)),
            refusal_text: section.line("refusal_text", 500),
        };
        section.finish();
        settings
    }
}
