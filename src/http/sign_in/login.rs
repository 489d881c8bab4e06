//! `/login` and `/login/callback`: signing in at the provider.

use axum::{
    extract::{Query, Request, State},
    http::{HeaderMap, StatusCode},
    response::Response,
};
use maud::html;
use serde::Deserialize;

use super::{
    link::{browser_of, hold},
    page::{self, Apology, FormsLead, admit, apology, one_button, see_other},
};
use crate::{
    app::{
        ports::sign_in::{ProviderAnswer, ProviderFault},
        sign_in::NotSignedIn,
    },
    auth::session::FormKey,
    domain::session::{Freshness, Secret, Session, SessionScope},
    http::{
        browser::{Cookie, is_local_page},
        extract::signed_in::{read_form, scope},
        layers::RequestScope,
        state::HttpState,
    },
};

/// Where people go who did not say where.
const INBOX: &str = "/review";

/// The longest `code` that is taken from a provider.
const LONGEST_CODE: usize = 4_096;

/// What `/login` is asked for.
#[derive(Default, Deserialize)]
struct Asked {
    /// Where to go then, below `/review`.
    to: Option<String>,
    /// `1` when an earlier sign-in will not do.
    fresh: Option<String>,
}

impl Asked {
    fn to(&self) -> &str {
        self.to.as_deref().filter(|to| is_local_page(to)).unwrap_or(INBOX)
    }

    fn freshness(&self) -> Freshness {
        match self.fresh.as_deref() {
            Some("1") => Freshness::Fresh,
            Some(_) | None => Freshness::Any,
        }
    }
}

/// What the page sends: the same.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Begin {
    to: String,
    fresh: Option<String>,
}

/// What the provider sends the browser back with (OpenID Connect Core 1.0, section 3.1.2.5; RFC 9207).
#[derive(Default, Deserialize)]
struct Back {
    state: Option<String>,
    code: Option<String>,
    iss: Option<String>,
    error: Option<String>,
}

/// `GET /login`.
pub(super) async fn show(State(state): State<HttpState>, request: Request) -> Result<Response, Response> {
    let (parts, _) = request.into_parts();
    let scope = scope(&parts)?;
    let asked = Query::<Asked>::try_from_uri(&parts.uri).map(|Query(asked)| asked).unwrap_or_default();
    if !state.app.has_provider() {
        return Err(apology(&scope, Apology::NoProvider));
    }
    let session = session_of(&parts.headers, &state, &scope).await?;
    let is_enough = |session: &Session| match asked.freshness() {
        Freshness::Any => session.scope == SessionScope::Everything,
        Freshness::Fresh => session.is_fresh(state.app.now()),
    };
    if session.as_ref().is_some_and(is_enough) {
        return Ok(see_other(asked.to()));
    }
    let browser = browser_of(&parts.headers, &state).map_err(|error| page::of_error(&scope, error))?;
    let token = form_key(&browser).field(state.app.now());
    let mut hidden = vec![("to", asked.to())];
    let (heading, text) = match asked.freshness() {
        Freshness::Any => ("Sign in", "You sign in with your usual account, and come back here."),
        Freshness::Fresh => {
            hidden.push(("fresh", "1"));
            let text = "What you are about to approve asks you to show again who you are. You come back here then.";
            ("Sign in again", text)
        }
    };
    let body = html! {
        p { (text) }
        (one_button("/login", &token, &hidden, heading))
    };
    let mut response = page::page(StatusCode::OK, heading, FormsLead::ToProvider, &body);
    hold(&mut response, Cookie::SignIn, &browser, &state);
    Ok(response)
}

/// `POST /login`.
pub(super) async fn begin(State(state): State<HttpState>, request: Request) -> Result<Response, Response> {
    let (parts, body) = request.into_parts();
    let scope = scope(&parts)?;
    let browser = Cookie::SignIn.secret(&parts.headers, &state.settings.public_url);
    let browser = browser.ok_or_else(|| apology(&scope, Apology::Foreign))?;
    let request = Request::from_parts(parts, body);
    let Begin { to, fresh } = read_form(request, &state, &scope, &form_key(&browser)).await?;
    admit(&state, &scope)?;
    let asked = Asked { to: Some(to), fresh };
    let address = state.app.begin_sign_in(&browser, asked.to(), asked.freshness()).await;
    let mut response = see_other(&address.map_err(|refused| not_signed_in(&state, &scope, refused))?);
    hold(&mut response, Cookie::SignIn, &browser, &state);
    Ok(response)
}

/// `GET /login/callback`. The one GET that opens a session: it is the provider's protocol, and it takes the cookie of
/// the browser that began by a POST, a `state` that was never used, and a code that the provider takes once.
pub(super) async fn back(State(state): State<HttpState>, request: Request) -> Result<Response, Response> {
    let (parts, _) = request.into_parts();
    let scope = scope(&parts)?;
    let failed = |refused| not_signed_in(&state, &scope, refused);
    let back = Query::<Back>::try_from_uri(&parts.uri).map(|Query(back)| back);
    let Back { state: returned, code, iss, error } = back.map_err(|_| failed(NotSignedIn::NotBegunHere))?;
    let browser = Cookie::SignIn.secret(&parts.headers, &state.settings.public_url);
    let returned = returned.as_deref().and_then(Secret::parse);
    let (Some(browser), Some(returned)) = (browser, returned) else {
        return Err(failed(NotSignedIn::NotBegunHere));
    };
    let code = code.filter(|code| error.is_none() && !code.is_empty() && code.len() <= LONGEST_CODE);
    let code = code.ok_or_else(|| failed(ProviderFault::Refused("the provider sent no code").into()))?;
    admit(&state, &scope)?;
    let held = session_of(&parts.headers, &state, &scope).await?;
    let answer = ProviderAnswer { code, issuer: iss };
    let held = held.map(|session| session.id);
    let finished = state.app.finish_sign_in(&browser, &returned, &answer, held, &scope.id).await.map_err(failed)?;
    let mut response = see_other(if is_local_page(&finished.to) { &finished.to } else { INBOX });
    hold(&mut response, Cookie::Session, &finished.opened.secret, &state);
    Ok(response)
}

/// The session that the browser holds and that stands.
async fn session_of(headers: &HeaderMap, state: &HttpState, scope: &RequestScope) -> Result<Option<Session>, Response> {
    let Some(secret) = Cookie::Session.secret(headers, &state.settings.public_url) else { return Ok(None) };
    let found = state.app.signed_in(&secret, &scope.id).await;
    Ok(found.map_err(|error| page::of_error(scope, error))?.map(|person| person.session))
}

/// Why nobody is signed in, as a page, with what the operator should know of it in the log.
fn not_signed_in(state: &HttpState, scope: &RequestScope, refused: NotSignedIn) -> Response {
    let apology_for = match &refused {
        NotSignedIn::NoProvider => Apology::NoProvider,
        NotSignedIn::Stranger => Apology::Stranger,
        NotSignedIn::NotBegunHere | NotSignedIn::Provider(ProviderFault::Refused(_)) => {
            state.metrics.unauthenticated(scope.method, scope.route());
            Apology::SignInFailed
        }
        NotSignedIn::Provider(ProviderFault::Unavailable(_)) => {
            tracing::error!(request_id = scope.id, cause = %refused, "nobody can sign in");
            Apology::ProviderUnavailable
        }
        NotSignedIn::Failed(error) => return page::of_error(scope, error.clone()),
    };
    tracing::info!(request_id = scope.id, cause = %refused, "a sign-in came to nothing");
    apology(scope, apology_for)
}

fn form_key(browser: &Secret) -> FormKey {
    FormKey::new(browser, "login")
}
