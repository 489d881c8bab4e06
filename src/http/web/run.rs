//! A run's timeline, for auditors: where it stands, and all that the log says of it in the order it came.

use axum::{
    Router,
    extract::Path,
    response::{IntoResponse as _, Response},
    routing::get,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    audit,
    desk::{Asked, Desk},
    layout::{Frame, Here, Page, framed},
    shown, words,
};
use crate::{
    app::{audit_log::EntryPage, ports::EntryFilter, runs::RunView},
    domain::{
        identity::AgentId,
        ids::RunId,
        run::{RunKey, RunStatus},
        time::Timestamp,
    },
    http::state::HttpState,
};

/// How many entries stand on one page.
const ENTRIES_ON_PAGE: u32 = 200;

/// The routes.
pub(super) fn routes() -> Router<HttpState> {
    Router::new().route("/review/runs/{agent}/{run}", get(show))
}

/// How a run's timeline is asked for.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Query {
    before: Option<i64>,
}

async fn show(
    desk: Desk,
    Path((agent, run)): Path<(String, String)>,
    Asked(query): Asked<Query>,
) -> Result<Response, Response> {
    let (Ok(agent), Ok(run), true) = (AgentId::parse(&agent), RunId::parse(&run), desk.frame.auditor) else {
        return Err(desk.not_found());
    };
    let filter = EntryFilter { run: Some(run.to_string()), agent: Some(agent.to_string()), ..EntryFilter::default() };
    let view = desk.app().run(&RunKey { agent, run }).await.map_err(|error| desk.failed(error))?;
    let entries = desk.app().audit_page(&filter, query.before, ENTRIES_ON_PAGE).await;
    let entries = entries.map_err(|error| desk.failed(error))?;
    Ok(Page::ok(page(&desk.frame, &view, &entries, desk.now)).into_response())
}

/// The path of a run's timeline. Both names hold only characters that stand for themselves in a path.
pub(super) fn path(agent: &AgentId, run: &RunId) -> String {
    format!("/review/runs/{agent}/{run}")
}

/// The page. `entries` come newest first.
pub(super) fn page(frame: &Frame, view: &RunView, entries: &EntryPage, now: Timestamp) -> Markup {
    let run = &view.known.run;
    let RunKey { agent, run: id } = &run.key;
    let body = html! {
        p.crumb { a href="/review/audit" { "Audit" } span aria-hidden="true" { " / " } (id) }
        div.head {
            h1 { "Run " (id) }
            p.chips {
                span.chip { "by " b { (agent) } }
                span.chip.state.(format!("is-{}", view.status.as_str())) { (status(view.status)) }
            }
        }
        section.card aria-labelledby="about" {
            h2 #about { "About it" }
            dl.facts {
                div {
                    dt { "On behalf of" }
                    dd {
                        @match &run.on_behalf_of {
                            Some(person) => (shown::untrusted(person)),
                            None => span.none { "nobody was named" },
                        }
                    }
                }
                @if !run.ancestors.is_empty() {
                    div {
                        dt { "Started by" }
                        dd {
                            @for (index, above) in run.ancestors.iter().enumerate() {
                                @if index > 0 { ", under " }
                                a href=(path(&above.agent, &above.run)) { (above.agent) " / " (above.run) }
                            }
                        }
                    }
                }
                @if !run.labels.is_empty() {
                    div {
                        dt { "Has touched" }
                        dd { @for label in &run.labels { span.tag { (shown::untrusted(label)) } " " } }
                    }
                }
                @if let Some(ending) = &run.ended {
                    div {
                        dt { @if ending.stopped { "Stopped by" } @else { "Ended by" } }
                        dd { b { (shown::untrusted(&ending.by)) } " on " (shown::when(ending.at, now)) }
                    }
                }
                div { dt { "Newest turn" } dd { (words::count(view.calls.len(), "call", "calls")) } }
            }
        }
        section aria-labelledby="timeline" {
            h2 #timeline { "Timeline" }
            @if let Some(older) = entries.next {
                p { a href=(format!("{}?before={older}", path(agent, id))) { "Earlier" } }
            }
            ol.entries.timeline {
                @for sealed in entries.entries.iter().rev() { li { (audit::entry(sealed.seq, &sealed.entry)) } }
            }
        }
    };
    framed(frame, Here::Audit, &format!("Run {id}"), body)
}

const fn status(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Running => "Running",
        RunStatus::AwaitingApproval => "Awaiting approval",
        RunStatus::Ready => "Ready to go on",
        RunStatus::Ended => "Ended",
    }
}
