//! A browser as far as cookies and forms go: it keeps what it is told to keep, and sends what a page would send.

use std::collections::BTreeMap;

use axum::http::{Method, header};
use regex::Regex;
use url::form_urlencoded;

use super::service::{Answer, Service};

/// A browser at one service.
pub(crate) struct Browser<'s> {
    service: &'s Service,
    origin: String,
    pub(crate) cookies: BTreeMap<String, String>,
}

/// The one form of a page.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Form {
    pub(crate) action: String,
    pub(crate) fields: Vec<(String, String)>,
}

impl<'s> Browser<'s> {
    pub(crate) fn new(service: &'s Service, origin: &str) -> Self {
        Self { service, origin: origin.to_owned(), cookies: BTreeMap::new() }
    }

    /// Looks at a page.
    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], None).await
    }

    /// Sends fields as a page of the service would.
    pub(crate) async fn post(&mut self, path: &str, fields: &[(String, String)]) -> Answer {
        let origin = self.origin.clone();
        self.send(Method::POST, path, &[("origin", &origin)], Some(fields)).await
    }

    /// Presses the one button of a page.
    pub(crate) async fn press(&mut self, page: &Answer) -> Answer {
        let form = form_of(page);
        self.post(&form.action, &form.fields).await
    }

    /// Sends a request with these headers, and the cookies.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        fields: Option<&[(String, String)]>,
    ) -> Answer {
        let host = self.origin.split("//").nth(1).unwrap().to_owned();
        let mut call = self.service.request(method, path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            call = call.header(header::HOST.as_str(), &host);
        }
        for (name, value) in headers {
            call = call.header(name, value);
        }
        if !self.cookies.is_empty() {
            let held: Vec<_> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
            call = call.header(header::COOKIE.as_str(), &held.join("; "));
        }
        if let Some(fields) = fields {
            let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
            call =
                call.header(header::CONTENT_TYPE.as_str(), "application/x-www-form-urlencoded").bytes(body.as_bytes());
        }
        let answer = call.send().await;
        for set in answer.headers.get_all(header::SET_COOKIE) {
            let set = set.to_str().unwrap();
            let (pair, attributes) = set.split_once(';').unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            if attributes.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        answer
    }
}

/// The one form of a page, with its hidden fields.
#[track_caller]
pub(crate) fn form_of(page: &Answer) -> Form {
    let text = page.text();
    let forms = Regex::new(r#"<form method="post" action="([^"]*)">"#).unwrap();
    let actions: Vec<_> = forms.captures_iter(text).map(|found| plain(&found[1])).collect();
    assert_eq!(actions.len(), 1, "{page:?}");
    let hidden = Regex::new(r#"<input type="hidden" name="([^"]*)" value="([^"]*)">"#).unwrap();
    let fields = hidden.captures_iter(text).map(|found| (plain(&found[1]), plain(&found[2]))).collect();
    Form { action: actions[0].clone(), fields }
}

fn plain(text: &str) -> String {
    text.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}
