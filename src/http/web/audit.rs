//! The log, as auditors search it: the filters of `GET /audit`, and what was found, newest first.

use axum::{
    Router,
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::get,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    approval,
    desk::{Asked, Desk},
    layout::{Frame, Here, NotDone, Page, framed, not_done},
    run, shown, words,
};
use crate::{
    app::{audit_log::EntryPage, ports::EntryFilter},
    domain::{audit::entry::Entry, time::Timestamp},
    http::{api::audit::EntryQuery, state::HttpState},
};

/// How many entries stand on one page.
const ENTRIES_ON_PAGE: u32 = 50;

/// The routes.
pub(super) fn routes() -> Router<HttpState> {
    Router::new().route("/review/audit", get(show))
}

async fn show(desk: Desk, Asked(query): Asked<Query>) -> Result<Response, Response> {
    if !desk.frame.auditor {
        return Err(desk.not_found());
    }
    let (status, markup) = match query.filter() {
        Ok(filter) => {
            let found = desk.app().audit_page(&filter, query.before, ENTRIES_ON_PAGE).await;
            let found = found.map_err(|error| desk.failed(error))?;
            (StatusCode::OK, page(&desk.frame, &query, Ok(&found)))
        }
        Err(why) => (StatusCode::BAD_REQUEST, page(&desk.frame, &query, Err(&why))),
    };
    Ok(Page { status, markup }.into_response())
}

/// How the log is asked for. A form sends blank fields too; those ask for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Query {
    run_id: String,
    tool: String,
    agent: String,
    actor: String,
    verdict: String,
    rule: String,
    event: String,
    approval: String,
    request_id: String,
    subject: String,
    from: String,
    until: String,
    /// From the page before.
    pub(super) before: Option<i64>,
}

/// A field of the form.
struct Field {
    name: &'static str,
    label: &'static str,
    hint: &'static str,
}

/// The fields that are always in sight, and those behind a click.
const FIELDS: [Field; 12] = [
    Field { name: "approval", label: "Approval", hint: "AP-7Q4K-2M" },
    Field { name: "agent", label: "Agent", hint: "billing-bot" },
    Field { name: "run_id", label: "Run", hint: "run-17" },
    Field { name: "tool", label: "Tool", hint: "issue_refund" },
    Field { name: "actor", label: "Done by", hint: "ana" },
    Field { name: "subject", label: "Subject", hint: "order:A-17" },
    Field { name: "event", label: "Event", hint: "approval.denied" },
    Field { name: "verdict", label: "Verdict", hint: "deny" },
    Field { name: "rule", label: "Rule", hint: "large-refund" },
    Field { name: "request_id", label: "Request", hint: "" },
    Field { name: "from", label: "Not before", hint: "2026-11-30T00:00" },
    Field { name: "until", label: "Before", hint: "2026-12-01T00:00" },
];

/// How many of them are in sight at once.
const IN_SIGHT: usize = 6;

impl Query {
    fn value(&self, name: &str) -> &str {
        match name {
            "run_id" => &self.run_id,
            "tool" => &self.tool,
            "agent" => &self.agent,
            "actor" => &self.actor,
            "verdict" => &self.verdict,
            "rule" => &self.rule,
            "event" => &self.event,
            "approval" => &self.approval,
            "request_id" => &self.request_id,
            "subject" => &self.subject,
            "from" => &self.from,
            "until" => &self.until,
            _ => "",
        }
    }

    /// The filter that it asks for.
    ///
    /// # Errors
    /// A sentence about what does not fit.
    pub(super) fn filter(&self) -> Result<EntryFilter, String> {
        let said = |text: &str| Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned);
        let asked = EntryQuery {
            run_id: said(&self.run_id),
            tool: said(&self.tool),
            agent: said(&self.agent),
            actor: said(&self.actor),
            verdict: said(&self.verdict),
            rule: said(&self.rule),
            event: said(&self.event),
            approval: said(&self.approval),
            request_id: said(&self.request_id),
            subject: said(&self.subject),
            from: time("Not before", &self.from)?,
            until: time("Before", &self.until)?,
            ..EntryQuery::default()
        };
        asked.filter().map_err(|refusal| refusal.detail().unwrap_or("the search does not fit").to_owned())
    }

    /// The same search as the query of an address, from another place on.
    fn address(&self, before: i64) -> String {
        let mut pairs = url::form_urlencoded::Serializer::new(String::new());
        for field in FIELDS.iter().filter(|field| !self.value(field.name).is_empty()) {
            pairs.append_pair(field.name, self.value(field.name));
        }
        pairs.append_pair("before", &before.to_string());
        format!("/review/audit?{}", pairs.finish())
    }
}

/// A time as people type it: RFC 3339, or without seconds and zone, which is UTC.
fn time(label: &str, text: &str) -> Result<Option<Timestamp>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let read = [text.to_owned(), format!("{text}Z"), format!("{text}:00Z"), format!("{text}T00:00:00Z")];
    match read.iter().find_map(|text| Timestamp::parse_rfc3339(text)) {
        Some(at) => Ok(Some(at)),
        None => Err(format!("`{label}` is a time such as 2026-11-30T14:45, in UTC")),
    }
}

/// The page: what was found, or why nothing was looked for.
pub(super) fn page(frame: &Frame, query: &Query, found: Result<&EntryPage, &str>) -> Markup {
    let (in_sight, more) = FIELDS.split_at(IN_SIGHT);
    let more_asked = more.iter().any(|field| !query.value(field.name).is_empty());
    let body = html! {
        div.head {
            h1 { "Audit" }
            p.lead { "Everything that was asked, decided and done, newest first." }
        }
        form.search.card action="/review/audit" method="get" role="search" aria-label="Search the log" {
            div.fields { @for field in in_sight { (input(query, field)) } }
            details open[more_asked] {
                summary { "More to search by" }
                div.fields { @for field in more { (input(query, field)) } }
            }
            div.buttons {
                button.plain type="submit" { "Search" }
                a.button href="/review/audit" { "Clear" }
            }
        }
        @match found {
            Err(why) => (not_done(&NotDone(why))),
            Ok(found) => {
                @if found.entries.is_empty() { div.empty { p { "Nothing in the log matches." } } }
                ol.entries {
                    @for sealed in &found.entries { li { (entry(sealed.seq, &sealed.entry)) } }
                }
                @if let Some(next) = found.next { p.after { a href=(query.address(next)) { "Older entries" } } }
            },
        }
    };
    framed(frame, Here::Audit, "Audit", body)
}

fn input(query: &Query, field: &Field) -> Markup {
    html! {
        label {
            span { (field.label) }
            input type="text" name=(field.name) value=(query.value(field.name)) placeholder=(field.hint)
                autocomplete="off" spellcheck="false";
        }
    }
}

/// One entry: what happened in a line, and the rest of it below.
pub(super) fn entry(seq: i64, entry: &Entry) -> Markup {
    let call = entry.call.as_ref();
    let agent = call.map(|call| &call.agent).or(entry.agent.as_ref());
    let run = call.map(|call| &call.run).or(entry.run.as_ref());
    html! {
        div.entry {
            p.line {
                span.event { (entry.event) }
                @if let Some(verdict) = entry.verdict { " " span.chip.verdict { (verdict.as_str().replace('_', " ")) } }
                @if let Some(tool) = &entry.tool { " " code { (shown::untrusted(tool)) } }
                @if let (Some(id), Some(code)) = (entry.approval, &entry.code) {
                    " " a href=(approval::path(id)) { (code) }
                }
            }
            p.meta {
                time datetime=(entry.at) { (words::moment(entry.at)) }
                span { "by " b { (shown::untrusted(&entry.actor.name)) } }
                @if let (Some(agent), Some(run)) = (agent, run) {
                    span { (agent) ", " a href=(run::path(agent, run)) { (run) } }
                }
                @if let Some(reason) = &entry.reason { span { (shown::untrusted(reason)) } }
                @else if let Some(code) = &entry.reason_code { span { (shown::untrusted(code)) } }
            }
            details {
                summary { "Entry " (seq) }
                dl.facts {
                    div { dt { "Time" } dd { (entry.at) } }
                    div { dt { "Authenticated" } dd { (shown::untrusted(&entry.actor.via)) } }
                    @if let Some(call) = call {
                        div { dt { "Call" } dd { "turn " (call.turn) ", " (call.tool_use_id) } }
                    }
                    @if let Some(rule) = &entry.rule { div { dt { "Rule" } dd { (shown::untrusted(rule)) } } }
                    @if let Some(code) = &entry.reason_code { div { dt { "Reason" } dd { (shown::untrusted(code)) } } }
                    @if let Some(decision) = entry.decision { div { dt { "Decision" } dd { code { (decision) } } } }
                    @if let Some(request) = &entry.request_id {
                        div { dt { "Request" } dd { (shown::untrusted(request)) } }
                    }
                    @if let Some(version) = &entry.policy_version {
                        div { dt { "Policy" } dd { code { (shown::untrusted(version)) } } }
                    }
                    @for (name, value) in &entry.detail {
                        div { dt { (shown::untrusted(name)) } dd { (shown::untrusted(&value.to_string())) } }
                    }
                }
            }
        }
    }
}
