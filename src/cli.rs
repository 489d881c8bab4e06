//! The commands: what they take, what they print, with which code they end. It must not know how anything is done.
//!
//! What a command was asked for goes to standard output, everything else to standard error. It ends with 0 when all is
//! fine, 1 when it could not do its work, 2 when it did and found something.

use std::{ffi::OsString, fmt::Display, io::Write as _, path::PathBuf, process::ExitCode, time::Duration};

use clap::{Args, Parser, Subcommand};
use tokio::runtime::Runtime;

use crate::{
    config::{Config, ConfigFault, Draft, Sources},
    domain::time::parse_duration,
};

mod audit;
mod dev;
mod healthcheck;
mod keys;
mod migrate;
mod openapi;
mod policy;
mod serve;
mod why;

#[derive(Parser)]
#[command(name = "countersign", version, about, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run everything on this machine, without any set-up
    Dev(dev::Dev),
    /// Run the service
    Serve(serve::Serve),
    /// Bring the database's schema to this version's
    Migrate(migrate::Migrate),
    /// Create, list and revoke API keys
    #[command(subcommand)]
    Keys(keys::Keys),
    /// Work on policies
    #[command(subcommand)]
    Policy(policy::Policy),
    /// Work on the audit log
    #[command(subcommand)]
    Audit(audit::Audit),
    /// Explain a decision or an approval
    Why(why::Why),
    /// Print the OpenAPI document of the HTTP API
    Openapi,
    /// Ask the service on this machine whether it is there
    Healthcheck(healthcheck::Healthcheck),
}

/// How a command that did its work ends.
enum Done {
    /// All is fine.
    Fine,
    /// It found something.
    Findings,
}

/// Why a command could not do its work, for people.
struct Failure(String);

impl Failure {
    fn new(message: impl Display) -> Self {
        Self(message.to_string())
    }

    /// All that is wrong, a line each.
    fn of_settings(faults: &[ConfigFault]) -> Self {
        let faults: String = faults.iter().map(|fault| format!("\n  {fault}")).collect();
        Self(format!("the settings are at fault:{faults}"))
    }
}

/// Where the settings are.
#[derive(Args)]
struct SettingsArgs {
    /// The settings' file; without it, countersign.toml in the working directory if it is there
    #[arg(long, env = "COUNTERSIGN_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
}

impl SettingsArgs {
    fn draft(self) -> Draft {
        Config::draft(&Sources::of_process(self.config), parse_duration)
    }

    fn load(self) -> Result<Config, Failure> {
        self.draft().finish().map_err(|faults| Failure::of_settings(&faults))
    }
}

/// Runs the command that `arguments` name, the name of the program first.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Nobody is left to tell when the terminal itself is gone.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(1) } else { ExitCode::SUCCESS };
        }
    };
    let done = match cli.command {
        Command::Dev(command) => dev::run(command),
        Command::Serve(command) => serve::run(command),
        Command::Migrate(command) => migrate::run(command),
        Command::Keys(command) => keys::run(command),
        Command::Policy(command) => policy::run(command),
        Command::Audit(command) => audit::run(command),
        Command::Why(command) => why::run(command),
        Command::Openapi => openapi::run(),
        Command::Healthcheck(command) => healthcheck::run(command),
    };
    match done {
        Ok(Done::Fine) => ExitCode::SUCCESS,
        Ok(Done::Findings) => ExitCode::from(2),
        Err(Failure(message)) => {
            tell(&message);
            ExitCode::from(1)
        }
    }
}

fn runtime() -> Result<Runtime, Failure> {
    Runtime::new().map_err(Failure::new)
}

/// Writes `text` and a line feed to standard output.
fn print(text: &str) -> Result<(), Failure> {
    writeln!(std::io::stdout().lock(), "{text}").map_err(Failure::new)
}

/// Writes `value` as JSON to standard output.
fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    print(&serde_json::to_string_pretty(value).map_err(Failure::new)?)
}

/// Writes `message` to standard error.
fn tell(message: &str) {
    // Nobody is left to tell when standard error itself is gone.
    let _ = writeln!(std::io::stderr().lock(), "countersign: {message}");
}

/// Does `work`, and says so when it takes over a second.
async fn with_progress<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    let mut seconds = 0;
    for step in [1, 4, 15, 40].into_iter().chain(std::iter::repeat(60)) {
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(Duration::from_secs(step)) => {
                seconds += step;
                tell(&format!("{what}, {seconds} s so far"));
            }
        }
    }
    work.await
}
