//! `/grants`: what reviewers let through for a while.

use std::{collections::BTreeSet, time::Duration};

use axum::{Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::page;
use crate::{
    app::{decide_call::IdempotencyKey, grants::GrantRequest, ports::GrantFilter},
    domain::{
        grant::{GrantRecord, GrantState},
        identity::AgentId,
        ids::{ApprovalId, GrantId, OfGrant, RunId},
        time::{Timestamp, parse_duration},
    },
    http::{
        error::{Authenticated, Bodied, Problem, ProblemDocument, Refusal},
        extract::{IdempotentBody, Parameters, PathId, Reviewer, reviewer_refused, sentence},
        state::HttpState,
    },
};

const ROUTE: &str = "/grants";

/// The routes.
pub(in crate::http) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(list_grants, make_grant)).routes(routes!(revoke_grant))
}

/// A grant to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewGrant)]
struct GrantBody {
    /// The agent it is for.
    #[schema(value_type = String)]
    agent: AgentId,
    /// The run it is for; it need not have begun.
    #[schema(value_type = String, pattern = "^[A-Za-z0-9_.:-]{1,128}$")]
    run_id: RunId,
    /// The tool, by its name or an alias.
    tool: String,
    /// What it lets through: a condition, as in a rule of the tool.
    #[schema(min_length = 1, max_length = 1024, example = r#"args.order_id == "O-17""#)]
    when: String,
    /// For how long, as in `30m`; at most `8h`.
    #[schema(example = "1h")]
    ttl: String,
    /// How many calls; at most 50.
    #[schema(minimum = 1, maximum = 50)]
    max_uses: u32,
    /// The rules that need not ask any more; left out, it is the tool's default that need not.
    #[serde(default)]
    rules: BTreeSet<String>,
    /// Why, for the log.
    #[schema(max_length = 4096)]
    reason: Option<String>,
}

/// A grant, and what became of it.
#[derive(Serialize, ToSchema)]
#[schema(as = Grant)]
struct GrantView {
    #[schema(value_type = String, example = "gra_01980d5e-7a4c-7f3e-9a55-0a3c1d2e4f60")]
    id: GrantId,
    state: GrantStateView,
    /// Who made it.
    maker: String,
    #[schema(value_type = String)]
    agent: AgentId,
    #[schema(value_type = String)]
    run_id: RunId,
    tool: String,
    /// What it lets through; `null` when the text was erased, and then it is nothing.
    when: Option<String>,
    lifts: LiftsView,
    max_uses: u32,
    /// How many calls it has let through.
    uses: u32,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
    /// The approval it was taken with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    approval: Option<ApprovalId>,
    /// Who took it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    revoked_at: Option<Timestamp>,
}

/// What need not ask for a human any more.
#[derive(Serialize, ToSchema)]
#[schema(as = Lifts)]
struct LiftsView {
    /// These rules.
    rules: BTreeSet<String>,
    /// The default of the tool.
    default: bool,
}

/// Whether a grant still lets calls through.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = GrantState)]
enum GrantStateView {
    Live,
    Revoked,
    RunEnded,
    Expired,
    Spent,
}

impl From<GrantState> for GrantStateView {
    fn from(state: GrantState) -> Self {
        match state {
            GrantState::Live => Self::Live,
            GrantState::Revoked => Self::Revoked,
            GrantState::RunEnded => Self::RunEnded,
            GrantState::Expired => Self::Expired,
            GrantState::Spent => Self::Spent,
        }
    }
}

impl GrantView {
    fn of(record: GrantRecord, now: Timestamp) -> Self {
        let state = record.state_at(now).into();
        let GrantRecord { grant, uses, .. } = record;
        Self {
            id: grant.id,
            state,
            maker: grant.maker.to_string(),
            agent: grant.run.agent,
            run_id: grant.run.run,
            tool: grant.tool,
            when: grant.when,
            lifts: LiftsView { rules: grant.lifts.rules, default: grant.lifts.default },
            max_uses: grant.max_uses,
            uses,
            created_at: grant.created_at,
            expires_at: grant.expires_at,
            approval: grant.approval,
            revoked_by: grant.revoked.as_ref().map(|revocation| revocation.by.to_string()),
            revoked_at: grant.revoked.map(|revocation| revocation.at),
        }
    }
}

/// A page of grants, newest first.
#[derive(Serialize, ToSchema)]
struct Grants {
    items: Vec<GrantView>,
    /// Asks for the next page; `null` on the last one.
    next_cursor: Option<String>,
}

/// Which grants to list.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct GrantQuery {
    /// For this agent.
    #[param(value_type = Option<String>)]
    agent: Option<AgentId>,
    /// For this run.
    #[param(value_type = Option<String>)]
    run_id: Option<RunId>,
    /// For this tool, by its own name.
    tool: Option<String>,
    /// Only those that still let calls through.
    #[serde(default)]
    live: bool,
    /// How many at most.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u32>,
    /// From the page before.
    cursor: Option<String>,
}

/// Which grants are there?
#[utoipa::path(
    get, path = "/grants", tag = "grants", security(("key" = ["reviewer"])),
    params(GrantQuery),
    responses(Authenticated, (status = 200, description = "Those this reviewer may see, newest first.", body = Grants))
)]
async fn list_grants(
    State(state): State<HttpState>,
    Reviewer(reviewer): Reviewer,
    Parameters(query): Parameters<GrantQuery>,
) -> Result<Json<Grants>, Refusal> {
    let now = state.app.now();
    let filter = GrantFilter {
        agent: query.agent,
        run: query.run_id,
        tool: query.tool,
        live_at: query.live.then_some(now),
        visible_to: None,
    };
    let before = page::place(query.cursor.as_deref())?;
    let page = state.app.list_grants(&reviewer, filter, before, page::limit(query.limit)?).await?;
    let items = page.grants.into_iter().map(|record| GrantView::of(record, now)).collect();
    Ok(Json(Grants { items, next_cursor: page.next.as_ref().map(page::cursor) }))
}

/// Let calls of one run through for a while.
///
/// It lifts what is named and nothing else: no limit, no denial, and no call that takes more than the maker's approval.
#[utoipa::path(
    post, path = "/grants", tag = "grants", security(("key" = ["reviewer"])),
    params(("Idempotency-Key" = Option<String>, Header, description = "Names this request, for 24 hours")),
    request_body = GrantBody,
    responses(
        Authenticated,
        Bodied,
        (status = 201, description = "Made.", body = GrantView),
        (status = 403, description = "It is wider than allowed, or the key has another role.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 409, description = "The Idempotency-Key came with another body.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 422, description = "The condition does not compile; `faults` say where.", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
async fn make_grant(
    State(state): State<HttpState>,
    Reviewer(reviewer): Reviewer,
    sent: IdempotentBody<GrantBody>,
) -> Result<(StatusCode, Json<GrantView>), Refusal> {
    let GrantBody { agent, run_id, tool, when, ttl, max_uses, rules, reason } = sent.body;
    if max_uses == 0 {
        return Err(Problem::invalid_field("max_uses", "a grant lets at least one call through").into());
    }
    let request = GrantRequest {
        agent,
        run: run_id,
        tool,
        when,
        ttl: length("ttl", &ttl)?,
        max_uses,
        rules,
        reason: sentence("reason", reason)?,
        idempotency: sent.key.map(|(key, body_hash)| IdempotencyKey { route: ROUTE, key, body_hash }),
    };
    match state.app.make_grant(&reviewer, &request).await {
        Ok(record) => Ok((StatusCode::CREATED, Json(GrantView::of(record, state.app.now())))),
        Err(error) => Err(reviewer_refused(&state, &reviewer.caller, None, error).await),
    }
}

/// Take a grant back.
#[utoipa::path(
    delete, path = "/grants/{id}", tag = "grants", security(("key" = ["reviewer"])),
    params(("id" = String, Path, description = "The grant")),
    responses(
        Authenticated,
        (status = 204, description = "Taken back: it lets no further call through."),
        (status = 404, description = "There is none that this key may see.", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
async fn revoke_grant(
    State(state): State<HttpState>,
    Reviewer(reviewer): Reviewer,
    PathId(id): PathId<OfGrant>,
) -> Result<StatusCode, Refusal> {
    state.app.revoke_grant(&reviewer, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A length of time as it is written, but for nothing.
pub(super) fn length(field: &str, text: &str) -> Result<Duration, Refusal> {
    let length = parse_duration(text).filter(|length| !length.is_zero());
    length.ok_or_else(|| {
        Problem::invalid_field(field, "write a length of time above zero, such as \"30m\" or \"2h\"").into()
    })
}

/// A length of time as [`length`] reads it.
pub(super) fn length_text(length: Duration) -> String {
    let millis = length.as_millis();
    let whole =
        [("h", 3_600_000), ("m", 60_000), ("s", 1_000)].into_iter().find(|(_, unit)| millis.is_multiple_of(*unit));
    match whole {
        Some((unit, size)) => format!("{}{unit}", millis / size),
        None => format!("{millis}ms"),
    }
}
