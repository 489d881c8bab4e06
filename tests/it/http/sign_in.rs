//! Mirrors `src/http/sign_in`: how people come to a session, what it takes to send a form, and how a session ends.

use std::{sync::Arc, time::Duration};

use countersign::{
    app::{
        ports::Clock as _,
        sessions::{InboxLinks, SignInSettings},
    },
    auth::session::FormKey,
    domain::{
        identity::ReviewerName,
        ids::{ApprovalId, SessionId},
        session::Secret,
    },
};

use crate::support::{
    browser::Browser,
    clock::START,
    service::{PUBLIC_URL, Service, reviewer},
};

mod callback;
mod forms;
mod links;
mod provider;
mod scanners;

/// Where a service of one machine is reached.
const LOOPBACK: &str = "http://127.0.0.1:8080";

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);

fn ana() -> ReviewerName {
    ReviewerName::parse("ana").unwrap()
}

/// The path of a link's address.
fn path_of(address: &str, origin: &str) -> String {
    address.strip_prefix(origin).unwrap().to_owned()
}

/// A held call, and the path of a link about it to `ana`.
async fn link_to_ana(service: &Service, id: &str) -> (ApprovalId, String) {
    let held = service.held(id).await;
    let approval = ApprovalId::parse(held["id"].as_str().unwrap()).unwrap();
    let address = service.app.make_link(&ana(), approval).await.unwrap();
    (approval, path_of(&address, PUBLIC_URL))
}

/// A service of one machine, and the path of the link to the inbox of `ana`.
async fn on_loopback() -> (Service, String) {
    let sign_in = SignInSettings { inbox_links: InboxLinks::OnLoopback, ..SignInSettings::default() };
    let people = vec![reviewer("ana", &["leads"]), reviewer("ben", &[])];
    let service = Service::where_people_sign_in(people, sign_in, LOOPBACK).await;
    let address = service.app.make_inbox_link(&ana()).await.unwrap();
    (service, path_of(&address, LOOPBACK))
}

/// Follows a link like a person.
async fn follow(service: &Service, browser: &mut Browser<'_>, path: &str) {
    let page = browser.get(path).await;
    service.clock.advance(SECOND);
    let answer = browser.press(&page).await;
    assert_eq!(answer.status, 303, "{answer:?}");
}

/// The session that a browser holds, and the key of its forms.
async fn session_of(service: &Service, browser: &Browser<'_>, cookie: &str) -> (SessionId, FormKey) {
    let secret = Secret::parse(&browser.cookies[cookie]).unwrap();
    let record = service.store.session(&secret.hash()).await.unwrap().unwrap();
    (record.session.id, FormKey::new(&secret, record.session.id))
}

/// The one field of a form that only has a button, as of now.
fn token(service: &Service, key: &FormKey) -> Vec<(String, String)> {
    vec![("form_token".to_owned(), key.field(service.clock.now()))]
}
