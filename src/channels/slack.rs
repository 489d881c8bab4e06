//! Slack: posts cards with buttons and keeps them true, or only a link where there is nothing but an incoming webhook.
//! It knows how Slack is spoken to and how its answers are meant, and not what a click leads to.
//!
//! Slack takes no idempotency key. A message whose answer was lost may stand there twice; each copy names the same
//! notice in its metadata, and the buttons of both lead to the same approval, which is decided once.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use url::Url;

use super::{by_status, unsent};
use crate::{
    app::ports::{Card, Courier, Delivery, Dispatch},
    domain::{identity::ChannelName, ids::NoticeId, notice::NoticeEvent},
    outbound::{Answer, Method, Outbound, Request, SendFailure},
};

pub mod escape;
pub mod interaction;
pub mod message;
pub mod signature;
pub mod view;

use message::{Clicks, Message};
use signature::SigningSecret;

/// How long one attempt may take, with everything that is tried in it: less than the ten seconds that couriers have.
pub const ATTEMPT: Duration = Duration::from_millis(9_500);

/// How long opening a dialog, or a word to one person, may take.
const FOLLOW_UP: Duration = Duration::from_secs(5);

/// The longest answer that is read. It repeats the message.
const MOST_BYTES: usize = 256 * 1024;

/// The name under which a message says which notice it is.
const METADATA: &str = "countersign_notice";

/// Where posted messages stand in Slack.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Place {
    channel: String,
    ts: String,
}

/// An app in one team, which may post and open dialogs.
#[derive(Clone)]
pub struct SlackClient {
    /// The client.
    pub outbound: Outbound,
    /// Slack's API, without a slash at its end.
    pub api_url: String,
    /// The bot's token.
    pub token: Arc<str>,
    /// Whether the API may be at a private address.
    pub allow_private: bool,
    /// How long one attempt to deliver may take: [`ATTEMPT`].
    pub patience: Duration,
}

/// Why Slack did not do what it was asked.
enum Trouble {
    /// It may later.
    Later { after: Option<Duration>, fault: String },
    /// It says why not.
    Says(String),
    /// It cannot be asked.
    Never(String),
}

#[derive(Deserialize)]
struct Reply {
    ok: bool,
    error: Option<String>,
    channel: Option<String>,
    ts: Option<String>,
}

impl SlackClient {
    /// Calls a method of the Web API.
    async fn call(&self, method: &str, body: &Value, timeout: Duration) -> Result<Reply, Trouble> {
        let request = self.request(format!("{}/{method}", self.api_url), body, timeout);
        let request = Request { bearer: Some(Arc::clone(&self.token)), ..request };
        read(self.outbound.send(request).await)
    }

    fn request(&self, url: String, body: &Value, timeout: Duration) -> Request {
        Request {
            method: Method::POST,
            url,
            bearer: None,
            headers: Vec::new(),
            body: Some(("application/json; charset=utf-8", body.to_string().into_bytes())),
            timeout,
            most_bytes: MOST_BYTES,
            allow_private: self.allow_private,
        }
    }

    /// Opens a dialog for whoever clicked, within three seconds of the click; whether it opened.
    pub async fn open(&self, trigger: &str, view: &Value) -> bool {
        let body = json!({ "trigger_id": trigger, "view": view });
        let opened = self.call("views.open", &body, FOLLOW_UP).await;
        if let Err(trouble) = &opened {
            tracing::warn!(fault = trouble.fault(), "a dialog was not opened in Slack");
        }
        opened.is_ok()
    }

    /// Tells one person something, where the answer to an own click belongs. An address that is not Slack's is not
    /// written to.
    pub async fn say_privately(&self, response_url: &str, text: &str) {
        if !self.is_slacks(response_url) {
            tracing::warn!("a click names an address for its answer that is not Slack's");
            return;
        }
        let body = json!({
            "response_type": "ephemeral",
            "replace_original": false,
            "text": escape::escaped(text),
            "blocks": [{ "type": "section", "text": escape::plain(text, escape::LONGEST_SECTION) }],
        });
        let sent = self.outbound.send(self.request(response_url.to_owned(), &body, FOLLOW_UP)).await;
        match sent.map(|answer| by_status(&answer)) {
            Ok(Delivery::Done { .. }) => {}
            Ok(Delivery::Later { fault, .. } | Delivery::Refused { fault } | Delivery::Gone { fault }) => {
                tracing::warn!(%fault, "an answer to a click did not reach Slack");
            }
            Err(failure) => tracing::warn!(fault = %failure, "an answer to a click did not reach Slack"),
        }
    }

    /// Whether an address is one of Slack's for answers: `hooks.` and the host of the API, or that host itself, where
    /// it is reached like the API.
    fn is_slacks(&self, address: &str) -> bool {
        let (Ok(address), Ok(api)) = (Url::parse(address), Url::parse(&self.api_url)) else { return false };
        let (Some(host), Some(api_host)) = (address.host_str(), api.host_str()) else { return false };
        let same_way = address.scheme() == api.scheme()
            && address.port_or_known_default() == api.port_or_known_default()
            && address.username().is_empty()
            && address.password().is_none();
        same_way && (host == api_host || host.strip_prefix("hooks.") == Some(api_host))
    }
}

impl Trouble {
    fn fault(&self) -> String {
        match self {
            Self::Later { fault, .. } | Self::Never(fault) => fault.clone(),
            Self::Says(error) => format!("answered {error}"),
        }
    }

    /// Whether the message itself is what Slack does not take.
    fn is_about_the_message(&self) -> bool {
        let Self::Says(error) = self else { return false };
        matches!(
            error.as_str(),
            "invalid_blocks"
                | "invalid_blocks_format"
                | "msg_blocks_too_long"
                | "msg_too_long"
                | "msg_too_large"
                | "no_text"
                | "invalid_arguments"
                | "invalid_metadata_format"
                | "invalid_metadata_schema"
                | "metadata_too_large"
                | "markdown_text_conflict"
        )
    }

    fn is(&self, errors: &[&str]) -> bool {
        matches!(self, Self::Says(error) if errors.contains(&error.as_str()))
    }
}

impl From<Trouble> for Delivery {
    fn from(trouble: Trouble) -> Self {
        let fault = trouble.fault();
        match trouble {
            Trouble::Later { after, .. } => Self::Later { after, fault },
            Trouble::Says(_) | Trouble::Never(_) => Self::Refused { fault },
        }
    }
}

/// What an answer of the Web API means.
fn read(sent: Result<Answer, SendFailure>) -> Result<Reply, Trouble> {
    /// Errors that go away by themselves.
    const PASSING: [&str; 8] = [
        "ratelimited",
        "rate_limited",
        "message_limit_exceeded",
        "internal_error",
        "fatal_error",
        "service_unavailable",
        "request_timeout",
        "team_added_to_org",
    ];
    let answer = match sent {
        Ok(answer) => answer,
        Err(failure) => {
            return Err(match unsent(failure) {
                Delivery::Later { after, fault } => Trouble::Later { after, fault },
                Delivery::Refused { fault } | Delivery::Gone { fault } => Trouble::Never(fault),
                Delivery::Done { .. } => Trouble::Never(failure.to_string()),
            });
        }
    };
    let (after, status) = (answer.retry_after, answer.status);
    if status != 200 {
        return Err(Trouble::Later { after, fault: format!("answered {status}") });
    }
    let Ok(reply) = serde_json::from_slice::<Reply>(&answer.body) else {
        return Err(Trouble::Later { after, fault: "answered with something else than JSON of Slack".to_owned() });
    };
    if reply.ok {
        return Ok(reply);
    }
    let error: String =
        reply.error.unwrap_or_default().chars().filter(|c| c.is_ascii_lowercase() || *c == '_').take(60).collect();
    if PASSING.contains(&error.as_str()) {
        return Err(Trouble::Later { after, fault: format!("answered {error}") });
    }
    Err(Trouble::Says(error))
}

/// Posts into one channel with a bot's token.
pub struct SlackCourier {
    /// The app.
    pub client: SlackClient,
    /// The channel's id.
    pub channel: String,
    /// Whether clicks there come to anything.
    pub clicks: Clicks,
}

#[async_trait]
impl Courier for SlackCourier {
    async fn deliver(&self, dispatch: &Dispatch) -> Delivery {
        let deadline = Instant::now() + self.client.patience;
        match dispatch {
            Dispatch::Event { .. } => Delivery::Refused { fault: "people are sent cards, and no events".to_owned() },
            Dispatch::Card { id, event, card, posted, .. } => {
                let mark = id.to_string();
                let place = posted.as_deref().map(place);
                match (event, place) {
                    (NoticeEvent::Reminder | NoticeEvent::Escalated, Some(Some(place))) => {
                        self.remind(*id, *event, card, place, deadline).await
                    }
                    (_, Some(Some(place))) => {
                        let bare = || message::bare_card(card, &mark);
                        self.change(message::card(card, self.clicks, &mark), bare, place, deadline).await
                    }
                    (_, None | Some(None)) => self.post_card(*id, card, deadline).await,
                }
            }
            Dispatch::Digest { id, cards, inbox, posted, .. } => {
                let mark = id.to_string();
                let full = message::digest(cards, inbox, &mark);
                let bare = || message::bare_digest(cards, inbox, &mark);
                match posted.as_deref().and_then(place) {
                    Some(place) => self.change(full, bare, place, deadline).await,
                    None => self.post(*id, full, bare, deadline).await,
                }
            }
        }
    }
}

impl SlackCourier {
    async fn post_card(&self, id: NoticeId, card: &Card, deadline: Instant) -> Delivery {
        let mark = id.to_string();
        self.post(id, message::card(card, self.clicks, &mark), || message::bare_card(card, &mark), deadline).await
    }

    /// Posts a message, or the little that Slack takes when it does not take this one.
    async fn post(&self, id: NoticeId, full: Message, bare: impl Fn() -> Message, deadline: Instant) -> Delivery {
        let mut posted = self.client.call("chat.postMessage", &self.posting(id, full), left(deadline)).await;
        if let Err(trouble) = &posted
            && trouble.is_about_the_message()
        {
            tracing::warn!(notice = %id, fault = trouble.fault(), "Slack does not take a message: a bare one is posted");
            posted = self.client.call("chat.postMessage", &self.posting(id, bare()), left(deadline)).await;
        }
        match posted {
            Ok(reply) => Delivery::Done { place: self.place_of(reply) },
            Err(trouble) => trouble.into(),
        }
    }

    /// Changes a message. One that is not there any more needs no change.
    async fn change(&self, full: Message, bare: impl Fn() -> Message, place: Place, deadline: Instant) -> Delivery {
        let mut changed = self.client.call("chat.update", &changing(&place, full), left(deadline)).await;
        if let Err(trouble) = &changed
            && trouble.is_about_the_message()
        {
            tracing::warn!(fault = trouble.fault(), "Slack does not take a change of a message: a bare one is made");
            changed = self.client.call("chat.update", &changing(&place, bare()), left(deadline)).await;
        }
        match changed {
            Ok(_) => Delivery::Done { place: serde_json::to_string(&place).ok() },
            Err(trouble) if trouble.is(&["message_not_found"]) => Delivery::Done { place: None },
            Err(trouble) => trouble.into(),
        }
    }

    /// Answers the own message, so that the channel sees it again. The message itself stays the one that is changed.
    async fn remind(&self, id: NoticeId, event: NoticeEvent, card: &Card, place: Place, deadline: Instant) -> Delivery {
        let mut body = self.posting(id, message::reminder(card, event, &id.to_string()));
        if let Some(body) = body.as_object_mut() {
            body.insert("channel".to_owned(), place.channel.clone().into());
            body.insert("thread_ts".to_owned(), place.ts.clone().into());
            body.insert("reply_broadcast".to_owned(), true.into());
        }
        match self.client.call("chat.postMessage", &body, left(deadline)).await {
            Ok(_) => Delivery::Done { place: serde_json::to_string(&place).ok() },
            // There is nothing to answer any more, or not by us.
            Err(trouble)
                if trouble.is(&[
                    "thread_not_found",
                    "message_not_found",
                    "cannot_reply_to_message",
                    "restricted_action_thread_locked",
                ]) || trouble.is_about_the_message() =>
            {
                self.post_card(id, card, deadline).await
            }
            Err(trouble) => trouble.into(),
        }
    }

    fn posting(&self, id: NoticeId, message: Message) -> Value {
        let Message { text, blocks } = message;
        json!({
            "channel": self.channel,
            "text": text,
            "blocks": blocks,
            "mrkdwn": false,
            "parse": "none",
            "link_names": false,
            "unfurl_links": false,
            "unfurl_media": false,
            "metadata": { "event_type": METADATA, "event_payload": { "notice": id } },
        })
    }

    fn place_of(&self, reply: Reply) -> Option<String> {
        let channel = reply.channel.unwrap_or_else(|| self.channel.clone());
        serde_json::to_string(&Place { channel, ts: reply.ts? }).ok()
    }
}

fn changing(place: &Place, message: Message) -> Value {
    let Message { text, blocks } = message;
    json!({
        "channel": place.channel,
        "ts": place.ts,
        "text": text,
        "blocks": blocks,
        "parse": "none",
        "link_names": false,
    })
}

fn place(text: &str) -> Option<Place> {
    serde_json::from_str(text).ok()
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(100))
}

/// Posts a link into one channel, by the address of an incoming webhook. What it posted it cannot change.
pub struct SlackWebhookCourier {
    /// The client.
    pub outbound: Outbound,
    /// The webhook's address, which is its secret.
    pub url: Arc<str>,
    /// Whether it may be a private one.
    pub allow_private: bool,
}

#[async_trait]
impl Courier for SlackWebhookCourier {
    async fn deliver(&self, dispatch: &Dispatch) -> Delivery {
        let full = match dispatch {
            Dispatch::Event { .. } => {
                return Delivery::Refused { fault: "people are sent cards, and no events".to_owned() };
            }
            Dispatch::Card { id, event: event @ (NoticeEvent::Reminder | NoticeEvent::Escalated), card, .. } => {
                message::reminder(card, *event, &id.to_string())
            }
            Dispatch::Card { id, card, .. } => message::card(card, Clicks::Nobodys, &id.to_string()),
            Dispatch::Digest { id, cards, inbox, .. } => message::digest(cards, inbox, &id.to_string()),
        };
        let mut sent = self.send(full).await;
        if sent.as_ref().is_ok_and(|answer| answer.status == 400) {
            let bare = match dispatch {
                Dispatch::Card { id, card, .. } => Some(message::bare_card(card, &id.to_string())),
                Dispatch::Digest { id, cards, inbox, .. } => Some(message::bare_digest(cards, inbox, &id.to_string())),
                Dispatch::Event { .. } => None,
            };
            if let Some(bare) = bare {
                sent = self.send(bare).await;
            }
        }
        match sent {
            Ok(answer) => by_webhook_status(&answer),
            Err(failure) => unsent(failure),
        }
    }
}

impl SlackWebhookCourier {
    async fn send(&self, message: Message) -> Result<Answer, SendFailure> {
        let Message { text, blocks } = message;
        let body = json!({
            "text": text,
            "blocks": blocks,
            "mrkdwn": false,
            "unfurl_links": false,
            "unfurl_media": false,
        });
        let request = Request {
            method: Method::POST,
            url: self.url.to_string(),
            bearer: None,
            headers: Vec::new(),
            body: Some(("application/json; charset=utf-8", body.to_string().into_bytes())),
            timeout: ATTEMPT / 2,
            most_bytes: MOST_BYTES,
            allow_private: self.allow_private,
        };
        self.outbound.send(request).await
    }
}

/// What an incoming webhook means by its answer: 400, 403 and 404 stay what they are until somebody mends something.
fn by_webhook_status(answer: &Answer) -> Delivery {
    match answer.status {
        400 | 403 | 404 => Delivery::Refused { fault: format!("answered {}", answer.status) },
        _ => by_status(answer),
    }
}

/// An entry of `[channels]` whose buttons may be clicked.
pub struct SlackEntry {
    /// Its name.
    pub name: ChannelName,
    /// The team.
    pub team: String,
    /// The app; clicks from another one are refused.
    pub app: Option<String>,
    /// The channel's id.
    pub channel: String,
    /// The app's way to Slack.
    pub client: SlackClient,
}

/// One signing secret, and the entries that it was configured for: a request that it verifies is good for no others.
pub struct SlackDoor {
    secret: SigningSecret,
    entries: Vec<Arc<SlackEntry>>,
}

impl SlackDoor {
    /// The entry for what was done in this team and channel, with a message of this app.
    pub fn entry_at(&self, person: &interaction::Person, channel: &str) -> Option<&Arc<SlackEntry>> {
        self.entries.iter().find(|entry| entry.is_of(person) && entry.channel == channel)
    }

    /// The entry of this name, where it is of this team and app.
    pub fn entry_named(&self, person: &interaction::Person, name: &str) -> Option<&Arc<SlackEntry>> {
        self.entries.iter().find(|entry| entry.is_of(person) && entry.name.as_str() == name)
    }
}

impl SlackEntry {
    fn is_of(&self, person: &interaction::Person) -> bool {
        self.team == person.team && (self.app.is_none() || self.app == person.app)
    }
}

/// Everything that requests of Slack may be verified with. None at all: there is no route for them.
#[derive(Default)]
pub struct SlackDoors(Vec<Arc<SlackDoor>>);

impl SlackDoors {
    /// The doors of these entries, each with the text of its secret.
    pub fn new(entries: impl IntoIterator<Item = (String, SlackEntry)>) -> Self {
        let mut by_secret: Vec<(String, Vec<Arc<SlackEntry>>)> = Vec::new();
        for (secret, entry) in entries {
            let entry = Arc::new(entry);
            match by_secret.iter_mut().find(|(known, _)| *known == secret) {
                Some((_, entries)) => entries.push(entry),
                None => by_secret.push((secret, vec![entry])),
            }
        }
        let door =
            |(secret, entries): (String, _)| Arc::new(SlackDoor { secret: SigningSecret::new(&secret), entries });
        Self(by_secret.into_iter().map(door).collect())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The door whose secret this request was signed with.
    pub fn opened_by(&self, timestamp: &str, body: &[u8], signature: &str) -> Option<&Arc<SlackDoor>> {
        self.0.iter().find(|door| door.secret.verifies(timestamp, body, signature))
    }
}
