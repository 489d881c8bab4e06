//! Times, spans and states in the words of the pages.

use std::time::Duration;

use crate::domain::{
    approval::{
        outcome::{Outcome, SettledStatus},
        state::{Approval, Canceller, Denier, ServiceDenial, State},
    },
    time::Timestamp,
    verdict::Risk,
};

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A moment as people read it: `30 Nov 2026, 14:45 UTC`.
pub(super) fn moment(at: Timestamp) -> String {
    let Some(fields) = at.calendar() else { return at.to_string() };
    let month = usize::try_from(fields.month - 1).ok().and_then(|month| MONTHS.get(month)).copied().unwrap_or("?");
    format!("{} {month} {}, {:02}:{:02} UTC", fields.day, fields.year, fields.hour, fields.minute)
}

/// A length of time in its two largest units, rounded down: `59 min`, `3 h 20 min`, `2 days 4 h`.
pub(super) fn span(length: Duration) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    let seconds = length.as_secs();
    let with = |first: String, rest: u64, unit: &str| match rest {
        0 => first,
        rest => format!("{first} {rest} {unit}"),
    };
    match seconds {
        0..MINUTE => format!("{seconds} s"),
        MINUTE..HOUR => format!("{} min", seconds / MINUTE),
        HOUR..DAY => with(format!("{} h", seconds / HOUR), seconds % HOUR / MINUTE, "min"),
        _ => {
            let days = seconds / DAY;
            with(format!("{days} {}", if days == 1 { "day" } else { "days" }), seconds % DAY / HOUR, "h")
        }
    }
}

/// How far a moment is from now: `in 59 min`, `3 h 20 min ago`, `now`.
pub(super) fn distance(at: Timestamp, now: Timestamp) -> String {
    match (at.since(now), now.since(at)) {
        (ahead, _) if !ahead.is_zero() => format!("in {}", span(ahead)),
        (_, past) if past.as_secs() > 0 => format!("{} ago", span(past)),
        (_, _) => "now".to_owned(),
    }
}

/// What a risk class means.
pub(super) const fn risk(risk: Risk) -> &'static str {
    match risk {
        Risk::Read => "only looks",
        Risk::Draft => "changes something here",
        Risk::Send => "leaves the system",
        Risk::Destructive => "destroys",
    }
}

/// How grave a risk class is, of four.
pub(super) const fn level(risk: Risk) -> usize {
    match risk {
        Risk::Read => 1,
        Risk::Draft => 2,
        Risk::Send => 3,
        Risk::Destructive => 4,
    }
}

/// Where an approval stands, in one word for its label.
pub(super) const fn state(state: &State) -> &'static str {
    match state {
        State::Pending { .. } => "Waiting",
        State::Approved(_) => "Approved",
        State::Denied(_) => "Denied",
        State::Expired { .. } => "Expired",
        State::Cancelled { .. } => "Withdrawn",
        State::Executed(execution) => match &execution.outcome {
            Outcome::Awaited => "Running",
            Outcome::Reported(_) | Outcome::Unknown { settled: Some(_), .. } => "Ran",
            Outcome::Unknown { settled: None, .. } => "Outcome unknown",
        },
    }
}

/// The same as a sentence: who did it, and when.
pub(super) fn standing(approval: &Approval) -> String {
    match &approval.state {
        State::Pending { .. } => "It waits for people.".to_owned(),
        State::Approved(approved) => {
            let by: Vec<&str> = approved.votes.iter().map(|vote| vote.reviewer.as_str()).collect();
            format!("Approved by {} on {}. It has not been claimed yet.", and(&by), moment(approved.at))
        }
        State::Denied(denial) => match &denial.by {
            Denier::Reviewer { name } => format!("Denied by {name} on {}.", moment(denial.at)),
            Denier::Service { cause } => {
                format!("Denied by the service itself on {}: {}.", moment(denial.at), service_denial(*cause))
            }
        },
        State::Expired { at } => format!("It ran out of time on {}. Nothing was run.", moment(*at)),
        State::Cancelled { by, at } => format!("Withdrawn {} on {}. Nothing was run.", canceller(*by), moment(*at)),
        State::Executed(execution) => {
            let by: Vec<&str> = execution.approved.votes.iter().map(|vote| vote.reviewer.as_str()).collect();
            let claimed = format!("Approved by {}, claimed on {}.", and(&by), moment(execution.claim.at));
            match &execution.outcome {
                Outcome::Awaited => {
                    let until = moment(execution.claim.lease_expires_at);
                    format!("{claimed} A report of what came of it is awaited until {until}.")
                }
                Outcome::Reported(report) => {
                    format!("{claimed} It was reported as {} on {}.", report.status.as_str(), moment(report.at))
                }
                Outcome::Unknown { since, settled: None, .. } => {
                    format!("{claimed} Nobody reported what came of it by {}.", moment(*since))
                }
                Outcome::Unknown { settled: Some(settled), .. } => {
                    let found = match settled.status {
                        SettledStatus::Succeeded => "it had run",
                        SettledStatus::Failed => "it had failed, or had never run",
                    };
                    format!("{claimed} Nobody reported; {} found that {found}, on {}.", settled.by, moment(settled.at))
                }
            }
        }
    }
}

const fn service_denial(cause: ServiceDenial) -> &'static str {
    match cause {
        ServiceDenial::ArgumentsDiffer => "it was claimed with other arguments than those approved",
        ServiceDenial::StoredArgumentsDiffer => "the stored arguments are no longer those that were held",
        ServiceDenial::StoredReviewDiffers => "the stored review is no longer the one that was rendered",
    }
}

const fn canceller(by: Canceller) -> &'static str {
    match by {
        Canceller::Requester => "by the agent that asked",
        Canceller::PolicyChange => "because today's policy asks for something else",
        Canceller::Pause => "because its agent was paused",
        Canceller::Stop => "because its run was stopped or ended",
    }
}

/// `ana`, `ana and bo`, `ana, bo and cy`.
pub(super) fn and(names: &[&str]) -> String {
    match names {
        [] => "nobody".to_owned(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// `1 approval`, `12 approvals`.
pub(super) fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
