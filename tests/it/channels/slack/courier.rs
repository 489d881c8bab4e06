//! Posting, changing, reminding, and what is made of Slack's answers.

use std::{sync::Arc, time::Duration};

use countersign::{
    app::ports::{Card, Courier as _, Delivery, Dispatch},
    channels::slack::{SlackClient, SlackCourier, SlackWebhookCourier, message::Clicks},
    domain::{ids::NoticeId, notice::NoticeEvent},
    outbound::{Credentials, Outbound},
};
use serde_json::json;

use super::cards::refund;
use crate::support::{
    sample,
    slack::{CHANNEL, Says, Slack, TOKEN, button, shown},
};

const POST: &str = "chat.postMessage";
const UPDATE: &str = "chat.update";

fn dispatch(event: NoticeEvent, card: Card, posted: Option<&str>) -> Dispatch {
    let posted = posted.map(str::to_owned);
    Dispatch::Card { id: NoticeId::from_uuid(sample::uuid()), event, recipient: None, card: Box::new(card), posted }
}

fn requested() -> Dispatch {
    dispatch(NoticeEvent::Requested, refund(), None)
}

const PLACE: &str = r#"{"channel":"C0CHANNEL","ts":"1700000000.000009"}"#;

fn done(place: &str) -> Delivery {
    Delivery::Done { place: Some(place.to_owned()) }
}

fn refused(fault: &str) -> Delivery {
    Delivery::Refused { fault: fault.to_owned() }
}

fn later(after: Option<u64>, fault: &str) -> Delivery {
    Delivery::Later { after: after.map(Duration::from_secs), fault: fault.to_owned() }
}

#[tokio::test]
async fn a_message_is_posted_with_the_token_and_without_anything_that_parses_it() {
    let slack = Slack::start().await;
    let delivery = slack.courier(Clicks::Verified).deliver(&requested()).await;
    assert_eq!(delivery, done(r#"{"channel":"C0CHANNEL","ts":"1700000000.000001"}"#));
    let called = slack.called();
    assert_eq!(called.len(), 1);
    assert_eq!(called[0].authorization, Some(format!("Bearer {TOKEN}")));
    let body = &called[0].body;
    assert_eq!(body["channel"], CHANNEL);
    for (name, value) in [
        ("parse", json!("none")),
        ("mrkdwn", json!(false)),
        ("link_names", json!(false)),
        ("unfurl_links", json!(false)),
        ("unfurl_media", json!(false)),
    ] {
        assert_eq!(body[name], value, "{name}");
    }
    assert!(body["metadata"]["event_payload"]["notice"].as_str().unwrap().starts_with("msg_"));
}

#[tokio::test]
async fn an_answer_says_whether_to_come_again() {
    let slack = Slack::start().await;
    for (says, delivery) in [
        (Says::Patience(7), later(Some(7), "answered 429")),
        (Says::Status(500), later(None, "answered 500")),
        (Says::Status(503), later(None, "answered 503")),
        (Says::Error("ratelimited"), later(None, "answered ratelimited")),
        (Says::Error("internal_error"), later(None, "answered internal_error")),
        (Says::Error("invalid_auth"), refused("answered invalid_auth")),
        (Says::Error("account_inactive"), refused("answered account_inactive")),
        (Says::Error("token_revoked"), refused("answered token_revoked")),
        (Says::Error("channel_not_found"), refused("answered channel_not_found")),
        (Says::Error("is_archived"), refused("answered is_archived")),
        (Says::Error("something_new"), refused("answered something_new")),
    ] {
        slack.says(POST, [says.clone()]);
        assert_eq!(slack.courier(Clicks::Verified).deliver(&requested()).await, delivery, "{says:?}");
    }
}

#[tokio::test]
async fn nobody_at_the_other_end_is_tried_later() {
    let slack = Slack::start().await;
    let client = SlackClient { api_url: "http://127.0.0.1:1/api".to_owned(), ..slack.client() };
    let courier = SlackCourier { client, ..slack.courier(Clicks::Verified) };
    assert_eq!(courier.deliver(&requested()).await, later(None, "nobody answered"));
}

#[tokio::test]
async fn an_answer_that_does_not_come_in_time_is_not_waited_for() {
    let slack = Slack::start().await;
    slack.always_says(Some(Says::Hangs));
    let client = SlackClient { patience: Duration::from_millis(200), ..slack.client() };
    let courier = SlackCourier { client, ..slack.courier(Clicks::Verified) };
    assert_eq!(courier.deliver(&requested()).await, later(None, "no answer came in time"));
}

#[tokio::test]
async fn a_message_that_slack_does_not_take_is_posted_as_a_link_once() {
    let slack = Slack::start().await;
    for error in ["invalid_blocks", "msg_too_long", "msg_blocks_too_long", "invalid_metadata_format"] {
        slack.says(POST, [Says::Error(error)]);
        assert!(matches!(
            slack.courier(Clicks::Verified).deliver(&requested()).await,
            Delivery::Done { place: Some(_) }
        ));
    }
    let bare = slack.bodies(POST)[1]["blocks"].clone();
    assert!(shown(&bare).contains("approval needed") && button(&bare, "approval.open").is_some());
    assert!(button(&bare, "approval.approve").is_none() && !shown(&bare).contains("issue_refund"));
    slack.says(POST, [Says::Error("invalid_blocks"), Says::Error("invalid_blocks")]);
    assert_eq!(slack.courier(Clicks::Verified).deliver(&requested()).await, refused("answered invalid_blocks"));
}

#[tokio::test]
async fn a_decided_approval_is_changed_where_it_stands() {
    let slack = Slack::start().await;
    let courier = slack.courier(Clicks::Verified);
    let mut card = refund();
    card.approval = sample::denied(card.approval);
    let decided = dispatch(NoticeEvent::Denied, card, Some(PLACE));
    assert_eq!(courier.deliver(&decided).await, done(PLACE));
    let body = &slack.bodies(UPDATE)[0];
    assert_eq!((&body["channel"], &body["ts"]), (&json!(CHANNEL), &json!("1700000000.000009")));
    assert!(shown(&body["blocks"]).contains("Denied by ana"));
    slack.says(UPDATE, [Says::Error("message_not_found")]);
    assert_eq!(courier.deliver(&decided).await, Delivery::Done { place: None });
    slack.says(UPDATE, [Says::Error("invalid_blocks")]);
    assert_eq!(courier.deliver(&decided).await, done(PLACE));
    let bare = slack.bodies(UPDATE).pop().unwrap();
    assert!(shown(&bare["blocks"]).contains("denied") && button(&bare["blocks"], "approval.deny").is_none());
}

#[tokio::test]
async fn a_reminder_answers_the_message_that_stays_the_one_to_be_changed() {
    let slack = Slack::start().await;
    let courier = slack.courier(Clicks::Verified);
    for event in [NoticeEvent::Reminder, NoticeEvent::Escalated] {
        assert_eq!(courier.deliver(&dispatch(event, refund(), Some(PLACE))).await, done(PLACE));
        let body = slack.bodies(POST).pop().unwrap();
        assert_eq!(body["thread_ts"], "1700000000.000009");
        assert_eq!(body["reply_broadcast"], true);
        assert!(button(&body["blocks"], "approval.approve").is_none());
    }
    slack.says(POST, [Says::Error("thread_not_found")]);
    let delivery = courier.deliver(&dispatch(NoticeEvent::Reminder, refund(), Some(PLACE))).await;
    assert!(matches!(&delivery, Delivery::Done { place: Some(place) } if place != PLACE), "{delivery:?}");
    let body = slack.bodies(POST).pop().unwrap();
    assert!(body.get("thread_ts").is_none() && button(&body["blocks"], "approval.approve").is_some());
}

#[tokio::test]
async fn many_are_one_message_that_is_changed_as_a_whole() {
    let slack = Slack::start().await;
    let courier = slack.courier(Clicks::Verified);
    let digest = |posted: Option<&str>| Dispatch::Digest {
        id: NoticeId::from_uuid(sample::uuid()),
        event: NoticeEvent::Requested,
        recipient: None,
        cards: (0..12).map(|_| refund()).collect(),
        inbox: "https://approve.test/review".to_owned(),
        posted: posted.map(str::to_owned),
    };
    assert!(matches!(courier.deliver(&digest(None)).await, Delivery::Done { place: Some(_) }));
    assert!(shown(&slack.bodies(POST)[0]["blocks"]).contains("12 waiting"));
    assert_eq!(courier.deliver(&digest(Some(PLACE))).await, done(PLACE));
    assert_eq!(slack.bodies(UPDATE).len(), 1);
}

#[tokio::test]
async fn an_incoming_webhook_gets_a_link_and_no_buttons() {
    let slack = Slack::start().await;
    let url = slack.api_url().replace("/api", "/services/T/B/x");
    let outbound = Outbound::new(Arc::new(Credentials::default()));
    let courier = SlackWebhookCourier { outbound: outbound.clone(), url: Arc::from(url.as_str()), allow_private: true };
    assert_eq!(courier.deliver(&requested()).await, Delivery::Done { place: None });
    let called = slack.called();
    assert_eq!((called[0].method.as_str(), &called[0].authorization), ("/services/T/B/x", &None));
    let blocks = &called[0].body["blocks"];
    assert!(button(blocks, "approval.approve").is_none() && button(blocks, "approval.deny").is_none());
    assert!(button(blocks, "approval.open").is_some() && shown(blocks).contains("6000"));
    for (status, delivery) in [
        (404, refused("answered 404")),
        (403, refused("answered 403")),
        (410, Delivery::Gone { fault: "answered 410".to_owned() }),
        (500, later(None, "answered 500")),
    ] {
        slack.says("/services/T/B/x", [Says::Status(status)]);
        assert_eq!(courier.deliver(&requested()).await, delivery);
    }
    slack.says("/services/T/B/x", [Says::Status(400)]);
    assert_eq!(courier.deliver(&requested()).await, Delivery::Done { place: None });
    let public = SlackWebhookCourier { outbound, url: Arc::from(url.as_str()), allow_private: false };
    assert!(matches!(public.deliver(&requested()).await, Delivery::Refused { .. }));
}

#[tokio::test]
async fn whoever_clicks_is_answered_at_slack_and_nowhere_else() {
    let (slack, elsewhere) = (Slack::start().await, Slack::start().await);
    let client = slack.client();
    client.say_privately(&elsewhere.response_url(), "x").await;
    client.say_privately(&slack.response_url().replace("127.0.0.1", "hooks.127.0.0.1.evil.test"), "x").await;
    client.say_privately(&slack.response_url().replace("http://", "http://u:p@"), "x").await;
    client.say_privately(&slack.response_url(), "a <b>").await;
    assert!(elsewhere.called().is_empty());
    assert_eq!(slack.called().len(), 1);
    assert_eq!(slack.whispered(0).await, "a &lt;b&gt;");
}
