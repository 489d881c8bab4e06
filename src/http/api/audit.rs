//! `/audit` and `/why`: the log as auditors read and check it.

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{VerdictView, page};
use crate::{
    app::{
        audit_log::{self, ExplainedEntry, Explanation},
        error::Error,
        ports::{Checkpoint, EntryFilter},
    },
    domain::{
        approval::code::ApprovalCode,
        audit::{chain::SealedEntry, entry::EventKind},
        ids::{ApprovalId, DecisionId},
        subject::Subject,
        time::Timestamp,
        verdict::Verdict,
    },
    http::{
        error::{Authenticated, Problem, ProblemDocument, Refusal},
        extract::{Auditor, Parameters, PathText},
        state::HttpState,
    },
};

/// The longest text worth looking for.
const LONGEST_FILTER: usize = 256;

/// The routes.
pub(in crate::http) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new()
        .routes(routes!(list_entries))
        .routes(routes!(verify))
        .routes(routes!(list_checkpoints))
        .routes(routes!(why))
}

/// One entry of the log.
#[derive(Serialize, ToSchema)]
#[schema(as = Entry)]
struct EntryView {
    /// Its place, from 1 on without a gap.
    seq: i64,
    /// What happened.
    #[schema(example = "decision")]
    event: &'static str,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    request_id: Option<String>,
    /// Who did it.
    actor: String,
    /// How that was known: `key:key_...`, `cli` or `service`.
    actor_via: String,
    agent: Option<String>,
    run_id: Option<String>,
    turn: Option<u32>,
    tool_use_id: Option<String>,
    tool: Option<String>,
    decision_id: Option<String>,
    approval_id: Option<String>,
    /// The approval's code.
    approval: Option<String>,
    verdict: Option<VerdictView>,
    /// Why, as a stable word.
    reason_code: Option<String>,
    /// Why, for people.
    reason: Option<String>,
    /// The deciding rule or constraint.
    rule: Option<String>,
    policy_version: Option<String>,
    /// SHA-256 over salt and payload, in hex.
    payload: Option<String>,
    /// What else belongs to this event.
    detail: Map<String, Value>,
    /// SHA-256 of the entry, in hex.
    leaf: String,
    /// The chain up to it, in hex.
    chain: String,
}

impl From<SealedEntry> for EntryView {
    fn from(sealed: SealedEntry) -> Self {
        let SealedEntry { seq, entry, leaf, chain } = sealed;
        let (agent, run_id, turn, tool_use_id) = match entry.call {
            Some(call) => (
                Some(call.agent.to_string()),
                Some(call.run.to_string()),
                Some(call.turn),
                Some(call.tool_use_id.to_string()),
            ),
            None => (entry.agent.map(|agent| agent.to_string()), entry.run.map(|run| run.to_string()), None, None),
        };
        Self {
            seq,
            event: entry.event.as_str(),
            at: entry.at,
            request_id: entry.request_id,
            actor: entry.actor.name,
            actor_via: entry.actor.via,
            agent,
            run_id,
            turn,
            tool_use_id,
            tool: entry.tool,
            decision_id: entry.decision.map(|id| id.to_string()),
            approval_id: entry.approval.map(|id| id.to_string()),
            approval: entry.code.map(|code| code.to_string()),
            verdict: entry.verdict.map(VerdictView::from),
            reason_code: entry.reason_code,
            reason: entry.reason,
            rule: entry.rule,
            policy_version: entry.policy_version,
            payload: entry.payload.map(|digest| digest.to_string()),
            detail: entry.detail,
            leaf: hex::encode(leaf),
            chain: hex::encode(chain),
        }
    }
}

/// An entry with its payload.
#[derive(Serialize, ToSchema)]
#[schema(as = ExplainedEntry)]
pub(super) struct ExplainedView {
    entry: EntryView,
    /// What was decided about, or typed; `null` when there is none, or it was erased or never kept.
    #[schema(value_type = Option<Value>)]
    payload: Option<Value>,
}

/// The entry with its payload, for an answer.
pub(super) fn explained(explained: ExplainedEntry) -> ExplainedView {
    ExplainedView { entry: explained.sealed.into(), payload: explained.payload }
}

/// Everything the log says about one decision or approval, oldest first.
#[derive(Serialize, ToSchema)]
struct Why {
    entries: Vec<ExplainedView>,
}

/// A page of the log, newest first.
#[derive(Serialize, ToSchema)]
struct Entries {
    items: Vec<EntryView>,
    /// Asks for the next page; `null` on the last one.
    next_cursor: Option<String>,
}

/// Which entries to list; every given filter must match.
#[derive(Clone, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct EntryQuery {
    /// Of this run.
    pub(in crate::http) run_id: Option<String>,
    /// About this tool.
    pub(in crate::http) tool: Option<String>,
    /// About a call of this agent.
    pub(in crate::http) agent: Option<String>,
    /// Done by this agent or person.
    pub(in crate::http) actor: Option<String>,
    /// Decided so.
    #[param(value_type = Option<VerdictView>)]
    pub(in crate::http) verdict: Option<String>,
    /// Decided by this rule.
    pub(in crate::http) rule: Option<String>,
    /// Of this kind.
    pub(in crate::http) event: Option<String>,
    /// About this approval: its code or its id.
    pub(in crate::http) approval: Option<String>,
    /// Caused by this request.
    pub(in crate::http) request_id: Option<String>,
    /// About a call on this business key, `NAME:VALUE`.
    #[param(example = "order:A-17")]
    pub(in crate::http) subject: Option<String>,
    /// Not before this time (RFC 3339).
    #[param(value_type = Option<String>, format = DateTime)]
    pub(in crate::http) from: Option<Timestamp>,
    /// Before this time (RFC 3339).
    #[param(value_type = Option<String>, format = DateTime)]
    pub(in crate::http) until: Option<Timestamp>,
    /// How many at most.
    #[param(minimum = 1, maximum = 200, default = 50)]
    pub(in crate::http) limit: Option<u32>,
    /// From the page before.
    pub(in crate::http) cursor: Option<String>,
}

impl EntryQuery {
    /// The filter it asks for.
    pub(in crate::http) fn filter(self) -> Result<EntryFilter, Refusal> {
        let unknown = |message: &str| Refusal::from(Problem::invalid_query(message));
        let verdict = match self.verdict {
            Some(text) => match text.parse::<Verdict>() {
                Ok(verdict) => Some(verdict),
                Err(_) => {
                    return Err(unknown("`verdict` is one of allow, allow_audited, require_approval, deny"));
                }
            },
            None => None,
        };
        let event = match self.event {
            Some(text) => Some(EventKind::parse(&text).ok_or_else(|| unknown("`event` names no event of the log"))?),
            None => None,
        };
        let (mut code, mut approval) = (None, None);
        if let Some(text) = self.approval {
            approval = ApprovalId::parse(&text).ok();
            if approval.is_none() {
                let read = ApprovalCode::parse(&text);
                code = Some(read.ok_or_else(|| unknown("`approval` is a code such as AP-7Q4K-2M, or an id"))?);
            }
        }
        let subject = match searchable("subject", self.subject)? {
            Some(text) => {
                let read = Subject::parse(&text);
                Some(read.ok_or_else(|| unknown("`subject` is written NAME:VALUE, such as order:A-17"))?)
            }
            None => None,
        };
        Ok(EntryFilter {
            run: searchable("run_id", self.run_id)?,
            tool: searchable("tool", self.tool)?,
            agent: searchable("agent", self.agent)?,
            actor: searchable("actor", self.actor)?,
            verdict,
            rule: searchable("rule", self.rule)?,
            event,
            code: code.map(|code| code.to_string()),
            request_id: searchable("request_id", self.request_id)?,
            decision: None,
            approval,
            subject,
            from: self.from,
            until: self.until,
        })
    }
}

/// Text that could stand in the log: not every engine can even be asked for a control character.
fn searchable(parameter: &str, text: Option<String>) -> Result<Option<String>, Refusal> {
    match text {
        Some(text) if text.len() > LONGEST_FILTER || text.chars().any(char::is_control) => {
            let message = format!("`{parameter}` has at most {LONGEST_FILTER} bytes and no control characters");
            Err(Problem::invalid_query(&message).into())
        }
        text => Ok(text),
    }
}

/// What a check of the whole log found.
#[derive(Serialize, ToSchema)]
struct Verified {
    /// Whether every entry is good.
    ok: bool,
    /// How many entries are, from the first on.
    checked: i64,
    head: HeadView,
    /// The first bad entry; `null` when there is none.
    fault: Option<LogFault>,
}

/// The end of what was checked.
#[derive(Serialize, ToSchema)]
#[schema(as = Head)]
struct HeadView {
    seq: i64,
    /// The chain up to it, in hex.
    chain: String,
}

/// What is wrong with the log.
#[derive(Serialize, ToSchema)]
struct LogFault {
    /// The place of the first bad entry.
    seq: i64,
    /// What is wrong with it.
    problem: String,
}

/// Statements of the log's size and root, newest first.
#[derive(Serialize, ToSchema)]
struct Checkpoints {
    items: Vec<CheckpointView>,
    /// Asks for the next page; `null` on the last one.
    next_cursor: Option<String>,
}

/// A statement of the log's size and root.
#[derive(Serialize, ToSchema)]
#[schema(as = Checkpoint)]
struct CheckpointView {
    /// How many entries it covers.
    size: i64,
    /// The Merkle root (RFC 9162) over their leaves, in hex.
    root: String,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// Base64; `null` when no key signs checkpoints.
    signature: Option<String>,
    /// The key that signed.
    key_id: Option<String>,
    /// Exactly the text that is signed.
    signed_text: String,
}

/// How many checkpoints to list.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct CheckpointQuery {
    /// How many at most.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u32>,
}

/// Read the log.
#[utoipa::path(
    get, path = "/audit", tag = "audit", security(("key" = ["auditor"])),
    params(EntryQuery),
    responses(Authenticated, (status = 200, description = "Entries, newest first.", body = Entries))
)]
async fn list_entries(
    State(state): State<HttpState>,
    _: Auditor,
    Parameters(query): Parameters<EntryQuery>,
) -> Result<Json<Entries>, Refusal> {
    let (limit, before) = (page::limit(query.limit)?, page::place(query.cursor.as_deref())?);
    let page = state.app.audit_page(&query.filter()?, before, limit).await?;
    let items = page.entries.into_iter().map(EntryView::from).collect();
    Ok(Json(Entries { items, next_cursor: page.next.as_ref().map(page::cursor) }))
}

/// Check the whole log.
#[utoipa::path(
    get, path = "/audit/verify", tag = "audit", security(("key" = ["auditor"])),
    responses(Authenticated, (status = 200, description = "What was found, good or bad.", body = Verified))
)]
async fn verify(State(state): State<HttpState>, _: Auditor) -> Result<Json<Verified>, Refusal> {
    let found = state.app.verify_audit().await?;
    Ok(Json(Verified {
        ok: found.fault.is_none(),
        checked: found.checked,
        head: HeadView { seq: found.head.seq, chain: hex::encode(found.head.chain) },
        fault: found.fault.map(|(seq, fault)| LogFault { seq, problem: fault.to_string() }),
    }))
}

/// List checkpoints.
#[utoipa::path(
    get, path = "/audit/checkpoints", tag = "audit", security(("key" = ["auditor"])),
    params(CheckpointQuery),
    responses(Authenticated, (status = 200, description = "Checkpoints, newest first.", body = Checkpoints))
)]
async fn list_checkpoints(
    State(state): State<HttpState>,
    _: Auditor,
    Parameters(query): Parameters<CheckpointQuery>,
) -> Result<Json<Checkpoints>, Refusal> {
    let checkpoints = state.app.store().checkpoints(page::limit(query.limit)?).await.map_err(Error::from)?;
    let view = |checkpoint: Checkpoint| CheckpointView {
        size: checkpoint.size,
        root: hex::encode(checkpoint.root),
        at: checkpoint.at,
        signed_text: checkpoint.signed_text(),
        signature: checkpoint.signature,
        key_id: checkpoint.key_id,
    };
    Ok(Json(Checkpoints { items: checkpoints.into_iter().map(view).collect(), next_cursor: None }))
}

/// Why was it decided so?
#[utoipa::path(
    get, path = "/why/{id}", tag = "audit", security(("key" = ["auditor"])),
    params(("id" = String, Path, description = "A decision, `dec_...`, or an approval, `apr_...`")),
    responses(
        Authenticated,
        (status = 200, description = "Everything the log says about it.", body = Why),
        (status = 404, description = "There is none.", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
async fn why(State(state): State<HttpState>, _: Auditor, PathText(id): PathText) -> Result<Json<Why>, Refusal> {
    let decision = DecisionId::parse(&id).map(audit_log::Subject::Decision);
    let subject =
        decision.or_else(|_| ApprovalId::parse(&id).map(audit_log::Subject::Approval)).map_err(|_| Error::NotFound)?;
    let Explanation { entries } = state.app.why(subject).await?;
    Ok(Json(Why { entries: entries.into_iter().map(explained).collect() }))
}
