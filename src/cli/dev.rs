//! `countersign dev`: the whole service on this machine, with keys to try it and a line for each decision.
//!
//! Everything is kept in `./.countersign/`, which only its owner can open: the database, a policy to play with, and the
//! keys, so that a command copied yesterday works today. The keys open this database and nothing else.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write as _,
    net::SocketAddr,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::error::RecvError;

use super::{Done, Failure, print, runtime, tell};
use crate::{
    app::ports::{SharedStore, StoreError},
    config::{Config, SettingsFile, Sources},
    domain::{
        audit::entry::{Entry, EventKind},
        identity::{HolderName, KeyRecord, ReviewerName, Role},
        policy::Policy,
        review::visible,
        time::parse_duration,
    },
    server::{
        self, LogFormat, Patience,
        keys::{NewKey, make, record_of},
        policy_files,
        prepare::prepare,
        system::{SystemClock, SystemEntropy},
    },
};

const FOLDER: &str = ".countersign";

/// The policy that comes with the binary.
const QUICKSTART: &str = include_str!("../../examples/quickstart/policy.toml");

/// A call that the quickstart policy holds.
const HELD_CALL: &str = r#"{"tool":"send_email","args":{"to":["ana@customer.example"],"subject":"Your order","body":"It is on its way."},"run_id":"run-1","tool_use_id":"call-3","claim":true}"#;

/// The name of the reviewer.
const REVIEWER: &str = "dev";

/// The agent's name when the policy lists none.
const AGENT: &str = "dev-agent";

/// `dev`.
#[derive(Args)]
pub(super) struct Dev {
    /// Where to listen, on this machine
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// The policy; without it, .countersign/policy.toml, made from the quickstart the first time
    #[arg(long, value_name = "PATH")]
    policy: Option<PathBuf>,
}

pub(super) fn run(command: Dev) -> Result<Done, Failure> {
    if !command.listen.ip().is_loopback() {
        return Err(Failure(format!(
            "dev shows its keys, and {} can be reached from other machines: use `countersign serve`",
            command.listen
        )));
    }
    prepare_folder().map_err(|error| Failure(format!("{FOLDER}: {error}")))?;
    let policy = match command.policy {
        Some(policy) => policy,
        None => own_policy().map_err(|error| Failure(format!("{FOLDER}: {error}")))?,
    };
    let files = policy_files::read(&policy).map_err(Failure::new)?;
    // A policy with faults is told of below, with all that is wrong.
    let loaded = Policy::load(&files).ok();
    let agent = loaded.as_ref().and_then(|loaded| loaded.policy.agents().next().map(|(agent, _)| agent.to_owned()));
    let agent = agent.unwrap_or_else(|| AGENT.to_owned());
    let groups = loaded.map(|loaded| groups_of(&loaded.policy)).unwrap_or_default();
    let config = Config::draft(&sources(command.listen, &policy, &groups), parse_duration);
    let prepared = prepare(config).map_err(|refusal| Failure(format!("does not start like this:\n{refusal}")))?;
    let quickstart = files.iter().any(|file| file.text == QUICKSTART);

    server::start_logging(LogFormat::Text, "warn").map_err(Failure::new)?;
    runtime()?.block_on(async {
        let stop = server::asked_to_stop().map_err(Failure::new)?;
        let running = server::start(prepared).await.map_err(Failure::new)?;
        let store = running.store().clone();
        let keys = keys(&store, &agent).await?;
        let url = format!("http://{}", running.address());
        let reviewer = ReviewerName::parse(REVIEWER).map_err(Failure::new)?;
        let inbox = running.inbox_link(&reviewer).await.map_err(Failure::new)?;
        print(&welcome(&url, &inbox, &agent, &keys, &policy, quickstart))?;
        let since = store.head().await.map_err(Failure::new)?.seq;
        let following = tokio::spawn(follow(store, since, url, keys.reviewer));
        let ended = running.run_until(stop, Patience::TERMINAL).await;
        following.abort();
        ended.map_err(Failure::new)?;
        Ok(Done::Fine)
    })
}

fn prepare_folder() -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(FOLDER)?;
    let ignored = Path::new(FOLDER).join(".gitignore");
    if !ignored.exists() {
        fs::write(ignored, "*\n")?;
    }
    Ok(())
}

fn own_policy() -> std::io::Result<PathBuf> {
    let policy = Path::new(FOLDER).join("policy.toml");
    if !policy.exists() {
        fs::write(&policy, QUICKSTART)?;
    }
    Ok(policy)
}

fn groups_of(policy: &Policy) -> BTreeSet<String> {
    policy.groups_named().into_iter().map(str::to_owned).collect()
}

/// The settings, without those of the machine: `dev` needs none and heeds none.
fn sources(listen: SocketAddr, policy: &Path, groups: &BTreeSet<String>) -> Sources {
    let mut env = BTreeMap::from([
        ("COUNTERSIGN_LISTEN".to_owned(), listen.to_string().into()),
        ("COUNTERSIGN_DATABASE_URL".to_owned(), format!("sqlite://{FOLDER}/countersign.db").into()),
        ("COUNTERSIGN_POLICY".to_owned(), policy.as_os_str().to_owned()),
        ("COUNTERSIGN_REVIEWERS__DEV__EMAIL".to_owned(), "dev@localhost".into()),
        ("COUNTERSIGN_REVIEWERS__DEV__ROLES".to_owned(), "auditor,admin".into()),
    ]);
    if !groups.is_empty() {
        let groups = groups.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        env.insert("COUNTERSIGN_REVIEWERS__DEV__GROUPS".to_owned(), groups.into());
    }
    Sources { file: SettingsFile::None, env }
}

/// The three keys, as `keys.json` keeps them.
#[derive(Serialize, Deserialize)]
struct DevKeys {
    agent: String,
    reviewer: String,
    admin: String,
}

/// The keys that were kept, where they still open; new ones for the others.
async fn keys(store: &SharedStore, agent: &str) -> Result<DevKeys, Failure> {
    let path = Path::new(FOLDER).join("keys.json");
    let kept: Option<DevKeys> = fs::read_to_string(&path).ok().and_then(|text| serde_json::from_str(&text).ok());
    let records = store.keys().await.map_err(Failure::new)?;
    let key = async |kept: Option<String>, name: &str, roles: &[Role]| match kept {
        Some(kept) if opens(&kept, name, &records) => Ok(kept),
        Some(_) | None => new_key(store, name, roles).await,
    };
    let (of_agent, of_reviewer, of_admin) = match kept {
        Some(kept) => (Some(kept.agent), Some(kept.reviewer), Some(kept.admin)),
        None => (None, None, None),
    };
    let keys = DevKeys {
        agent: key(of_agent, agent, &[Role::Agent, Role::Orchestrator]).await?,
        reviewer: key(of_reviewer, REVIEWER, &[Role::Reviewer]).await?,
        admin: key(of_admin, "admin", &[Role::Admin, Role::Auditor]).await?,
    };
    write_secret(&path, &serde_json::to_string_pretty(&keys).map_err(Failure::new)?)
        .map_err(|error| Failure(format!("{}: {error}", path.display())))?;
    Ok(keys)
}

fn opens(key: &str, name: &str, records: &[KeyRecord]) -> bool {
    record_of(key, records, &SystemClock).is_some_and(|record| record.name().as_str() == name)
}

async fn new_key(store: &SharedStore, name: &str, roles: &[Role]) -> Result<String, Failure> {
    let name = HolderName::parse(name).map_err(Failure::new)?;
    let roles = roles.iter().copied().collect();
    let new = NewKey { name, roles, agents: BTreeSet::new(), expires_in: None };
    let made = make(store, &SystemClock, &SystemEntropy, new).await.map_err(Failure::new)?;
    Ok(made.text.expose().to_owned())
}

/// Replaces the file as a whole, readable by its owner only from its first moment on.
fn write_secret(path: &Path, text: &str) -> std::io::Result<()> {
    let new = path.with_extension("new");
    if new.exists() {
        fs::remove_file(&new)?;
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(new, path)
}

fn welcome(url: &str, inbox: &str, agent: &str, keys: &DevKeys, policy: &Path, quickstart: bool) -> String {
    let DevKeys { agent: agent_key, reviewer, admin } = keys;
    let policy = policy.display();
    let example = if quickstart {
        let call = curl(url, "/decide", agent_key, HELD_CALL);
        format!(
            "A call that is held for a human. Paste it, and the line that approves it appears here; pasted again after \
             that, it is claimed, once:\n\n  {call}"
        )
    } else {
        format!("What the agent may use:\n\n  curl -sS {url}/tools -H 'authorization: Bearer {agent_key}'")
    };
    format!(
        "Listening on {url}; everything is kept in ./{FOLDER}\n\
         \n\
         \x20 agent     {agent_key}   ({agent}; orchestrator too)\n\
         \x20 reviewer  {reviewer}   ({REVIEWER})\n\
         \x20 admin     {admin}   (auditor too)\n\
         \x20 inbox     {inbox}   (the reviewer's, in a browser; works once)\n\
         \n\
         The same for another terminal:\n\
         \n\
         \x20 export AGENT={agent_key} REVIEWER={reviewer} ADMIN={admin}\n\
         \n\
         {example}\n\
         \n\
         The policy is {policy}: an edit decides as soon as it is saved. The API is shown at {url}/docs\n"
    )
}

fn curl(url: &str, path: &str, key: &str, body: &str) -> String {
    format!("curl -sS {url}{path} -H 'authorization: Bearer {key}' -H 'content-type: application/json' -d '{body}'")
}

/// Prints a line for each decision, and for what becomes of those that are held.
async fn follow(store: SharedStore, since: i64, url: String, reviewer: String) {
    // Decisions are not announced; looking often is cheap on one's own machine.
    const LOOK: Duration = Duration::from_millis(200);
    let mut changes = store.changes();
    let mut seen = since;
    loop {
        match news(&store, seen, &url, &reviewer).await {
            Ok((lines, last)) => {
                seen = last;
                for line in lines {
                    if print(&line).is_err() {
                        return;
                    }
                }
            }
            Err(error) => tell(&format!("the log cannot be read: {error}")),
        }
        match tokio::time::timeout(LOOK, changes.recv()).await {
            Ok(Err(RecvError::Closed)) => tokio::time::sleep(LOOK).await,
            Ok(Ok(_) | Err(RecvError::Lagged(_))) | Err(_) => {}
        }
    }
}

async fn news(store: &SharedStore, since: i64, url: &str, reviewer: &str) -> Result<(Vec<String>, i64), StoreError> {
    const PAGE: u32 = 200;
    let mut last = since;
    let mut lines = Vec::new();
    for sealed in store.entries_after(since, PAGE).await? {
        last = sealed.seq;
        lines.extend(line(&sealed.entry));
        if sealed.entry.event == EventKind::ApprovalRequested
            && let Some(id) = sealed.entry.approval
            && let Some(approval) = store.approval(id).await?
        {
            let body = format!(r#"{{"decision":"approve","args_hash":"{}"}}"#, approval.args_hash);
            lines.push(format!("  {}", curl(url, &format!("/approvals/{id}/decision"), reviewer, &body)));
            if approval.requirement.double_confirm {
                lines.push("  Twice: two seconds later again, with the `confirmation` of the first answer".to_owned());
            }
        }
    }
    Ok((lines, last))
}

fn line(entry: &Entry) -> Option<String> {
    let first = match entry.event {
        EventKind::Decision => entry.verdict.map(|verdict| verdict.to_string())?,
        EventKind::ApprovalRequested => return None,
        EventKind::ApprovalJoined
        | EventKind::ApprovalToConfirm
        | EventKind::ApprovalVote
        | EventKind::ApprovalApproved
        | EventKind::ApprovalDenied
        | EventKind::ApprovalRevoked
        | EventKind::ApprovalLifted
        | EventKind::ApprovalExpired
        | EventKind::ApprovalCancelled
        | EventKind::Claim
        | EventKind::ClaimRefused
        | EventKind::ClaimReturned
        | EventKind::Outcome
        | EventKind::OutcomeLate
        | EventKind::OutcomeUnknown
        | EventKind::OutcomeSettled
        | EventKind::CallReused
        | EventKind::GrantCreated
        | EventKind::GrantRevoked
        | EventKind::GrantUsed
        | EventKind::RequestRefused
        | EventKind::RunDeclared
        | EventKind::RunRequested
        | EventKind::RunEnded
        | EventKind::RunStopped
        | EventKind::RunParked
        | EventKind::RunResumed
        | EventKind::AgentPaused
        | EventKind::AgentResumed
        | EventKind::NoticeDead
        | EventKind::NoticeReplayed
        | EventKind::DestinationDisabled
        | EventKind::DestinationEnabled
        | EventKind::PolicyLoaded
        | EventKind::PolicyRefused
        | EventKind::SessionOpened
        | EventKind::SessionClosed
        | EventKind::SignInRefused => entry.event.to_string(),
        EventKind::RequestUnauthenticated
        | EventKind::ConfigurationLoaded
        | EventKind::KeyCreated
        | EventKind::KeyRevoked
        | EventKind::LinkMade => return None,
    };
    let tool = entry.tool.as_deref().map(visible).unwrap_or_default();
    let run = entry.call.as_ref().map(|call| &call.run).or(entry.run.as_ref());
    let run = run.map(ToString::to_string).unwrap_or_default();
    let code = entry.code.as_ref().map(|code| format!("{code} ")).unwrap_or_default();
    let why = match &entry.reason {
        Some(reason) => visible(reason),
        None => format!("by {}", visible(&entry.actor.name)),
    };
    Some(format!("{first:<19} {tool:<17} {run:<9} {code}{why}").trim_end().to_owned())
}
