//! What the pages before a session look like, and every apology instead of a page. They hold no word of anybody else's.

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{Html, IntoResponse, Response},
};
use maud::{Markup, html};
use url::form_urlencoded;

use crate::{
    app::{error::Error, ports::StoreError},
    http::{extract::signed_in::FORM_TOKEN, layers::RequestScope, state::HttpState, web::layout::bare},
};

/// Where forms of a page may lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum FormsLead {
    /// To this service alone.
    Here,
    /// On to the sign-in provider: browsers hold a redirect after a form against the same list, and what the provider
    /// redirects to as well.
    ToProvider,
}

/// Why there is no page. None of these tells anything of what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Apology {
    /// Nobody is signed in.
    NotSignedIn,
    /// The form comes from a page of somebody else.
    Elsewhere,
    /// The form has no token of this session.
    Foreign,
    /// It was sent within a second.
    TooSoon,
    /// It was left lying for half a day.
    TooOld,
    /// It is no form, or not the form of this page.
    NotAForm,
    /// The form is too large.
    TooLarge,
    /// Too many requests of this session.
    TooMany,
    /// The link opens nothing.
    LinkSpent,
    /// There is nothing here that this session may see.
    NotFound,
    /// Only a form leads here.
    FormsOnly,
    /// The provider's answer belongs to no sign-in of this browser, or is not what it should be.
    SignInFailed,
    /// The provider knows the person, and this installation does not.
    Stranger,
    /// There is no provider to sign in at.
    NoProvider,
    /// The provider does not answer.
    ProviderUnavailable,
    /// The service could not do it now.
    Unavailable,
    /// The service has a fault.
    Fault,
}

impl Apology {
    /// The status, the reason for the log, the heading, and what to do.
    const fn parts(self) -> (StatusCode, &'static str, &'static str, &'static str) {
        match self {
            Self::NotSignedIn => (
                StatusCode::FORBIDDEN,
                "not_signed_in",
                "You are not signed in",
                "Nothing was done. Sign in, look at the page again, and send it then.",
            ),
            Self::Elsewhere => (
                StatusCode::FORBIDDEN,
                "form_from_elsewhere",
                "This did not come from our page",
                "Nothing was done. Open the page here and send it from there.",
            ),
            Self::Foreign => (
                StatusCode::FORBIDDEN,
                "form_foreign",
                "This page is from before",
                "Nothing was done: the page was made for another session. Open it again and send it then.",
            ),
            Self::TooSoon => (
                StatusCode::TOO_EARLY,
                "form_too_soon",
                "That was faster than anyone reads",
                "Nothing was done. Go back, look at the page, and try again.",
            ),
            Self::TooOld => (
                StatusCode::FORBIDDEN,
                "form_too_old",
                "This page is from before",
                "Nothing was done: the page was open for too long. Open it again and send it then.",
            ),
            Self::NotAForm => (
                StatusCode::BAD_REQUEST,
                "form_invalid",
                "This is not what the page sends",
                "Nothing was done. Open the page again and send it then.",
            ),
            Self::TooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "form_too_large",
                "That is too much text",
                "Nothing was done. Go back and shorten it.",
            ),
            Self::TooMany => (
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_requests",
                "That was too much at once",
                "Nothing was done. Wait a moment and try again.",
            ),
            Self::LinkSpent => (
                StatusCode::GONE,
                "link_spent",
                "This link does not open anything any more",
                "A personal link works once, and only while its approval waits. If you can sign in here, do that instead.",
            ),
            Self::NotFound => (
                StatusCode::NOT_FOUND,
                "not_found",
                "There is nothing here",
                "There is nothing under this address that you may see.",
            ),
            Self::FormsOnly => (
                StatusCode::METHOD_NOT_ALLOWED,
                "form_expected",
                "There is nothing to look at here",
                "Only the form of a page leads here. Nothing was done; go to the inbox and open the approval again.",
            ),
            Self::SignInFailed => (
                StatusCode::FORBIDDEN,
                "sign_in_failed",
                "You could not be signed in",
                "What came back does not belong to a sign-in of this browser. Begin again.",
            ),
            Self::Stranger => (
                StatusCode::FORBIDDEN,
                "sign_in_stranger",
                "You are not a reviewer here",
                "The sign-in worked, and nobody with this account may review anything here. Whoever runs this \
                 installation can add you.",
            ),
            Self::NoProvider => (
                StatusCode::NOT_FOUND,
                "sign_in_nowhere",
                "There is no sign-in here",
                "This installation has no sign-in provider. Use the personal link that was sent to you; `countersign \
                 dev` prints one when it starts.",
            ),
            Self::ProviderUnavailable => (
                StatusCode::BAD_GATEWAY,
                "provider_unavailable",
                "The sign-in does not answer",
                "The sign-in provider does not answer as it should. Nothing was done; try again in a moment.",
            ),
            Self::Unavailable => (
                StatusCode::SERVICE_UNAVAILABLE,
                "unavailable",
                "Not now",
                "The service could not do it now, and nothing was permitted. Look at the page again to see what was done.",
            ),
            Self::Fault => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal",
                "Something is broken here",
                "The service has a fault; its log tells more. Nothing was permitted.",
            ),
        }
    }
}

/// An apology, and a line of it in the log.
pub(in crate::http) fn apology(scope: &RequestScope, apology: Apology) -> Response {
    let (status, reason, heading, text) = apology.parts();
    tracing::info!(
        request_id = scope.id,
        method = scope.method,
        route = scope.route(),
        status = status.as_u16(),
        reason,
        actor = scope.actor.get(),
        "refused"
    );
    let to_sign_in = match apology {
        Apology::NotSignedIn
        | Apology::LinkSpent
        | Apology::SignInFailed
        | Apology::Stranger
        | Apology::ProviderUnavailable => true,
        Apology::Elsewhere
        | Apology::Foreign
        | Apology::TooSoon
        | Apology::TooOld
        | Apology::NotAForm
        | Apology::TooLarge
        | Apology::TooMany
        | Apology::NotFound
        | Apology::FormsOnly
        | Apology::NoProvider
        | Apology::Unavailable
        | Apology::Fault => false,
    };
    let body = html! {
        p { (text) }
        @if to_sign_in { p { a href="/login" { "Sign in" } } }
        p { small { "Request " (scope.id) } }
    };
    page(status, heading, FormsLead::Here, &body)
}

/// What a use case answered instead, as a page.
pub(in crate::http) fn of_error(scope: &RequestScope, error: Error) -> Response {
    if matches!(error, Error::NotFound) {
        return apology(scope, Apology::NotFound);
    }
    if matches!(error, Error::KeyRevoked) {
        return apology(scope, Apology::NotSignedIn);
    }
    tracing::error!(request_id = scope.id, cause = %error, "a request failed");
    let now = matches!(
        error,
        Error::Store(StoreError::Unavailable(_) | StoreError::CommitUnknown(_) | StoreError::Contended(_))
    );
    apology(scope, if now { Apology::Unavailable } else { Apology::Fault })
}

/// Lets somebody whom nobody knows yet have something written, unless too many do.
#[expect(clippy::result_large_err, reason = "every caller answers with the page as it is, and once")]
pub(super) fn admit(state: &HttpState, scope: &RequestScope) -> Result<(), Response> {
    if state.strangers.admit() { Ok(()) } else { Err(apology(scope, Apology::TooMany)) }
}

/// The answer where not even the request's scope is known.
pub(in crate::http) fn without_scope() -> Response {
    StatusCode::INTERNAL_SERVER_ERROR.into_response()
}

/// Leads to the sign-in, and from there to `to`.
pub(in crate::http) fn to_sign_in(to: &str) -> Response {
    see_other(&sign_in_address(to))
}

/// The address of the sign-in that leads to `to`.
fn sign_in_address(to: &str) -> String {
    let query = form_urlencoded::Serializer::new(String::new()).append_pair("to", to).finish();
    format!("/login?{query}")
}

/// Leads elsewhere, by a GET.
pub(in crate::http) fn see_other(address: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    match HeaderValue::from_str(address) {
        Ok(address) => {
            response.headers_mut().insert(header::LOCATION, address);
            response
        }
        Err(_) => without_scope(),
    }
}

/// A form with nothing but one button, which is the whole page.
pub(in crate::http) fn one_button(action: &str, token: &str, hidden: &[(&str, &str)], button: &str) -> Markup {
    html! {
        form method="post" action=(action) {
            input type="hidden" name=(FORM_TOKEN) value=(token);
            @for (name, value) in hidden { input type="hidden" name=(name) value=(value); }
            button type="submit" { (button) }
        }
    }
}

/// A page.
pub(in crate::http) fn page(status: StatusCode, heading: &str, forms: FormsLead, body: &Markup) -> Response {
    let markup = bare(heading, body.clone());
    let mut response = (status, Html(markup.into_string())).into_response();
    protect(response.headers_mut(), forms);
    response
}

/// The headers of a page that shows nothing of anybody else's, loads nothing, and stands in no frame.
fn protect(headers: &mut HeaderMap, forms: FormsLead) {
    let policy = match forms {
        FormsLead::Here => {
            "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        }
        FormsLead::ToProvider => "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'",
    };
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("x-robots-tag"), "noindex"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
