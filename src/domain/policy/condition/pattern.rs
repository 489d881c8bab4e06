//! Patterns of `matches` and `glob`: compiled when the policy is loaded, matched against a whole text.
//!
//! A pattern becomes a complete deterministic automaton, so that a match costs one table look-up per byte whatever
//! the pattern and the text are. Patterns whose automaton would be too large are refused.

use regex_automata::{
    Anchored, MatchKind,
    dfa::{Automaton, StartKind, dense},
    nfa::thompson,
    util::{primitives::StateID, start},
};

/// The largest automaton, and the most memory used to build one, in bytes.
const MAX_AUTOMATON_BYTES: usize = 1024 * 1024;

/// A compiled pattern.
pub(super) struct Pattern {
    automaton: dense::DFA<Vec<u32>>,
    start: StateID,
}

/// What `*` in a glob does not pass.
#[derive(Clone, Copy)]
pub(super) enum Separator {
    /// `/`, as in paths.
    Slash,
    /// `.`, as in the names of hosts.
    Dot,
}

impl Pattern {
    /// A regular expression in the syntax of the `regex` crate.
    ///
    /// # Errors
    /// Why it is not taken, for people.
    pub(super) fn regex(pattern: &str) -> Result<Self, String> {
        // `All` instead of leftmost-first: the question is whether any way to match ends at the end of the text.
        let config = dense::Config::new()
            .match_kind(MatchKind::All)
            .start_kind(StartKind::Anchored)
            .dfa_size_limit(Some(MAX_AUTOMATON_BYTES))
            .determinize_size_limit(Some(MAX_AUTOMATON_BYTES));
        let nfa = thompson::Config::new().nfa_size_limit(Some(MAX_AUTOMATON_BYTES)).shrink(false);
        let automaton =
            dense::Builder::new().configure(config).thompson(nfa).build(pattern).map_err(|error| reasons(&error))?;
        let start =
            automaton.start_state(&start::Config::new().anchored(Anchored::Yes)).map_err(|error| error.to_string())?;
        Ok(Self { automaton, start })
    }

    /// A glob: `*` is any text up to the separator, `**` any text at all, `**` followed by the separator also
    /// nothing; every other character is itself.
    ///
    /// # Errors
    /// Why it is not taken, for people.
    pub(super) fn glob(pattern: &str, separator: Separator) -> Result<Self, String> {
        if pattern.is_empty() {
            return Err("an empty pattern matches nothing of use".to_owned());
        }
        let (mark, one_level, levels) = match separator {
            Separator::Slash => ('/', "[^/]*", r"(?s:.*/)?"),
            Separator::Dot => ('.', r"[^.]*", r"(?s:.*\.)?"),
        };
        let mut regex = String::with_capacity(pattern.len() * 2);
        let mut rest = pattern.chars().peekable();
        let mut at_level_start = true;
        while let Some(character) = rest.next() {
            if character != '*' {
                regex.push_str(&literally(character));
                at_level_start = character == mark;
                continue;
            }
            let mut stars = 1;
            while rest.next_if_eq(&'*').is_some() {
                stars += 1;
            }
            if stars == 1 {
                regex.push_str(one_level);
            } else if at_level_start && rest.next_if_eq(&mark).is_some() {
                regex.push_str(levels);
                continue;
            } else {
                regex.push_str("(?s:.*)");
            }
            at_level_start = false;
        }
        Self::regex(&regex)
    }

    /// Whether the whole of `text` matches.
    pub(super) fn matches(&self, text: &str) -> bool {
        let mut state = self.start;
        for byte in text.bytes() {
            state = self.automaton.next_state(state, byte);
            // Most states are not special, so that this is one comparison for most bytes.
            if self.automaton.is_special_state(state)
                && (self.automaton.is_dead_state(state) || self.automaton.is_quit_state(state))
            {
                return false;
            }
        }
        self.automaton.is_match_state(self.automaton.next_eoi_state(state))
    }
}

/// `character` as a regular expression that matches just it.
fn literally(character: char) -> String {
    if character.is_alphanumeric() { character.to_string() } else { format!(r"\x{{{:x}}}", u32::from(character)) }
}

/// An error with all that caused it, in one line.
fn reasons(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
