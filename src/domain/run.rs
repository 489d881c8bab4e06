//! A run: one execution of one agent, with the family of runs it belongs to. What they have touched and what their
//! humans asked is the family's, so that handing work to a sub-agent loses neither.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    audit::payload::PayloadDigest, call::CallKey, facts::RunFacts, identity::AgentId, ids::RunId, time::Timestamp,
};

/// What names a run: two agents' runs of the same id are two runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunKey {
    /// Whose execution it is.
    pub agent: AgentId,
    /// Which one.
    pub run: RunId,
}

impl RunKey {
    /// The run that a call belongs to.
    pub fn of(call: &CallKey) -> Self {
        Self { agent: call.agent.clone(), run: call.run.clone() }
    }
}

/// What is known of a run, whether or not anybody declared it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its name.
    pub key: RunKey,
    /// The runs it was started by, the nearest first; none for the head of a family.
    pub ancestors: Vec<RunKey>,
    /// Whom it works for.
    pub on_behalf_of: Option<String>,
    /// What the family has touched.
    pub labels: BTreeSet<String>,
    /// What the family's humans asked, the oldest first; the texts are payloads.
    pub requests: Vec<PayloadDigest>,
    /// How it ended, if it has.
    pub ended: Option<Ending>,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// When.
    pub at: Timestamp,
    /// Who ended it: the name of a key or of a reviewer.
    pub by: String,
    /// A reviewer stopped it, rather than its orchestrator having come to the end.
    pub stopped: bool,
}

impl Run {
    /// A run that nothing is known of yet.
    pub fn new(key: RunKey) -> Self {
        Self {
            key,
            ancestors: Vec::new(),
            on_behalf_of: None,
            labels: BTreeSet::new(),
            requests: Vec::new(),
            ended: None,
        }
    }

    /// The head of its family, where labels and requests are kept.
    pub fn head(&self) -> &RunKey {
        self.ancestors.last().unwrap_or(&self.key)
    }

    /// The agents above, the nearest first.
    pub fn agents_above(&self) -> impl Iterator<Item = &AgentId> {
        self.ancestors.iter().map(|ancestor| &ancestor.agent)
    }

    /// What decisions are made on.
    pub fn facts(&self) -> RunFacts {
        RunFacts {
            ended: self.ended.is_some(),
            agents_above: self.agents_above().cloned().collect(),
            value: json!({ "id": self.key.run, "labels": self.labels, "on_behalf_of": self.on_behalf_of }),
        }
    }
}
