//! The service's own look at the world: taken before locks when a call is about to be held, and again before it is
//! claimed.

use serde_json::{Map, Value};

use super::App;
use crate::domain::{
    lookup::{Looked, LookupObjection, LookupResults},
    policy::Tool,
};

impl App {
    /// Takes all lookups of `tool` for these arguments, at once.
    pub(super) async fn look_up(&self, tool: &Tool, args: &Map<String, Value>) -> LookupResults {
        let mut requests = Vec::with_capacity(tool.lookups.len());
        let mut unfit = Vec::new();
        for lookup in &tool.lookups {
            match lookup.prepare(args) {
                Ok(request) => requests.push(request),
                Err((name, failure)) => unfit.push((name, Looked::Failed(failure))),
            }
        }
        if requests.is_empty() {
            return unfit.into_iter().collect();
        }
        let found = self.lookups.look_up(requests).await;
        unfit.into_iter().chain(found).collect()
    }
}

/// Why what was found now does not carry the claim of a call that was held with `then`, if it does not.
pub(super) fn lookup_objection(tool: &Tool, then: &LookupResults, now: &LookupResults) -> Option<LookupObjection> {
    tool.lookups.iter().find_map(|lookup| lookup.check_claim(then, now).err())
}
