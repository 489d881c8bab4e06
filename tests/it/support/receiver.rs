//! The other side of a webhook: a real HTTP server on this machine that answers as it is told, and remembers.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

/// How it answers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answers {
    /// With this status.
    Status(u16),
    /// With this status, asking for so many seconds of patience.
    Patience(u16, u64),
    /// Elsewhere.
    Redirect,
}

/// What it got.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

#[derive(Default)]
struct Memory {
    answers: Mutex<VecDeque<Answers>>,
    received: Mutex<Vec<Received>>,
}

/// A receiver; it is gone when this is dropped.
pub(crate) struct Receiver {
    memory: Arc<Memory>,
    url: String,
    serving: JoinHandle<()>,
}

impl Receiver {
    /// One that answers so, in order, and 200 after that.
    pub(crate) async fn answering(answers: impl IntoIterator<Item = Answers>) -> Self {
        let memory = Arc::new(Memory { answers: Mutex::new(answers.into_iter().collect()), ..Memory::default() });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let router = Router::new().fallback(receive).with_state(Arc::clone(&memory));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { memory, url, serving }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.memory.received.lock().unwrap().clone()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn receive(State(memory): State<Arc<Memory>>, headers: HeaderMap, body: Bytes) -> Response {
    let body = String::from_utf8(body.to_vec()).unwrap();
    memory.received.lock().unwrap().push(Received { headers, body });
    match memory.answers.lock().unwrap().pop_front().unwrap_or(Answers::Status(200)) {
        Answers::Status(status) => StatusCode::from_u16(status).unwrap().into_response(),
        Answers::Patience(status, seconds) => {
            (StatusCode::from_u16(status).unwrap(), [(header::RETRY_AFTER, seconds.to_string())]).into_response()
        }
        Answers::Redirect => (StatusCode::FOUND, [(header::LOCATION, "/elsewhere")]).into_response(),
    }
}
