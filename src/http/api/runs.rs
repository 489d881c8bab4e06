//! `/runs`: what is known of a run, parking and resuming it, ending and stopping it.

use std::time::Duration;

use axum::{
    Json,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{VerdictView, approvals::AgentApproval, page};
use crate::{
    app::{
        Caller,
        ports::Parked,
        runs::{Declaration, ParentName, Resumed, RunView, TurnCall},
    },
    domain::{
        identity::AgentId,
        ids::{DecisionId, OfRun, RunId, ToolUseId},
        run::{KnownRun, ParkedTag, RunKey, RunStatus},
        time::Timestamp,
        verdict::Verdict,
    },
    http::{
        error::{Authenticated, Bodied, MOST_PARKED, Problem, ProblemDocument, Refusal, ToolResult},
        extract::{
            Agent, Body, OptionalBody, Orchestrator, Parameters, PathName, RawBody, Replaces, Reviewer, Wait, sentence,
        },
        state::HttpState,
    },
};

/// The longest name of whom a run works for, in bytes.
const LONGEST_NAME: usize = 256;

/// The routes.
pub(in crate::http) fn routes() -> OpenApiRouter<HttpState> {
    let parking = OpenApiRouter::new().routes(routes!(park)).layer(DefaultBodyLimit::max(MOST_PARKED));
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get_run, declare))
        .routes(routes!(request))
        .routes(routes!(end))
        .routes(routes!(stop))
        .routes(routes!(resume))
        .merge(parking)
}

/// What an orchestrator knows of a run. Each of it is written once.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RunDeclaration)]
struct DeclarationBody {
    /// Whose run it is; left out, the one agent the key is for.
    #[schema(value_type = Option<String>)]
    agent: Option<AgentId>,
    /// What the human typed, and nothing else: rules may trust it.
    request: Option<String>,
    /// Whom the run works for.
    #[schema(max_length = 256)]
    on_behalf_of: Option<String>,
    /// The run it was started by.
    #[schema(value_type = Option<String>)]
    parent_run_id: Option<RunId>,
    /// Whose run that is, where several of the key's agents have one of this id.
    #[schema(value_type = Option<String>)]
    parent_agent: Option<AgentId>,
}

/// What the human asked later.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RunRequest)]
struct RequestBody {
    /// What the human typed, and nothing else.
    text: String,
}

/// Why.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = StopReason)]
struct StopBody {
    /// For the log.
    #[schema(max_length = 4096)]
    reason: Option<String>,
}

/// Nothing is said.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Nothing)]
struct NoBody {}

/// Whose run is meant.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct WhoseRun {
    /// The agent. An orchestrator may leave it out when its key is for one agent, an agent always.
    #[param(value_type = Option<String>)]
    agent: Option<AgentId>,
}

/// Which runs to list.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct RunsQuery {
    /// `running`, `awaiting_approval`, `ready` or `ended`.
    status: Option<String>,
    /// The agent, which can only be the caller.
    #[param(value_type = Option<String>)]
    agent: Option<AgentId>,
    /// 1 to 200; 50 when left out.
    limit: Option<u32>,
    /// Where the page before ended.
    cursor: Option<String>,
}

/// Where a run stands.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = RunStatus)]
enum StatusView {
    Running,
    AwaitingApproval,
    Ready,
    Ended,
}

impl From<RunStatus> for StatusView {
    fn from(status: RunStatus) -> Self {
        match status {
            RunStatus::Running => Self::Running,
            RunStatus::AwaitingApproval => Self::AwaitingApproval,
            RunStatus::Ready => Self::Ready,
            RunStatus::Ended => Self::Ended,
        }
    }
}

/// A run in a list.
#[derive(Serialize, ToSchema)]
struct RunSummary {
    #[schema(value_type = String)]
    run_id: RunId,
    #[schema(value_type = String)]
    agent: AgentId,
    status: StatusView,
    /// The newest turn in which a call was decided; 0 before the first.
    turn: u32,
    /// What is parked, without its bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    parked: Option<ParkedSummary>,
}

/// What says that something is parked.
#[derive(Serialize, ToSchema)]
struct ParkedSummary {
    content_type: String,
    /// As `if-match` takes it.
    etag: String,
}

impl From<ParkedTag> for ParkedSummary {
    fn from(tag: ParkedTag) -> Self {
        Self { content_type: tag.content_type, etag: quoted(&tag.etag) }
    }
}

impl RunSummary {
    fn of(known: KnownRun, status: RunStatus) -> Self {
        let turn = known.newest.map(|newest| newest.turn).unwrap_or_default();
        let parked = known.parked.map(ParkedSummary::from);
        Self { run_id: known.run.key.run, agent: known.run.key.agent, status: status.into(), turn, parked }
    }
}

/// A page of runs.
#[derive(Serialize, ToSchema)]
struct Runs {
    items: Vec<RunSummary>,
    /// For the next page; `null` on the last one.
    next_cursor: Option<String>,
}

/// A run with the calls of its newest turn.
#[derive(Serialize, ToSchema)]
#[schema(as = Run)]
struct RunDetail {
    #[schema(value_type = String)]
    run_id: RunId,
    #[schema(value_type = String)]
    agent: AgentId,
    status: StatusView,
    /// The newest turn in which a call was decided; 0 before the first.
    turn: u32,
    /// What is parked.
    #[serde(skip_serializing_if = "Option::is_none")]
    parked: Option<ParkedView>,
    /// The calls of that turn, in the order they came.
    calls: Vec<CallView>,
    /// When this request took the run up: until when no other worker gets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    lease_expires_at: Option<Timestamp>,
}

/// A stack's own bytes.
#[derive(Serialize, ToSchema)]
#[schema(as = Parked)]
struct ParkedView {
    content_type: String,
    /// As `if-match` takes it.
    etag: String,
    /// The bytes, when they are UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The bytes in base64 (RFC 4648, section 4), when they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

impl From<Parked> for ParkedView {
    fn from(parked: Parked) -> Self {
        let ParkedSummary { content_type, etag } = parked.tag.into();
        let (text, base64) = match String::from_utf8(parked.body) {
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(STANDARD.encode(error.as_bytes()))),
        };
        Self { content_type, etag, text, base64 }
    }
}

/// What became of one call.
#[derive(Serialize, ToSchema)]
#[schema(as = TurnCall)]
struct CallView {
    #[schema(value_type = String)]
    tool_use_id: ToolUseId,
    tool: String,
    #[schema(value_type = String)]
    decision_id: DecisionId,
    verdict: VerdictView,
    /// The approval that holds it, or the denial it was refused by.
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<AgentApproval>,
    /// `succeeded`, `failed`, `not_started` or `unknown`, as far as it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
    /// What the stack reported as the tool's result.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    /// What to hand to the model; left out as long as the call may still run.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_result: Option<ToolResult>,
}

impl CallView {
    fn of(state: &HttpState, call: TurnCall) -> Self {
        let TurnCall { tool_use_id, tool, decision, verdict, faults, approval, outcome, result } = call;
        let approval = approval.map(|approval| AgentApproval::of(state, approval));
        let tool_result = match (verdict, &approval, &outcome, faults) {
            (_, _, Some(outcome), _) => Some(ToolResult::executed(Some(outcome), result.as_ref())),
            (_, Some(approval), None, _) => approval.tool_result(),
            (Verdict::Deny, None, None, Some(faults)) => Some(ToolResult::invalid_arguments(&faults)),
            (Verdict::Deny, None, None, None) => Some(ToolResult::failure(state.refusal_text())),
            (Verdict::Allow | Verdict::AllowAudited | Verdict::RequireApproval, None, None, _) => None,
        };
        Self {
            tool_use_id,
            tool,
            decision_id: decision,
            verdict: verdict.into(),
            approval,
            outcome,
            result,
            tool_result,
        }
    }
}

impl RunDetail {
    fn of(state: &HttpState, view: RunView, lease_expires_at: Option<Timestamp>) -> Self {
        let RunView { known, status, parked, calls } = view;
        let RunSummary { run_id, agent, status, turn, .. } = RunSummary::of(known, status);
        let calls = calls.into_iter().map(|call| CallView::of(state, call)).collect();
        Self { run_id, agent, status, turn, parked: parked.map(ParkedView::from), calls, lease_expires_at }
    }
}

/// The caller's runs, by their ids.
///
/// With `Prefer: wait=N` it waits for one when there is none: for workers, with `status=ready`.
#[utoipa::path(
    get, path = "/runs", operation_id = "list_runs", tag = "runs", security(("key" = ["agent"])),
    params(("Prefer" = Option<String>, Header, description = "`wait=N`: wait up to N seconds, at most 60"), RunsQuery),
    responses(Authenticated, (status = 200, description = "A page.", body = Runs), (status = 404, description = "There is none that this key may see.", body = ProblemDocument, content_type = "application/problem+json"))
)]
async fn list(
    State(state): State<HttpState>,
    agent: Agent,
    Wait(wait): Wait,
    Parameters(query): Parameters<RunsQuery>,
) -> Result<Json<Runs>, Refusal> {
    let agent = own(&agent, query.agent)?;
    let status = query.status.as_deref().map(status_named).transpose()?;
    let (limit, after) = (page::limit(query.limit)?, page::place::<RunId>(query.cursor.as_deref())?);
    let mut draining = state.draining.clone();
    let page = tokio::select! {
        page = state.app.list_runs(&agent, status, after.as_ref(), limit, wait) => page,
        // Whoever could say so being gone is the same as stopping.
        _ = async { draining.wait_for(|draining| *draining).await.map(drop) }, if !wait.is_zero() => {
            state.app.list_runs(&agent, status, after.as_ref(), limit, Duration::ZERO).await
        }
    }?;
    let items = page.runs.into_iter().map(|(known, status)| RunSummary::of(known, status)).collect();
    Ok(Json(Runs { items, next_cursor: page.next.as_ref().map(page::cursor) }))
}

/// Where a run stands, and what became of the calls of its newest turn.
#[utoipa::path(
    get, path = "/runs/{run_id}", operation_id = "get_run", tag = "runs", security(("key" = ["agent"])),
    params(("run_id" = String, Path, description = "The run"), WhoseRun),
    responses(Authenticated, (status = 200, description = "The run.", body = RunDetail), (status = 404, description = "There is none that this key may see.", body = ProblemDocument, content_type = "application/problem+json"))
)]
async fn get_run(
    State(state): State<HttpState>,
    agent: Agent,
    PathName(run): PathName<OfRun>,
    Parameters(whose): Parameters<WhoseRun>,
) -> Result<Json<RunDetail>, Refusal> {
    let key = RunKey { agent: own(&agent, whose.agent)?, run };
    Ok(Json(RunDetail::of(&state, state.app.run(&key).await?, None)))
}

/// Write down what is known of a run.
///
/// Each field is written once: the same value again changes nothing, another one is a conflict.
#[utoipa::path(
    put, path = "/runs/{run_id}", operation_id = "declare_run", tag = "runs", security(("key" = ["orchestrator"])),
    params(("run_id" = String, Path, description = "The run, which need not have begun")),
    request_body = DeclarationBody,
    responses(
        Authenticated,
        Bodied,
        (status = 204, description = "Written down."),
        (status = 404, description = "The key is not for this agent.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 409, description = "It was written otherwise before, or contradicts what is known.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 413, description = "The body, or all that was asked, is too long.", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
async fn declare(
    State(state): State<HttpState>,
    Orchestrator(caller): Orchestrator,
    PathName(run): PathName<OfRun>,
    Body(body): Body<DeclarationBody>,
) -> Result<StatusCode, Refusal> {
    let DeclarationBody { agent, request, on_behalf_of, parent_run_id, parent_agent } = body;
    let key = RunKey { agent: orchestrated("agent", &caller, agent)?, run };
    let parent = match (parent_run_id, parent_agent) {
        (Some(run), agent) => Some(ParentName { run, agent }),
        (None, None) => None,
        (None, Some(_)) => {
            return Err(
                Problem::invalid_field("parent_agent", "it says whose run `parent_run_id` is, so send both").into()
            );
        }
    };
    let request = request.map(|text| typed("request", text)).transpose()?;
    let on_behalf_of = on_behalf_of.map(|name| typed("on_behalf_of", name)).transpose()?;
    if on_behalf_of.as_ref().is_some_and(|name| name.len() > LONGEST_NAME) {
        let message = format!("longer than {LONGEST_NAME} bytes");
        return Err(Problem::invalid_field("on_behalf_of", &message).into());
    }
    state.app.declare_run(&caller, &key, &Declaration { request, on_behalf_of, parent }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Add what the human asked later.
#[utoipa::path(
    post, path = "/runs/{run_id}/requests", operation_id = "add_to_request", tag = "runs",
    security(("key" = ["orchestrator"])),
    params(("run_id" = String, Path, description = "The run, which need not have begun"), WhoseRun),
    request_body = RequestBody,
    responses(
        Authenticated,
        Bodied,
        (status = 204, description = "Added."),
        (status = 404, description = "The key is not for this agent.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 409, description = "The run has ended.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 413, description = "The body, or all that was asked, is too long.", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
async fn request(
    State(state): State<HttpState>,
    Orchestrator(caller): Orchestrator,
    PathName(run): PathName<OfRun>,
    Parameters(whose): Parameters<WhoseRun>,
    Body(body): Body<RequestBody>,
) -> Result<StatusCode, Refusal> {
    let key = RunKey { agent: orchestrated("", &caller, whose.agent)?, run };
    state.app.add_to_request(&caller, &key, &typed("text", body.text)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// End a run, and those below it.
///
/// What waits for people there is withdrawn. Ending an ended run changes nothing.
#[utoipa::path(
    post, path = "/runs/{run_id}/end", operation_id = "end_run", tag = "runs", security(("key" = ["orchestrator"])),
    params(("run_id" = String, Path, description = "The run"), WhoseRun),
    responses(Authenticated, (status = 204, description = "It has ended."), (status = 404, description = "There is none that this key may see.", body = ProblemDocument, content_type = "application/problem+json"))
)]
async fn end(
    State(state): State<HttpState>,
    Orchestrator(caller): Orchestrator,
    PathName(run): PathName<OfRun>,
    Parameters(whose): Parameters<WhoseRun>,
) -> Result<StatusCode, Refusal> {
    let key = RunKey { agent: orchestrated("", &caller, whose.agent)?, run };
    state.app.end_run(&caller, &key).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Stop a run, and those below it.
///
/// As `/end`, by a reviewer.
#[utoipa::path(
    post, path = "/runs/{run_id}/stop", operation_id = "stop_run", tag = "runs", security(("key" = ["reviewer"])),
    params(("run_id" = String, Path, description = "The run"), WhoseRun),
    request_body = Option<StopBody>,
    responses(Authenticated, Bodied, (status = 204, description = "It has ended."), (status = 404, description = "There is none that this key may see.", body = ProblemDocument, content_type = "application/problem+json"))
)]
async fn stop(
    State(state): State<HttpState>,
    Reviewer(reviewer): Reviewer,
    PathName(run): PathName<OfRun>,
    Parameters(whose): Parameters<WhoseRun>,
    OptionalBody(body): OptionalBody<StopBody>,
) -> Result<StatusCode, Refusal> {
    let Some(agent) = whose.agent else {
        return Err(Problem::invalid_query("`agent` says whose run is to be stopped, and is missing").into());
    };
    let reason = sentence("reason", body.reason)?;
    state.app.stop_run(&reviewer, &RunKey { agent, run }, reason.as_deref()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Park a stack's own bytes, so that another worker can go on.
///
/// They may be anything of up to 1 MiB. Replacing what is parked takes its `etag` in `if-match`.
#[utoipa::path(
    put, path = "/runs/{run_id}/parked", operation_id = "park_run", tag = "runs", security(("key" = ["agent"])),
    params(
        ("run_id" = String, Path, description = "The run"), WhoseRun,
        ("If-Match" = Option<String>, Header, description = "What is replaced")
    ),
    request_body(content = String, content_type = "*/*"),
    responses(
        Authenticated,
        (status = 204, description = "Parked.", headers(("ETag" = String, description = "Names exactly these bytes"))),
        (status = 404, description = "There is none that this key may see.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 409, description = "The run has ended.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 412, description = "Something else is parked than `if-match` names.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 413, description = "More than 1 MiB.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 428, description = "Something is parked, and `if-match` is missing.", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
async fn park(
    State(state): State<HttpState>,
    agent: Agent,
    PathName(run): PathName<OfRun>,
    Parameters(whose): Parameters<WhoseRun>,
    Replaces(replaces): Replaces,
    body: RawBody,
) -> Result<(StatusCode, HeaderMap), Refusal> {
    let key = RunKey { agent: own(&agent, whose.agent)?, run };
    let RawBody { content_type, bytes } = body;
    let etag = state.app.park_run(&agent.caller, &key, &content_type, &bytes, replaces.as_ref()).await?;
    let etag = HeaderValue::from_str(&quoted(&etag)).map_err(|_| Problem::internal())?;
    Ok((StatusCode::NO_CONTENT, HeaderMap::from_iter([(header::ETAG, etag)])))
}

/// Take a ready run up.
///
/// Exactly one of any number of workers is answered 200. When it has neither parked nor gone on before the lease runs
/// out, the run is ready again.
#[utoipa::path(
    post, path = "/runs/{run_id}/resume", operation_id = "resume_run", tag = "runs", security(("key" = ["agent"])),
    params(("run_id" = String, Path, description = "The run"), WhoseRun),
    request_body = Option<NoBody>,
    responses(
        Authenticated,
        Bodied,
        (status = 200, description = "It is this worker's.", body = RunDetail),
        (status = 404, description = "There is none that this key may see.", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 409, description = "It is not ready, or another worker's.", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
async fn resume(
    State(state): State<HttpState>,
    agent: Agent,
    PathName(run): PathName<OfRun>,
    Parameters(whose): Parameters<WhoseRun>,
    OptionalBody(NoBody {}): OptionalBody<NoBody>,
) -> Result<Json<RunDetail>, Refusal> {
    let key = RunKey { agent: own(&agent, whose.agent)?, run };
    let Resumed { view, lease_expires_at } = state.app.resume_run(&agent.caller, &key).await?;
    Ok(Json(RunDetail::of(&state, view, Some(lease_expires_at))))
}

/// The calling agent; another one's runs do not exist for it.
fn own(agent: &Agent, named: Option<AgentId>) -> Result<AgentId, Refusal> {
    match named {
        Some(named) if named != agent.id => Err(Problem::not_found().into()),
        Some(_) | None => Ok(agent.id.clone()),
    }
}

/// The agent an orchestrator means: the one it names, or the only one its key is for. `field` is where the body would
/// name it; the query otherwise.
fn orchestrated(field: &str, caller: &Caller, named: Option<AgentId>) -> Result<AgentId, Refusal> {
    let mut agents = caller.principal.orchestrates().iter();
    match (named, agents.next(), agents.next()) {
        (Some(named), _, _) => Ok(named),
        (None, Some(one), None) => Ok(one.clone()),
        (None, _, _) => {
            let message = "your key is for several agents, so say whose run it is";
            let query = || Problem::invalid_query(&format!("`agent`: {message}"));
            Err(if field.is_empty() { query() } else { Problem::invalid_field(field, message) }.into())
        }
    }
}

/// What somebody typed, when it is not blank.
fn typed(field: &str, text: String) -> Result<String, Refusal> {
    if text.trim().is_empty() {
        return Err(Problem::invalid_field(field, "it is blank; leave it out when there is nothing").into());
    }
    Ok(text)
}

fn status_named(text: &str) -> Result<RunStatus, Refusal> {
    RunStatus::parse(text).ok_or_else(|| {
        let all = RunStatus::ALL.map(RunStatus::as_str).join(", ");
        Problem::invalid_query(&format!("`status` is one of {all}")).into()
    })
}

/// An entity tag as a header writes it.
fn quoted(etag: &str) -> String {
    format!("\"{etag}\"")
}
