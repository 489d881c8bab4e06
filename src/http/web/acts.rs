//! What a reviewer does about one approval: approving it, denying it, taking that back, settling its outcome. Each form
//! leads to the page of the approval; what could not be done is said on that very page.

use std::time::Duration;

use axum::{
    Router,
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::post,
};
use serde::{Deserialize, Serialize};

use super::{
    approval::{self, in_full},
    desk::{Act, Desk, PageId},
    layout::{NotDone, Page},
    typed::Typed,
    words,
};
use crate::{
    app::{
        error::Error,
        grants::TakenOffer,
        review::{Decided, ReviewDecision},
    },
    domain::{
        approval::{
            confirmation::ConfirmationFault,
            outcome::SettledStatus,
            state::{Approval, Obstacle, Refused},
        },
        canon::json::ArgsHash,
        ids::{ApprovalId, OfApproval},
    },
    http::{
        extract::reviewer_refused,
        sign_in::page::{Apology, apology, see_other},
        state::HttpState,
    },
};

/// The routes.
pub(super) fn routes() -> Router<HttpState> {
    Router::new()
        .route("/review/approvals/{id}/approve", post(approve))
        .route("/review/approvals/{id}/deny", post(deny))
        .route("/review/approvals/{id}/deny-and-stop", post(deny_and_stop))
        .route("/review/approvals/{id}/revoke", post(revoke))
        .route("/review/approvals/{id}/lift", post(lift))
        .route("/review/approvals/{id}/settle", post(settle))
}

/// An approve.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Approve {
    args_hash: ArgsHash,
    review_hash: Option<String>,
    #[serde(default)]
    reason: Typed,
    /// One of the offers, as [`offer_value`] wrote it; blank for none.
    #[serde(default)]
    grant: String,
    confirmation: Option<String>,
}

impl Approve {
    /// The grant that was chosen with it.
    fn grant(&self) -> Result<Option<TakenOffer>, serde_json::Error> {
        if self.grant.is_empty() {
            return Ok(None);
        }
        let OfferValue { when, ttl, uses } = serde_json::from_str(&self.grant)?;
        Ok(Some(TakenOffer { when, ttl: Duration::from_secs(ttl), max_uses: uses }))
    }
}

/// A denial.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Deny {
    args_hash: ArgsHash,
    review_hash: Option<String>,
    #[serde(default)]
    message_to_agent: Typed,
    #[serde(default)]
    reason: Typed,
}

impl From<Deny> for ReviewDecision {
    fn from(form: Deny) -> Self {
        Self {
            approve: false,
            args_hash: form.args_hash,
            review_hash: form.review_hash,
            reason: form.reason.into(),
            message_to_agent: form.message_to_agent.into(),
            grant: None,
            confirmation: None,
        }
    }
}

/// An act with nothing but a note.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Noted {
    #[serde(default)]
    reason: Typed,
}

/// What a person found of an outcome.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settle {
    status: SettledStatus,
    #[serde(default)]
    reason: Typed,
}

/// An offered grant, as the value of a radio button.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfferValue {
    when: String,
    ttl: u64,
    uses: u32,
}

/// An offer as the value of a radio button.
pub(super) fn offer_value(when: &str, ttl: u64, uses: u32) -> String {
    serde_json::to_string(&OfferValue { when: when.to_owned(), ttl, uses }).unwrap_or_default()
}

async fn approve(PageId(id): PageId<OfApproval>, Act { desk, form }: Act<Approve>) -> Result<Response, Response> {
    let Ok(grant) = form.grant() else { return Ok(apology(&desk.scope, Apology::NotAForm)) };
    let decision = ReviewDecision {
        approve: true,
        args_hash: form.args_hash,
        review_hash: form.review_hash,
        reason: form.reason.text().map(str::to_owned),
        message_to_agent: None,
        grant,
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
    let second = approval::Second {
        view,
        to_confirm: &confirmation,
        reason: form.reason.text().unwrap_or_default(),
        grant: &form.grant,
    };
    Ok(Page { status, markup: approval::second(&second) }.into_response())
}

async fn deny(PageId(id): PageId<OfApproval>, Act { desk, form }: Act<Deny>) -> Result<Response, Response> {
    let denied = desk.app().decide_approval(&desk.signed_in.reviewer, id, &form.into()).await;
    done(&desk, id, denied.map(drop)).await
}

async fn deny_and_stop(PageId(id): PageId<OfApproval>, Act { desk, form }: Act<Deny>) -> Result<Response, Response> {
    let stopped = desk.app().deny_and_stop(&desk.signed_in.reviewer, id, &form.into()).await;
    done(&desk, id, stopped).await
}

async fn revoke(PageId(id): PageId<OfApproval>, Act { desk, form }: Act<Noted>) -> Result<Response, Response> {
    let revoked = desk.app().revoke_approval(&desk.signed_in.reviewer, id, form.reason.text()).await;
    done(&desk, id, revoked.map(drop)).await
}

async fn lift(PageId(id): PageId<OfApproval>, Act { desk, form }: Act<Noted>) -> Result<Response, Response> {
    let lifted = desk.app().lift_denial(&desk.signed_in.reviewer, id, form.reason.text()).await;
    done(&desk, id, lifted.map(drop)).await
}

async fn settle(PageId(id): PageId<OfApproval>, Act { desk, form }: Act<Settle>) -> Result<Response, Response> {
    let settled = desk.app().settle_outcome(&desk.signed_in.reviewer, id, form.status, form.reason.text()).await;
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
    Ok(approval::answer(desk, &full, status, Some(NotDone(&text))))
}

/// Whether somebody else decided before.
const fn is_too_late(error: &Error) -> bool {
    matches!(error, Error::Refused(Refused { why: Obstacle::Decided { .. }, .. }))
}

/// Why something cannot be done, as the end of a sentence.
pub(super) fn objection_text(error: &Error, approval: &Approval) -> String {
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
pub(super) fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", characters.as_str())
}
