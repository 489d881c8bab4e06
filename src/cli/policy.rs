//! `countersign policy check`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use super::{Done, Failure, SettingsArgs, print, print_json, tell};
use crate::{
    domain::policy::Severity,
    server::prepare::{PolicyFindings, check_policy},
};

/// `policy`.
#[derive(Subcommand)]
pub(super) enum Policy {
    /// Compile and lint a policy; ends with 2 when it has errors
    Check(Check),
}

/// `policy check`.
#[derive(Args)]
pub(super) struct Check {
    /// The policy, a file or a folder
    path: PathBuf,
    /// Check the groups it names against the reviewers of these settings
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Count warnings as errors
    #[arg(long)]
    strict: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(command: Policy) -> Result<Done, Failure> {
    let Policy::Check(command) = command;
    let config = match command.config {
        Some(config) => Some(SettingsArgs { config: Some(config) }.load()?),
        None => None,
    };
    let findings = check_policy(&command.path, config.as_ref()).map_err(Failure::new)?;
    let (errors, warnings) = (findings.count(Severity::Error), findings.count(Severity::Warning));
    if command.json {
        print_json(&as_json(&findings, errors, warnings))?;
    } else {
        for fault in &findings.faults {
            print(&fault.to_string())?;
        }
        let path = command.path.display();
        match &findings.version {
            Some(version) => tell(&format!("{path}: fine but for {warnings} warning(s); version {version}")),
            None => tell(&format!("{path}: {errors} error(s), {warnings} warning(s)")),
        }
    }
    let found = errors > 0 || command.strict && warnings > 0;
    Ok(if found { Done::Findings } else { Done::Fine })
}

fn as_json(findings: &PolicyFindings, errors: usize, warnings: usize) -> serde_json::Value {
    json!({
        "policy_version": findings.version,
        "errors": errors,
        "warnings": warnings,
        "faults": findings.faults,
    })
}
