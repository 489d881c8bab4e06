//! The pages for people: what waits, one approval, many at once, grants, the log, sessions. Rendered here, without a
//! build step and without need of the script.
//!
//! A GET changes nothing. A POST calls one use case and leads to a GET; what could not be done is said on the very page
//! that asked for it.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Extension, Router,
    extract::{FromRequestParts, Path, Query, Request, State},
    http::{StatusCode, request::Parts},
    middleware::map_response,
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    extract::{
        LONGEST_SENTENCE, reviewer_refused,
        signed_in::{SignedForm, SignedIn, scope},
    },
    layers::RequestScope,
    sign_in::page::{Apology, apology, of_error, see_other},
    state::HttpState,
};
use crate::{
    app::{
        App,
        desk::{InFull, OnDesk},
        error::Error,
        grants::TakenOffer,
        ports::{ApprovalFilter, EntryFilter, GrantFilter},
        review::{Decided, ReviewDecision},
    },
    domain::{
        approval::{
            confirmation::ConfirmationFault,
            outcome::SettledStatus,
            state::{Approval, Obstacle, Refused, State as Stands},
        },
        canon::json::ArgsHash,
        channel::Destination,
        identity::{AgentId, Role},
        ids::{ApprovalId, BatchId, GrantId, Id, IdKind, OfApproval, OfBatch, OfGrant, OfNotice, RunId},
        run::RunKey,
        session::SessionScope,
        time::Timestamp,
    },
};

mod approval;
mod assets;
mod audit;
mod dead_letters;
mod grants;
mod inbox;
pub(super) mod layout;
mod many;
mod run;
mod sessions;
mod shown;
mod words;

use layout::{Frame, NotDone, Page};
use many::Together;

/// How many grants stand on one page.
const GRANTS_ON_PAGE: u32 = 50;
/// How many dead letters.
const LETTERS_ON_PAGE: u32 = 50;
/// How many entries of the log.
const ENTRIES_ON_PAGE: u32 = 50;
/// How many entries of a run's timeline.
const ENTRIES_OF_RUN: u32 = 200;

/// The routes. They are pages, and no part of the API's description.
pub(super) fn routes() -> Router<HttpState> {
    Router::new()
        .route("/review", get(show_inbox))
        .route("/review/mark", get(inbox_mark))
        .route("/review/decided", get(show_decided))
        .route("/review/approvals/{id}", get(show_approval))
        .route("/review/approvals/{id}/mark", get(approval_mark))
        .route("/review/approvals/{id}/approve", post(approve))
        .route("/review/approvals/{id}/deny", post(deny))
        .route("/review/approvals/{id}/deny-and-stop", post(deny_and_stop))
        .route("/review/approvals/{id}/revoke", post(revoke))
        .route("/review/approvals/{id}/lift", post(lift))
        .route("/review/approvals/{id}/settle", post(settle))
        .route("/review/batches/{id}", get(show_batch))
        .route("/review/batches/{id}/decisions", post(decide_batch))
        .route("/review/stacks/{id}", get(show_stack))
        .route("/review/stacks/{id}/decisions", post(decide_stack))
        .route("/review/grants", get(show_grants))
        .route("/review/grants/{id}/revoke", post(revoke_grant))
        .route("/review/audit", get(show_audit))
        .route("/review/runs/{agent}/{run}", get(show_run))
        .route("/review/sessions", get(show_sessions))
        .route("/review/dead-letters", get(show_dead_letters))
        .route("/review/dead-letters/{id}/replay", post(replay))
        .route("/review/dead-letters/enable", post(enable))
        .route("/review/{*path}", get(nothing_here))
        .layer(map_response(layout::with_strict_headers))
        .route("/review/assets/{name}", get(assets::serve))
}

/// What is no page of ours is told as a page.
async fn nothing_here(request: Request) -> Result<Response, Response> {
    let (parts, _) = request.into_parts();
    Err(apology(&*scope(&parts)?, Apology::NotFound))
}

/// Who looks, and what every handler of a page needs.
struct Desk {
    state: HttpState,
    scope: Arc<RequestScope>,
    signed_in: SignedIn,
    frame: Frame,
    now: Timestamp,
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

    fn app(&self) -> &App {
        &self.state.app
    }

    fn failed(&self, error: Error) -> Response {
        of_error(&self.scope, error)
    }

    fn not_found(&self) -> Response {
        apology(&self.scope, Apology::NotFound)
    }

    /// What keeps an approve from being given in this session, where it takes a sign-in of the last minutes.
    fn needs_fresh_sign_in(&self, approval: &Approval) -> Option<Error> {
        let waits = matches!(approval.state, Stands::Pending { .. });
        let is_old = approval.requirement.step_up && !self.signed_in.session.is_fresh(self.now);
        (waits && is_old).then_some(Error::StepUpRequired)
    }

    fn with_fresh_sign_ins(&self, items: Vec<OnDesk>) -> Vec<OnDesk> {
        let checked = |item: OnDesk| OnDesk {
            objection: item.objection.or_else(|| self.needs_fresh_sign_in(&item.approval)),
            ..item
        };
        items.into_iter().map(checked).collect()
    }

    /// The one page that a session of a personal link has.
    fn only_page(&self) -> Option<Response> {
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

/// An id out of the path of a page. One that has not the form of an id names nothing.
struct PageId<K>(Id<K>);

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
struct Asked<T>(T);

impl<T: DeserializeOwned + Default> FromRequestParts<HttpState> for Asked<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &HttpState) -> Result<Self, Response> {
        Ok(Self(Query::<T>::try_from_uri(&parts.uri).map(|Query(asked)| asked).unwrap_or_default()))
    }
}

// ---- What waits ----

async fn show_inbox(desk: Desk, Asked(query): Asked<inbox::Query>) -> Result<Response, Response> {
    if let Some(only) = desk.only_page() {
        return Ok(only);
    }
    let reviewer = &desk.signed_in.reviewer;
    let waiting = desk.app().inbox(reviewer).await.map_err(|error| desk.failed(error))?;
    let unsettled = desk.app().unsettled(reviewer).await.map_err(|error| desk.failed(error))?.len();
    let query = query.without_blanks();
    let view = inbox::View {
        frame: &desk.frame,
        reviewer: &reviewer.name,
        inbox: &waiting,
        unsettled,
        query: &query,
        now: desk.now,
    };
    Ok(Page::ok(inbox::page(&view)).into_response())
}

async fn inbox_mark(desk: Desk) -> Result<String, Response> {
    let filter =
        ApprovalFilter { state: Some(crate::domain::approval::state::StateName::Pending), ..ApprovalFilter::default() };
    let page = desk
        .app()
        .list_approvals(&desk.signed_in.reviewer, filter, None, crate::app::desk::MOST_WAITING)
        .await
        .map_err(|error| desk.failed(error))?;
    Ok(inbox::mark(page.approvals.iter()))
}

async fn show_decided(desk: Desk, Asked(query): Asked<inbox::DecidedQuery>) -> Result<Response, Response> {
    if let Some(only) = desk.only_page() {
        return Ok(only);
    }
    let reviewer = &desk.signed_in.reviewer;
    let found = match query.show {
        inbox::ShowDecided::Last => desk.app().lately_decided(reviewer).await,
        inbox::ShowDecided::Unsettled => desk.app().unsettled(reviewer).await,
    };
    let approvals = found.map_err(|error| desk.failed(error))?;
    Ok(Page::ok(inbox::decided(&desk.frame, query.show, &approvals)).into_response())
}

// ---- One approval ----

/// How an approval's page is asked for.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApprovalQuery {
    /// After a decision that came too late. It says nothing by itself: what is shown is where the approval stands.
    #[serde(default)]
    late: u8,
}

async fn show_approval(
    desk: Desk,
    PageId(id): PageId<OfApproval>,
    Asked(query): Asked<ApprovalQuery>,
) -> Result<Response, Response> {
    let full = in_full(&desk, id).await?;
    let approval = &full.reviewed.approval;
    let pending = matches!(approval.state, Stands::Pending { .. });
    let late =
        (query.late == 1 && !pending).then(|| format!("Your decision came too late. {}", words::standing(approval)));
    Ok(approval_page(&desk, &full, StatusCode::OK, late.as_deref().map(NotDone)))
}

async fn approval_mark(desk: Desk, PageId(id): PageId<OfApproval>) -> Result<String, Response> {
    let seen = desk.app().visible_to(&desk.signed_in.reviewer, id).await.map_err(|error| desk.failed(error))?;
    Ok(approval::mark(&seen))
}

async fn in_full(desk: &Desk, id: ApprovalId) -> Result<InFull, Response> {
    let full = desk.app().approval_in_full(&desk.signed_in.reviewer, id).await.map_err(|error| desk.failed(error))?;
    let objection = full.objection.clone().or_else(|| desk.needs_fresh_sign_in(&full.reviewed.approval));
    Ok(InFull { objection, ..full })
}

fn approval_page(desk: &Desk, full: &InFull, status: StatusCode, said: Option<NotDone<'_>>) -> Response {
    let reviewer = &desk.signed_in.reviewer.name;
    let view = approval::View { frame: &desk.frame, reviewer, full, now: desk.now, said };
    Page { status, markup: approval::page(&view) }.into_response()
}

/// An approve.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Approve {
    args_hash: ArgsHash,
    review_hash: Option<String>,
    #[serde(default)]
    reason: String,
    /// One of the offers, as [`offer_value`] wrote it; blank for none.
    #[serde(default)]
    grant: String,
    confirmation: Option<String>,
}

/// A denial.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Deny {
    args_hash: ArgsHash,
    review_hash: Option<String>,
    #[serde(default)]
    message_to_agent: String,
    #[serde(default)]
    reason: String,
}

/// An act with nothing but a note.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Noted {
    #[serde(default)]
    reason: String,
}

/// What a person found of an outcome.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settle {
    status: SettledStatus,
    #[serde(default)]
    reason: String,
}

/// A form with nothing but its button.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Click {}

/// An offered grant, as the value of a radio button.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfferValue {
    when: String,
    ttl: u64,
    uses: u32,
}

/// An offer as the value of a radio button.
fn offer_value(when: &str, ttl: u64, uses: u32) -> String {
    serde_json::to_string(&OfferValue { when: when.to_owned(), ttl, uses }).unwrap_or_default()
}

async fn approve(
    State(state): State<HttpState>,
    Extension(scope): Extension<Arc<RequestScope>>,
    PageId(id): PageId<OfApproval>,
    SignedForm { signed_in, form }: SignedForm<Approve>,
) -> Result<Response, Response> {
    let desk = Desk::new(state, scope, signed_in);
    let grant = match form.grant.as_str() {
        "" => Ok(None),
        text => serde_json::from_str(text).map(Some),
    };
    let (Ok(reason), Ok(grant)) = (sentence("reason", &form.reason), grant) else {
        return Ok(apology(&desk.scope, Apology::NotAForm));
    };
    let taken =
        |OfferValue { when, ttl, uses }| TakenOffer { when, ttl: std::time::Duration::from_secs(ttl), max_uses: uses };
    let decision = ReviewDecision {
        approve: true,
        args_hash: form.args_hash,
        review_hash: form.review_hash,
        reason,
        message_to_agent: None,
        grant: grant.map(taken),
        confirmation: form.confirmation.clone(),
    };
    let decided = desk.app().decide_approval(&desk.signed_in.reviewer, id, &decision).await;
    let (confirmation, status, too_early) = match (decided, form.confirmation) {
        (Ok(Decided::Counted(_)), _) => return Ok(see_other(&approval::path(id))),
        (Ok(Decided::ToConfirm(to_confirm)), _) => (to_confirm.into(), StatusCode::OK, false),
        (Err(Error::Confirmation(ConfirmationFault::Early { .. })), Some(text)) => {
            (approval::Confirmation { text, valid: None }, StatusCode::TOO_EARLY, true)
        }
        (Err(error), _) => return not_done(&desk, id, error).await,
    };
    let full = in_full(&desk, id).await?;
    let said = too_early.then_some(NotDone("That was faster than two seconds. Read it once more, then confirm."));
    let reviewer = &desk.signed_in.reviewer.name;
    let view = approval::View { frame: &desk.frame, reviewer, full: &full, now: desk.now, said };
    let second = approval::Second { view, to_confirm: &confirmation, reason: &form.reason, grant: &form.grant };
    Ok(Page { status, markup: approval::second(&second) }.into_response())
}

async fn deny(
    State(state): State<HttpState>,
    Extension(scope): Extension<Arc<RequestScope>>,
    PageId(id): PageId<OfApproval>,
    SignedForm { signed_in, form }: SignedForm<Deny>,
) -> Result<Response, Response> {
    let desk = Desk::new(state, scope, signed_in);
    let Ok(decision) = form.decision() else { return Ok(apology(&desk.scope, Apology::NotAForm)) };
    let decided = desk.app().decide_approval(&desk.signed_in.reviewer, id, &decision).await;
    done(&desk, id, decided.map(drop)).await
}

async fn deny_and_stop(
    State(state): State<HttpState>,
    Extension(scope): Extension<Arc<RequestScope>>,
    PageId(id): PageId<OfApproval>,
    SignedForm { signed_in, form }: SignedForm<Deny>,
) -> Result<Response, Response> {
    let desk = Desk::new(state, scope, signed_in);
    let Ok(decision) = form.decision() else { return Ok(apology(&desk.scope, Apology::NotAForm)) };
    let decided = desk.app().deny_and_stop(&desk.signed_in.reviewer, id, &decision).await;
    done(&desk, id, decided).await
}

impl Deny {
    fn decision(self) -> Result<ReviewDecision, String> {
        Ok(ReviewDecision {
            approve: false,
            args_hash: self.args_hash,
            review_hash: self.review_hash,
            reason: sentence("reason", &self.reason)?,
            message_to_agent: sentence("message_to_agent", &self.message_to_agent)?,
            grant: None,
            confirmation: None,
        })
    }
}

async fn revoke(
    State(state): State<HttpState>,
    Extension(scope): Extension<Arc<RequestScope>>,
    PageId(id): PageId<OfApproval>,
    SignedForm { signed_in, form }: SignedForm<Noted>,
) -> Result<Response, Response> {
    let desk = Desk::new(state, scope, signed_in);
    let Ok(reason) = sentence("reason", &form.reason) else { return Ok(apology(&desk.scope, Apology::NotAForm)) };
    let revoked = desk.app().revoke_approval(&desk.signed_in.reviewer, id, reason.as_deref()).await;
    done(&desk, id, revoked.map(drop)).await
}

async fn lift(
    State(state): State<HttpState>,
    Extension(scope): Extension<Arc<RequestScope>>,
    PageId(id): PageId<OfApproval>,
    SignedForm { signed_in, form }: SignedForm<Noted>,
) -> Result<Response, Response> {
    let desk = Desk::new(state, scope, signed_in);
    let Ok(reason) = sentence("reason", &form.reason) else { return Ok(apology(&desk.scope, Apology::NotAForm)) };
    let lifted = desk.app().lift_denial(&desk.signed_in.reviewer, id, reason.as_deref()).await;
    done(&desk, id, lifted.map(drop)).await
}

async fn settle(
    State(state): State<HttpState>,
    Extension(scope): Extension<Arc<RequestScope>>,
    PageId(id): PageId<OfApproval>,
    SignedForm { signed_in, form }: SignedForm<Settle>,
) -> Result<Response, Response> {
    let desk = Desk::new(state, scope, signed_in);
    let Ok(reason) = sentence("reason", &form.reason) else { return Ok(apology(&desk.scope, Apology::NotAForm)) };
    let settled = desk.app().settle_outcome(&desk.signed_in.reviewer, id, form.status, reason.as_deref()).await;
    done(&desk, id, settled.map(drop)).await
}

/// Leads to the approval as it is now, or says why it is as it was.
async fn done(desk: &Desk, id: ApprovalId, acted: Result<(), Error>) -> Result<Response, Response> {
    match acted {
        Ok(()) => Ok(see_other(&approval::path(id))),
        Err(error) => not_done(desk, id, error).await,
    }
}

/// Says why something was not done, on the page of the approval as it is now.
async fn not_done(desk: &Desk, id: ApprovalId, error: Error) -> Result<Response, Response> {
    if is_too_late(&error) {
        return Ok(see_other(&format!("{}?late=1", approval::path(id))));
    }
    if matches!(error, Error::NotFound | Error::KeyRevoked | Error::Store(_) | Error::Entropy(_) | Error::Unwritable(_))
    {
        return Err(desk.failed(error));
    }
    let is_not_for_them = matches!(error, Error::NotEligible(_) | Error::StepUpRequired | Error::DecideInWeb);
    let status = if is_not_for_them { StatusCode::FORBIDDEN } else { StatusCode::CONFLICT };
    // That somebody tried what is not for him to do is recorded.
    let _ = reviewer_refused(&desk.state, &desk.signed_in.reviewer.caller, Some(id), error.clone()).await;
    let full = in_full(desk, id).await?;
    let text = capitalised(&objection_text(&error, &full.reviewed.approval));
    Ok(approval_page(desk, &full, status, Some(NotDone(&text))))
}

/// Whether somebody else decided before.
const fn is_too_late(error: &Error) -> bool {
    matches!(error, Error::Refused(Refused { why: Obstacle::Decided { .. }, .. }))
}

/// Why something cannot be done, as the end of a sentence.
fn objection_text(error: &Error, approval: &Approval) -> String {
    if let Error::NotEligible(why) = error {
        why.clone()
    } else if matches!(error, Error::StaleArgs { .. } | Error::StaleReview { .. }) {
        "what is held is no longer what you were shown, so look at it again".to_owned()
    } else if matches!(error, Error::StepUpRequired) {
        "it takes a sign-in of the last five minutes".to_owned()
    } else if matches!(error, Error::OfferGone) {
        "that grant is not offered any more, so look at it again".to_owned()
    } else if is_too_late(error) {
        words::standing(approval).trim_end_matches('.').to_owned()
    } else if let Error::Refused(refused) = error {
        refused.why.to_string()
    } else {
        error.to_string()
    }
}

/// A sentence of its own.
fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", characters.as_str())
}

/// A sentence that was typed; browsers end its lines with two characters. `None` when nothing was.
fn sentence(name: &str, text: &str) -> Result<Option<String>, String> {
    let text = text.replace("\r\n", "\n");
    let text = text.trim();
    if text.len() > LONGEST_SENTENCE {
        return Err(format!("`{name}` is longer than {LONGEST_SENTENCE} bytes"));
    }
    Ok(Some(text).filter(|text| !text.is_empty()).map(str::to_owned))
}

// ---- Many at once ----

async fn show_batch(desk: Desk, PageId(id): PageId<OfBatch>) -> Result<Response, Response> {
    let items = batch(&desk, id).await?;
    Ok(many_page(&desk, Together::Batch(id), &items, StatusCode::OK, None, &BTreeMap::new()))
}

async fn show_stack(desk: Desk, PageId(id): PageId<OfApproval>) -> Result<Response, Response> {
    let items = stack(&desk, id).await?;
    if items.is_empty() {
        return Ok(see_other(&approval::path(id)));
    }
    Ok(many_page(&desk, Together::Stack(id), &items, StatusCode::OK, None, &BTreeMap::new()))
}

async fn batch(desk: &Desk, id: BatchId) -> Result<Vec<OnDesk>, Response> {
    let items = desk.app().batch_on_desk(&desk.signed_in.reviewer, id).await.map_err(|error| desk.failed(error))?;
    Ok(desk.with_fresh_sign_ins(items))
}

/// What waits and is alike to one approval, itself included; nothing when that does not wait any more.
async fn stack(desk: &Desk, id: ApprovalId) -> Result<Vec<OnDesk>, Response> {
    let inbox = desk.app().inbox(&desk.signed_in.reviewer).await.map_err(|error| desk.failed(error))?;
    let is_it = |place: usize| inbox.waiting.get(place).is_some_and(|item| item.approval.id == id);
    let stacks = many::stacked(&inbox.waiting);
    let Some(stack) = stacks.iter().find(|stack| stack.lines.iter().any(|line| is_it(line.member))) else {
        return Ok(Vec::new());
    };
    let items = stack.lines.iter().filter_map(|line| inbox.waiting.get(line.member)).cloned().collect();
    Ok(desk.with_fresh_sign_ins(items))
}

fn many_page(
    desk: &Desk,
    together: Together,
    items: &[OnDesk],
    status: StatusCode,
    said: Option<NotDone<'_>>,
    in_the_way: &BTreeMap<ApprovalId, String>,
) -> Response {
    let reviewer = &desk.signed_in.reviewer.name;
    let view = many::View { frame: &desk.frame, reviewer, together, items, now: desk.now, said, in_the_way };
    Page { status, markup: many::page(&view) }.into_response()
}

async fn decide_batch(
    State(state): State<HttpState>,
    Extension(scope): Extension<Arc<RequestScope>>,
    PageId(id): PageId<OfBatch>,
    SignedForm { signed_in, form }: SignedForm<Vec<(String, String)>>,
) -> Result<Response, Response> {
    decide_many(&Desk::new(state, scope, signed_in), Together::Batch(id), &form).await
}

async fn decide_stack(
    State(state): State<HttpState>,
    Extension(scope): Extension<Arc<RequestScope>>,
    PageId(id): PageId<OfApproval>,
    SignedForm { signed_in, form }: SignedForm<Vec<(String, String)>>,
) -> Result<Response, Response> {
    decide_many(&Desk::new(state, scope, signed_in), Together::Stack(id), &form).await
}

async fn decide_many(desk: &Desk, together: Together, form: &[(String, String)]) -> Result<Response, Response> {
    let reviewer = &desk.signed_in.reviewer;
    let (status, why, in_the_way) = match many::read(form) {
        Err(fault) => (StatusCode::BAD_REQUEST, fault, Vec::new()),
        Ok(many::Decisions { decisions }) => match desk.app().decide_approvals(reviewer, &decisions).await {
            Ok(_) => {
                return Ok(see_other(&match together {
                    Together::Batch(id) => many::batch_path(id),
                    Together::Stack(_) => "/review/decided".to_owned(),
                }));
            }
            Err(Error::InTheWay(in_the_way)) => {
                let why = "something stands in the way of the decisions marked below, so none was taken".to_owned();
                (StatusCode::CONFLICT, why, in_the_way)
            }
            Err(error) => return Err(desk.failed(error)),
        },
    };
    let items = match together {
        Together::Batch(id) => batch(desk, id).await?,
        Together::Stack(id) => stack(desk, id).await?,
    };
    if items.is_empty() {
        return Ok(see_other("/review"));
    }
    let obstacles = many::obstacles(&in_the_way, &items);
    Ok(many_page(desk, together, &items, status, Some(NotDone(&capitalised(&why))), &obstacles))
}

// ---- Grants ----

async fn show_grants(desk: Desk, Asked(query): Asked<grants::Query>) -> Result<Response, Response> {
    if let Some(only) = desk.only_page() {
        return Ok(only);
    }
    let live_at = match query.show {
        grants::Show::Live => Some(desk.now),
        grants::Show::All => None,
    };
    let filter = GrantFilter { live_at, ..GrantFilter::default() };
    let page = desk.app().list_grants(&desk.signed_in.reviewer, filter, query.before, GRANTS_ON_PAGE).await;
    let page = page.map_err(|error| desk.failed(error))?;
    Ok(Page::ok(grants::page(&desk.frame, &query, &page, desk.now)).into_response())
}

async fn revoke_grant(
    State(state): State<HttpState>,
    Extension(scope): Extension<Arc<RequestScope>>,
    PageId(id): PageId<OfGrant>,
    SignedForm { signed_in, form: Click {} }: SignedForm<Click>,
) -> Result<Response, Response> {
    let desk = Desk::new(state, scope, signed_in);
    let id: GrantId = id;
    desk.app().revoke_grant(&desk.signed_in.reviewer, id).await.map_err(|error| desk.failed(error))?;
    Ok(see_other("/review/grants"))
}

// ---- For auditors ----

async fn show_audit(desk: Desk, Asked(query): Asked<audit::Query>) -> Result<Response, Response> {
    if !desk.frame.auditor {
        return Err(desk.not_found());
    }
    let (status, markup) = match query.filter() {
        Ok(filter) => {
            let found = desk.app().audit_page(&filter, query.before, ENTRIES_ON_PAGE).await;
            let found = found.map_err(|error| desk.failed(error))?;
            (StatusCode::OK, audit::page(&desk.frame, &query, Ok(&found)))
        }
        Err(why) => (StatusCode::BAD_REQUEST, audit::page(&desk.frame, &query, Err(&why))),
    };
    Ok(Page { status, markup }.into_response())
}

/// How a run's timeline is asked for.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunQuery {
    before: Option<i64>,
}

async fn show_run(
    desk: Desk,
    Path((agent, run)): Path<(String, String)>,
    Asked(query): Asked<RunQuery>,
) -> Result<Response, Response> {
    let (Ok(agent), Ok(run), true) = (AgentId::parse(&agent), RunId::parse(&run), desk.frame.auditor) else {
        return Err(desk.not_found());
    };
    let filter = EntryFilter { run: Some(run.to_string()), agent: Some(agent.to_string()), ..EntryFilter::default() };
    let view = desk.app().run(&RunKey { agent, run }).await.map_err(|error| desk.failed(error))?;
    let entries = desk.app().audit_page(&filter, query.before, ENTRIES_OF_RUN).await;
    let entries = entries.map_err(|error| desk.failed(error))?;
    Ok(Page::ok(run::page(&desk.frame, &view, &entries, desk.now)).into_response())
}

// ---- Sessions ----

async fn show_sessions(desk: Desk) -> Result<Response, Response> {
    if let Some(only) = desk.only_page() {
        return Ok(only);
    }
    let own = desk.app().sessions_of(&desk.signed_in.reviewer).await.map_err(|error| desk.failed(error))?;
    Ok(Page::ok(sessions::page(&desk.frame, &desk.signed_in.session, &own, desk.now)).into_response())
}

// ---- Messages that were given up ----

async fn show_dead_letters(desk: Desk, Asked(query): Asked<dead_letters::Query>) -> Result<Response, Response> {
    if !desk.frame.auditor && !desk.frame.admin {
        return Err(desk.not_found());
    }
    let destinations = desk.app().destinations().await.map_err(|error| desk.failed(error))?;
    let found = desk.app().dead_letters(query.before, LETTERS_ON_PAGE).await;
    let (dead, next) = found.map_err(|error| desk.failed(error))?;
    let view = dead_letters::View { frame: &desk.frame, destinations: &destinations, dead: &dead, next, now: desk.now };
    Ok(Page::ok(dead_letters::page(&view)).into_response())
}

async fn replay(
    State(state): State<HttpState>,
    Extension(scope): Extension<Arc<RequestScope>>,
    PageId(id): PageId<OfNotice>,
    SignedForm { signed_in, form: Click {} }: SignedForm<Click>,
) -> Result<Response, Response> {
    let desk = Desk::new(state, scope, signed_in);
    if !desk.frame.admin {
        return Err(desk.not_found());
    }
    let caller = &desk.signed_in.reviewer.caller;
    desk.app().replay_dead_letter(caller, id).await.map_err(|error| desk.failed(error))?;
    Ok(see_other("/review/dead-letters"))
}

/// Which destination is to be tried again.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Enable {
    destination: String,
}

async fn enable(
    State(state): State<HttpState>,
    Extension(scope): Extension<Arc<RequestScope>>,
    SignedForm { signed_in, form }: SignedForm<Enable>,
) -> Result<Response, Response> {
    let desk = Desk::new(state, scope, signed_in);
    let (Ok(to), true) = (form.destination.parse::<Destination>(), desk.frame.admin) else {
        return Err(desk.not_found());
    };
    let caller = &desk.signed_in.reviewer.caller;
    desk.app().enable_destination(caller, &to).await.map_err(|error| desk.failed(error))?;
    Ok(see_other("/review/dead-letters"))
}
