//! Whatever looks at links, and presses their buttons at once, changes nothing.

use axum::http::Method;

use super::*;
use crate::support::browser::form_of;

#[tokio::test]
async fn looking_changes_nothing_with_cookies_and_without() {
    let service = Service::start().await;
    let (approval, link) = link_to_ana(&service, "call-1").await;
    let (_, used) = link_to_ana(&service, "call-2").await;
    let mut person = Browser::new(&service, PUBLIC_URL);
    follow(&service, &mut person, &used).await;
    let state = Secret::new([3; 32]).to_text();
    let urls = [
        link.clone(),
        used,
        "/login".to_owned(),
        format!("/login?to=/review/approvals/{approval}&fresh=1"),
        "/login/callback".to_owned(),
        format!("/login/callback?code=x&state={state}"),
        "/logout".to_owned(),
    ];
    let mut scanner = Browser::new(&service, PUBLIC_URL);
    let mut writes = service.watch_writes().await;
    for _ in 0..2 {
        for url in &urls {
            for method in [Method::GET, Method::HEAD] {
                for browser in [&mut scanner, &mut person] {
                    browser.send(method.clone(), url, &[], None).await;
                    assert!(!writes.any().await, "{method} {url}");
                }
            }
        }
    }
    let mut browser = Browser::new(&service, PUBLIC_URL);
    follow(&service, &mut browser, &link).await;
    assert!(writes.any().await, "a click would have been noticed");
}

#[tokio::test]
async fn pressing_the_button_at_once_changes_nothing() {
    let service = Service::start().await;
    let (_, link) = link_to_ana(&service, "call-1").await;
    let mut scanner = Browser::new(&service, PUBLIC_URL);
    let mut writes = service.watch_writes().await;
    let page = scanner.get(&link).await;
    let answer = scanner.press(&page).await;
    assert_eq!(answer.status, 425);
    let form = form_of(&page);
    let answer = scanner.send(Method::POST, &link, &[], Some(&form.fields)).await;
    assert_eq!(answer.status, 403, "it says not where it comes from");
    assert!(!writes.any().await);
    let mut person = Browser::new(&service, PUBLIC_URL);
    follow(&service, &mut person, &link).await;
}

#[tokio::test]
async fn a_head_is_answered_like_a_get_without_a_body() {
    let service = Service::start().await;
    let (_, link) = link_to_ana(&service, "call-1").await;
    for url in [link.as_str(), "/login", "/login/callback"] {
        let mut browser = Browser::new(&service, PUBLIC_URL);
        let get = browser.get(url).await;
        let head = browser.send(Method::HEAD, url, &[], None).await;
        assert_eq!((head.status, head.body.len()), (get.status, 0));
        for name in ["content-type", "content-security-policy", "cache-control", "referrer-policy"] {
            assert_eq!(head.headers.get(name), get.headers.get(name), "{name} of {url}");
        }
        assert_eq!(get.header("cache-control"), "no-store");
        assert!(get.header("content-security-policy").contains("frame-ancestors 'none'"));
    }
}
