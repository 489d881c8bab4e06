//! What webhooks and callbacks are sent. Nothing here answers: it is for the description alone, as the service is the one
//! that asks.

use utoipa::{
    ToSchema,
    openapi::{
        ContentBuilder, HttpMethod, ObjectBuilder, PathItem, Paths, PathsBuilder, Ref, Required, ResponseBuilder,
        path::{OperationBuilder, ParameterBuilder, ParameterIn},
        request_body::RequestBodyBuilder,
        schema::{Object, Type},
    },
};

use super::StateView;
use crate::domain::{channel::ChannelKind, notice::NoticeEvent};

/// What happened to an approval. It says where to look and is no permission: `GET /approvals/{id}` is the truth, and only a
/// claim lets a call run. No argument is in it, and no sentence that anybody typed.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what `notice::about_approval` makes")]
pub(in crate::http) struct ApprovalEvent {
    /// What happened.
    #[schema(schema_with = approval_events)]
    r#type: String,
    /// When it happened, which may be well before it arrives.
    #[schema(format = DateTime)]
    timestamp: String,
    data: ApprovalEventData,
}

/// Which approval, of which call, and where it stood then.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what `notice::about_approval` makes")]
pub(in crate::http) struct ApprovalEventData {
    /// Its id.
    approval_id: String,
    /// The short name that reviewers see, such as `AP-7Q4K-2M`.
    code: String,
    /// Whose call it is.
    agent: String,
    /// In which of its runs.
    run_id: String,
    /// In which turn of it.
    turn: u32,
    /// The model's name of the call.
    tool_use_id: String,
    /// The tool.
    tool: String,
    /// `sha256:` and the hash of the arguments.
    args_hash: String,
    /// Which approval of this call it is, from 1.
    attempt: u32,
    /// How it stood right after the event.
    state: StateView,
    /// When it expires.
    #[schema(format = DateTime)]
    expires_at: String,
    /// The page for reviewers.
    url: String,
    /// Once it is executed: `succeeded`, `failed`, `not_started` or `unknown`, or `null` while that is awaited.
    #[schema(required = false)]
    outcome: Option<String>,
}

/// Every held call of a run's newest turn is decided: a worker may take the run on.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what `App::ready_step` makes")]
pub(in crate::http) struct RunReadyEvent {
    #[schema(schema_with = run_ready)]
    r#type: String,
    /// When the last of them was decided.
    #[schema(format = DateTime)]
    timestamp: String,
    data: RunReadyEventData,
}

/// Which run, and where it stands.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what `App::ready_step` makes")]
pub(in crate::http) struct RunReadyEventData {
    /// Whose run it is.
    agent: String,
    /// Its id.
    run_id: String,
    /// Its newest turn.
    turn: u32,
    /// How often a call of that turn was held: it grows when there is something new to wait for.
    mark: u32,
    /// `ready`.
    status: String,
}

fn approval_events() -> Object {
    one_of(NoticeEvent::ALL.into_iter().filter(|event| ChannelKind::Webhook.hears(*event)))
}

fn run_ready() -> Object {
    one_of([NoticeEvent::RunReady])
}

fn one_of(events: impl IntoIterator<Item = NoticeEvent>) -> Object {
    let names = events.into_iter().map(NoticeEvent::as_str);
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names)).build()
}

/// One operation for each event, under its name.
pub(in crate::http) fn webhooks() -> Paths {
    let mut paths = PathsBuilder::new();
    for event in NoticeEvent::ALL {
        let body = if ChannelKind::Webhook.hears(event) {
            "ApprovalEvent"
        } else if event == NoticeEvent::RunReady {
            "RunReadyEvent"
        } else {
            continue;
        };
        paths = paths.path(event.as_str(), sent(event, body));
    }
    paths.build()
}

fn sent(event: NoticeEvent, body: &str) -> PathItem {
    let body = RequestBodyBuilder::new()
        .required(Some(Required::True))
        .content("application/json", ContentBuilder::new().schema(Some(Ref::from_schema_name(body))).build())
        .build();
    let mut operation = OperationBuilder::new()
        .tag("messages")
        .operation_id(Some(format!("on_{}", event.as_str().replace('.', "_"))))
        .summary(Some(summary(event)))
        .description(Some(
            "Sent as Standard Webhooks 1.0.0 has it, at least once. Any 2xx is taken for arrived, 410 ends all messages to \
             this place, and anything else is tried again.",
        ))
        .request_body(Some(body))
        .response("2XX", ResponseBuilder::new().description("It has arrived."))
        .response("410", ResponseBuilder::new().description("Send nothing here any more."));
    for (name, description) in [
        ("webhook-id", "The same at every attempt: forget what you have seen."),
        ("webhook-timestamp", "When this attempt was made, in seconds since the Unix epoch."),
        ("webhook-signature", "`v1,` or `v1a,` and a signature in base64 by every key in force, parted by spaces."),
    ] {
        let text = ObjectBuilder::new().schema_type(Type::String);
        let header = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Header).required(Required::True);
        operation = operation.parameter(header.description(Some(description)).schema(Some(text)));
    }
    PathItem::new(HttpMethod::Post, operation)
}

fn summary(event: NoticeEvent) -> &'static str {
    match event {
        NoticeEvent::Requested => "A call waits for a decision.",
        NoticeEvent::Reminder => "It waits still.",
        NoticeEvent::Escalated => "It waits still, and others may decide now.",
        NoticeEvent::Voted => "Somebody approved, and more is needed.",
        NoticeEvent::Approved => "The call may be claimed.",
        NoticeEvent::Denied => "The call never runs.",
        NoticeEvent::Expired => "Nobody decided or claimed in time.",
        NoticeEvent::Cancelled => "The call was withdrawn.",
        NoticeEvent::Executed => "The call was claimed.",
        NoticeEvent::Outcome => "What came of the call is known, or known to be unknown.",
        NoticeEvent::RunReady => "The run may go on.",
    }
}
