//! Signing in at a real provider, `oidc-provider` on Node, as a browser without scripts would.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Lines},
    process::{Child, ChildStdout, Stdio},
};

use axum::http::{Method, StatusCode};
use countersign::{
    app::ports::Clock as _,
    auth::{
        issuer::{Issuer, Schemes},
        oidc::{Oidc, OidcClient},
    },
    domain::audit::entry::EventKind,
    outbound::{Credentials, Issuers, Outbound},
    server::system::SystemClock,
};
use reqwest::{Client, Response, redirect::Policy};
use url::Url;

use super::*;
use crate::support::{programs, service::Answer};

/// A provider in a process of its own.
struct RealProvider {
    process: Child,
    address: String,
    /// Kept open: it writes more, and ends when nobody could read it.
    _output: Lines<BufReader<ChildStdout>>,
}

impl RealProvider {
    fn start() -> Self {
        let mut process = programs::node("sign-in-provider.mjs")
            .arg(format!("{PUBLIC_URL}/login/callback"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        // It warns on its way, before it says where it is.
        let address = lines.by_ref().find_map(|line| line.ok().filter(|line| line.starts_with("http://"))).unwrap();
        Self { process, address, _output: lines }
    }

    async fn service(&self) -> Service {
        let client = Issuers::new(Outbound::new(Arc::new(Credentials::default())), true);
        let issuer = Issuer::new(self.address.clone(), None, Schemes::HttpToo, Arc::new(client));
        let client = OidcClient {
            id: "countersign".to_owned(),
            secret: Arc::from("a-secret-of-the-test"),
            scopes: "openid".to_owned(),
            redirect_uri: format!("{PUBLIC_URL}/login/callback"),
        };
        let provider = Some(Arc::new(Oidc::new(issuer, client)) as Arc<_>);
        let mut people = vec![reviewer("ana", &["leads"]), reviewer("ben", &[])];
        people[0].oidc_subject = Some("alice".to_owned());
        let sign_in = SignInSettings { provider, ..SignInSettings::default() };
        let service = Service::where_people_sign_in(people, sign_in, PUBLIC_URL).await;
        // The provider reads the clock of the machine.
        service.clock.set(SystemClock.now());
        service
    }
}

impl Drop for RealProvider {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A person's browser at the provider.
struct Person {
    client: Client,
    cookies: BTreeMap<String, String>,
    name: &'static str,
}

impl Person {
    fn new(name: &'static str) -> Self {
        Self { client: Client::builder().redirect(Policy::none()).build().unwrap(), cookies: BTreeMap::new(), name }
    }

    async fn send(&mut self, url: &Url, form: Option<&str>) -> Response {
        let held: Vec<_> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = match form {
            None => self.client.get(url.clone()),
            Some(form) => self
                .client
                .post(url.clone())
                .header("content-type", "application/x-www-form-urlencoded")
                .body(form.to_owned()),
        };
        let response = request.header("cookie", held.join("; ")).send().await.unwrap();
        for set in response.headers().get_all("set-cookie") {
            let pair = set.to_str().unwrap().split(';').next().unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            if value.is_empty() {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        response
    }

    /// Follows where the provider leads, and does what its pages ask for; where the browser is sent back to, and how
    /// often the password was asked for.
    async fn go(&mut self, address: &str) -> (Url, u32) {
        let mut url = Url::parse(address).unwrap();
        let mut asked = 0;
        loop {
            if url.as_str().starts_with(PUBLIC_URL) {
                return (url, asked);
            }
            let response = self.send(&url, None).await;
            let response = if response.status() == StatusCode::OK {
                let page = response.text().await.unwrap();
                let form = if page.contains("name=\"prompt\" value=\"login\"") {
                    asked += 1;
                    format!("prompt=login&login={}&password=x", self.name)
                } else {
                    assert!(page.contains("name=\"prompt\" value=\"consent\""), "{page}");
                    "prompt=consent".to_owned()
                };
                self.send(&url, Some(&form)).await
            } else {
                response
            };
            assert!(response.status().is_redirection(), "{response:?}");
            url = url.join(response.headers()["location"].to_str().unwrap()).unwrap();
        }
    }
}

async fn begin(service: &Service, browser: &mut Browser<'_>, path: &str) -> String {
    let page = browser.get(path).await;
    service.clock.advance(SECOND);
    let answer = browser.press(&page).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    answer.header("location").to_owned()
}

async fn back(browser: &mut Browser<'_>, address: &Url) -> Answer {
    let path = format!("{}?{}", address.path(), address.query().unwrap());
    browser.send(Method::GET, &path, &[], None).await
}

async fn session(service: &Service, browser: &Browser<'_>) -> countersign::domain::session::Session {
    let secret = Secret::parse(&browser.cookies["__Host-session"]).unwrap();
    service.app.signed_in(&secret, "req").await.unwrap().unwrap().session
}

#[tokio::test]
async fn a_real_provider_signs_reviewers_in_once_per_answer_and_afresh_when_asked() {
    let provider = RealProvider::start();
    let service = provider.service().await;
    let (mut browser, mut alice) = (Browser::new(&service, PUBLIC_URL), Person::new("alice"));
    let (address, asked) = alice.go(&begin(&service, &mut browser, "/login?to=/review/grants").await).await;
    assert_eq!(asked, 1);
    assert!(address.query_pairs().any(|(name, value)| name == "iss" && value == provider.address), "{address}");
    let before = browser.cookies.clone();
    let answer = back(&mut browser, &address).await;
    assert_eq!((answer.status, answer.header("location")), (303, "/review/grants"));
    let first = session(&service, &browser).await;
    assert_eq!(first.reviewer, ana());

    // The same answer again, and its code within another sign-in.
    let mut again = Browser::new(&service, PUBLIC_URL);
    again.cookies = before;
    assert_eq!(back(&mut again, &address).await.status, 403);
    let code = address.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned();
    let (mut other, asked) = alice.go(&begin(&service, &mut again, "/login").await).await;
    assert_eq!(asked, 0, "the provider knows her still");
    let pairs: Vec<_> = other
        .query_pairs()
        .into_owned()
        .map(|(name, value)| if name == "code" { (name, code.clone()) } else { (name, value) })
        .collect();
    other.query_pairs_mut().clear().extend_pairs(pairs);
    assert_eq!(back(&mut again, &other).await.status, 403);
    assert!(!again.cookies.contains_key("__Host-session"));

    // Afresh: the provider asks for the password again, and says when.
    let (address, asked) = alice.go(&begin(&service, &mut again, "/login?fresh=1").await).await;
    assert_eq!(asked, 1);
    assert_eq!(back(&mut again, &address).await.status, 303);
    let fresh = session(&service, &again).await;
    assert!(fresh.is_fresh(service.clock.now()));
    assert!(fresh.authenticated_at >= first.authenticated_at);

    // Somebody whom the provider knows, and nobody here.
    let (mut elsewhere, mut mallory) = (Browser::new(&service, PUBLIC_URL), Person::new("mallory"));
    let (address, _) = mallory.go(&begin(&service, &mut elsewhere, "/login").await).await;
    assert_eq!(back(&mut elsewhere, &address).await.status, 403);
    let refused = service.logged(EventKind::SignInRefused).await;
    assert_eq!(refused[0].entry.actor.name, "mallory");
}

#[tokio::test]
async fn an_answer_of_a_real_provider_is_for_the_browser_that_began() {
    let provider = RealProvider::start();
    let service = provider.service().await;
    let (mut mallory, mut victim) = (Browser::new(&service, PUBLIC_URL), Browser::new(&service, PUBLIC_URL));
    let mut person = Person::new("alice");
    let (address, _) = person.go(&begin(&service, &mut mallory, "/login").await).await;
    begin(&service, &mut victim, "/login").await;
    assert_eq!(back(&mut victim, &address).await.status, 403);
    assert!(!victim.cookies.contains_key("__Host-session"));
}
