//! `countersign keys create|list|revoke`.

use std::{collections::BTreeSet, time::Duration};

use clap::{Args, Subcommand};
use serde_json::json;

use super::{Done, Failure, SettingsArgs, print, print_json, runtime, tell};
use crate::{
    app::{error::Error, keys::revoke_key, ports::Clock as _},
    config::Config,
    domain::{
        identity::{AgentId, HolderName, KeyRecord, KeyState, Role},
        ids::KeyId,
        time::{Timestamp, parse_duration},
    },
    server::{
        self,
        keys::{NewKey, make, operator},
        system::{SystemClock, SystemEntropy},
    },
};

/// `keys`.
#[derive(Subcommand)]
pub(super) enum Keys {
    /// Create a key and print it, this once
    Create(Create),
    /// List all keys, without what opens
    List(List),
    /// Revoke a key; within two seconds it opens nothing any more
    Revoke(Revoke),
}

/// `keys create`.
#[derive(Args)]
pub(super) struct Create {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Whom it is for: an agent's id, or for a reviewer an entry of [reviewers]
    #[arg(long)]
    name: HolderName,
    /// agent, orchestrator, reviewer, auditor or admin; several times for several
    #[arg(long = "role", required = true)]
    roles: Vec<Role>,
    /// An agent an orchestrator writes for; without one, the agent of the key's own name
    #[arg(long = "agent")]
    agents: Vec<AgentId>,
    /// How long it is good for, such as 90d; without it, until it is revoked
    #[arg(long, value_parser = lifetime, value_name = "TIME")]
    expires: Option<Duration>,
}

/// `keys list`.
#[derive(Args)]
pub(super) struct List {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `keys revoke`.
#[derive(Args)]
pub(super) struct Revoke {
    #[command(flatten)]
    settings: SettingsArgs,
    /// The key's id, as `keys list` shows it
    id: KeyId,
}

pub(super) fn run(command: Keys) -> Result<Done, Failure> {
    match command {
        Keys::Create(command) => create(command),
        Keys::List(command) => list(command),
        Keys::Revoke(command) => revoke(command),
    }
}

fn create(command: Create) -> Result<Done, Failure> {
    let config = command.settings.load()?;
    let roles: BTreeSet<Role> = command.roles.into_iter().collect();
    if roles.contains(&Role::Reviewer) {
        is_reviewer(&command.name, &config)?;
    }
    let agents = command.agents.into_iter().collect();
    let new = NewKey { name: command.name, roles, agents, expires_in: command.expires };
    runtime()?.block_on(async {
        let store = server::open(&config).await.map_err(Failure::new)?;
        let made = make(&store, &SystemClock, &SystemEntropy, new).await.map_err(Failure::new)?;
        print(made.text.expose())?;
        let until = made.record.expires_at().map(|at| format!(", good until {at}")).unwrap_or_default();
        tell(&format!("created {} for {}{until}; it is not shown again", made.record.id(), made.record.name()));
        Ok(Done::Fine)
    })
}

/// A reviewer's key without an entry would have no vote: better to say so now.
fn is_reviewer(name: &HolderName, config: &Config) -> Result<(), Failure> {
    if config.reviewers.iter().any(|reviewer| reviewer.name == name.as_str()) {
        return Ok(());
    }
    let known: Vec<_> = config.reviewers.iter().map(|reviewer| reviewer.name.as_str()).collect();
    let known = if known.is_empty() { "there is none".to_owned() } else { format!("known: {}", known.join(", ")) };
    Err(Failure(format!("{name} is no entry of [reviewers] in the settings ({known})")))
}

fn list(command: List) -> Result<Done, Failure> {
    let config = command.settings.load()?;
    runtime()?.block_on(async {
        let store = server::open_existing(&config).await.map_err(Failure::new)?;
        let keys = store.keys().await.map_err(Failure::new)?;
        let now = SystemClock.now();
        if command.json {
            print_json(&keys.iter().map(|key| as_json(key, now)).collect())?;
        } else {
            let mut rows = vec![["ID", "NAME", "ROLES", "CREATED", "STATE"].map(str::to_owned)];
            rows.extend(keys.iter().map(|key| as_row(key, now)));
            print(&table(&rows))?;
        }
        Ok(Done::Fine)
    })
}

fn revoke(command: Revoke) -> Result<Done, Failure> {
    let config = command.settings.load()?;
    runtime()?.block_on(async {
        let store = server::open_existing(&config).await.map_err(Failure::new)?;
        match revoke_key(&store, &operator(), command.id, SystemClock.now()).await {
            Ok(()) => tell(&format!("revoked {}", command.id)),
            Err(Error::NotFound) => {
                return Err(Failure(format!("{} is no key, or was revoked before", command.id)));
            }
            Err(error) => return Err(Failure::new(error)),
        }
        Ok(Done::Fine)
    })
}

fn as_json(key: &KeyRecord, now: Timestamp) -> serde_json::Value {
    json!({
        "id": key.id(),
        "name": key.name(),
        "roles": key.roles(),
        "agents": key.agents(),
        "created_at": key.created_at(),
        "expires_at": key.expires_at(),
        "revoked_at": key.revoked_at(),
        "state": match key.state_at(now) {
            KeyState::Active => "active",
            KeyState::Expired { .. } => "expired",
            KeyState::Revoked { .. } => "revoked",
        },
    })
}

fn as_row(key: &KeyRecord, now: Timestamp) -> [String; 5] {
    let roles: Vec<_> = key.roles().iter().map(Role::as_str).collect();
    let state = match (key.state_at(now), key.expires_at()) {
        (KeyState::Active, Some(at)) => format!("active until {at}"),
        (KeyState::Active, None) => "active".to_owned(),
        (KeyState::Expired { at }, _) => format!("expired {at}"),
        (KeyState::Revoked { at }, _) => format!("revoked {at}"),
    };
    [key.id().to_string(), key.name().to_string(), roles.join(","), key.created_at().to_string(), state]
}

/// Columns as wide as their widest cell, two spaces between them.
fn table<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let mut widths = [0; COLUMNS];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
    }
    let line = |row: &[String; COLUMNS]| {
        let cells: Vec<_> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn lifetime(text: &str) -> Result<Duration, String> {
    parse_duration(text)
        .filter(|lifetime| !lifetime.is_zero())
        .ok_or_else(|| "not a length of time such as 30m, 12h or 90d".to_owned())
}
