//! Grants: which calls run without asking, for how long, how many more; and taking one back.

use axum::{
    Router,
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    desk::{Act, Asked, Click, Desk, PageId},
    layout::{Frame, Here, Page, form_token, framed},
    shown, words,
};
use crate::{
    app::{grants::GrantPage, ports::GrantFilter},
    domain::{
        grant::{GrantRecord, GrantState},
        ids::{GrantId, OfGrant},
        time::Timestamp,
    },
    http::{sign_in::page::see_other, state::HttpState},
};

/// How many grants stand on one page.
const GRANTS_ON_PAGE: u32 = 50;

/// The routes.
pub(super) fn routes() -> Router<HttpState> {
    Router::new().route("/review/grants", get(show)).route("/review/grants/{id}/revoke", post(revoke))
}

async fn show(desk: Desk, Asked(query): Asked<Query>) -> Result<Response, Response> {
    if let Some(only) = desk.only_page() {
        return Ok(only);
    }
    let live_at = match query.show {
        Show::Live => Some(desk.now),
        Show::All => None,
    };
    let filter = GrantFilter { live_at, ..GrantFilter::default() };
    let found = desk.app().list_grants(&desk.signed_in.reviewer, filter, query.before, GRANTS_ON_PAGE).await;
    let found = found.map_err(|error| desk.failed(error))?;
    Ok(Page::ok(page(&desk.frame, &query, &found, desk.now)).into_response())
}

async fn revoke(PageId(id): PageId<OfGrant>, Act { desk, form: Click {} }: Act<Click>) -> Result<Response, Response> {
    desk.app().revoke_grant(&desk.signed_in.reviewer, id).await.map_err(|error| desk.failed(error))?;
    Ok(see_other("/review/grants"))
}

/// Which grants are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Show {
    /// Those that let calls through.
    #[default]
    Live,
    /// Those that ended as well.
    All,
}

/// How the page is asked for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    /// Which.
    #[serde(default)]
    pub(super) show: Show,
    /// From the page before.
    pub(super) before: Option<GrantId>,
}

/// The page.
pub(super) fn page(frame: &Frame, query: &Query, grants: &GrantPage, now: Timestamp) -> Markup {
    let body = html! {
        div.head {
            h1 { "Grants" }
            p.lead { "What a reviewer let run without asking: one tool, one run, for a while." }
        }
        p.switch {
            a href="/review/grants" aria-current=[(query.show == Show::Live).then_some("true")] { "In force" }
            a href="/review/grants?show=all" aria-current=[(query.show == Show::All).then_some("true")] { "All" }
        }
        @if grants.grants.is_empty() {
            div.empty {
                p {
                    @match query.show {
                        Show::Live => "No grant is in force: every held call asks.",
                        Show::All => "No grant was made yet.",
                    }
                }
            }
        }
        @for record in &grants.grants { (one(frame, record, now)) }
        @if let Some(next) = grants.next {
            p.after {
                a href=(format!("/review/grants?show={}&before={next}", word(query.show))) { "Older ones" }
            }
        }
    };
    framed(frame, Here::Grants, "Grants", body)
}

const fn word(show: Show) -> &'static str {
    match show {
        Show::Live => "live",
        Show::All => "all",
    }
}

fn one(frame: &Frame, record: &GrantRecord, now: Timestamp) -> Markup {
    let GrantRecord { grant, uses, .. } = record;
    let state = record.state_at(now);
    let title = format!("grant-{}", grant.id);
    html! {
        article.card.row aria-labelledby=(title) {
            div.title {
                h2 id=(title) { code { (shown::untrusted(&grant.tool)) } span.by { " for " (grant.run.agent) } }
                span.chip.state.(format!("is-{}", state.as_str())) { (state_text(state)) }
            }
            @match &grant.when {
                Some(when) => p { code.condition { (shown::untrusted(when)) } },
                None => p.soft { "Its condition was erased, so it lets nothing through." },
            }
            dl.facts {
                div { dt { "Run" } dd { (grant.run.run) } }
                div { dt { "Used" } dd { (uses) " of " (grant.max_uses) ", " (grant.max_uses.saturating_sub(*uses)) " left" } }
                div {
                    dt { @if now < grant.expires_at { "Ends" } @else { "Ended" } }
                    dd { (shown::when(grant.expires_at, now)) }
                }
                div { dt { "Made by" } dd { b { (grant.maker) } " on " (words::moment(grant.created_at)) } }
                @if let Some(revoked) = &grant.revoked {
                    div { dt { "Taken back by" } dd { b { (revoked.by) } " on " (words::moment(revoked.at)) } }
                }
            }
            @if state == GrantState::Live {
                form action=(format!("/review/grants/{}/revoke", grant.id)) method="post" {
                    (form_token(frame))
                    button.deny type="submit" aria-describedby=(title) { "Take it back" }
                }
            }
        }
    }
}

const fn state_text(state: GrantState) -> &'static str {
    match state {
        GrantState::Live => "In force",
        GrantState::Revoked => "Taken back",
        GrantState::RunEnded => "Its run ended",
        GrantState::Expired => "Ran out",
        GrantState::Spent => "Used up",
    }
}
