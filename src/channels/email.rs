//! Notices by mail: plain text with a link, to one person each. Nothing is decided by answering, and no link decides by
//! being opened.

use std::{fmt::Write as _, time::Duration};

use async_trait::async_trait;
use lettre::{
    AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor,
    message::{
        Mailbox,
        header::{ContentType, Header, HeaderName, HeaderValue},
    },
};

use super::lines::{Lines, NOT_WHOLE, summary};
use crate::{
    app::ports::{Courier, Delivery, Dispatch},
    domain::notice::NoticeEvent,
};

/// How long the server may take for each answer; the whole attempt is bounded by the lease.
const PATIENCE: Duration = Duration::from_secs(8);

/// How many bytes of text a mail shows.
const MOST_SHOWN: usize = 40_000;

/// A mail server, and who writes.
pub struct EmailCourier {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
    host: String,
}

/// What of the settings is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMail {
    /// The server.
    #[error("is no address of a mail server")]
    Server,
    /// The server, which need not encrypt: what would run, links that open it and the password would be sent in the clear.
    #[error("lets mail be sent without encryption")]
    Plaintext,
    /// The sender.
    #[error("is no e-mail address")]
    Sender,
}

impl EmailCourier {
    /// Mails from `from` by the server `smtp_url`, without encryption only where that is allowed; `host` makes the ids of
    /// messages ours alone.
    ///
    /// # Errors
    /// [`NoMail`], which repeats neither.
    pub fn new(smtp_url: &str, allow_plaintext: bool, from: &str, host: &str) -> Result<Self, NoMail> {
        if !allow_plaintext && !encrypts(smtp_url) {
            return Err(NoMail::Plaintext);
        }
        let transport = AsyncSmtpTransport::<Tokio1Executor>::from_url(smtp_url).map_err(|_| NoMail::Server)?;
        let from = from.parse().map_err(|_| NoMail::Sender)?;
        Ok(Self { transport: transport.timeout(Some(PATIENCE)).build(), from, host: host.to_owned() })
    }

    /// The mail about a dispatch.
    ///
    /// # Errors
    /// Why there is none.
    fn mail(&self, dispatch: &Dispatch) -> Result<Message, &'static str> {
        let (id, recipient, subject, text, thread) = match dispatch {
            Dispatch::Event { .. } => return Err("mail goes to people only"),
            Dispatch::Card { id, event, recipient, card, .. } => {
                let lines = Lines::of(*event, card).within(MOST_SHOWN, str::len);
                let subject = format!("{} {}", card.approval.code, lines.heading);
                (id, recipient, subject, text_of(*event, &lines, &card.url), Some(card.approval.id))
            }
            Dispatch::Digest { id, recipient, cards, inbox, .. } => {
                let subject = format!("{} calls wait for a decision", cards.len());
                let mut text = format!("{subject}.\n\n");
                for card in cards {
                    let _ = writeln!(text, "{}\n{}\n", summary(card), card.url);
                }
                let _ = write!(text, "All of them, once you are signed in:\n{inbox}\n\n{OPENING}\n");
                (id, recipient, subject, text, None)
            }
        };
        let to =
            recipient.as_ref().and_then(|recipient| recipient.email.parse().ok()).ok_or("nobody has an address")?;
        let mut mail = Message::builder()
            .from(self.from.clone())
            .to(Mailbox::new(None, to))
            .subject(subject)
            .message_id(Some(format!("<{id}@{}>", self.host)))
            .header(AutoSubmitted)
            .header(ContentType::TEXT_PLAIN);
        if let Some(approval) = thread {
            mail = mail.references(format!("<{approval}@{}>", self.host));
        }
        mail.body(text).map_err(|_| "no mail can be made of it")
    }
}

/// Said below every link.
const OPENING: &str = "Opening a link decides nothing.";

/// Whether nothing is sent to this server unless it is encrypted; see `lettre`'s `from_url`.
fn encrypts(smtp_url: &str) -> bool {
    url::Url::parse(smtp_url).is_ok_and(|url| match url.scheme() {
        "smtps" => true,
        _ => url.query_pairs().any(|(key, value)| key == "tls" && value == "required"),
    })
}

fn text_of(event: NoticeEvent, lines: &Lines, url: &str) -> String {
    let mut text = format!("{}\n\n", lines.heading);
    for (name, value) in &lines.facts {
        let _ = writeln!(text, "{name}: {value}");
    }
    text.push_str("\nWhat would run:\n");
    match &lines.arguments {
        None => text.push_str("  It is not kept any more.\n"),
        Some(arguments) => {
            for argument in arguments {
                let _ = writeln!(text, "  {argument}");
            }
        }
    }
    for found in &lines.lookups {
        let _ = writeln!(text, "  {found}");
    }
    if let Some(rationale) = &lines.rationale {
        let _ = write!(text, "\nThe model says (unverified):\n  {rationale}\n");
    }
    if !lines.whole {
        let _ = write!(text, "\n{NOT_WHOLE}\n");
    }
    let lead = if event.asks() { "Read it and decide here" } else { "It is kept here" };
    let _ = write!(text, "\n{lead}:\n{url}\n\n{OPENING}\n");
    text
}

#[async_trait]
impl Courier for EmailCourier {
    async fn deliver(&self, dispatch: &Dispatch) -> Delivery {
        let mail = match self.mail(dispatch) {
            Ok(mail) => mail,
            Err(fault) => return Delivery::Refused { fault: fault.to_owned() },
        };
        match self.transport.send(mail).await {
            Ok(_) => Delivery::Done { place: None },
            // The server's words may repeat the address.
            Err(error) if error.is_permanent() => {
                Delivery::Refused { fault: format!("the mail server refused it{}", code(&error)) }
            }
            Err(error) => {
                Delivery::Later { after: None, fault: format!("the mail server did not take it{}", code(&error)) }
            }
        }
    }
}

fn code(error: &lettre::transport::smtp::Error) -> String {
    error.status().map(|code| format!(" ({code})")).unwrap_or_default()
}

/// `Auto-Submitted: auto-generated` (RFC 3834), so that nobody's absence note answers.
#[derive(Clone)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "auto-generated".to_owned())
    }
}
