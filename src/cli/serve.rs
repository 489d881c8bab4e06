//! `countersign serve`.

use std::io::IsTerminal as _;

use clap::Args;

use super::{Done, Failure, SettingsArgs, runtime, tell};
use crate::server::{self, LogFormat, Patience, prepare::prepare};

/// `serve`.
#[derive(Args)]
pub(super) struct Serve {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Only look for what would keep it from starting; 2 is the exit code then
    #[arg(long)]
    check: bool,
}

pub(super) fn run(command: Serve) -> Result<Done, Failure> {
    let prepared = match prepare(command.settings.draft()) {
        Ok(prepared) => prepared,
        Err(refusal) => {
            let message = format!("does not start like this:\n{refusal}");
            if command.check {
                tell(&message);
                return Ok(Done::Findings);
            }
            return Err(Failure(message));
        }
    };
    if command.check {
        prepared.warnings().iter().for_each(|warning| tell(&format!("warning: {warning}")));
        tell("settings and policy are fine");
        return Ok(Done::Fine);
    }
    // Lines for whoever looks at a terminal, JSON for whatever collects them.
    let format = if std::io::stderr().is_terminal() { LogFormat::Text } else { LogFormat::Json };
    server::start_logging(format, "info").map_err(Failure::new)?;
    for warning in prepared.warnings() {
        tracing::warn!("{warning}");
    }
    runtime()?.block_on(async {
        let stop = server::asked_to_stop().map_err(Failure::new)?;
        let running = server::start(prepared).await.map_err(Failure::new)?;
        tracing::info!(address = %running.address(), public_url = running.public_url(), "listening");
        running.run_until(stop, Patience::SERVICE).await.map_err(Failure::new)?;
        Ok(Done::Fine)
    })
}
