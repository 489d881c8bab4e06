//! `GET /policy`: the policy in force, for administrators.

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{RiskView, VerdictView};
use crate::{
    app::error::Error,
    domain::{policy, time::Timestamp},
    http::{
        error::{Authenticated, Refusal},
        extract::Admin,
        state::HttpState,
    },
};

/// The routes.
pub(in crate::http) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(get_policy))
}

/// The policy in force.
#[derive(Serialize, ToSchema)]
struct Policy {
    /// SHA-256 over its files.
    version: String,
    /// When it was first accepted; `null` when the store does not know it.
    #[schema(value_type = Option<String>, format = DateTime)]
    accepted_at: Option<Timestamp>,
    /// Its files as they were accepted.
    files: Vec<PolicyFile>,
    /// What it says of each tool, in short.
    tools: Vec<PolicyTool>,
    /// The agents it lists; when it lists none, every agent may use every tool.
    agents: Vec<String>,
}

/// One file of the policy.
#[derive(Serialize, ToSchema)]
struct PolicyFile {
    /// Relative to the policy's folder.
    path: String,
    text: String,
}

/// What the policy says of a tool.
#[derive(Serialize, ToSchema)]
struct PolicyTool {
    name: String,
    aliases: Vec<String>,
    risk: RiskView,
    /// The verdict when no rule is true.
    default: VerdictView,
    /// Its own rules, by id.
    rules: Vec<String>,
    /// The rules over many tools that cover it, by id.
    floors: Vec<String>,
    /// Some call of it could be held for people.
    may_require_approval: bool,
}

impl From<&policy::Tool> for PolicyTool {
    fn from(tool: &policy::Tool) -> Self {
        let ids = |rules: &[policy::Rule]| rules.iter().map(|rule| rule.id.clone()).collect();
        Self {
            name: tool.name.clone(),
            aliases: tool.aliases.iter().cloned().collect(),
            risk: tool.risk.into(),
            default: tool.default.into(),
            rules: ids(&tool.rules),
            floors: ids(&tool.floors),
            may_require_approval: tool.may_require_approval(),
        }
    }
}

/// Which policy decides?
#[utoipa::path(
    get, path = "/policy", tag = "policy", security(("key" = ["admin"])),
    responses(Authenticated, (status = 200, description = "The policy in force.", body = Policy))
)]
async fn get_policy(State(state): State<HttpState>, _: Admin) -> Result<Json<Policy>, Refusal> {
    let policy = state.app.policy();
    let stored = state.app.store().policy(policy.version()).await.map_err(Error::from)?;
    let (accepted_at, files) = match stored {
        Some(stored) => (Some(stored.accepted_at), stored.files),
        None => (None, Vec::new()),
    };
    Ok(Json(Policy {
        version: policy.version().to_string(),
        accepted_at,
        files: files.into_iter().map(|(path, text)| PolicyFile { path, text }).collect(),
        tools: policy.tools().map(PolicyTool::from).collect(),
        agents: policy.agents().map(|(id, _)| id.to_owned()).collect(),
    }))
}
