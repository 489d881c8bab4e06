//! Mirrors `src/channels/email.rs`: mails as a real server takes them.

use countersign::{
    app::{
        links::{AskedFor, FollowedLink},
        ports::{Courier as _, Delivery, Dispatch},
    },
    channels::email::{EmailCourier, NoMail},
    domain::channel::{Channel, ChannelKind, Channels, Destination},
    domain::{identity::ChannelName, ids::NoticeId, notice::NoticeEvent, session::Secret},
};
use serde_json::json;
use uuid::Uuid;

use crate::support::{
    clock::START,
    mail_server::{Mail, MailServer},
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
    EmailCourier::new(url, true, "Countersign <approvals@acme.example>", "approve.acme.example").unwrap()
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
    let fault = |url, from| EmailCourier::new(url, false, from, "h").err();
    assert_eq!(fault("imap://mail?tls=required", "a@b.example"), Some(NoMail::Server));
    assert_eq!(fault("smtps://mail", "nobody"), Some(NoMail::Sender));
}

#[test]
fn mail_is_not_sent_in_the_clear_unless_the_settings_say_so() {
    let fault = |url, plaintext| EmailCourier::new(url, plaintext, "a@b.example", "h").err();
    for open in ["smtp://mail:25", "smtp://mail:25?tls=opportunistic", "smtp://smtps:tls%3Drequired@mail"] {
        assert_eq!(fault(open, false), Some(NoMail::Plaintext), "{open}");
        assert_eq!(fault(open, true), None, "{open}");
    }
    for closed in ["smtps://u:p@mail", "smtp://mail:587?tls=required"] {
        assert_eq!(fault(closed, false), None, "{closed}");
    }
}

/// The text of a mail, decoded.
fn text(mail: &Mail) -> String {
    let (headers, body) = mail.text.split_once("\n\n").unwrap();
    let Some(encoding) = headers.lines().find_map(|line| line.strip_prefix("Content-Transfer-Encoding: ")) else {
        panic!("{headers}")
    };
    match encoding {
        "7bit" => body.to_owned(),
        "quoted-printable" => {
            let decoded = quoted_printable::decode(body, quoted_printable::ParseMode::Robust).unwrap();
            String::from_utf8(decoded).unwrap().replace("\r\n", "\n")
        }
        _ => panic!("{encoding}"),
    }
}

#[tokio::test]
async fn text_that_deceives_is_shown_as_it_is_and_what_does_not_fit_is_said_to_be_missing() {
    on_each_engine_with(setup(), |world| async move {
        let server = MailServer::answering("250 fine").await;
        let hostile = "rm \u{202e}fdp\u{200b}\r\n.\r\nBcc: all@acme.example <b>*hi*</b>";
        let mut request = world.call("send_email", json!({ "to": "x", "body": hostile }));
        request.rationale = Some("It is harmless.".to_owned());
        world.ask(&request).await.unwrap();
        world.hold("send_email", json!({ "to": "y", "body": "z".repeat(50_000) })).await;
        let courier = courier(server.url());
        while world.app.deliver_to(&to(), &courier).await.unwrap() > 0 {}
        let mails = server.mails();
        assert_eq!(mails.len(), 2);
        let whole = text(&mails[0]);
        assert!(
            whole.contains("/body = \"rm \\u{202e}fdp\\u{200b}\\r\\n.\\r\\nBcc: all@acme.example <b>*hi*</b>\""),
            "{whole}"
        );
        assert!(whole.contains("The model says (unverified):\n  It is harmless."), "{whole}");
        assert!(!whole.contains("Not everything fits"), "{whole}");
        let cut = text(&mails[1]);
        assert!(cut.contains("Not everything fits here: the page shows all of it.") && !cut.contains("zzz"), "{cut}");
    })
    .await;
}

#[tokio::test]
async fn many_calls_become_one_mail_with_a_link_of_its_own_for_each() {
    on_each_engine_with(setup(), |world| async move {
        let server = MailServer::answering("250 fine").await;
        let mut held = Vec::new();
        for _ in 0..5 {
            held.push(world.hold("send_email", json!({ "to": "x" })).await.1);
        }
        assert_eq!(world.app.deliver_to(&to(), &courier(server.url())).await.unwrap(), 1);
        let text = text(&server.mails().remove(0));
        let links: Vec<_> =
            text.lines().filter(|line| line.starts_with("https://approve.acme.example/link/")).collect();
        assert_eq!(links.len(), 5, "{text}");
        for (link, approval) in links.iter().zip(held) {
            let secret = Secret::parse(link.rsplit('/').next().unwrap()).unwrap();
            let followed = world.app.follow_link(&secret, AskedFor::Elsewhere, None, "req-1").await.unwrap();
            let FollowedLink::Opened(opened) = followed else { panic!("{followed:?}") };
            assert!(opened.session.may_see(approval.id));
        }
    })
    .await;
}
