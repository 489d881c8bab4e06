//! `GET /tools`: what an agent may use, as a model provider or an MCP client wants to know it.

use serde_json::Value;

use super::{App, Caller};
use crate::domain::verdict::Risk;

/// A tool that the agent may use.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolView {
    /// Its own name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Its JSON Schema as the policy has it.
    pub parameters: Value,
    /// Its risk class.
    pub risk: Risk,
    /// Running it twice with one key is running it once.
    pub idempotent: bool,
    /// Some call of it could be held.
    pub may_require_approval: bool,
}

impl App {
    /// The tools that the calling agent may use, by name.
    pub fn list_tools(&self, caller: &Caller) -> Vec<ToolView> {
        let policy = self.policy();
        let Some(agent) = caller.principal.agent() else { return Vec::new() };
        policy
            .tools()
            .filter(|tool| policy.agent_may_use(agent.as_str(), tool))
            .map(|tool| ToolView {
                name: tool.name.clone(),
                description: tool.description.clone(),
                parameters: tool.parameters().clone(),
                risk: tool.risk,
                idempotent: tool.idempotent,
                may_require_approval: tool.may_require_approval(),
            })
            .collect()
    }
}
