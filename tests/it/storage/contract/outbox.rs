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
    what_ended_long_ago_is_forgotten_and_what_waits_stays,
    what_asks_goes_first_and_what_failed_less_often_before_what_failed_more,
    a_channel_is_told_the_same_once_instead_of_others,
    what_asks_and_waits_where_nothing_arrives_is_passed_on_once,
    it_is_known_where_an_approval_is_shown_and_who_is_told_instead,
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
    QueuedNotice { notice, passed_on: false, attempts: 0, failed: Vec::new(), dead_since: None }
}

async fn messages_come_out_as_they_were_written_and_in_their_order(test: TestStore) {
    let run = RunKey { agent: "bot".parse().unwrap(), run: "run-1".parse().unwrap() };
    let second = Notice {
        recipient: Some(ReviewerName::parse("ana").unwrap()),
        event: NoticeEvent::Escalated,
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
        tried_at: Some(at(2)),
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
    let enabled = DestinationStanding { not_before: at(0), tried_at: Some(at(2)), failing_since: None, disabled: None };
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

async fn what_ended_long_ago_is_forgotten_and_what_waits_stays(test: TestStore) {
    test.commit(async |tx| {
        tx.enqueue(&[notice(1), notice(2), notice(3), notice(4)]).await.unwrap();
        tx.finish_notices(&[notice(1).id], NoticeEnding::Delivered, at(20)).await.unwrap();
        tx.finish_notices(&[notice(2).id], NoticeEnding::Delivered, at(21)).await.unwrap();
        tx.update_notice(&QueuedNotice { dead_since: Some(at(20)), ..waiting(notice(3)) }).await.unwrap();
        tx.enqueue(&[notice(5)]).await.unwrap();
        tx.update_notice(&QueuedNotice { dead_since: Some(at(21)), ..waiting(notice(5)) }).await.unwrap();
        tx.put_posting(approval(1), &to("chat"), "one", at(20)).await.unwrap();
        tx.put_posting(approval(2), &to("chat"), "two", at(21)).await.unwrap();
    })
    .await;
    assert_eq!(test.commit(async |tx| tx.forget_notices(at(21)).await.unwrap()).await, 2);
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

async fn what_asks_goes_first_and_what_failed_less_often_before_what_failed_more(test: TestStore) {
    let telling = Notice { event: NoticeEvent::Approved, ..notice(1) };
    let reminder = Notice { event: NoticeEvent::Reminder, ..notice(4) };
    let escalated = Notice { event: NoticeEvent::Escalated, ..notice(5) };
    let tried = QueuedNotice { attempts: 1, ..waiting(notice(2)) };
    test.commit(async |tx| {
        tx.enqueue(&[telling.clone(), notice(2), notice(3), reminder.clone(), escalated.clone()]).await.unwrap();
        tx.update_notice(&tried).await.unwrap();
    })
    .await;
    let read = test.store().waiting_notices(&to("chat"), at(10), 10).await.unwrap();
    assert_eq!(read, [waiting(notice(3)), waiting(reminder), waiting(escalated), tried, waiting(telling)]);
}

/// Message `number`, to `recipient` at the channel `mail`, instead of one to another.
fn stand_in(number: u128, recipient: Option<&str>) -> Notice {
    Notice {
        to: to("mail"),
        topic: Topic::Approval(approval(1)),
        recipient: recipient.map(|name| ReviewerName::parse(name).unwrap()),
        instead_of: Some(notice(number + 100).id),
        ..notice(number)
    }
}

async fn a_channel_is_told_the_same_once_instead_of_others(test: TestStore) {
    let later = Notice { at: at(6), ..stand_in(5, None) };
    let told =
        [stand_in(1, None), stand_in(2, None), stand_in(3, Some("ana")), stand_in(4, Some("ana")), later.clone()];
    for notice in &told {
        test.commit(async |tx| tx.enqueue(std::slice::from_ref(notice)).await.unwrap()).await;
    }
    let read = test.store().waiting_notices(&to("mail"), at(10), 10).await.unwrap();
    assert_eq!(read, [stand_in(1, None), stand_in(3, Some("ana")), later].map(waiting));
}

async fn what_asks_and_waits_where_nothing_arrives_is_passed_on_once(test: TestStore) {
    let telling = Notice { event: NoticeEvent::Approved, ..notice(1) };
    let elsewhere = Notice { to: to("mail"), ..notice(2) };
    let new = Notice { at: at(6), ..notice(3) };
    let put_off = Notice { not_before: at(31), ..notice(4) };
    let tried = QueuedNotice { attempts: 1, ..waiting(Notice { not_before: at(31), ..notice(5) }) };
    test.commit(async |tx| {
        let written = [telling, elsewhere, new, put_off, notice(5), notice(6)];
        tx.enqueue(&written).await.unwrap();
        tx.update_notice(&tried).await.unwrap();
        let standing = tx.lease_destination(&to("chat"), "a", at(0), at(1)).await.unwrap().unwrap();
        let failing = DestinationStanding { failing_since: Some(at(7)), ..standing };
        tx.release_destination(&to("chat"), "a", &failing).await.unwrap();
        tx.lease_destination(&to("mail"), "a", at(0), at(1)).await.unwrap();
    })
    .await;
    let stuck =
        async |failing, limit| test.store().notices_to_pass_on(at(failing), at(5), at(30), limit).await.unwrap();
    assert_eq!(stuck(6, 10).await, [], "it has not failed for long enough");
    assert_eq!(stuck(7, 10).await, [tried.clone(), waiting(notice(6))]);
    assert_eq!(stuck(7, 1).await, [tried]);
    let marked = async || test.commit(async |tx| tx.pass_on_notice(notice(5).id).await.unwrap()).await;
    assert_eq!((marked().await, marked().await), (true, false));
    assert_eq!(stuck(7, 10).await, [waiting(notice(6))]);
}

async fn it_is_known_where_an_approval_is_shown_and_who_is_told_instead(test: TestStore) {
    let ana = ReviewerName::parse("ana").unwrap();
    let told = test
        .commit(async |tx| {
            tx.enqueue(&[notice(1), stand_in(2, None), stand_in(3, Some("ana"))]).await.unwrap();
            tx.put_posting(approval(1), &to("chat"), "one", at(1)).await.unwrap();
            tx.put_posting(approval(2), &to("other"), "two", at(1)).await.unwrap();
            tx.told_of(approval(1)).await.unwrap()
        })
        .await;
    assert_eq!(told.len(), 3);
    for expected in [(to("chat"), None), (to("mail"), None), (to("mail"), Some(ana))] {
        assert!(told.contains(&expected), "{expected:?} is not in {told:?}");
    }
}
