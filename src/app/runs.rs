//! `/runs`: what is known of a run is written down, and the run is ended or stopped with everything below it.

use serde_json::{Value, json};

use super::{
    App, Caller, ReviewerCaller,
    decide_call::about,
    error::Error,
    ports::{EntryFilter, Tx},
    retrying,
};
use crate::domain::{
    approval::state::{Approval, Canceller},
    audit::entry::EventKind,
    identity::AgentId,
    ids::RunId,
    notice::NoticeEvent,
    requested::MOST_BYTES,
    run::{Ending, FamilyFault, Run, RunKey, RunStatus},
    time::Timestamp,
};

mod parking;
mod turn;

pub use parking::{IfMatch, Resumed};
pub use turn::{RunPage, RunView, TurnCall};

/// How many texts of humans one family of runs may have.
const MOST_TEXTS: usize = 1_000;

/// What an orchestrator knows of a run. Each of it is written once; the same again changes nothing.
#[derive(Clone, Debug, Default)]
pub struct Declaration {
    /// What the human asked.
    pub request: Option<String>,
    /// Whom the run works for.
    pub on_behalf_of: Option<String>,
    /// The run it was started by.
    pub parent: Option<ParentName>,
}

/// How an orchestrator names the run above.
#[derive(Clone, Debug)]
pub struct ParentName {
    /// Its id.
    pub run: RunId,
    /// Whose it is; `None`: that of the one agent, among those the caller writes for, which has a run of this id.
    pub agent: Option<AgentId>,
}

/// What stands in the way of something done to a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunRefused {
    /// It has ended.
    #[error("the run has ended")]
    Ended,
    /// This was written before, and differs.
    #[error("`{0}` was written before, and differs")]
    WrittenOnce(&'static str),
    /// It cannot be put under the other one.
    #[error(transparent)]
    Family(#[from] FamilyFault),
    /// No run of this id is known among the caller's agents.
    #[error("no run with the id given as parent_run_id is known")]
    ParentUnknown,
    /// Several agents have a run of this id.
    #[error("several agents have a run with the id given as parent_run_id")]
    ParentAmbiguous,
    /// All texts together are too long, or too many.
    #[error("the texts of a run's humans are at most {MOST_BYTES} bytes together, and at most {MOST_TEXTS}")]
    RequestTooLong,
    /// There is nothing to go on with.
    #[error("the run is {0}")]
    NotReady(RunStatus),
    /// Another worker has it.
    #[error("another worker has the run until {until}")]
    Leased {
        /// Until when.
        until: Timestamp,
    },
    /// Something is parked, and the caller does not say what it replaces.
    #[error("something is parked already")]
    NothingMatched,
    /// What is parked is not what the caller replaces.
    #[error("what is parked is not what `if-match` names")]
    ParkedDiffers,
}

impl App {
    /// Writes down what is known of a run.
    ///
    /// # Errors
    /// [`Error::NotFound`] for an agent that the caller does not write for; [`Error::Run`] for what stands in the way.
    pub async fn declare_run(&self, caller: &Caller, key: &RunKey, declared: &Declaration) -> Result<(), Error> {
        orchestrated(caller, &key.agent)?;
        retrying(|| async {
            let mut tx = self.store.begin().await?;
            let parent = match &declared.parent {
                // The run above comes first: the locks of its family are taken from the head down.
                Some(named) => {
                    let above = parent_named(tx.as_mut(), caller, key, named).await?;
                    Some(tx.lock_run(&above).await?)
                }
                None => None,
            };
            let mut run = tx.lock_run(key).await?;
            let now = self.valid_now(tx.as_mut(), caller).await?;
            let before = run.clone();
            let mut entry = caller.entry(EventKind::RunDeclared, now).about_run(key);
            if let Some(name) = &declared.on_behalf_of {
                match &run.on_behalf_of {
                    Some(written) if written == name => {}
                    Some(_) => return Err(RunRefused::WrittenOnce("on_behalf_of").into()),
                    None => run.on_behalf_of = Some(name.clone()),
                }
            }
            if let Some(parent) = &parent
                && run.ancestors.first() != Some(&parent.key)
            {
                let has_runs_below = !tx.below_head(key).await?.is_empty();
                run.put_under(parent, has_runs_below).map_err(RunRefused::from)?;
                entry.detail.insert("parent".to_owned(), json!(parent.key));
            }
            if let Some(text) = &declared.request {
                match run.request {
                    Some(written) if self.trusted_text(written).await?.as_ref() == Some(text) => {}
                    Some(_) => return Err(RunRefused::WrittenOnce("request").into()),
                    None => {
                        self.add_request(tx.as_mut(), &mut run, text).await?;
                        run.request = run.requests.last().copied();
                        entry.payload = run.request;
                    }
                }
            }
            if run == before {
                // It is known from now on, if it was not.
                return Ok(tx.commit().await?);
            }
            if run.ended.is_some() {
                return Err(RunRefused::Ended.into());
            }
            tx.update_run(&run).await?;
            tx.set_labels(run.head(), &run.labels).await?;
            tx.set_requests(&run).await?;
            entry.detail.insert("on_behalf_of".to_owned(), (run.on_behalf_of != before.on_behalf_of).into());
            tx.append(entry);
            Ok(tx.commit().await?)
        })
        .await
    }

    /// Adds what the human asked later.
    ///
    /// # Errors
    /// [`Error::NotFound`] for an agent that the caller does not write for; when the run has ended, or all is too long.
    pub async fn add_to_request(&self, caller: &Caller, key: &RunKey, text: &str) -> Result<(), Error> {
        orchestrated(caller, &key.agent)?;
        retrying(|| async {
            let mut tx = self.store.begin().await?;
            let mut run = tx.lock_run(key).await?;
            let now = self.valid_now(tx.as_mut(), caller).await?;
            if run.ended.is_some() {
                return Err(RunRefused::Ended.into());
            }
            self.add_request(tx.as_mut(), &mut run, text).await?;
            tx.set_requests(&run).await?;
            let mut entry = caller.entry(EventKind::RunRequested, now).about_run(key);
            entry.payload = run.requests.last().copied();
            tx.append(entry);
            Ok(tx.commit().await?)
        })
        .await
    }

    /// The orchestrator ends a run, and those below it.
    ///
    /// # Errors
    /// [`Error::NotFound`] for an agent that the caller does not write for, and for a run nothing is known of.
    pub async fn end_run(&self, caller: &Caller, key: &RunKey) -> Result<(), Error> {
        orchestrated(caller, &key.agent)?;
        self.finish_run(caller, key, false, None).await
    }

    /// A reviewer stops a run, and those below it.
    ///
    /// # Errors
    /// [`Error::NotFound`] for a run nothing is known of.
    pub async fn stop_run(&self, reviewer: &ReviewerCaller, key: &RunKey, reason: Option<&str>) -> Result<(), Error> {
        reviewer.unlimited()?;
        self.finish_run(&reviewer.caller, key, true, reason).await
    }

    /// Ends what has not ended of a run and all below it. What waited for people there is withdrawn.
    async fn finish_run(
        &self,
        caller: &Caller,
        key: &RunKey,
        stopped: bool,
        reason: Option<&str>,
    ) -> Result<(), Error> {
        if !self.knows_run(key).await? {
            return Err(Error::NotFound);
        }
        retrying(|| async {
            let mut tx = self.store.begin().await?;
            let run = tx.lock_run(key).await?;
            let now = self.valid_now(tx.as_mut(), caller).await?;
            if self.end_with_all_below(tx.as_mut(), caller, &run, stopped, reason, now).await? {
                tx.commit().await?;
            }
            Ok(())
        })
        .await
    }

    /// Ends a locked run and all below it, as far as they have not ended, but for the commit; whether anything was left
    /// to end.
    pub(super) async fn end_with_all_below(
        &self,
        tx: &mut dyn Tx,
        caller: &Caller,
        run: &Run,
        stopped: bool,
        reason: Option<&str>,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let key = &run.key;
        let family = tx.below_head(run.head()).await?;
        let below = family.into_iter().filter(|other| other.ancestors.contains(key));
        let going_on: Vec<Run> = std::iter::once(run.clone()).chain(below).filter(|run| run.ended.is_none()).collect();
        if going_on.is_empty() {
            return Ok(false);
        }
        let payload = match reason {
            Some(reason) => Some(self.keep_sentences(tx, json!({ "reason": reason })).await?),
            None => None,
        };
        let by = caller.principal.name().to_string();
        for mut run in going_on.iter().cloned() {
            run.ended = Some(Ending { at: now, by: by.clone(), stopped });
            tx.update_run(&run).await?;
            let event = if stopped { EventKind::RunStopped } else { EventKind::RunEnded };
            let mut entry = caller.entry(event, now).about_run(&run.key);
            entry.payload = payload;
            if run.key != *key {
                entry.detail.insert("with".to_owned(), json!(key));
            }
            tx.append(entry);
        }
        let keys: Vec<RunKey> = going_on.into_iter().map(|run| run.key).collect();
        let open = tx.open_of_runs(&keys).await?;
        let reason = if stopped { "run_stopped" } else { "run_ended" };
        self.withdraw(tx, caller, open, Canceller::Stop, reason, now).await?;
        Ok(true)
    }

    /// Cancels locked approvals, as far as time has left any of them open.
    pub(super) async fn withdraw(
        &self,
        tx: &mut dyn Tx,
        caller: &Caller,
        open: Vec<Approval>,
        by: Canceller,
        reason: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        for stored in open {
            let approval = self.with_time_recorded(tx, stored, now).await?;
            let Ok((cancelled, true)) = approval.cancel(by, now) else { continue };
            tx.update_approval(&cancelled).await?;
            let mut entry = caller.entry(EventKind::ApprovalCancelled, now);
            entry.reason_code = Some(reason.to_owned());
            tx.append(about(&cancelled, entry));
            self.tell(tx, &cancelled, NoticeEvent::Cancelled, now).await?;
        }
        Ok(())
    }

    /// Whether a run was declared, or anything of it decided.
    async fn knows_run(&self, key: &RunKey) -> Result<bool, Error> {
        if self.store.run(key, self.now()).await?.is_some() {
            return Ok(true);
        }
        Ok(self.last_turn_logged(key).await?.is_some())
    }

    /// The turn of the newest decision of a run.
    async fn last_turn_logged(&self, key: &RunKey) -> Result<Option<u32>, Error> {
        let filter = EntryFilter {
            run: Some(key.run.to_string()),
            agent: Some(key.agent.to_string()),
            event: Some(EventKind::Decision),
            ..EntryFilter::default()
        };
        let newest = self.store.entries(&filter, None, 1).await?.pop();
        Ok(newest.and_then(|sealed| sealed.entry.call).map(|call| call.turn))
    }

    async fn add_request(&self, tx: &mut dyn Tx, run: &mut Run, text: &str) -> Result<(), Error> {
        run.requested_bytes += text.len();
        if run.requested_bytes > MOST_BYTES || run.requests.len() >= MOST_TEXTS {
            return Err(RunRefused::RequestTooLong.into());
        }
        run.requests.push(self.keep_trusted_text(tx, text).await?);
        Ok(())
    }
}

/// An agent that the caller does not write for has no runs, for all the caller knows.
fn orchestrated(caller: &Caller, agent: &AgentId) -> Result<(), Error> {
    if caller.principal.orchestrates().contains(agent) { Ok(()) } else { Err(Error::NotFound) }
}

/// The run that a caller names as the one above `below`.
async fn parent_named(tx: &mut dyn Tx, caller: &Caller, below: &RunKey, named: &ParentName) -> Result<RunKey, Error> {
    let agents: Vec<&AgentId> = match &named.agent {
        Some(agent) => {
            orchestrated(caller, agent)?;
            vec![agent]
        }
        None => caller.principal.orchestrates().iter().collect(),
    };
    let known = tx.runs_named(&named.run, &agents).await?;
    // Agents may share the ids of their runs; the run itself is then not meant.
    let mut others = known.iter().filter(|key| named.agent.is_some() || *key != below);
    match (others.next(), others.next()) {
        (Some(one), None) => Ok(one.clone()),
        (Some(_), Some(_)) => Err(RunRefused::ParentAmbiguous.into()),
        (None, _) if known.is_empty() && named.run != below.run => Err(RunRefused::ParentUnknown.into()),
        (None, _) => Err(RunRefused::Family(FamilyFault::Circle).into()),
    }
}

/// A member of the JSON that was kept as what a stack reported.
fn reported(body: &str, member: &str) -> Option<Value> {
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    body.get(member).filter(|value| !value.is_null()).cloned()
}
