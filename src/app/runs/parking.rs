//! A worker writes down what it knows and exits; when every held call is decided, exactly one takes the run up again.

use super::{RunRefused, RunView};
use crate::{
    app::{App, Caller, error::Error, ports::Parked, retrying},
    domain::{
        audit::entry::EventKind,
        run::{ParkedTag, RunKey, RunLease, RunStatus},
        time::Timestamp,
    },
};

/// What a worker says it replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IfMatch {
    /// Whatever is parked, but something.
    Anything,
    /// One of these.
    OneOf(Vec<String>),
}

impl IfMatch {
    fn covers(&self, tag: &ParkedTag) -> bool {
        match self {
            Self::Anything => true,
            Self::OneOf(tags) => tags.contains(&tag.etag),
        }
    }
}

/// A run that a worker took up.
#[derive(Clone, Debug, PartialEq)]
pub struct Resumed {
    /// The run, with every call of its newest turn.
    pub view: RunView,
    /// Until when no other worker gets it.
    pub lease_expires_at: Timestamp,
}

impl App {
    /// Keeps a stack's own bytes for a run. Returns how they are named. Whoever had taken up the newest turn has done
    /// with it by that.
    ///
    /// # Errors
    /// When the run has ended, or something else is parked than the caller says it replaces.
    pub async fn park_run(
        &self,
        caller: &Caller,
        key: &RunKey,
        content_type: &str,
        body: &[u8],
        replaces: Option<&IfMatch>,
    ) -> Result<String, Error> {
        retrying(|| async {
            let mut tx = self.store.begin().await?;
            tx.lock_run(key).await?;
            let now = self.valid_now(tx.as_mut(), caller).await?;
            let known = tx.known_run(key, now).await?;
            if known.run.ended.is_some() {
                return Err(RunRefused::Ended.into());
            }
            match (&known.parked, replaces) {
                (Some(_), None) => return Err(RunRefused::NothingMatched.into()),
                (Some(parked), Some(replaces)) if !replaces.covers(parked) => {
                    return Err(RunRefused::ParkedDiffers.into());
                }
                (None, Some(_)) => return Err(RunRefused::ParkedDiffers.into()),
                (Some(_), Some(_)) | (None, None) => {}
            }
            let etag = self.uuid(now)?.simple().to_string();
            let tag = ParkedTag { content_type: content_type.to_owned(), etag: etag.clone() };
            tx.park(key, &Parked { tag, body: body.to_vec() }).await?;
            if let Some(lease) = known.current_lease() {
                tx.set_run_lease(key, RunLease { until: None, ..lease }).await?;
            }
            let mut entry = caller.entry(EventKind::RunParked, now).about_run(key);
            entry.detail.insert("bytes".to_owned(), body.len().into());
            tx.append(entry);
            tx.commit().await?;
            Ok(etag)
        })
        .await
    }

    /// Takes a ready run up: exactly one of any number of workers gets it, for as long as a claim waits for its report.
    ///
    /// # Errors
    /// [`Error::NotFound`] for a run nothing is known of; [`Error::Run`] when it is not ready, or another worker has it.
    pub async fn resume_run(&self, caller: &Caller, key: &RunKey) -> Result<Resumed, Error> {
        if !self.knows_run(key).await? {
            return Err(Error::NotFound);
        }
        let lease_expires_at = retrying(|| async {
            let mut tx = self.store.begin().await?;
            tx.lock_run(key).await?;
            let now = self.valid_now(tx.as_mut(), caller).await?;
            let known = tx.known_run(key, now).await?;
            let (status, newest) = (known.status(now), known.newest);
            let (RunStatus::Ready, Some(newest)) = (status, newest) else {
                let until = known.current_lease().and_then(|lease| lease.until).filter(|until| *until > now);
                return Err(match (status, until) {
                    (RunStatus::Ended, _) => RunRefused::Ended,
                    (RunStatus::Running, Some(until)) => RunRefused::Leased { until },
                    (RunStatus::Running | RunStatus::AwaitingApproval | RunStatus::Ready, _) => {
                        RunRefused::NotReady(status)
                    }
                }
                .into());
            };
            let until = now.plus(self.settings.claim_lease);
            tx.set_run_lease(key, RunLease { turn: newest.turn, mark: newest.mark, until: Some(until) }).await?;
            let mut entry = caller.entry(EventKind::RunResumed, now).about_run(key);
            entry.detail.insert("turn".to_owned(), newest.turn.into());
            entry.detail.insert("lease_expires_at".to_owned(), until.to_string().into());
            tx.append(entry);
            tx.commit().await?;
            Ok(until)
        })
        .await?;
        Ok(Resumed { view: self.run(key).await?, lease_expires_at })
    }
}
