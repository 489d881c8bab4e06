//! A run's timeline, for auditors: where it stands, and all that the log says of it in the order it came.

use maud::{Markup, html};

use super::{
    audit,
    layout::{Frame, Here, framed},
    shown, words,
};
use crate::{
    app::{audit_log::EntryPage, runs::RunView},
    domain::{
        identity::AgentId,
        ids::RunId,
        run::{RunKey, RunStatus},
        time::Timestamp,
    },
};

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
