//! One approval: what will run first, then who asks and why, then what to hold it against; and beside it all that this
//! reviewer may do about it.

use axum::{
    Router,
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::get,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    acts,
    desk::{Asked, Desk, PageId},
    layout::{Frame, Here, NotDone, Page, form_token, framed, no_enter, not_done},
    shown, words,
};
use crate::{
    app::{
        confirm::ToConfirm,
        desk::{InFull, LastAlike},
        error::Error,
        grants::GrantOffer,
        review::{CallBefore, ReviewedApproval},
    },
    domain::{
        approval::{
            outcome::Outcome,
            state::{Approval, Denial, Denier, Execution, State},
        },
        grant::offers::OfferScope,
        identity::ReviewerName,
        ids::{ApprovalId, OfApproval},
        review::{
            Review, ShownLookup,
            difference::{Difference, differences},
            fact::Fact,
        },
        time::Timestamp,
    },
    http::state::HttpState,
};

/// The routes.
pub(super) fn routes() -> Router<HttpState> {
    Router::new().route("/review/approvals/{id}", get(show)).route("/review/approvals/{id}/mark", get(show_mark))
}

/// How an approval's page is asked for.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApprovalQuery {
    /// After a decision that came too late. It says nothing by itself: what is shown is where the approval stands.
    #[serde(default)]
    late: u8,
}

async fn show(
    desk: Desk,
    PageId(id): PageId<OfApproval>,
    Asked(query): Asked<ApprovalQuery>,
) -> Result<Response, Response> {
    let full = in_full(&desk, id).await?;
    let approval = &full.reviewed.approval;
    let pending = matches!(approval.state, State::Pending { .. });
    let late =
        (query.late == 1 && !pending).then(|| format!("Your decision came too late. {}", words::standing(approval)));
    Ok(answer(&desk, &full, StatusCode::OK, late.as_deref().map(NotDone)))
}

async fn show_mark(desk: Desk, PageId(id): PageId<OfApproval>) -> Result<String, Response> {
    let seen = desk.app().visible_to(&desk.signed_in.reviewer, id).await.map_err(|error| desk.failed(error))?;
    Ok(mark(&seen))
}

/// Everything about an approval, with what keeps this session from approving it.
pub(super) async fn in_full(desk: &Desk, id: ApprovalId) -> Result<InFull, Response> {
    let full = desk.app().approval_in_full(&desk.signed_in.reviewer, id).await.map_err(|error| desk.failed(error))?;
    let objection = full.objection.clone().or_else(|| desk.needs_fresh_sign_in(&full.reviewed.approval));
    Ok(InFull { objection, ..full })
}

/// The page of an approval, with what is to be said of the last act.
pub(super) fn answer(desk: &Desk, full: &InFull, status: StatusCode, said: Option<NotDone<'_>>) -> Response {
    let reviewer = &desk.signed_in.reviewer.name;
    let view = View { frame: &desk.frame, reviewer, full, now: desk.now, said };
    Page { status, markup: page(&view) }.into_response()
}

/// Everything that the page is made of.
pub(super) struct View<'a> {
    /// Whoever looks.
    pub(super) frame: &'a Frame,
    /// The same as a reviewer.
    pub(super) reviewer: &'a ReviewerName,
    /// What is looked at.
    pub(super) full: &'a InFull,
    /// Now.
    pub(super) now: Timestamp,
    /// What is to be said of the last act.
    pub(super) said: Option<NotDone<'a>>,
}

/// What the first of two clicks is answered with.
pub(super) struct Second<'a> {
    /// The page it belongs to.
    pub(super) view: View<'a>,
    /// What the second click must carry.
    pub(super) to_confirm: &'a Confirmation,
    /// The reason that was typed.
    pub(super) reason: &'a str,
    /// The grant that was chosen.
    pub(super) grant: &'a str,
}

/// What a second click carries, and how long it is good.
pub(super) struct Confirmation {
    /// The text.
    pub(super) text: String,
    /// From when until when; `None` when it was tried too early, and only the text is known.
    pub(super) valid: Option<(Timestamp, Timestamp)>,
}

impl From<ToConfirm> for Confirmation {
    fn from(to_confirm: ToConfirm) -> Self {
        let ToConfirm { confirmation, valid_from, expires_at } = to_confirm;
        Self { text: confirmation, valid: Some((valid_from, expires_at)) }
    }
}

/// The path of an approval's page.
pub(in crate::http) fn path(id: ApprovalId) -> String {
    format!("/review/approvals/{id}")
}

/// What changes on a page about this approval, short enough to be asked for again and again.
pub(super) fn mark(approval: &Approval) -> String {
    let outcome = match &approval.state {
        State::Executed(execution) => match &execution.outcome {
            Outcome::Awaited => "awaited",
            Outcome::Reported(_) => "reported",
            Outcome::Unknown { settled: None, .. } => "unknown",
            Outcome::Unknown { settled: Some(_), .. } => "settled",
        },
        State::Denied(Denial { lifted: Some(_), .. }) => "lifted",
        State::Denied(Denial { lifted: None, .. })
        | State::Pending { .. }
        | State::Approved(_)
        | State::Expired { .. }
        | State::Cancelled { .. } => "",
    };
    format!("{}-{}-{outcome}", approval.state.name(), approval.votes().len())
}

/// The page.
pub(super) fn page(view: &View<'_>) -> Markup {
    let View { frame, full, now, said, .. } = view;
    let InFull { reviewed, last_alike, .. } = full;
    let ReviewedApproval { approval, review, rationale, same_subject, identical, .. } = reviewed;
    let body = html! {
        (heading(approval, review.as_ref(), *now, frame))
        @if let Some(said) = said { (not_done(said)) }
        div.columns data-watch=(format!("{}/mark", path(approval.id))) data-mark=(mark(approval)) {
            section.card.run aria-labelledby="what-runs" {
                h2 #what-runs { @if ran(&approval.state) { "What ran" } @else { "What will run" } }
                @match review {
                    Some(review) => (what_runs(review)),
                    None => p { "Its arguments and its review were erased. It can be denied, and not approved." },
                }
            }
            section.card.decide aria-labelledby="decision" {
                h2 #decision { "Your decision" }
                (decide(view))
            }
            @if let Some(review) = review { (looked_up(&review.lookups)) }
            @if let Some(rationale) = rationale { (model_says(rationale)) }
            section.card aria-labelledby="why" {
                h2 #why { "Why people are asked" }
                (why(approval, review.as_ref()))
            }
            section.card aria-labelledby="who" {
                h2 #who { "Who asks" }
                (who(approval, review.as_ref(), *now, frame))
            }
            @if let (Some(review), Some(last)) = (review, last_alike) { (compared(last, review, *now)) }
            @if !identical.is_empty() {
                section.card aria-labelledby="identical" {
                    h2 #identical { "Identical, and still open" }
                    p { "The same agent asks for the very same with: "
                        @for (index, twin) in identical.iter().enumerate() {
                            @if index > 0 { ", " }
                            @if frame.everything { a href=(path(twin.id)) { (twin.code) } } @else { (twin.code) }
                        }
                        "."
                    }
                }
            }
            @if !same_subject.is_empty() { (subject_history(same_subject, *now)) }
            (fingerprints(approval))
        }
    };
    framed(frame, Here::Elsewhere, &format!("{} {}", approval.tool, approval.code), body)
}

/// Between the first click and the second.
pub(super) fn second(second: &Second<'_>) -> Markup {
    let Second { view, to_confirm, reason, grant } = second;
    let View { frame, full, now, said, .. } = view;
    let ReviewedApproval { approval, review, .. } = &full.reviewed;
    let body = html! {
        (heading(approval, review.as_ref(), *now, frame))
        @if let Some(said) = said { (not_done(said)) }
        div.columns {
            section.card.run aria-labelledby="what-runs" {
                h2 #what-runs { "What will run" }
                @if let Some(review) = review { (what_runs(review)) }
            }
            section.card.decide aria-labelledby="decision" {
                h2 #decision { "Approve it, really?" }
                p { "This call takes two clicks. The first does not count by itself." }
                @if let Some((from, until)) = to_confirm.valid {
                    p.soft {
                        "The second counts from two seconds after the first until " (words::moment(until))
                        " (" (words::span(until.since(from))) ")."
                    }
                }
                form action=(format!("{}/approve", path(approval.id))) method="post" data-approve {
                    (no_enter())
                    (form_token(frame))
                    (shown_hashes(approval))
                    input type="hidden" name="confirmation" value=(to_confirm.text);
                    input type="hidden" name="reason" value=(reason);
                    input type="hidden" name="grant" value=(grant);
                    button.approve type="submit" data-hold="2200" { "Approve for good" }
                }
                p { a.button href=(path(approval.id)) { "Back, without approving" } }
            }
        }
    };
    framed(frame, Here::Elsewhere, &format!("Confirm {} {}", approval.tool, approval.code), body)
}

const fn ran(state: &State) -> bool {
    matches!(state, State::Executed(_))
}

fn heading(approval: &Approval, review: Option<&Review>, now: Timestamp, frame: &Frame) -> Markup {
    let open = matches!(approval.state, State::Pending { .. } | State::Approved(_));
    html! {
        @if frame.everything { p.crumb { a href="/review" { "Inbox" } span aria-hidden="true" { " / " } (approval.code) } }
        div.head {
            h1 {
                span.agent { (approval.call.agent) }
                @if ran(&approval.state) { " ran " } @else { " wants to run " }
                code { (shown::untrusted(&approval.tool)) }
            }
            p.chips {
                (shown::state(&approval.state))
                @if let Some(review) = review { (shown::risk(review.risk, review.reversible)) }
                span.chip.code { (approval.code) }
                @if open { span.chip { "expires " (shown::until(approval.expires_at, now)) } }
            }
        }
    }
}

fn what_runs(review: &Review) -> Markup {
    html! {
        @if review.arguments.is_empty() {
            p { "It takes no arguments." }
        } @else {
            (shown::values(&review.arguments))
        }
        @if !review.resolved.is_empty() {
            h3 { "What that stands for" }
            (shown::values(&review.resolved))
        }
        p.soft.count {
            (words::count(review.arguments.len(), "value, all shown", "values, all shown"))
        }
    }
}

/// What this reviewer may do.
fn decide(view: &View<'_>) -> Markup {
    let View { full, now, .. } = view;
    let approval = &full.reviewed.approval;
    html! {
        @match &approval.state {
            State::Pending { .. } => (pending(view)),
            State::Approved(approved) => {
                p { (words::standing(approval)) }
                @if approved.claim_after > *now {
                    p { "It cannot be claimed before " (shown::when(approved.claim_after, *now)) "." }
                }
                p { "It can be claimed until " (shown::when(approval.expires_at, *now)) "." }
                (reasoned(view, "revoke", "Take the approval back", "deny", "It is denied then, and will not run."))
            },
            State::Denied(denial) => (denied(view, denial)),
            State::Expired { .. } | State::Cancelled { .. } => p { (words::standing(approval)) },
            State::Executed(execution) => (executed(view, execution)),
        }
    }
}

fn pending(view: &View<'_>) -> Markup {
    let View { reviewer, full, now, .. } = view;
    let ReviewedApproval { approval, review, args, .. } = &full.reviewed;
    let voted = approval.votes().iter().any(|vote| vote.reviewer == **reviewer);
    let whole = review.is_some() && args.is_some();
    html! {
        p.needs {
            @if let Some(missing) = approval.missing_text(*now) { "Needs " b { (missing) } "." }
        }
        @if !approval.votes().is_empty() {
            ul.votes {
                @for vote in approval.votes() {
                    li {
                        b { (vote.reviewer) } " approved " (shown::when(vote.at, *now))
                        @if !vote.groups.is_empty() {
                            span.soft { ", in " (vote.groups.iter().cloned().collect::<Vec<_>>().join(", ")) }
                        }
                    }
                }
            }
        }
        @if voted {
            p.hint { "You have approved it. It waits for others." }
        } @else if !whole {
            p.hint { "It cannot be approved: what would run was erased and can be shown to nobody." }
        } @else if let Some(objection) = &full.objection {
            (objected(objection, approval))
        } @else {
            (approve(view))
        }
        (deny(view))
    }
}

/// Why there is no button to approve with.
fn objected(objection: &Error, approval: &Approval) -> Markup {
    html! {
        p.hint {
            "You cannot approve it here: " (acts::objection_text(objection, approval)) "."
            @if let Error::StepUpRequired = objection {
                " " a href=(format!("/login?to={}&fresh=1", path(approval.id))) { "Sign in again" }
            }
        }
    }
}

/// The hashes of what is shown: the decision is about these and nothing else.
pub(super) fn shown_hashes(approval: &Approval) -> Markup {
    html! {
        input type="hidden" name="args_hash" value=(approval.args_hash);
        @if let Some(review) = approval.review {
            input type="hidden" name="review_hash" value=(review.hash);
        }
    }
}

fn approve(view: &View<'_>) -> Markup {
    let View { frame, full, .. } = view;
    let ReviewedApproval { approval, offers, .. } = &full.reviewed;
    let requirement = &approval.requirement;
    html! {
        form.approving action=(format!("{}/approve", path(approval.id))) method="post" data-approve {
            (no_enter())
            (form_token(frame))
            (shown_hashes(approval))
            @if !offers.is_empty() { (grants(offers)) }
            details.more {
                summary { "Add a note for the log" }
                label for="approve-reason" { "Why you approve (kept in the log, not sent to the agent)" }
                textarea #approve-reason name="reason" rows="2" maxlength="1000" {}
            }
            button.approve type="submit" data-hold="1000" {
                "Approve" @if requirement.double_confirm { " (first of two clicks)" }
            }
        }
    }
}

/// The grants that can be taken with an approve.
fn grants(offers: &[GrantOffer]) -> Markup {
    html! {
        details.more {
            summary { "Also allow calls like it in this run" }
            fieldset {
                legend { "What else may run without asking" }
                label.choice { input type="radio" name="grant" value="" checked; span { b { "Only this call" } } }
                @for GrantOffer { offer, would_have_covered } in offers {
                    label.choice {
                        input type="radio" name="grant"
                            value=(acts::offer_value(&offer.when, offer.ttl.as_secs(), offer.max_uses));
                        span {
                            b { (scope(offer.scope)) }
                            ", for " (words::span(offer.ttl)) ", at most "
                            (words::count(offer.max_uses as usize, "call", "calls"))
                            code.condition { (shown::untrusted(&offer.when)) }
                            span.soft {
                                "Of this run's latest held calls it would have let through "
                                (would_have_covered) "."
                            }
                        }
                    }
                }
            }
        }
    }
}

const fn scope(scope: OfferScope) -> &'static str {
    match scope {
        OfferScope::SameArguments => "The very same arguments again",
        OfferScope::SameTarget => "The same target, in no larger amounts",
        OfferScope::Everything => "Every call that this rule asks about",
    }
}

fn deny(view: &View<'_>) -> Markup {
    let View { frame, full, .. } = view;
    let approval = &full.reviewed.approval;
    html! {
        form.denying action=(format!("{}/deny", path(approval.id))) method="post" {
            (form_token(frame))
            (shown_hashes(approval))
            label for="deny-message" { "Tell the agent why " span.soft { "(sent to it; may stay empty)" } }
            textarea #deny-message name="message_to_agent" rows="2" maxlength="1000" {}
            details.more {
                summary { "Add a note for the log" }
                label for="deny-reason" { "Why you deny (kept in the log, not sent to the agent)" }
                textarea #deny-reason name="reason" rows="2" maxlength="1000" {}
            }
            div.buttons {
                button.deny type="submit" { "Deny" }
                @if !full.run_ended && frame.everything {
                    button.deny.stop type="submit" formaction=(format!("{}/deny-and-stop", path(approval.id))) {
                        "Deny and stop the run"
                    }
                }
            }
        }
    }
}

/// An act with nothing but a note.
fn reasoned(view: &View<'_>, act: &str, name: &str, class: &str, hint: &str) -> Markup {
    let id = format!("{act}-reason");
    html! {
        form action=(format!("{}/{act}", path(view.full.reviewed.approval.id))) method="post" {
            (form_token(view.frame))
            p.soft { (hint) }
            label for=(id) { "Why " span.soft { "(for the log; may stay empty)" } }
            textarea id=(id) name="reason" rows="2" maxlength="1000" {}
            button.(class) type="submit" { (name) }
        }
    }
}

fn denied(view: &View<'_>, denial: &Denial) -> Markup {
    let approval = &view.full.reviewed.approval;
    let own = matches!(&denial.by, Denier::Reviewer { name } if name == view.reviewer);
    html! {
        p { (words::standing(approval)) }
        @if let Some(message) = &denial.message_to_agent {
            p { "The agent is told: " q.words { (shown::untrusted(message)) } }
        }
        @match &denial.lifted {
            Some(lift) => p {
                "The denial was lifted for later calls by " b { (lift.by) } " on " (shown::when(lift.at, view.now)) "."
            },
            None => {
                @if own {
                    (reasoned(
                        view, "lift", "Lift the denial", "plain",
                        "The same call is denied for the rest of the run. Lifted, later ones are decided afresh; \
                         this one stays denied.",
                    ))
                }
            },
        }
    }
}

fn executed(view: &View<'_>, execution: &Execution) -> Markup {
    let approval = &view.full.reviewed.approval;
    html! {
        p { (words::standing(approval)) }
        @if let Outcome::Unknown { settled: None, .. } = execution.outcome {
            form action=(format!("{}/settle", path(approval.id))) method="post" {
                (no_enter())
                (form_token(view.frame))
                fieldset {
                    legend { "What came of it, as far as you found out" }
                    label.choice { input type="radio" name="status" value="succeeded" required; span { "It had run." } }
                    label.choice {
                        input type="radio" name="status" value="failed" required;
                        span { "It had failed, or had never run." }
                    }
                }
                label for="settle-reason" { "How you know " span.soft { "(for the log; may stay empty)" } }
                textarea #settle-reason name="reason" rows="2" maxlength="1000" {}
                button.plain type="submit" { "Settle the outcome" }
            }
        }
    }
}

fn looked_up(lookups: &[ShownLookup]) -> Markup {
    html! {
        @if !lookups.is_empty() {
            section.card aria-labelledby="lookups" {
                h2 #lookups { "What the service looked up itself" }
                @for lookup in lookups {
                    h3 {
                        (shown::untrusted(&lookup.name))
                        @if lookup.preview { span.soft { " (a dry run: what would come of the call)" } }
                    }
                    @match &lookup.failed {
                        Some(failure) => p.warn { b { "Nothing was found: " } (shown::untrusted(failure)) },
                        None => (shown::values(&lookup.values)),
                    }
                }
            }
        }
    }
}

fn model_says(rationale: &str) -> Markup {
    html! {
        section.card.unverified aria-labelledby="rationale" {
            h2 #rationale { "The model's own words" span.tag { "not verified" } }
            p.soft { "Nobody has checked this. It may be wrong, or written to persuade." }
            blockquote { (shown::untrusted(rationale)) }
        }
    }
}

fn why(approval: &Approval, review: Option<&Review>) -> Markup {
    let requirement = &approval.requirement;
    // A rule's own reason stands beside the rule.
    let said_below = review.is_some_and(|review| review.asked_by.iter().any(|rule| rule.reason == approval.reason));
    html! {
        @if !said_below { p { (shown::untrusted(&approval.reason)) } }
        dl.facts {
            @if let Some(review) = review {
                @for rule in &review.asked_by {
                    div { dt { "Rule " code { (shown::untrusted(&rule.rule)) } } dd { (shown::untrusted(&rule.reason)) } }
                }
                @if review.asked_by.is_empty() { div { dt { "Rule" } dd { "the tool's default" } } }
                div {
                    dt { "If run twice" }
                    dd {
                        @if review.idempotent { "it has the effect of running it once" }
                        @else { "it may have its effect twice" }
                    }
                }
            }
            div {
                dt { "Takes" }
                dd {
                    @if requirement.groups.is_empty() {
                        (words::count(requirement.needed() as usize, "approval by anyone", "approvals by anyone"))
                    } @else {
                        @for (index, (group, number)) in requirement.groups.iter().enumerate() {
                            @if index > 0 { ", " }
                            (number) " of " b { (group) }
                        }
                        @if requirement.is_open_to_anyone() { ", " (requirement.needed()) " in all" }
                    }
                    @if requirement.double_confirm { "; two clicks" }
                    @if !requirement.grace.is_zero() {
                        "; then " (words::span(requirement.grace)) " in which it can be taken back"
                    }
                }
            }
            @for (group, after) in &requirement.escalation {
                div {
                    dt { "Escalates to" }
                    dd { b { (group) } " from " (words::moment(approval.created_at.plus(*after))) }
                }
            }
        }
    }
}

fn who(approval: &Approval, review: Option<&Review>, now: Timestamp, frame: &Frame) -> Markup {
    let call = &approval.call;
    html! {
        dl.facts {
            div { dt { "Agent" } dd { b { (call.agent) } } }
            div {
                dt { "On behalf of" }
                dd {
                    @match review.and_then(|review| review.on_behalf_of.as_deref()) {
                        Some(person) => (shown::text(person)),
                        None => span.none { "nobody was named" },
                    }
                }
            }
            div {
                dt { "Run" }
                dd {
                    @if frame.auditor { a href=(super::run::path(&call.agent, &call.run)) { (call.run) } }
                    @else { (call.run) }
                    span.soft { ", turn " (call.turn) ", call " (call.tool_use_id) }
                }
            }
            @if let Some(review) = review {
                @if review.chain.len() > 1 {
                    div {
                        dt { "Started by" }
                        dd {
                            @for (index, above) in review.chain.iter().skip(1).enumerate() {
                                @if index > 0 { ", under " }
                                b { (above.agent) } " in run " (above.run)
                            }
                        }
                    }
                }
            }
            div { dt { "Asked" } dd { (shown::when(approval.created_at, now)) } }
            @if let Some(batch) = approval.batch {
                div {
                    dt { "Batch" }
                    dd {
                        "one of the calls of one turn"
                        @if frame.everything { ": " a href=(super::many::batch_path(batch)) { "see all of it" } }
                    }
                }
            }
            div {
                dt { @if matches!(approval.state, State::Expired { .. }) { "Expired" } @else { "Expires" } }
                dd { (shown::when(approval.expires_at, now)) }
            }
            @if approval.attempt > 1 { div { dt { "Attempt" } dd { (approval.attempt) ", those before ran out" } } }
        }
    }
}

fn compared(last: &LastAlike, review: &Review, now: Timestamp) -> Markup {
    let found = differences(&last.review, review);
    let one = |fact: &Fact| shown::value(&fact.kind, &fact.shown);
    html! {
        section.card aria-labelledby="compared" {
            h2 #compared { "Compared with the last one" }
            p.soft {
                "The last decided call of this tool by this agent is " (last.approval.code) ", "
                (words::state(&last.approval.state).to_lowercase()) ", asked " (words::distance(last.approval.created_at, now))
                "."
            }
            @if found.is_empty() {
                p { "Nothing differs in what runs." }
            } @else {
                ul.differences {
                    @for difference in &found {
                        @match difference {
                            Difference::Changed { was, is } => li {
                                span.at { (shown::place(&is.at)) (shown::part(is.part)) }
                                del { span.sr { "was " } (one(was)) }
                                ins { span.sr { "is now " } (one(is)) }
                            },
                            Difference::Added { is } => li {
                                span.at { (shown::place(&is.at)) (shown::part(is.part)) span.tag { "new" } }
                                ins { (one(is)) }
                            },
                            Difference::Gone { was } => li {
                                span.at { (shown::place(&was.at)) (shown::part(was.part)) span.tag { "gone" } }
                                del { (one(was)) }
                            },
                        }
                    }
                }
            }
        }
    }
}

fn subject_history(calls: &[CallBefore], now: Timestamp) -> Markup {
    html! {
        section.card aria-labelledby="history" {
            h2 #history { "Last calls on the same subject" }
            ul.history {
                @for CallBefore { settled, approval } in calls {
                    li {
                        code { (shown::untrusted(&settled.tool)) } " by " b { (settled.call.agent) } ": "
                        @match approval {
                            Some((code, state)) => { (code) ", " (state) },
                            None => (settled.verdict.as_str().replace('_', " ")),
                        }
                        span.soft { ", " (words::distance(settled.at, now)) }
                    }
                }
            }
        }
    }
}

fn fingerprints(approval: &Approval) -> Markup {
    html! {
        details.card.prints {
            summary { "Fingerprints" }
            dl.facts {
                div { dt { "Arguments" } dd { code { (approval.args_hash) } } }
                @if let Some(review) = approval.review { div { dt { "Review" } dd { code { (review.hash) } } } }
                div { dt { "Approval" } dd { code { (approval.id) } } }
                div { dt { "Decision" } dd { code { (approval.decision) } } }
                div { dt { "Policy" } dd { code { (approval.policy_version.as_str()) } } }
            }
        }
    }
}
