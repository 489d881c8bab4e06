//! `/link/{token}`: a personal link. Looking at it shows the same page whatever the token, and asks the store nothing;
//! the click opens a session.

use axum::{
    extract::{FromRequestParts, Request, State},
    http::{HeaderMap, StatusCode, header},
    response::Response,
};
use maud::html;
use serde::Deserialize;

use super::page::{self, Apology, FormsLead, admit, apology, one_button, see_other};
use crate::{
    app::{
        error::Error,
        links::{AskedFor, FollowedLink},
    },
    auth::session::FormKey,
    domain::session::{Secret, SessionScope},
    http::{
        browser::{Cookie, asks_for_loopback},
        extract::{PathText, signed_in::read_form, signed_in::scope},
        state::HttpState,
    },
};

/// What the page of a link sends: nothing but the click.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Click {}

/// `GET /link/{token}`.
pub(super) async fn show(State(state): State<HttpState>, request: Request) -> Result<Response, Response> {
    let (mut parts, _) = request.into_parts();
    let scope = scope(&parts)?;
    let Ok(PathText(token)) = PathText::from_request_parts(&mut parts, &state).await else {
        return Err(apology(&scope, Apology::NotFound));
    };
    // The page is the same for every text of the right form, a link's or not.
    let link = Secret::parse(&token).ok_or_else(|| apology(&scope, Apology::NotFound))?;
    let browser = browser_of(&parts.headers, &state).map_err(|error| page::of_error(&scope, error))?;
    let token_field = form_key(&browser, &link).field(state.app.now());
    let body = html! {
        p { "This link was sent to one person, and works once." }
        (one_button(&format!("/link/{token}"), &token_field, &[], "Open"))
    };
    let mut response = page::page(StatusCode::OK, "Open your review", FormsLead::Here, &body);
    hold(&mut response, Cookie::SignIn, &browser, &state);
    Ok(response)
}

/// `POST /link/{token}`.
pub(super) async fn follow(State(state): State<HttpState>, request: Request) -> Result<Response, Response> {
    let (mut parts, body) = request.into_parts();
    let scope = scope(&parts)?;
    let link =
        PathText::from_request_parts(&mut parts, &state).await.ok().and_then(|PathText(text)| Secret::parse(&text));
    let link = link.ok_or_else(|| apology(&scope, Apology::NotFound))?;
    let public_url = &state.settings.public_url;
    let browser = Cookie::SignIn.secret(&parts.headers, public_url);
    let browser = browser.ok_or_else(|| apology(&scope, Apology::Foreign))?;
    let asked_for = if asks_for_loopback(&parts.headers) { AskedFor::Loopback } else { AskedFor::Elsewhere };
    let held = Cookie::Session.secret(&parts.headers, public_url);
    let request = Request::from_parts(parts, body);
    let Click {} = read_form(request, &state, &scope, &form_key(&browser, &link)).await?;

    admit(&state, &scope)?;
    let failed = |error| page::of_error(&scope, error);
    let held = match held {
        Some(secret) => state.app.signed_in(&secret, &scope.id).await.map_err(failed)?.map(|person| person.session),
        None => None,
    };
    match state.app.follow_link(&link, asked_for, held.as_ref(), &scope.id).await.map_err(failed)? {
        FollowedLink::Opened(opened) => {
            let mut response = match opened.session.scope {
                SessionScope::Everything => see_other("/review"),
                SessionScope::Approval(id) => see_other(&format!("/review/approvals/{id}")),
            };
            hold(&mut response, Cookie::Session, &opened.secret, &state);
            Ok(response)
        }
        FollowedLink::NotNeeded(id) => Ok(see_other(&format!("/review/approvals/{id}"))),
        FollowedLink::TakesSignIn(id) => Ok(page::to_sign_in(&format!("/review/approvals/{id}"))),
        FollowedLink::Nothing => {
            state.metrics.unauthenticated(scope.method, scope.route());
            Err(apology(&scope, Apology::LinkSpent))
        }
    }
}

/// What this browser holds before a session; something new when it holds nothing.
pub(super) fn browser_of(headers: &HeaderMap, state: &HttpState) -> Result<Secret, Error> {
    match Cookie::SignIn.secret(headers, &state.settings.public_url) {
        Some(held) => Ok(held),
        None => state.app.secret(),
    }
}

/// Lets the browser hold `secret`.
pub(super) fn hold(response: &mut Response, cookie: Cookie, secret: &Secret, state: &HttpState) {
    if let Some(value) = cookie.set(secret, &state.settings.public_url) {
        response.headers_mut().append(header::SET_COOKIE, value);
    }
}

fn form_key(browser: &Secret, link: &Secret) -> FormKey {
    FormKey::new(browser, format!("link {}", hex::encode(link.hash())))
}
