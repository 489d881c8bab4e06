//! Mirrors `src/channels/email.rs`: mails as a real server takes them.

use countersign::{
    app::{
        links::{AskedFor, FollowedLink},
        ports::{Courier as _, Delivery, Dispatch},
    },
    channels::email::EmailCourier,
    domain::channel::{Channel, ChannelKind, Channels, Destination},
    domain::{identity::ChannelName, ids::NoticeId, notice::NoticeEvent, session::Secret},
};
use serde_json::json;
use uuid::Uuid;

use crate::support::{
    clock::START,
    mail_server::MailServer,
    world::{Setup, on_each_engine_with},
};

fn to() -> Destination {
    Destination::Channel(ChannelName::parse("mail").unwrap())
}

fn setup() -> Setup {
    let name = ChannelName::parse("mail").unwrap();
    let mail = Channel { name, kind: ChannelKind::Email, groups: [].into(), fallback: None, quiet: None };
    Setup { channels: Channels::new([mail], []).unwrap(), reviewers: vec![("ana", &[])], ..Setup::default() }
}

fn courier(url: &str) -> EmailCourier {
    EmailCourier::new(url, "Countersign <approvals@acme.example>", "approve.acme.example").unwrap()
}

#[tokio::test]
async fn a_notice_says_what_would_run_and_where_to_decide() {
    on_each_engine_with(setup(), |world| async move {
        let server = MailServer::answering("250 fine").await;
        let (_, approval) = world.hold("send_email", json!({ "to": "x@acme.example", "body": "a\u{202e}b" })).await;
        assert_eq!(world.app.deliver_to(&to(), &courier(server.url())).await.unwrap(), 1);
        let mail = server.mails().remove(0);
        assert_eq!(mail.to, "ana@acme.example");
        let (headers, body) = mail.text.split_once("\n\n").unwrap();
        let subject = format!("Subject: {} Approval needed: send_email", approval.code);
        assert!(headers.contains(&subject), "{headers}");
        assert!(!headers.contains("x@acme.example"), "no argument in a header: {headers}");
        assert!(headers.contains("Auto-Submitted: auto-generated"));
        assert!(headers.contains("Content-Type: text/plain; charset=utf-8"));
        assert!(headers.contains(&format!("References: <{}@approve.acme.example>", approval.id)), "{headers}");
        let body = body.replace("=\n", "").replace("=3D", "=");
        assert!(body.contains("/to = \"x@acme.example\""), "{body}");
        assert!(body.contains("a\\u{202e}b"), "{body}");
        let link = body.lines().find(|line| line.starts_with("https://approve.acme.example/")).unwrap();
        assert!(link.starts_with("https://approve.acme.example/link/"), "a link for this person alone: {link}");
        let secret = Secret::parse(link.rsplit('/').next().unwrap()).unwrap();
        let followed = world.app.follow_link(&secret, AskedFor::Elsewhere, None, "req-1").await.unwrap();
        let FollowedLink::Opened(opened) = followed else { panic!("{followed:?}") };
        assert!(opened.session.may_see(approval.id));
    })
    .await;
}

#[tokio::test]
async fn a_refusal_of_the_server_is_final_and_a_delay_is_not() {
    on_each_engine_with(setup(), |world| async move {
        world.hold("send_email", json!({ "to": "x" })).await;
        let busy = MailServer::answering("451 later").await;
        assert_eq!(world.app.deliver_to(&to(), &courier(busy.url())).await.unwrap(), 0);
        assert_eq!(world.app.dead_letters(None, 10).await.unwrap().0, []);
        world.clock.advance(std::time::Duration::from_secs(60));
        let strict = MailServer::answering("550 no such user").await;
        assert_eq!(world.app.deliver_to(&to(), &courier(strict.url())).await.unwrap(), 0);
        let dead = world.app.dead_letters(None, 10).await.unwrap().0;
        assert_eq!(dead[0].failed[1].fault, "the mail server refused it (550)");
    })
    .await;
}

#[tokio::test]
async fn a_machine_is_written_no_mail() {
    let server = MailServer::answering("250 fine").await;
    let event = Dispatch::Event {
        id: NoticeId::from_uuid(Uuid::from_u128(1)),
        event: NoticeEvent::Approved,
        at: START,
        data: json!({}),
    };
    let refused = Delivery::Refused { fault: "mail goes to people only".to_owned() };
    assert_eq!(courier(server.url()).deliver(&event).await, refused);
    assert_eq!(server.mails(), []);
}

#[test]
fn an_address_that_is_none_is_told_at_the_start() {
    assert!(EmailCourier::new("imap://mail", "a@b.example", "h").is_err());
    assert!(EmailCourier::new("smtp://mail:25", "nobody", "h").is_err());
}
