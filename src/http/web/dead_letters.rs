//! Messages that could not be delivered, and where messages go: what stands still, why, and trying again.

use axum::{
    Router,
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    approval,
    desk::{Act, Asked, Click, Desk, PageId},
    layout::{Frame, Here, Page, form_token, framed},
    run, shown, words,
};
use crate::{
    app::destinations::DestinationView,
    domain::{
        channel::Destination,
        ids::{NoticeId, OfNotice},
        notice::{QueuedNotice, Topic},
        time::Timestamp,
    },
    http::{sign_in::page::see_other, state::HttpState},
};

/// How many stand on one page.
const LETTERS_ON_PAGE: u32 = 50;

/// The routes.
pub(super) fn routes() -> Router<HttpState> {
    Router::new()
        .route("/review/dead-letters", get(show))
        .route("/review/dead-letters/{id}/replay", post(replay))
        .route("/review/dead-letters/enable", post(enable))
}

async fn show(desk: Desk, Asked(query): Asked<Query>) -> Result<Response, Response> {
    if !desk.frame.auditor && !desk.frame.admin {
        return Err(desk.not_found());
    }
    let destinations = desk.app().destinations().await.map_err(|error| desk.failed(error))?;
    let found = desk.app().dead_letters(query.before, LETTERS_ON_PAGE).await;
    let (dead, next) = found.map_err(|error| desk.failed(error))?;
    let view = View { frame: &desk.frame, destinations: &destinations, dead: &dead, next, now: desk.now };
    Ok(Page::ok(page(&view)).into_response())
}

async fn replay(PageId(id): PageId<OfNotice>, Act { desk, form: Click {} }: Act<Click>) -> Result<Response, Response> {
    if !desk.frame.admin {
        return Err(desk.not_found());
    }
    let caller = &desk.signed_in.reviewer.caller;
    desk.app().replay_dead_letter(caller, id).await.map_err(|error| desk.failed(error))?;
    Ok(see_other("/review/dead-letters"))
}

/// Which destination is to be tried again.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Enable {
    destination: String,
}

async fn enable(Act { desk, form }: Act<Enable>) -> Result<Response, Response> {
    let (Ok(to), true) = (form.destination.parse::<Destination>(), desk.frame.admin) else {
        return Err(desk.not_found());
    };
    let caller = &desk.signed_in.reviewer.caller;
    desk.app().enable_destination(caller, &to).await.map_err(|error| desk.failed(error))?;
    Ok(see_other("/review/dead-letters"))
}

/// How the page is asked for.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    /// From the page before.
    pub(super) before: Option<NoticeId>,
}

/// Everything that the page is made of.
pub(super) struct View<'a> {
    /// Whoever looks.
    pub(super) frame: &'a Frame,
    /// Where messages go.
    pub(super) destinations: &'a [DestinationView],
    /// The messages that were given up, newest first.
    pub(super) dead: &'a [QueuedNotice],
    /// Where the next page begins.
    pub(super) next: Option<NoticeId>,
    /// Now.
    pub(super) now: Timestamp,
}

/// The page.
pub(super) fn page(view: &View<'_>) -> Markup {
    let View { frame, destinations, dead, next, now } = view;
    let all: u64 = destinations.iter().map(|destination| destination.dead).sum();
    let body = html! {
        div.head {
            h1 { "Dead letters" }
            p.lead {
                @if all == 0 { "Every message that was to be delivered was, or is still being tried." }
                @else {
                    (words::count(usize::try_from(all).unwrap_or(usize::MAX), "message was", "messages were"))
                    " given up. Whoever should have read them may not know that a call waits."
                }
            }
        }
        section.card aria-labelledby="destinations" {
            h2 #destinations { "Where messages go" }
            @if destinations.is_empty() { p { "No channel is configured: reviewers look at the inbox." } }
            ul.history {
                @for destination in *destinations { li { (one_destination(frame, destination, *now)) } }
            }
        }
        @for queued in *dead { (one(frame, queued, *now)) }
        @if let Some(next) = next { p.after { a href=(format!("/review/dead-letters?before={next}")) { "Older ones" } } }
    };
    framed(frame, Here::DeadLetters, "Dead letters", body)
}

fn one_destination(frame: &Frame, view: &DestinationView, now: Timestamp) -> Markup {
    let DestinationView { to, configured, failing_since, disabled, waiting, later, dead } = view;
    html! {
        div.title {
            b { (to) }
            @if disabled.is_some() { span.chip.state.is-denied { "Disabled" } }
            @else if !configured { span.chip { "No longer configured" } }
            @else if failing_since.is_some() { span.chip.state.is-pending { "Failing" } }
            @else { span.chip.state.is-live { "Fine" } }
        }
        p.meta { span { (waiting) " waiting" } span { (later) " for later" } span { (dead) " given up" } }
        @if let Some((since, why)) = disabled {
            p { "Nothing is tried any more since " (shown::when(*since, now)) ": " (shown::untrusted(why)) "." }
            @if frame.admin && *configured {
                form action="/review/dead-letters/enable" method="post" {
                    (form_token(frame))
                    input type="hidden" name="destination" value=(to);
                    button.plain type="submit" { "Try it again" }
                }
            }
        } @else if let Some(since) = failing_since {
            p { "Nothing has arrived there since " (shown::when(*since, now)) "." }
        }
    }
}

fn one(frame: &Frame, queued: &QueuedNotice, now: Timestamp) -> Markup {
    let QueuedNotice { notice, attempts, failed, dead_since, passed_on: _ } = queued;
    let title = format!("letter-{}", notice.id);
    html! {
        article.card.row aria-labelledby=(title) {
            div.title {
                h2 id=(title) { (notice.event) span.by { " to " (notice.to) } }
                @if let Some(since) = dead_since { span.chip.state.is-denied { "Given up " (words::distance(*since, now)) } }
            }
            dl.facts {
                div {
                    dt { "About" }
                    dd {
                        @match &notice.topic {
                            Topic::Approval(id) => a href=(approval::path(*id)) { (id) },
                            Topic::Run(key) => {
                                @if frame.auditor { a href=(run::path(&key.agent, &key.run)) { (key.agent) ", " (key.run) } }
                                @else { (key.agent) ", " (key.run) }
                            },
                        }
                    }
                }
                @if let Some(recipient) = &notice.recipient { div { dt { "For" } dd { b { (recipient) } } } }
                div { dt { "Happened" } dd { (shown::when(notice.at, now)) } }
                div { dt { "Attempts" } dd { (attempts) } }
                @if let Some(last) = failed.last() {
                    div { dt { "Last fault" } dd { (shown::untrusted(&last.fault)) ", " (words::distance(last.at, now)) } }
                }
            }
            @if frame.admin {
                form action=(format!("/review/dead-letters/{}/replay", notice.id)) method="post" {
                    (form_token(frame))
                    button.plain type="submit" aria-describedby=(title) { "Send it again" }
                }
            }
        }
    }
}
