//! From settings that were read to settings a service can run with: keys that are keys, reviewers who are each one
//! person, a policy that loads. Everything wrong is told at once, and nothing is started here.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    couriers::{Ways, check_slack_users},
    policy_files,
    sign_in::{self, SignInParts, WaysIn},
};
use crate::{
    auth::{
        checkpoint::CheckpointKey,
        permit::{PublicKey, SealKey, SigningKey},
    },
    config::{AbsenceSettings, Config, ConfigFault, Draft, ReviewerSettings, Secret, SecretSource},
    domain::{
        identity::{Absence, GroupName, ReviewerDirectory, ReviewerEntry, ReviewerName},
        policy::{Fault, Loaded, Policy, Severity, SourceFile},
        time::Timestamp,
    },
    outbound::Credentials,
    worker::policy_reload::PolicySource,
};

const ED25519_HINT: &str = "make one: openssl genpkey -algorithm ed25519";

/// What decides when no policy is set: nothing is declared, and every call is denied.
const NO_POLICY: &str = "schema = 1\n";

/// Everything a service runs with.
pub struct Prepared {
    pub(super) config: Config,
    pub(super) reviewers: ReviewerDirectory,
    pub(super) ways: Ways,
    pub(super) permit_keys: PermitKeys,
    pub(super) checkpoint_key: Option<Arc<CheckpointKey>>,
    pub(super) credentials: Arc<Credentials>,
    pub(super) sign_in: SignInParts,
    pub(super) source: Arc<ConfiguredPolicy>,
    pub(super) files: Vec<SourceFile>,
    pub(super) loaded: Loaded,
}

/// The keys of `[permits]`.
#[derive(Default)]
pub(super) struct PermitKeys {
    pub(super) current: Option<SigningKey>,
    pub(super) previous: Vec<PublicKey>,
    pub(super) seal: Option<SealKey>,
}

/// Why a service does not start: all that is wrong with its settings, and with its policy.
#[derive(Debug)]
pub struct Refusal {
    /// With the settings.
    pub settings: Vec<ConfigFault>,
    /// With the policy.
    pub policy: Vec<Fault>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = self.settings.iter().map(ToString::to_string);
        let policy = self.policy.iter().map(ToString::to_string);
        f.write_str(&settings.chain(policy).collect::<Vec<_>>().join("\n"))
    }
}

/// Makes settings fit to run with.
///
/// # Errors
/// [`Refusal`], with every fault of the settings and the policy.
pub fn prepare(mut draft: Draft) -> Result<Prepared, Refusal> {
    let mut faults = Vec::new();
    let config = draft.config();
    let reviewers = directory(&config.reviewers, &mut faults);
    let host = url::Url::parse(&config.public_url_at(config.listen)).ok();
    let host = host.as_ref().and_then(url::Url::host_str).unwrap_or("localhost");
    let ways = Ways::read(&config.channels, &config.callbacks, host, &mut faults);
    check_slack_users(&config.channels, &reviewers, &mut faults);
    let permit_keys = permit_keys(config, &mut faults);
    let sign_in = sign_in::parts(config, &mut faults);
    let checkpoint_key = config.audit.checkpoint_key.as_ref().and_then(|key| {
        let key = CheckpointKey::from_pkcs8_pem(key.expose());
        key.map_err(|error| faults.push(ConfigFault::new("audit.checkpoint_key", error.to_string(), ED25519_HINT))).ok()
    });
    if !config.server.trusted_proxies.is_empty() {
        faults.push(ConfigFault::new("server.trusted_proxies", "is not supported yet", "take it out"));
    }
    let credentials = Arc::new(Credentials::default());
    let source = ConfiguredPolicy {
        path: config.policy.clone(),
        reviewers: reviewers.clone(),
        secrets: config.secrets.clone(),
        credentials: Arc::clone(&credentials),
        ways_in: WaysIn::of(config),
    };
    let files =
        source.read().map_err(|error| faults.push(ConfigFault::new("policy", error, "name a readable file or folder")));
    let loaded = files.map(|files| (source.load(&files), files));
    for fault in faults {
        draft.add(fault);
    }
    let config = draft.finish();
    match (config, loaded) {
        (Ok(config), Ok((Ok(loaded), files))) => Ok(Prepared {
            config,
            reviewers,
            ways,
            permit_keys,
            checkpoint_key: checkpoint_key.map(Arc::new),
            credentials,
            sign_in,
            source: Arc::new(source),
            files,
            loaded,
        }),
        (config, loaded) => {
            let policy = loaded.ok().and_then(|(loaded, _)| loaded.err()).unwrap_or_default();
            Err(Refusal { settings: config.err().unwrap_or_default(), policy })
        }
    }
}

impl Prepared {
    /// What an operator should know and nothing refuses.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut warn = |applies: bool, text: &str| {
            if applies {
                warnings.push(text.to_owned());
            }
        };
        let config = &self.config;
        warn(config.policy.is_none(), "no policy is set: every call is denied");
        warn(self.reviewers.is_empty(), "no reviewer is configured: every call that would be held is denied");
        warn(
            config.permits.signing_key.is_none() && config.permits.seal_key.is_none(),
            "permits are signed with a key kept in the database, in the clear: set permits.signing_key",
        );
        warn(
            config.permits.signing_key.is_none() && config.permits.seal_key.is_some(),
            "permits are signed with a key kept in the database, sealed: set permits.signing_key to keep it elsewhere",
        );
        warn(self.checkpoint_key.is_none(), "checkpoints of the audit log are not signed: set audit.checkpoint_key");
        warn(
            config.public_url.is_none() && config.listen.ip().is_unspecified(),
            "public_url is not set: links and the issuer of permits name an address nobody can reach",
        );
        warnings.extend(self.loaded.warnings.iter().map(|fault| format!("policy: {fault}")));
        warnings
    }

    /// The groups that the policy names.
    pub fn groups_named(&self) -> BTreeSet<&str> {
        self.loaded.policy.groups_named()
    }
}

/// The policy of the settings.
pub(super) struct ConfiguredPolicy {
    path: Option<PathBuf>,
    reviewers: ReviewerDirectory,
    secrets: SecretSource,
    credentials: Arc<Credentials>,
    ways_in: WaysIn,
}

impl ConfiguredPolicy {
    /// Fetches the secrets that the policy's lookups send: one that is missing would only show when people wait.
    fn fetch_credentials(&self, policy: &Policy) -> Result<(), Vec<Fault>> {
        let mut secrets = BTreeMap::new();
        let mut faults = Vec::new();
        for (lookup, reference) in policy.credentials() {
            match self.secrets.fetch(reference) {
                Ok(secret) => {
                    secrets.insert(reference.to_owned(), Arc::from(secret.expose()));
                }
                Err(message) => faults.push(Fault {
                    file: String::new(),
                    line: 1,
                    column: 1,
                    severity: Severity::Error,
                    message: format!("the credential of {lookup} {message}"),
                    hint: "the policy names the secret, and the service's environment holds it".to_owned(),
                }),
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        self.credentials.add(secrets);
        Ok(())
    }
}

impl PolicySource for ConfiguredPolicy {
    fn read(&self) -> Result<Vec<SourceFile>, String> {
        match &self.path {
            Some(path) => policy_files::read(path).map_err(|error| error.to_string()),
            None => Ok(vec![SourceFile { path: "policy.toml".to_owned(), text: NO_POLICY.to_owned() }]),
        }
    }

    fn load(&self, files: &[SourceFile]) -> Result<Loaded, Vec<Fault>> {
        let loaded = Policy::load_for(files, &self.reviewers)?;
        let objections = self.ways_in.objections(&loaded.policy);
        if !objections.is_empty() {
            return Err(objections);
        }
        self.fetch_credentials(&loaded.policy)?;
        Ok(loaded)
    }
}

/// What is wrong with a policy on disk: errors and warnings together, in the order of its files.
#[derive(Debug)]
pub struct PolicyFindings {
    /// All of them.
    pub faults: Vec<Fault>,
    /// Its version, when it loads.
    pub version: Option<String>,
}

impl PolicyFindings {
    /// How many there are of this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.faults.iter().filter(|fault| fault.severity == severity).count()
    }
}

/// Compiles and lints the policy at `path`; for the reviewers of `config`, where that is at hand.
///
/// # Errors
/// When it cannot be read, or the reviewers of `config` are at fault.
pub fn check_policy(path: &Path, config: Option<&Config>) -> Result<PolicyFindings, String> {
    let files = policy_files::read(path).map_err(|error| error.to_string())?;
    let loaded = match config {
        Some(config) => {
            let mut faults = Vec::new();
            let reviewers = directory(&config.reviewers, &mut faults);
            if !faults.is_empty() {
                return Err(Refusal { settings: faults, policy: Vec::new() }.to_string());
            }
            Policy::load_for(&files, &reviewers).and_then(|loaded| {
                let objections = WaysIn::of(config).objections(&loaded.policy);
                if objections.is_empty() { Ok(loaded) } else { Err(objections) }
            })
        }
        None => Policy::load(&files),
    };
    Ok(match loaded {
        Ok(loaded) => PolicyFindings { faults: loaded.warnings, version: Some(loaded.policy.version().to_string()) },
        Err(faults) => PolicyFindings { faults, version: None },
    })
}

/// The directory of the reviewers that are written, as far as they are at no fault.
pub(super) fn directory(written: &[ReviewerSettings], faults: &mut Vec<ConfigFault>) -> ReviewerDirectory {
    let before = faults.len();
    let entries: Vec<_> = written.iter().filter_map(|settings| entry(settings, faults)).collect();
    let all = faults.len() == before;
    match ReviewerDirectory::new(entries) {
        Ok(directory) if all => directory,
        Ok(_) => ReviewerDirectory::default(),
        Err(found) => {
            for fault in found {
                let (name, field) = fault.place();
                let hint = "an identity names one person";
                faults.push(ConfigFault::new(format!("reviewers.{name}.{field}"), fault.to_string(), hint));
            }
            ReviewerDirectory::default()
        }
    }
}

fn entry(settings: &ReviewerSettings, faults: &mut Vec<ConfigFault>) -> Option<ReviewerEntry> {
    let place = format!("reviewers.{}", settings.name);
    let mut invalid = |place: String, error: String| faults.push(ConfigFault::new(place, error, "choose another name"));
    let name = ReviewerName::parse(&settings.name);
    let name = name.map_err(|error| invalid(place.clone(), format!("is {error}"))).ok();
    let groups: BTreeSet<GroupName> = settings
        .groups
        .iter()
        .filter_map(|group| {
            GroupName::parse(group)
                .map_err(|error| invalid(format!("{place}.groups"), format!("{group:?} is {error}")))
                .ok()
        })
        .collect();
    Some(ReviewerEntry {
        name: name?,
        groups,
        email: settings.email.clone(),
        slack_user: settings.slack_user.clone(),
        oidc_subject: settings.oidc_subject.clone(),
        absence: absence(settings, faults),
    })
}

/// The absence of a reviewer, where it is written whole.
fn absence(settings: &ReviewerSettings, faults: &mut Vec<ConfigFault>) -> Option<Absence> {
    let place = |key: &str| format!("reviewers.{}.{key}", settings.name);
    let AbsenceSettings { from, until, deputy } = &settings.absence;
    let (from, until, deputy) = match (from, until, deputy) {
        (None, None, None) => return None,
        (Some(from), Some(until), Some(deputy)) => (from, until, deputy),
        (Some(_), _, _) | (_, Some(_), _) | (_, _, Some(_)) => {
            let message = "is half an absence: it takes absent_from, absent_until and deputy";
            faults.push(ConfigFault::new(place("deputy"), message, "write all three, or none"));
            return None;
        }
    };
    let mut moment = |key: &str, text: &str| {
        let moment = Timestamp::parse_rfc3339(text);
        if moment.is_none() {
            faults.push(ConfigFault::new(place(key), "is no moment", "write it like 2026-12-24T18:00:00Z"));
        }
        moment
    };
    let (from, until) = (moment("absent_from", from), moment("absent_until", until));
    match ReviewerName::parse(deputy) {
        Ok(deputy) => Some(Absence { from: from?, until: until?, deputy }),
        Err(error) => {
            faults.push(ConfigFault::new(place("deputy"), format!("is {error}"), "name another reviewer"));
            None
        }
    }
}

fn permit_keys(config: &Config, faults: &mut Vec<ConfigFault>) -> PermitKeys {
    let permits = &config.permits;
    if permits.signing_key.is_some() && permits.seal_key.is_some() {
        let message = "does nothing beside permits.signing_key, which is not kept in the database";
        faults.push(ConfigFault::new("permits.seal_key", message, "take one of the two out"));
    }
    let mut or_fault = |setting: &str, error: String| faults.push(ConfigFault::new(setting, error, ED25519_HINT));
    let current = permits.signing_key.as_ref().and_then(|key| {
        let key = SigningKey::from_pkcs8_pem(key.expose());
        key.map_err(|error| or_fault("permits.signing_key", format!("is {error}"))).ok()
    });
    let previous = |key: &Secret| {
        let key = PublicKey::from_pem(key.expose());
        key.map_err(|error| or_fault("permits.previous_keys", format!("is {error}"))).ok()
    };
    let previous = permits.previous_keys.iter().filter_map(previous).collect();
    let seal = permits.seal_key.as_ref().and_then(|key| {
        let key = SealKey::new(key.expose());
        key.map_err(|error| faults.push(ConfigFault::new("permits.seal_key", error.to_string(), "try another"))).ok()
    });
    PermitKeys { current, previous, seal }
}
