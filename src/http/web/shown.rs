//! Text that others wrote, on a page: what `domain::review::visible` made of it, with its escapes set apart.
//!
//! The characters stay exactly those of the review; marks and line breaks are laid around them.

use maud::{Markup, html};

use crate::domain::{
    approval::state::State,
    review::{
        ShownValue,
        fact::{Fact, Part},
        visible,
    },
    time::Timestamp,
    verdict::Risk,
};

use super::words;

/// A piece of shown text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece<'a> {
    /// As it was written.
    Plain(&'a str),
    /// A code point, or a run of spaces, written out.
    Escape(&'a str),
    /// The same of a line's end.
    LineEnd(&'a str),
}

/// Takes shown text apart. A typed backslash is doubled in it, so an escape is what begins with a single one.
fn pieces(shown: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = shown;
    while let Some(at) = rest.find('\\') {
        let (plain, escape) = rest.split_at(at);
        if !plain.is_empty() {
            pieces.push(Piece::Plain(plain));
        }
        let length = match escape.chars().nth(1) {
            Some('u') => escape.find('}').map_or(escape.len(), |end| end + 1),
            Some(character) => 1 + character.len_utf8(),
            None => escape.len(),
        };
        let (escape, after) = escape.split_at_checked(length).unwrap_or((escape, ""));
        pieces.push(if escape == "\\n" { Piece::LineEnd(escape) } else { Piece::Escape(escape) });
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Plain(rest));
    }
    pieces
}

/// Shown text. A line ends where its text says so, once for any number of ends in a row: they are all there to be seen,
/// and push nothing out of sight.
pub(super) fn text(shown: &str) -> Markup {
    let pieces = pieces(shown);
    let is_end = |place: usize| matches!(pieces.get(place), Some(Piece::LineEnd(_)));
    html! {
        @for (place, piece) in pieces.iter().enumerate() {
            @match piece {
                Piece::Plain(text) => (text),
                Piece::Escape(text) => span.esc { (text) },
                Piece::LineEnd(text) => { span.esc { (text) } @if !is_end(place + 1) { br; } },
            }
        }
    }
}

/// Text that was not shown yet.
pub(super) fn untrusted(written: &str) -> Markup {
    text(&visible(written))
}

/// A value, with a word where it could be taken for one of another type: a text for a number, an empty one for none.
pub(super) fn value(kind: &str, shown: &str) -> Markup {
    let reads_as_other = || {
        let read = serde_json::from_str::<serde_json::Value>(shown);
        read.is_ok_and(|value| !value.is_string()) || shown == "[]" || shown == "{}"
    };
    let word = match kind {
        "string" if reads_as_other() => Some("text"),
        "null" => Some("nothing"),
        "array" => Some("an empty list"),
        "object" => Some("an empty object"),
        _ => None,
    };
    html! {
        @if kind == "string" && shown.is_empty() {
            span.none { "empty text" }
        } @else {
            span.value { (text(shown)) }
            @if let Some(word) = word { " " span.kind { (word) } }
        }
    }
}

/// Values under their places, the items of a list apart from each other.
pub(super) fn values(values: &[ShownValue]) -> Markup {
    html! {
        dl.values {
            @for ShownValue { at, kind, shown } in values {
                div {
                    dt { (place(at)) }
                    dd { (value(kind, shown)) }
                }
            }
        }
    }
}

/// Facts under their places.
pub(super) fn facts(facts: &[Fact]) -> Markup {
    html! {
        dl.values {
            @for fact in facts {
                div {
                    dt { (place(&fact.at)) (part(fact.part)) }
                    dd { (value(&fact.kind, &fact.shown)) }
                }
            }
        }
    }
}

/// Where a fact comes from, where that is not the arguments.
pub(super) fn part(part: Part) -> Markup {
    html! {
        @match part {
            Part::Argument | Part::Origin => {},
            Part::Resolved => { " " span.kind { "stands for" } },
            Part::Lookup => { " " span.kind { "looked up" } },
        }
    }
}

/// A JSON Pointer as people read it: its own slashes, without the first.
pub(super) fn place(at: &str) -> Markup {
    text(at.strip_prefix('/').unwrap_or(at))
}

/// How grave a call is, told by words, and by bars beside them.
pub(super) fn risk(risk: Risk, reversible: bool) -> Markup {
    let level = words::level(risk);
    html! {
        span.chip.risk.(format!("risk-{level}")) {
            span.bars aria-hidden="true" { @for bar in 1..=4 { span.bar.full[bar <= level] {} } }
            span {
                b { (risk.as_str()) } ": " (words::risk(risk)) ", "
                @if reversible { "can be undone" } @else { "cannot be undone" }
            }
        }
    }
}

/// Where an approval stands.
pub(super) fn state(state: &State) -> Markup {
    html! { span.chip.state.(format!("is-{}", state.name())) { (words::state(state)) } }
}

/// A moment, absolute and relative.
pub(super) fn when(at: Timestamp, now: Timestamp) -> Markup {
    html! {
        time datetime=(at) { (words::moment(at)) } " "
        span.soft { "(" (words::distance(at, now)) ")" }
    }
}

/// A moment, relative, that the script keeps right.
pub(super) fn until(at: Timestamp, now: Timestamp) -> Markup {
    let left = (at.as_micros() - now.as_micros()) / 1_000_000;
    html! {
        time.until.soon[left < 600] datetime=(at) title=(words::moment(at)) data-left=(left) {
            (words::distance(at, now))
        }
    }
}
