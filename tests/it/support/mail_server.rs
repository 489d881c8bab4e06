//! A mail server on this machine (RFC 5321, as much of it as one client needs), which remembers what it took.

use std::sync::{Arc, Mutex};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// A mail it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mail {
    pub(crate) to: String,
    /// Headers and body as they came.
    pub(crate) text: String,
}

/// A server; it is gone when this is dropped.
pub(crate) struct MailServer {
    mails: Arc<Mutex<Vec<Mail>>>,
    url: String,
    serving: JoinHandle<()>,
}

impl MailServer {
    /// One that answers every recipient with this code.
    pub(crate) async fn answering(recipients: &'static str) -> Self {
        let mails = Arc::new(Mutex::new(Vec::new()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("smtp://{}", listener.local_addr().unwrap());
        let kept = Arc::clone(&mails);
        let serving = tokio::spawn(async move {
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                tokio::spawn(converse(connection, recipients, Arc::clone(&kept)));
            }
        });
        Self { mails, url, serving }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn mails(&self) -> Vec<Mail> {
        self.mails.lock().unwrap().clone()
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn converse(connection: TcpStream, recipients: &'static str, mails: Arc<Mutex<Vec<Mail>>>) {
    let (reader, mut writer) = connection.into_split();
    let mut lines = BufReader::new(reader).lines();
    let mut to = String::new();
    writer.write_all(b"220 mail.test\r\n").await.unwrap();
    while let Ok(Some(line)) = lines.next_line().await {
        let answer = match line.split([' ', ':']).next().unwrap().to_ascii_uppercase().as_str() {
            "EHLO" => "250-mail.test\r\n250 8BITMIME".to_owned(),
            "RCPT" => {
                to = line.split_once('<').unwrap().1.split('>').next().unwrap().to_owned();
                recipients.to_owned()
            }
            "DATA" => {
                writer.write_all(b"354 go on\r\n").await.unwrap();
                let mut text = String::new();
                while let Some(line) = lines.next_line().await.unwrap().filter(|line| line != ".") {
                    text.push_str(line.strip_prefix('.').unwrap_or(&line));
                    text.push('\n');
                }
                mails.lock().unwrap().push(Mail { to: to.clone(), text });
                "250 taken".to_owned()
            }
            "QUIT" => return,
            _ => "250 fine".to_owned(),
        };
        writer.write_all(format!("{answer}\r\n").as_bytes()).await.unwrap();
    }
}
