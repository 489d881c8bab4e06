//! What people see in Slack, as Block Kit (<https://docs.slack.dev/reference/block-kit>) and within its limits. It
//! renders what it is given, and decides one thing: whether a message shows enough to be approved by.
//!
//! Nothing that comes from outside is ever read as markup: it stands in `plain_text`, made visible and escaped.

use serde_json::{Value, json};

use super::{
    escape::{LONGEST_SECTION, cut, escaped, pieces, plain, units},
    interaction::{APPROVE, DENY, OPEN, Shown},
};
use crate::{
    app::ports::Card,
    domain::{
        approval::{
            requirement::DecideIn,
            state::{Approval, Canceller, Denial, Denier, Execution, ServiceDenial, State, StateName},
            vote::Vote,
        },
        notice::NoticeEvent,
        review::{Review, ShownValue, visible},
        time::Timestamp,
        verdict::Risk,
    },
};

/// The most of a review that one message shows: with everything around it a message stays below 12,000, for which no
/// limit is known, and what it says in the end fits too.
const MOST_OF_REVIEW: usize = 8_000;

/// The most of the model's own words.
const MOST_OF_RATIONALE: usize = 1_200;

/// The most of what a reviewer told the agent.
const MOST_OF_MESSAGE: usize = 600;

/// The longest text that stands for the blocks where those are not shown.
const LONGEST_TEXT: usize = 2_500;

/// The most of a list of approvals that one message shows.
const MOST_OF_LIST: usize = 8_000;

/// The longest header.
const LONGEST_HEADER: usize = 150;

/// The longest text of a button.
const LONGEST_BUTTON: usize = 75;

/// The longest text of a dialog that asks whether a click was meant.
const LONGEST_QUESTION: usize = 300;

/// Whether clicks in a channel come to anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clicks {
    /// They are signed with a secret that is known here.
    Verified,
    /// Nobody could tell whose they are.
    Nobodys,
}

/// What a message lets people do about an approve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Approve by a click, that a dialog of Slack asks about once more.
    Approve,
    /// Approve by a click and a dialog of ours, for what takes two.
    ApproveTwice,
    /// Approve elsewhere.
    Elsewhere(Hindrance),
    /// There is nothing to approve any more.
    Nothing,
}

/// Why an approve is not offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hindrance {
    /// Clicks here are nobody's.
    NoClicks,
    /// The policy wants it on the web.
    OnTheWeb,
    /// The policy wants whoever approves to have just signed in.
    SignIn,
    /// What was held was erased.
    Erased,
    /// It is more than a message shows.
    TooLong,
}

impl Hindrance {
    /// Why, for people.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::NoClicks => "Clicks are not taken in this channel: decide on the page.",
            Self::OnTheWeb => "The policy lets this be approved on the page only.",
            Self::SignIn => "The policy lets this be approved on the page only, after a fresh sign-in.",
            Self::Erased => "What was held cannot be shown here: approve on the page, if it can be shown there.",
            Self::TooLong => "This message does not show all of the call, so it cannot be approved here: see the page.",
        }
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// What screen readers and notifications say.
    pub text: String,
    /// What is shown.
    pub blocks: Vec<Value>,
}

/// What an approve of this card takes, where clicks come to this.
pub fn offer(card: &Card, clicks: Clicks) -> Offer {
    let requirement = &card.approval.requirement;
    if card.approval.state.name() != StateName::Pending {
        return Offer::Nothing;
    }
    let hindrance = match (clicks, requirement.decide_in, &card.review) {
        (Clicks::Nobodys, _, _) => Some(Hindrance::NoClicks),
        (Clicks::Verified, _, _) if requirement.step_up => Some(Hindrance::SignIn),
        (Clicks::Verified, DecideIn::Web, _) => Some(Hindrance::OnTheWeb),
        (Clicks::Verified, DecideIn::Any, None) => Some(Hindrance::Erased),
        (Clicks::Verified, DecideIn::Any, Some(review)) => {
            (!Sections::of(&review_lines(review), MOST_OF_REVIEW).whole).then_some(Hindrance::TooLong)
        }
    };
    match hindrance {
        Some(hindrance) => Offer::Elsewhere(hindrance),
        None if requirement.double_confirm => Offer::ApproveTwice,
        None => Offer::Approve,
    }
}

/// What the buttons of a card hold.
pub fn shown(card: &Card) -> Shown {
    let approval = &card.approval;
    let review = approval.review.filter(|_| card.review.is_some());
    Shown { approval: approval.id, args: approval.args_hash, review: review.map(|review| review.hash.to_string()) }
}

/// One approval, as it stands. `mark` is another one for each message and each change of it.
pub fn card(card: &Card, clicks: Clicks, mark: &str) -> Message {
    let approval = &card.approval;
    let mut blocks = Blocks::new(mark);
    blocks.header(&heading(approval));
    blocks.section(&call_lines(approval).join("\n"));
    let mut whole = false;
    if let Some(review) = &card.review {
        let sections = Sections::of(&review_lines(review), MOST_OF_REVIEW);
        whole = sections.whole;
        sections.texts.iter().for_each(|text| blocks.section(text));
    }
    if let Some(rationale) = card.rationale.as_deref().filter(|rationale| !rationale.is_empty()) {
        let words = cut(&visible(rationale), MOST_OF_RATIONALE);
        blocks.section(&format!("The model's own words, which nobody has verified:\n{words}"));
    }
    blocks.section(&standing(approval, card.now).join("\n"));
    let offer = offer(card, clicks);
    if let Offer::Elsewhere(hindrance) = offer {
        blocks.section(hindrance.sentence());
    }
    blocks.context(&footer(card, whole));
    let mut buttons = Vec::new();
    let value = shown(card).to_string();
    match offer {
        Offer::Approve => buttons.push(approve_button(card, &value, true)),
        Offer::ApproveTwice => buttons.push(approve_button(card, &value, false)),
        Offer::Elsewhere(_) | Offer::Nothing => {}
    }
    if approval.state.name() == StateName::Pending && clicks == Clicks::Verified {
        buttons.push(button(DENY, "Deny...", &format!("Deny {}", approval.code), &value, Some("danger")));
    }
    buttons.push(link("Open", &format!("Open {}", approval.code), &card.url));
    blocks.actions(buttons);
    Message { text: spoken(card), blocks: blocks.done }
}

/// The same, as little of it as there can be: for a message that Slack did not take.
pub fn bare_card(card: &Card, mark: &str) -> Message {
    let approval = &card.approval;
    let mut blocks = Blocks::new(mark);
    blocks.header(&format!("{}: {}", approval.code, word(approval)));
    blocks.section("It cannot be shown here. The page shows it.");
    blocks.actions(vec![link("Open", &format!("Open {}", approval.code), &card.url)]);
    let text = format!("{}: {}. It cannot be shown here; see {}", approval.code, word(approval), card.url);
    Message { text: escaped(&cut(&text, LONGEST_TEXT)), blocks: blocks.done }
}

/// A word about an approval that stands elsewhere: that it waits still. It says when that was so, for it stays as it is.
pub fn reminder(card: &Card, event: NoticeEvent, mark: &str) -> Message {
    let approval = &card.approval;
    let others = if event == NoticeEvent::Escalated { " Others may decide now." } else { "" };
    let waits = approval.missing_text(card.now).map(|missing| format!(" It needs {missing}.")).unwrap_or_default();
    let line = format!(
        "At {} {} still waited: {} by {}.{waits}{others} It expires at {}.",
        clock(card.now),
        approval.code,
        visible(&approval.tool),
        approval.call.agent,
        clock(approval.expires_at),
    );
    let line = cut(&line, LONGEST_TEXT);
    let mut blocks = Blocks::new(mark);
    blocks.section(&line);
    blocks.actions(vec![link("Open", &format!("Open {}", approval.code), &card.url)]);
    Message { text: escaped(&line), blocks: blocks.done }
}

/// Many approvals, as they stand.
pub fn digest(cards: &[Card], inbox: &str, mark: &str) -> Message {
    let waiting = cards.iter().filter(|card| card.approval.state.name() == StateName::Pending).count();
    let title = if waiting == cards.len() {
        format!("{waiting} waiting")
    } else {
        format!("{waiting} waiting of {}", cards.len())
    };
    let lines: Vec<String> = cards.iter().map(listed).collect();
    let sections = Sections::of(&lines, MOST_OF_LIST);
    let mut blocks = Blocks::new(mark);
    blocks.header(&title);
    sections.texts.iter().for_each(|text| blocks.section(text));
    if !sections.whole {
        blocks.section("There are more than this message shows: the inbox has them all.");
    }
    blocks.actions(vec![link("Open the inbox", "Open the inbox", inbox)]);
    let text = format!("{title}: {}. Decide at {inbox}", lines.join("; "));
    Message { text: escaped(&cut(&text, LONGEST_TEXT)), blocks: blocks.done }
}

/// The same, as little of it as there can be.
pub fn bare_digest(cards: &[Card], inbox: &str, mark: &str) -> Message {
    let mut blocks = Blocks::new(mark);
    let line = format!("{} approvals: they cannot be shown here. The inbox shows them.", cards.len());
    blocks.section(&line);
    blocks.actions(vec![link("Open the inbox", "Open the inbox", inbox)]);
    Message { text: escaped(&cut(&format!("{line} {inbox}"), LONGEST_TEXT)), blocks: blocks.done }
}

/// The call itself in words, for the dialog that asks for the second click.
pub(super) fn second_look(card: &Card) -> Vec<String> {
    let mut texts = vec![call_lines(&card.approval).join("\n")];
    if let Some(review) = &card.review {
        texts.extend(Sections::of(&review_lines(review), MOST_OF_REVIEW).texts);
    }
    texts
}

/// What has become of an approval, one sentence a line.
pub fn standing(approval: &Approval, now: Timestamp) -> Vec<String> {
    match &approval.state {
        State::Pending { votes } => {
            let mut lines = Vec::new();
            if !votes.is_empty() {
                let needed = approval.requirement.needed();
                lines.push(format!("{} of {needed} approved: {}", approval.counting_votes(), voters(votes)));
            }
            if let Some(missing) = approval.missing_text(now) {
                lines.push(format!("Needs: {missing}"));
            }
            lines.push(format!("Expires: {}", clock(approval.expires_at)));
            lines
        }
        State::Approved(approved) => {
            let mut lines = vec![format!("Approved: {}", voters(&approved.votes))];
            if approved.claim_after > now {
                lines.push(format!(
                    "It may run from {} on, and can be revoked until then.",
                    clock(approved.claim_after)
                ));
            }
            lines.push("It has not run yet.".to_owned());
            lines
        }
        State::Denied(denial) => denied(denial),
        State::Expired { at } => vec![format!("Expired at {}: it was not decided, or not run, in time.", clock(*at))],
        State::Cancelled { by, at } => {
            let why = match by {
                Canceller::Requester => "Withdrawn by the agent's stack",
                Canceller::PolicyChange => "Withdrawn because the policy changed",
                Canceller::Pause => "Cancelled because the agent was paused",
                Canceller::Stop => "Cancelled because the run was stopped",
            };
            vec![format!("{why}, at {}.", clock(*at))]
        }
        State::Executed(Execution { approved, claim, outcome }) => {
            let outcome = outcome.word().map_or("its outcome is awaited", |word| match word {
                "succeeded" => "it succeeded",
                "failed" => "it failed",
                "not_started" => "it was not started",
                _ => "whether it succeeded is not known",
            });
            vec![format!("Approved: {}", voters(&approved.votes)), format!("Run at {}: {outcome}.", clock(claim.at))]
        }
    }
}

fn denied(denial: &Denial) -> Vec<String> {
    let Denial { by, at, message_to_agent, lifted } = denial;
    let who = match by {
        Denier::Reviewer { name } => format!("Denied by {name}"),
        Denier::Service { cause } => {
            let why = match cause {
                ServiceDenial::ArgumentsDiffer => "other arguments came to be run",
                ServiceDenial::StoredArgumentsDiffer | ServiceDenial::StoredReviewDiffers => {
                    "what is stored is not what was held"
                }
            };
            format!("Denied by the service ({why})")
        }
    };
    let mut lines = vec![format!("{who}, at {}.", clock(*at))];
    if let Some(message) = message_to_agent {
        lines.push(format!("The agent is told: {}", cut(&visible(message), MOST_OF_MESSAGE)));
    }
    if let Some(lift) = lifted {
        lines.push(format!("Lifted for later calls by {}, at {}.", lift.by, clock(lift.at)));
    }
    lines
}

fn voters(votes: &[Vote]) -> String {
    votes.iter().map(|vote| format!("{} at {}", vote.reviewer, clock(vote.at))).collect::<Vec<_>>().join(", ")
}

/// Where an approval stands, in a word or two.
fn word(approval: &Approval) -> &'static str {
    match approval.state.name() {
        StateName::Pending => "approval needed",
        StateName::Approved => "approved",
        StateName::Denied => "denied",
        StateName::Expired => "expired",
        StateName::Cancelled => "cancelled",
        StateName::Executed => "run",
    }
}

fn heading(approval: &Approval) -> String {
    format!("{}: {}, {}", approval.code, word(approval), visible(&approval.tool))
}

/// What is asked, by whom and why.
fn call_lines(approval: &Approval) -> Vec<String> {
    let call = &approval.call;
    vec![
        format!("Tool: {}", cut(&visible(&approval.tool), 300)),
        format!("Agent: {}, run {}, turn {}", call.agent, call.run, call.turn),
        format!("Why a human is asked: {}", cut(&visible(&approval.reason), 800)),
    ]
}

/// The whole review, a line for each thing there is to know. What is on a line cannot begin another one: there is no
/// line feed in visible text.
fn review_lines(review: &Review) -> Vec<String> {
    let risk = match review.risk {
        Risk::Read => "read: it observes",
        Risk::Draft => "draft: it changes something locally",
        Risk::Send => "send: its effect leaves the system",
        Risk::Destructive => "destructive: it destroys",
    };
    let undone = if review.reversible { "can be undone" } else { "cannot be undone" };
    let twice = if review.idempotent { "running it twice is as running it once" } else { "each run has its effect" };
    let mut lines = vec![format!("Risk: {risk}; {undone}; {twice}")];
    // The reason and the tool stand above already, as long as they are not too long for that.
    if units(&visible(&review.reason)) > 800 {
        lines.push(format!("Reason: {}", visible(&review.reason)));
    }
    if units(&visible(&review.tool)) > 300 {
        lines.push(format!("Tool: {}", visible(&review.tool)));
    }
    for rule in &review.asked_by {
        lines.push(format!("Asked by rule {}: {}", visible(&rule.rule), visible(&rule.reason)));
    }
    for above in review.chain.iter().skip(1) {
        lines.push(format!("Below: {}, run {}", above.agent, above.run));
    }
    if let Some(person) = &review.on_behalf_of {
        lines.push(format!("On behalf of: {person}"));
    }
    for subject in &review.subjects {
        lines.push(format!("About: {} {}", visible(&subject.name), subject.value));
    }
    let approvers = &review.approvers;
    let groups: Vec<String> =
        approvers.groups.iter().map(|(group, count)| format!("{count} of {}", visible(group))).collect();
    let groups = if groups.is_empty() { String::new() } else { format!(" ({})", groups.join(", ")) };
    let twice = if approvers.double_confirm { ", each of whom is asked twice" } else { "" };
    let grace = match approvers.grace_seconds {
        0 => String::new(),
        seconds => format!("; then {seconds} seconds in which it can be revoked"),
    };
    lines.push(format!("Approvals in all: {}{groups}{twice}{grace}", approvers.need));
    lines.push(match review.arguments.len() {
        0 => "No arguments".to_owned(),
        1 => "One argument:".to_owned(),
        many => format!("{many} arguments:"),
    });
    lines.extend(review.arguments.iter().map(|value| valued("", value)));
    if !review.resolved.is_empty() {
        lines.push("Arguments that stand for something else:".to_owned());
        lines.extend(review.resolved.iter().map(|value| valued("", value)));
    }
    for lookup in &review.lookups {
        let name = visible(&lookup.name);
        let what = if lookup.preview { "Preview" } else { "Looked up" };
        match &lookup.failed {
            Some(failure) => lines.push(format!("{what}: {name} failed ({failure})")),
            None => lines.push(format!("{what}: {name}")),
        }
        lines.extend(lookup.values.iter().map(|value| valued("", value)));
    }
    lines
}

/// A value where it stands: text in quotation marks, and what is no text with its type.
fn valued(before: &str, value: &ShownValue) -> String {
    let ShownValue { at, kind, shown } = value;
    if kind == "string" {
        format!("{before}• {at}: \"{shown}\"")
    } else {
        format!("{before}• {at} ({kind}): {shown}")
    }
}

fn footer(card: &Card, whole: bool) -> String {
    let approval = &card.approval;
    let digits = |hash: String| hash.chars().skip("sha256:".len()).take(12).collect::<String>();
    let review = approval.review.map(|review| format!(", review {}", digits(review.hash.to_string())));
    let shown = match (whole, &card.review) {
        (true, Some(review)) => format!(", arguments: {}, all shown", review.arguments.len()),
        (false, Some(_)) => ", not all shown".to_owned(),
        (_, None) => ", not shown".to_owned(),
    };
    let hash = digits(approval.args_hash.to_string());
    format!("{}, args sha256 {hash}{}{shown}", approval.code, review.unwrap_or_default())
}

/// What a screen reader says: everything it takes to know what is asked, as far as it goes into one sentence or two.
fn spoken(card: &Card) -> String {
    let approval = &card.approval;
    let mut parts = vec![format!("{}: {}", approval.code, word(approval))];
    parts.push(call_lines(approval).join(". "));
    parts.push(standing(approval, card.now).join(". "));
    if let Some(review) = &card.review {
        parts.push(review_lines(review).join(". "));
    }
    let end = format!(". See {}", card.url);
    let room = LONGEST_TEXT.saturating_sub(units(&end));
    escaped(&format!("{}{end}", cut(&parts.join(". "), room)))
}

fn listed(card: &Card) -> String {
    let approval = &card.approval;
    let tool = cut(&visible(&approval.tool), 120);
    let stands = match approval.state.name() {
        StateName::Pending => format!("waits until {}", clock(approval.expires_at)),
        StateName::Approved | StateName::Denied | StateName::Expired | StateName::Cancelled | StateName::Executed => {
            standing(approval, card.now).into_iter().next().unwrap_or_default()
        }
    };
    format!("• {} {tool} by {}: {stands}", approval.code, approval.call.agent)
}

/// A moment for people, in UTC to the minute.
pub(super) fn clock(at: Timestamp) -> String {
    match at.calendar() {
        Some(at) => format!("{:04}-{:02}-{:02} {:02}:{:02} UTC", at.year, at.month, at.day, at.hour, at.minute),
        None => at.to_string(),
    }
}

fn approve_button(card: &Card, value: &str, asks: bool) -> Value {
    let approval = &card.approval;
    let mut button = button(APPROVE, "Approve", &format!("Approve {}", approval.code), value, Some("primary"));
    if asks && let Some(button) = button.as_object_mut() {
        let question =
            format!("{} by {}, exactly as this message shows it.", visible(&approval.tool), approval.call.agent);
        button.insert(
            "confirm".to_owned(),
            json!({
                "title": plain(&format!("Approve {}?", approval.code), 100),
                "text": plain(&question, LONGEST_QUESTION),
                "confirm": plain("Approve", 30),
                "deny": plain("Back", 30),
                "style": "primary",
            }),
        );
    }
    button
}

fn button(action: &str, text: &str, label: &str, value: &str, style: Option<&str>) -> Value {
    let mut button = json!({
        "type": "button",
        "action_id": action,
        "text": plain(text, LONGEST_BUTTON),
        "accessibility_label": label,
        "value": value,
    });
    if let (Some(button), Some(style)) = (button.as_object_mut(), style) {
        button.insert("style".to_owned(), style.into());
    }
    button
}

fn link(text: &str, label: &str, url: &str) -> Value {
    json!({
        "type": "button",
        "action_id": OPEN,
        "text": plain(text, LONGEST_BUTTON),
        "accessibility_label": label,
        "url": url,
    })
}

/// Blocks in the making. Each has an id that no other message has: Slack wants new ones when a message changes.
pub(super) struct Blocks<'a> {
    mark: &'a str,
    pub(super) done: Vec<Value>,
}

impl<'a> Blocks<'a> {
    pub(super) const fn new(mark: &'a str) -> Self {
        Self { mark, done: Vec::new() }
    }

    fn id(&self) -> String {
        format!("{}.{}", self.done.len(), self.mark)
    }

    fn header(&mut self, text: &str) {
        let block = json!({ "type": "header", "block_id": self.id(), "text": plain(text, LONGEST_HEADER) });
        self.done.push(block);
    }

    /// Always open: what stands below `see more` was not seen.
    pub(super) fn section(&mut self, text: &str) {
        let text = plain(text, LONGEST_SECTION);
        let block = json!({ "type": "section", "block_id": self.id(), "text": text, "expand": true });
        self.done.push(block);
    }

    fn context(&mut self, text: &str) {
        let element = plain(text, LONGEST_QUESTION);
        let block = json!({ "type": "context", "block_id": self.id(), "elements": [element] });
        self.done.push(block);
    }

    fn actions(&mut self, elements: Vec<Value>) {
        let block = json!({ "type": "actions", "block_id": self.id(), "elements": elements });
        self.done.push(block);
    }
}

/// Lines in as many texts as it takes, none longer than a section.
struct Sections {
    texts: Vec<String>,
    /// Whether they hold every line.
    whole: bool,
}

impl Sections {
    /// Packs these lines, as far as they come to no more than `most`.
    fn of(lines: &[String], most: usize) -> Self {
        const GOES_ON: &str = "(goes on)\n";
        const CUT: &str = "[cut here: this is not all]";
        let mut texts: Vec<String> = Vec::new();
        let (mut text, mut length, mut all) = (String::new(), 0, 0);
        let mut whole = true;
        for line in lines {
            let left = most.saturating_sub(all);
            let mut parts = pieces(line, (LONGEST_SECTION - GOES_ON.len()).min(left.max(1))).into_iter();
            // A line that does not fit is begun, so that what is there can be seen.
            let fits = units(line) <= left;
            let parts: Vec<String> = if fits { parts.collect() } else { parts.next().into_iter().collect() };
            for (index, part) in parts.iter().enumerate() {
                let more = units(part) + 1;
                if index > 0 || length + more > LONGEST_SECTION {
                    if !text.is_empty() {
                        texts.push(std::mem::take(&mut text));
                    }
                    length = 0;
                }
                if index > 0 {
                    text.push_str(GOES_ON);
                    length += GOES_ON.len();
                } else if !text.is_empty() {
                    text.push('\n');
                }
                text.push_str(part);
                length += more;
                all += more;
            }
            if !fits {
                whole = false;
                break;
            }
        }
        if !text.is_empty() {
            texts.push(text);
        }
        if !whole {
            texts.push(CUT.to_owned());
        }
        Self { texts, whole }
    }
}
