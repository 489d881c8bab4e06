//! `GET /tools`: what an agent may use, in the words of a Model Context Protocol tool list.

use axum::{Json, extract::State};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::RiskView;
use crate::{
    app::list_tools::ToolView,
    domain::verdict::Risk,
    http::{
        error::{Authenticated, Refusal},
        extract::Agent,
        state::HttpState,
    },
};

/// The routes.
pub(in crate::http) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(list_tools))
}

/// The tools that an agent may use.
#[derive(Serialize, ToSchema)]
struct Tools {
    /// By name.
    items: Vec<Tool>,
    /// Always null: the list is whole.
    next_cursor: Option<String>,
}

/// A tool that an agent may use.
#[derive(Serialize, ToSchema)]
struct Tool {
    name: String,
    description: String,
    /// JSON Schema of its arguments.
    #[serde(rename = "inputSchema")]
    #[schema(value_type = Object)]
    input_schema: Value,
    annotations: Annotations,
    risk: RiskView,
    /// Running it twice with one idempotency key is running it once.
    idempotent: bool,
    /// Some call of it could be held for people.
    may_require_approval: bool,
}

/// Hints as the Model Context Protocol (2025-06-18, `ToolAnnotations`) names them, out of the risk class.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Annotations {
    read_only_hint: bool,
    destructive_hint: bool,
    idempotent_hint: bool,
    open_world_hint: bool,
}

impl From<ToolView> for Tool {
    fn from(tool: ToolView) -> Self {
        let ToolView { name, description, parameters, risk, idempotent, may_require_approval } = tool;
        let annotations = Annotations {
            read_only_hint: risk == Risk::Read,
            destructive_hint: risk == Risk::Destructive,
            idempotent_hint: idempotent,
            open_world_hint: risk >= Risk::Send,
        };
        let risk = risk.into();
        Self { name, description, input_schema: parameters, annotations, risk, idempotent, may_require_approval }
    }
}

/// What may I use?
#[utoipa::path(
    get, path = "/tools", tag = "calls", security(("key" = ["agent"])),
    responses(Authenticated, (status = 200, description = "The tools this agent may use.", body = Tools))
)]
async fn list_tools(State(state): State<HttpState>, agent: Agent) -> Result<Json<Tools>, Refusal> {
    let items = state.app.list_tools(&agent.caller).into_iter().map(Tool::from).collect();
    Ok(Json(Tools { items, next_cursor: None }))
}
