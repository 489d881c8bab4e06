//! `countersign migrate`.

use clap::Args;

use super::{Done, Failure, SettingsArgs, runtime, tell, with_progress};
use crate::server;

/// `migrate`.
#[derive(Args)]
pub(super) struct Migrate {
    #[command(flatten)]
    settings: SettingsArgs,
}

pub(super) fn run(command: Migrate) -> Result<Done, Failure> {
    let config = command.settings.load()?;
    runtime()?.block_on(async {
        let applied = with_progress("migrating", server::migrate(&config)).await.map_err(Failure::new)?;
        match applied {
            0 => tell("the schema is this version's already"),
            applied => tell(&format!("{applied} migration(s) applied")),
        }
        Ok(Done::Fine)
    })
}
