//! `POST /decide` and `POST /approvals`: judges a call, settles it where that takes locks, and answers what is known
//! of a call that was held before.

use serde_json::{Map, Value, json};

use super::{
    App, Caller,
    audit_log::{Appended, DecisionRecord},
    claim_call::{ClaimedCall, Presented, Today, policy_objection},
    error::{AlreadyExecuted, Error},
    ports::{Change, Guard, IdempotencyRecord, Permit, PermitKey, StoreError, Tx},
    retrying,
};
use crate::domain::{
    approval::{
        code::ApprovalCode,
        state::{Approval, Canceller, Claimable, Denier, Elapsed, Execution, MAX_ATTEMPTS, State},
    },
    audit::{
        chain::Hash,
        entry::{Actor, Entry, EventKind},
        payload::{self, Payload, Salt},
    },
    call::ToolCall,
    canon::json::{self, ArgsHash},
    decision::{Decision, ENGINE_VERSION, Judgement, Reason, ReasonCode},
    facts::{Facts, SettleFacts},
    ids::{ApprovalId, DecisionId},
    judge::judge,
    policy::{Policy, schema::ArgumentFault},
    settle::{denied, settle},
    time::Timestamp,
    verdict::Verdict,
};

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
    /// The client's `Idempotency-Key`.
    pub idempotency: Option<IdempotencyKey>,
}

/// An `Idempotency-Key`, scoped to caller and route, bound to the body.
#[derive(Clone, Debug)]
pub struct IdempotencyKey {
    /// The route it was sent to.
    pub route: &'static str,
    /// The client's text.
    pub key: String,
    /// SHA-256 of the canonical body.
    pub body_hash: Hash,
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
}

impl App {
    /// Decides a call.
    ///
    /// # Errors
    /// When nothing could be committed, or the request contradicts what is recorded. Nothing is permitted then.
    pub async fn decide_call(&self, caller: &Caller, request: &DecideRequest) -> Result<DecideAnswer, Error> {
        let now = self.now();
        let policy = self.policy();
        let facts = self.facts(&policy, &request.call).await;
        let mut judgement = judge(&policy, &request.call, &facts, now);
        if request.hold {
            judgement = at_least_held(judgement, ReasonCode::HoldRequested, "the caller asked for a human");
        }
        let judged = Judged { policy: &policy, request, facts, judgement, now };
        let needs_locks = judged.judgement.verdict == Verdict::RequireApproval || request.idempotency.is_some();
        if !needs_locks {
            let decision = DecisionId::from_uuid(self.uuid(now)?);
            let answer = self.final_answer(&judged, &judged.judgement, decision)?;
            let (entry, payload) = self.decision_entry(caller, &judged, &judged.judgement, decision)?;
            let guard = Guard {
                call: request.call.key.clone(),
                tool: judged.judgement.tool.clone().unwrap_or_else(|| request.call.tool.clone()),
                args_hash: request.call.args.hash(),
            };
            match self.log.append(DecisionRecord { entry, payload, guard }).await? {
                Appended::Written => return Ok(answer),
                Appended::Guarded => {}
            }
        }
        retrying(|| async {
            let tx = self.store.begin().await?;
            self.settle_call(tx, caller, &judged).await
        })
        .await
    }

    /// Settles a call in its own transaction, and commits it.
    async fn settle_call(
        &self,
        mut tx: Box<dyn Tx>,
        caller: &Caller,
        judged: &Judged<'_>,
    ) -> Result<DecideAnswer, Error> {
        let Judged { policy, request, facts, judgement, now } = judged;
        let key = &request.call.key;
        tx.lock_agent(&key.agent).await?;
        tx.lock_run(&key.agent, &key.run).await?;
        let remembered = match &request.idempotency {
            Some(idempotency) => {
                tx.remembered(caller.principal.name().as_str(), idempotency.route, &idempotency.key, *now).await?
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
            let approval = self.with_time_recorded(tx.as_mut(), stored, *now).await?;
            if approval.args_hash != request.call.args.hash() || !names_tool(judged, &approval) {
                let mut entry = caller.entry(EventKind::CallReused, *now);
                entry.tool = Some(judgement.tool.clone().unwrap_or_else(|| request.call.tool.clone()));
                tx.append(Entry { call: Some(key.clone()), ..about(&approval, entry) });
                tx.commit().await?;
                return Err(Error::ToolUseIdReused);
            }
            attempt = approval.attempt + 1;
            let objection = match &approval.state {
                State::Approved(_) => match self.moved_path(&approval, policy, facts).await? {
                    Some(moved) => Some(moved),
                    None => self.objection(&approval, judgement),
                },
                State::Pending { .. }
                | State::Denied(_)
                | State::Expired { .. }
                | State::Cancelled { .. }
                | State::Executed(_) => None,
            };
            match next_step(&approval, judged, objection, remembered.is_some()) {
                NextStep::Answer(answer) => {
                    tx.commit().await?;
                    return self.with_result(&approval, answer).await;
                }
                NextStep::Claim => {
                    let presented = Presented { args: &request.call.args, claim: None };
                    let today = Today { policy, facts, judgement };
                    let (approval, claimed) = self.claim_held(tx, caller, approval, &presented, &today, *now).await?;
                    let held = HeldCall { decision: approval.decision, approval };
                    return Ok(DecideAnswer::Claimed(Box::new(held), Box::new(claimed)));
                }
                NextStep::Supersede(objection) => {
                    let (cancelled, _) = approval.cancel(Canceller::PolicyChange, *now)?;
                    tx.update_approval(&cancelled).await?;
                    tx.announce(Change::Approval(cancelled.id));
                    let mut entry = Entry::new(EventKind::ApprovalCancelled, *now, Actor::service());
                    entry.reason_code = Some("policy_changed".to_owned());
                    entry.reason = Some(objection);
                    tx.append(about(&cancelled, entry));
                }
                NextStep::DecideAfresh => {}
            }
        }
        let decision = self.settled(tx.as_mut(), judged, attempt).await?;
        match &remembered {
            Some(record) if attempt == 1 => match refusal_from_memory(record) {
                Some(refusal) => return Ok(DecideAnswer::Refused(refusal)),
                // What was permitted then is answered again only as long as it still is.
                None if decision.judgement.verdict <= Verdict::AllowAudited => {
                    return self.final_answer(judged, &decision.judgement, record.decision);
                }
                None => {}
            },
            Some(_) | None => {}
        }
        self.record_settled(tx, caller, judged, decision, attempt, remembered.is_none()).await
    }

    async fn settled(&self, tx: &mut dyn Tx, judged: &Judged<'_>, attempt: u32) -> Result<Decision, Error> {
        let Judged { policy, request, judgement, now, .. } = judged;
        let key = &request.call.key;
        let tool = judgement.tool.as_deref().unwrap_or(&request.call.tool);
        let standing_denial = tx.standing_denial(&key.agent, &key.run, tool, request.call.args.hash()).await?;
        let (open_in_run, open_of_agent) = tx.open_counts(&key.agent, &key.run, *now).await?;
        let refused_of_tool_in_run = tx.refused_count(&key.agent, &key.run, tool).await?;
        let facts = SettleFacts {
            standing_denial,
            open_in_run,
            open_of_agent,
            refused_of_tool_in_run,
            voters: self.voters.clone(),
        };
        let judgement = if attempt == 1 {
            judgement.clone()
        } else {
            at_least_held(judgement.clone(), ReasonCode::HeldBefore, "the call was held before")
        };
        let decision = settle(policy, judgement, &facts);
        if attempt > MAX_ATTEMPTS && decision.judgement.verdict == Verdict::RequireApproval {
            let text = "the call was held too often without coming to a run";
            return Ok(denied(decision.judgement, ReasonCode::ExpiredTooOften, text));
        }
        Ok(decision)
    }

    /// Writes a settled decision, with its approval when it asks for one, and commits.
    async fn record_settled(
        &self,
        mut tx: Box<dyn Tx>,
        caller: &Caller,
        judged: &Judged<'_>,
        settled: Decision,
        attempt: u32,
        first_of_its_key: bool,
    ) -> Result<DecideAnswer, Error> {
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
                let alike = match (&settled.judgement.tool, request.join) {
                    (Some(tool), true) => tx.open_alike(&key.agent, &key.run, tool, request.call.args.hash()).await?,
                    _ => None,
                };
                let alike = match alike {
                    Some(stored) => Some(self.with_time_recorded(tx.as_mut(), stored, *now).await?),
                    None => None,
                };
                // What it asks for must be all that is asked for now: context and time may differ.
                let alike = alike.filter(|approval| {
                    approval.next_deadline().is_some() && policy_objection(approval, &settled.judgement).is_none()
                });
                let approval = match alike {
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
                        let approval =
                            self.open_approval(tx.as_mut(), judged, &settled.judgement, id, &payload, attempt).await?;
                        entry.approval = Some(approval.id);
                        entry.code = Some(approval.code.clone());
                        tx.append(entry);
                        let mut requested = caller.entry(EventKind::ApprovalRequested, *now);
                        requested.detail.insert("attempt".to_owned(), attempt.into());
                        requested.detail.insert("expires_at".to_owned(), json!(approval.expires_at));
                        tx.append(about(&approval, requested));
                        tx.announce(Change::Approval(approval.id));
                        approval
                    }
                };
                tx.attach_call(key, approval.id).await?;
                DecideAnswer::Held(Box::new(HeldCall { decision: id, approval }))
            }
            (None, _, _) => {
                tx.append(entry);
                self.final_answer(judged, &settled.judgement, id)?
            }
        };
        if let Some(idempotency) = request.idempotency.as_ref().filter(|_| first_of_its_key) {
            let record = IdempotencyRecord {
                caller: caller.principal.name().to_string(),
                route: idempotency.route.to_owned(),
                key: idempotency.key.clone(),
                body_hash: idempotency.body_hash,
                decision: id,
                answer: memory_of(&answer),
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
        decision: DecisionId,
        payload: &Payload,
        attempt: u32,
    ) -> Result<Approval, Error> {
        // 30 bits of code: a free one is found at once unless the store holds many millions.
        const TRIES: u32 = 16;
        let Judged { request, now, .. } = judged;
        let (Some(requirement), Some(tool)) = (judgement.requirement.clone(), judgement.tool.clone()) else {
            return Err(Error::Unwritable("a held call without a requirement".to_owned()));
        };
        let mut approval = Approval {
            id: ApprovalId::from_uuid(self.uuid(*now)?),
            code: ApprovalCode::from_bits(0),
            call: request.call.key.clone(),
            tool,
            args_hash: request.call.args.hash(),
            payload: payload.digest(),
            decision,
            policy_version: judgement.policy_version.clone(),
            asked_by: judgement.asked_by.iter().cloned().collect(),
            reason: judgement.reason.text.clone(),
            attempt,
            created_at: *now,
            expires_at: now.plus(requirement.ttl),
            requirement,
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

    /// Records what time alone did to a locked approval.
    pub(super) async fn with_time_recorded(
        &self,
        tx: &mut dyn Tx,
        stored: Approval,
        now: Timestamp,
    ) -> Result<Approval, Error> {
        let (approval, elapsed) = stored.at(now);
        let event = match elapsed {
            Elapsed::Nothing => return Ok(approval),
            Elapsed::Expired => EventKind::ApprovalExpired,
            Elapsed::LeaseEnded => EventKind::OutcomeUnknown,
        };
        tx.update_approval(&approval).await?;
        tx.append(about(&approval, Entry::new(event, now, Actor::service())));
        tx.announce(Change::Approval(approval.id));
        Ok(approval)
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

    /// The log entry of a decision, and the payload beside it.
    fn decision_entry(
        &self,
        caller: &Caller,
        judged: &Judged<'_>,
        judgement: &Judgement,
        decision: DecisionId,
    ) -> Result<(Entry, Option<Payload>), Error> {
        let Judged { policy, request, now, .. } = judged;
        let payload = match judgement.verdict {
            Verdict::Allow if !keeps_arguments(policy, judgement) => None,
            Verdict::Allow | Verdict::AllowAudited | Verdict::RequireApproval | Verdict::Deny => {
                Some(decision_payload(judged, judgement, self.salt()?)?)
            }
        };
        let mut entry = caller.entry(EventKind::Decision, *now);
        entry.call = Some(request.call.key.clone());
        entry.tool = Some(judgement.tool.clone().unwrap_or_else(|| request.call.tool.clone()));
        entry.decision = Some(decision);
        entry.verdict = Some(judgement.verdict);
        entry.reason_code = Some(judgement.reason.code.as_str().to_owned());
        entry.reason = Some(judgement.reason.text.clone());
        entry.rule.clone_from(&judgement.reason.rule);
        entry.policy_version = Some(judgement.policy_version.to_string());
        entry.payload = payload.as_ref().map(Payload::digest);
        entry.detail.insert("engine".to_owned(), ENGINE_VERSION.into());
        if !judgement.rules.is_empty() {
            let states = judgement.rules.iter().map(|trace| (trace.rule.clone(), json!(trace.state))).collect();
            entry.detail.insert("rules".to_owned(), Value::Object(states));
        }
        if entry.tool.as_deref() != Some(&request.call.tool) {
            entry.detail.insert("presented_as".to_owned(), request.call.tool.clone().into());
        }
        Ok((entry, payload))
    }

    /// Completes the refusal of an executed call with what the stack reported of it.
    async fn with_result(
        &self,
        approval: &Approval,
        answer: Result<DecideAnswer, Error>,
    ) -> Result<DecideAnswer, Error> {
        match (answer, &approval.state) {
            (Err(Error::AlreadyExecuted(mut executed)), State::Executed(execution)) => {
                if let Some(digest) = execution.outcome.payload()
                    && let Some(payload) = self.store.payload(digest).await?
                {
                    let body: Value = serde_json::from_str(payload.body()).unwrap_or_default();
                    executed.result = body.get("result").filter(|result| !result.is_null()).cloned();
                }
                Err(Error::AlreadyExecuted(executed))
            }
            (answer, _) => answer,
        }
    }
}

/// What happens to a call that was held before and is asked again.
enum NextStep {
    Answer(Result<DecideAnswer, Error>),
    Claim,
    Supersede(String),
    DecideAfresh,
}

fn next_step(approval: &Approval, judged: &Judged<'_>, objection: Option<String>, remembered: bool) -> NextStep {
    let held = || {
        let held = HeldCall { decision: approval.decision, approval: approval.clone() };
        NextStep::Answer(Ok(DecideAnswer::Held(Box::new(held))))
    };
    let refused = |refusal| NextStep::Answer(Ok(DecideAnswer::Refused(refusal)));
    match &approval.state {
        State::Pending { .. } => held(),
        State::Approved(_) => match objection {
            Some(objection) => NextStep::Supersede(objection),
            None if judged.request.claim && approval.claimable(None, false, judged.now) == Ok(Claimable::Now) => {
                NextStep::Claim
            }
            None => held(),
        },
        State::Denied(denial) => match &denial.by {
            Denier::Reviewer { .. } => {
                refused(RefusedCall::Declined { approval: approval.id, message: denial.message_to_agent.clone() })
            }
            Denier::Service { .. } => refused(RefusedCall::Bland { reason: ReasonCode::DeniedBefore }),
        },
        // The same request sent again asks what became of it, not for a new approval.
        State::Expired { .. } if remembered => held(),
        State::Expired { .. } => NextStep::DecideAfresh,
        State::Cancelled { by: Canceller::Requester, .. } => refused(RefusedCall::Cancelled { approval: approval.id }),
        State::Cancelled { by: Canceller::Stop, .. } => refused(RefusedCall::Bland { reason: ReasonCode::RunEnded }),
        State::Cancelled { by: Canceller::PolicyChange | Canceller::Pause, .. } => NextStep::DecideAfresh,
        State::Executed(execution) => {
            let idempotent = judged.policy.tool(&approval.tool).is_some_and(|tool| tool.idempotent);
            match approval.claimable(None, idempotent, judged.now) {
                Ok(Claimable::Now) if judged.request.claim => NextStep::Claim,
                Ok(_) | Err(_) => {
                    NextStep::Answer(Err(Error::AlreadyExecuted(Box::new(executed(approval, execution)))))
                }
            }
        }
    }
}

/// What is known of an executed call, but for the result the stack reported.
pub(super) fn executed(approval: &Approval, execution: &Execution) -> AlreadyExecuted {
    AlreadyExecuted {
        approval: approval.id,
        claim: execution.claim.id.clone(),
        outcome: execution.outcome.word().map(str::to_owned),
        result: None,
        claimed_at: execution.claim.at,
    }
}

/// Whether the presented name is the held tool's: its own, or an alias.
fn names_tool(judged: &Judged<'_>, approval: &Approval) -> bool {
    judged.judgement.tool.as_ref().unwrap_or(&judged.request.call.tool) == &approval.tool
        || judged.policy.tool(&judged.request.call.tool).is_some_and(|tool| tool.name == approval.tool)
}

/// Fills in what an entry says of its approval.
pub(super) fn about(approval: &Approval, mut entry: Entry) -> Entry {
    entry.call = Some(approval.call.clone());
    if entry.tool.is_none() {
        entry.tool = Some(approval.tool.clone());
    }
    entry.approval = Some(approval.id);
    entry.code = Some(approval.code.clone());
    if entry.decision.is_none() {
        entry.decision = Some(approval.decision);
    }
    entry
}

fn keeps_arguments(policy: &Policy, judgement: &Judgement) -> bool {
    judgement.tool.as_deref().and_then(|name| policy.tool(name)).is_some_and(|tool| tool.record_args)
}

/// What was decided about, kept beside the log. Arguments that no schema has accepted are kept as a salted hash.
fn decision_payload(judged: &Judged<'_>, judgement: &Judgement, salt: Salt) -> Result<Payload, Error> {
    let Judged { request, facts, .. } = judged;
    let call = &request.call;
    let accepted = match judgement.reason.code {
        ReasonCode::AgentPaused
        | ReasonCode::RunEnded
        | ReasonCode::UnknownTool
        | ReasonCode::ToolNotGranted
        | ReasonCode::InvalidArguments => false,
        ReasonCode::UnresolvableArgument
        | ReasonCode::Constraint
        | ReasonCode::Rule
        | ReasonCode::Floor
        | ReasonCode::Default
        | ReasonCode::NotSandboxed
        | ReasonCode::HoldRequested
        | ReasonCode::HeldBefore
        | ReasonCode::DeniedBefore
        | ReasonCode::NoReviewer
        | ReasonCode::OpenApprovalsOfRun
        | ReasonCode::OpenApprovalsOfAgent
        | ReasonCode::RefusedTooOften
        | ReasonCode::ExpiredTooOften => true,
    };
    let unwritable = |error: serde_json::Error| Error::Unwritable(error.to_string());
    let body = if accepted {
        json!({
            "args": call.args.value(),
            "args_hash": call.args.hash(),
            "context": call.context,
            "resolved": judgement.resolved,
            "rationale": request.rationale,
            "facts": facts,
        })
    } else {
        let canonical = json::canonical(call.args.value()).map_err(unwritable)?;
        json!({
            "args_salted_hash": payload::salted_hash(&salt, &canonical),
            "argument_faults": judgement.argument_faults,
        })
    };
    Ok(Payload::new(serde_json::to_string(&body).map_err(unwritable)?, salt))
}

/// The judgement, asking for a human at least.
fn at_least_held(mut judgement: Judgement, code: ReasonCode, text: &str) -> Judgement {
    if judgement.verdict < Verdict::RequireApproval {
        judgement.verdict = Verdict::RequireApproval;
        judgement.reason = Reason { code, text: text.to_owned(), rule: None };
    }
    judgement
}

/// What an idempotency record keeps of an answer: why it was refused. A held call's approval tells its own state, and
/// whether a call is still permitted is decided again.
fn memory_of(answer: &DecideAnswer) -> Value {
    match answer {
        DecideAnswer::Allowed(_) | DecideAnswer::Held(_) | DecideAnswer::Claimed(..) => Value::Null,
        DecideAnswer::Refused(RefusedCall::InvalidArguments { faults }) => json!({ "faults": faults }),
        DecideAnswer::Refused(RefusedCall::Declined { approval, message }) => {
            json!({ "declined": approval, "message": message })
        }
        DecideAnswer::Refused(RefusedCall::Bland { .. } | RefusedCall::Cancelled { .. }) => json!({ "refused": true }),
    }
}

/// The remembered refusal of a call that was not held; `None` when it was permitted.
fn refusal_from_memory(record: &IdempotencyRecord) -> Option<RefusedCall> {
    let answer = record.answer.as_object()?;
    let field = |name: &str| answer.get(name).cloned().unwrap_or_default();
    if let Ok(faults) = serde_json::from_value::<Vec<ArgumentFault>>(field("faults")) {
        return Some(RefusedCall::InvalidArguments { faults });
    }
    if let Ok(approval) = serde_json::from_value::<ApprovalId>(field("declined")) {
        let message = serde_json::from_value(field("message")).unwrap_or_default();
        return Some(RefusedCall::Declined { approval, message });
    }
    Some(RefusedCall::Bland { reason: ReasonCode::DeniedBefore })
}
