//! Tokens of the issuer as credentials of the API.

use std::collections::BTreeMap;

use countersign::{
    auth::jwt::{IssuedTokens, TokenTerms},
    domain::identity::{AgentId, Role},
};

use super::*;
use crate::support::service::{call, deletion};

fn terms() -> TokenTerms {
    let roles = [
        ("proposer", Role::Agent),
        ("writer", Role::Orchestrator),
        ("approver", Role::Reviewer),
        ("auditor", Role::Auditor),
        ("boss", Role::Admin),
    ];
    TokenTerms {
        audience: "countersign-api".to_owned(),
        roles_claim: "roles".to_owned(),
        roles: roles.map(|(value, role)| (value.to_owned(), role)).into(),
        agents: BTreeMap::from([("auth0|bot".to_owned(), AgentId::parse("bot").unwrap())]),
    }
}

async fn service_taking(issuer: &MadeUpIssuer, terms: TokenTerms) -> Service {
    let known = Issuer::new(ISSUER.to_owned(), None, Schemes::Https, Arc::new(issuer.clone()));
    let tokens = Some(Arc::new(IssuedTokens::new(known, terms)) as Arc<_>);
    Service::where_people_sign_in(people(), SignInSettings { tokens, ..sign_in_at(issuer) }, PUBLIC_URL).await
}

fn claims(subject: &str, roles: Value) -> Value {
    json!({
        "iss": ISSUER, "aud": ["countersign-api", "others"], "sub": subject, "roles": roles,
        "iat": NOW, "nbf": NOW, "exp": NOW + 600,
    })
}

async fn send(service: &Service, method: Method, path: &str, token: &str, body: Option<&Value>) -> Answer {
    let call = service.request(method, path).header("authorization", &format!("Bearer {token}"));
    match body {
        Some(body) => call.json(body).send().await,
        None => call.send().await,
    }
}

async fn audit(service: &Service, token: &str) -> u16 {
    send(service, Method::GET, "/audit", token, None).await.status
}

#[tokio::test]
async fn a_token_opens_what_its_roles_give() {
    let issuer = MadeUpIssuer::new(NOW);
    let service = service_taking(&issuer, terms()).await;
    let token = |subject: &str, roles: Value| signed("one", "at+jwt", &claims(subject, roles));

    let bot = token("auth0|bot", json!(["proposer"]));
    let held = call("delete_customer", deletion(), "call-1");
    let answer = send(&service, Method::POST, "/decide", &bot, Some(&held)).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let approval = answer.json()["approval"]["id"].as_str().unwrap().to_owned();
    let log = service.logged(EventKind::ApprovalRequested).await;
    assert_eq!((log[0].entry.actor.name.as_str(), log[0].entry.actor.via.as_str()), ("bot", "jwt:auth0|bot"));

    let ana = token("auth0|ana", json!("approver"));
    let decision = crate::support::service::decision("approve");
    let path = format!("/approvals/{approval}/decision");
    let answer = send(&service, Method::POST, &path, &ana, Some(&decision)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let log = service.logged(EventKind::ApprovalVote).await;
    assert_eq!((log[0].entry.actor.name.as_str(), log[0].entry.actor.via.as_str()), ("ana", "jwt:auth0|ana"));

    assert_eq!(audit(&service, &token("auth0|iris", json!(["auditor", "unknown"]))).await, 200);
    assert_eq!(audit(&service, &ana).await, 403);
    assert_eq!(audit(&service, &bot).await, 403);
}

#[tokio::test]
async fn an_agent_that_nobody_mapped_bears_its_subject() {
    let issuer = MadeUpIssuer::new(NOW);
    let service = service_taking(&issuer, terms()).await;
    let held = call("get_order", json!({ "order_id": "o-1" }), "call-1");
    let token = signed("one", "JWT", &claims("stack-7", json!(["proposer"])));
    // The policy lists the agents that may use anything, and this one is not among them.
    assert_eq!(send(&service, Method::POST, "/decide", &token, Some(&held)).await.status, 403);
    let log = service.logged(EventKind::Decision).await;
    assert_eq!(log[0].entry.call.as_ref().unwrap().agent.as_str(), "jwt:stack-7");
    let odd = signed("one", "JWT", &claims("stack|7", json!(["proposer"])));
    assert_eq!(send(&service, Method::POST, "/decide", &odd, Some(&held)).await.status, 401);
}

#[tokio::test]
async fn who_proposes_never_decides() {
    let issuer = MadeUpIssuer::new(NOW);
    let service = service_taking(&issuer, terms()).await;
    for roles in [json!(["proposer", "approver"]), json!(["writer", "boss"]), json!(["proposer", "boss", "auditor"])] {
        let token = signed("one", "JWT", &claims("auth0|ana", roles));
        assert_eq!(audit(&service, &token).await, 401);
    }
}

#[tokio::test]
async fn a_reviewer_is_one_entry_or_has_no_vote() {
    let issuer = MadeUpIssuer::new(NOW);
    let service = service_taking(&issuer, terms()).await;
    for subject in ["auth0|mallory", "ana", "auth0|ANA"] {
        let token = signed("one", "JWT", &claims(subject, json!(["approver"])));
        assert_eq!(send(&service, Method::GET, "/approvals", &token, None).await.status, 403, "{subject}");
    }
    let ana = signed("one", "JWT", &claims("auth0|ana", json!(["approver"])));
    assert_eq!(send(&service, Method::GET, "/approvals", &ana, None).await.status, 200);
}

#[tokio::test]
async fn a_token_is_this_issuers_for_this_service_now_and_signed() {
    let issuer = MadeUpIssuer::new(NOW);
    issuer.publish(&["one", "two"]);
    let service = service_taking(&issuer, terms()).await;
    let good = claims("auth0|iris", json!(["auditor"]));
    assert_eq!(audit(&service, &signed("one", "JWT", &good)).await, 200);
    assert_eq!(audit(&service, &signed("two", "at+JWT", &good)).await, 200);
    let refused = [
        signed("one", "permit+jwt", &good),
        signed("one", "logout+jwt", &good),
        signed("three", "JWT", &good),
        forged("none", "one", &good),
        forged("HS256", "one", &good),
        forged("HS256", "shared", &good),
        signed("one", "JWT", &with(good.clone(), "iss", json!("https://login.evil"))),
        signed("one", "JWT", &with(good.clone(), "aud", json!(CLIENT))),
        signed("one", "JWT", &with(good.clone(), "exp", json!(NOW - 30))),
        signed("one", "JWT", &with(good.clone(), "nbf", json!(NOW + 31))),
        signed("one", "JWT", &with(good.clone(), "iat", json!(NOW + 31))),
        signed("one", "JWT", &with(good.clone(), "sub", json!(""))),
        signed("one", "JWT", &with(good.clone(), "roles", json!(["other"]))),
        signed("one", "JWT", &with(good.clone(), "roles", json!({ "auditor": true }))),
        signed("one", "JWT", &without(good.clone(), "exp")),
        signed("one", "JWT", &without(good.clone(), "aud")),
        signed("one", "JWT", &without(good.clone(), "iss")),
        signed("one", "JWT", &without(good.clone(), "sub")),
        signed("one", "JWT", &without(good.clone(), "roles")),
        format!("{}x", signed("one", "JWT", &good)),
        "a.b.c".to_owned(),
        "..".to_owned(),
        format!("{}.x", "y".repeat(20_000)),
    ];
    for (index, token) in refused.iter().enumerate() {
        assert_eq!(audit(&service, token).await, 401, "{index}: {token}");
    }
    let altered = signed("one", "JWT", &good);
    let (head, signature) = altered.rsplit_once('.').unwrap();
    let (header, _) = head.split_once('.').unwrap();
    let boss = signed("one", "JWT", &with(good, "roles", json!(["boss"])));
    let other = boss.split('.').nth(1).unwrap();
    assert_eq!(audit(&service, &format!("{header}.{other}.{signature}")).await, 401);
}

#[tokio::test]
async fn a_permit_is_no_credential() {
    let issuer = MadeUpIssuer::new(NOW);
    let service = service_taking(&issuer, terms()).await;
    let mut body = call("get_order", json!({ "order_id": "o-1" }), "call-1");
    body["permit"] = json!(true);
    let permit = service.post("bot", "/decide", &body).await.json()["permit"].as_str().unwrap().to_owned();
    assert_eq!(audit(&service, &permit).await, 401);
}

#[tokio::test]
async fn the_roles_may_stand_deeper_in_a_token() {
    let issuer = MadeUpIssuer::new(NOW);
    let service = service_taking(&issuer, TokenTerms { roles_claim: "/realm/roles".to_owned(), ..terms() }).await;
    let deep = with(claims("auth0|iris", json!(["boss"])), "realm", json!({ "roles": ["auditor"] }));
    assert_eq!(audit(&service, &signed("one", "JWT", &deep)).await, 200);
}

#[tokio::test]
async fn an_issuer_that_does_not_answer_lets_nobody_in() {
    let issuer = MadeUpIssuer::new(NOW);
    let service = service_taking(&issuer, terms()).await;
    issuer.down(true);
    let token = signed("one", "JWT", &claims("auth0|iris", json!(["auditor"])));
    // However many come, it is asked once in five seconds.
    for _ in 0..5 {
        assert_eq!(audit(&service, &token).await, 401);
    }
    assert_eq!(issuer.requests().len(), 1, "{:?}", issuer.requests());
    issuer.down(false);
    assert_eq!(audit(&service, &token).await, 401);
    service.clock.advance(5 * SECOND);
    assert_eq!(audit(&service, &token).await, 200);
    // Keys that are known count for an hour.
    issuer.down(true);
    assert_eq!(audit(&service, &token).await, 200);
}

#[tokio::test]
async fn without_an_issuer_no_token_is_taken() {
    let service = Service::start().await;
    let token = signed("one", "JWT", &claims("auth0|iris", json!(["auditor"])));
    assert_eq!(audit(&service, &token).await, 401);
}
