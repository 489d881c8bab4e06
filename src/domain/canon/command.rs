//! The kind `command`: the words, programs and operators of a shell command, for display and for rules that tighten.
//! It is never enough to loosen anything, and it never expands or runs anything.
//!
//! Grammar: the token recognition and quoting of the POSIX shell (IEEE Std 1003.1, XCU 2.2 and 2.3) with the operators
//! of bash, on one line, as control characters are refused; or a list of strings, an argument vector that no shell
//! reads. Words are given as a program would receive them, expansions left as written
//! and substitutions shown as `$(..)`. Commands within `$(..)`,
//! `<(..)` and backquotes are read too, as are those that a shell (`-c`) or a wrapper (`sudo`, `xargs`) is given:
//! what may run is listed, rather too much than too little.
//!
//! `brush-parser` was weighed: its tokenizer recurses once per nested `$(` without bound, which can end the process, and
//! keeps the last commands it read in a global cache. The scanner here keeps its own stack, of bounded depth.

use std::collections::VecDeque;

use serde_json::{Map, Value, json};

use super::characters::no_controls;
use super::options::Options;
use super::{FieldType, OptionFault, Refusal, Resolution, Shape};

/// The longest command, in bytes; a shell takes more, a person reviews less.
const LONGEST_COMMAND: usize = 64 * 1024;
/// How deep commands within commands are read. What lies deeper is refused.
const DEEPEST: usize = 8;

/// Control and redirection operators, longer ones first, so that the first that fits is the one meant.
const OPERATORS: [&str; 20] = [
    "&>>", "<<<", "<<-", "&&", "||", ";;", "|&", "&>", ">>", "<<", "<&", ">&", "<>", ">|", "&", "|", ";", "<", ">", ")",
];
/// Words that are no program where a command begins, and after which one may begin (XCU 2.4, and their like in bash).
const RESERVED_WORDS: [&str; 16] =
    ["!", "{", "}", "if", "then", "elif", "else", "fi", "while", "until", "do", "done", "esac", "time", "coproc", "in"];
/// Programs that run the program which one of their arguments names.
const WRAPPERS: [&str; 22] = [
    "builtin", "busybox", "chroot", "command", "doas", "env", "exec", "flock", "ionice", "nice", "nohup", "parallel",
    "setsid", "stdbuf", "strace", "sudo", "taskset", "time", "timeout", "unshare", "watch", "xargs",
];
/// Options after which a program to run is named.
const EXEC_OPTIONS: [&str; 4] = ["-exec", "-execdir", "-ok", "-okdir"];
/// Programs that run the text of the argument after `-c` as a command.
const SHELLS: [&str; 9] = ["ash", "bash", "dash", "fish", "ksh", "mksh", "sh", "su", "zsh"];
/// Programs that run the text of their arguments as a command.
const EVALUATORS: [&str; 2] = ["eval", "trap"];

/// A compiled `command` declaration; the kind has no options.
#[derive(Debug)]
pub struct CommandKind;

impl CommandKind {
    pub(super) const SHAPE: Shape = Shape::Record(&[
        ("words", FieldType::TextList),
        ("programs", FieldType::TextList),
        ("operators", FieldType::TextList),
    ]);

    pub(super) fn compile(declaration: &Map<String, Value>) -> Result<Self, Vec<OptionFault>> {
        Options::of(declaration).finish(Some(Self))
    }

    pub(super) fn resolve(value: &Value) -> Result<Resolution, Refusal> {
        let found = match value {
            Value::String(text) => Found::in_text(text)?,
            Value::Array(items) => Found::in_vector(items)?,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
                return Err(Refusal::unresolvable("not_text", "a command is a string or a list of strings"));
            }
        };
        let value = json!({ "words": found.words, "programs": found.programs, "operators": found.operators });
        Ok(Resolution { value, obligations: Map::new() })
    }
}

/// What was found so far, and the commands within commands that are still to be read.
#[derive(Default)]
struct Found {
    words: Vec<String>,
    programs: Vec<String>,
    operators: Vec<String>,
    waiting: VecDeque<(String, usize)>,
}

impl Found {
    fn in_text(text: &str) -> Result<Self, Refusal> {
        if text.trim().is_empty() {
            return Err(Refusal::unresolvable("empty", "a command is not empty"));
        }
        check_size(text.len())?;
        no_controls(text)?;
        let mut found = Self::default();
        found.scan(text, 0)?;
        found.read_waiting()?;
        Ok(found)
    }

    fn in_vector(items: &[Value]) -> Result<Self, Refusal> {
        let mut found = Self::default();
        let mut command = Command::default();
        let mut size = 0;
        for item in items {
            let word = item
                .as_str()
                .ok_or_else(|| Refusal::unresolvable("not_text", "an argument vector holds only strings"))?;
            size += word.len() + 1;
            check_size(size)?;
            no_controls(word)?;
            command.take_argument(word, 0, &mut found);
            found.words.push(word.to_owned());
        }
        if found.words.first().is_some_and(String::is_empty) {
            return Err(Refusal::unresolvable("empty", "the program of an argument vector is empty"));
        }
        found.read_waiting()?;
        Ok(found)
    }

    /// Reads the commands that were found within words. Each is a part of a longer one, so the depth bounds the work.
    fn read_waiting(&mut self) -> Result<(), Refusal> {
        while let Some((text, depth)) = self.waiting.pop_front() {
            check_depth(depth)?;
            self.scan(&text, depth)?;
        }
        Ok(())
    }

    fn scan(&mut self, text: &str, depth: usize) -> Result<(), Refusal> {
        let mut scanner = Scanner { rest: text, frames: Vec::new(), frame: Frame::default(), depth };
        while scanner.step(self)? {}
        if scanner.frame.quote != Quote::None || !scanner.frames.is_empty() {
            return Err(Refusal::unresolvable("unbalanced", "a quote or bracket in the command is not closed"));
        }
        scanner.frame.end_word(depth, self);
        Ok(())
    }
}

fn check_size(bytes: usize) -> Result<(), Refusal> {
    if bytes > LONGEST_COMMAND {
        return Err(Refusal::unresolvable("too_long", format!("a command has at most {LONGEST_COMMAND} bytes")));
    }
    Ok(())
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Quote {
    #[default]
    None,
    Single,
    Double,
}

/// One level of nesting: the command being read there, and the word being read in it.
#[derive(Default)]
struct Frame {
    command: Command,
    /// The word as a program would receive it; `None` between words.
    word: Option<String>,
    quote: Quote,
    /// The next word is the target of a redirection.
    redirecting: bool,
}

impl Frame {
    fn push(&mut self, text: &str) {
        self.word.get_or_insert_default().push_str(text);
    }

    fn end_word(&mut self, depth: usize, found: &mut Found) {
        let Some(word) = self.word.take() else { return };
        if self.redirecting {
            self.redirecting = false;
        } else {
            self.command.take_word(&word, depth, found);
        }
        found.words.push(word);
    }
}

struct Scanner<'t> {
    rest: &'t str,
    /// The levels around the present one.
    frames: Vec<Frame>,
    frame: Frame,
    /// How deep the text itself lies in other commands.
    depth: usize,
}

impl Scanner<'_> {
    /// Takes one piece of the text; `false` at its end.
    fn step(&mut self, found: &mut Found) -> Result<bool, Refusal> {
        let Some(character) = self.rest.chars().next() else { return Ok(false) };
        let depth = self.depth + self.frames.len();
        if self.frame.quote == Quote::Single {
            match character {
                '\'' => self.frame.quote = Quote::None,
                _ => self.frame.push(character.encode_utf8(&mut [0; 4])),
            }
            self.advance(character.len_utf8());
            return Ok(true);
        }
        let quoted = self.frame.quote == Quote::Double;
        match character {
            '\\' => self.escape(quoted)?,
            '"' => {
                self.frame.push("");
                self.frame.quote = if quoted { Quote::None } else { Quote::Double };
                self.advance(1);
            }
            '\'' if !quoted => {
                self.frame.push("");
                self.frame.quote = Quote::Single;
                self.advance(1);
            }
            '`' => self.backquotes(depth, found)?,
            '$' if self.rest.starts_with("$(") => self.open("$(", depth, found)?,
            '<' | '>' if !quoted && self.rest.get(1..2) == Some("(") => {
                let operator = if character == '<' { "<(" } else { ">(" };
                self.open(operator, depth, found)?;
            }
            '(' if !quoted => {
                self.frame.end_word(depth, found);
                self.open("(", depth, found)?;
            }
            ' ' if !quoted => {
                self.frame.end_word(depth, found);
                self.advance(1);
            }
            _ if !quoted && OPERATORS.iter().any(|operator| self.rest.starts_with(operator)) => {
                self.operator(depth, found)?;
            }
            _ => {
                self.frame.push(character.encode_utf8(&mut [0; 4]));
                self.advance(character.len_utf8());
            }
        }
        Ok(true)
    }

    fn advance(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    fn escape(&mut self, quoted: bool) -> Result<(), Refusal> {
        self.advance(1);
        let Some(next) = self.rest.chars().next() else {
            return Err(Refusal::unresolvable("unbalanced", "the command ends in a backslash"));
        };
        if quoted && !matches!(next, '$' | '`' | '"' | '\\') {
            self.frame.push("\\");
        }
        self.frame.push(next.encode_utf8(&mut [0; 4]));
        self.advance(next.len_utf8());
        Ok(())
    }

    /// Reads an old-style substitution up to its other backquote; what is in it waits to be read as a command.
    fn backquotes(&mut self, depth: usize, found: &mut Found) -> Result<(), Refusal> {
        check_depth(depth + 1)?;
        self.advance(1);
        let mut inside = String::new();
        let mut escaped = false;
        for (at, character) in self.rest.char_indices() {
            match character {
                '`' if !escaped => {
                    self.frame.push("`..`");
                    found.operators.push("`".to_owned());
                    found.waiting.push_back((inside, depth + 1));
                    self.advance(at + 1);
                    return Ok(());
                }
                '\\' if !escaped => {
                    escaped = true;
                    continue;
                }
                // Within backquotes a backslash is itself but before these (XCU 2.6.3).
                _ if escaped && !matches!(character, '$' | '`' | '\\') => inside.push('\\'),
                _ => {}
            }
            inside.push(character);
            escaped = false;
        }
        Err(Refusal::unresolvable("unbalanced", "a backquote in the command is not closed"))
    }

    /// Goes one level down, into a command within this one.
    fn open(&mut self, operator: &str, depth: usize, found: &mut Found) -> Result<(), Refusal> {
        check_depth(depth + 1)?;
        if operator != "(" {
            self.frame.push(operator);
        }
        found.operators.push(operator.to_owned());
        self.frames.push(std::mem::take(&mut self.frame));
        self.advance(operator.len());
        Ok(())
    }

    fn operator(&mut self, depth: usize, found: &mut Found) -> Result<(), Refusal> {
        let Some(operator) = OPERATORS.iter().find(|operator| self.rest.starts_with(**operator)) else { return Ok(()) };
        self.advance(operator.len());
        let redirects = operator.contains(['<', '>']);
        if redirects && self.frame.word.as_ref().is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_digit())) {
            self.frame.word = None;
        }
        self.frame.end_word(depth, found);
        if *operator == ")" {
            let Some(around) = self.frames.pop() else {
                return Err(Refusal::unresolvable("unbalanced", "a closing bracket in the command has no opening one"));
            };
            self.frame = around;
            if let Some(word) = &mut self.frame.word {
                word.push_str("..)"); // What is inside is listed by itself.
            }
            return Ok(());
        }
        found.operators.push((*operator).to_owned());
        self.frame.redirecting = redirects;
        if !redirects {
            self.frame.command = Command::default();
        }
        Ok(())
    }
}

fn check_depth(depth: usize) -> Result<(), Refusal> {
    if depth > DEEPEST {
        return Err(Refusal::unresolvable("too_deep", format!("commands are nested over {DEEPEST} deep")));
    }
    Ok(())
}

/// Where in a simple command the reading stands.
#[derive(Default)]
enum Command {
    /// Its program is still to come.
    #[default]
    Start,
    /// Behind a wrapper: words up to the first plain one that follows no option may be the program it runs.
    Wrapped { after_option: bool },
    /// Behind a shell: the argument after `-c` is a command itself.
    Shell { command_follows: bool },
    /// Behind `eval` or its like: the arguments together are a command, and each may begin one.
    Evaluator,
    /// Behind any other program.
    Arguments,
}

impl Command {
    fn take_word(&mut self, word: &str, depth: usize, found: &mut Found) {
        let at_start = matches!(self, Self::Start);
        if at_start && (is_assignment(word) || RESERVED_WORDS.contains(&word)) {
            return;
        }
        self.take_argument(word, depth, found);
    }

    fn take_argument(&mut self, word: &str, depth: usize, found: &mut Found) {
        match self {
            Self::Start => self.take_program(word, found),
            Self::Wrapped { after_option } => {
                if word.starts_with('-') {
                    *after_option = true;
                    return;
                }
                if is_assignment(word) {
                    return;
                }
                let ends_here = !*after_option && !word.starts_with(|c: char| c.is_ascii_digit());
                *after_option = false;
                let mut run = Self::Start;
                run.take_program(word, found);
                if ends_here || !matches!(run, Self::Arguments) {
                    *self = run;
                }
            }
            Self::Shell { command_follows } if *command_follows => {
                found.waiting.push_back((word.to_owned(), depth + 1));
                *self = Self::Arguments;
            }
            Self::Shell { command_follows } => {
                *command_follows = word.starts_with('-') && !word.starts_with("--") && word.contains('c');
            }
            Self::Evaluator => found.waiting.push_back((word.to_owned(), depth + 1)),
            // `find` runs what follows these, and few other programs know such options.
            Self::Arguments if EXEC_OPTIONS.contains(&word) => *self = Self::Start,
            Self::Arguments => {}
        }
    }

    fn take_program(&mut self, word: &str, found: &mut Found) {
        let name = word.rsplit('/').next().unwrap_or_default();
        found.programs.push(name.to_owned());
        *self = if WRAPPERS.contains(&name) {
            Self::Wrapped { after_option: false }
        } else if SHELLS.contains(&name) {
            Self::Shell { command_follows: false }
        } else if EVALUATORS.contains(&name) {
            Self::Evaluator
        } else {
            Self::Arguments
        };
    }
}

/// `NAME=value` before a command (XCU 2.9.1).
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        let name = name.strip_suffix('+').unwrap_or(name);
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}
