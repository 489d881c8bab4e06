//! People in front of the pages: signed in without a provider, with what a browser would hold and send.

use std::time::Duration;

use axum::http::Method;
use countersign::{
    app::ports::Clock as _,
    auth::session::FormKey,
    domain::{
        identity::ReviewerName,
        ids::{ApprovalId, SessionId},
        session::{LONGEST, Secret, Session, SessionRecord, SessionScope, SignInMethod},
    },
};
use sha2::{Digest as _, Sha256};
use url::form_urlencoded;

use super::{
    sample::uuid,
    service::{Answer, Service},
};

/// Somebody who is signed in at a browser.
pub(crate) struct Person<'a> {
    service: &'a Service,
    /// The session.
    pub(crate) session: Session,
    secret: Secret,
}

impl Service {
    /// `name`, signed in at the provider a moment ago.
    pub(crate) async fn person(&self, name: &str) -> Person<'_> {
        self.person_with(name, SessionScope::Everything, SignInMethod::Oidc).await
    }

    /// `name`, who followed a personal link.
    pub(crate) async fn person_by_link(&self, name: &str, approval: ApprovalId) -> Person<'_> {
        self.person_with(name, SessionScope::Approval(approval), SignInMethod::Link).await
    }

    async fn person_with(&self, name: &str, scope: SessionScope, method: SignInMethod) -> Person<'_> {
        let now = self.clock.now();
        let id = SessionId::from_uuid(uuid());
        let secret = Secret::new(Sha256::digest(id.to_string()).into());
        let session = Session {
            id,
            reviewer: ReviewerName::parse(name).unwrap(),
            method,
            scope,
            authenticated_at: now,
            opened_at: now,
            last_seen_at: now,
            ends_at: now.plus(LONGEST),
        };
        let record = SessionRecord { session: session.clone(), hash: secret.hash(), revoked_at: None };
        let mut tx = self.store.begin().await.unwrap();
        tx.insert_session(&record, now).await.unwrap();
        tx.commit().await.unwrap();
        Person { service: self, session, secret }
    }
}

impl Person<'_> {
    /// What the cookie holds.
    pub(crate) fn cookie(&self) -> String {
        self.secret.to_text()
    }

    /// Looks at a page.
    pub(crate) async fn see(&self, path: &str) -> Answer {
        self.look(Method::GET, path).await
    }

    /// The same with another method.
    pub(crate) async fn look(&self, method: Method, path: &str) -> Answer {
        let cookie = format!("__Host-session={}", self.cookie());
        self.service.request(method, path).header("cookie", &cookie).send().await
    }

    /// The page, which must be there, as text.
    pub(crate) async fn page(&self, path: &str) -> String {
        let answer = self.see(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.text().to_owned()
    }

    /// The token that a form has which is shown now.
    pub(crate) fn token(&self) -> String {
        FormKey::new(&self.secret, self.session.id).field(self.service.clock.now())
    }

    /// Sends a form two seconds after looking at it.
    pub(crate) async fn send(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let token = self.token();
        self.service.clock.advance(Duration::from_secs(2));
        let fields: Vec<(&str, &str)> = [("form_token", token.as_str())].into_iter().chain(fields.to_vec()).collect();
        self.send_exactly(path, &fields).await
    }

    /// Sends a form with these fields and nothing else, at once.
    pub(crate) async fn send_exactly(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let origin = super::service::PUBLIC_URL;
        self.service
            .request(Method::POST, path)
            .header("cookie", &format!("__Host-session={}", self.cookie()))
            .header("origin", origin)
            .header("content-type", "application/x-www-form-urlencoded")
            .bytes(body.as_bytes())
            .send()
            .await
    }
}

/// The value of a field in a form of this page.
pub(crate) fn field(page: &str, name: &str) -> String {
    let mark = format!("name=\"{name}\" value=\"");
    let (_, rest) = page.split_once(&mark).unwrap_or_else(|| panic!("no field {name} in {page}"));
    rest.split('"').next().unwrap().replace("&quot;", "\"").replace("&amp;", "&")
}
