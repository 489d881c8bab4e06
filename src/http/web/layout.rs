//! What all pages have in common: the frame, the way around, who is signed in, and the headers that keep a page from
//! being framed, scripted, kept or indexed.

use axum::{
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{Html, IntoResponse, Response},
};
use maud::{DOCTYPE, Markup, html};

use super::assets::ASSETS;

/// A page's place in the way around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Here {
    /// What waits.
    Inbox,
    /// Grants.
    Grants,
    /// The log.
    Audit,
    /// Messages that could not be delivered.
    DeadLetters,
    /// The own sessions.
    Sessions,
    /// Somewhere else.
    Elsewhere,
}

/// What the frame says of whoever is signed in.
#[derive(Clone, Debug)]
pub(in crate::http) struct Frame {
    /// The name.
    pub(in crate::http) name: String,
    /// Whether more than one approval is to be seen.
    pub(in crate::http) everything: bool,
    /// Whether the log is.
    pub(in crate::http) auditor: bool,
    /// Whether what admins see is.
    pub(in crate::http) admin: bool,
    /// What forms carry so that no other page can send them.
    pub(in crate::http) form_token: String,
}

/// A page with its status.
pub(in crate::http) struct Page {
    /// The status.
    pub(in crate::http) status: StatusCode,
    /// All of it.
    pub(in crate::http) markup: Markup,
}

impl Page {
    /// A page that is what was asked for.
    pub(in crate::http) fn ok(markup: Markup) -> Self {
        Self { status: StatusCode::OK, markup }
    }
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        (self.status, Html(self.markup.into_string())).into_response()
    }
}

/// The hidden field that every form of a signed-in person has.
pub(in crate::http) fn form_token(frame: &Frame) -> Markup {
    html! { input type="hidden" name="form_token" value=(frame.form_token); }
}

/// The first submit button of a form whose own button must not answer to Enter in a field: that presses the first one
/// (HTML, implicit submission), and this one submits to a dialog, which there is none. One that is disabled would not
/// do, Chromium passes it over; nor one that is not rendered, which WebKit passes over: it is only out of sight.
pub(super) fn no_enter() -> Markup {
    html! { button.guard.sr type="submit" formmethod="dialog" formnovalidate tabindex="-1" aria-hidden="true" { "Enter sends nothing" } }
}

/// A page for somebody who is signed in.
pub(in crate::http) fn framed(frame: &Frame, here: Here, title: &str, body: Markup) -> Markup {
    let place = |place: Here, path: &str, name: &str| {
        html! { li { a href=(path) aria-current=[(place == here).then_some("page")] { (name) } } }
    };
    let top = html! {
        @if frame.everything {
            nav aria-label="Pages" {
                ul {
                    (place(Here::Inbox, "/review", "Inbox"))
                    (place(Here::Grants, "/review/grants", "Grants"))
                    @if frame.auditor { (place(Here::Audit, "/review/audit", "Audit")) }
                    @if frame.auditor || frame.admin {
                        (place(Here::DeadLetters, "/review/dead-letters", "Dead letters"))
                    }
                    (place(Here::Sessions, "/review/sessions", "Sessions"))
                }
            }
        }
        form.who action="/logout" method="post" {
            (form_token(frame))
            span { span.soft { "Signed in as " } b { (frame.name) } }
            button.plain type="submit" { "Sign out" }
        }
    };
    let rest = html! {
        link rel="icon" href="data:,";
        script src=(ASSETS.script) defer {}
    };
    document(title, top, rest, body)
}

/// A page for anybody, without the script.
pub(in crate::http) fn bare(title: &str, body: Markup) -> Markup {
    document(title, html! {}, html! {}, html! { div.alone { h1 { (title) } (body) } })
}

fn document(title: &str, top: Markup, rest: Markup, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Countersign" }
                link rel="stylesheet" href=(ASSETS.style);
                (rest)
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header.top {
                    div.wide {
                        span.mark { span.seal aria-hidden="true" {} "Countersign" }
                        (top)
                    }
                }
                main #main.wide tabindex="-1" { (body) }
                p #news.news role="status" {}
                footer.wide { p.soft { "The model proposes; it never decides." } }
            }
        }
    }
}

/// A message above a page: something was not done, and why.
pub(super) struct NotDone<'a>(pub(super) &'a str);

/// That message.
pub(super) fn not_done(NotDone(text): &NotDone<'_>) -> Markup {
    html! { div.notice.not-done role="alert" { p { b { "Not done. " } (text) } } }
}

/// The headers of every page (OWASP ASVS 5.0, 3.4).
///
/// The referrer is told to our own pages only, and not to nobody: under `no-referrer` browsers send `Origin: null` with
/// our own forms (Fetch, "append a request `Origin` header"), and those must be told from others'.
pub(in crate::http) async fn with_strict_headers(mut response: Response) -> Response {
    const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
                          connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
    let headers = response.headers_mut();
    let strict = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("x-robots-tag"), "noindex, nofollow"),
    ];
    for (name, value) in strict {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
