//! The outbox: what is written comes out as it was, in its order, and one holder at a time has a destination.

use std::time::Duration;

use countersign::{
    app::ports::{DestinationStanding, NoticeEnding},
    domain::{
        channel::Destination,
        identity::ReviewerName,
        ids::{ApprovalId, NoticeId},
        notice::{FailedAttempt, Notice, NoticeEvent, QueuedNotice, Topic},
        run::RunKey,
        time::Timestamp,
    },
};
use serde_json::json;
use uuid::Uuid;

use crate::support::store::TestStore;

super::on_both_engines! {
    messages_come_out_as_they_were_written_and_in_their_order,
    a_message_is_due_from_its_moment_on,
    what_is_for_later_is_counted_apart_from_what_is_late,
    what_is_given_up_is_listed_and_can_be_tried_again,
    one_holder_has_a_destination_until_it_gives_it_back_or_its_time_is_over,
    a_destination_keeps_how_it_stands,
    a_place_is_kept_and_replaced,
    what_was_last_delivered_about_a_run_is_found,
    what_arrived_long_ago_is_forgotten_and_what_did_not_stays,
}

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn to(name: &str) -> Destination {
    format!("channel:{name}").parse().unwrap()
}

fn approval(number: u128) -> ApprovalId {
    ApprovalId::from_uuid(Uuid::from_u128(number))
}

/// Message `number`; ids fall as numbers rise, so that nothing is in order by chance.
fn notice(number: u128) -> Notice {
    Notice {
        id: NoticeId::from_uuid(Uuid::from_u128(1_000 - number)),
        to: to("chat"),
        recipient: None,
        event: NoticeEvent::Requested,
        topic: Topic::Approval(approval(number)),
        data: json!({ "n": number as u64 }),
        at: at(5),
        not_before: at(10),
        instead_of: None,
    }
}

fn waiting(notice: Notice) -> QueuedNotice {
    QueuedNotice { notice, attempts: 0, failed: Vec::new(), dead_since: None }
}

async fn messages_come_out_as_they_were_written_and_in_their_order(test: TestStore) {
    let run = RunKey { agent: "bot".parse().unwrap(), run: "run-1".parse().unwrap() };
    let second = Notice {
        recipient: Some(ReviewerName::parse("ana").unwrap()),
        event: NoticeEvent::RunReady,
        topic: Topic::Run(run),
        instead_of: Some(notice(1).id),
        ..notice(2)
    };
    let written = [notice(1), second, notice(3)];
    test.commit(async |tx| tx.enqueue(&written).await.unwrap()).await;
    let read = test.store().waiting_notices(&to("chat"), at(10), 10).await.unwrap();
    assert_eq!(read, written.map(waiting));
    assert_eq!(test.store().waiting_notices(&to("chat"), at(10), 2).await.unwrap().len(), 2);
    assert_eq!(test.store().waiting_notices(&to("other"), at(10), 2).await.unwrap(), []);
}

async fn a_message_is_due_from_its_moment_on(test: TestStore) {
    test.commit(async |tx| tx.enqueue(&[notice(1)]).await.unwrap()).await;
    assert_eq!(test.store().due_destinations(at(9)).await.unwrap(), []);
    assert_eq!(test.store().due_destinations(at(10)).await.unwrap(), [to("chat")]);
    test.commit(async |tx| tx.finish_notices(&[notice(1).id], NoticeEnding::Moot, at(10)).await.unwrap()).await;
    assert_eq!(test.store().due_destinations(at(10)).await.unwrap(), []);
}

async fn what_is_for_later_is_counted_apart_from_what_is_late(test: TestStore) {
    let tried = QueuedNotice { attempts: 1, ..waiting(Notice { not_before: at(30), ..notice(2) }) };
    test.commit(async |tx| {
        tx.enqueue(&[notice(1), notice(2)]).await.unwrap();
        tx.update_notice(&tried).await.unwrap();
    })
    .await;
    for (now, waiting, later) in [(9, 1, 1), (10, 2, 0)] {
        let counts = test.store().outbox_counts(at(now)).await.unwrap();
        assert_eq!((counts[0].waiting, counts[0].later, counts[0].dead), (waiting, later, 0), "{now}");
    }
}

async fn what_is_given_up_is_listed_and_can_be_tried_again(test: TestStore) {
    test.commit(async |tx| tx.enqueue(&[notice(1), notice(2), notice(3)]).await.unwrap()).await;
    let failed = vec![FailedAttempt { at: at(11), millis: 3, fault: "answered 500".to_owned() }];
    let given_up = |number| QueuedNotice {
        attempts: 13,
        failed: failed.clone(),
        dead_since: Some(at(11)),
        ..waiting(notice(number))
    };
    test.commit(async |tx| {
        for number in [1, 2, 3] {
            tx.update_notice(&given_up(number)).await.unwrap();
        }
    })
    .await;
    assert_eq!(test.store().dead_notices(None, 10).await.unwrap(), [given_up(3), given_up(2), given_up(1)]);
    assert_eq!(test.store().dead_notices(Some(notice(2).id), 10).await.unwrap(), [given_up(1)]);
    let counts = test.store().outbox_counts(at(20)).await.unwrap();
    assert_eq!((counts[0].waiting, counts[0].later, counts[0].dead), (0, 0, 3));
    let replayed = test.commit(async |tx| tx.replay_notice(notice(2).id, at(20)).await.unwrap()).await;
    assert!(replayed);
    let again = test.store().waiting_notices(&to("chat"), at(20), 10).await.unwrap();
    assert_eq!((again.len(), again[0].attempts, again[0].notice.not_before), (1, 0, at(20)));
    assert!(!test.commit(async |tx| tx.replay_notice(notice(2).id, at(20)).await.unwrap()).await, "it waits");
}

async fn one_holder_has_a_destination_until_it_gives_it_back_or_its_time_is_over(test: TestStore) {
    let lease = async |holder: &str, now, until| {
        test.commit(async |tx| tx.lease_destination(&to("chat"), holder, at(now), at(until)).await.unwrap()).await
    };
    let standing = lease("a", 0, 10).await.unwrap();
    assert_eq!(lease("b", 9, 19).await, None);
    assert!(lease("a", 9, 19).await.is_some(), "its own lease can be made longer");
    assert!(lease("b", 19, 29).await.is_some(), "its time was over");
    test.commit(async |tx| tx.release_destination(&to("chat"), "a", &standing).await.unwrap()).await;
    assert_eq!(lease("c", 20, 30).await, None, "only the holder gives it back");
    let patient = DestinationStanding { not_before: at(25), ..standing };
    test.commit(async |tx| tx.release_destination(&to("chat"), "b", &patient).await.unwrap()).await;
    assert_eq!(lease("c", 24, 34).await, None, "it asks for patience");
    assert!(lease("c", 25, 35).await.is_some());
}

async fn a_destination_keeps_how_it_stands(test: TestStore) {
    let standing = DestinationStanding {
        not_before: at(3),
        failing_since: Some(at(1)),
        disabled: Some((at(2), "answered 410".to_owned())),
    };
    test.commit(async |tx| {
        tx.lease_destination(&to("chat"), "a", at(0), at(1).plus(Duration::from_secs(1))).await.unwrap();
        tx.release_destination(&to("chat"), "a", &standing).await.unwrap();
    })
    .await;
    assert_eq!(test.store().destinations().await.unwrap(), [(to("chat"), standing)]);
    assert!(test.commit(async |tx| tx.enable_destination(&to("chat")).await.unwrap()).await);
    assert!(!test.commit(async |tx| tx.enable_destination(&to("chat")).await.unwrap()).await);
    let enabled = DestinationStanding { not_before: at(0), failing_since: None, disabled: None };
    assert_eq!(test.store().destinations().await.unwrap(), [(to("chat"), enabled)]);
}

async fn a_place_is_kept_and_replaced(test: TestStore) {
    test.commit(async |tx| {
        tx.put_posting(approval(1), &to("chat"), "one", at(1)).await.unwrap();
        tx.put_posting(approval(2), &to("chat"), "two", at(1)).await.unwrap();
        tx.put_posting(approval(1), &to("chat"), "two", at(2)).await.unwrap();
    })
    .await;
    assert_eq!(test.store().posting(approval(1), &to("chat")).await.unwrap().as_deref(), Some("two"));
    assert_eq!(test.store().posting(approval(1), &to("other")).await.unwrap(), None);
    assert_eq!(test.store().posted_at(&to("chat"), "two").await.unwrap(), [approval(1), approval(2)]);
    assert_eq!(test.store().posted_at(&to("chat"), "one").await.unwrap(), []);
}

async fn what_arrived_long_ago_is_forgotten_and_what_did_not_stays(test: TestStore) {
    test.commit(async |tx| {
        tx.enqueue(&[notice(1), notice(2), notice(3), notice(4)]).await.unwrap();
        tx.finish_notices(&[notice(1).id], NoticeEnding::Delivered, at(20)).await.unwrap();
        tx.finish_notices(&[notice(2).id], NoticeEnding::Delivered, at(21)).await.unwrap();
        tx.update_notice(&QueuedNotice { dead_since: Some(at(1)), ..waiting(notice(3)) }).await.unwrap();
        tx.put_posting(approval(1), &to("chat"), "one", at(20)).await.unwrap();
        tx.put_posting(approval(2), &to("chat"), "two", at(21)).await.unwrap();
    })
    .await;
    assert_eq!(test.commit(async |tx| tx.forget_notices(at(21)).await.unwrap()).await, 1);
    let counts = test.store().outbox_counts(at(21)).await.unwrap();
    assert_eq!((counts[0].waiting, counts[0].later, counts[0].dead), (1, 0, 1));
    assert_eq!(test.store().posting(approval(1), &to("chat")).await.unwrap(), None);
    assert!(test.store().posting(approval(2), &to("chat")).await.unwrap().is_some());
}

async fn what_was_last_delivered_about_a_run_is_found(test: TestStore) {
    let run = RunKey { agent: "bot".parse().unwrap(), run: "run-1".parse().unwrap() };
    let about = |number| Notice { topic: Topic::Run(run.clone()), ..notice(number) };
    test.commit(async |tx| tx.enqueue(&[about(1), about(2), about(3)]).await.unwrap()).await;
    assert_eq!(test.store().told_of_run(&to("chat"), &run).await.unwrap(), None);
    let ids = [about(1).id, about(2).id];
    test.commit(async |tx| tx.finish_notices(&ids, NoticeEnding::Delivered, at(20)).await.unwrap()).await;
    assert_eq!(test.store().told_of_run(&to("chat"), &run).await.unwrap(), Some(json!({ "n": 2 })));
}
