//! Who is signed in at the browser that sends a request, and the forms that only that browser could have sent.

use std::sync::Arc;

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Request},
    http::{HeaderMap, Method, StatusCode, header, request::Parts},
    response::Response,
};
use serde::de::DeserializeOwned;
use url::form_urlencoded;

use crate::{
    app::{ReviewerCaller, sessions::SignedInPerson},
    auth::session::{FormFault, FormKey},
    domain::{identity::Roles, session::Session},
    http::{
        browser::{Cookie, is_from_here, is_local_page},
        layers::RequestScope,
        sign_in::page::{self, Apology},
        state::HttpState,
    },
};

/// The name of the hidden field that holds a form's token.
pub(crate) const FORM_TOKEN: &str = "form_token";

/// A person who is signed in. Without one a look leads to the sign-in, and a form is refused; neither tells anything of
/// what was asked for.
pub(crate) struct SignedIn {
    /// The reviewer.
    pub(crate) reviewer: ReviewerCaller,
    /// The session. One that a personal link opened reaches one approval: ask [`Session::may_see`].
    pub(crate) session: Session,
    /// What the reviewer may be here.
    pub(crate) roles: Roles,
    /// What makes the hidden field `form_token` of every form.
    pub(crate) form: FormKey,
}

/// A form that was sent by a person who is signed in, from a page of this session, after looking at it for a second at
/// least. `T` must say `#[serde(deny_unknown_fields)]`; a field that comes twice is refused where `T` has no list.
pub(crate) struct SignedForm<T> {
    /// Who sent it.
    pub(crate) signed_in: SignedIn,
    /// What was sent, without the token.
    pub(crate) form: T,
}

impl FromRequestParts<HttpState> for SignedIn {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, Response> {
        let scope = scope(parts)?;
        let Some(secret) = Cookie::Session.secret(&parts.headers, &state.settings.public_url) else {
            return Err(not_signed_in(parts, state, &scope));
        };
        let found = state.app.signed_in(&secret, &scope.id).await;
        match found.map_err(|error| page::of_error(&scope, error))? {
            Some(SignedInPerson { session, reviewer, roles }) => {
                // Nothing was set before: a request is authenticated once.
                let _ = scope.actor.set(reviewer.name.to_string());
                if let Some(rates) = &state.rates {
                    rates
                        .count(reviewer.caller.principal.credential())
                        .map_err(|_| page::apology(&scope, Apology::TooMany))?;
                }
                let form = FormKey::new(&secret, session.id);
                Ok(Self { reviewer, session, roles, form })
            }
            None => Err(not_signed_in(parts, state, &scope)),
        }
    }
}

impl<T: DeserializeOwned + Send> FromRequest<HttpState> for SignedForm<T> {
    type Rejection = Response;

    async fn from_request(request: Request, state: &HttpState) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let scope = scope(&parts)?;
        let signed_in = SignedIn::from_request_parts(&mut parts, state).await?;
        let request = Request::from_parts(parts, body);
        let form = read_form(request, state, &scope, &signed_in.form).await?;
        state.app.session_seen(&signed_in.session).await.map_err(|error| page::of_error(&scope, error))?;
        Ok(Self { signed_in, form })
    }
}

/// What is known of the request so far.
#[expect(clippy::result_large_err, reason = "every caller answers with the page as it is, and once")]
pub(in crate::http) fn scope(parts: &Parts) -> Result<Arc<RequestScope>, Response> {
    parts.extensions.get().cloned().ok_or_else(page::without_scope)
}

/// Leads a look to the sign-in, and refuses everything else.
fn not_signed_in(parts: &Parts, state: &HttpState, scope: &RequestScope) -> Response {
    if parts.method == Method::GET || parts.method == Method::HEAD {
        let asked = parts.uri.path_and_query().map_or("/review", |asked| asked.as_str());
        return page::to_sign_in(if is_local_page(asked) { asked } else { "/review" });
    }
    state.metrics.unauthenticated(scope.method, scope.route());
    page::apology(scope, Apology::NotSignedIn)
}

/// Reads a form whose token `key` made, sent from a page of this service.
pub(in crate::http) async fn read_form<T: DeserializeOwned>(
    request: Request,
    state: &HttpState,
    scope: &RequestScope,
    key: &FormKey,
) -> Result<T, Response> {
    let refused = |apology| page::apology(scope, apology);
    if !is_from_here(request.headers(), &state.settings.public_url) {
        return Err(refused(Apology::Elsewhere));
    }
    if !says_form(request.headers()) {
        return Err(refused(Apology::NotAForm));
    }
    let bytes = match Bytes::from_request(request, state).await {
        Ok(bytes) => bytes,
        Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            return Err(refused(Apology::TooLarge));
        }
        Err(_) => return Err(refused(Apology::NotAForm)),
    };
    let (mut tokens, mut rest) = (Vec::new(), form_urlencoded::Serializer::new(String::new()));
    for (name, value) in form_urlencoded::parse(&bytes) {
        if name == FORM_TOKEN {
            tokens.push(value.into_owned());
        } else {
            rest.append_pair(&name, &value);
        }
    }
    let [token] = tokens.as_slice() else { return Err(refused(Apology::Foreign)) };
    key.check(token, state.app.now()).map_err(|fault| {
        refused(match fault {
            FormFault::Foreign => Apology::Foreign,
            FormFault::TooSoon => Apology::TooSoon,
            FormFault::TooOld => Apology::TooOld,
        })
    })?;
    serde_html_form::from_str(&rest.finish()).map_err(|_| refused(Apology::NotAForm))
}

fn says_form(headers: &HeaderMap) -> bool {
    let text = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/x-www-form-urlencoded")
}
