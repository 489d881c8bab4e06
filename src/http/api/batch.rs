//! `POST /decide/batch`: may these calls of one model turn run?

use std::{collections::BTreeSet, sync::Arc};

use axum::{
    Extension, Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::decide::{check_tool_name, shown};
use crate::{
    app::decide_call::{DecideRequest, IdempotencyKey},
    domain::{
        call::{Arguments, CallKey, ToolCall},
        ids::{RunId, ToolUseId},
    },
    http::{
        error::{Authenticated, Bodied, Problem, Refusal, ToolUnavailable},
        extract::{Agent, IdempotentBody, sentence},
        layers::{RequestScope, log_refusal},
        state::HttpState,
    },
};

/// The most calls that one request may ask about.
const MOST_CALLS: usize = 64;

/// The routes.
pub(in crate::http) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(decide_batch))
}

/// The calls of one model turn.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Batch)]
struct BatchBody {
    /// The execution they belong to.
    #[schema(value_type = String, pattern = "^[A-Za-z0-9_.:-]{1,128}$")]
    run_id: RunId,
    /// The model's turn, for models whose ids repeat.
    #[serde(default)]
    turn: u32,
    /// What the stack knows of the request, for rules to read; it is taken at its word.
    context: Option<Map<String, Value>>,
    /// In the order in which they are decided.
    #[schema(min_items = 1, max_items = 64)]
    calls: Vec<BatchedCall>,
}

/// One of them.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct BatchedCall {
    /// The tool's name, or one of its aliases.
    #[schema(min_length = 1, max_length = 256)]
    tool: String,
    /// Exactly the arguments it is to run with.
    args: Map<String, Value>,
    /// The model's id of the call, another for each.
    #[schema(value_type = String, pattern = "^[A-Za-z0-9_.:-]{1,128}$")]
    tool_use_id: ToolUseId,
    /// What the model says of the call: shown to reviewers, apart and unverified.
    #[schema(max_length = 4096)]
    rationale: Option<String>,
}

/// An answer to each call, in the order of the calls.
#[derive(Serialize, ToSchema)]
struct BatchAnswer {
    results: Vec<BatchResult>,
}

/// What `/decide` would have answered to the call.
#[derive(Serialize, ToSchema)]
struct BatchResult {
    /// The status that answer would have. Run the tool only on 200.
    #[schema(example = 200)]
    status: u16,
    /// The members of that answer's body.
    #[serde(flatten)]
    body: Map<String, Value>,
}

/// May these calls run?
///
/// They are decided one after the other, each as by `/decide`. What is held of them is one review with a decision for
/// each; the others run at once. 200 when every one of them may run now, else 207: look at each `status`.
#[utoipa::path(
    post, path = "/decide/batch", tag = "calls", security(("key" = ["agent"])),
    params(("Idempotency-Key" = Option<String>, Header, description = "Names this request, for 24 hours")),
    request_body = BatchBody,
    responses(
        Authenticated,
        Bodied,
        (status = 200, description = "All of them may run now.", body = BatchAnswer),
        (status = 207, description = "Some of them may not run, or not yet.", body = BatchAnswer),
        (status = 503, description = "They could not be decided, so none may run.", body = ToolUnavailable),
    )
)]
async fn decide_batch(
    State(state): State<HttpState>,
    agent: Agent,
    Extension(scope): Extension<Arc<RequestScope>>,
    body: IdempotentBody<BatchBody>,
) -> Result<Response, Refusal> {
    let calls = requests(&agent, body)?;
    let answers = state.app.decide_batch(&agent.caller, calls.clone()).await;
    let answers = answers.map_err(|error| Refusal::of_call(error, state.app.now()))?;
    let mut results = Vec::with_capacity(answers.len());
    for (call, answer) in calls.iter().zip(answers) {
        let answer = match answer {
            Ok(answer) => shown(&state, call, answer),
            Err(error) => Err(Refusal::of_call(error, state.app.now())),
        };
        results.push(match answer {
            Ok((status, shown)) => {
                let body = serde_json::to_value(shown).map_err(|_| Problem::internal())?;
                BatchResult { status: status.as_u16(), body: body.as_object().cloned().unwrap_or_default() }
            }
            Err(refusal) => {
                log_refusal(&scope, Some((call.call.key.run.as_str(), &call.call.tool)), &refusal);
                let status = refusal.status().as_u16();
                BatchResult { status, body: refusal.into_member(&state.tool_unavailable, &scope.id) }
            }
        });
    }
    let all = results.iter().all(|result| result.status == StatusCode::OK.as_u16());
    let status = if all { StatusCode::OK } else { StatusCode::MULTI_STATUS };
    Ok((status, Json(BatchAnswer { results })).into_response())
}

fn requests(agent: &Agent, sent: IdempotentBody<BatchBody>) -> Result<Vec<DecideRequest>, Refusal> {
    let BatchBody { run_id, turn, context, calls } = sent.body;
    if calls.is_empty() || calls.len() > MOST_CALLS {
        return Err(Problem::invalid_field("calls", &format!("1 to {MOST_CALLS} of them")).into());
    }
    let context = context.map(Value::Object);
    let mut ids = BTreeSet::new();
    let mut requests = Vec::with_capacity(calls.len());
    for (index, BatchedCall { tool, args, tool_use_id, rationale }) in calls.into_iter().enumerate() {
        let field = |name: &str| format!("calls[{index}].{name}");
        check_tool_name(&field("tool"), &tool)?;
        if !ids.insert(tool_use_id.clone()) {
            return Err(Problem::invalid_field(&field("tool_use_id"), "another call of this batch has it").into());
        }
        let key = CallKey { agent: agent.id.clone(), run: run_id.clone(), turn, tool_use_id };
        let args = Arguments::new(args).map_err(|_| Problem::internal())?;
        requests.push(DecideRequest {
            call: ToolCall { key, tool, args, context: context.clone() },
            rationale: sentence(&field("rationale"), rationale)?,
            claim: false,
            join: false,
            permit: false,
            hold: false,
            batch: None,
            // Each call is remembered by itself, under the request's key and its place.
            idempotency: sent.key.as_ref().map(|(key, body_hash)| IdempotencyKey {
                route: "/decide/batch",
                key: format!("{index}:{key}"),
                body_hash: *body_hash,
            }),
        });
    }
    Ok(requests)
}
