//! The API's description, made of the handlers themselves (OpenAPI 3.1). `openapi/countersign.json` is its text.

use utoipa::{
    Modify, OpenApi,
    openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
};
use utoipa_axum::router::OpenApiRouter;

use super::{
    api::{
        self,
        events::{ApprovalEvent, RunReadyEvent},
    },
    error::{DeclinedCall, InvalidArguments, ProblemDocument, ToolUnavailable},
    state::HttpState,
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Countersign",
        description = "The permission system between AI agents and their tools: asked about every tool call before it \
                       runs. Run a tool only on 200.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    components(schemas(ProblemDocument, ToolUnavailable, DeclinedCall, InvalidArguments, ApprovalEvent, RunReadyEvent)),
    modifiers(&Keys, &Webhooks),
    tags(
        (name = "calls", description = "What agents ask before they run a tool."),
        (name = "approvals", description = "Held calls: deciding, claiming, reporting."),
        (name = "grants", description = "What reviewers let through for a while."),
        (name = "runs", description = "Runs: what is known of them, parking and resuming, ending and stopping."),
        (name = "agents", description = "Pausing agents."),
        (name = "messages", description = "Messages to reviewers and stacks: where they go, and those that did not arrive."),
        (name = "audit", description = "The log."),
        (name = "policy", description = "The policy in force."),
        (name = "service", description = "The service itself; no key needed."),
    )
)]
struct Base;

/// How callers authenticate.
struct Keys;

impl Modify for Keys {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .bearer_format("cs_<random>_<checksum>")
            .description(Some("An API key. A route that names roles takes a key with one of them."))
            .build();
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("key", SecurityScheme::Http(scheme));
    }
}

/// What the service sends.
struct Webhooks;

impl Modify for Webhooks {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        openapi.webhooks = Some(api::events::webhooks());
    }
}

/// Every route with its description, but for `/metrics`.
pub(super) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::with_openapi(Base::openapi())
        .merge(api::decide::routes())
        .merge(api::batch::routes())
        .merge(api::approvals::routes())
        .merge(api::decisions::routes())
        .merge(api::grants::routes())
        .merge(api::runs::routes())
        .merge(api::agents::routes())
        .merge(api::tools::routes())
        .merge(api::outbox::routes())
        .merge(api::audit::routes())
        .merge(api::policy::routes())
        .merge(api::service::routes())
}

/// The description as committed: JSON, indented, with a line feed at its end.
pub fn document() -> String {
    let mut text = routes().merge(api::service::metrics_routes()).into_openapi().to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}
