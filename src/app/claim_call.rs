//! `POST /approvals/{id}/claim` and `/heartbeat`: the one-time right to run exactly what was approved.

use serde_json::{Map, Value};

use super::{
    App, Caller,
    decide_call::about,
    error::Error,
    kept::KeptInput,
    limits::Locked,
    lookups::lookup_objection,
    ports::{CountedCall, PermitKey, StoreError, Tx},
    retrying,
};
use crate::domain::{
    approval::{
        requesters::Requesters,
        state::{Approval, Claim, Claimable, ServiceDenial},
    },
    audit::entry::{Actor, Entry, EventKind},
    call::{Arguments, ToolCall},
    decision::{Judgement, ReasonCode},
    facts::Facts,
    ids::{ApprovalId, ClaimId},
    judge::judge,
    limit,
    lookup::LookupResults,
    notice::NoticeEvent,
    policy::Policy,
    time::Timestamp,
    verdict::Verdict,
};

/// What the stack presents to claim.
#[derive(Clone, Debug)]
pub struct Presented<'a> {
    /// The arguments it is about to run.
    pub args: &'a Arguments,
    /// The claim's id that it chose, so that it can ask again when the answer is lost.
    pub claim: Option<ClaimId>,
}

/// The right to execute.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedCall {
    /// The approval; its id is the idempotency key as well.
    pub approval: ApprovalId,
    /// The claim that the outcome must carry.
    pub claim: ClaimId,
    /// The arguments that may run, as presented.
    pub args: Map<String, Value>,
    /// What the executor must keep to.
    pub obligations: Map<String, Value>,
    /// Proof for the tool server.
    pub permit: String,
    /// Until when a report is awaited.
    pub lease_expires_at: Timestamp,
}

/// What today's policy says of a call that was held.
#[derive(Clone, Copy)]
pub(super) struct Today<'a> {
    pub(super) policy: &'a Policy,
    pub(super) facts: &'a Facts,
    pub(super) locked: &'a Locked,
    pub(super) judgement: &'a Judgement,
    /// The input that the call was held with.
    pub(super) kept: &'a KeptInput,
    /// What its lookups find now, if they were taken.
    pub(super) lookups: Option<&'a LookupResults>,
}

impl App {
    /// Claims an approved call: exactly one of any number of claims gets it.
    ///
    /// # Errors
    /// What stands in the way; arguments other than those approved also end the approval.
    pub async fn claim_call(
        &self,
        caller: &Caller,
        id: ApprovalId,
        presented: &Presented<'_>,
    ) -> Result<ClaimedCall, Error> {
        retrying(|| async {
            let policy = self.policy();
            let stored = self.store.approval(id).await?;
            let own = caller.principal.agent();
            let held = stored.filter(|approval| Some(&approval.call.agent) == own.as_ref()).ok_or(Error::NotFound)?;
            let mut call = ToolCall {
                key: held.call.clone(),
                tool: held.tool.clone(),
                args: presented.args.clone(),
                context: None,
            };
            let paths = self.found_paths(&policy, &call).await;
            let lookups = self.lookups_for_claim(&policy, &held, presented).await;
            let mut tx = self.store.begin().await?;
            let tool = policy.tool(&call.tool);
            let (facts, run) = self.facts_under_locks(tx.as_mut(), &call.key, tool, paths).await?;
            // What the arguments resolved to depends on neither time nor context; only limits must know it this early.
            let limited = tool.is_some_and(|tool| !tool.limits.is_empty());
            let resolved = if limited { judge(&policy, &call, &facts, self.now()).resolved } else { Map::default() };
            let counted = self.locked_limits(tx.as_mut(), tool, &call, &run, &resolved).await?;
            let locked = Locked { run, counted };
            let (approval, now) = self.own_approval(tx.as_mut(), caller, id).await?;
            let kept = self.kept_input(&approval).await?;
            call.context = kept.get("context").cloned();
            let judgement = judge(&policy, &call, &facts, now);
            let today = Today {
                policy: &policy,
                facts: &facts,
                locked: &locked,
                judgement: &judgement,
                kept: &kept,
                lookups: lookups.as_ref(),
            };
            self.claim_held(tx, caller, approval, presented, &today, now).await.map(|(_, claimed)| claimed)
        })
        .await
    }

    /// Takes the lookups of a call that seems to be claimable; without locks, and so before it is known to be.
    async fn lookups_for_claim(
        &self,
        policy: &Policy,
        held: &Approval,
        presented: &Presented<'_>,
    ) -> Option<LookupResults> {
        let tool = policy.tool(&held.tool).filter(|tool| !tool.lookups.is_empty())?;
        let claimable = held.claimable(presented.claim.as_ref(), tool.idempotent, self.now());
        if claimable != Ok(Claimable::Now) || presented.args.hash() != held.args_hash {
            return None;
        }
        Some(self.look_up(tool, presented.args.value()).await)
    }

    /// Extends the lease of the current claim. Returns until when.
    ///
    /// # Errors
    /// When it is not the current claim, or its lease is over.
    pub async fn heartbeat(
        &self,
        caller: &Caller,
        id: ApprovalId,
        claim: Option<&ClaimId>,
    ) -> Result<Timestamp, Error> {
        retrying(|| async {
            let mut tx = self.store.begin().await?;
            let (approval, now) = self.own_approval(tx.as_mut(), caller, id).await?;
            let extended = match approval.heartbeat(claim, now) {
                Ok(extended) => extended,
                Err(refused) => {
                    tx.commit().await?;
                    return Err(refused.into());
                }
            };
            tx.update_approval(&extended).await?;
            tx.commit().await?;
            Ok(extended.next_deadline().unwrap_or(now))
        })
        .await
    }

    /// Claims a locked approval and commits, or records why not.
    pub(super) async fn claim_held(
        &self,
        mut tx: Box<dyn Tx>,
        caller: &Caller,
        approval: Approval,
        presented: &Presented<'_>,
        today: &Today<'_>,
        now: Timestamp,
    ) -> Result<(Approval, ClaimedCall), Error> {
        let Today { policy, facts, locked, judgement, kept, lookups } = *today;
        self.valid_now(tx.as_mut(), caller).await?;
        let tool = policy.tool(&approval.tool);
        let reclaimable = tool.is_some_and(|tool| tool.idempotent);
        let claimable = match approval.claimable(presented.claim.as_ref(), reclaimable, now) {
            Ok(claimable) => claimable,
            Err(refused) => {
                tx.commit().await?;
                return Err(refused.into());
            }
        };
        let refused = |code: &str, reason: Option<String>| Entry {
            reason_code: Some(code.to_owned()),
            reason,
            ..caller.entry(EventKind::ClaimRefused, now)
        };
        let by_policy = |refused: Entry| Entry { policy_version: Some(policy.version().to_string()), ..refused };
        if presented.args.hash() != approval.args_hash {
            let refused = refused("args_mismatch", None);
            tx.append(about(&approval, refused));
            self.deny_for(tx.as_mut(), approval, ServiceDenial::ArgumentsDiffer, now).await?;
            tx.commit().await?;
            return Err(Error::ArgsMismatch);
        }
        if matches!(kept, KeptInput::Differs) {
            self.deny_for(tx.as_mut(), approval, ServiceDenial::StoredArgumentsDiffer, now).await?;
            tx.commit().await?;
            return Err(Error::ArgsMismatch);
        }
        if let Some(moved) = kept.moved_path(tool, facts) {
            let refused = refused("path_moved", Some(moved.clone()));
            return refuse_claim(tx, &approval, refused, Error::PathMoved(moved)).await;
        }
        if let Some(objection) = self.objection(&approval, judgement, &self.requesters(policy, &locked.run)) {
            let refused = by_policy(refused("policy_changed", Some(objection.clone())));
            return refuse_claim(tx, &approval, refused, Error::PolicyChanged(objection)).await;
        }
        let over = tool.filter(|_| claimable == Claimable::Now);
        if let Some(limit) = over.and_then(|tool| limit::denying(tool, &locked.counted.tallies)) {
            let objection = format!("the limit `{}` is exceeded", limit.id);
            let refused = by_policy(refused(ReasonCode::Limit.as_str(), Some(objection.clone())));
            let refused = Entry { rule: Some(limit.id.clone()), ..refused };
            return refuse_claim(tx, &approval, refused, Error::PolicyChanged(objection)).await;
        }
        if let Some(tool) = tool.filter(|tool| claimable == Claimable::Now && !tool.lookups.is_empty()) {
            let Some(found) = lookups else {
                // It has become claimable since it was looked at without locks.
                return Err(StoreError::Contended("the call's lookups were not taken".to_owned()).into());
            };
            if let Some(objection) = lookup_objection(tool, &kept.lookups(), found) {
                let refused = refused(objection.code(), Some(objection.to_string()));
                return refuse_claim(tx, &approval, refused, Error::Lookup(objection)).await;
            }
        }
        let (claim, given) = match claimable {
            Claimable::Again(claim) => (claim, None),
            Claimable::Now => {
                let id = match &presented.claim {
                    Some(id) => id.clone(),
                    None => ClaimId::from_uuid(self.uuid(now)?),
                };
                let lease = tool.and_then(|tool| tool.lease).unwrap_or(self.settings.claim_lease);
                let permit_id = self.uuid(now)?.to_string();
                let claim = Claim { id, at: now, lease_expires_at: now.plus(lease), lease, permit_id };
                (claim.clone(), Some(claim))
            }
        };
        let call = ToolCall {
            key: approval.call.clone(),
            tool: approval.tool.clone(),
            args: presented.args.clone(),
            context: None,
        };
        let permit =
            self.permit(policy, &call, judgement, PermitKey::Approval(approval.id), claim.permit_id.clone(), claim.at)?;
        let approval = match given {
            None => approval,
            Some(given) => {
                let claimed = approval.claim(given, reclaimable, now)?;
                tx.update_approval(&claimed).await?;
                let mut entry = caller.entry(EventKind::Claim, now);
                entry.policy_version = Some(policy.version().to_string());
                entry.detail.insert("claim_id".to_owned(), claim.id.to_string().into());
                entry.detail.insert("lease_expires_at".to_owned(), claim.lease_expires_at.to_string().into());
                if let Some(tool) = tool {
                    self.join_labels(tx.as_mut(), &locked.run, tool, &mut entry).await?;
                }
                let counted = CountedCall { key: &claimed.call, args_hash: claimed.args_hash };
                locked.counted.count(tx.as_mut(), &counted, PermitKey::Approval(claimed.id), now).await?;
                tx.append(about(&claimed, entry));
                self.tell(tx.as_mut(), &claimed, NoticeEvent::Executed, now).await?;
                claimed
            }
        };
        tx.commit().await?;
        let claimed = ClaimedCall {
            approval: approval.id,
            claim: claim.id,
            args: presented.args.value().clone(),
            obligations: judgement.obligations.clone(),
            permit,
            lease_expires_at: claim.lease_expires_at,
        };
        Ok((approval, claimed))
    }

    /// The caller's own approval, locked, as it stands at the moment returned; another agent's does not exist for it.
    pub(super) async fn own_approval(
        &self,
        tx: &mut dyn Tx,
        caller: &Caller,
        id: ApprovalId,
    ) -> Result<(Approval, Timestamp), Error> {
        let own = caller.principal.agent();
        let stored = tx.approval(id).await?.filter(|approval| Some(&approval.call.agent) == own.as_ref());
        // Read with the lock in hand: the wait for it must not let anything pass that ran out meanwhile.
        let now = self.now();
        Ok((self.with_time_recorded(tx, stored.ok_or(Error::NotFound)?, now).await?, now))
    }

    /// The service denies an approval that could still run; one that no longer can is left as it is. Returns it.
    pub(super) async fn deny_for(
        &self,
        tx: &mut dyn Tx,
        approval: Approval,
        cause: ServiceDenial,
        now: Timestamp,
    ) -> Result<Approval, Error> {
        let Ok(denied) = approval.clone().deny_by_service(cause, now) else { return Ok(approval) };
        tx.update_approval(&denied).await?;
        let mut entry = Entry::new(EventKind::ApprovalDenied, now, Actor::service());
        entry.reason_code = Some(cause.as_str().to_owned());
        tx.append(about(&denied, entry));
        self.tell(tx, &denied, NoticeEvent::Denied, now).await?;
        Ok(denied)
    }

    /// Why an approval does not carry a claim now, if it does not.
    pub(super) fn objection(
        &self,
        approval: &Approval,
        judgement: &Judgement,
        requesters: &Requesters,
    ) -> Option<String> {
        policy_objection(approval, judgement).or_else(|| self.votes_objection(approval, requesters))
    }
}

/// Records why a claim is refused that leaves the approval as it is, and refuses it.
async fn refuse_claim<T>(mut tx: Box<dyn Tx>, approval: &Approval, refused: Entry, error: Error) -> Result<T, Error> {
    tx.append(about(approval, refused));
    tx.commit().await?;
    Err(error)
}

/// Why today's policy and facts do not stand behind an approval of yesterday's, if they do not. The policy may be the
/// same: rules read the time as well.
///
/// The verdict may not be stricter, no rule may ask now that did not ask then, the requirement may not be higher.
pub(super) fn policy_objection(approval: &Approval, judgement: &Judgement) -> Option<String> {
    if judgement.verdict == Verdict::Deny {
        return Some(format!("it denies the call now ({})", judgement.reason.code));
    }
    if let Some(rule) = judgement.asked_by.iter().find(|rule| !approval.asked_by.contains(*rule)) {
        return Some(format!("rule `{rule}` asks for a human now and did not then"));
    }
    let higher =
        judgement.requirement.as_ref().is_none_or(|requirement| requirement.is_higher_than(&approval.requirement));
    higher.then(|| "more is required now than was then".to_owned())
}
