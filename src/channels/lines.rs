//! An approval in plain lines, for channels that show text and a link. What stands in them was made visible when it was
//! rendered, or is here; escaping for its medium is the channel's.

use crate::{
    app::ports::Card,
    domain::{
        approval::state::{Denier, State, StateName},
        notice::NoticeEvent,
        review::{Review, ShownValue, visible},
        time::Timestamp,
    },
};

/// A card in lines.
pub(super) struct Lines {
    /// What it is about, in a few words.
    pub(super) heading: String,
    /// Who asks, why, and until when: a name and a value each.
    pub(super) facts: Vec<(&'static str, String)>,
    /// Exactly what would run, a value a line; `None` when it is not to be had any more.
    pub(super) arguments: Option<Vec<String>>,
    /// What the service itself found out.
    pub(super) lookups: Vec<String>,
    /// What the model said of it.
    pub(super) rationale: Option<String>,
    /// Whether nothing was left out.
    pub(super) whole: bool,
}

/// Said where something was left out.
pub(super) const NOT_WHOLE: &str = "Not everything fits here: the page shows all of it.";

impl Lines {
    /// The lines about a card.
    pub(super) fn of(event: NoticeEvent, card: &Card) -> Self {
        let approval = &card.approval;
        let review = card.review.as_ref();
        let mut facts = vec![("Code", approval.code.to_string()), ("Agent", approval.call.agent.to_string())];
        if let Some(person) = review.and_then(|review| review.on_behalf_of.clone()) {
            facts.push(("On behalf of", person));
        }
        if let Some(review) = review {
            let undone = if review.reversible { "can be undone" } else { "cannot be undone" };
            facts.push(("Risk", format!("{}, {undone}", review.risk)));
        }
        facts.push(("Why it was held", visible(&approval.reason)));
        match &approval.state {
            State::Pending { .. } => {
                facts.extend(approval.missing_text(card.now).map(|missing| ("Needs", missing)));
                facts.push(("Expires", minute(approval.expires_at)));
            }
            State::Approved(_)
            | State::Denied(_)
            | State::Expired { .. }
            | State::Cancelled { .. }
            | State::Executed(_) => facts.push(("State", ending(card))),
        }
        Self {
            heading: format!("{}: {}", headline(event, card), visible(&approval.tool)),
            facts,
            arguments: review.map(|review| review.arguments.iter().map(line).collect()),
            lookups: review.map(lookups).unwrap_or_default(),
            rationale: card.rationale.as_deref().map(visible),
            whole: true,
        }
    }

    /// As many of the lines as fit, in their order and each uncut, where `length` tells how much room one takes.
    pub(super) fn within(mut self, room: usize, length: impl Fn(&str) -> usize) -> Self {
        let mut left = Some(room);
        let mut fits = |line: &str| {
            left = left.and_then(|left| left.checked_sub(length(line)));
            left.is_some()
        };
        // What does not fit ends the list: what follows would read as if there were nothing between.
        let had = self.count();
        self.facts.retain(|(name, value)| fits(&format!("{name}: {value}")));
        if let Some(arguments) = &mut self.arguments {
            arguments.retain(|line| fits(line));
        }
        self.lookups.retain(|line| fits(line));
        self.rationale = self.rationale.filter(|rationale| fits(rationale));
        self.whole = self.count() == had;
        self
    }

    fn count(&self) -> usize {
        let arguments = self.arguments.as_ref().map_or(0, Vec::len);
        self.facts.len() + arguments + self.lookups.len() + usize::from(self.rationale.is_some())
    }
}

/// One call among many, in one line.
pub(super) fn summary(card: &Card) -> String {
    let approval = &card.approval;
    let tool = visible(&approval.tool);
    match approval.state.name() {
        StateName::Pending => {
            format!("{} {tool}, {}, expires {}", approval.code, approval.call.agent, minute(approval.expires_at))
        }
        StateName::Approved | StateName::Denied | StateName::Expired | StateName::Cancelled | StateName::Executed => {
            format!("{} {tool}, {}: {}", approval.code, approval.call.agent, ending(card))
        }
    }
}

/// Why it is told.
fn headline(event: NoticeEvent, card: &Card) -> &'static str {
    match (card.approval.state.name(), event) {
        (StateName::Pending, NoticeEvent::Reminder) => "Still waiting",
        (StateName::Pending, NoticeEvent::Escalated) => "Escalated to you",
        (StateName::Pending, _) => "Approval needed",
        (StateName::Approved, _) => "Approved",
        (StateName::Denied, _) => "Denied",
        (StateName::Expired, _) => "Expired, not decided or not run in time",
        (StateName::Cancelled, _) => "Withdrawn",
        (StateName::Executed, _) => "Executed",
    }
}

/// How it ended, and by whom.
pub(super) fn ending(card: &Card) -> String {
    match &card.approval.state {
        State::Pending { .. } => "waiting".to_owned(),
        State::Approved(_) => {
            let voters: Vec<_> = card.approval.votes().iter().map(|vote| vote.reviewer.to_string()).collect();
            format!("approved by {}", voters.join(" and "))
        }
        State::Denied(denial) => match &denial.by {
            Denier::Reviewer { name } => format!("denied by {name} at {}", minute(denial.at)),
            Denier::Service { .. } => format!("denied by the service at {}", minute(denial.at)),
        },
        State::Expired { at } => format!("expired at {}", minute(*at)),
        State::Cancelled { at, .. } => format!("withdrawn at {}", minute(*at)),
        State::Executed(execution) => match execution.outcome.word() {
            Some(word) => format!("executed, {word}"),
            None => "executed, its outcome is awaited".to_owned(),
        },
    }
}

fn line(value: &ShownValue) -> String {
    let ShownValue { at, kind, shown } = value;
    // What looks like a number and is a text is told apart.
    if kind == "string" { format!("{at} = \"{shown}\"") } else { format!("{at} = {shown}") }
}

fn lookups(review: &Review) -> Vec<String> {
    let mut lines = Vec::new();
    for lookup in &review.lookups {
        let what = if lookup.preview { "preview" } else { "looked up" };
        match &lookup.failed {
            Some(failed) => lines.push(format!("{} ({what}): {failed}", lookup.name)),
            None => lines.extend(lookup.values.iter().map(|value| format!("{} ({what}) {}", lookup.name, line(value)))),
        }
    }
    lines
}

/// A moment to the minute, as people read it.
pub(super) fn minute(at: Timestamp) -> String {
    match at.calendar() {
        Some(time) => {
            format!("{:04}-{:02}-{:02} {:02}:{:02} UTC", time.year, time.month, time.day, time.hour, time.minute)
        }
        None => at.to_string(),
    }
}
