//! Mirrors `src/channels/teams.rs`: cards whose text is literal, and short enough.

use std::{sync::Arc, time::Duration};

use countersign::{
    channels::teams::TeamsCourier,
    domain::channel::{Channel, ChannelKind, Channels, Destination},
    domain::identity::ChannelName,
    outbound::{Credentials, Outbound},
};
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::support::{
    receiver::Receiver,
    world::{Setup, World, on_each_engine_with},
};

fn to() -> Destination {
    Destination::Channel(ChannelName::parse("chat").unwrap())
}

fn setup() -> Setup {
    let name = ChannelName::parse("chat").unwrap();
    let chat = Channel { name, kind: ChannelKind::Teams, groups: [].into(), fallback: None, quiet: None };
    Setup { channels: Channels::new([chat], []).unwrap(), ..Setup::default() }
}

/// What Teams is sent of everything that is due.
async fn sent(world: &World) -> Vec<Value> {
    let receiver = Receiver::answering([]).await;
    let courier = TeamsCourier {
        outbound: Outbound::new(Arc::new(Credentials::default())),
        url: SecretString::from(receiver.url()),
        allow_private: true,
    };
    // The channel takes one a second.
    while world.app.deliver_to(&to(), &courier).await.unwrap() > 0 {
        world.clock.advance(Duration::from_secs(1));
    }
    receiver.received().iter().map(|received| received.json()).collect()
}

fn content(message: &Value) -> &Value {
    assert_eq!(message["type"], "message");
    assert_eq!(message["attachments"][0]["contentType"], "application/vnd.microsoft.card.adaptive");
    &message["attachments"][0]["content"]
}

/// Every text of a card, none of which may be read as Markdown.
fn texts(card: &Value) -> Vec<String> {
    let blocks = card["body"].as_array().unwrap();
    blocks
        .iter()
        .flat_map(|block| {
            assert_eq!(block["type"], "RichTextBlock", "only text in runs is literal");
            let runs = block["inlines"].as_array().unwrap();
            runs.iter().map(|run| {
                assert_eq!(run["type"], "TextRun");
                run["text"].as_str().unwrap().to_owned()
            })
        })
        .collect()
}

#[tokio::test]
async fn a_card_shows_the_whole_call_and_leads_to_its_page() {
    on_each_engine_with(setup(), |world| async move {
        let (_, approval) =
            world.hold("send_email", json!({ "to": "x@acme.example", "body": "*hi* [a](http://b)" })).await;
        let card = sent(&world).await.remove(0);
        let card = content(&card);
        assert_eq!(card["version"], "1.5");
        let texts = texts(card);
        assert_eq!(texts[0], "Approval needed: send_email");
        assert!(texts.contains(&approval.code.to_string()));
        assert!(texts.contains(&"/to = \"x@acme.example\"".to_owned()), "{texts:?}");
        assert!(texts.contains(&"/body = \"*hi* [a](http://b)\"".to_owned()));
        let actions = card["actions"].as_array().unwrap();
        assert_eq!(actions.len(), 1, "nothing can be decided there");
        assert_eq!(actions[0]["type"], "Action.OpenUrl");
        assert_eq!(actions[0]["url"], format!("https://approve.acme.example/review/approvals/{}", approval.id));
    })
    .await;
}

#[tokio::test]
async fn what_deceives_is_made_visible_and_what_is_too_long_is_said_to_be() {
    on_each_engine_with(setup(), |world| async move {
        let hostile = format!("rm \u{202e}fdp.exe\u{200b}{}", " ".repeat(400));
        world.hold("send_email", json!({ "to": "x", "body": hostile })).await;
        world.hold("send_email", json!({ "to": "y", "body": "\u{feff}<at>everyone</at>".repeat(2_000) })).await;
        let messages = sent(&world).await;
        assert_eq!(messages.len(), 2);
        for message in messages {
            assert!(message.to_string().len() < 28_000, "{}", message.to_string().len());
            let texts = texts(content(&message));
            let text = texts.join("\n");
            assert!(!text.chars().any(|c| ['\u{202e}', '\u{200b}', '\u{feff}'].contains(&c)), "{text}");
            if text.contains("/to = \"x\"") {
                assert!(text.contains("\\u{202e}") && text.contains("\\u{200b}"), "{text}");
                assert!(!text.contains(&" ".repeat(20)), "runs of space are counted");
            } else {
                assert!(text.contains("Not everything fits here"));
            }
        }
    })
    .await;
}

#[tokio::test]
async fn many_calls_become_one_card() {
    on_each_engine_with(setup(), |world| async move {
        for _ in 0..9 {
            world.hold("send_email", json!({ "to": "x@acme.example" })).await;
        }
        let cards = sent(&world).await;
        assert_eq!(cards.len(), 1);
        let card = content(&cards[0]);
        assert_eq!(texts(card)[0], "9 calls wait for a decision");
        assert_eq!(card["actions"][0]["url"], "https://approve.acme.example/review");
    })
    .await;
}

#[tokio::test]
async fn a_card_stays_below_the_limit_and_says_whatever_it_leaves_out() {
    on_each_engine_with(setup(), |world| async move {
        // What would run takes most of the room, and what the model says does not fit any more.
        let mut request = world.call("send_email", json!({ "to": "x", "body": "\u{1}".repeat(2_500) }));
        request.rationale = Some("\u{7}".repeat(1_900));
        world.ask(&request).await.unwrap();
        let message = sent(&world).await.remove(0);
        let texts = texts(content(&message));
        assert!(message.to_string().len() < 28_000, "{}", message.to_string().len());
        assert!(texts.iter().any(|text| text.starts_with("/body = ")));
        assert!(!texts.contains(&"The model says (unverified)".to_owned()));
        assert_eq!(texts.last().unwrap(), "Not everything fits here: the page shows all of it.");
    })
    .await;
}
