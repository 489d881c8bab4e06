//! A reviewer's own sessions: where they are signed in, and an end to each.

use axum::{
    Router,
    response::{IntoResponse as _, Response},
    routing::get,
};
use maud::{Markup, html};

use super::{
    desk::Desk,
    layout::{Frame, Here, Page, form_token, framed},
    shown, words,
};
use crate::{
    domain::{
        session::{Session, SignInMethod},
        time::Timestamp,
    },
    http::state::HttpState,
};

/// The routes.
pub(super) fn routes() -> Router<HttpState> {
    Router::new().route("/review/sessions", get(show))
}

async fn show(desk: Desk) -> Result<Response, Response> {
    if let Some(only) = desk.only_page() {
        return Ok(only);
    }
    let own = desk.app().sessions_of(&desk.signed_in.reviewer).await.map_err(|error| desk.failed(error))?;
    Ok(Page::ok(page(&desk.frame, &desk.signed_in.session, &own, desk.now)).into_response())
}

/// The page.
pub(super) fn page(frame: &Frame, this: &Session, sessions: &[Session], now: Timestamp) -> Markup {
    let body = html! {
        div.head {
            h1 { "Sessions" }
            p.lead { "Where you are signed in. End what is not yours, or what you left open." }
        }
        @for session in sessions { (one(frame, session, session.id == this.id, now)) }
    };
    framed(frame, Here::Sessions, "Sessions", body)
}

fn one(frame: &Frame, session: &Session, is_this: bool, now: Timestamp) -> Markup {
    let title = format!("session-{}", session.id);
    html! {
        article.card.row aria-labelledby=(title) {
            div.title {
                h2 id=(title) { (method(session.method)) }
                @if is_this { span.chip.state.is-live { "This one" } }
            }
            dl.facts {
                div { dt { "Opened" } dd { (shown::when(session.opened_at, now)) } }
                div { dt { "Last used" } dd { (words::distance(session.last_seen_at, now)) } }
                div { dt { "Ends" } dd { (shown::when(session.lasts_until(), now)) " at the latest" } }
                @if session.scope.approval().is_some() { div { dt { "Reaches" } dd { "one approval" } } }
            }
            form action=(format!("/review/sessions/{}/revoke", session.id)) method="post" {
                (form_token(frame))
                button.plain type="submit" aria-describedby=(title) {
                    @if is_this { "Sign out here" } @else { "End it" }
                }
            }
        }
    }
}

const fn method(method: SignInMethod) -> &'static str {
    match method {
        SignInMethod::Oidc => "Signed in at the provider",
        SignInMethod::Link => "By a personal link",
        SignInMethod::DevLink => "By the link of countersign dev",
    }
}
