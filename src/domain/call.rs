//! A tool call as an agent proposes it, before anything is known of it.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    canon::json::ArgsHash,
    identity::AgentId,
    ids::{RunId, ToolUseId},
};

/// What names a tool call: two calls with the same key are the same call, asked again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallKey {
    /// Who proposes it.
    pub agent: AgentId,
    /// The execution it belongs to. Two agents' runs of the same id are two runs.
    pub run: RunId,
    /// Model turn, for models whose tool-use ids repeat.
    pub turn: u32,
    /// The model's id of the call.
    pub tool_use_id: ToolUseId,
}

/// Arguments with their canonical hash, which no code can change apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Arguments {
    /// Always an object: schemas are asked about values, everything else about members.
    json: Value,
    hash: ArgsHash,
}

impl Arguments {
    /// Hashes the arguments.
    ///
    /// # Errors
    /// As [`ArgsHash::of`]; never for arguments that the strict parser returned.
    pub fn new(value: Map<String, Value>) -> Result<Self, serde_json::Error> {
        let hash = ArgsHash::of(&value)?;
        Ok(Self { json: Value::Object(value), hash })
    }

    /// The arguments as presented.
    pub fn value(&self) -> &Map<String, Value> {
        static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
        self.json.as_object().unwrap_or(&NONE)
    }

    /// The same as one JSON value.
    pub const fn json(&self) -> &Value {
        &self.json
    }

    /// Their canonical hash.
    pub const fn hash(&self) -> ArgsHash {
        self.hash
    }
}

/// One proposed tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// Its name among calls.
    pub key: CallKey,
    /// The tool as presented: a name or an alias.
    pub tool: String,
    /// The arguments as presented.
    pub args: Arguments,
    /// What the stack says of the request; untrusted, and absent unless sent.
    pub context: Option<Value>,
}
