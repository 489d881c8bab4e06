//! The pages for people: what waits, one approval, many at once, grants, the log, sessions. Rendered here, without a
//! build step and without need of the script.
//!
//! A GET changes nothing. A POST calls one use case and leads to a GET; what could not be done is said on the very page
//! that asked for it.

use axum::{Router, extract::Request, middleware::map_response, response::Response, routing::get};

use super::{
    extract::signed_in::scope,
    sign_in::page::{Apology, apology},
    state::HttpState,
};

mod acts;
mod approval;
mod assets;
mod audit;
mod dead_letters;
mod desk;
mod grants;
mod inbox;
pub(super) mod layout;
mod many;
mod run;
mod sessions;
mod shown;
mod typed;
mod words;

/// The routes. They are pages, and no part of the API's description.
pub(super) fn routes() -> Router<HttpState> {
    Router::new()
        .merge(inbox::routes())
        .merge(approval::routes())
        .merge(acts::routes())
        .merge(many::routes())
        .merge(grants::routes())
        .merge(audit::routes())
        .merge(run::routes())
        .merge(sessions::routes())
        .merge(dead_letters::routes())
        .route("/review/{*path}", get(nothing_here))
        .method_not_allowed_fallback(forms_only)
        .layer(map_response(layout::with_strict_headers))
        .route("/review/assets/{name}", get(assets::serve))
}

/// What is no page of ours is told as a page.
async fn nothing_here(request: Request) -> Result<Response, Response> {
    apologise(request, Apology::NotFound)
}

/// An address that takes a form alone, looked at: a bookmark, or a reload after a sign-in.
async fn forms_only(request: Request) -> Result<Response, Response> {
    apologise(request, Apology::FormsOnly)
}

#[expect(clippy::result_large_err, reason = "both are the answer")]
fn apologise(request: Request, what: Apology) -> Result<Response, Response> {
    let (parts, _) = request.into_parts();
    Ok(apology(&*scope(&parts)?, what))
}
