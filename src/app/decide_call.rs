//! `POST /decide` and `POST /approvals`: judges a call, and settles it where that takes locks.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    App, Caller,
    audit_log::{Appended, DecisionRecord},
    claim_call::{ClaimedCall, policy_objection},
    error::Error,
    limits::Locked,
    ports::{CountedCall, Guard, IdempotencyRecord, Permit, PermitKey, StoreError, SubjectCall, Tx},
    retrying,
};
use crate::domain::{
    approval::{
        code::ApprovalCode,
        state::{Approval, MAX_ATTEMPTS, State},
    },
    audit::{
        entry::{Entry, EventKind},
        payload::Payload,
    },
    call::ToolCall,
    canon::{json::ArgsHash, path::PathFinding},
    decision::{Decision, Judgement, Reason, ReasonCode},
    facts::{Facts, SettleFacts, Voters},
    grant::StandingGrant,
    ids::{ApprovalId, BatchId, DecisionId},
    judge::judge,
    lookup::LookupResults,
    notice::NoticeEvent,
    policy::{Policy, Tool, schema::ArgumentFault},
    review::{Held, Review, ReviewHash, ReviewRef},
    run::Run,
    settle::{denied, settle},
    time::Timestamp,
    verdict::Verdict,
};

mod asking_again;
mod memory;
mod record;

pub use memory::IdempotencyKey;
pub(super) use record::about;

use asking_again::AskedAgain;

/// A call to be decided.
#[derive(Clone, Debug)]
pub struct DecideRequest {
    /// The call.
    pub call: ToolCall,
    /// What the model says of it: shown to reviewers, apart and unverified; never read by a rule.
    pub rationale: Option<String>,
    /// Claim it in this request when it is approved.
    pub claim: bool,
    /// Attach it to an open approval of the same run, tool and arguments.
    pub join: bool,
    /// Hand out a permit when it is allowed.
    pub permit: bool,
    /// Hold it although policy would allow it.
    pub hold: bool,
    /// The batch it came in.
    pub batch: Option<BatchId>,
    /// The client's `Idempotency-Key`.
    pub idempotency: Option<IdempotencyKey>,
}

/// What the stack is told.
#[derive(Clone, Debug, PartialEq)]
pub enum DecideAnswer {
    /// It may run now.
    Allowed(AllowedCall),
    /// It waits for a human, or for a claim.
    Held(Box<HeldCall>),
    /// It was approved, and is claimed in this request.
    Claimed(Box<HeldCall>, Box<ClaimedCall>),
    /// It may not run.
    Refused(RefusedCall),
}

/// A call that may run now.
#[derive(Clone, Debug, PartialEq)]
pub struct AllowedCall {
    /// The decision.
    pub decision: DecisionId,
    /// `allow` or `allow_audited`.
    pub verdict: Verdict,
    /// The hash of the arguments that may run.
    pub args_hash: ArgsHash,
    /// What the executor must keep to.
    pub obligations: Map<String, Value>,
    /// The permit, when it was asked for.
    pub permit: Option<String>,
}

/// A call that is held.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldCall {
    /// The decision that held it.
    pub decision: DecisionId,
    /// Its approval.
    pub approval: Approval,
}

/// A call that may not run, and as much of the reason as its kind lets the agent know.
#[derive(Clone, Debug, PartialEq)]
pub enum RefusedCall {
    /// Policy, or the service: the agent learns nothing.
    Bland {
        /// For the service's own log.
        reason: ReasonCode,
    },
    /// The arguments do not fit the schema of a tool the agent may use.
    InvalidArguments {
        /// Where, and what is wrong.
        faults: Vec<ArgumentFault>,
    },
    /// A reviewer declined.
    Declined {
        /// The approval.
        approval: ApprovalId,
        /// What the reviewer wrote to the agent.
        message: Option<String>,
    },
    /// The requester withdrew it.
    Cancelled {
        /// The approval.
        approval: ApprovalId,
    },
}

/// A call with its judgement under one policy.
struct Judged<'a> {
    policy: &'a Policy,
    request: &'a DecideRequest,
    facts: Facts,
    judgement: Judgement,
    now: Timestamp,
    /// What the tool's lookups found, once they were taken.
    lookups: Option<&'a LookupResults>,
}

/// What was found outside before locks were taken.
#[derive(Clone, Copy)]
struct Outside<'a> {
    paths: &'a BTreeMap<String, PathFinding>,
    lookups: Option<&'a LookupResults>,
}

/// A settled decision, ready to be written.
struct Settled {
    decision: Decision,
    /// The open approval that the call is attached to, when it is held.
    joined: Option<Approval>,
    /// Which approval of the call it makes, if it makes one.
    attempt: u32,
    /// Nothing is remembered under the `Idempotency-Key` yet.
    first_of_its_key: bool,
}

impl<'a> Judged<'a> {
    fn new(policy: &'a Policy, request: &'a DecideRequest, facts: Facts, now: Timestamp) -> Self {
        let mut judgement = judge(policy, &request.call, &facts, now);
        if request.hold {
            judgement = at_least_held(judgement, ReasonCode::HoldRequested, "the caller asked for a human");
        }
        Self { policy, request, facts, judgement, now, lookups: None }
    }

    /// The tool, when the call names one.
    fn tool(&self) -> Option<&'a Tool> {
        self.policy.tool(&self.request.call.tool)
    }

    /// Whether `tool` has lookups that were not taken.
    fn lacks_lookups(&self, tool: Option<&Tool>) -> bool {
        self.lookups.is_none() && tool.is_some_and(|tool| !tool.lookups.is_empty())
    }

    /// The tool's own name, or the presented one when no tool has it.
    fn tool_name(&self) -> &str {
        self.judgement.tool.as_deref().unwrap_or(&self.request.call.tool)
    }
}

impl App {
    /// Decides a call.
    ///
    /// # Errors
    /// When nothing could be committed, or the request contradicts what is recorded. Nothing is permitted then.
    pub async fn decide_call(&self, caller: &Caller, request: &DecideRequest) -> Result<DecideAnswer, Error> {
        let policy = self.policy();
        let paths = self.found_paths(&policy, &request.call).await;
        if let Some(answer) = self.decide_at_once(caller, &policy, request, &paths).await? {
            return Ok(answer);
        }
        let outside = Outside { paths: &paths, lookups: None };
        if let Some(answer) = self.settle(caller, &policy, request, outside).await? {
            return Ok(answer);
        }
        // No transaction is open while others are waited for.
        let found = match policy.tool(&request.call.tool) {
            Some(tool) => self.look_up(tool, request.call.args.value()).await,
            None => LookupResults::default(),
        };
        let answer = self.settle(caller, &policy, request, Outside { lookups: Some(&found), ..outside }).await?;
        answer.ok_or_else(|| Error::Unwritable("a call whose lookups were taken is not settled".to_owned()))
    }

    async fn settle(
        &self,
        caller: &Caller,
        policy: &Policy,
        request: &DecideRequest,
        outside: Outside<'_>,
    ) -> Result<Option<DecideAnswer>, Error> {
        retrying(|| async {
            let tx = self.store.begin().await?;
            self.settle_call(tx, caller, policy, request, outside).await
        })
        .await
    }

    /// Decides a call that needs no locks: nothing is held, counted or remembered, and nothing of its run is read. That
    /// its run goes on and its agent is not paused is for the statement that commits to find.
    async fn decide_at_once(
        &self,
        caller: &Caller,
        policy: &Policy,
        request: &DecideRequest,
        paths: &BTreeMap<String, PathFinding>,
    ) -> Result<Option<DecideAnswer>, Error> {
        let under_locks = policy.tool(&request.call.tool).is_some_and(Tool::is_settled_under_locks);
        if under_locks || request.idempotency.is_some() {
            return Ok(None);
        }
        let now = self.now();
        let judged = Judged::new(policy, request, Facts { paths: paths.clone(), ..Facts::default() }, now);
        if judged.judgement.verdict == Verdict::RequireApproval {
            return Ok(None);
        }
        let decision = DecisionId::from_uuid(self.uuid(now)?);
        let answer = self.final_answer(&judged, &judged.judgement, decision)?;
        let (entry, payload) = self.decision_entry(caller, &judged, &judged.judgement, decision)?;
        let guard = Guard {
            call: request.call.key.clone(),
            tool: judged.tool_name().to_owned(),
            args_hash: request.call.args.hash(),
        };
        Ok(match self.log.append(DecisionRecord { entry, payload, guard }).await? {
            Appended::Written => Some(answer),
            Appended::Guarded => None,
        })
    }

    /// Judges and settles a call in its own transaction, and commits it. `None`, and nothing committed, when the tool's
    /// lookups must be taken first.
    async fn settle_call(
        &self,
        mut tx: Box<dyn Tx>,
        caller: &Caller,
        policy: &Policy,
        request: &DecideRequest,
        outside: Outside<'_>,
    ) -> Result<Option<DecideAnswer>, Error> {
        let key = &request.call.key;
        let tool = policy.tool(&request.call.tool);
        let (facts, run) = self.facts_under_locks(tx.as_mut(), key, tool, outside.paths.clone()).await?;
        // Read with the locks in hand: the wait for them must not let anything pass that ran out meanwhile.
        let now = self.now();
        let judged = Judged { lookups: outside.lookups, ..Judged::new(policy, request, facts, now) };
        let (grants, locked) = self.locked_for(tx.as_mut(), &judged, run).await?;
        let remembered = match &request.idempotency {
            Some(idempotency) => {
                tx.remembered(caller.principal.name().as_str(), idempotency.route, &idempotency.key, now).await?
            }
            None => None,
        };
        if let (Some(record), Some(idempotency)) = (&remembered, &request.idempotency)
            && record.body_hash != idempotency.body_hash
        {
            return Err(Error::IdempotencyConflict);
        }
        let mut attempt = 1;
        if let Some(stored) = tx.held(key).await? {
            match self.asked_again(tx, caller, &judged, &locked, stored, remembered.is_some()).await? {
                AskedAgain::Answered(answer) => return Ok(Some(answer)),
                AskedAgain::NeedsLookups => return Ok(None),
                AskedAgain::DecideAfresh(same, next) => (tx, attempt) = (same, next),
            }
        }
        // What loosens later opens no second way to run a call that was held.
        let grants = if attempt == 1 { grants } else { Vec::new() };
        let facts = self.settle_facts(tx.as_mut(), &judged, &locked, grants).await?;
        let (decision, joined) = self.settled(tx.as_mut(), &judged, facts, attempt).await?;
        match &remembered {
            Some(record) if attempt == 1 => match memory::refusal_from_memory(record) {
                Some(refusal) => return Ok(Some(DecideAnswer::Refused(refusal))),
                // What was permitted then is answered again only as long as it still is.
                None if decision.judgement.verdict <= Verdict::AllowAudited => {
                    return self.final_answer(&judged, &decision.judgement, record.decision).map(Some);
                }
                None => {}
            },
            Some(_) | None => {}
        }
        if decision.judgement.verdict == Verdict::RequireApproval && judged.lacks_lookups(judged.tool()) {
            return Ok(None);
        }
        let settled = Settled { decision, joined, attempt, first_of_its_key: remembered.is_none() };
        self.record_settled(tx, caller, &judged, &locked, settled).await.map(Some)
    }

    /// Locks the grants and the limits that the call may use.
    async fn locked_for(
        &self,
        tx: &mut dyn Tx,
        judged: &Judged<'_>,
        run: Run,
    ) -> Result<(Vec<StandingGrant>, Locked), Error> {
        let Judged { policy, request, facts, judgement, .. } = judged;
        let call = &request.call;
        let asks = judgement.verdict == Verdict::RequireApproval && !request.hold;
        let grants =
            if asks { self.standing_grants(tx, policy, call, judgement, facts, &run).await? } else { Vec::new() };
        let counts = judged.tool().filter(|_| judgement.verdict != Verdict::Deny);
        let counted = self.locked_limits(tx, counts, call, &run, &judgement.resolved).await?;
        Ok((grants, Locked { run, counted }))
    }

    async fn settle_facts(
        &self,
        tx: &mut dyn Tx,
        judged: &Judged<'_>,
        locked: &Locked,
        grants: Vec<StandingGrant>,
    ) -> Result<SettleFacts, Error> {
        let Judged { policy, request, now, .. } = judged;
        let key = &request.call.key;
        let tool = judged.tool_name();
        let standing_denial = tx.standing_denial(&key.agent, &key.run, tool, request.call.args.hash()).await?;
        let (open_in_run, open_of_agent) = tx.open_counts(&key.agent, &key.run, *now).await?;
        let refused_of_tool_in_run = tx.refused_count(&key.agent, &key.run, tool).await?;
        let asking = self.requesters(policy, &locked.run);
        let (requesters, voters): (Vec<_>, Vec<_>) =
            self.reviewers.iter().partition(|person| asking.contains(&person.name));
        Ok(SettleFacts {
            standing_denial,
            open_in_run,
            open_of_agent,
            refused_of_tool_in_run,
            voters: Voters::among(voters.into_iter()),
            requesters: Voters::among(requesters.into_iter()),
            limits: locked.counted.tallies.clone(),
            grants,
            joins: false,
        })
    }

    /// Settles the call, and finds the open approval that it is attached to.
    async fn settled(
        &self,
        tx: &mut dyn Tx,
        judged: &Judged<'_>,
        mut facts: SettleFacts,
        attempt: u32,
    ) -> Result<(Decision, Option<Approval>), Error> {
        let Judged { policy, judgement, .. } = judged;
        let judgement = if attempt == 1 {
            judgement.clone()
        } else {
            at_least_held(judgement.clone(), ReasonCode::HeldBefore, "the call was held before")
        };
        // Read with every lock in hand.
        let now = self.now();
        let mut joined = None;
        if let Some(alike) = self.open_alike(tx, judged).await? {
            facts.joins = true;
            let decision = settle(policy, judgement.clone(), &facts, now);
            // What it asks for must be all that is asked for now: context and time may differ.
            joined = policy_objection(&alike, &decision.judgement).is_none().then_some(alike);
            facts.joins = joined.is_some();
        }
        let decision = settle(policy, judgement, &facts, now);
        if attempt > MAX_ATTEMPTS && decision.judgement.verdict == Verdict::RequireApproval {
            let text = "the call was held too often without coming to a run";
            return Ok((denied(decision.judgement, ReasonCode::ExpiredTooOften, text), None));
        }
        Ok((decision, joined))
    }

    /// The open approval of the same run, tool and arguments, for a call that would join one.
    async fn open_alike(&self, tx: &mut dyn Tx, judged: &Judged<'_>) -> Result<Option<Approval>, Error> {
        let Judged { request, judgement, now, .. } = judged;
        let (Some(tool), true) = (&judgement.tool, request.join) else { return Ok(None) };
        let key = &request.call.key;
        let Some(stored) = tx.open_alike(&key.agent, &key.run, tool, request.call.args.hash()).await? else {
            return Ok(None);
        };
        let alike = self.with_time_recorded(tx, stored, *now).await?;
        Ok(Some(alike).filter(|approval| approval.next_deadline().is_some()))
    }

    /// Writes a settled decision, with its approval when it asks for one, and commits.
    async fn record_settled(
        &self,
        mut tx: Box<dyn Tx>,
        caller: &Caller,
        judged: &Judged<'_>,
        locked: &Locked,
        settled: Settled,
    ) -> Result<DecideAnswer, Error> {
        let Settled { decision: settled, joined, attempt, first_of_its_key } = settled;
        let Judged { request, now, .. } = judged;
        let key = &request.call.key;
        let id = DecisionId::from_uuid(self.uuid(*now)?);
        let (mut entry, payload) = self.decision_entry(caller, judged, &settled.judgement, id)?;
        if let Some(payload) = &payload {
            tx.insert_payload(payload).await?;
        }
        let answer = match (&settled.standing_denial, settled.judgement.verdict, payload) {
            (Some(denial), _, _) => {
                entry.approval = Some(denial.approval);
                tx.append(entry);
                let (approval, message) = (denial.approval, denial.message_to_agent.clone());
                DecideAnswer::Refused(RefusedCall::Declined { approval, message })
            }
            (None, Verdict::RequireApproval, Some(payload)) => {
                let approval = match joined {
                    Some(approval) => {
                        entry.approval = Some(approval.id);
                        entry.code = Some(approval.code.clone());
                        tx.append(entry);
                        let mut joined = caller.entry(EventKind::ApprovalJoined, *now);
                        joined.decision = Some(id);
                        let joined = Entry { call: Some(key.clone()), ..about(&approval, joined) };
                        tx.append(joined);
                        approval
                    }
                    None => {
                        let approval = self
                            .open_approval(
                                tx.as_mut(),
                                judged,
                                &settled.judgement,
                                &locked.run,
                                (id, &payload),
                                attempt,
                            )
                            .await?;
                        entry.approval = Some(approval.id);
                        entry.code = Some(approval.code.clone());
                        tx.append(entry);
                        let mut requested = caller.entry(EventKind::ApprovalRequested, *now);
                        requested.payload = approval.review.map(|review| review.payload);
                        requested.detail.insert("attempt".to_owned(), attempt.into());
                        requested.detail.insert("expires_at".to_owned(), json!(approval.expires_at));
                        tx.append(about(&approval, requested));
                        self.tell(tx.as_mut(), &approval, NoticeEvent::Requested, *now).await?;
                        approval
                    }
                };
                tx.attach_call(key, approval.id).await?;
                DecideAnswer::Held(Box::new(HeldCall { decision: id, approval }))
            }
            (None, Verdict::Allow | Verdict::AllowAudited, _) => {
                if let Some(tool) = judged.tool() {
                    self.join_labels(tx.as_mut(), &locked.run, tool, &mut entry).await?;
                }
                let call = CountedCall { key, args_hash: request.call.args.hash() };
                locked.counted.count(tx.as_mut(), &call, PermitKey::Decision(id), *now).await?;
                let used = settled.grant.map(|grant| Entry {
                    rule: Some(grant.to_string()),
                    detail: Map::from_iter([("grant".to_owned(), json!(grant))]),
                    call: Some(key.clone()),
                    tool: entry.tool.clone(),
                    decision: Some(id),
                    ..caller.entry(EventKind::GrantUsed, *now)
                });
                tx.append(entry);
                if let (Some(grant), Some(used)) = (settled.grant, used) {
                    tx.use_grant(grant, &call, id, *now).await?;
                    tx.append(used);
                }
                self.final_answer(judged, &settled.judgement, id)?
            }
            (None, Verdict::RequireApproval | Verdict::Deny, _) => {
                tx.append(entry);
                self.final_answer(judged, &settled.judgement, id)?
            }
        };
        if let Some(tool) = judged.tool().filter(|_| record::arguments_are_kept(&settled.judgement)) {
            let subjects = tool.subjects(request.call.args.json());
            if !subjects.is_empty() {
                let approval = match &answer {
                    DecideAnswer::Held(held) | DecideAnswer::Claimed(held, _) => Some(held.approval.id),
                    DecideAnswer::Refused(
                        RefusedCall::Declined { approval, .. } | RefusedCall::Cancelled { approval },
                    ) => Some(*approval),
                    DecideAnswer::Allowed(_)
                    | DecideAnswer::Refused(RefusedCall::Bland { .. } | RefusedCall::InvalidArguments { .. }) => None,
                };
                let call = SubjectCall {
                    call: key.clone(),
                    tool: tool.name.clone(),
                    decision: id,
                    verdict: settled.judgement.verdict,
                    approval,
                    at: *now,
                };
                tx.insert_subjects(&subjects, &call).await?;
            }
        }
        if let Some(idempotency) = request.idempotency.as_ref().filter(|_| first_of_its_key) {
            let record = IdempotencyRecord {
                caller: caller.principal.name().to_string(),
                route: idempotency.route.to_owned(),
                key: idempotency.key.clone(),
                body_hash: idempotency.body_hash,
                decision: id,
                answer: memory::memory_of(&answer),
                created_at: *now,
            };
            if tx.remember(&record).await?.is_some() {
                // A racing twin was first. Nothing of this one is kept, and the next attempt finds what became of that.
                return Err(StoreError::Contended("the Idempotency-Key was just used".to_owned()).into());
            }
        }
        tx.commit().await?;
        Ok(answer)
    }

    async fn open_approval(
        &self,
        tx: &mut dyn Tx,
        judged: &Judged<'_>,
        judgement: &Judgement,
        run: &Run,
        (decision, payload): (DecisionId, &Payload),
        attempt: u32,
    ) -> Result<Approval, Error> {
        // 30 bits of code: a free one is found at once unless the store holds many millions.
        const TRIES: u32 = 16;
        let Judged { request, now, .. } = judged;
        let (Some(requirement), Some(tool)) = (judgement.requirement.clone(), judged.tool()) else {
            return Err(Error::Unwritable("a held call without a tool or a requirement".to_owned()));
        };
        let expires_at = now.plus(requirement.ttl);
        let review = Review::of(Held {
            tool,
            args: request.call.args.json(),
            judgement,
            requirement: &requirement,
            run,
            lookups: judged.lookups.unwrap_or(&LookupResults::default()),
            expires_at,
        });
        let review = review.canonical().map_err(|error| Error::Unwritable(error.to_string()))?;
        let hash = ReviewHash::of(&review);
        let shown = Payload::new(review, self.salt()?);
        tx.insert_payload(&shown).await?;
        let mut approval = Approval {
            id: ApprovalId::from_uuid(self.uuid(*now)?),
            code: ApprovalCode::from_bits(0),
            call: request.call.key.clone(),
            tool: tool.name.clone(),
            args_hash: request.call.args.hash(),
            payload: payload.digest(),
            decision,
            policy_version: judgement.policy_version.clone(),
            asked_by: judgement.asked_by.iter().cloned().collect(),
            reason: judgement.reason.text.clone(),
            batch: request.batch,
            attempt,
            created_at: *now,
            expires_at,
            requirement,
            review: Some(ReviewRef { payload: shown.digest(), hash }),
            state: State::Pending { votes: Vec::new() },
        };
        for _ in 0..TRIES {
            let mut bits = [0; 4];
            self.entropy.fill(&mut bits)?;
            approval.code = ApprovalCode::from_bits(u32::from_be_bytes(bits));
            if tx.insert_approval(&approval).await? {
                return Ok(approval);
            }
        }
        Err(Error::Unwritable("no free approval code was found".to_owned()))
    }

    /// The answer to a call that was not held, with its permit.
    fn final_answer(
        &self,
        judged: &Judged<'_>,
        judgement: &Judgement,
        decision: DecisionId,
    ) -> Result<DecideAnswer, Error> {
        let call = &judged.request.call;
        match judgement.verdict {
            Verdict::Allow | Verdict::AllowAudited => {
                let permit = if judged.request.permit {
                    let jti = self.uuid(judged.now)?.to_string();
                    Some(self.permit(judged.policy, call, judgement, PermitKey::Decision(decision), jti, judged.now)?)
                } else {
                    None
                };
                Ok(DecideAnswer::Allowed(AllowedCall {
                    decision,
                    verdict: judgement.verdict,
                    args_hash: call.args.hash(),
                    obligations: judgement.obligations.clone(),
                    permit,
                }))
            }
            Verdict::RequireApproval | Verdict::Deny => {
                Ok(DecideAnswer::Refused(if judgement.reason.code == ReasonCode::InvalidArguments {
                    RefusedCall::InvalidArguments { faults: judgement.argument_faults.clone() }
                } else {
                    RefusedCall::Bland { reason: judgement.reason.code }
                }))
            }
        }
    }

    /// Signs the permit of an allowed or claimed call.
    pub(super) fn permit(
        &self,
        policy: &Policy,
        call: &ToolCall,
        judgement: &Judgement,
        key: PermitKey,
        jti: String,
        from: Timestamp,
    ) -> Result<String, Error> {
        let tool = judgement.tool.as_deref().unwrap_or(&call.tool);
        let permit = Permit {
            aud: policy.tool(tool).map_or(tool, |tool| tool.audience.as_str()).to_owned(),
            sub: call.key.agent.clone(),
            jti,
            key,
            tool: tool.to_owned(),
            args_hash: call.args.hash(),
            run_id: call.key.run.clone(),
            tool_use_id: call.key.tool_use_id.clone(),
            policy_version: judgement.policy_version.clone(),
            obligations: judgement.obligations.clone(),
        };
        Ok(self.permits.sign(&permit, from)?)
    }
}

/// The judgement, asking for a human at least.
fn at_least_held(mut judgement: Judgement, code: ReasonCode, text: &str) -> Judgement {
    if judgement.verdict < Verdict::RequireApproval {
        judgement.verdict = Verdict::RequireApproval;
        judgement.reason = Reason { code, text: text.to_owned(), rule: None };
    }
    judgement
}
