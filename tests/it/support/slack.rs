//! A stand-in for Slack: a real HTTP server on this machine that takes what is posted, answers as it is told to, and
//! remembers; and what Slack would send when people click there.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use countersign::{
    channels::slack::{
        ATTEMPT, SlackClient, SlackCourier, SlackDoors, SlackEntry, message::Clicks, signature::SigningSecret,
    },
    domain::{identity::ChannelName, time::Timestamp},
    outbound::{Credentials, Outbound},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle, time::timeout};

/// The team, the app, the channel and the entry of `[channels]` that tests are about.
pub(crate) const TEAM: &str = "T0TEAM";
pub(crate) const APP: &str = "A0APP";
pub(crate) const CHANNEL: &str = "C0CHANNEL";
pub(crate) const ENTRY: &str = "finance-chat";

/// The secret that requests are signed with.
pub(crate) const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";

/// The bot's token.
pub(crate) const TOKEN: &str = "xoxb-1-2-three";

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// What it answers instead of yes.
#[derive(Clone, Debug)]
pub(crate) enum Says {
    /// A status.
    Status(u16),
    /// 429, and after how many seconds to come again.
    Patience(u64),
    /// `ok: false`, with this error.
    Error(&'static str),
    /// Nothing, ever.
    Hangs,
}

/// A call of a method, or something written to an address for answers.
#[derive(Clone, Debug)]
pub(crate) struct Called {
    /// `chat.postMessage`, or the path of an address for answers.
    pub(crate) method: String,
    pub(crate) authorization: Option<String>,
    pub(crate) body: Value,
}

#[derive(Default)]
struct Inside {
    says: BTreeMap<String, VecDeque<Says>>,
    always: Option<Says>,
    called: Vec<Called>,
    posted: u32,
}

/// The server; it ends with the test.
pub(crate) struct Slack {
    inside: Arc<Mutex<Inside>>,
    calls: watch::Receiver<usize>,
    port: u16,
    serving: JoinHandle<()>,
}

#[derive(Clone)]
struct Shared(Arc<Mutex<Inside>>, Arc<watch::Sender<usize>>);

impl Slack {
    pub(crate) async fn start() -> Self {
        let inside: Arc<Mutex<Inside>> = Arc::default();
        let (sender, calls) = watch::channel(0);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Shared(Arc::clone(&inside), Arc::new(sender));
        let router = Router::new().fallback(answer).with_state(shared);
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { inside, calls, port, serving }
    }

    /// Its API.
    pub(crate) fn api_url(&self) -> String {
        format!("http://127.0.0.1:{}/api", self.port)
    }

    /// Where whoever clicks is answered.
    pub(crate) fn response_url(&self) -> String {
        format!("http://127.0.0.1:{}/actions/T0TEAM/1/xyz", self.port)
    }

    /// The next call of this method is answered so, and the one behind it as the next of these.
    pub(crate) fn says(&self, method: &str, says: impl IntoIterator<Item = Says>) {
        self.inside.lock().unwrap().says.entry(method.to_owned()).or_default().extend(says);
    }

    /// Every call is answered so, until this is taken back.
    pub(crate) fn always_says(&self, says: Option<Says>) {
        self.inside.lock().unwrap().always = says;
    }

    /// Every call so far.
    pub(crate) fn called(&self) -> Vec<Called> {
        self.inside.lock().unwrap().called.clone()
    }

    /// The bodies of the calls of this method so far.
    pub(crate) fn bodies(&self, method: &str) -> Vec<Value> {
        self.called().into_iter().filter(|call| call.method == method).map(|call| call.body).collect()
    }

    /// The `nth` call of this method, once it has come.
    pub(crate) async fn nth(&self, method: &str, nth: usize) -> Value {
        let mut calls = self.calls.clone();
        let there = calls.wait_for(|_| self.bodies(method).len() > nth);
        drop(timeout(PATIENCE, there).await.unwrap_or_else(|_| panic!("no call {nth} of {method}")).unwrap());
        self.bodies(method)[nth].clone()
    }

    /// The `nth` word to whoever clicked, once it has come.
    pub(crate) async fn whispered(&self, nth: usize) -> String {
        let body = self.nth("/actions/T0TEAM/1/xyz", nth).await;
        assert_eq!(body["response_type"], "ephemeral");
        assert_eq!(body["replace_original"], false);
        body["blocks"][0]["text"]["text"].as_str().unwrap().to_owned()
    }

    /// The app, as it speaks to this server.
    pub(crate) fn client(&self) -> SlackClient {
        SlackClient {
            outbound: Outbound::new(Arc::new(Credentials::default())),
            api_url: self.api_url(),
            token: Arc::from(TOKEN),
            allow_private: true,
            patience: ATTEMPT,
        }
    }

    /// What posts into the channel.
    pub(crate) fn courier(&self, clicks: Clicks) -> SlackCourier {
        SlackCourier { client: self.client(), channel: CHANNEL.to_owned(), clicks }
    }

    /// What its requests are verified with.
    pub(crate) fn doors(&self) -> SlackDoors {
        SlackDoors::new([(SECRET.to_owned(), self.entry())])
    }

    /// The entry of the channel.
    pub(crate) fn entry(&self) -> SlackEntry {
        SlackEntry {
            name: ChannelName::parse(ENTRY).unwrap(),
            team: TEAM.to_owned(),
            app: Some(APP.to_owned()),
            channel: CHANNEL.to_owned(),
            client: self.client(),
        }
    }

    /// What Slack sends when `user` clicks on the button of this action below a message with these blocks.
    pub(crate) fn click(&self, user: &str, blocks: &Value, action: &str) -> Value {
        let button = button(blocks, action).unwrap_or_else(|| panic!("no {action} in {blocks}"));
        json!({
            "type": "block_actions",
            "user": { "id": user, "username": "x", "name": "x", "team_id": TEAM },
            "api_app_id": APP,
            "token": "verification_token",
            "container": { "type": "message", "message_ts": "1.1", "channel_id": CHANNEL, "is_ephemeral": false },
            "trigger_id": "111.222.valid",
            "team": { "id": TEAM, "domain": "acme" },
            "channel": { "id": CHANNEL, "name": "finance" },
            "response_url": self.response_url(),
            "actions": [{
                "action_id": action,
                "block_id": "d.1",
                "text": button["text"],
                "value": button["value"],
                "type": "button",
                "action_ts": "1596530385.194939",
            }],
        })
    }
}

/// What Slack sends when `user` sends this dialog with what was typed into it.
pub(crate) fn submission(user: &str, view: &Value, typed: &[(&str, &str)]) -> Value {
    let values: serde_json::Map<String, Value> = typed
        .iter()
        .map(|(block, text)| ((*block).to_owned(), json!({ "text": { "type": "plain_text_input", "value": text } })))
        .collect();
    json!({
        "type": "view_submission",
        "user": { "id": user, "username": "x", "team_id": TEAM },
        "api_app_id": APP,
        "team": { "id": TEAM, "domain": "acme" },
        "trigger_id": "111.333.valid",
        "view": {
            "id": "V1",
            "type": "modal",
            "callback_id": view["callback_id"],
            "private_metadata": view["private_metadata"],
            "state": { "values": values },
        },
    })
}

/// The button of this action, if there is one.
pub(crate) fn button(blocks: &Value, action: &str) -> Option<Value> {
    let blocks = blocks.as_array().unwrap();
    let elements = blocks.iter().filter_map(|block| block["elements"].as_array()).flatten();
    elements.into_iter().find(|element| element["action_id"] == action).cloned()
}

/// Everything that a message shows, a line for each text.
pub(crate) fn shown(blocks: &Value) -> String {
    let mut texts = Vec::new();
    collect(blocks, &mut texts);
    texts.join("\n")
}

fn collect(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, texts)),
        Value::Object(object) => {
            if object.get("type") == Some(&json!("plain_text")) {
                texts.push(object["text"].as_str().unwrap().to_owned());
            }
            object.values().for_each(|value| collect(value, texts));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The body of a request with this payload.
pub(crate) fn form(payload: &Value) -> Vec<u8> {
    url::form_urlencoded::Serializer::new(String::new())
        .append_pair("payload", &payload.to_string())
        .finish()
        .into_bytes()
}

/// The time and the signature of a body that Slack sends at `at`.
pub(crate) fn signed(secret: &str, body: &[u8], at: Timestamp) -> [(&'static str, String); 2] {
    let timestamp = at.as_micros().div_euclid(1_000_000).to_string();
    let signature = SigningSecret::new(secret).sign(&timestamp, body);
    [("x-slack-request-timestamp", timestamp), ("x-slack-signature", signature)]
}

impl Drop for Slack {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(State(Shared(inside, calls)): State<Shared>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let path = uri.path();
    let method = path.strip_prefix("/api/").unwrap_or(path).to_owned();
    let (says, number) = {
        let mut inside = inside.lock().unwrap();
        assert!(headers[header::CONTENT_TYPE].to_str().unwrap().starts_with("application/json"));
        inside.called.push(Called {
            method: method.clone(),
            authorization: headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned()),
            body: serde_json::from_slice(&body).unwrap(),
        });
        let says = inside.says.get_mut(&method).and_then(VecDeque::pop_front).or_else(|| inside.always.clone());
        inside.posted += u32::from(says.is_none());
        (says, inside.posted)
    };
    calls.send_modify(|count| *count += 1);
    match says {
        None => {
            Json(json!({ "ok": true, "channel": CHANNEL, "ts": format!("1700000000.{number:06}") })).into_response()
        }
        Some(Says::Status(status)) => StatusCode::from_u16(status).unwrap().into_response(),
        Some(Says::Patience(seconds)) => {
            let headers = [(header::RETRY_AFTER, seconds.to_string())];
            (StatusCode::TOO_MANY_REQUESTS, headers, Json(json!({ "ok": false, "error": "ratelimited" })))
                .into_response()
        }
        Some(Says::Error(error)) => Json(json!({ "ok": false, "error": error })).into_response(),
        Some(Says::Hangs) => std::future::pending().await,
    }
}
