//! Who looks at a page or acts on it, and what every handler of a page needs.

use std::sync::Arc;

use axum::{
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::request::Parts,
    response::Response,
};
use serde::{Deserialize, de::DeserializeOwned};

use super::{approval, layout::Frame};
use crate::{
    app::{App, desk::OnDesk, error::Error},
    domain::{
        approval::state::{Approval, State},
        identity::Role,
        ids::{Id, IdKind},
        session::SessionScope,
        time::Timestamp,
    },
    http::{
        extract::signed_in::{SignedForm, SignedIn, scope},
        layers::RequestScope,
        sign_in::page::{Apology, apology, of_error, see_other},
        state::HttpState,
    },
};

/// Who looks, and what every handler of a page needs.
pub(super) struct Desk {
    pub(super) state: HttpState,
    pub(super) scope: Arc<RequestScope>,
    pub(super) signed_in: SignedIn,
    pub(super) frame: Frame,
    pub(super) now: Timestamp,
}

impl Desk {
    fn new(state: HttpState, scope: Arc<RequestScope>, signed_in: SignedIn) -> Self {
        let now = state.app.now();
        let may = |role| signed_in.roles.contains(role);
        let frame = Frame {
            name: signed_in.reviewer.name.to_string(),
            everything: signed_in.session.scope == SessionScope::Everything,
            auditor: may(Role::Auditor),
            admin: may(Role::Admin),
            form_token: signed_in.form.field(now),
        };
        Self { state, scope, signed_in, frame, now }
    }

    pub(super) fn app(&self) -> &App {
        &self.state.app
    }

    pub(super) fn failed(&self, error: Error) -> Response {
        of_error(&self.scope, error)
    }

    pub(super) fn not_found(&self) -> Response {
        apology(&self.scope, Apology::NotFound)
    }

    /// What keeps an approve from being given in this session, where it takes a sign-in of the last minutes.
    pub(super) fn needs_fresh_sign_in(&self, approval: &Approval) -> Option<Error> {
        let waits = matches!(approval.state, State::Pending { .. });
        let is_old = approval.requirement.step_up && !self.signed_in.session.is_fresh(self.now);
        (waits && is_old).then_some(Error::StepUpRequired)
    }

    pub(super) fn with_fresh_sign_ins(&self, items: Vec<OnDesk>) -> Vec<OnDesk> {
        let checked = |item: OnDesk| OnDesk {
            objection: item.objection.or_else(|| self.needs_fresh_sign_in(&item.approval)),
            ..item
        };
        items.into_iter().map(checked).collect()
    }

    /// The one page that a session of a personal link has.
    pub(super) fn only_page(&self) -> Option<Response> {
        self.signed_in.session.scope.approval().map(|id| see_other(&approval::path(id)))
    }
}

impl FromRequestParts<HttpState> for Desk {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, Response> {
        let signed_in = SignedIn::from_request_parts(parts, state).await?;
        Ok(Self::new(state.clone(), scope(parts)?, signed_in))
    }
}

/// A form that somebody sent, with the desk it came from.
pub(super) struct Act<T> {
    pub(super) desk: Desk,
    pub(super) form: T,
}

impl<T: DeserializeOwned + Send> FromRequest<HttpState> for Act<T> {
    type Rejection = Response;

    async fn from_request(request: Request, state: &HttpState) -> Result<Self, Response> {
        let (parts, body) = request.into_parts();
        let scope = scope(&parts)?;
        let request = Request::from_parts(parts, body);
        let SignedForm { signed_in, form } = SignedForm::from_request(request, state).await?;
        Ok(Self { desk: Desk::new(state.clone(), scope, signed_in), form })
    }
}

/// An id out of the path of a page. One that has not the form of an id names nothing.
pub(super) struct PageId<K>(pub(super) Id<K>);

impl<K: IdKind + Send> FromRequestParts<HttpState> for PageId<K> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &HttpState) -> Result<Self, Response> {
        let text = Path::<String>::from_request_parts(parts, state).await.ok();
        match text.and_then(|Path(text)| Id::parse(&text).ok()) {
            Some(id) => Ok(Self(id)),
            None => Err(apology(&*scope(parts)?, Apology::NotFound)),
        }
    }
}

/// How a page is asked for; what does not fit asks for nothing.
pub(super) struct Asked<T>(pub(super) T);

impl<T: DeserializeOwned + Default> FromRequestParts<HttpState> for Asked<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &HttpState) -> Result<Self, Response> {
        Ok(Self(Query::<T>::try_from_uri(&parts.uri).map(|Query(asked)| asked).unwrap_or_default()))
    }
}

/// A form with nothing but its button.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Click {}
