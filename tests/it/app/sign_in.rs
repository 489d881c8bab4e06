//! What sessions may decide, and links under a race.

use std::{sync::Arc, time::Duration};

use countersign::{
    app::{
        ReviewerCaller,
        error::Error,
        grants::GrantRequest,
        links::{AskedFor, FollowedLink},
        ports::Clock as _,
    },
    domain::{
        approval::state::{Approval, StateName},
        audit::entry::EventKind,
        grant::TooWide,
        identity::{AgentId, ReviewerName},
        ids::{RunId, SessionId},
        session::{Secret, Session, SessionRecord, SessionScope, SignInMethod},
    },
};
use serde_json::json;
use uuid::Uuid;

use super::races::at_once;
use crate::support::world::{PUBLIC_URL, RUN, Setup, World, on_each_engine, on_each_engine_with};

const POLICY: &str = r#"
schema = 1
[tools.send]
risk = "send"
parameters = { type = "object", properties = {} }
[tools.publish]
risk = "send"
parameters = { type = "object", properties = {} }
approval = { decide_in = "web" }
[tools.pay]
risk = "send"
parameters = { type = "object", properties = {} }
approval = { step_up = true }
"#;

const MINUTE: Duration = Duration::from_secs(60);

/// `ana` as she comes by a session of this method, opened now.
async fn by_session(world: &World, method: SignInMethod) -> (ReviewerCaller, SessionId) {
    let secret = Secret::new(*Uuid::now_v7().as_bytes().repeat(2).first_chunk::<32>().unwrap());
    let now = world.clock.now();
    let id = SessionId::from_uuid(Uuid::now_v7());
    let session = Session {
        id,
        reviewer: ReviewerName::parse("ana").unwrap(),
        method,
        scope: SessionScope::Everything,
        authenticated_at: now,
        opened_at: now,
        last_seen_at: now,
        ends_at: now.plus(600 * MINUTE),
    };
    let record = SessionRecord { session, hash: secret.hash(), revoked_at: None };
    let mut tx = world.store.begin().await.unwrap();
    tx.insert_session(&record, now.minus(MINUTE)).await.unwrap();
    tx.commit().await.unwrap();
    (world.app.signed_in(&secret, "req-1").await.unwrap().unwrap().reviewer, id)
}

async fn held(world: &World, tool: &str) -> Approval {
    world.hold(tool, json!({})).await.1
}

#[tokio::test]
async fn what_is_decided_on_the_web_is_approved_from_a_session_and_denied_from_anywhere() {
    on_each_engine_with(Setup::with_policy(POLICY), |world| async move {
        let approval = held(&world, "publish").await;
        assert_eq!(world.approve(&world.ana, &approval).await.unwrap_err(), Error::DecideInWeb);
        assert_eq!(world.stored(&approval).await.state.name(), StateName::Pending);
        for method in [SignInMethod::DevLink, SignInMethod::Link, SignInMethod::Oidc] {
            let approval = held(&world, "publish").await;
            let (ana, _) = by_session(&world, method).await;
            let approved = world.approve(&ana, &approval).await.unwrap().approval;
            assert_eq!(approved.state.name(), StateName::Approved);
        }
        assert_eq!(world.deny(&world.ana, &approval, None).await.unwrap().approval.state.name(), StateName::Denied);
    })
    .await;
}

#[tokio::test]
async fn a_step_up_takes_a_sign_in_at_the_provider_within_five_minutes() {
    on_each_engine_with(Setup::with_policy(POLICY), |world| async move {
        let approval = held(&world, "pay").await;
        assert!(approval.requirement.step_up);
        assert_eq!(world.approve(&world.ana, &approval).await.unwrap_err(), Error::StepUpRequired);
        for method in [SignInMethod::DevLink, SignInMethod::Link] {
            let (ana, _) = by_session(&world, method).await;
            assert_eq!(world.approve(&ana, &approval).await.unwrap_err(), Error::StepUpRequired);
        }
        let (ana, _) = by_session(&world, SignInMethod::Oidc).await;
        world.clock.advance(5 * MINUTE);
        assert_eq!(world.approve(&ana, &approval).await.unwrap_err(), Error::StepUpRequired);
        assert_eq!(world.stored(&approval).await.votes(), []);
        let (ana, _) = by_session(&world, SignInMethod::Oidc).await;
        world.clock.advance(5 * MINUTE - Duration::from_micros(1));
        assert_eq!(world.approve(&ana, &approval).await.unwrap().approval.state.name(), StateName::Approved);
        let other = held(&world, "pay").await;
        assert_eq!(world.deny(&world.ana, &other, None).await.unwrap().approval.state.name(), StateName::Denied);
    })
    .await;
}

#[tokio::test]
async fn a_vote_takes_a_session_that_stands_at_its_moment() {
    on_each_engine_with(Setup::with_policy(POLICY), |world| async move {
        let approval = held(&world, "send").await;
        let (ana, id) = by_session(&world, SignInMethod::Oidc).await;
        world.app.revoke_session(&ana, id).await.unwrap();
        assert_eq!(world.approve(&ana, &approval).await.unwrap_err(), Error::KeyRevoked);
        assert_eq!(world.deny(&ana, &approval, None).await.unwrap_err(), Error::KeyRevoked);
        let (ana, id) = by_session(&world, SignInMethod::Oidc).await;
        world.approve(&ana, &approval).await.unwrap();
        let votes = world.entries_of(EventKind::ApprovalVote).await;
        assert_eq!(votes[0].entry.actor.via, format!("session:{id}"));
    })
    .await;
}

#[tokio::test]
async fn a_policy_that_asks_for_a_step_up_now_is_not_met_by_an_earlier_approve() {
    on_each_engine_with(Setup::with_policy(POLICY), |world| async move {
        let (request, approval) = world.approved("send", json!({})).await;
        world.accept(&POLICY.replace("[tools.publish]", "approval = { step_up = true }\n[tools.publish]")).await;
        let refused = world.claim(&approval, &request.call.args, None).await;
        assert!(matches!(refused, Err(Error::PolicyChanged(_))), "{refused:?}");
    })
    .await;
}

#[tokio::test]
async fn no_grant_stands_for_a_step_up_and_one_for_the_web_is_made_there() {
    on_each_engine_with(Setup::with_policy(POLICY), |world| async move {
        let grant = |tool: &str| GrantRequest {
            agent: AgentId::parse("billing-bot").unwrap(),
            run: RunId::parse(RUN).unwrap(),
            tool: tool.to_owned(),
            when: "true".to_owned(),
            ttl: 30 * MINUTE,
            max_uses: 5,
            rules: [].into(),
            reason: None,
            idempotency: None,
        };
        let (ana, _) = by_session(&world, SignInMethod::Oidc).await;
        for by in [&world.ana, &ana] {
            let refused = world.app.make_grant(by, &grant("pay")).await;
            assert_eq!(refused.unwrap_err(), Error::GrantTooWide(TooWide::StepUp));
        }
        let approval = held(&world, "pay").await;
        assert_eq!(world.app.approval_for_reviewer(&ana, approval.id).await.unwrap().offers, []);
        assert_eq!(world.app.make_grant(&world.ana, &grant("publish")).await.unwrap_err(), Error::DecideInWeb);
        world.app.make_grant(&ana, &grant("publish")).await.unwrap();
        world.app.make_grant(&world.ana, &grant("send")).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn of_twenty_clicks_on_one_link_one_opens_a_session() {
    on_each_engine(|world| async move {
        let (_, approval) = world.hold("send_email", json!({ "to": "x@acme.example" })).await;
        let ana = ReviewerName::parse("ana").unwrap();
        let address = world.app.make_link(&ana, approval.id).await.unwrap();
        let secret = Secret::parse(address.strip_prefix(&format!("{PUBLIC_URL}/link/")).unwrap()).unwrap();
        let other = Arc::new(world.another_instance(Setup::default()).await);
        let world = Arc::new(world);
        let clicks = at_once(20, &[Arc::clone(&world), other], |_, world| {
            let secret = secret.clone();
            async move { world.app.follow_link(&secret, AskedFor::Elsewhere, None, "req").await }
        })
        .await;
        let (mut opened, mut nothing) = (0, 0);
        for click in clicks {
            match click {
                Ok(FollowedLink::Opened(_)) => opened += 1,
                // One that others were in the way of for too long is told to come again.
                Ok(FollowedLink::Nothing) | Err(Error::Store(_)) => nothing += 1,
                Ok(other @ (FollowedLink::NotNeeded(_) | FollowedLink::TakesSignIn(_))) => panic!("{other:?}"),
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!((opened, nothing), (1, 19));
        assert_eq!(world.entries_of(EventKind::SessionOpened).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn no_link_is_made_where_a_sign_in_is_asked_for() {
    on_each_engine_with(Setup::with_policy(POLICY), |world| async move {
        let approval = held(&world, "pay").await;
        let ana = ReviewerName::parse("ana").unwrap();
        let address = world.app.make_link(&ana, approval.id).await.unwrap();
        assert_eq!(address, format!("{PUBLIC_URL}/review/approvals/{}", approval.id));
        assert_eq!(world.entries_of(EventKind::LinkMade).await, []);
    })
    .await;
}
