//! `countersign audit verify`.

use clap::{Args, Subcommand};
use serde_json::json;

use super::{Done, Failure, SettingsArgs, print, print_json, runtime, with_progress};
use crate::{
    app::audit_log::{Verification, verify},
    server,
};

/// `audit`.
#[derive(Subcommand)]
pub(super) enum Audit {
    /// Check every entry of the log; ends with 2 and names the first bad one, if there is any
    Verify(Verify),
}

/// `audit verify`.
#[derive(Args)]
pub(super) struct Verify {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(command: Audit) -> Result<Done, Failure> {
    let Audit::Verify(command) = command;
    let config = command.settings.load()?;
    runtime()?.block_on(async {
        let store = server::open_existing(&config).await.map_err(Failure::new)?;
        let verification = with_progress("verifying", verify(&store)).await.map_err(Failure::new)?;
        if command.json {
            print_json(&as_json(&verification))?;
        } else {
            print(&as_text(&verification))?;
        }
        Ok(if verification.fault.is_some() { Done::Findings } else { Done::Fine })
    })
}

/// The same as `GET /audit/verify` answers.
fn as_json(verification: &Verification) -> serde_json::Value {
    let fault = verification.fault.map(|(seq, fault)| json!({ "seq": seq, "problem": fault.to_string() }));
    json!({
        "ok": fault.is_none(),
        "checked": verification.checked,
        "head": { "seq": verification.head.seq, "chain": hex::encode(verification.head.chain) },
        "fault": fault,
    })
}

fn as_text(verification: &Verification) -> String {
    let Verification { checked, head, fault } = verification;
    match fault {
        None => format!("all {checked} entries are good; the chain ends in {}", hex::encode(head.chain)),
        Some((seq, fault)) => format!("entry {seq} is bad: {fault}; the {checked} before it are good"),
    }
}
