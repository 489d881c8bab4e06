//! Where runs stand, and what became of the calls of their newest turn.

use std::{collections::HashMap, time::Duration};

use serde_json::Value;
use tokio::{
    sync::broadcast::error::RecvError,
    time::{Instant, timeout_at},
};

use super::reported;
use crate::{
    app::{
        App,
        error::Error,
        ports::{Change, Parked, RunFilter},
    },
    domain::{
        approval::state::{Approval, State},
        audit::{entry::Entry, payload::PayloadDigest},
        decision::ReasonCode,
        identity::AgentId,
        ids::{DecisionId, RunId, ToolUseId},
        policy::schema::ArgumentFault,
        run::{KnownRun, NewestTurn, Run, RunKey, RunStatus},
        verdict::Verdict,
    },
};

/// The most decisions of one turn that are looked at, the newest first.
const MOST_DECISIONS: u32 = 1_000;

/// How many runs are read at once.
const PAGE: u32 = 200;

/// How long to wait before looking again when nothing was heard: leases run out without a word from the store.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// A run with what is parked and what became of the calls of its newest turn.
#[derive(Clone, Debug, PartialEq)]
pub struct RunView {
    /// The run.
    pub known: KnownRun,
    /// Where it stands.
    pub status: RunStatus,
    /// What is parked.
    pub parked: Option<Parked>,
    /// The calls of its newest turn, in the order they came.
    pub calls: Vec<TurnCall>,
}

/// One call of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnCall {
    /// Its id in the turn.
    pub tool_use_id: ToolUseId,
    /// The tool.
    pub tool: String,
    /// The decision about it; the last one when it was decided more than once.
    pub decision: DecisionId,
    /// What was decided.
    pub verdict: Verdict,
    /// What its arguments did not fit, when it was refused for that.
    pub faults: Option<Vec<ArgumentFault>>,
    /// Its approval, or the one by whose denial it was refused.
    pub approval: Option<Approval>,
    /// What came of it, when it was reported or is known to be unknown.
    pub outcome: Option<String>,
    /// What the tool returned.
    pub result: Option<Value>,
}

/// Some of an agent's runs.
#[derive(Clone, Debug, PartialEq)]
pub struct RunPage {
    /// By their ids.
    pub runs: Vec<(KnownRun, RunStatus)>,
    /// Where the next page begins.
    pub next: Option<RunId>,
}

impl App {
    /// A run and the calls of its newest turn.
    ///
    /// # Errors
    /// [`Error::NotFound`] for a run nothing is known of.
    pub async fn run(&self, key: &RunKey) -> Result<RunView, Error> {
        let now = self.now();
        let known = match self.store.run(key, now).await? {
            Some(known) => known,
            // Calls that policy allows at once leave nothing but their decisions.
            None => {
                let turn = self.last_turn_logged(key).await?.ok_or(Error::NotFound)?;
                let newest = Some(NewestTurn { turn, held: 0, mark: 0, waiting: 0 });
                KnownRun { run: Run::new(key.clone()), newest, lease: None, parked: None }
            }
        };
        let parked = if known.parked.is_some() { self.store.parked(key).await? } else { None };
        let calls = match known.newest {
            Some(newest) => self.calls_of_turn(key, newest.turn).await?,
            None => Vec::new(),
        };
        Ok(RunView { status: known.status(now), known, parked, calls })
    }

    /// An agent's runs, those with this status when given; waits up to `wait` for one when there is none.
    ///
    /// # Errors
    /// As the store's.
    pub async fn list_runs(
        &self,
        agent: &AgentId,
        status: Option<RunStatus>,
        after: Option<&RunId>,
        limit: u32,
        wait: Duration,
    ) -> Result<RunPage, Error> {
        let deadline = Instant::now() + wait;
        // Listening begins before reading, so that no change falls between the two.
        let mut changes = self.store.changes();
        loop {
            let page = self.page_of_runs(agent, status, after, limit).await?;
            if !page.runs.is_empty() || Instant::now() >= deadline {
                return Ok(page);
            }
            let until = deadline.min(Instant::now() + LOOK_AGAIN);
            while let Ok(change) = timeout_at(until, changes.recv()).await {
                match change {
                    Ok(Change::Approval(_) | Change::Unknown) | Err(RecvError::Lagged(_)) => break,
                    Ok(Change::Keys | Change::Policy | Change::Outbox) => {}
                    Err(RecvError::Closed) => return Ok(page),
                }
            }
        }
    }

    async fn page_of_runs(
        &self,
        agent: &AgentId,
        status: Option<RunStatus>,
        after: Option<&RunId>,
        limit: u32,
    ) -> Result<RunPage, Error> {
        let filter = match status {
            None => RunFilter::default(),
            Some(RunStatus::Ended) => RunFilter { ended: Some(true), held: false },
            Some(RunStatus::Running) => RunFilter { ended: Some(false), held: false },
            Some(RunStatus::AwaitingApproval | RunStatus::Ready) => RunFilter { ended: Some(false), held: true },
        };
        let mut runs = Vec::new();
        let mut after = after.cloned();
        loop {
            let now = self.now();
            let read = self.store.runs(agent, filter, after.as_ref(), now, PAGE).await?;
            let last = read.len() < PAGE as usize;
            for known in read {
                let stands = known.status(now);
                if status.is_some_and(|status| status != stands) {
                    after = Some(known.run.key.run);
                    continue;
                }
                if runs.len() == limit as usize {
                    return Ok(RunPage { runs, next: after });
                }
                after = Some(known.run.key.run.clone());
                runs.push((known, stands));
            }
            if last {
                return Ok(RunPage { runs, next: None });
            }
        }
    }

    async fn calls_of_turn(&self, key: &RunKey, turn: u32) -> Result<Vec<TurnCall>, Error> {
        let decided = self.store.decisions_of_turn(key, turn, MOST_DECISIONS).await?;
        let mut seen = HashMap::new();
        for sealed in decided {
            let Some(call) = sealed.entry.call.clone() else { continue };
            // The newest decision of a call tells, in the place of its first.
            let (place, _) = seen.entry(call.tool_use_id).or_insert((sealed.seq, sealed.entry));
            *place = sealed.seq;
        }
        let mut decided: Vec<(i64, ToolUseId, Entry)> =
            seen.into_iter().map(|(id, (place, entry))| (place, id, entry)).collect();
        decided.sort_by_key(|(place, _, _)| *place);
        let allowed: Vec<DecisionId> = decided.iter().filter_map(|(_, _, entry)| entry.decision).collect();
        let outcomes = self.store.decision_outcomes(&allowed).await?;
        let mut outcomes: HashMap<DecisionId, _> =
            outcomes.into_iter().map(|outcome| (outcome.decision, outcome)).collect();
        let mut calls = Vec::with_capacity(decided.len());
        for (_, tool_use_id, entry) in decided {
            let (Some(decision), Some(verdict)) = (entry.decision, entry.verdict) else { continue };
            let approval = match entry.approval {
                Some(id) => self.store.approval(id).await?.map(|approval| approval.at(self.now()).0),
                None => None,
            };
            let (outcome, payload) = match (&approval, outcomes.remove(&decision)) {
                (Some(Approval { state: State::Executed(execution), .. }), _) => {
                    (execution.outcome.word().map(str::to_owned), execution.outcome.payload())
                }
                (Some(_) | None, Some(reported)) => (Some(reported.status), reported.payload),
                (Some(_) | None, None) => (None, None),
            };
            let invalid = entry.reason_code.as_deref() == Some(ReasonCode::InvalidArguments.as_str());
            let faults = if invalid { self.kept(entry.payload, "argument_faults").await? } else { None };
            calls.push(TurnCall {
                tool_use_id,
                tool: entry.tool.unwrap_or_default(),
                decision,
                verdict,
                faults: faults.and_then(|faults| serde_json::from_value(faults).ok()),
                approval,
                outcome,
                result: self.kept(payload, "result").await?,
            });
        }
        Ok(calls)
    }

    /// A member of a payload, when there is one and it was not erased.
    async fn kept(&self, payload: Option<PayloadDigest>, member: &str) -> Result<Option<Value>, Error> {
        let Some(digest) = payload else { return Ok(None) };
        Ok(self.store.payload(digest).await?.and_then(|payload| reported(payload.body(), member)))
    }
}
