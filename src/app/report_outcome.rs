//! `POST /approvals/{id}/outcome`, `/cancel` and `POST /decisions/{id}/outcome`: what came of a call.

use serde_json::{Value, json};

use super::{
    App, Caller,
    decide_call::about,
    error::Error,
    ports::{DecisionOutcome, EntryFilter, PermitKey, Tx},
    retrying,
};
use crate::domain::{
    approval::{
        outcome::{Report, ReportedStatus},
        state::{Approval, Canceller, Obstacle, State, Taken},
    },
    audit::{entry::EventKind, payload::Payload, payload::PayloadDigest},
    ids::{ApprovalId, ClaimId, DecisionId},
    notice::NoticeEvent,
    verdict::Verdict,
};

/// What the stack reports.
#[derive(Clone, Debug)]
pub struct OutcomeReport {
    /// The claim it ran under.
    pub claim: Option<ClaimId>,
    /// What happened.
    pub status: ReportedStatus,
    /// A sentence about it.
    pub detail: Option<String>,
    /// What the tool returned.
    pub result: Option<Value>,
}

impl App {
    /// Records the outcome of a claimed call. The first stands; the same one repeated changes nothing.
    ///
    /// # Errors
    /// [`Error::OutcomeStands`] for a different second one, and what else stands in the way.
    pub async fn report_outcome(&self, caller: &Caller, id: ApprovalId, outcome: &OutcomeReport) -> Result<(), Error> {
        retrying(|| async {
            let mut tx = self.store.begin().await?;
            let (approval, now) = self.own_approval(tx.as_mut(), caller, id).await?;
            let recorded = match &approval.state {
                State::Executed(execution) => execution.outcome.payload(),
                State::Pending { .. }
                | State::Approved(_)
                | State::Denied(_)
                | State::Expired { .. }
                | State::Cancelled { .. } => None,
            };
            let payload = self.outcome_payload(tx.as_mut(), outcome, recorded).await?;
            let report = Report { status: outcome.status, at: now, payload };
            let (approval, taken) = match approval.report(outcome.claim.as_ref(), report, now) {
                Ok(taken) => taken,
                Err(refused) if refused.why == Obstacle::OutcomeStands => return Err(Error::OutcomeStands),
                Err(refused) => return Err(refused.into()),
            };
            let event = match taken {
                // Nothing changes, and what was written again is not kept: the transaction is dropped.
                Taken::Repeated => return Ok(()),
                Taken::Recorded => EventKind::Outcome,
                Taken::GivenBack => {
                    tx.give_back(PermitKey::Approval(approval.id)).await?;
                    EventKind::ClaimReturned
                }
                Taken::Late => EventKind::OutcomeLate,
            };
            tx.update_approval(&approval).await?;
            let mut entry = caller.entry(event, now);
            entry.payload = payload;
            entry.detail.insert("status".to_owned(), outcome.status.as_str().into());
            if let Some(claim) = &outcome.claim {
                entry.detail.insert("claim_id".to_owned(), claim.to_string().into());
            }
            tx.append(about(&approval, entry));
            self.tell(tx.as_mut(), &approval, NoticeEvent::Outcome, now).await?;
            Ok(tx.commit().await?)
        })
        .await
    }

    /// Records the outcome of a call that policy allowed without a human.
    ///
    /// # Errors
    /// [`Error::NotFound`] for another agent's decision, [`Error::OutcomeStands`] for a different second outcome.
    pub async fn report_decision_outcome(
        &self,
        caller: &Caller,
        id: DecisionId,
        outcome: &OutcomeReport,
    ) -> Result<(), Error> {
        let filter = EntryFilter { decision: Some(id), event: Some(EventKind::Decision), ..EntryFilter::default() };
        let decided = self.store.entries(&filter, None, 1).await?.pop().map(|sealed| sealed.entry);
        let own = caller.principal.agent();
        let decided = decided.filter(|entry| entry.call.as_ref().map(|call| &call.agent) == own.as_ref());
        let decided = decided.ok_or(Error::NotFound)?;
        if let Some(approval) = decided.approval {
            return self.report_outcome(caller, approval, outcome).await;
        }
        if !matches!(decided.verdict, Some(Verdict::Allow | Verdict::AllowAudited)) {
            return Err(Error::Invalid("this decision permitted nothing that could have an outcome".to_owned()));
        }
        retrying(|| async {
            let now = self.now();
            let mut tx = self.store.begin().await?;
            let payload = self.outcome_payload(tx.as_mut(), outcome, None).await?;
            let status = outcome.status.as_str().to_owned();
            let record = DecisionOutcome { decision: id, status, payload, at: now };
            if let Some(first) = tx.record_decision_outcome(&record).await? {
                let same_words = self.outcome_payload(tx.as_mut(), outcome, first.payload).await? == first.payload;
                let same = first.status == record.status && same_words;
                return if same { Ok(()) } else { Err(Error::OutcomeStands) };
            }
            match outcome.status {
                ReportedStatus::NotStarted => tx.give_back(PermitKey::Decision(id)).await?,
                ReportedStatus::Succeeded | ReportedStatus::Failed => {}
            }
            let mut entry = caller.entry(EventKind::Outcome, now);
            entry.call.clone_from(&decided.call);
            entry.tool.clone_from(&decided.tool);
            entry.decision = Some(id);
            entry.payload = payload;
            entry.detail.insert("status".to_owned(), outcome.status.as_str().into());
            tx.append(entry);
            Ok(tx.commit().await?)
        })
        .await
    }

    /// The requester withdraws a call that it has not claimed.
    ///
    /// # Errors
    /// When it is decided otherwise, or claimed.
    pub async fn cancel_call(&self, caller: &Caller, id: ApprovalId, reason: Option<&str>) -> Result<Approval, Error> {
        retrying(|| async {
            let mut tx = self.store.begin().await?;
            let (approval, now) = self.own_approval(tx.as_mut(), caller, id).await?;
            let (approval, changed) = approval.cancel(Canceller::Requester, now)?;
            if changed {
                tx.update_approval(&approval).await?;
                let mut entry = caller.entry(EventKind::ApprovalCancelled, now);
                entry.reason_code = Some("cancelled_by_requester".to_owned());
                if let Some(reason) = reason {
                    entry.payload = Some(self.keep_sentences(tx.as_mut(), json!({ "reason": reason })).await?);
                }
                tx.append(about(&approval, entry));
                self.tell(tx.as_mut(), &approval, NoticeEvent::Cancelled, now).await?;
            }
            tx.commit().await?;
            Ok(approval)
        })
        .await
    }

    /// Keeps what the stack wrote. The same words as `recorded` are not kept twice.
    async fn outcome_payload(
        &self,
        tx: &mut dyn Tx,
        outcome: &OutcomeReport,
        recorded: Option<PayloadDigest>,
    ) -> Result<Option<PayloadDigest>, Error> {
        if outcome.detail.is_none() && outcome.result.is_none() {
            return Ok(None);
        }
        let body = json!({ "detail": outcome.detail, "result": outcome.result }).to_string();
        if let Some(digest) = recorded
            && let Some(stands) = self.store.payload(digest).await?
            && stands.body() == body
        {
            return Ok(Some(digest));
        }
        let payload = Payload::new(body, self.salt()?);
        tx.insert_payload(&payload).await?;
        Ok(Some(payload.digest()))
    }
}
