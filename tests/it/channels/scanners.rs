//! Every address in every message, looked at and pressed at once by whatever scans links: nothing changes.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use axum::http::Method;
use countersign::{
    app::ports::Courier,
    channels::{
        email::EmailCourier,
        slack::message::Clicks,
        teams::TeamsCourier,
        webhook::{WebhookCourier, WebhookKey},
    },
    domain::{
        channel::{Channel, ChannelKind, Channels, Destination},
        identity::{ChannelName, ReviewerEntry},
    },
    outbound::{Credentials, Outbound},
};
use regex::Regex;
use secrecy::SecretString;

use crate::support::{
    browser::Browser,
    mail_server::MailServer,
    receiver::Receiver,
    service::{PUBLIC_URL, Service, reviewer},
    slack::Slack,
};

const KINDS: [(&str, ChannelKind); 4] = [
    ("chat", ChannelKind::Slack),
    ("hook", ChannelKind::Webhook),
    ("mail", ChannelKind::Email),
    ("teams", ChannelKind::Teams),
];

fn named(name: &str) -> ChannelName {
    ChannelName::parse(name).unwrap()
}

fn channels() -> Channels {
    let channel = |(name, kind)| Channel { name: named(name), kind, groups: [].into(), fallback: None, quiet: None };
    Channels::new(KINDS.map(channel), []).unwrap()
}

/// Everything that is sent of what is due: every text of every channel.
async fn messages(service: &Service) -> Vec<String> {
    let (slack, mail) = (Slack::start().await, MailServer::answering("250 fine").await);
    let (hook, teams) = (Receiver::answering([]).await, Receiver::answering([]).await);
    let outbound = Outbound::new(Arc::new(Credentials::default()));
    let couriers: [(&str, Box<dyn Courier>); 4] = [
        ("chat", Box::new(slack.courier(Clicks::Verified))),
        (
            "hook",
            Box::new(WebhookCourier {
                outbound: outbound.clone(),
                clock: Arc::<crate::support::clock::ManualClock>::clone(&service.clock),
                url: hook.url().to_owned(),
                keys: vec![WebhookKey::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap()],
                allow_private: true,
            }),
        ),
        ("mail", Box::new(EmailCourier::new(mail.url(), true, "a@acme.example", "acme.example").unwrap())),
        ("teams", Box::new(TeamsCourier { outbound, url: SecretString::from(teams.url()), allow_private: true })),
    ];
    for (name, courier) in &couriers {
        while service.app.deliver_to(&Destination::Channel(named(name)), courier.as_ref()).await.unwrap() > 0 {
            service.clock.advance(Duration::from_secs(1));
        }
    }
    let slack = slack.called().into_iter().map(|called| called.body.to_string());
    let posted = hook.received().into_iter().chain(teams.received()).map(|received| received.body);
    // Long lines of mails are folded (RFC 2045, section 6.7).
    let mails = mail.mails().into_iter().map(|mail| mail.text.replace("=\n", "").replace("=3D", "="));
    slack.chain(posted).chain(mails).collect()
}

/// The addresses of the service in these texts, without its own beginning.
fn addresses(texts: &[String]) -> BTreeSet<String> {
    let address = Regex::new(&format!(r#"{}(/[^\s"\\<>|]*)"#, regex::escape(PUBLIC_URL))).unwrap();
    texts.iter().flat_map(|text| address.captures_iter(text).map(|found| found[1].to_owned())).collect()
}

/// Looks at an address, and presses every button of the page at once; how many buttons there were.
async fn scan(browser: &mut Browser<'_>, address: &str) -> usize {
    browser.send(Method::HEAD, address, &[], None).await;
    let page = browser.get(address).await;
    let form = Regex::new(r#"(?s)<form([^>]*)>(.*?)</form>"#).unwrap();
    let action = Regex::new(r#"action="([^"]*)""#).unwrap();
    let hidden = Regex::new(r#"<input type="hidden" name="([^"]*)" value="([^"]*)""#).unwrap();
    let elsewhere = Regex::new(r#"formaction="([^"]*)""#).unwrap();
    let button = Regex::new("<button([^>]*)>").unwrap();
    let named = Regex::new(r#"name="([^"]*)" value="([^"]*)""#).unwrap();
    let mut pressed = 0;
    for found in form.captures_iter(page.text()).filter(|found| found[1].contains(r#"method="post""#)) {
        let fields = |text: &str| -> Vec<(String, String)> {
            named.captures_iter(text).map(|field| (field[1].to_owned(), field[2].to_owned())).collect()
        };
        let kept: Vec<_> = hidden.find_iter(&found[2]).flat_map(|input| fields(input.as_str())).collect();
        for button in button.captures_iter(&found[2]).filter(|button| !button[1].contains("dialog")) {
            let to = elsewhere.captures(&button[1]).or_else(|| action.captures(&found[1])).unwrap()[1].to_owned();
            let sent: Vec<_> = kept.iter().cloned().chain(fields(&button[1])).collect();
            let answer = browser.post(&to, &sent).await;
            assert!(answer.status >= 400, "{to} was taken: {answer:?}");
            pressed += 1;
        }
    }
    pressed
}

#[tokio::test]
async fn whatever_scans_the_links_of_messages_and_presses_their_buttons_changes_nothing() {
    let people = ["ana", "ben"]
        .map(|name| ReviewerEntry { email: Some(format!("{name}@acme.example")), ..reviewer(name, &["leads"]) });
    let service = Service::telling(channels(), people.to_vec()).await;
    for id in ["t1", "t2"] {
        service.held(id).await;
    }
    let found = addresses(&messages(&service).await);
    let (links, pages): (Vec<_>, Vec<_>) = found.iter().partition(|address| address.starts_with("/link/"));
    assert_eq!((links.len(), pages.len()), (4, 2), "{found:?}");

    // Somebody who opened a link, and what scans that person's browser with it.
    let mut person = Browser::new(&service, PUBLIC_URL);
    let page = person.get(links[0]).await;
    service.clock.advance(Duration::from_secs(2));
    assert_eq!(person.press(&page).await.status, 303);

    let mut writes = service.watch_writes().await;
    let (mut by_nobody, mut by_somebody) = (0, 0);
    for address in &found {
        by_nobody += scan(&mut Browser::new(&service, PUBLIC_URL), address).await;
        by_somebody += scan(&mut person, address).await;
        assert!(!writes.any().await, "{address}");
    }
    assert_eq!(by_nobody, links.len(), "a link has one button, and everything else none without a session");
    assert!(by_somebody > by_nobody, "there was something to decide");
}
