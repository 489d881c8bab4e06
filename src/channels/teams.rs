//! Cards for a Microsoft Teams channel, by the webhook of a workflow: Adaptive Cards 1.5 with a link. Nothing can be
//! decided in Teams, and what was posted cannot be changed there.

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{
    TIMEOUT, by_status,
    lines::{Lines, NOT_WHOLE, summary},
    unsent,
};
use crate::{
    app::ports::{Courier, Delivery, Dispatch},
    outbound::{Method, Outbound, Request},
};

/// The longest answer that is read; nothing in it is heeded.
const MOST_BYTES: usize = 64 * 1024;

/// How many bytes of a message are for what is shown: Teams refuses messages above 28 kB in all.
const MOST_SHOWN: usize = 24_000;

/// How many calls a card for many names.
const MOST_CALLS: usize = 20;

/// A Teams channel.
pub struct TeamsCourier {
    /// The client.
    pub outbound: Outbound,
    /// The workflow's address, which is its secret.
    pub url: secrecy::SecretString,
    /// Whether it may be a private address.
    pub allow_private: bool,
}

#[async_trait]
impl Courier for TeamsCourier {
    async fn deliver(&self, dispatch: &Dispatch) -> Delivery {
        use secrecy::ExposeSecret as _;

        let Some(message) = message(dispatch) else {
            return Delivery::Refused { fault: "a channel of people is sent no events".to_owned() };
        };
        let sent = self
            .outbound
            .send(Request {
                method: Method::POST,
                url: self.url.expose_secret().to_owned(),
                bearer: None,
                headers: Vec::new(),
                body: Some(("application/json", message.to_string().into_bytes())),
                timeout: TIMEOUT,
                most_bytes: MOST_BYTES,
                allow_private: self.allow_private,
            })
            .await;
        match sent {
            Ok(answer) => by_status(&answer),
            Err(failure) => unsent(failure),
        }
    }
}

/// The message that a workflow posts; `None` for what is for machines.
pub fn message(dispatch: &Dispatch) -> Option<Value> {
    let (body, title, url) = match dispatch {
        Dispatch::Event { .. } => return None,
        Dispatch::Card { event, card, .. } => {
            let lines = Lines::of(*event, card).within(MOST_SHOWN, json_length);
            let mut body = vec![heading(&lines.heading)];
            body.extend(lines.facts.iter().map(|(name, value)| fact(name, value)));
            match &lines.arguments {
                None => body.push(plain("What would run is not kept any more.")),
                Some(arguments) => {
                    let none = arguments.is_empty() && lines.whole;
                    body.push(label(if none { "It takes no arguments." } else { "Arguments" }));
                    body.extend(arguments.iter().map(|line| monospace(line)));
                }
            }
            body.extend(lines.lookups.iter().map(|line| plain(line)));
            if let Some(rationale) = &lines.rationale {
                body.push(label("The model says (unverified)"));
                body.push(plain(rationale));
            }
            if !lines.whole {
                body.push(label(NOT_WHOLE));
            }
            let open = if event.asks() { "Review and decide" } else { "Open it" };
            (body, open, card.url.as_str())
        }
        Dispatch::Digest { cards, inbox, .. } => {
            let mut body = vec![heading(&format!("{} calls wait for a decision", cards.len()))];
            body.extend(cards.iter().take(MOST_CALLS).map(|card| plain(&summary(card))));
            if cards.len() > MOST_CALLS {
                body.push(label("The inbox has all of them."));
            }
            (body, "Open the inbox", inbox.as_str())
        }
    };
    Some(json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "contentUrl": null,
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.5",
                "body": body,
                "actions": [{ "type": "Action.OpenUrl", "title": title, "url": url }],
            },
        }],
    }))
}

/// How long a line is in the body at most: every character that JSON escapes counts as what it becomes.
fn json_length(line: &str) -> usize {
    // The structure around a fact, which has two runs; that of an argument is shorter.
    const AROUND: usize = 160;
    Value::from(line).to_string().len() + AROUND
}

// Text in a `TextRun` is literal. In a `TextBlock` or a `FactSet` it would be Markdown, and so these hold nothing that
// anybody else has written.

fn run(text: &str, more: Value) -> Value {
    let mut run = json!({ "type": "TextRun", "text": text });
    if let (Some(run), Value::Object(more)) = (run.as_object_mut(), more) {
        run.extend(more);
    }
    run
}

fn block(runs: Vec<Value>) -> Value {
    json!({ "type": "RichTextBlock", "inlines": runs })
}

fn heading(text: &str) -> Value {
    block(vec![run(text, json!({ "size": "Medium", "weight": "Bolder" }))])
}

fn label(text: &'static str) -> Value {
    block(vec![run(text, json!({ "weight": "Bolder" }))])
}

fn fact(name: &str, value: &str) -> Value {
    block(vec![run(&format!("{name}: "), json!({ "weight": "Bolder" })), run(value, json!({}))])
}

fn plain(text: &str) -> Value {
    block(vec![run(text, json!({}))])
}

fn monospace(text: &str) -> Value {
    block(vec![run(text, json!({ "fontType": "Monospace" }))])
}
