//! `POST /grants`, `GET /grants`, `DELETE /grants/{id}`, and the grants that an approval offers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::{
    App, ReviewerCaller,
    decide_call::{IdempotencyKey, about},
    error::{ConditionPlace, Error},
    ports::{CountedCall, EntryFilter, GrantFilter, GrantViewer, IdempotencyRecord, StoreError, Tx},
    retrying,
};
use crate::domain::{
    approval::state::{Approval, State},
    audit::{
        entry::{Entry, EventKind},
        payload::Payload,
    },
    call::{Arguments, CallKey, ToolCall},
    decision::{Judgement, ReasonCode},
    facts::Facts,
    grant::{
        self, Grant, GrantRecord, GrantText, Lifts, Maker, Revocation, StandingGrant, Terms, TooWide,
        offers::{self, Offer},
    },
    identity::{AgentId, ReviewerName},
    ids::{ApprovalId, DecisionId, GrantId, RunId},
    judge::{judge, state_of},
    policy::{
        Policy, Tool,
        condition::{Condition, Failure, RuleState},
    },
    run::{Run, RunKey},
    time::Timestamp,
    verdict::Verdict,
};

/// How many of the run's latest held calls an offer is tried on.
const RECENT_CALLS: u32 = 20;

/// A grant that a reviewer wants to make.
#[derive(Clone, Debug)]
pub struct GrantRequest {
    /// The agent it is for.
    pub agent: AgentId,
    /// The run it is for; it need not have begun.
    pub run: RunId,
    /// The tool, by its name or an alias.
    pub tool: String,
    /// What it lets through.
    pub when: String,
    /// For how long.
    pub ttl: Duration,
    /// How many calls.
    pub max_uses: u32,
    /// The rules it lifts; none named: the tool's default.
    pub rules: BTreeSet<String>,
    /// Why.
    pub reason: Option<String>,
    /// The client's `Idempotency-Key`.
    pub idempotency: Option<IdempotencyKey>,
}

/// One of the grants that an approval offered, as it was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenOffer {
    /// What it lets through.
    pub when: String,
    /// For how long.
    pub ttl: Duration,
    /// How many calls.
    pub max_uses: u32,
}

/// A grant that an approval offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantOffer {
    /// The grant.
    pub offer: Offer,
    /// How many of the run's latest calls of the tool that were held it would have let through.
    pub would_have_covered: u32,
}

/// A page of grants.
#[derive(Clone, Debug, PartialEq)]
pub struct GrantPage {
    /// Newest first.
    pub grants: Vec<GrantRecord>,
    /// Where the next page begins.
    pub next: Option<GrantId>,
}

/// What a new grant is about: everything but what comes about when it is stored.
#[derive(Clone)]
pub(super) struct NewGrant {
    policy: Arc<Policy>,
    run: RunKey,
    tool: String,
    text: GrantText,
    terms: Terms,
}

impl App {
    /// A reviewer makes a grant that no approval offered.
    ///
    /// # Errors
    /// [`Error::GrantTooWide`] when it is wider than allowed, [`Error::Condition`] when its condition does not compile.
    pub async fn make_grant(&self, reviewer: &ReviewerCaller, request: &GrantRequest) -> Result<GrantRecord, Error> {
        reviewer.unlimited()?;
        retrying(|| async {
            let policy = self.policy();
            let key = RunKey { agent: request.agent.clone(), run: request.run.clone() };
            let mut tx = self.store.begin().await?;
            let run = tx.lock_run(&key).await?;
            let now = self.valid_now(tx.as_mut(), &reviewer.caller).await?;
            if let Some(made) = self.grant_made_before(tx.as_mut(), reviewer, request, now).await? {
                return Ok(made);
            }
            let tool = policy
                .tool(&request.tool)
                .ok_or_else(|| Error::Invalid(format!("there is no tool `{}`", request.tool)))?;
            let terms =
                Terms { lifts: bare_lifts(tool, &request.rules)?, ttl: request.ttl, max_uses: request.max_uses };
            if run.ended.is_some() {
                return Err(TooWide::RunEnded.into());
            }
            let maker = self.maker(&reviewer.name, &policy, &run).ok_or(TooWide::Excluded)?;
            if !std::iter::once(&key.agent)
                .chain(run.agents_above())
                .all(|agent| policy.agent_may_use(agent.as_str(), tool))
            {
                return Err(TooWide::Denied { tool: tool.name.clone() }.into());
            }
            grant::check(&policy, tool, &terms, &maker)?;
            let requirement = policy.requirement_of(tool, &terms.lifts.rules);
            self.may_approve_here(tx.as_mut(), reviewer, &requirement, now).await?;
            if let Err(faults) = policy.grant_condition(tool, &request.when) {
                let places = faults.into_iter().map(|fault| ConditionPlace::of(fault, &request.when));
                return Err(Error::Condition(places.collect()));
            }
            let text = GrantText { when: request.when.clone(), reason: request.reason.clone() };
            let new = NewGrant { policy: Arc::clone(&policy), run: key, tool: tool.name.clone(), text, terms };
            let grant = self.store_grant(tx.as_mut(), reviewer, new, None, now).await?;
            if let Some(idempotency) = &request.idempotency {
                let record = IdempotencyRecord {
                    caller: reviewer.caller.principal.name().to_string(),
                    route: idempotency.route.to_owned(),
                    key: idempotency.key.clone(),
                    body_hash: idempotency.body_hash,
                    // A record names what was made by its UUID; on this route that is a grant.
                    decision: DecisionId::from_uuid(grant.id.uuid()),
                    answer: Value::Null,
                    created_at: now,
                };
                if tx.remember(&record).await?.is_some() {
                    return Err(StoreError::Contended("the Idempotency-Key was just used".to_owned()).into());
                }
            }
            tx.commit().await?;
            Ok(GrantRecord { grant, uses: 0, run_ended: false })
        })
        .await
    }

    /// What the same request made before, as it stands now.
    async fn grant_made_before(
        &self,
        tx: &mut dyn Tx,
        reviewer: &ReviewerCaller,
        request: &GrantRequest,
        now: Timestamp,
    ) -> Result<Option<GrantRecord>, Error> {
        let Some(idempotency) = &request.idempotency else { return Ok(None) };
        let caller = reviewer.caller.principal.name();
        match tx.remembered(caller.as_str(), idempotency.route, &idempotency.key, now).await? {
            None => Ok(None),
            Some(record) if record.body_hash != idempotency.body_hash => Err(Error::IdempotencyConflict),
            Some(record) => Ok(tx.grant(GrantId::from_uuid(record.decision.uuid())).await?),
        }
    }

    /// The grants that this reviewer may see, newest first.
    ///
    /// # Errors
    /// As the store's.
    pub async fn list_grants(
        &self,
        reviewer: &ReviewerCaller,
        filter: GrantFilter,
        before: Option<GrantId>,
        limit: u32,
    ) -> Result<GrantPage, Error> {
        reviewer.unlimited()?;
        let viewer = GrantViewer { name: reviewer.name.clone(), groups: reviewer.groups.clone() };
        let filter = GrantFilter { visible_to: Some(viewer), ..filter };
        let stored = self.store.grants(&filter, before, limit.saturating_add(1)).await?;
        let more = stored.len() > limit as usize;
        let grants: Vec<GrantRecord> = stored.into_iter().take(limit as usize).collect();
        let next = if more { grants.last().map(|record| record.grant.id) } else { None };
        Ok(GrantPage { grants, next })
    }

    /// A reviewer takes a grant back: it lets no further call through. Taking it back again changes nothing.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none that this reviewer may see.
    pub async fn revoke_grant(&self, reviewer: &ReviewerCaller, id: GrantId) -> Result<(), Error> {
        reviewer.unlimited()?;
        retrying(|| async {
            let mut tx = self.store.begin().await?;
            let stored = tx.grant(id).await?.filter(|record| sees(reviewer, &record.grant));
            let now = self.valid_now(tx.as_mut(), &reviewer.caller).await?;
            let grant = stored.ok_or(Error::NotFound)?.grant;
            if grant.revoked.is_some() {
                return Ok(());
            }
            tx.revoke_grant(id, &Revocation { by: reviewer.name.clone(), at: now }).await?;
            tx.append(about_grant(&grant, reviewer.caller.entry(EventKind::GrantRevoked, now)));
            Ok(tx.commit().await?)
        })
        .await
    }

    /// Makes a grant that was checked.
    pub(super) async fn store_grant(
        &self,
        tx: &mut dyn Tx,
        reviewer: &ReviewerCaller,
        new: NewGrant,
        from: Option<&Approval>,
        now: Timestamp,
    ) -> Result<Grant, Error> {
        let NewGrant { policy, run, tool, text, terms } = new;
        let body = serde_json::to_string(&text).map_err(|error| Error::Unwritable(error.to_string()))?;
        let payload = Payload::new(body, self.salt()?);
        tx.insert_payload(&payload).await?;
        let requirement = policy.tool(&tool).map(|tool| policy.requirement_of(tool, &terms.lifts.rules));
        let grant = Grant {
            id: GrantId::from_uuid(self.uuid(now)?),
            maker: reviewer.name.clone(),
            run,
            tool,
            when: Some(text.when),
            payload: payload.digest(),
            lifts: terms.lifts,
            groups: requirement.map(|requirement| requirement.groups.into_keys().collect()).unwrap_or_default(),
            max_uses: terms.max_uses,
            approval: from.map(|approval| approval.id),
            created_at: now,
            expires_at: now.plus(terms.ttl),
            revoked: None,
        };
        tx.insert_grant(&grant).await?;
        let mut entry = about_grant(&grant, reviewer.caller.entry(EventKind::GrantCreated, now));
        entry.payload = Some(grant.payload);
        entry.policy_version = Some(policy.version().to_string());
        entry.detail.insert("lifts".to_owned(), json!(grant.lifts));
        entry.detail.insert("max_uses".to_owned(), grant.max_uses.into());
        entry.detail.insert("expires_at".to_owned(), json!(grant.expires_at));
        tx.append(match from {
            Some(approval) => about(approval, entry),
            None => entry,
        });
        Ok(grant)
    }

    /// The grant that a reviewer takes with an approve; `None` when nothing waits for an approve any more.
    ///
    /// # Errors
    /// [`Error::OfferGone`] when the approval does not offer it now.
    pub(super) async fn taken_offer(
        &self,
        reviewer: &ReviewerCaller,
        id: ApprovalId,
        taken: &TakenOffer,
    ) -> Result<Option<NewGrant>, Error> {
        let Some((approval, _)) = self.store.approval(id).await?.map(|stored| stored.at(self.now())) else {
            return Ok(None);
        };
        if !matches!(approval.state, State::Pending { .. }) {
            return Ok(None);
        }
        let policy = self.policy();
        let Offered { lifts, offers, .. } =
            self.offered(reviewer, &policy, &approval).await?.ok_or(Error::OfferGone)?;
        let same =
            |offer: &&Offer| offer.when == taken.when && offer.ttl == taken.ttl && offer.max_uses == taken.max_uses;
        let offer = offers.iter().find(same).ok_or(Error::OfferGone)?;
        let text = GrantText { when: offer.when.clone(), reason: None };
        let terms = Terms { lifts, ttl: offer.ttl, max_uses: offer.max_uses };
        Ok(Some(NewGrant { policy, run: RunKey::of(&approval.call), tool: approval.tool, text, terms }))
    }

    /// The grants that `approval` offers to this reviewer, with what each would have let through.
    pub(super) async fn grant_offers(
        &self,
        reviewer: &ReviewerCaller,
        approval: &Approval,
    ) -> Result<Vec<GrantOffer>, Error> {
        if reviewer.unlimited().is_err() {
            return Ok(Vec::new());
        }
        let policy = self.policy();
        let (Some(Offered { lifts, offers, maker }), Some(tool)) =
            (self.offered(reviewer, &policy, approval).await?, policy.tool(&approval.tool))
        else {
            return Ok(Vec::new());
        };
        if offers.is_empty() {
            return Ok(Vec::new());
        }
        let recent = self.recent_held_calls(&policy, approval).await?;
        let counted = offers.into_iter().map(|offer| {
            let condition = policy.grant_condition(tool, &offer.when).ok();
            let covers = |held: &&HeldCall| {
                let standing = StandingGrant {
                    id: GrantId::from_uuid(approval.id.uuid()),
                    expires_at: held.at.plus(offer.ttl),
                    uses_left: 1,
                    lifts: lifts.clone(),
                    maker: Some(maker.clone()),
                    condition: state(condition.as_ref(), &policy, &held.call, &held.judgement, &held.facts, held.at),
                };
                standing.covers(tool, &held.judgement, held.at)
            };
            let would_have_covered = u32::try_from(recent.iter().filter(covers).count()).unwrap_or(u32::MAX);
            GrantOffer { offer, would_have_covered }
        });
        Ok(counted.collect())
    }

    /// What asked for a human when `approval` was made, and the grants that lift just that; `None` when it is decided or
    /// the reviewer may not approve it.
    async fn offered(
        &self,
        reviewer: &ReviewerCaller,
        policy: &Policy,
        approval: &Approval,
    ) -> Result<Option<Offered>, Error> {
        let (State::Pending { .. }, Some(tool)) = (&approval.state, policy.tool(&approval.tool)) else {
            return Ok(None);
        };
        let Some(known) = self.store.run(&RunKey::of(&approval.call), self.now()).await? else { return Ok(None) };
        let run = known.run;
        let Some(maker) = self.maker(&reviewer.name, policy, &run).filter(|_| run.ended.is_none()) else {
            return Ok(None);
        };
        let input = self.kept_input(approval).await?;
        let part = |name: &str| input.get(name).and_then(Value::as_object);
        let (Some(args), Some(resolved)) = (part("args"), part("resolved")) else { return Ok(None) };
        let lifts = self.asked_at(approval, tool).await?;
        let offers = offers::offers(policy, tool, &lifts, args, resolved, &maker);
        Ok(Some(Offered { lifts, offers, maker }))
    }

    /// What asked for a human when `approval` was made, as far as a grant can lift it.
    async fn asked_at(&self, approval: &Approval, tool: &Tool) -> Result<Lifts, Error> {
        let filter = EntryFilter {
            decision: Some(approval.decision),
            event: Some(EventKind::Decision),
            ..EntryFilter::default()
        };
        let decided = self.store.entries(&filter, None, 1).await?.pop().map(|sealed| sealed.entry);
        let default = decided.and_then(|entry| entry.reason_code).as_deref() == Some(ReasonCode::Default.as_str());
        let rules = grant::liftable(tool).filter(|rule| approval.asked_by.contains(*rule)).map(str::to_owned);
        Ok(Lifts { rules: rules.collect(), default })
    }

    /// The latest calls of the same run and tool that were held, judged again.
    async fn recent_held_calls(&self, policy: &Policy, approval: &Approval) -> Result<Vec<HeldCall>, Error> {
        let filter = EntryFilter {
            run: Some(approval.call.run.to_string()),
            agent: Some(approval.call.agent.to_string()),
            tool: Some(approval.tool.clone()),
            event: Some(EventKind::Decision),
            verdict: Some(Verdict::RequireApproval),
            ..EntryFilter::default()
        };
        let mut recent = BTreeMap::new();
        for sealed in self.store.entries(&filter, None, RECENT_CALLS).await? {
            let Entry { call: Some(key), payload: Some(digest), at, .. } = sealed.entry else { continue };
            let Ok(Some(payload)) = self.store.payload(digest).await else { continue };
            let held = HeldCall::of(policy, key.clone(), &approval.tool, payload.body(), at);
            recent.extend(held.map(|held| (key, held)));
        }
        Ok(recent.into_values().collect())
    }

    /// The grants that could let a call through, locked, as `settle` sees them.
    pub(super) async fn standing_grants(
        &self,
        tx: &mut dyn Tx,
        policy: &Policy,
        call: &ToolCall,
        judgement: &Judgement,
        facts: &Facts,
        run: &Run,
    ) -> Result<Vec<StandingGrant>, Error> {
        let Some(tool) = policy.tool(&call.tool).filter(|tool| tool.grantable) else { return Ok(Vec::new()) };
        let now = self.now();
        let counted = CountedCall { key: &call.key, args_hash: call.args.hash() };
        let live = tx.lock_grants(&counted, &tool.name, now).await?;
        let compiled = live.into_iter().map(|GrantRecord { grant, uses, .. }| {
            let condition = grant.when.as_ref().and_then(|when| policy.grant_condition(tool, when).ok());
            (grant, uses, condition)
        });
        let compiled: Vec<(Grant, u32, Option<Condition>)> = compiled.collect();
        let asks_request = |condition: &Condition| condition.reads().requested;
        let mut facts = facts.clone();
        if let Some(known) = facts.run.as_mut().filter(|known| known.request.is_none())
            && compiled.iter().any(|(_, _, condition)| condition.as_ref().is_some_and(asks_request))
        {
            // No rule of the tool asked what the human asked, but a grant does.
            known.request = Some(self.trusted_request(run).await?);
        }
        let standing = compiled.into_iter().map(|(grant, uses, condition)| StandingGrant {
            id: grant.id,
            expires_at: grant.expires_at,
            uses_left: grant.max_uses.saturating_sub(uses),
            maker: self.maker(&grant.maker, policy, run),
            condition: state(condition.as_ref(), policy, call, judgement, &facts, now),
            lifts: grant.lifts,
        });
        Ok(standing.collect())
    }

    /// A reviewer as the maker of grants for this run; `None` when there is none of this name.
    fn maker(&self, name: &ReviewerName, policy: &Policy, run: &Run) -> Option<Maker> {
        self.reviewers.get(name)?;
        let groups = self.reviewers.groups_at(name, self.now());
        Some(Maker { groups, asks: self.requesters(policy, run).contains(name) })
    }
}

/// What an approval offers to one reviewer.
struct Offered {
    /// What asked, and would not have to any more.
    lifts: Lifts,
    offers: Vec<Offer>,
    maker: Maker,
}

/// A call that was held, judged again.
struct HeldCall {
    call: ToolCall,
    facts: Facts,
    judgement: Judgement,
    at: Timestamp,
}

impl HeldCall {
    /// The call that this payload is the input of.
    fn of(policy: &Policy, key: CallKey, tool: &str, payload: &str, at: Timestamp) -> Option<Self> {
        let input: Map<String, Value> = serde_json::from_str(payload).ok()?;
        let args = Arguments::new(input.get("args")?.as_object()?.clone()).ok()?;
        let facts = input.get("facts").and_then(|facts| Facts::deserialize(facts).ok()).unwrap_or_default();
        let context = input.get("context").filter(|context| !context.is_null()).cloned();
        let call = ToolCall { key, tool: tool.to_owned(), args, context };
        let judgement = judge(policy, &call, &facts, at);
        Some(Self { call, facts, judgement, at })
    }
}

/// What a grant's condition comes to; failed when it does not compile.
fn state(
    condition: Option<&Condition>,
    policy: &Policy,
    call: &ToolCall,
    judgement: &Judgement,
    facts: &Facts,
    now: Timestamp,
) -> RuleState {
    match condition {
        Some(condition) => state_of(condition, policy, call, &judgement.resolved, facts, now),
        None => RuleState::Failed(Failure::Internal),
    }
}

/// What a grant lifts that no approval offered: these rules, or the tool's default alone.
fn bare_lifts(tool: &Tool, rules: &BTreeSet<String>) -> Result<Lifts, Error> {
    if rules.is_empty() {
        if tool.default != Verdict::RequireApproval {
            let why = format!("the default of `{}` asks nobody; name the `rules` that the grant lifts", tool.name);
            return Err(Error::Invalid(why));
        }
        return Ok(Lifts::the_default());
    }
    match rules.iter().find(|rule| !grant::liftable(tool).any(|liftable| liftable == *rule)) {
        Some(unknown) => Err(Error::Invalid(format!("`{}` has no rule `{unknown}` that asks for approval", tool.name))),
        None => Ok(Lifts::these(rules.clone())),
    }
}

/// A reviewer sees the grants he made, and those that stand for one of his groups, or for any reviewer.
fn sees(reviewer: &ReviewerCaller, grant: &Grant) -> bool {
    grant.maker == reviewer.name || grant.groups.is_empty() || !grant.groups.is_disjoint(&reviewer.groups)
}

/// Fills in what an entry says of its grant.
pub(super) fn about_grant(grant: &Grant, mut entry: Entry) -> Entry {
    entry.tool = Some(grant.tool.clone());
    entry.rule = Some(grant.id.to_string());
    entry.approval = grant.approval;
    entry.detail.insert("grant".to_owned(), json!(grant.id));
    entry.detail.insert("agent".to_owned(), json!(grant.run.agent));
    entry.detail.insert("run_id".to_owned(), json!(grant.run.run));
    entry
}
