//! What is wrong with a policy, and where: the shape of every error and warning about its files.

use std::{fmt, ops::Range};

/// One file of a policy: its path relative to the policy's folder, and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Relative path with `/` between its parts, such as `mail/policy.toml`.
    pub path: String,
    /// The whole text.
    pub text: String,
}

/// Whether a fault stops the policy from loading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The policy does not load.
    Error,
    /// It loads; its author should look at this.
    Warning,
}

/// One thing wrong with a policy. The order is that of file, line and column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Fault {
    /// The file's path as it was given.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// Whether the policy still loads.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// How to mend it.
    pub hint: String,
}

/// As compilers print it: `policy.toml:3:9: error: message`, and the hint on a line of its own.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, severity, message, hint } = self;
        let severity = match severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{file}:{line}:{column}: {severity}: {message}")?;
        if hint.is_empty() { Ok(()) } else { write!(f, "\n  hint: {hint}") }
    }
}

/// A place in one of the files: the file's index among those given, and the bytes meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Index of the file.
    pub(super) file: usize,
    /// Bytes in its text.
    pub(super) span: Range<usize>,
}

/// Gathers faults while files are read, so that all of them can be told at once.
#[derive(Debug)]
pub(super) struct Faults<'s> {
    files: &'s [SourceFile],
    found: Vec<Fault>,
}

impl<'s> Faults<'s> {
    /// Nothing found yet in `files`.
    pub(super) fn new(files: &'s [SourceFile]) -> Self {
        Self { files, found: Vec::new() }
    }

    /// The files that places point into.
    pub(super) fn files(&self) -> &'s [SourceFile] {
        self.files
    }

    /// Something that stops the policy from loading.
    pub(super) fn error(&mut self, at: &Place, message: impl Into<String>, hint: impl Into<String>) {
        self.push(at, Severity::Error, message.into(), hint.into());
    }

    /// Something its author should look at.
    pub(super) fn warning(&mut self, at: &Place, message: impl Into<String>, hint: impl Into<String>) {
        self.push(at, Severity::Warning, message.into(), hint.into());
    }

    /// Whether anything found stops the policy from loading.
    pub(super) fn any_error(&self) -> bool {
        self.found.iter().any(|fault| fault.severity == Severity::Error)
    }

    /// How many were found so far.
    pub(super) fn count(&self) -> usize {
        self.found.len()
    }

    /// All of them, in the order of the files.
    pub(super) fn into_sorted(mut self) -> Vec<Fault> {
        self.found.sort();
        self.found.dedup();
        self.found
    }

    /// `file:line:column` of a place, to name in a message about another one.
    pub(super) fn describe(&self, at: &Place) -> String {
        let (file, line, column) = self.locate(at);
        format!("{file}:{line}:{column}")
    }

    fn push(&mut self, at: &Place, severity: Severity, message: String, hint: String) {
        let (file, line, column) = self.locate(at);
        self.found.push(Fault { file, line, column, severity, message, hint });
    }

    fn locate(&self, at: &Place) -> (String, usize, usize) {
        let Some(file) = self.files.get(at.file) else { return (String::new(), 1, 1) };
        let (line, column) = line_and_column(&file.text, at.span.start);
        (file.path.clone(), line, column)
    }
}

/// Line and column, both from 1, of the character at `byte`; the end of the text for anything past it.
fn line_and_column(text: &str, byte: usize) -> (usize, usize) {
    let before = text.char_indices().take_while(|(at, _)| *at < byte);
    before.fold((1, 1), |(line, column), (_, character)| match character {
        '\n' => (line + 1, 1),
        _ => (line, column + 1),
    })
}

/// The place of character number `character` of the text that the TOML string at `string` stands for.
///
/// Escapes count as the one character they stand for; the end of the string for anything past it.
pub(super) fn character_in_string(files: &[SourceFile], string: &Place, character: usize) -> Place {
    let raw = files.get(string.file).and_then(|file| file.text.get(string.span.clone())).unwrap_or_default();
    let quotes = ["'''", "\"\"\"", "'", "\""].into_iter().find(|quotes| raw.starts_with(quotes)).unwrap_or_default();
    let mut at = quotes.len();
    let rest = |at: usize| raw.get(at..).unwrap_or_default();
    if quotes.len() == 3 {
        // A line feed right after the opening quotes is no part of the text.
        at += ["\r\n", "\n"].into_iter().find(|line_end| rest(at).starts_with(line_end)).map_or(0, str::len);
    }
    for _ in 0..character {
        let escape = if quotes.starts_with('"') { rest(at).strip_prefix('\\') } else { None };
        at += match escape.and_then(|escape| escape.chars().next()) {
            Some('x') => 4,
            Some('u') => 6,
            Some('U') => 10,
            Some(line_end) if line_end.is_whitespace() => {
                let skipped = rest(at + 1);
                let blank = skipped.len() - skipped.trim_start().len();
                1 + blank + rest(at + 1 + blank).chars().next().map_or(0, char::len_utf8)
            }
            Some(plain) => 1 + plain.len_utf8(),
            None => rest(at).chars().next().map_or(0, char::len_utf8),
        };
    }
    let start = string.span.start + at.min(raw.len().saturating_sub(quotes.len()));
    Place { file: string.file, span: start..string.span.end }
}
