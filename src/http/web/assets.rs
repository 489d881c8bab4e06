//! The one stylesheet and the one script of the pages, in the binary. Their names hold their hash, so they may be kept
//! for ever.

use std::sync::LazyLock;

use axum::{
    extract::Path,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use sha2::{Digest as _, Sha256};

const STYLE: &str = include_str!("assets/review.css");
const SCRIPT: &str = include_str!("assets/review.js");

/// Where the two are.
pub(super) struct Assets {
    /// The path of the stylesheet.
    pub(super) style: String,
    /// The path of the script.
    pub(super) script: String,
}

/// Where they are in this build.
pub(super) static ASSETS: LazyLock<Assets> =
    LazyLock::new(|| Assets { style: path(STYLE, "css"), script: path(SCRIPT, "js") });

fn path(text: &str, extension: &str) -> String {
    let hash = hex::encode(Sha256::digest(text));
    let short: String = hash.chars().take(16).collect();
    format!("/review/assets/{short}.{extension}")
}

/// `GET /review/assets/{name}`: anybody may see how the pages look.
pub(super) async fn serve(Path(name): Path<String>) -> Response {
    let asked = format!("/review/assets/{name}");
    let (text, content_type) = if asked == ASSETS.style {
        (STYLE, "text/css; charset=utf-8")
    } else if asked == ASSETS.script {
        (SCRIPT, "text/javascript; charset=utf-8")
    } else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
    ];
    (headers, text).into_response()
}
