//! What lies on a reviewer's desk.

use std::time::Duration;

use countersign::{app::error::Error, domain::approval::state::StateName};
use serde_json::json;

use crate::support::world::on_each_engine;

#[tokio::test]
async fn the_inbox_holds_what_waits_newest_first_with_what_keeps_one_from_approving() {
    on_each_engine(async |world| {
        let (_, first) = world.hold("issue_refund", json!({ "order": "A-1", "amount": 900 })).await;
        world.on_behalf_of("bo").await;
        world.clock.advance(Duration::from_secs(1));
        let (_, second) = world.hold("send_email", json!({ "to": "a@x.example" })).await;
        let inbox = world.app.inbox(&world.bo).await.unwrap();
        assert_eq!(inbox.waiting.iter().map(|item| item.approval.id).collect::<Vec<_>>(), [second.id, first.id]);
        assert!(inbox.waiting.iter().all(|item| matches!(item.objection, Some(Error::NotEligible(_)))));
        let of_ana = world.app.inbox(&world.ana).await.unwrap();
        assert!(of_ana.waiting.iter().all(|item| item.objection.is_none() && item.review.is_some()));
        world.deny(&world.ana, &second, None).await.unwrap();
        assert_eq!(world.app.inbox(&world.ana).await.unwrap().waiting.len(), 1);
        let decided = world.app.lately_decided(&world.ana).await.unwrap();
        assert_eq!(
            decided.iter().map(|one| (one.id, one.state.name())).collect::<Vec<_>>(),
            [(second.id, StateName::Denied)]
        );
    })
    .await;
}

#[tokio::test]
async fn a_review_that_was_tampered_with_is_not_laid_out() {
    on_each_engine(async |world| {
        let (_, one) = world.hold("send_email", json!({ "to": "ana@acme.example" })).await;
        world.tamper_with_payload(&one).await;
        let full = world.app.approval_in_full(&world.ana, one.id).await.unwrap();
        assert_eq!((full.reviewed.args, full.reviewed.review), (None, None));
        assert_eq!(full.reviewed.approval.state.name(), StateName::Denied);
    })
    .await;
}

#[tokio::test]
async fn an_approval_stands_beside_the_last_decided_one_that_its_reviewer_may_see() {
    on_each_engine(async |world| {
        let (_, large) = world.hold("issue_refund", json!({ "order": "A-1", "amount": 9_000 })).await;
        world.deny(&world.ana, &large, None).await.unwrap();
        world.clock.advance(Duration::from_secs(1));
        let (_, small) = world.hold("issue_refund", json!({ "order": "A-2", "amount": 900 })).await;
        let last = world.app.approval_in_full(&world.ana, small.id).await.unwrap().last_alike.unwrap();
        assert_eq!(last.approval.id, large.id);
        assert_eq!(last.review.arguments[0].shown, "9000");
    })
    .await;
}
