//! Personal links: what they open, for whom, how often.

use axum::http::Method;
use countersign::domain::{
    audit::entry::EventKind,
    session::{SessionScope, SignInMethod},
};

use super::*;

#[tokio::test]
async fn a_link_opens_a_session_about_its_approval_by_a_click() {
    let service = Service::start().await;
    let (approval, path) = link_to_ana(&service, "call-1").await;
    let mut browser = Browser::new(&service, PUBLIC_URL);
    let page = browser.get(&path).await;
    assert_eq!(page.status, 200);
    for hidden in ["delete_customer", "c-17", "ana", "bot", &approval.to_string()] {
        assert!(!page.text().contains(hidden), "{hidden}");
    }
    service.clock.advance(SECOND);
    let answer = browser.press(&page).await;
    assert_eq!((answer.status, answer.header("location")), (303, &*format!("/review/approvals/{approval}")));
    let set = answer.header("set-cookie");
    let (name, attributes) = set.split_once(';').unwrap();
    assert!(name.starts_with("__Host-session="));
    assert_eq!(attributes, " Path=/; Secure; HttpOnly; SameSite=Lax");

    let secret = Secret::parse(&browser.cookies["__Host-session"]).unwrap();
    let person = service.app.signed_in(&secret, "req-1").await.unwrap().unwrap();
    assert_eq!(person.session.method, SignInMethod::Link);
    assert_eq!(person.session.scope, SessionScope::Approval(approval));
    assert_eq!(person.session.ends_at, START.plus(SECOND).plus(15 * MINUTE));
    assert_eq!(person.reviewer.name, ana());
    assert!(person.session.may_see(approval));
    let opened = service.logged(EventKind::SessionOpened).await;
    assert_eq!(opened.len(), 1);
    assert_eq!(opened[0].entry.actor.name, "ana");
    assert_eq!(opened[0].entry.actor.via, format!("session:{}", person.session.id));
    assert_eq!((opened[0].entry.approval, &opened[0].entry.detail["method"]), (Some(approval), &"link".into()));
    let log = format!("{:?}", service.store.entries_after(0, 1_000).await.unwrap());
    assert!(!log.contains(&secret.to_text()) && !log.contains(path.rsplit('/').next().unwrap()));
}

#[tokio::test]
async fn a_session_of_a_link_ends_after_fifteen_minutes() {
    let service = Service::start().await;
    let (_, path) = link_to_ana(&service, "call-1").await;
    let mut browser = Browser::new(&service, PUBLIC_URL);
    follow(&service, &mut browser, &path).await;
    let (_, key) = session_of(&service, &browser, "__Host-session").await;
    let fields = token(&service, &key);
    service.clock.set(START.plus(SECOND).plus(15 * MINUTE));
    assert_eq!(browser.post("/logout", &fields).await.status, 403);
}

#[tokio::test]
async fn a_session_of_a_link_reaches_its_approval_and_nothing_else() {
    let service = Service::start().await;
    let (approval, path) = link_to_ana(&service, "call-1").await;
    let (other, _) = link_to_ana(&service, "call-2").await;
    let mut browser = Browser::new(&service, PUBLIC_URL);
    follow(&service, &mut browser, &path).await;
    let secret = Secret::parse(&browser.cookies["__Host-session"]).unwrap();
    let person = service.app.signed_in(&secret, "req-1").await.unwrap().unwrap();
    let (app, ana) = (&service.app, &person.reviewer);
    assert!(!person.session.may_see(other));
    assert_eq!(app.approval_for_reviewer(ana, approval).await.unwrap().approval.id, approval);
    let not_found = Err(countersign::app::error::Error::NotFound);
    assert_eq!(app.approval_for_reviewer(ana, other).await.map(drop), not_found);
    assert_eq!(app.list_approvals(ana, Default::default(), None, 10).await.map(drop), not_found);
    assert_eq!(app.list_grants(ana, Default::default(), None, 10).await.map(drop), not_found);
    assert_eq!(app.sessions_of(ana).await.map(drop), not_found);
    let agent = countersign::domain::identity::AgentId::parse("bot").unwrap();
    assert_eq!(app.pause_agent(ana, &agent, None).await, not_found);
    let run = countersign::domain::run::RunKey { agent, run: countersign::domain::ids::RunId::parse("run-1").unwrap() };
    assert_eq!(app.stop_run(ana, &run, None).await, not_found);
}

#[tokio::test]
async fn a_link_works_once() {
    let service = Service::start().await;
    let (_, path) = link_to_ana(&service, "call-1").await;
    let mut first = Browser::new(&service, PUBLIC_URL);
    let mut second = Browser::new(&service, PUBLIC_URL);
    let page = second.get(&path).await;
    follow(&service, &mut first, &path).await;
    let answer = second.press(&page).await;
    assert_eq!(answer.status, 410);
    assert!(!second.cookies.contains_key("__Host-session"));
    let page = second.get(&path).await;
    service.clock.advance(SECOND);
    assert_eq!(second.press(&page).await.status, 410);
}

#[tokio::test]
async fn a_link_waits_as_long_as_its_approval() {
    let service = Service::start().await;
    let (_, path) = link_to_ana(&service, "call-1").await;
    let mut browser = Browser::new(&service, PUBLIC_URL);
    service.clock.advance(4 * HOUR - MINUTE);
    let page = browser.get(&path).await;
    service.clock.advance(MINUTE);
    assert_eq!(browser.press(&page).await.status, 410);
}

#[tokio::test]
async fn a_link_opens_nothing_once_its_approval_is_decided() {
    let service = Service::start().await;
    let (id, path) = link_to_ana(&service, "call-1").await;
    let seen = service.get("ana", &format!("/approvals/{id}")).await.json();
    let deny = serde_json::json!({ "decision": "deny", "args_hash": seen["args_hash"] });
    assert_eq!(service.post("ana", &format!("/approvals/{id}/decision"), &deny).await.status, 200);
    let mut browser = Browser::new(&service, PUBLIC_URL);
    let page = browser.get(&path).await;
    service.clock.advance(SECOND);
    assert_eq!(browser.press(&page).await.status, 410);
}

#[tokio::test]
async fn a_page_of_a_link_tells_nothing_and_is_the_same_for_none() {
    let service = Service::start().await;
    let (_, path) = link_to_ana(&service, "call-1").await;
    let none = format!("/link/{}", Secret::new([9; 32]).to_text());
    let mut browser = Browser::new(&service, PUBLIC_URL);
    let (of_link, of_none) = (browser.get(&path).await, browser.get(&none).await);
    let same = |text: &str, path: &str| text.replace(path, "/link/X").split("value=").next().unwrap().to_owned();
    assert_eq!(same(of_link.text(), &path), same(of_none.text(), &none));
    service.clock.advance(SECOND);
    assert_eq!(browser.press(&of_none).await.status, 410);
    assert_eq!(browser.get("/link/short").await.status, 404);
}

#[tokio::test]
async fn the_form_of_a_link_is_for_the_browser_that_looked_at_it() {
    let service = Service::start().await;
    let (_, path) = link_to_ana(&service, "call-1").await;
    let mut looked = Browser::new(&service, PUBLIC_URL);
    let page = looked.get(&path).await;
    service.clock.advance(SECOND);
    let mut without = Browser::new(&service, PUBLIC_URL);
    assert_eq!(without.press(&page).await.status, 403);
    let mut other = Browser::new(&service, PUBLIC_URL);
    other.get("/link/".to_owned().as_str()).await;
    other.get(&path).await;
    assert_eq!(other.press(&page).await.status, 403);
    assert_eq!(looked.press(&page).await.status, 303);
}

#[tokio::test]
async fn a_person_who_is_signed_in_needs_no_link_and_keeps_it() {
    let (service, inbox) = on_loopback().await;
    let mut browser = Browser::new(&service, LOOPBACK);
    follow(&service, &mut browser, &inbox).await;
    let session = browser.cookies["session"].clone();
    let held = service.held("call-1").await;
    let approval = ApprovalId::parse(held["id"].as_str().unwrap()).unwrap();
    let address = service.app.make_link(&ana(), approval).await.unwrap();
    let page = browser.get(&path_of(&address, LOOPBACK)).await;
    service.clock.advance(SECOND);
    let answer = browser.press(&page).await;
    assert_eq!(answer.header("location"), format!("/review/approvals/{approval}"));
    assert_eq!(browser.cookies["session"], session);
    let mut elsewhere = Browser::new(&service, LOOPBACK);
    follow(&service, &mut elsewhere, &path_of(&address, LOOPBACK)).await;
}

#[tokio::test]
async fn the_link_of_one_machine_opens_the_inbox_there_and_only_there() {
    let (service, inbox) = on_loopback().await;
    let mut browser = Browser::new(&service, LOOPBACK);
    let page = browser.get(&inbox).await;
    service.clock.advance(SECOND);
    let form = crate::support::browser::form_of(&page);
    for host in ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "127.0.0.1@evil.example", ""] {
        let headers = [("host", host), ("origin", LOOPBACK)];
        let answer = browser.send(Method::POST, &inbox, &headers, Some(&form.fields)).await;
        assert_eq!(answer.status, 410, "{host}");
    }
    let answer = browser.press(&page).await;
    assert_eq!((answer.status, answer.header("location")), (303, "/review"));
    assert_eq!(
        answer.header("set-cookie").split_once(';').unwrap().1,
        " Path=/; HttpOnly; SameSite=Lax",
        "there is no https on loopback"
    );
    let secret = Secret::parse(&browser.cookies["session"]).unwrap();
    let person = service.app.signed_in(&secret, "req-1").await.unwrap().unwrap();
    assert_eq!((person.session.method, person.session.scope), (SignInMethod::DevLink, SessionScope::Everything));
    assert_eq!(browser.get(&inbox).await.status, 200);
    let mut second = Browser::new(&service, LOOPBACK);
    let page = second.get(&inbox).await;
    service.clock.advance(SECOND);
    assert_eq!(second.press(&page).await.status, 410);
}

#[tokio::test]
async fn a_new_link_to_an_inbox_takes_the_place_of_the_last_one() {
    let (service, first) = on_loopback().await;
    let second = path_of(&service.app.make_inbox_link(&ana()).await.unwrap(), LOOPBACK);
    let mut browser = Browser::new(&service, LOOPBACK);
    let page = browser.get(&first).await;
    service.clock.advance(SECOND);
    assert_eq!(browser.press(&page).await.status, 410);
    follow(&service, &mut browser, &second).await;
}

#[tokio::test]
async fn a_service_that_others_reach_makes_no_link_to_an_inbox() {
    let service = Service::start().await;
    assert!(service.app.make_inbox_link(&ana()).await.is_err());
}
