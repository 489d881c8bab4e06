//! What it takes to send a form, and how a session ends.

use axum::http::Method;
use countersign::domain::audit::entry::EventKind;

use super::*;

/// Somebody who is signed in on this machine.
async fn signed_in<'s>(service: &'s Service, inbox: &str) -> (Browser<'s>, SessionId, FormKey) {
    let mut browser = Browser::new(service, LOOPBACK);
    follow(service, &mut browser, inbox).await;
    let (session, key) = session_of(service, &browser, "session").await;
    (browser, session, key)
}

/// Whether the session still stands.
async fn stands(service: &Service, browser: &Browser<'_>) -> bool {
    let secret = Secret::parse(&browser.cookies["session"]).unwrap();
    service.app.signed_in(&secret, "req").await.unwrap().is_some()
}

#[tokio::test]
async fn a_form_counts_from_a_second_to_half_a_day_after_its_page_was_made() {
    let (service, inbox) = on_loopback().await;
    let (mut browser, session, key) = signed_in(&service, &inbox).await;
    let fields = token(&service, &key);
    service.clock.advance(Duration::from_micros(999_999));
    let early = browser.post("/logout", &fields).await;
    assert_eq!(early.status, 425);
    assert!(early.text().contains("faster than anyone reads"));
    assert!(stands(&service, &browser).await);
    service.clock.advance(Duration::from_micros(1));
    let mut late = browser.cookies.clone();
    let other = SessionId::from_uuid(uuid::Uuid::nil());
    // Something is sent every few hours, so that the session goes on.
    for _ in 0..2 {
        assert_eq!(browser.post(&format!("/review/sessions/{other}/revoke"), &fields).await.status, 404);
        service.clock.advance(6 * HOUR - SECOND / 2);
    }
    assert_eq!(browser.post(&format!("/review/sessions/{session}/revoke"), &fields).await.status, 403);
    late.retain(|name, _| name == "session");
    let fields = token(&service, &key);
    service.clock.advance(SECOND);
    let answer = browser.post("/logout", &fields).await;
    assert_eq!((answer.status, answer.header("location")), (303, "/login"));
    assert!(!browser.cookies.contains_key("session"));
    browser.cookies = late;
    assert!(!stands(&service, &browser).await);
    assert_eq!(service.logged(EventKind::SessionClosed).await.len(), 1);
}

#[tokio::test]
async fn a_form_takes_the_token_of_its_own_session_and_one_alone() {
    let (service, inbox) = on_loopback().await;
    let (mut browser, _, key) = signed_in(&service, &inbox).await;
    let again = path_of(&service.app.make_inbox_link(&ana()).await.unwrap(), LOOPBACK);
    let (_, _, others) = signed_in(&service, &again).await;
    let own = token(&service, &key);
    let foreign = token(&service, &others);
    let field = |value: &str| vec![("form_token".to_owned(), value.to_owned())];
    let (issued, mac) = own[0].1.split_once('.').unwrap();
    let moved = format!("{}.{mac}", issued.parse::<i64>().unwrap() - 1);
    service.clock.advance(2 * SECOND);
    for wrong in [
        vec![],
        foreign,
        field(""),
        field("."),
        field(&moved),
        field(issued),
        field(&format!("+{}", own[0].1)),
        [own.clone(), own.clone()].concat(),
    ] {
        assert_eq!(browser.post("/logout", &wrong).await.status, 403, "{wrong:?}");
    }
    let more = [own.clone(), vec![("more".to_owned(), "1".to_owned())]].concat();
    assert_eq!(browser.post("/logout", &more).await.status, 400);
    assert!(stands(&service, &browser).await);
    assert_eq!(browser.post("/logout", &own).await.status, 303);
}

#[tokio::test]
async fn a_form_comes_from_a_page_of_this_service() {
    let (service, inbox) = on_loopback().await;
    let (mut browser, _, key) = signed_in(&service, &inbox).await;
    let fields = token(&service, &key);
    service.clock.advance(SECOND);
    let page = format!("{LOOPBACK}/review");
    let refused: &[&[(&str, &str)]] = &[
        &[],
        &[("origin", "https://evil.example")],
        &[("origin", "http://127.0.0.1:8081")],
        &[("origin", "http://127.0.0.1")],
        &[("origin", "https://127.0.0.1:8080")],
        &[("origin", "null")],
        &[("origin", "null"), ("referer", &page)],
        &[("origin", "null"), ("sec-fetch-site", "cross-site")],
        &[("origin", LOOPBACK), ("origin", "https://evil.example")],
        &[("referer", "https://evil.example/http://127.0.0.1:8080/")],
        &[("origin", LOOPBACK), ("sec-fetch-site", "cross-site")],
        &[("origin", LOOPBACK), ("sec-fetch-site", "same-site")],
        &[("origin", "https://evil.example"), ("sec-fetch-site", "same-origin")],
    ];
    for headers in refused {
        let answer = browser.send(Method::POST, "/logout", headers, Some(&fields)).await;
        assert_eq!(answer.status, 403, "{headers:?}");
    }
    assert!(stands(&service, &browser).await);
    let other = format!("/review/sessions/{}/revoke", SessionId::from_uuid(uuid::Uuid::nil()));
    let taken: &[&[(&str, &str)]] = &[
        &[("origin", LOOPBACK)],
        &[("referer", &page)],
        &[("origin", LOOPBACK), ("sec-fetch-site", "same-origin")],
        &[("origin", LOOPBACK), ("sec-fetch-site", "none")],
        &[("origin", "null"), ("sec-fetch-site", "same-origin")],
    ];
    for headers in taken {
        let answer = browser.send(Method::POST, &other, headers, Some(&fields)).await;
        assert_eq!(answer.status, 404, "{headers:?}");
    }
}

#[tokio::test]
async fn a_form_is_a_form_and_not_too_large() {
    let (service, inbox) = on_loopback().await;
    let (mut browser, _, key) = signed_in(&service, &inbox).await;
    let mut fields = token(&service, &key);
    service.clock.advance(SECOND);
    let cookie = format!("session={}", browser.cookies["session"]);
    let json = service.request(Method::POST, "/logout").header("cookie", &cookie).header("origin", LOOPBACK);
    assert_eq!(json.json(&serde_json::json!({ "form_token": fields[0].1 })).send().await.status, 400);
    fields.push(("more".to_owned(), "x".repeat(300_000)));
    assert_eq!(browser.post("/logout", &fields).await.status, 413);
}

#[tokio::test]
async fn without_a_session_a_form_is_refused_and_tells_nothing() {
    let (service, inbox) = on_loopback().await;
    let (browser, session, key) = signed_in(&service, &inbox).await;
    let fields = token(&service, &key);
    service.clock.advance(SECOND);
    let mut nobody = Browser::new(&service, LOOPBACK);
    let path = format!("/review/sessions/{session}/revoke");
    assert_eq!(nobody.post(&path, &fields).await.status, 403);
    for wrong in ["", "x", "session", &Secret::new([1; 32]).to_text()] {
        nobody.cookies.insert("session".to_owned(), wrong.to_owned());
        assert_eq!(nobody.post(&path, &fields).await.status, 403, "{wrong}");
    }
    // A cookie that somebody else could have set is not looked at.
    nobody.cookies = [("__Host-session".to_owned(), browser.cookies["session"].clone())].into();
    assert_eq!(nobody.post(&path, &fields).await.status, 403);
    // Nor is one of two.
    let two = format!("session={0}; session={0}", browser.cookies["session"]);
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&fields).finish();
    let twice = service.request(Method::POST, &path).header("cookie", &two).header("origin", LOOPBACK);
    let twice = twice.header("content-type", "application/x-www-form-urlencoded").bytes(body.as_bytes());
    assert_eq!(twice.send().await.status, 403);
    assert!(stands(&service, &browser).await);
}

#[tokio::test]
async fn a_session_ends_after_half_a_day_of_nothing_sent() {
    let (service, inbox) = on_loopback().await;
    let (mut browser, _, key) = signed_in(&service, &inbox).await;
    let opened = service.clock.now();
    let fields = token(&service, &key);
    service.clock.set(opened.plus(6 * HOUR));
    let other = format!("/review/sessions/{}/revoke", SessionId::from_uuid(uuid::Uuid::nil()));
    assert_eq!(browser.post(&other, &fields).await.status, 404);
    service.clock.set(opened.plus(18 * HOUR - SECOND));
    assert!(stands(&service, &browser).await, "something was sent at 6 hours");
    service.clock.set(opened.plus(18 * HOUR));
    assert!(!stands(&service, &browser).await);
}

#[tokio::test]
async fn a_session_ends_after_a_week_in_any_case() {
    let (service, inbox) = on_loopback().await;
    let (mut browser, _, key) = signed_in(&service, &inbox).await;
    let opened = service.clock.now();
    let other = format!("/review/sessions/{}/revoke", SessionId::from_uuid(uuid::Uuid::nil()));
    for hours in (0..7 * 24).step_by(8) {
        service.clock.set(opened.plus(hours * HOUR));
        let fields = token(&service, &key);
        service.clock.advance(SECOND);
        assert_eq!(browser.post(&other, &fields).await.status, 404, "{hours}");
    }
    service.clock.set(opened.plus(7 * 24 * HOUR - SECOND));
    assert!(stands(&service, &browser).await);
    service.clock.advance(SECOND);
    assert!(!stands(&service, &browser).await);
}

#[tokio::test]
async fn ones_own_sessions_are_listed_and_taken_back() {
    let (service, inbox) = on_loopback().await;
    let (mut here, this, key) = signed_in(&service, &inbox).await;
    let again = path_of(&service.app.make_inbox_link(&ana()).await.unwrap(), LOOPBACK);
    let (there, that, _) = signed_in(&service, &again).await;
    let ben = ReviewerName::parse("ben").unwrap();
    let of_ben = path_of(&service.app.make_inbox_link(&ben).await.unwrap(), LOOPBACK);
    let (bens, others, _) = signed_in(&service, &of_ben).await;

    let secret = Secret::parse(&here.cookies["session"]).unwrap();
    let person = service.app.signed_in(&secret, "req").await.unwrap().unwrap();
    let listed: Vec<_> =
        service.app.sessions_of(&person.reviewer).await.unwrap().into_iter().map(|session| session.id).collect();
    assert_eq!(listed, [that, this]);

    let fields = token(&service, &key);
    service.clock.advance(SECOND);
    let path = |id: SessionId| format!("/review/sessions/{id}/revoke");
    assert_eq!(here.post(&path(others), &fields).await.status, 404, "it is another person's");
    assert!(stands(&service, &bens).await);
    let answer = here.post(&path(that), &fields).await;
    assert_eq!((answer.status, answer.header("location")), (303, "/review/sessions"));
    assert!(!stands(&service, &there).await);
    assert_eq!(here.post(&path(that), &fields).await.status, 303, "again changes nothing");
    assert_eq!(service.logged(EventKind::SessionClosed).await.len(), 1);
    let answer = here.post(&path(this), &fields).await;
    assert_eq!(answer.header("location"), "/login");
    assert_eq!(here.post(&path(this), &fields).await.status, 403);
}

#[tokio::test]
async fn a_reviewer_who_is_no_longer_configured_is_not_signed_in() {
    let (service, inbox) = on_loopback().await;
    let (browser, _, _) = signed_in(&service, &inbox).await;
    let secret = Secret::parse(&browser.cookies["session"]).unwrap();
    let service = service.restarted(crate::support::service::POLICY, vec![reviewer("ben", &[])]).await;
    assert!(service.app.signed_in(&secret, "req").await.unwrap().is_none());
}
