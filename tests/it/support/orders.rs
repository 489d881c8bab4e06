//! The orders service of a shop: a real HTTP server on this machine that lookups ask.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

/// What it does with a request.
#[derive(Clone)]
pub(crate) enum Does {
    /// Answers 200 with this JSON.
    Answers(Value),
    /// Answers with this status and text.
    Says(u16, String),
    /// Sends elsewhere.
    Redirects(String),
    /// Never answers.
    Hangs,
}

/// A request it got.
#[derive(Clone, Debug)]
pub(crate) struct Got {
    pub(crate) method: Method,
    /// Path and query as they came.
    pub(crate) target: String,
    pub(crate) authorization: Option<String>,
    pub(crate) body: String,
}

#[derive(Default)]
struct Inside {
    does: BTreeMap<String, Does>,
    got: Vec<Got>,
}

/// The server; it ends with the test.
pub(crate) struct Orders {
    inside: Arc<Mutex<Inside>>,
    port: u16,
    serving: JoinHandle<()>,
}

impl Orders {
    pub(crate) async fn start() -> Self {
        let inside: Arc<Mutex<Inside>> = Arc::default();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&inside));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { inside, port, serving }
    }

    /// Its address, without a slash at the end.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The same, by a name that leads to this machine.
    pub(crate) fn url_by_name(&self) -> String {
        format!("http://localhost:{}", self.port)
    }

    /// From now on it does this with requests for `path`; others are not found.
    pub(crate) fn does(&self, path: &str, does: Does) {
        self.inside.lock().unwrap().does.insert(path.to_owned(), does);
    }

    /// Every request so far.
    pub(crate) fn got(&self) -> Vec<Got> {
        self.inside.lock().unwrap().got.clone()
    }
}

impl Drop for Orders {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(
    State(inside): State<Arc<Mutex<Inside>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let does = {
        let mut inside = inside.lock().unwrap();
        inside.got.push(Got {
            method,
            target: uri.to_string(),
            authorization: headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned()),
            body: String::from_utf8(body.to_vec()).unwrap(),
        });
        inside.does.get(uri.path()).cloned()
    };
    match does {
        None => StatusCode::NOT_FOUND.into_response(),
        Some(Does::Answers(json)) => axum::Json(json).into_response(),
        Some(Does::Says(status, text)) => (StatusCode::from_u16(status).unwrap(), text).into_response(),
        Some(Does::Redirects(to)) => (StatusCode::FOUND, [(header::LOCATION, to)]).into_response(),
        Some(Does::Hangs) => std::future::pending().await,
    }
}
