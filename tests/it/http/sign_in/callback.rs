//! Signing in at a provider that says what the test wants it to say.

use axum::http::Method;
use countersign::{
    auth::{
        issuer::{Issuer, Schemes},
        oidc::{Oidc, OidcClient},
    },
    domain::{
        audit::entry::EventKind,
        identity::ReviewerEntry,
        session::{SessionScope, SignInMethod},
    },
};
use serde_json::{Value, json};
use url::Url;

use super::*;
use crate::support::{
    issuer::{CLIENT, ISSUER, MadeUpIssuer, SECRET, forged, signed},
    service::Answer,
};

/// The clock of the service, as an issuer counts.
const NOW: i64 = START.as_micros() / 1_000_000;

fn people() -> Vec<ReviewerEntry> {
    let with = |name: &str, subject: &str| ReviewerEntry {
        oidc_subject: Some(subject.to_owned()),
        ..reviewer(name, &["leads"])
    };
    vec![with("ana", "auth0|ana"), with("ben", "auth0|ben")]
}

fn sign_in_at(issuer: &MadeUpIssuer) -> SignInSettings {
    let known = Issuer::new(ISSUER.to_owned(), None, Schemes::Https, Arc::new(issuer.clone()));
    let client = OidcClient {
        id: CLIENT.to_owned(),
        secret: Arc::from(SECRET),
        scopes: "openid email".to_owned(),
        redirect_uri: format!("{PUBLIC_URL}/login/callback"),
    };
    SignInSettings { provider: Some(Arc::new(Oidc::new(known, client))), ..SignInSettings::default() }
}

async fn service_at(issuer: &MadeUpIssuer) -> Service {
    Service::where_people_sign_in(people(), sign_in_at(issuer), PUBLIC_URL).await
}

/// Presses the button of the sign-in; where the browser is sent.
async fn begin(service: &Service, browser: &mut Browser<'_>, path: &str) -> String {
    let page = browser.get(path).await;
    assert_eq!(page.status, 200, "{page:?}");
    service.clock.advance(SECOND);
    let answer = browser.press(&page).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    answer.header("location").to_owned()
}

/// Comes back from the provider.
async fn back(browser: &mut Browser<'_>, address: &Url) -> Answer {
    assert_eq!(address.as_str().strip_prefix(PUBLIC_URL).map(|_| address.path()), Some("/login/callback"));
    let headers = [("sec-fetch-site", "cross-site")];
    browser.send(Method::GET, &format!("{}?{}", address.path(), address.query().unwrap()), &headers, None).await
}

/// The session that the browser holds.
async fn person(service: &Service, browser: &Browser<'_>) -> Option<countersign::app::sessions::SignedInPerson> {
    let secret = Secret::parse(browser.cookies.get("__Host-session")?).unwrap();
    service.app.signed_in(&secret, "req").await.unwrap()
}

/// Signs `subject` in; what the provider's answer came to.
async fn sign_in(service: &Service, browser: &mut Browser<'_>, issuer: &MadeUpIssuer, subject: &str) -> Answer {
    let address = begin(service, browser, "/login").await;
    let address = issuer.sign_in(&address, subject);
    back(browser, &address).await
}

/// Asserts that nobody is signed in after claims like this.
async fn refused(change: impl Fn(Value) -> Value + Send + 'static) {
    let issuer = MadeUpIssuer::new(NOW);
    let service = service_at(&issuer).await;
    issuer.claims(change);
    let mut browser = Browser::new(&service, PUBLIC_URL);
    let answer = sign_in(&service, &mut browser, &issuer, "auth0|ana").await;
    assert_eq!(answer.status, 403, "{answer:?}");
    assert!(person(&service, &browser).await.is_none());
    assert!(!browser.cookies.contains_key("__Host-session"));
}

fn with(mut claims: Value, name: &str, value: Value) -> Value {
    claims[name] = value;
    claims
}

fn without(mut claims: Value, name: &str) -> Value {
    claims.as_object_mut().unwrap().remove(name);
    claims
}

#[tokio::test]
async fn a_reviewer_signs_in_and_comes_where_he_wanted_to_go() {
    let issuer = MadeUpIssuer::new(NOW);
    let service = service_at(&issuer).await;
    let mut browser = Browser::new(&service, PUBLIC_URL);
    let to = "/review?sort=risk&group=leads";
    let address = begin(&service, &mut browser, "/login?to=/review%3Fsort%3Drisk%26group%3Dleads").await;
    assert!(!address.contains("prompt") && !address.contains("max_age"));
    let answer = back(&mut browser, &issuer.sign_in(&address, "auth0|ana")).await;
    assert_eq!((answer.status, answer.header("location")), (303, to));
    let person = person(&service, &browser).await.unwrap();
    assert_eq!((person.session.method, person.session.scope), (SignInMethod::Oidc, SessionScope::Everything));
    assert_eq!(person.reviewer.name, ana());
    assert_eq!(person.session.authenticated_at.as_micros() / 1_000_000, NOW - 10);
    assert_eq!(person.session.ends_at, service.clock.now().plus(7 * 24 * HOUR));
    let opened = service.logged(EventKind::SessionOpened).await;
    assert_eq!((opened.len(), opened[0].entry.actor.name.as_str()), (1, "ana"));
    // Whoever is signed in is not asked again.
    let again = browser.get("/login?to=/review/grants").await;
    assert_eq!((again.status, again.header("location")), (303, "/review/grants"));
}

#[tokio::test]
async fn nobody_is_led_out_of_the_service() {
    let issuer = MadeUpIssuer::new(NOW);
    let service = service_at(&issuer).await;
    let wrong = [
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "/review//evil.example",
        "/reviewer",
        "/login",
        "/review\\evil",
        "/review/%0d%0aset-cookie:x",
        "review",
        "/audit",
        "/review/\u{202e}",
        "",
    ];
    for to in wrong {
        let mut browser = Browser::new(&service, PUBLIC_URL);
        let query: String = url::form_urlencoded::Serializer::new(String::new()).append_pair("to", to).finish();
        let address = begin(&service, &mut browser, &format!("/login?{query}")).await;
        let answer = back(&mut browser, &issuer.sign_in(&address, "auth0|ana")).await;
        let location = answer.header("location");
        assert!(location == "/review" || location == "/review/%0d%0aset-cookie:x", "{to}: {location}");
    }
}

#[tokio::test]
async fn a_stranger_is_told_so_and_recorded() {
    let issuer = MadeUpIssuer::new(NOW);
    let service = service_at(&issuer).await;
    // Names and spellings of reviewers are no subjects.
    for subject in ["auth0|mallory", "ana", "auth0|ANA", "auth0|ana "] {
        let mut browser = Browser::new(&service, PUBLIC_URL);
        let answer = sign_in(&service, &mut browser, &issuer, subject).await;
        assert_eq!(answer.status, 403);
        assert!(answer.text().contains("not a reviewer here"));
        assert!(person(&service, &browser).await.is_none());
    }
    let refused = service.logged(EventKind::SignInRefused).await;
    assert_eq!(refused.len(), 4);
    assert_eq!((refused[0].entry.actor.name.as_str(), refused[0].entry.actor.via.as_str()), ("auth0|mallory", "oidc"));
}

#[tokio::test]
async fn an_id_token_is_this_issuers_for_this_client_now() {
    refused(|claims| with(claims, "iss", json!("https://login.evil"))).await;
    refused(|claims| with(claims, "iss", json!(format!("{ISSUER}/")))).await;
    refused(|claims| with(claims, "aud", json!("other"))).await;
    refused(|claims| with(claims, "aud", json!([]))).await;
    refused(|claims| with(claims, "aud", json!([CLIENT, "other"]))).await;
    refused(|claims| with(claims, "azp", json!("other"))).await;
    refused(|claims| with(claims, "exp", json!(NOW - 29))).await;
    refused(|claims| with(claims, "iat", json!(NOW + 40))).await;
    refused(|claims| with(claims, "nbf", json!(NOW + 40))).await;
    refused(|claims| with(claims, "nonce", json!("other"))).await;
    refused(|claims| with(claims, "sub", json!(""))).await;
    refused(|claims| with(claims, "auth_time", json!(NOW + 40))).await;
    for name in ["iss", "aud", "exp", "iat", "nonce", "sub"] {
        refused(move |claims| without(claims, name)).await;
    }
}

#[tokio::test]
async fn an_id_token_for_several_names_this_client_as_the_party() {
    let issuer = MadeUpIssuer::new(NOW);
    let service = service_at(&issuer).await;
    issuer.claims(|claims| with(with(claims, "aud", json!([CLIENT, "other"])), "azp", json!(CLIENT)));
    let mut browser = Browser::new(&service, PUBLIC_URL);
    assert_eq!(sign_in(&service, &mut browser, &issuer, "auth0|ana").await.status, 303);
}

#[tokio::test]
async fn an_answer_counts_once_in_the_browser_that_began_and_within_ten_minutes() {
    let issuer = MadeUpIssuer::new(NOW);
    let service = service_at(&issuer).await;
    let mut browser = Browser::new(&service, PUBLIC_URL);
    let address = issuer.sign_in(&begin(&service, &mut browser, "/login").await, "auth0|ana");

    let mut other = Browser::new(&service, PUBLIC_URL);
    assert_eq!(back(&mut other, &address).await.status, 403, "another browser, which began nothing");
    begin(&service, &mut other, "/login").await;
    assert_eq!(back(&mut other, &address).await.status, 403, "another browser");
    assert!(person(&service, &other).await.is_none());
    // Its state is known elsewhere now, so it is gone.
    assert_eq!(back(&mut browser, &address).await.status, 403);

    let address = issuer.sign_in(&begin(&service, &mut browser, "/login").await, "auth0|ana");
    let before = browser.cookies.clone();
    assert_eq!(back(&mut browser, &address).await.status, 303);
    browser.cookies = before;
    assert_eq!(back(&mut browser, &address).await.status, 403, "the same answer again");

    let late = issuer.sign_in(&begin(&service, &mut browser, "/login").await, "auth0|ana");
    service.clock.advance(10 * MINUTE);
    assert_eq!(back(&mut browser, &late).await.status, 403);
}

#[tokio::test]
async fn an_answer_says_whose_it_is_and_brings_a_code() {
    let issuer = MadeUpIssuer::new(NOW);
    let service = service_at(&issuer).await;
    let mut browser = Browser::new(&service, PUBLIC_URL);
    let change = |address: &Url, name: &str, value: Option<&str>| {
        let mut pairs: Vec<_> = address.query_pairs().into_owned().filter(|(found, _)| found != name).collect();
        pairs.extend(value.map(|value| (name.to_owned(), value.to_owned())));
        let mut changed = address.clone();
        changed.query_pairs_mut().clear().extend_pairs(pairs);
        changed
    };
    for (name, value) in [
        ("iss", None),
        ("iss", Some("https://login.evil")),
        ("state", None),
        ("state", Some("x")),
        ("state", Some("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")),
        ("code", None),
        ("code", Some("")),
        ("code", Some("code-99")),
        ("error", Some("access_denied")),
    ] {
        let address = issuer.sign_in(&begin(&service, &mut browser, "/login").await, "auth0|ana");
        let answer = back(&mut browser, &change(&address, name, value)).await;
        assert_eq!(answer.status, 403, "{name} {value:?}");
        assert!(person(&service, &browser).await.is_none());
    }
    // A provider that does not announce it may leave it out.
    let quiet = MadeUpIssuer::new(NOW);
    quiet.discovery("authorization_response_iss_parameter_supported", json!(false));
    let service = service_at(&quiet).await;
    let mut browser = Browser::new(&service, PUBLIC_URL);
    let address = quiet.sign_in(&begin(&service, &mut browser, "/login").await, "auth0|ana");
    assert_eq!(back(&mut browser, &change(&address, "iss", None)).await.status, 303);
}

#[tokio::test]
async fn a_code_of_another_sign_in_is_worth_nothing() {
    let issuer = MadeUpIssuer::new(NOW);
    let service = service_at(&issuer).await;
    let mut mallory = Browser::new(&service, PUBLIC_URL);
    let stolen = issuer.sign_in(&begin(&service, &mut mallory, "/login").await, "auth0|ana");
    let code = stolen.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned();
    let mut browser = Browser::new(&service, PUBLIC_URL);
    let mut own = issuer.sign_in(&begin(&service, &mut browser, "/login").await, "auth0|ben");
    let pairs: Vec<_> = own
        .query_pairs()
        .into_owned()
        .map(|(name, value)| if name == "code" { (name, code.clone()) } else { (name, value) })
        .collect();
    own.query_pairs_mut().clear().extend_pairs(pairs);
    assert_eq!(back(&mut browser, &own).await.status, 403);
}

#[tokio::test]
async fn a_fresh_sign_in_is_asked_for_and_lasts_five_minutes() {
    let issuer = MadeUpIssuer::new(NOW);
    let service = service_at(&issuer).await;
    let mut browser = Browser::new(&service, PUBLIC_URL);
    issuer.claims(|claims| with(claims, "auth_time", json!(NOW - 3_600)));
    assert_eq!(sign_in(&service, &mut browser, &issuer, "auth0|ana").await.status, 303);
    let first = person(&service, &browser).await.unwrap().session;
    assert!(!first.is_fresh(service.clock.now()));

    let page = browser.get("/login?to=/review/approvals/x&fresh=1").await;
    assert!(page.text().contains("Sign in again"));
    let address = begin(&service, &mut browser, "/login?to=/review/approvals/x&fresh=1").await;
    assert!(address.contains("prompt=login") && address.contains("max_age=300"), "{address}");
    // The provider says that the person did not do it.
    let answer = back(&mut browser, &issuer.sign_in(&address, "auth0|ana")).await;
    assert_eq!(answer.status, 403);
    issuer.claims(|claims| without(claims, "auth_time"));
    let address = begin(&service, &mut browser, "/login?fresh=1").await;
    assert_eq!(back(&mut browser, &issuer.sign_in(&address, "auth0|ana")).await.status, 403);
    assert_eq!(person(&service, &browser).await.unwrap().session.id, first.id);

    issuer.claims(|claims| with(claims, "auth_time", json!(NOW)));
    let address = begin(&service, &mut browser, "/login?to=/review/approvals/x&fresh=1").await;
    let answer = back(&mut browser, &issuer.sign_in(&address, "auth0|ana")).await;
    assert_eq!(answer.header("location"), "/review/approvals/x");
    let second = person(&service, &browser).await.unwrap().session;
    assert_ne!(second.id, first.id, "what was held before is over");
    assert!(second.is_fresh(service.clock.now()));
    service.clock.set(START.plus(5 * MINUTE));
    assert!(!second.is_fresh(service.clock.now()));
    let log = service.logged(EventKind::SessionOpened).await;
    assert_eq!(log[1].entry.detail["replaces"], json!(first.id.to_string()));
}

#[tokio::test]
async fn a_sign_in_whose_age_nobody_says_is_not_fresh() {
    let issuer = MadeUpIssuer::new(NOW);
    let service = service_at(&issuer).await;
    issuer.claims(|claims| without(claims, "auth_time"));
    let mut browser = Browser::new(&service, PUBLIC_URL);
    assert_eq!(sign_in(&service, &mut browser, &issuer, "auth0|ana").await.status, 303);
    assert!(!person(&service, &browser).await.unwrap().session.is_fresh(service.clock.now()));
}

#[tokio::test]
async fn an_issuer_is_asked_again_for_keys_that_are_not_known_but_not_for_ever() {
    let issuer = MadeUpIssuer::new(NOW);
    let service = service_at(&issuer).await;
    issuer.publish(&["zero"]);
    let mut browser = Browser::new(&service, PUBLIC_URL);
    assert_eq!(sign_in(&service, &mut browser, &issuer, "auth0|ana").await.status, 403);
    assert_eq!(sign_in(&service, &mut browser, &issuer, "auth0|ana").await.status, 403);
    let asked = |path: &str| issuer.requests().iter().filter(|asked| *asked == path).count();
    assert_eq!(asked("/jwks"), 1, "once in half a minute");
    issuer.publish(&["zero", "one"]);
    service.clock.advance(30 * SECOND);
    assert_eq!(sign_in(&service, &mut browser, &issuer, "auth0|ana").await.status, 303);
    assert_eq!((asked("/jwks"), asked("/.well-known/openid-configuration")), (2, 1));
}

#[tokio::test]
async fn a_provider_that_does_not_answer_signs_nobody_in() {
    let issuer = MadeUpIssuer::new(NOW);
    let service = service_at(&issuer).await;
    issuer.down(true);
    let mut browser = Browser::new(&service, PUBLIC_URL);
    let page = browser.get("/login").await;
    service.clock.advance(SECOND);
    assert_eq!(browser.press(&page).await.status, 502);
    issuer.down(false);
    assert_eq!(browser.press(&page).await.status, 502, "it is left alone for five seconds");
    issuer.discovery("issuer", json!("https://login.evil"));
    service.clock.advance(5 * SECOND);
    assert_eq!(browser.press(&page).await.status, 502);
    issuer.discovery("issuer", json!(ISSUER));
    service.clock.advance(5 * SECOND);
    issuer.discovery("token_endpoint", json!("http://login.test/token"));
    let address = issuer.sign_in(&begin(&service, &mut browser, "/login").await, "auth0|ana");
    assert_eq!(back(&mut browser, &address).await.status, 502, "a secret is sent over https");
}

#[tokio::test]
async fn a_field_that_comes_twice_or_is_none_of_the_page_is_refused() {
    let issuer = MadeUpIssuer::new(NOW);
    let service = service_at(&issuer).await;
    let mut browser = Browser::new(&service, PUBLIC_URL);
    let page = browser.get("/login").await;
    service.clock.advance(SECOND);
    let fields = crate::support::browser::form_of(&page).fields;
    for more in [("to", "/review/grants"), ("other", "1")] {
        let fields = [fields.clone(), vec![(more.0.to_owned(), more.1.to_owned())]].concat();
        assert_eq!(browser.post("/login", &fields).await.status, 400, "{more:?}");
    }
    let without: Vec<_> = fields.iter().filter(|(name, _)| name != "to").cloned().collect();
    assert_eq!(browser.post("/login", &without).await.status, 400);
    assert_eq!(browser.post("/login", &fields).await.status, 303);
}

#[tokio::test]
async fn too_many_strangers_at_once_are_turned_away_before_anything_is_written() {
    let issuer = MadeUpIssuer::new(NOW);
    let service = service_at(&issuer).await;
    let mut browser = Browser::new(&service, PUBLIC_URL);
    let page = browser.get("/login").await;
    service.clock.advance(SECOND);
    let mut begun = Vec::new();
    for _ in 0..50 {
        begun.push(browser.press(&page).await);
    }
    assert!(begun.iter().all(|answer| answer.status == 303), "{begun:?}");
    let returning = issuer.sign_in(begun[0].header("location"), "auth0|ana");
    assert_eq!(browser.press(&page).await.status, 429);
    assert_eq!(back(&mut browser, &returning).await.status, 429);
    service.clock.advance(SECOND);
    // Nothing was taken from the sign-in that had to wait.
    assert_eq!(back(&mut browser, &returning).await.status, 303);
    assert!(person(&service, &browser).await.is_some());
}

#[tokio::test]
async fn without_a_provider_the_page_says_so() {
    let service = Service::start().await;
    let mut browser = Browser::new(&service, PUBLIC_URL);
    let page = browser.get("/login").await;
    assert_eq!(page.status, 404);
    assert!(page.text().contains("personal link"));
}

#[tokio::test]
async fn the_page_lets_browsers_follow_to_the_provider() {
    let issuer = MadeUpIssuer::new(NOW);
    let service = service_at(&issuer).await;
    let mut browser = Browser::new(&service, PUBLIC_URL);
    let page = browser.get("/login").await;
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("form-action"), "{policy}");
    assert_eq!(
        page.header("set-cookie").split_once(';').unwrap().1,
        " Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=600"
    );
}

mod tokens;
