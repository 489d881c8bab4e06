//! A look at a world that the test makes up.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use countersign::{
    app::ports::LookupClient,
    domain::lookup::{Looked, LookupFailure, LookupRequest, LookupResults},
};
use serde_json::Value;

/// What lookups find, by name; nobody answers the others.
#[derive(Clone, Default)]
pub(crate) struct MadeUp(Arc<Mutex<Inside>>);

#[derive(Default)]
struct Inside {
    found: BTreeMap<String, Looked>,
    asked: Vec<LookupRequest>,
}

impl MadeUp {
    /// From now on this lookup answers with these values.
    pub(crate) fn answer(&self, lookup: &str, shown: &[(&str, Value)]) {
        let shown = shown.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        self.0.lock().unwrap().found.insert(lookup.to_owned(), Looked::Answered(shown));
    }

    /// From now on this lookup fails.
    pub(crate) fn fail(&self, lookup: &str, failure: LookupFailure) {
        self.0.lock().unwrap().found.insert(lookup.to_owned(), Looked::Failed(failure));
    }

    /// Every request so far.
    pub(crate) fn asked(&self) -> Vec<LookupRequest> {
        self.0.lock().unwrap().asked.clone()
    }
}

#[async_trait]
impl LookupClient for MadeUp {
    async fn look_up(&self, requests: Vec<LookupRequest>) -> LookupResults {
        let mut inside = self.0.lock().unwrap();
        let silent = Looked::Failed(LookupFailure::Unreachable);
        let found = |request: &LookupRequest| inside.found.get(&request.name).unwrap_or(&silent).clone();
        let results = requests.iter().map(|request| (request.name.clone(), found(request))).collect();
        inside.asked.extend(requests);
        results
    }
}
