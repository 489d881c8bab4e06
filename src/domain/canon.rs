//! Argument kinds: each turns a value into one unambiguous form for rules, or refuses it.
//!
//! A kind refuses what two parsers could read in two ways and never repairs silently. To add a kind, write its
//! file below `canon/` and give it a variant in [`Kind`] and an arm in each `match` here; nothing else changes.

mod characters;
pub mod command;
pub mod email;
pub mod glob;
pub mod hostname;
pub mod json;
pub mod money;
mod options;
pub mod path;
pub mod sql;
pub mod text;
pub mod url;

use serde_json::{Map, Value};

use self::command::CommandKind;
use self::email::EmailKind;
use self::hostname::HostnameKind;
use self::money::MoneyKind;
use self::path::{PathFinding, PathKind, PathQuestion};
use self::sql::SqlKind;
use self::text::TextKind;
use self::url::UrlKind;

/// Why a value was not taken.
///
/// The two variants are two steps of the decision: a value without a single meaning (`unresolvable_argument`) and
/// one whose meaning is clear but not permitted (`constraint`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Two parsers could read it in two ways, or it is no value of this kind at all.
    Unresolvable {
        /// What is wrong, as a stable word in `snake_case`, such as `percent_encoded_separator`.
        code: &'static str,
        /// The same for people. It never repeats the value itself, which may be secret.
        detail: String,
    },
    /// It has one meaning, and the policy forbids it: outside the roots, on the never list, host not listed.
    Constraint {
        /// What it broke, as a stable word in `snake_case`, such as `outside_roots`.
        code: &'static str,
        /// The same for people. It never repeats the value itself.
        detail: String,
    },
}

impl Refusal {
    /// A value without a single meaning.
    pub fn unresolvable(code: &'static str, detail: impl Into<String>) -> Self {
        Self::Unresolvable { code, detail: detail.into() }
    }

    /// A value the policy's options forbid.
    pub fn constraint(code: &'static str, detail: impl Into<String>) -> Self {
        Self::Constraint { code, detail: detail.into() }
    }

    /// What is wrong, as a stable word.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unresolvable { code, .. } | Self::Constraint { code, .. } => code,
        }
    }

    /// What is wrong, for people.
    pub fn detail(&self) -> &str {
        match self {
            Self::Unresolvable { detail, .. } | Self::Constraint { detail, .. } => detail,
        }
    }
}

/// What a value resolved to, and what the executor must keep to so that checking once was enough.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolution {
    /// The form that rules read as `resolved.NAME`, and that the log records.
    pub value: Value,
    /// Obligations such as `nofollow` or `max_redirects`, handed out with every permission.
    pub obligations: Map<String, Value>,
}

/// A fault in the options of an argument declaration, found when the policy is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionFault {
    /// The option at fault; `None` when it is the declaration as a whole (a missing option).
    pub option: Option<String>,
    /// For a list, the index of the item at fault.
    pub item: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// How to mend it.
    pub hint: String,
}

/// The type of one field of a resolved value, for checking conditions when the policy is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// A string.
    Text,
    /// A whole number.
    Int,
    /// `true` or `false`.
    Bool,
    /// A list of strings.
    TextList,
}

/// What `resolved.NAME` looks like to a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One record with these fields.
    Record(&'static [(&'static str, FieldType)]),
    /// Always a list of such records, and how many there may be at most.
    List(&'static [(&'static str, FieldType)], u64),
}

impl Shape {
    /// How many records there may be.
    pub const fn most_items(self) -> u64 {
        match self {
            Self::Record(_) => 1,
            Self::List(_, most) => most,
        }
    }
}

/// The names by which a policy calls the kinds.
const NAMES: &str = "command, email, hostname, money, path, sql, text, url";

/// A compiled argument declaration: a kind and its options.
#[derive(Debug)]
pub enum Kind {
    /// Words, programs and operators of a shell command.
    Command(CommandKind),
    /// Recipients of a message.
    Email(EmailKind),
    /// The host of a connection.
    Hostname(HostnameKind),
    /// An amount in a currency.
    Money(MoneyKind),
    /// A file below a base directory.
    Path(PathKind),
    /// What a text of SQL does.
    Sql(SqlKind),
    /// What stands in a text.
    Text(TextKind),
    /// A web address.
    Url(UrlKind),
}

impl Kind {
    /// Compiles `[tools.T.arguments.A]`: the keys of that table as JSON, `kind` among them.
    ///
    /// # Errors
    /// Every fault at once: an unknown kind, an unknown or ill-typed option, a glob that can match nothing, ...
    pub fn compile(declaration: &Map<String, Value>) -> Result<Self, Vec<OptionFault>> {
        let fault = |option: Option<&str>, message: &str| {
            let hint = format!("the kinds are {NAMES}");
            Err(vec![OptionFault { option: option.map(str::to_owned), item: None, message: message.to_owned(), hint }])
        };
        match declaration.get("kind").map(Value::as_str) {
            Some(Some("command")) => CommandKind::compile(declaration).map(Self::Command),
            Some(Some("email")) => EmailKind::compile(declaration).map(Self::Email),
            Some(Some("hostname")) => HostnameKind::compile(declaration).map(Self::Hostname),
            Some(Some("money")) => MoneyKind::compile(declaration).map(Self::Money),
            Some(Some("path")) => PathKind::compile(declaration).map(Self::Path),
            Some(Some("sql")) => SqlKind::compile(declaration).map(Self::Sql),
            Some(Some("text")) => TextKind::compile(declaration).map(Self::Text),
            Some(Some("url")) => UrlKind::compile(declaration).map(Self::Url),
            Some(Some(_)) => fault(Some("kind"), "there is no such kind"),
            Some(None) => fault(Some("kind"), "a kind is named by a string"),
            None => fault(None, "the argument has no kind"),
        }
    }

    /// The name the policy calls it by.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Command(_) => "command",
            Self::Email(_) => "email",
            Self::Hostname(_) => "hostname",
            Self::Money(_) => "money",
            Self::Path(_) => "path",
            Self::Sql(_) => "sql",
            Self::Text(_) => "text",
            Self::Url(_) => "url",
        }
    }

    /// The types of the values that it takes, as JSON Schema names them; any other is refused.
    pub fn takes(&self) -> &'static [&'static str] {
        match self {
            Self::Command(_) => &["string", "array"],
            Self::Email(_) => &["string", "array", "object"],
            Self::Money(_) => &["string", "integer", "number"],
            Self::Hostname(_) | Self::Path(_) | Self::Sql(_) | Self::Text(_) | Self::Url(_) => &["string"],
        }
    }

    /// What one value of this kind looks like when it is resolved.
    pub fn shape(&self) -> Shape {
        match self {
            Self::Command(_) => CommandKind::SHAPE,
            Self::Email(_) => EmailKind::SHAPE,
            Self::Hostname(_) => HostnameKind::SHAPE,
            Self::Money(_) => MoneyKind::SHAPE,
            Self::Path(_) => PathKind::SHAPE,
            Self::Sql(_) => SqlKind::SHAPE,
            Self::Text(_) => TextKind::SHAPE,
            Self::Url(_) => UrlKind::SHAPE,
        }
    }

    /// Whether the resolved form replaces the raw value, so that a loosening rule must not read `args.NAME`.
    ///
    /// True for every kind but `text`, which adds to the value and does not replace it.
    pub fn replaces_raw_value(&self) -> bool {
        match self {
            Self::Command(_)
            | Self::Email(_)
            | Self::Hostname(_)
            | Self::Money(_)
            | Self::Path(_)
            | Self::Sql(_)
            | Self::Url(_) => true,
            Self::Text(_) => false,
        }
    }

    /// Whether some value of it must be looked up on disk.
    pub fn looks_at_disk(&self) -> bool {
        match self {
            Self::Path(kind) => kind.looks_at_disk(),
            Self::Command(_)
            | Self::Email(_)
            | Self::Hostname(_)
            | Self::Money(_)
            | Self::Sql(_)
            | Self::Text(_)
            | Self::Url(_) => false,
        }
    }

    /// What must be found out on disk before `value` can be resolved, if anything must.
    pub fn path_question(&self, value: &Value) -> Option<PathQuestion> {
        match self {
            Self::Path(kind) => kind.question(value),
            Self::Command(_)
            | Self::Email(_)
            | Self::Hostname(_)
            | Self::Money(_)
            | Self::Sql(_)
            | Self::Text(_)
            | Self::Url(_) => None,
        }
    }

    /// Gives `value` (never absent, never null) its one meaning, by what it says alone.
    ///
    /// `args` are the whole arguments, for options that point at another argument.
    ///
    /// # Errors
    /// A [`Refusal`]: no single meaning, or one the options forbid. Total: no input panics.
    pub fn resolve(&self, value: &Value, args: &Map<String, Value>) -> Result<Resolution, Refusal> {
        self.resolve_found(value, args, None)
    }

    /// The same with the answer to [`Kind::path_question`], where there was one.
    ///
    /// # Errors
    /// A [`Refusal`], also where there is no answer to the question.
    pub fn resolve_found(
        &self,
        value: &Value,
        args: &Map<String, Value>,
        found: Option<&PathFinding>,
    ) -> Result<Resolution, Refusal> {
        match self {
            Self::Command(_) => CommandKind::resolve(value),
            Self::Email(kind) => kind.resolve(value),
            Self::Hostname(kind) => kind.resolve(value),
            Self::Money(kind) => kind.resolve(value, args),
            Self::Path(kind) => kind.resolve(value, found),
            Self::Sql(kind) => kind.resolve(value),
            Self::Text(_) => TextKind::resolve(value),
            Self::Url(kind) => kind.resolve(value),
        }
    }
}
