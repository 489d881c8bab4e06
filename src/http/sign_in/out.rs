//! `/logout`, and the taking back of one's own sessions at other browsers.

use axum::{
    extract::{FromRequest as _, FromRequestParts as _, Request, State},
    http::header,
    response::Response,
};
use serde::Deserialize;

use super::page::{self, Apology, apology, see_other};
use crate::{
    domain::ids::SessionId,
    http::{
        browser::Cookie,
        extract::{
            PathText,
            signed_in::{SignedForm, SignedIn, scope},
        },
        state::HttpState,
    },
};

/// What the forms here send: nothing but the click.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Click {}

/// `POST /logout`.
pub(super) async fn sign_out(State(state): State<HttpState>, request: Request) -> Result<Response, Response> {
    let (parts, body) = request.into_parts();
    let scope = scope(&parts)?;
    let request = Request::from_parts(parts, body);
    let SignedForm { signed_in, form: Click {} } = SignedForm::<Click>::from_request(request, &state).await?;
    let SignedIn { reviewer, session, .. } = signed_in;
    state.app.revoke_session(&reviewer, session.id).await.map_err(|error| page::of_error(&scope, error))?;
    Ok(gone(&state))
}

/// `POST /review/sessions/{id}/revoke`.
pub(super) async fn revoke(State(state): State<HttpState>, request: Request) -> Result<Response, Response> {
    let (mut parts, body) = request.into_parts();
    let scope = scope(&parts)?;
    let id = PathText::from_request_parts(&mut parts, &state).await.ok();
    let request = Request::from_parts(parts, body);
    let SignedForm { signed_in, form: Click {} } = SignedForm::<Click>::from_request(request, &state).await?;
    let SignedIn { reviewer, session, .. } = signed_in;
    let id = id.and_then(|PathText(text)| SessionId::parse(&text).ok());
    let id = id.ok_or_else(|| apology(&scope, Apology::NotFound))?;
    state.app.revoke_session(&reviewer, id).await.map_err(|error| page::of_error(&scope, error))?;
    Ok(if id == session.id { gone(&state) } else { see_other("/review/sessions") })
}

fn gone(state: &HttpState) -> Response {
    let mut response = see_other("/login");
    if let Some(cleared) = Cookie::Session.clear(&state.settings.public_url) {
        response.headers_mut().append(header::SET_COOKIE, cleared);
    }
    response
}
