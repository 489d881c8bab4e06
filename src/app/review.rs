//! Everything about one approval that people do: list, see, decide, revoke, lift, settle; and waiting for it.

use std::time::Duration;

use serde_json::{Map, Value};
use tokio::{
    sync::broadcast::error::RecvError,
    time::{Instant, timeout_at},
};

use super::{
    App, Caller, ReviewerCaller,
    confirm::ToConfirm,
    decide_call::about,
    error::Error,
    grants::{GrantOffer, TakenOffer},
    kept::{Kept, KeptCall},
    ports::{ApprovalFilter, Change, SubjectCall, Tx},
    retrying,
};
use crate::domain::{
    approval::{
        code::ApprovalCode,
        outcome::SettledStatus,
        state::{Approval, Counted, Denial, Denier, ServiceDenial, State, StateName},
        vote::Vote,
    },
    audit::{
        entry::{Entry, EventKind},
        payload::{Payload, PayloadDigest},
    },
    canon::json::ArgsHash,
    ids::ApprovalId,
    notice::NoticeEvent,
    review::Review,
    run::{Run, RunKey},
    time::Timestamp,
};

/// What a reviewer decides.
#[derive(Clone, Debug)]
pub struct ReviewDecision {
    /// Approve or deny.
    pub approve: bool,
    /// The hash of the arguments that the reviewer was shown.
    pub args_hash: ArgsHash,
    /// The hash of the review that the reviewer was shown.
    pub review_hash: Option<String>,
    /// Why, for the log.
    pub reason: Option<String>,
    /// What the agent is told of a denial.
    pub message_to_agent: Option<String>,
    /// One of the grants that the approval offers, taken with an approve.
    pub grant: Option<TakenOffer>,
    /// What the first approve was answered with, where an approve takes a second click.
    pub confirmation: Option<String>,
}

/// How a decision was taken.
#[derive(Clone, Debug, PartialEq)]
pub enum Decided {
    /// It counts, or did before.
    Counted(Box<ReviewedApproval>),
    /// It does not count yet: it is to be given again, with this.
    ToConfirm(ToConfirm),
}

/// Why nobody is asked about a call that is not the one that was held.
pub(super) const EXCHANGED: &str = "what is stored of the call is not what was held";

/// What a decision came to, before it is committed.
pub(super) enum Taken {
    /// The same was decided before: nothing changes.
    Repeated(Approval),
    /// It counts; whether it met the requirement, where it is an approve.
    Counted(Approval, Counted),
    /// It does not count yet.
    ToConfirm(ToConfirm),
    /// What is stored is not what was held: the service is to deny it.
    Exchanged(ServiceDenial, Approval),
}

/// An approval as its reviewers see it.
#[derive(Clone, Debug, PartialEq)]
pub struct ReviewedApproval {
    /// The approval, as it stands now.
    pub approval: Approval,
    /// What was rendered when it was held; `None` when it was erased.
    pub review: Option<Review>,
    /// The arguments themselves; `None` when they were erased.
    pub args: Option<Map<String, Value>>,
    /// What the model said of it: unverified.
    pub rationale: Option<String>,
    /// The last calls on the same business keys, the newest first.
    pub same_subject: Vec<CallBefore>,
    /// Other approvals of the same agent, tool and arguments that are open.
    pub identical: Vec<OpenTwin>,
    /// The grants that whoever asks may take with an approve.
    pub offers: Vec<GrantOffer>,
}

/// An earlier or later call on the same business key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallBefore {
    /// The call, as it was settled.
    pub settled: SubjectCall,
    /// Where its approval stands, if it was held.
    pub approval: Option<(ApprovalCode, StateName)>,
}

/// An open approval that asks for the very same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenTwin {
    /// Its id.
    pub id: ApprovalId,
    /// Its code.
    pub code: ApprovalCode,
}

/// How many calls and approvals are shown beside a review, each.
const MOST_BESIDE: u32 = 10;

/// A page of approvals.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalPage {
    /// Newest first.
    pub approvals: Vec<Approval>,
    /// Where the next page begins.
    pub next: Option<ApprovalId>,
}

impl App {
    /// The approvals that this reviewer may see, newest first.
    ///
    /// # Errors
    /// As the store's.
    pub async fn list_approvals(
        &self,
        reviewer: &ReviewerCaller,
        filter: ApprovalFilter,
        before: Option<ApprovalId>,
        limit: u32,
    ) -> Result<ApprovalPage, Error> {
        reviewer.unlimited()?;
        let now = self.now();
        let filter = ApprovalFilter { visible_to: Some(self.onlooker(reviewer, now)), ..filter };
        let stored = self.store.approvals(&filter, before, limit.saturating_add(1)).await?;
        let more = stored.len() > limit as usize;
        let mut approvals: Vec<Approval> = stored.into_iter().take(limit as usize).map(|held| held.at(now).0).collect();
        let next = if more { approvals.last().map(|approval| approval.id) } else { None };
        // What has run out since the store last wrote it down is no longer in the state that was asked for.
        approvals.retain(|approval| filter.state.is_none_or(|state| approval.state.name() == state));
        Ok(ApprovalPage { approvals, next })
    }

    /// One approval for a reviewer, with everything to decide on. Nobody is asked about arguments that are not the ones
    /// that were held: the service denies those.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none that this reviewer may see.
    pub async fn approval_for_reviewer(
        &self,
        reviewer: &ReviewerCaller,
        id: ApprovalId,
    ) -> Result<ReviewedApproval, Error> {
        let now = self.now();
        let stored = self.store.approval(id).await?.filter(|approval| self.sees(reviewer, approval, now));
        let (mut approval, _) = stored.ok_or(Error::NotFound)?.at(now);
        let kept = self.kept_call(&approval).await?;
        if let Some(cause) = kept.exchanged() {
            approval = retrying(|| async {
                let mut tx = self.store.begin().await?;
                let (approval, now) = self.visible_approval(tx.as_mut(), reviewer, id).await?;
                let approval = self.deny_for(tx.as_mut(), approval, cause, now).await?;
                tx.commit().await?;
                Ok(approval)
            })
            .await?;
        }
        let offers = self.grant_offers(reviewer, &approval).await?;
        Ok(ReviewedApproval { offers, ..self.with_kept(approval, kept).await? })
    }

    /// The caller's own approval, once its state is no longer `unless`, or when `wait` is over.
    ///
    /// # Errors
    /// [`Error::NotFound`] for another agent's.
    pub async fn approval_for_agent(
        &self,
        caller: &Caller,
        id: ApprovalId,
        unless: StateName,
        wait: Duration,
    ) -> Result<Approval, Error> {
        let own = caller.principal.agent();
        let deadline = Instant::now() + wait;
        // Listening begins before reading, so that no change falls between the two.
        let mut changes = self.store.changes();
        loop {
            let stored = self.store.approval(id).await?;
            let stored = stored.filter(|approval| Some(&approval.call.agent) == own.as_ref());
            let (approval, _) = stored.ok_or(Error::NotFound)?.at(self.now());
            if approval.state.name() != unless || Instant::now() >= deadline {
                return Ok(approval);
            }
            // Time itself changes an approval without a word from the store.
            let elapses = approval.next_deadline().map_or(wait, |elapses| elapses.since(self.now()));
            let until = deadline.min(Instant::now() + elapses.max(Duration::from_millis(1)));
            while let Ok(change) = timeout_at(until, changes.recv()).await {
                match change {
                    Ok(Change::Approval(changed)) if changed == id => break,
                    Ok(Change::Unknown) | Err(RecvError::Lagged(_)) => break,
                    Ok(Change::Approval(_) | Change::Keys | Change::Policy | Change::Outbox) => {}
                    // The store is going away; what is known now is the answer.
                    Err(RecvError::Closed) => return Ok(approval),
                }
            }
        }
    }

    /// A reviewer approves or denies.
    ///
    /// # Errors
    /// [`Error::StaleArgs`] or [`Error::StaleReview`] when something else was shown, [`Error::Refused`] naming who
    /// decided before and when, [`Error::NotEligible`] when the reviewer may not approve, [`Error::Confirmation`] when
    /// the second click does not count.
    pub async fn decide_approval(
        &self,
        reviewer: &ReviewerCaller,
        id: ApprovalId,
        decision: &ReviewDecision,
    ) -> Result<Decided, Error> {
        let held = self.store.approval(id).await?.ok_or(Error::NotFound)?;
        if decision.grant.is_some() && reviewer.unlimited().is_err() {
            return Err(Error::NotEligible("a personal link decides one call, and makes no grant".to_owned()));
        }
        let taken = match decision.grant.as_ref().filter(|_| decision.approve) {
            Some(taken) => self.taken_offer(reviewer, id, taken).await?,
            None => None,
        };
        let decided = retrying(|| async {
            let mut tx = self.store.begin().await?;
            let run = tx.lock_run(&RunKey::of(&held.call)).await?;
            let (approval, now) = self.visible_approval(tx.as_mut(), reviewer, id).await?;
            let decided = self.take_decision(tx.as_mut(), reviewer, approval, &run, decision, now).await?;
            match &decided {
                // What was typed again is not kept: the transaction is dropped.
                Taken::Repeated(_) => return Ok(decided),
                Taken::Exchanged(cause, approval) => {
                    self.deny_for(tx.as_mut(), approval.clone(), *cause, now).await?;
                    tx.commit().await?;
                    return Err(Error::NotEligible(EXCHANGED.to_owned()));
                }
                Taken::Counted(approval, Counted::Met) if decision.grant.is_some() => {
                    let taken = taken.clone().ok_or(Error::OfferGone)?;
                    self.store_grant(tx.as_mut(), reviewer, taken, Some(approval), now).await?;
                }
                Taken::Counted(..) if decision.approve && decision.grant.is_some() => return Err(Error::OfferGone),
                Taken::Counted(..) | Taken::ToConfirm(_) => {}
            }
            tx.commit().await?;
            Ok(decided)
        })
        .await?;
        match decided {
            Taken::ToConfirm(to_confirm) => Ok(Decided::ToConfirm(to_confirm)),
            Taken::Repeated(approval) | Taken::Counted(approval, _) | Taken::Exchanged(_, approval) => {
                Ok(Decided::Counted(Box::new(self.reviewed(approval).await?)))
            }
        }
    }

    /// Weighs a decision on an approval that is locked after its run, and writes what follows, but for the commit.
    pub(super) async fn take_decision(
        &self,
        tx: &mut dyn Tx,
        reviewer: &ReviewerCaller,
        approval: Approval,
        run: &Run,
        decision: &ReviewDecision,
        now: Timestamp,
    ) -> Result<Taken, Error> {
        if decision.args_hash != approval.args_hash {
            return Err(Error::StaleArgs { current: approval.args_hash });
        }
        let kept = self.kept_call(&approval).await?;
        if let Some(cause) = kept.exchanged() {
            return Ok(Taken::Exchanged(cause, approval));
        }
        let review_hash = approval.review.map(|review| review.hash.to_string());
        if decision.review_hash.is_some() && decision.review_hash != review_hash {
            return Err(Error::StaleReview { current: review_hash.unwrap_or_default() });
        }
        let (approval, counted, told) = if decision.approve {
            self.may_approve(reviewer, &approval, &self.requesters(&self.policy(), run), now)?;
            self.may_approve_here(tx, reviewer, &approval.requirement, now).await?;
            if !kept.is_whole() {
                return Err(Error::NotEligible("what would run was erased, so nobody can see it any more".to_owned()));
            }
            let id = approval.id;
            let vote = Vote { reviewer: reviewer.name.clone(), groups: reviewer.groups.clone(), at: now };
            let confirms = approval.requirement.double_confirm;
            let (approval, counted) = approval.approve(vote, now)?;
            if counted == Counted::Repeated {
                return Ok(Taken::Repeated(approval));
            }
            if confirms {
                let shown = review_hash.unwrap_or_default();
                match &decision.confirmation {
                    Some(text) => self.take_confirmation(tx, reviewer, id, text, shown, now).await?,
                    None => {
                        let to_confirm = self.ask_to_confirm(tx, reviewer, id, shown, now).await?;
                        tx.append(about(&approval, reviewer.caller.entry(EventKind::ApprovalToConfirm, now)));
                        return Ok(Taken::ToConfirm(to_confirm));
                    }
                }
            }
            let payload = self.typed_sentences(tx, decision).await?;
            let mut vote = Entry { payload, ..reviewer.caller.entry(EventKind::ApprovalVote, now) };
            vote.detail.insert("groups".to_owned(), reviewer.groups.iter().cloned().collect::<Vec<_>>().into());
            tx.append(about(&approval, vote));
            let told = if counted == Counted::Met {
                tx.append(about(&approval, reviewer.caller.entry(EventKind::ApprovalApproved, now)));
                NoticeEvent::Approved
            } else {
                NoticeEvent::Voted
            };
            (approval, counted, told)
        } else {
            let message = decision.message_to_agent.clone();
            let (approval, changed) = approval.deny(reviewer.name.clone(), message, now)?;
            if !changed {
                return Ok(Taken::Repeated(approval));
            }
            let payload = self.typed_sentences(tx, decision).await?;
            let denied = Entry { payload, ..reviewer.caller.entry(EventKind::ApprovalDenied, now) };
            tx.append(about(&approval, denied));
            (approval, Counted::Met, NoticeEvent::Denied)
        };
        tx.update_approval(&approval).await?;
        self.tell(tx, &approval, told, now).await?;
        Ok(Taken::Counted(approval, counted))
    }

    /// A reviewer takes an approve back before the claim.
    ///
    /// # Errors
    /// When it is not approved and unclaimed.
    pub async fn revoke_approval(
        &self,
        reviewer: &ReviewerCaller,
        id: ApprovalId,
        reason: Option<&str>,
    ) -> Result<ReviewedApproval, Error> {
        self.transition(reviewer, id, reason, (EventKind::ApprovalRevoked, NoticeEvent::Denied), |approval, now| {
            approval.revoke(reviewer.name.clone(), now).map_err(Error::from)
        })
        .await
    }

    /// A reviewer undoes the own denial for later calls.
    ///
    /// # Errors
    /// When there is no standing denial of this reviewer.
    pub async fn lift_denial(
        &self,
        reviewer: &ReviewerCaller,
        id: ApprovalId,
        reason: Option<&str>,
    ) -> Result<ReviewedApproval, Error> {
        self.transition(reviewer, id, reason, (EventKind::ApprovalLifted, NoticeEvent::Voted), |approval, now| {
            if let State::Denied(Denial { by: Denier::Reviewer { name }, .. }) = &approval.state
                && *name != reviewer.name
            {
                return Err(Error::NotEligible("the denial is another reviewer's".to_owned()));
            }
            approval.lift(reviewer.name.clone(), now).map_err(Error::from)
        })
        .await
    }

    /// A reviewer says what came of a call whose outcome nobody reported.
    ///
    /// # Errors
    /// When the outcome is not unknown.
    pub async fn settle_outcome(
        &self,
        reviewer: &ReviewerCaller,
        id: ApprovalId,
        status: SettledStatus,
        reason: Option<&str>,
    ) -> Result<ReviewedApproval, Error> {
        self.transition(reviewer, id, reason, (EventKind::OutcomeSettled, NoticeEvent::Outcome), |approval, now| {
            approval.settle(reviewer.name.clone(), status, now).map_err(Error::from)
        })
        .await
    }

    async fn transition(
        &self,
        reviewer: &ReviewerCaller,
        id: ApprovalId,
        reason: Option<&str>,
        (event, told): (EventKind, NoticeEvent),
        apply: impl Fn(Approval, Timestamp) -> Result<Approval, Error>,
    ) -> Result<ReviewedApproval, Error> {
        let approval = retrying(|| async {
            let mut tx = self.store.begin().await?;
            let (approval, now) = self.visible_approval(tx.as_mut(), reviewer, id).await?;
            let approval = apply(approval, now)?;
            tx.update_approval(&approval).await?;
            let mut entry = reviewer.caller.entry(event, now);
            if let Some(reason) = reason {
                entry.payload = Some(self.keep_sentences(tx.as_mut(), serde_json::json!({ "reason": reason })).await?);
            }
            if let State::Executed(execution) = &approval.state {
                entry.detail.insert("status".to_owned(), execution.outcome.word().into());
            }
            tx.append(about(&approval, entry));
            self.tell(tx.as_mut(), &approval, told, now).await?;
            tx.commit().await?;
            Ok(approval)
        })
        .await?;
        self.reviewed(approval).await
    }

    pub(super) async fn visible_approval(
        &self,
        tx: &mut dyn Tx,
        reviewer: &ReviewerCaller,
        id: ApprovalId,
    ) -> Result<(Approval, Timestamp), Error> {
        let stored = tx.approval(id).await?;
        // Read with the lock in hand, like everything that must hold at the moment of the vote.
        let now = self.valid_now(tx, &reviewer.caller).await?;
        let stored = stored.filter(|approval| self.sees(reviewer, approval, now));
        Ok((self.with_time_recorded(tx, stored.ok_or(Error::NotFound)?, now).await?, now))
    }

    async fn reviewed(&self, approval: Approval) -> Result<ReviewedApproval, Error> {
        let kept = self.kept_call(&approval).await?;
        self.with_kept(approval, kept).await
    }

    /// The approval with what is kept of it, and what stands beside the review.
    async fn with_kept(&self, approval: Approval, kept: KeptCall) -> Result<ReviewedApproval, Error> {
        // What was exchanged is shown to nobody, and what belonged to it neither.
        let KeptCall { input, review } = match kept.exchanged() {
            Some(_) => KeptCall { input: Kept::Erased, review: Kept::Erased },
            None => kept,
        };
        let args = input.get("args").and_then(Value::as_object).cloned();
        let rationale = input.get("rationale").and_then(Value::as_str).map(str::to_owned);
        let same_subject = match &args {
            Some(args) => self.calls_on_same_subject(&approval, args).await?,
            None => Vec::new(),
        };
        let now = self.now();
        let agent = &approval.call.agent;
        // One more, for it may be open itself.
        let twins = self.store.open_twins(agent, &approval.tool, approval.args_hash, now, MOST_BESIDE + 1).await?;
        let identical = twins
            .into_iter()
            .filter(|twin| twin.id != approval.id)
            .take(MOST_BESIDE as usize)
            .map(|twin| OpenTwin { id: twin.id, code: twin.code })
            .collect();
        Ok(ReviewedApproval {
            approval,
            review: review.held(),
            args,
            rationale,
            same_subject,
            identical,
            offers: Vec::new(),
        })
    }

    async fn calls_on_same_subject(
        &self,
        approval: &Approval,
        args: &Map<String, Value>,
    ) -> Result<Vec<CallBefore>, Error> {
        let policy = self.policy();
        let Some(tool) = policy.tool(&approval.tool).filter(|tool| !tool.subject.is_empty()) else {
            return Ok(Vec::new());
        };
        let subjects = tool.subjects(&Value::Object(args.clone()));
        let now = self.now();
        let mut calls = Vec::new();
        for settled in self.store.calls_on(&subjects, MOST_BESIDE + 1).await? {
            if settled.decision == approval.decision || calls.len() == MOST_BESIDE as usize {
                continue;
            }
            let held = match settled.approval {
                Some(id) => self.store.approval(id).await?,
                None => None,
            };
            let stands = held.map(|held| {
                let (held, _) = held.at(now);
                (held.code, held.state.name())
            });
            calls.push(CallBefore { settled, approval: stands });
        }
        Ok(calls)
    }

    async fn typed_sentences(
        &self,
        tx: &mut dyn Tx,
        decision: &ReviewDecision,
    ) -> Result<Option<PayloadDigest>, Error> {
        if decision.reason.is_none() && decision.message_to_agent.is_none() {
            return Ok(None);
        }
        let body = serde_json::json!({ "reason": decision.reason, "message_to_agent": decision.message_to_agent });
        Ok(Some(self.keep_sentences(tx, body).await?))
    }

    pub(super) async fn keep_sentences(&self, tx: &mut dyn Tx, body: Value) -> Result<PayloadDigest, Error> {
        let payload = Payload::new(body.to_string(), self.salt()?);
        tx.insert_payload(&payload).await?;
        Ok(payload.digest())
    }
}
