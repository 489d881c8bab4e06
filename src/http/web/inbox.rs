//! The inbox: what waits, alike ones in stacks with what stands out on top; and what was decided lately.

use std::collections::BTreeSet;

use axum::{
    Router,
    response::{IntoResponse as _, Response},
    routing::get,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    approval,
    desk::{Asked, Desk},
    layout::{Frame, Here, Page, framed},
    many::{short, stack_path, stacked, stands_out},
    shown, words,
};
use crate::{
    app::{
        desk::{Inbox, MOST_WAITING, OnDesk},
        ports::ApprovalFilter,
    },
    domain::{
        approval::state::{Approval, StateName},
        identity::ReviewerName,
        review::{alike::Stack, fact::Fact},
        time::Timestamp,
        verdict::Risk,
    },
    http::state::HttpState,
};

/// How many lines of a stack the inbox shows.
const MOST_LINES: usize = 6;
/// How many values of one call.
const MOST_VALUES: usize = 4;
/// How many characters of a value.
const MOST_CHARACTERS: usize = 72;

/// The routes.
pub(super) fn routes() -> Router<HttpState> {
    Router::new()
        .route("/review", get(show))
        .route("/review/mark", get(show_mark))
        .route("/review/decided", get(show_decided))
}

async fn show(desk: Desk, Asked(query): Asked<Query>) -> Result<Response, Response> {
    if let Some(only) = desk.only_page() {
        return Ok(only);
    }
    let reviewer = &desk.signed_in.reviewer;
    let waiting = desk.app().inbox(reviewer).await.map_err(|error| desk.failed(error))?;
    let unsettled = desk.app().unsettled(reviewer).await.map_err(|error| desk.failed(error))?.len();
    let query = query.without_blanks();
    let view =
        View { frame: &desk.frame, reviewer: &reviewer.name, inbox: &waiting, unsettled, query: &query, now: desk.now };
    Ok(Page::ok(page(&view)).into_response())
}

async fn show_mark(desk: Desk) -> Result<String, Response> {
    let filter = ApprovalFilter { state: Some(StateName::Pending), ..ApprovalFilter::default() };
    let page = desk
        .app()
        .list_approvals(&desk.signed_in.reviewer, filter, None, MOST_WAITING)
        .await
        .map_err(|error| desk.failed(error))?;
    Ok(mark(page.approvals.iter()))
}

async fn show_decided(desk: Desk, Asked(query): Asked<DecidedQuery>) -> Result<Response, Response> {
    if let Some(only) = desk.only_page() {
        return Ok(only);
    }
    let reviewer = &desk.signed_in.reviewer;
    let found = match query.show {
        ShowDecided::Last => desk.app().lately_decided(reviewer).await,
        ShowDecided::Unsettled => desk.app().unsettled(reviewer).await,
    };
    let approvals = found.map_err(|error| desk.failed(error))?;
    Ok(Page::ok(decided(&desk.frame, query.show, &approvals)).into_response())
}

/// What comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sort {
    /// The newest.
    #[default]
    Newest,
    /// The gravest.
    Risk,
    /// What expires soonest.
    Expiry,
    /// Group by group.
    Group,
}

/// Which are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Show {
    /// All that may be seen.
    #[default]
    All,
    /// Those that this reviewer can decide.
    Mine,
}

/// How the inbox is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    #[serde(default)]
    sort: Sort,
    #[serde(default)]
    show: Show,
    group: Option<String>,
}

/// Everything that the page is made of.
pub(super) struct View<'a> {
    /// Whoever looks.
    pub(super) frame: &'a Frame,
    /// The same as a reviewer.
    pub(super) reviewer: &'a ReviewerName,
    /// What waits.
    pub(super) inbox: &'a Inbox,
    /// How many calls ran and nobody knows what came of them.
    pub(super) unsettled: usize,
    /// How it was asked for.
    pub(super) query: &'a Query,
    /// Now.
    pub(super) now: Timestamp,
}

impl Query {
    /// The same without what a form sends for nothing.
    pub(super) fn without_blanks(self) -> Self {
        Self { group: self.group.filter(|group| !group.is_empty()), ..self }
    }
}

/// What changes in an inbox, short enough to be asked for again and again.
pub(super) fn mark<'a>(waiting: impl ExactSizeIterator<Item = &'a Approval> + Clone) -> String {
    let newest = waiting.clone().map(|approval| approval.id).max();
    format!("{}-{}", waiting.len(), newest.map(|id| id.to_string()).unwrap_or_default())
}

/// The page.
pub(super) fn page(view: &View<'_>) -> Markup {
    let View { frame, inbox, unsettled, query, now, .. } = view;
    let mine = inbox.waiting.iter().filter(|item| can_decide(item, view.reviewer)).count();
    let groups: BTreeSet<&str> =
        inbox.waiting.iter().flat_map(|item| item.approval.requirement.groups.keys().map(String::as_str)).collect();
    let chosen: Vec<OnDesk> = inbox.waiting.iter().filter(|item| is_chosen(item, view)).cloned().collect();
    let mut stacks = stacked(&chosen);
    sort(&mut stacks, &chosen, query.sort);
    let erased: Vec<&OnDesk> = chosen.iter().filter(|item| item.review.is_none()).collect();
    let body = html! {
        div.head {
            h1 {
                @if inbox.waiting.is_empty() { "Nothing waits for you" }
                @else { (words::count(inbox.waiting.len(), "call waits", "calls wait")) }
            }
            @if !inbox.waiting.is_empty() {
                p.lead {
                    @match (mine, inbox.waiting.len()) {
                        (0, _) => "None of them can be approved by you; you may deny those you see.",
                        (mine, all) if mine == all => "You can decide all of them.",
                        (mine, _) => (format!("You can decide {mine} of them.")),
                    }
                }
            }
        }
        @if *unsettled > 0 {
            p.notice {
                a href="/review/decided?show=unsettled" {
                    (words::count(*unsettled, "call ran with an unknown outcome", "calls ran with an unknown outcome"))
                }
                ": somebody should look what came of it."
            }
        }
        @if !inbox.waiting.is_empty() { (controls(query, &groups)) }
        div.inbox data-watch="/review/mark" data-mark=(mark(inbox.waiting.iter().map(|item| &item.approval))) {
            @if inbox.waiting.is_empty() {
                div.empty {
                    p { "No agent is waiting for a decision of yours. Enjoy the quiet." }
                    p.soft { "This page tells you when something comes." }
                }
            } @else if chosen.is_empty() {
                div.empty { p { "Nothing matches. " a href="/review" { "Show all that waits" } } }
            }
            @for stack in &stacks { (one(view, &chosen, stack)) }
            @for item in erased {
                article.card.row {
                    h2 { a href=(approval::path(item.approval.id)) { code { (shown::untrusted(&item.approval.tool)) } } }
                    p.soft { "What would run was erased." }
                    (foot(&item.approval, *now))
                }
            }
            @if inbox.more { p.soft { "There are more. Decide some of these, and the others come." } }
        }
        p.after { a href="/review/decided" { "Lately decided" } }
    };
    framed(frame, Here::Inbox, "Inbox", body)
}

fn can_decide(item: &OnDesk, reviewer: &ReviewerName) -> bool {
    item.objection.is_none()
        && item.review.is_some()
        && !item.approval.votes().iter().any(|vote| vote.reviewer == *reviewer)
}

fn is_chosen(item: &OnDesk, view: &View<'_>) -> bool {
    let by_person = match view.query.show {
        Show::All => true,
        Show::Mine => can_decide(item, view.reviewer),
    };
    let groups = &item.approval.requirement.groups;
    by_person && view.query.group.as_ref().is_none_or(|group| groups.contains_key(group))
}

/// Puts stacks in order; each counts as its gravest, newest or soonest.
fn sort(stacks: &mut [Stack], items: &[OnDesk], sort: Sort) {
    let of = |stack: &Stack| -> Vec<OnDesk> {
        stack.lines.iter().filter_map(|line| items.get(line.member)).cloned().collect()
    };
    match sort {
        // As they came.
        Sort::Newest => {}
        Sort::Risk => stacks.sort_by_key(|stack| {
            let risk = of(stack).iter().filter_map(|item| item.review.as_ref().map(|review| review.risk)).max();
            std::cmp::Reverse(risk.unwrap_or(Risk::Destructive))
        }),
        Sort::Expiry => stacks.sort_by_key(|stack| of(stack).iter().map(|item| item.approval.expires_at).min()),
        Sort::Group => stacks.sort_by_key(|stack| {
            of(stack).first().map(|item| item.approval.requirement.groups.keys().cloned().collect::<Vec<_>>())
        }),
    }
}

fn controls(query: &Query, groups: &BTreeSet<&str>) -> Markup {
    html! {
        form.controls action="/review" method="get" role="search" aria-label="Sort and choose" {
            label { span { "Order" }
                select name="sort" {
                    @for (sort, value, name) in [
                        (Sort::Newest, "newest", "Newest first"),
                        (Sort::Risk, "risk", "Gravest first"),
                        (Sort::Expiry, "expiry", "Expiring first"),
                        (Sort::Group, "group", "By group"),
                    ] { option value=(value) selected[sort == query.sort] { (name) } }
                }
            }
            label { span { "Show" }
                select name="show" {
                    option value="all" selected[query.show == Show::All] { "All I may see" }
                    option value="mine" selected[query.show == Show::Mine] { "Those I can decide" }
                }
            }
            @if !groups.is_empty() {
                label { span { "Group" }
                    select name="group" {
                        option value="" { "Any" }
                        @for group in groups {
                            option value=(group) selected[query.group.as_deref() == Some(*group)] { (group) }
                        }
                    }
                }
            }
            button.plain type="submit" { "Show" }
        }
    }
}

fn one(view: &View<'_>, items: &[OnDesk], stack: &Stack) -> Markup {
    let first = stack.lines.first().and_then(|line| items.get(line.member));
    let Some(OnDesk { approval, review: Some(review), .. }) = first else { return html! {} };
    let several = stack.lines.len() > 1;
    html! {
        article.card.row.several[several] {
            div.title {
                h2 {
                    @if several {
                        a href=(stack_path(approval.id)) {
                            (stack.lines.len()) " alike: " code { (shown::untrusted(&approval.tool)) }
                        }
                    } @else {
                        a href=(approval::path(approval.id)) { code { (shown::untrusted(&approval.tool)) } }
                    }
                    span.by { " by " (approval.call.agent) }
                }
                (shown::risk(review.risk, review.reversible))
            }
            @if several {
                @if !stack.common.is_empty() { (inline(&stack.common, "Common: ")) }
                ol.lines {
                    @for line in stack.lines.iter().take(MOST_LINES) {
                        @if let Some(item) = items.get(line.member) {
                            li.standing-out[!line.unlike.is_empty()] {
                                a.line-code href=(approval::path(item.approval.id)) { (item.approval.code) }
                                (inline(&line.differing, ""))
                                (stands_out(&line.unlike))
                            }
                        }
                    }
                }
                @if stack.lines.len() > MOST_LINES {
                    p.soft { "and " (stack.lines.len() - MOST_LINES) " more" }
                }
                p.because { (shown::untrusted(&approval.reason)) }
                p.meta {
                    a.button href=(stack_path(approval.id)) { "Decide these together" }
                    @if let Some(soonest) = soonest(stack, items) {
                        span { "the first expires " (shown::until(soonest, view.now)) }
                    }
                    @if let Some(missing) = approval.missing_text(view.now) { span { "each needs " (missing) } }
                }
            } @else {
                (inline(&stack.common, ""))
                p.because { (shown::untrusted(&approval.reason)) }
                (foot(approval, view.now))
            }
        }
    }
}

fn soonest(stack: &Stack, items: &[OnDesk]) -> Option<Timestamp> {
    stack.lines.iter().filter_map(|line| items.get(line.member)).map(|item| item.approval.expires_at).min()
}

fn foot(approval: &Approval, now: Timestamp) -> Markup {
    html! {
        p.meta {
            span.code { (approval.code) }
            span { "expires " (shown::until(approval.expires_at, now)) }
            @if let Some(missing) = approval.missing_text(now) { span { "needs " (missing) } }
            span { "asked " (words::distance(approval.created_at, now)) }
        }
    }
}

/// The first values in a line; how many more there are is said.
fn inline(facts: &[Fact], before: &str) -> Markup {
    html! {
        @if !facts.is_empty() {
            p.inline {
                @if !before.is_empty() { span.soft { (before) } }
                @for fact in facts.iter().take(MOST_VALUES) {
                    span.pair {
                        span.key { (shown::place(&fact.at)) (shown::part(fact.part)) } " "
                        @if fact.shown.is_empty() { span.none { "empty" } }
                        @else { span.value { (short(&fact.shown, MOST_CHARACTERS)) } }
                    }
                }
                @if facts.len() > MOST_VALUES {
                    span.cut { "and " (words::count(facts.len() - MOST_VALUES, "more value", "more values")) }
                }
            }
        }
    }
}

/// Which decided ones are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ShowDecided {
    /// The last ones.
    #[default]
    Last,
    /// Those whose outcome nobody knows.
    Unsettled,
}

/// How the decided ones are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DecidedQuery {
    /// Which.
    #[serde(default)]
    pub(super) show: ShowDecided,
}

/// What was decided lately, or is to be settled.
pub(super) fn decided(frame: &Frame, show: ShowDecided, approvals: &[Approval]) -> Markup {
    let title = match show {
        ShowDecided::Last => "Lately decided",
        ShowDecided::Unsettled => "Ran, with an unknown outcome",
    };
    let body = html! {
        p.crumb { a href="/review" { "Inbox" } span aria-hidden="true" { " / " } (title) }
        div.head { h1 { (title) } }
        @if approvals.is_empty() {
            div.empty {
                p {
                    @match show {
                        ShowDecided::Last => "Nothing was decided yet.",
                        ShowDecided::Unsettled => "Every outcome is known.",
                    }
                }
            }
        }
        @for approval in approvals {
            article.card.row {
                div.title {
                    h2 {
                        a href=(approval::path(approval.id)) {
                            code { (shown::untrusted(&approval.tool)) } " " span.code { (approval.code) }
                        }
                        span.by { " by " (approval.call.agent) }
                    }
                    (shown::state(&approval.state))
                }
                p.because { (words::standing(approval)) }
            }
        }
    };
    framed(frame, Here::Inbox, title, body)
}
