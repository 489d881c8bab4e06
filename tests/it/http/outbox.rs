//! Messages that did not arrive, as operators see them.

use std::time::Duration;

use countersign::{
    app::deliver::Couriers,
    domain::{
        audit::entry::EventKind,
        ids::{ApprovalId, NoticeId},
        notice::{Notice, NoticeEvent, Topic},
    },
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{clock::START, service::Service};

/// A service with this many messages to a webhook that is not configured any more.
async fn with_dead_letters(count: u128) -> Service {
    let service = Service::start().await;
    let long_ago = START.minus(Duration::from_secs(3_600));
    let notices: Vec<Notice> = (0..count)
        .map(|index| Notice {
            id: NoticeId::from_uuid(Uuid::from_u128(index)),
            to: "channel:gone".parse().unwrap(),
            recipient: None,
            event: NoticeEvent::Requested,
            topic: Topic::Approval(ApprovalId::from_uuid(Uuid::from_u128(index))),
            data: json!({}),
            at: long_ago,
            not_before: long_ago,
            instead_of: None,
        })
        .collect();
    let mut tx = service.store.begin().await.unwrap();
    tx.enqueue(&notices).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(service.app.give_up_unserved(&Couriers::new()).await.unwrap() as u128, count);
    service
}

fn ids(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn dead_letters_are_listed_newest_first_page_by_page() {
    let service = with_dead_letters(3).await;
    let first = service.get("iris", "/dead-letters?limit=2").await.json();
    assert_eq!(ids(&first).len(), 2);
    let letter = &first["items"][0];
    assert_eq!(letter["destination"], "channel:gone");
    assert_eq!(letter["event"], "approval.requested");
    assert_eq!(letter["attempts"], 1);
    assert_eq!(letter["failed"][0]["fault"], "it is not configured any more");
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = service.get("iris", &format!("/dead-letters?cursor={cursor}")).await.json();
    assert_eq!((ids(&second).len(), &second["next_cursor"]), (1, &Value::Null));
    assert!(ids(&first)[1] > ids(&second)[0]);
}

#[tokio::test]
async fn an_administrator_has_a_dead_letter_tried_again_and_nobody_else_does() {
    let service = with_dead_letters(1).await;
    let page = service.get("iris", "/dead-letters").await.json();
    let path = format!("/dead-letters/{}/replay", ids(&page)[0]);
    for holder in ["bot", "ana", "iris", "writer"] {
        assert_eq!(service.post(holder, &path, &json!({})).await.status, 403, "{holder}");
    }
    assert_eq!(service.post("root", &path, &json!({})).await.status, 204);
    assert_eq!(service.post("root", &path, &json!({})).await.status, 404);
    assert_eq!(service.get("iris", "/dead-letters").await.json()["items"], json!([]));
    let destination = &service.get("iris", "/destinations").await.json()["items"][0];
    assert_eq!((&destination["waiting"], &destination["dead"]), (&json!(1), &json!(0)));
    assert_eq!(service.logged(EventKind::NoticeReplayed).await.len(), 1);
}

#[tokio::test]
async fn only_a_disabled_destination_can_be_enabled() {
    let service = with_dead_letters(1).await;
    assert_eq!(service.post("root", "/destinations/channel:gone/enable", &json!({})).await.status, 404);
    assert_eq!(service.post("root", "/destinations/nonsense/enable", &json!({})).await.status, 404);
}

#[tokio::test]
async fn what_is_not_delivered_is_counted() {
    let service = with_dead_letters(2).await;
    let text = service.get("iris", "/metrics").await.text().to_owned();
    assert!(text.contains("countersign_messages_dead{destination=\"channel:gone\"} 2"), "{text}");
    assert!(text.contains("countersign_messages_waiting{destination=\"channel:gone\"} 0"), "{text}");
    assert!(text.contains("countersign_destination_disabled{destination=\"channel:gone\"} 0"), "{text}");
}
