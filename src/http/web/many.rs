//! Many approvals on one page, with a decision for each: the calls of one batch, or a stack of alike ones. Nothing is
//! chosen beforehand, and all decisions are taken or none.

use std::collections::BTreeMap;

use axum::{
    Router,
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use maud::{Markup, html};
use serde::{
    Deserialize as _,
    de::{IntoDeserializer as _, value::StrDeserializer},
};

use super::{
    acts::{self, capitalised},
    approval,
    desk::{Act, Desk, PageId},
    layout::{Frame, Here, NotDone, Page, form_token, framed, no_enter, not_done},
    shown,
    typed::Typed,
    words,
};
use crate::{
    app::{desk::OnDesk, error::Error, review::ReviewDecision},
    domain::{
        approval::state::State,
        canon::json::ArgsHash,
        identity::ReviewerName,
        ids::{ApprovalId, BatchId, OfApproval, OfBatch},
        review::alike::{How, Line, Stack, Unlike, Waiting, stacks},
        time::Timestamp,
    },
    http::{extract::record_in_the_way, sign_in::page::see_other, state::HttpState},
};

/// The routes.
pub(super) fn routes() -> Router<HttpState> {
    Router::new()
        .route("/review/batches/{id}", get(show_batch))
        .route("/review/batches/{id}/decisions", post(decide_batch))
        .route("/review/stacks/{id}", get(show_stack))
        .route("/review/stacks/{id}/decisions", post(decide_stack))
}

async fn show_batch(desk: Desk, PageId(id): PageId<OfBatch>) -> Result<Response, Response> {
    let items = batch(&desk, id).await?;
    Ok(answer(&desk, Together::Batch(id), &items, StatusCode::OK, None, &BTreeMap::new()))
}

async fn show_stack(desk: Desk, PageId(id): PageId<OfApproval>) -> Result<Response, Response> {
    let items = stack(&desk, id).await?;
    if items.is_empty() {
        return Ok(see_other(&approval::path(id)));
    }
    Ok(answer(&desk, Together::Stack(id), &items, StatusCode::OK, None, &BTreeMap::new()))
}

async fn batch(desk: &Desk, id: BatchId) -> Result<Vec<OnDesk>, Response> {
    let items = desk.app().batch_on_desk(&desk.signed_in.reviewer, id).await.map_err(|error| desk.failed(error))?;
    Ok(desk.with_fresh_sign_ins(items))
}

/// What waits and is alike to one approval, itself included; nothing when that does not wait any more.
async fn stack(desk: &Desk, id: ApprovalId) -> Result<Vec<OnDesk>, Response> {
    let inbox = desk.app().inbox(&desk.signed_in.reviewer).await.map_err(|error| desk.failed(error))?;
    let is_it = |place: usize| inbox.waiting.get(place).is_some_and(|item| item.approval.id == id);
    let stacks = stacked(&inbox.waiting);
    let Some(stack) = stacks.iter().find(|stack| stack.lines.iter().any(|line| is_it(line.member))) else {
        return Ok(Vec::new());
    };
    let items = stack.lines.iter().filter_map(|line| inbox.waiting.get(line.member)).cloned().collect();
    Ok(desk.with_fresh_sign_ins(items))
}

fn answer(
    desk: &Desk,
    together: Together,
    items: &[OnDesk],
    status: StatusCode,
    said: Option<NotDone<'_>>,
    in_the_way: &BTreeMap<ApprovalId, String>,
) -> Response {
    let reviewer = &desk.signed_in.reviewer.name;
    let view = View { frame: &desk.frame, reviewer, together, items, now: desk.now, said, in_the_way };
    Page { status, markup: page(&view) }.into_response()
}

async fn decide_batch(
    PageId(id): PageId<OfBatch>,
    Act { desk, form }: Act<Vec<(String, String)>>,
) -> Result<Response, Response> {
    decide_many(&desk, Together::Batch(id), &form).await
}

async fn decide_stack(
    PageId(id): PageId<OfApproval>,
    Act { desk, form }: Act<Vec<(String, String)>>,
) -> Result<Response, Response> {
    decide_many(&desk, Together::Stack(id), &form).await
}

async fn decide_many(desk: &Desk, together: Together, form: &[(String, String)]) -> Result<Response, Response> {
    let reviewer = &desk.signed_in.reviewer;
    let (status, why, in_the_way) = match read(form) {
        Err(fault) => (StatusCode::BAD_REQUEST, fault, Vec::new()),
        Ok(Decisions { decisions }) => match desk.app().decide_approvals(reviewer, &decisions).await {
            Ok(_) => {
                return Ok(see_other(&match together {
                    Together::Batch(id) => batch_path(id),
                    Together::Stack(_) => "/review/decided".to_owned(),
                }));
            }
            Err(Error::InTheWay(in_the_way)) => {
                record_in_the_way(&desk.state, &reviewer.caller, &in_the_way).await;
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
    let obstacles = obstacles(&in_the_way, &items);
    Ok(answer(desk, together, &items, status, Some(NotDone(&capitalised(&why))), &obstacles))
}

/// The path of a batch.
pub(in crate::http) fn batch_path(batch: BatchId) -> String {
    format!("/review/batches/{batch}")
}

/// The path of the stack that an approval lies in.
pub(super) fn stack_path(approval: ApprovalId) -> String {
    format!("/review/stacks/{approval}")
}

/// Why these stand on one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Together {
    /// They are the calls of one turn.
    Batch(BatchId),
    /// They are alike.
    Stack(ApprovalId),
}

impl Together {
    fn path(self) -> String {
        match self {
            Self::Batch(batch) => batch_path(batch),
            Self::Stack(first) => stack_path(first),
        }
    }
}

/// Everything that the page is made of.
pub(super) struct View<'a> {
    /// Whoever looks.
    pub(super) frame: &'a Frame,
    /// The same as a reviewer.
    pub(super) reviewer: &'a ReviewerName,
    /// Why they stand together.
    pub(super) together: Together,
    /// Those that do.
    pub(super) items: &'a [OnDesk],
    /// Now.
    pub(super) now: Timestamp,
    /// What is to be said of the last act.
    pub(super) said: Option<NotDone<'a>>,
    /// What stood in the way of each.
    pub(super) in_the_way: &'a BTreeMap<ApprovalId, String>,
}

/// Puts those with a review in stacks. A line's member is a place in `items`.
pub(super) fn stacked(items: &[OnDesk]) -> Vec<Stack> {
    let mut places = Vec::new();
    let mut waiting = Vec::new();
    for (place, item) in items.iter().enumerate() {
        if let Some(review) = &item.review {
            places.push(place);
            let OnDesk { approval, .. } = item;
            waiting.push(Waiting { agent: &approval.call.agent, requirement: &approval.requirement, review });
        }
    }
    let moved = |line: Line| places.get(line.member).map(|place| Line { member: *place, ..line });
    let moved = |stack: Stack| Stack { lines: stack.lines.into_iter().filter_map(moved).collect(), ..stack };
    stacks(&waiting).into_iter().map(moved).collect()
}

/// The page.
pub(super) fn page(view: &View<'_>) -> Markup {
    let View { frame, together, items, now, said, .. } = view;
    let waiting = items.iter().filter(|item| matches!(item.approval.state, State::Pending { .. })).count();
    let title = match together {
        Together::Batch(_) => format!("{} of one turn", words::count(items.len(), "call", "calls")),
        Together::Stack(_) => format!("{} alike", words::count(items.len(), "call", "calls")),
    };
    let stacks = stacked(items);
    let body = html! {
        p.crumb { a href="/review" { "Inbox" } span aria-hidden="true" { " / " } (title) }
        div.head {
            h1 { (title) }
            p.chips {
                span.chip { (waiting) " waiting" }
                @if let Some(soonest) = items.iter().map(|item| item.approval.expires_at).min() {
                    span.chip { "the first expires " (shown::until(soonest, *now)) }
                }
            }
        }
        @if let Some(said) = said { (not_done(said)) }
        p.lead {
            "Decide on each, or leave it open. All your decisions count, or none: if one cannot be taken, nothing changes."
        }
        form.many action=(format!("{}/decisions", together.path())) method="post" data-approve {
            (no_enter())
            (form_token(frame))
            @for stack in &stacks { (one_stack(view, stack)) }
            @for item in items.iter().filter(|item| item.review.is_none()) {
                section.card { (one_item(view, item, html! { p { "What would run was erased." } }, &[])) }
            }
            @if waiting > 0 {
                section.card.decide aria-labelledby="send" {
                    h2 #send { "Your decisions" }
                    label for="many-message" { "Tell the agents of those you deny why " span.soft { "(may stay empty)" } }
                    textarea #many-message name="message_to_agent" rows="2" maxlength="1000" {}
                    label for="many-reason" { "A note for the log " span.soft { "(may stay empty)" } }
                    textarea #many-reason name="reason" rows="2" maxlength="1000" {}
                    button.send type="submit" data-hold="1000" { "Take these decisions" }
                }
            }
        }
    };
    framed(frame, Here::Elsewhere, &title, body)
}

fn one_stack(view: &View<'_>, stack: &Stack) -> Markup {
    let first = stack.lines.first().and_then(|line| view.items.get(line.member));
    let Some(OnDesk { approval, review: Some(review), .. }) = first else { return html! {} };
    html! {
        section.card.stack {
            h2 {
                @if stack.lines.len() > 1 { (stack.lines.len()) " × " }
                code { (shown::untrusted(&approval.tool)) } " by " (approval.call.agent)
            }
            p.chips { (shown::risk(review.risk, review.reversible)) }
            p {
                (shown::untrusted(&approval.reason))
                @if let Some(missing) = approval.missing_text(view.now) { span.soft { "; each needs " (missing) } }
            }
            @if stack.lines.len() > 1 && !stack.common.is_empty() {
                h3 { "Common to all" }
                (shown::facts(&stack.common))
            }
            @for line in &stack.lines {
                @if let Some(item) = view.items.get(line.member) {
                    @let facts = if stack.lines.len() > 1 { &line.differing } else { &stack.common };
                    @let body = html! {
                        @if facts.is_empty() { p.soft { "Nothing differs." } } @else { (shown::facts(facts)) }
                    };
                    (one_item(view, item, body, &line.unlike))
                }
            }
        }
    }
}

fn one_item(view: &View<'_>, item: &OnDesk, body: Markup, unlike: &[Unlike]) -> Markup {
    let OnDesk { approval, .. } = item;
    html! {
        fieldset.item.standing-out[!unlike.is_empty()] {
            legend {
                a href=(approval::path(approval.id)) { (approval.code) } " "
                (shown::state(&approval.state))
            }
            @if let Some(text) = view.in_the_way.get(&approval.id) {
                p.notice.not-done role="alert" { b { "In the way: " } (text) "." }
            }
            (stands_out(unlike))
            (body)
            (choices(view, item))
        }
    }
}

/// What may be decided of one.
fn choices(view: &View<'_>, item: &OnDesk) -> Markup {
    let OnDesk { approval, review, objection } = item;
    if !matches!(approval.state, State::Pending { .. }) {
        return html! { p.soft { (words::standing(approval)) } };
    }
    let id = approval.id;
    let voted = approval.votes().iter().any(|vote| vote.reviewer == *view.reviewer);
    let hindrance = if voted {
        Some("You have approved it already.".to_owned())
    } else if review.is_none() {
        Some("It cannot be approved: what would run was erased.".to_owned())
    } else if let Some(objection) = objection {
        Some(format!("You cannot approve it here: {}.", acts::objection_text(objection, approval)))
    } else {
        let twice = approval.requirement.double_confirm;
        twice.then(|| "It takes two clicks, so it is approved on its own page.".to_owned())
    };
    html! {
        input type="hidden" name=(format!("args.{id}")) value=(approval.args_hash);
        @if let Some(review) = approval.review {
            input type="hidden" name=(format!("review.{id}")) value=(review.hash);
        }
        @if !approval.votes().is_empty() {
            @if let Some(missing) = approval.missing_text(view.now) { p.soft { "Needs " (missing) " now." } }
        }
        div.choices {
            label.choice { input type="radio" name=(format!("decision.{id}")) value="deny"; span { "Deny" } }
            @match hindrance {
                None => label.choice {
                    input type="radio" name=(format!("decision.{id}")) value="approve"; span { "Approve" }
                },
                Some(text) => span.hint { (text) },
            }
            label.choice { input type="radio" name=(format!("decision.{id}")) value="open"; span { "Leave open" } }
        }
    }
}

/// What makes one stand out, each with its rule.
pub(super) fn stands_out(unlike: &[Unlike]) -> Markup {
    html! {
        @if !unlike.is_empty() {
            ul.unlike {
                @for Unlike { part, at, how } in unlike {
                    li {
                        span.tag { "stands out" }
                        b { (shown::place(at)) (shown::part(*part)) } " "
                        @match how {
                            How::FarAbove { median } => {
                                "is far above the others: more than three times their median, " (median)
                            },
                            How::FarBelow { median } => {
                                "is far below the others: less than a third of their median, " (median)
                            },
                            How::OtherHost { host, most } => {
                                "goes to " b { (shown::text(host)) } "; most go to " (shown::text(most))
                            },
                            How::OtherValue { most } => { "is another than most have: " (short(most, 80)) },
                            How::OnlyHere => "is given by this one alone",
                            How::OnlyMissingHere => "is given by all others, and not by this one",
                        }
                    }
                }
            }
        }
    }
}

/// The beginning of shown text, and how much is left out.
pub(super) fn short(text: &str, most: usize) -> Markup {
    let all = text.chars().count();
    if all <= most {
        return shown::text(text);
    }
    let mut start: String = text.chars().take(most).collect();
    // Not in the middle of an escape, which would read as something else.
    if let Some(open) = start.rfind('\\')
        && !start.get(open..).is_some_and(|rest| rest.contains('}') || rest.chars().count() == 2)
    {
        start.truncate(open);
    }
    let left = all - start.chars().count();
    html! { (shown::text(&start)) span.cut { "… " (left) " more characters" } }
}

/// Decisions as the form sent them.
pub(super) struct Decisions {
    /// By approval.
    pub(super) decisions: BTreeMap<ApprovalId, ReviewDecision>,
}

/// Reads the fields of the form; what is left open is none of them.
///
/// # Errors
/// A sentence about the first field that does not fit.
pub(super) fn read(fields: &[(String, String)]) -> Result<Decisions, String> {
    let mut known: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, value) in fields {
        if known.insert(name, value).is_some() {
            return Err(format!("the field `{name}` came twice"));
        }
    }
    let typed = |name: &str| -> Result<Option<String>, String> {
        let text = known.get(name).copied().unwrap_or_default().to_owned();
        Typed::try_from(text).map(Option::from).map_err(|fault| format!("`{name}` {fault}"))
    };
    let (reason, message) = (typed("reason")?, typed("message_to_agent")?);
    let mut decisions = BTreeMap::new();
    for (name, value) in &known {
        let Some(id) = name.strip_prefix("decision.") else {
            let fits = matches!(*name, "reason" | "message_to_agent" | "form_token")
                || name.starts_with("args.")
                || name.starts_with("review.");
            if fits { continue } else { return Err(format!("there is no field `{name}`")) }
        };
        let approve = match *value {
            "approve" => true,
            "deny" => false,
            "open" => continue,
            _ => return Err("a decision is to approve, to deny, or to leave open".to_owned()),
        };
        let approval = ApprovalId::parse(id).map_err(|error| error.to_string())?;
        let args_hash = known.get(format!("args.{id}").as_str()).and_then(|hash| hash_of(hash));
        let decision = ReviewDecision {
            approve,
            args_hash: args_hash.ok_or("a decision without the arguments that were shown")?,
            review_hash: known.get(format!("review.{id}").as_str()).map(|hash| (*hash).to_owned()),
            reason: reason.clone(),
            message_to_agent: if approve { None } else { message.clone() },
            grant: None,
            confirmation: None,
        };
        decisions.insert(approval, decision);
    }
    if decisions.is_empty() {
        return Err("no decision was chosen".to_owned());
    }
    Ok(Decisions { decisions })
}

fn hash_of(text: &str) -> Option<ArgsHash> {
    let text: StrDeserializer<'_, serde::de::value::Error> = text.into_deserializer();
    ArgsHash::deserialize(text).ok()
}

/// What stood in the way of each decision, in words.
pub(super) fn obstacles(in_the_way: &[(ApprovalId, Error)], items: &[OnDesk]) -> BTreeMap<ApprovalId, String> {
    let text = |(id, error): &(ApprovalId, Error)| {
        let item = items.iter().find(|item| item.approval.id == *id);
        let text = match item {
            Some(item) => acts::objection_text(error, &item.approval),
            None => error.to_string(),
        };
        (*id, text)
    };
    in_the_way.iter().map(text).collect()
}
