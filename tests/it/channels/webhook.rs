//! Mirrors `src/channels/webhook.rs`: what is sent, what signs it, and what becomes of each answer.

use std::{sync::Arc, time::Duration};

use countersign::{
    app::ports::{Courier as _, Delivery, Dispatch},
    channels::webhook::{WebhookCourier, WebhookKey, signatures},
    domain::{ids::NoticeId, notice::NoticeEvent},
    outbound::{Credentials, Outbound},
};
use serde_json::json;
use uuid::Uuid;

use crate::support::{
    clock::{ManualClock, START},
    programs,
    receiver::{Answers, Receiver},
};

/// The key, message and signatures of the specification's examples; the signatures were made by other programs.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const PRIVATE: &str = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg==";
const PUBLIC: &str = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=";
const BODY: &[u8] = br#"{"test": 2432232314}"#;
const BY_SECRET: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
const BY_PRIVATE: &str = "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg==";

fn key(text: &str) -> WebhookKey {
    WebhookKey::parse(text).unwrap()
}

fn courier(url: &str, keys: Vec<WebhookKey>, allow_private: bool) -> WebhookCourier {
    WebhookCourier {
        outbound: Outbound::new(Arc::new(Credentials::default())),
        clock: Arc::new(ManualClock::new()),
        url: url.to_owned(),
        keys,
        allow_private,
    }
}

fn event() -> Dispatch {
    Dispatch::Event {
        id: NoticeId::from_uuid(Uuid::from_u128(7)),
        event: NoticeEvent::Approved,
        at: START,
        data: json!({ "code": "AP-7Q4K-2M", "state": "approved" }),
    }
}

async fn answered(answer: Answers) -> Delivery {
    let receiver = Receiver::answering([answer]).await;
    courier(receiver.url(), vec![key(SECRET)], true).deliver(&event()).await
}

#[test]
fn the_known_signatures_come_out() {
    let keys = [key(SECRET), key(PRIVATE)];
    let signed = signatures(&keys, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, BODY);
    assert_eq!(signed, format!("{BY_SECRET} {BY_PRIVATE}"));
    assert_eq!(key(PRIVATE).public().as_deref(), Some(PUBLIC));
    assert_eq!(key(SECRET).public(), None);
}

#[test]
fn what_is_no_key_is_refused() {
    for text in ["", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_c2hvcnQ=", "whsec_%%%", "whsk_AAAA", PUBLIC] {
        assert!(WebhookKey::parse(text).is_err(), "{text}");
    }
    let other_half = PRIVATE.replace("Vkg", "Vkh").replace("Kvg==", "Kvw==");
    assert!(WebhookKey::parse(&other_half).is_err(), "a public key of another seed");
}

#[tokio::test]
async fn an_event_is_sent_thin_and_signed_by_every_key() {
    let receiver = Receiver::answering([]).await;
    let courier = courier(receiver.url(), vec![key(SECRET), key(PRIVATE)], true);
    assert_eq!(courier.deliver(&event()).await, Delivery::Done { place: None });
    let received = receiver.received().remove(0);
    assert_eq!(received.json()["type"], "approval.approved");
    assert_eq!(received.json()["timestamp"], "2026-11-30T12:00:00.000000Z");
    assert_eq!(received.json()["data"]["code"], "AP-7Q4K-2M");
    assert_eq!(received.header("content-type"), "application/json");
    assert_eq!(received.header("webhook-id"), "msg_00000000-0000-0000-0000-000000000007");
    let seconds = START.as_micros() / 1_000_000;
    assert_eq!(received.header("webhook-timestamp"), seconds.to_string());
    let keys = [key(SECRET), key(PRIVATE)];
    let signed = signatures(&keys, received.header("webhook-id"), seconds, received.body.as_bytes());
    assert_eq!(received.header("webhook-signature"), signed);
}

#[tokio::test]
async fn the_libraries_of_receivers_accept_what_is_sent_and_nothing_that_was_changed() {
    let receiver = Receiver::answering([]).await;
    let courier = courier(receiver.url(), vec![key(SECRET), key(PRIVATE)], true);
    courier.deliver(&event()).await;
    let received = receiver.received().remove(0);
    let header = |name: &str| received.header(name).to_owned();
    let sent = json!({
        "secret": SECRET,
        "public": PUBLIC,
        "body": received.body,
        "now": START.as_micros() / 1_000_000,
        "headers": {
            "webhook-id": header("webhook-id"),
            "webhook-timestamp": header("webhook-timestamp"),
            "webhook-signature": header("webhook-signature"),
        },
    });
    let libraries: [fn() -> std::process::Command; 2] =
        [|| programs::node("verify-webhook.mjs"), || programs::python("verify_webhook.py")];
    for program in libraries {
        assert_eq!(programs::told(program(), &sent.to_string()), "accepted\n", "{:?}", program());
        let mut changed = sent.clone();
        changed["body"] = json!(received.body.replace("approved", "denied"));
        assert_eq!(programs::told(program(), &changed.to_string()), "refused\n", "{:?}", program());
    }
}

#[tokio::test]
async fn only_success_is_success() {
    for status in [200, 202, 204] {
        assert_eq!(answered(Answers::Status(status)).await, Delivery::Done { place: None }, "{status}");
    }
    for status in [302, 400, 401, 404, 429, 500, 502, 503, 504] {
        let later = Delivery::Later { after: None, fault: format!("answered {status}") };
        assert_eq!(answered(Answers::Status(status)).await, later, "{status}");
    }
    assert_eq!(answered(Answers::Status(410)).await, Delivery::Gone { fault: "answered 410".to_owned() });
}

#[tokio::test]
async fn a_redirect_is_a_failure_and_is_not_followed() {
    let receiver = Receiver::answering([Answers::Redirect]).await;
    let courier = courier(receiver.url(), vec![key(SECRET)], true);
    let later = Delivery::Later { after: None, fault: "answered 302".to_owned() };
    assert_eq!(courier.deliver(&event()).await, later);
    assert_eq!(receiver.received().len(), 1);
}

#[tokio::test]
async fn the_patience_that_is_asked_for_is_passed_on() {
    let after = Some(Duration::from_secs(120));
    for status in [429, 503] {
        let later = Delivery::Later { after, fault: format!("answered {status}") };
        assert_eq!(answered(Answers::Patience(status, 120)).await, later);
    }
}

#[tokio::test]
async fn a_private_address_is_refused_unless_it_was_allowed() {
    let receiver = Receiver::answering([]).await;
    let courier = courier(receiver.url(), vec![key(SECRET)], false);
    let refused = Delivery::Refused { fault: "the address is private, and that is not allowed".to_owned() };
    assert_eq!(courier.deliver(&event()).await, refused);
    assert_eq!(receiver.received().len(), 0);
}

#[tokio::test]
async fn nobody_at_the_other_end_is_tried_again() {
    let gone = Receiver::answering([]).await.url().to_owned();
    let later = courier(&gone, vec![key(SECRET)], true).deliver(&event()).await;
    assert_eq!(later, Delivery::Later { after: None, fault: "nobody answered".to_owned() });
}
