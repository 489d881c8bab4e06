//! What a call counts for its tool's limits: read under locks before it is decided, and counted when it is permitted.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    App,
    error::Error,
    ports::{CountedCall, PermitKey, Tx},
};
use crate::domain::{
    call::ToolCall,
    limit::{Limit, Measure, Tally},
    policy::Tool,
    run::Run,
    time::Timestamp,
};

/// What is locked while a call is decided or claimed.
pub(super) struct Locked {
    /// Its run.
    pub(super) run: Run,
    /// What it counts for.
    pub(super) counted: Counted,
}

/// The limits of a call's tool, locked.
#[derive(Default)]
pub(super) struct Counted {
    measures: Vec<Measure>,
    /// What each has counted, this call left out.
    pub(super) tallies: BTreeMap<String, Tally>,
}

impl App {
    /// Locks the limits of `tool`, after the run of `call` and before any approval.
    pub(super) async fn locked_limits(
        &self,
        tx: &mut dyn Tx,
        tool: Option<&Tool>,
        call: &ToolCall,
        run: &Run,
        resolved: &Map<String, Value>,
    ) -> Result<Counted, Error> {
        let limits = tool.map(|tool| tool.limits.as_slice()).unwrap_or_default();
        if limits.is_empty() {
            return Ok(Counted::default());
        }
        let now = self.now();
        let measure = |limit: &Limit| limit.measure(&call.key, run.head(), &call.args, resolved, now);
        let measures: Vec<Measure> = limits.iter().map(measure).collect();
        let counted = CountedCall { key: &call.key, args_hash: call.args.hash() };
        let tallies = tx.lock_limits(&counted, &measures).await?;
        Ok(Counted { measures, tallies })
    }
}

impl Counted {
    /// Counts `call`, which `by` permits in this transaction.
    pub(super) async fn count(
        &self,
        tx: &mut dyn Tx,
        call: &CountedCall<'_>,
        by: PermitKey,
        now: Timestamp,
    ) -> Result<(), Error> {
        if self.measures.is_empty() {
            return Ok(());
        }
        Ok(tx.count_use(call, &self.measures, by, now).await?)
    }
}
