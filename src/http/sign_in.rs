//! The pages before a session, and the end of one: signing in, following a personal link, signing out.
//!
//! A GET or HEAD here changes nothing and tells nothing. The one exception is where the provider sends the browser back
//! to, which is a GET by its protocol; it goes on only with what the browser holds that began the sign-in by a POST.

use axum::{
    Router,
    routing::{get, post},
};

use super::state::HttpState;

mod link;
mod login;
mod out;
pub(super) mod page;

/// The routes. They are pages, and no part of the API's description.
pub(super) fn routes() -> Router<HttpState> {
    Router::new()
        .route("/login", get(login::show).post(login::begin))
        .route("/login/callback", get(login::back))
        .route("/link/{token}", get(link::show).post(link::follow))
        .route("/logout", post(out::sign_out))
        .route("/review/sessions/{id}/revoke", post(out::revoke))
}
