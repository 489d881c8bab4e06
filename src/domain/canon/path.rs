//! The kind `path`: a file path made absolute below `base`, or refused. It never looks at a file system itself.
//!
//! Grammar: a POSIX pathname (IEEE Std 1003.1, 4.13 "Pathname Resolution"), absolute or relative to `base`, in which
//! `.` and repeated slashes stand for nothing and `..` steps back, resolved by text alone and never above `base`. The
//! executor opens the resolved path without following links (obligations `nofollow` and `resolved_path`), so that
//! resolving by text and resolving on disk cannot part.
//!
//! With `resolve = "filesystem"` the service sees the executor's files: what stands at the path was found out before
//! the decision ([`PathQuestion`], [`PathFinding`]), and roots and `never` hold for the path as it is written and for
//! the place it leads to.
//!
//! Refused is every spelling that a URL decoder, a Windows API, a shell or a Unicode-folding file system would read as
//! another file: see `docs/kinds.md`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::characters::{compatible_form, fold, no_surrounding_space, only_visible};
use super::glob::Glob;
use super::options::Options;
use super::{FieldType, OptionFault, Refusal, Resolution, Shape};

/// The longest path, in bytes: PATH_MAX of Linux.
const LONGEST_PATH: usize = 4096;
/// The longest name in a path, in bytes: NAME_MAX of Linux.
const LONGEST_NAME: usize = 255;
/// Characters that some code pages or readers take for `/` or `\`, and that NFKC does not show to be one.
const LOOKALIKE_SEPARATORS: [char; 8] =
    ['\u{2044}', '\u{2215}', '\u{2216}', '\u{29f5}', '\u{29f8}', '\u{29f9}', '\u{a5}', '\u{20a9}'];

/// A compiled `path` declaration.
#[derive(Debug)]
pub struct PathKind {
    base: Vec<String>,
    roots: Vec<Root>,
    never: Vec<Never>,
    case_insensitive: bool,
    /// Whether the file system tells where a path leads.
    on_disk: bool,
}

/// A path whose place on disk must be known before the decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathQuestion {
    /// The directory that the policy trusts, absolute.
    pub base: String,
    /// The path below it: names with `/` between them, none of them `.` or `..`; empty for `base` itself.
    pub below: String,
}

/// Where a path leads on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathFinding {
    /// To this place below `base`, on a way without links: names with `/` between them. What does not exist yet stands
    /// where it would be made.
    At(String),
    /// Nowhere that is known.
    Failed(PathFailure),
}

/// Why it is not known where a path leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathFailure {
    /// `base` is not there, or is no directory.
    NoBase,
    /// A link on the way leads out of `base`, or is absolute.
    LinkOutOfBase,
    /// A link on the way leads back out of what does not exist.
    DanglingLink,
    /// A name on the way is something other than a directory.
    NotADirectory,
    /// Too many names or links on the way.
    TooLong,
    /// A link holds bytes that are no text.
    NotUnicode,
    /// It changed while it was looked at.
    Changing,
    /// The service may not look there, or the disk failed.
    Unreadable,
}

impl PathFailure {
    /// The word for it in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoBase => "no_base",
            Self::LinkOutOfBase => "link_out_of_base",
            Self::DanglingLink => "dangling_link",
            Self::NotADirectory => "not_a_directory",
            Self::TooLong => "too_long",
            Self::NotUnicode => "not_unicode",
            Self::Changing => "changing",
            Self::Unreadable => "unreadable",
        }
    }
}

/// A directory below `base` in which paths are permitted.
#[derive(Debug)]
struct Root {
    declared: String,
    names: Vec<String>,
}

/// A pattern of paths that are never permitted, over folded text.
#[derive(Debug)]
enum Never {
    /// Without a slash: any name in the path.
    Name(Glob),
    /// With one: the thing itself, and all below it, at any depth.
    Tree { itself: Glob, below: Glob },
}

impl PathKind {
    pub(super) const SHAPE: Shape = Shape::Record(&[
        ("path", FieldType::Text),
        ("root", FieldType::Text),
        ("name", FieldType::Text),
        ("extension", FieldType::Text),
    ]);

    pub(super) fn compile(declaration: &Map<String, Value>) -> Result<Self, Vec<OptionFault>> {
        let mut options = Options::of(declaration);
        let base = compile_base(&mut options);
        let roots = options.texts("roots");
        let never = options.texts("never").unwrap_or_default();
        let case_insensitive = options.flag("case_insensitive");
        let on_disk = match options.text("resolve") {
            None | Some("lexical") => false,
            Some("filesystem") => true,
            Some(_) => {
                let hint = "write resolve = \"lexical\", or \"filesystem\" where the service sees the executor's files";
                options.fault("resolve", "there is no such mode", hint);
                false
            }
        };
        let Some(base) = base else { return options.finish(None) };
        let roots = match roots {
            Some(roots) => roots
                .iter()
                .enumerate()
                .filter_map(|(item, root)| compile_root(&mut options, &base, item, root))
                .collect(),
            None => vec![Root { declared: ".".to_owned(), names: Vec::new() }],
        };
        let never = never
            .iter()
            .enumerate()
            .filter_map(|(item, pattern)| match compile_never(pattern, &base) {
                Ok(never) => Some(never),
                Err(message) => {
                    options.item_fault(
                        "never",
                        item,
                        message,
                        "a pattern without `/` is matched against every name in a path, one with `/` at any depth below base",
                    );
                    None
                }
            })
            .collect();
        options.finish(Some(Self { base, roots, never, case_insensitive, on_disk }))
    }

    /// Resolves a path; `found` is where it leads on disk, for those that ask for it.
    pub(super) fn resolve(&self, value: &Value, found: Option<&PathFinding>) -> Result<Resolution, Refusal> {
        let names = self.names_of(value)?;
        let root = self.permitting_root(&names)?;
        if !self.on_disk {
            return self.resolution(&names, root);
        }
        let names = names_found(found)?;
        let root = self.permitting_root(&names)?;
        self.resolution(&names, root)
    }

    /// Whether paths must be looked up on disk.
    pub(super) const fn looks_at_disk(&self) -> bool {
        self.on_disk
    }

    /// What must be known of the disk to resolve a path; nothing when its text alone is refused.
    pub(super) fn question(&self, value: &Value) -> Option<PathQuestion> {
        if !self.on_disk {
            return None;
        }
        let names = self.names_of(value).ok()?;
        self.permitting_root(&names).ok()?;
        Some(PathQuestion { base: format!("/{}", self.base.join("/")), below: names.join("/") })
    }

    fn names_of<'t>(&self, value: &'t Value) -> Result<Vec<&'t str>, Refusal> {
        let text = value.as_str().ok_or_else(|| Refusal::unresolvable("not_text", "a path is a string"))?;
        check_characters(text)?;
        self.names_below_base(text)
    }

    /// The innermost root that holds this place.
    fn permitting_root(&self, names: &[&str]) -> Result<&Root, Refusal> {
        let folded: Vec<String> = names.iter().map(|name| fold(name)).collect();
        if self.never.iter().any(|never| never.covers(&folded)) {
            return Err(Refusal::constraint("never", "the policy never permits this path"));
        }
        self.roots
            .iter()
            .filter(|root| self.begins_with(names, &root.names))
            .max_by_key(|root| root.names.len())
            .ok_or_else(outside_roots)
    }

    fn resolution(&self, names: &[&str], root: &Root) -> Result<Resolution, Refusal> {
        let mut path = String::new();
        for name in self.base.iter().map(String::as_str).chain(names.iter().copied()) {
            path.push('/');
            path.push_str(name);
        }
        if path.is_empty() {
            path.push('/');
        }
        if path.len() > LONGEST_PATH {
            return Err(too_long());
        }
        let name = names.last().copied().or(self.base.last().map(String::as_str)).unwrap_or_default();
        let mut obligations = Map::new();
        obligations.insert("nofollow".to_owned(), Value::Bool(true));
        obligations.insert("resolved_path".to_owned(), Value::String(path.clone()));
        let value = json!({ "path": path, "root": root.declared, "name": name, "extension": extension(name) });
        Ok(Resolution { value, obligations })
    }

    /// The names below `base`, with `.`, `..` and repeated slashes resolved.
    fn names_below_base<'t>(&self, text: &'t str) -> Result<Vec<&'t str>, Refusal> {
        let mut written: Vec<&str> = text.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
        if text.starts_with('/') {
            if !self.begins_with(&written, &self.base) {
                return Err(Refusal::constraint("outside_base", "the absolute path does not lie below base"));
            }
            written.drain(..self.base.len());
        }
        let mut names = Vec::with_capacity(written.len());
        for name in written {
            if name == ".." {
                names.pop().ok_or_else(outside_roots)?;
                if self.on_disk {
                    return Err(Refusal::unresolvable(
                        "parent_step",
                        "`..` in it means another directory where the name before it is a link",
                    ));
                }
            } else {
                check_name(name)?;
                names.push(name);
            }
        }
        Ok(names)
    }

    fn begins_with(&self, names: &[&str], start: &[String]) -> bool {
        names.len() >= start.len()
            && names.iter().zip(start).all(|(name, wanted)| {
                *name == wanted.as_str() || (self.case_insensitive && differ_in_case_alone(name, wanted))
            })
    }
}

impl Never {
    /// Whether the path of these folded names is one that is never permitted.
    fn covers(&self, names: &[String]) -> bool {
        match self {
            // What follows a colon may be a stream of the file before it.
            Self::Name(glob) => names
                .iter()
                .any(|name| glob.matches(name) || name.split_once(':').is_some_and(|(file, _)| glob.matches(file))),
            Self::Tree { itself, below } => {
                let path = names.join("/");
                let without_streams =
                    names.iter().map(|name| name.split(':').next().unwrap_or_default()).collect::<Vec<_>>().join("/");
                [path, without_streams].iter().any(|path| itself.matches(path) || below.matches(path))
            }
        }
    }
}

/// The names of the place that was found, held to the same rules as a path that is written.
fn names_found(found: Option<&PathFinding>) -> Result<Vec<&str>, Refusal> {
    let place = match found {
        None => return Err(Refusal::unresolvable("not_looked_up", "it was not found out where the path leads")),
        Some(PathFinding::Failed(failure)) => {
            return Err(Refusal::unresolvable(failure.as_str(), "on disk the path leads nowhere that is known"));
        }
        Some(PathFinding::At(place)) => place,
    };
    if place.is_empty() {
        return Ok(Vec::new());
    }
    check_characters(place)?;
    let names: Vec<&str> = place.split('/').collect();
    for name in &names {
        if matches!(*name, "" | "." | "..") {
            return Err(Refusal::unresolvable("not_a_place", "what was found on disk is no place"));
        }
        check_name(name)?;
    }
    Ok(names)
}

/// Whether two names differ in nothing but case. [`fold`] makes one of more names than any file system does, which is
/// right for what is forbidden and wrong for what is permitted.
fn differ_in_case_alone(name: &str, wanted: &str) -> bool {
    name.to_lowercase() == wanted.to_lowercase() && name.to_uppercase() == wanted.to_uppercase()
}

fn outside_roots() -> Refusal {
    Refusal::constraint("outside_roots", "the path lies outside the roots")
}

fn too_long() -> Refusal {
    Refusal::unresolvable("too_long", format!("a path has at most {LONGEST_PATH} bytes"))
}

/// What follows the last dot of a name, in lower case; a leading dot begins a name and not an extension.
fn extension(name: &str) -> String {
    match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => extension.to_lowercase(),
        Some(_) | None => String::new(),
    }
}

/// Refuses spellings that concern the text as a whole.
fn check_characters(text: &str) -> Result<(), Refusal> {
    if text.is_empty() {
        return Err(Refusal::unresolvable("empty", "a path is not empty"));
    }
    if text.len() > LONGEST_PATH {
        return Err(too_long());
    }
    only_visible(text)?;
    no_surrounding_space(text)?;
    if text.contains('\\') {
        return Err(Refusal::unresolvable("backslash", "it holds a backslash, which Windows takes for a slash"));
    }
    if text.starts_with("//") {
        return Err(Refusal::unresolvable("network_path", "two leading slashes may name another host"));
    }
    if percent_encoded(text) {
        return Err(Refusal::unresolvable("percent_encoded", "it holds a percent-encoded character"));
    }
    if text.contains(looks_like_separator) {
        return Err(Refusal::unresolvable(
            "lookalike_separator",
            "it holds a character that can be taken for a slash, backslash, dot or percent sign",
        ));
    }
    Ok(())
}

/// Refuses spellings that concern one name of the path.
fn check_name(name: &str) -> Result<(), Refusal> {
    if name.len() > LONGEST_NAME {
        return Err(Refusal::unresolvable("too_long", format!("a name in a path has at most {LONGEST_NAME} bytes")));
    }
    if name.ends_with(|character: char| character == '.' || character.is_whitespace()) {
        return Err(Refusal::unresolvable(
            "trailing_dot_or_space",
            "a name in it ends with a dot or a space, which Windows cuts off",
        ));
    }
    if name.starts_with('~') {
        return Err(Refusal::unresolvable(
            "tilde",
            "a name in it begins with `~`, which may stand for a home directory",
        ));
    }
    if short_name(name) {
        return Err(Refusal::unresolvable("short_name", "a name in it may be the short form of another name"));
    }
    if foreign_colon(name) {
        return Err(Refusal::unresolvable("colon", "a colon in it may name a drive, a scheme or a stream of a file"));
    }
    Ok(())
}

/// `%` with two hex digits (RFC 3986, 2.1), or `%u` with four (of old JavaScript and IIS).
fn percent_encoded(text: &str) -> bool {
    text.as_bytes().windows(3).any(|window| match window {
        [b'%', b'u' | b'U', digit] => digit.is_ascii_hexdigit(),
        [b'%', first, second] => first.is_ascii_hexdigit() && second.is_ascii_hexdigit(),
        _ => false,
    })
}

fn looks_like_separator(character: char) -> bool {
    if character.is_ascii() {
        return false;
    }
    if LOOKALIKE_SEPARATORS.contains(&character) {
        return true;
    }
    let form = compatible_form(character);
    form.contains(['/', '\\', '%']) || form.chars().all(|character| character == '.')
}

/// `~` and a digit, as in the 8.3 names of FAT and NTFS: they are a second name of a file.
fn short_name(name: &str) -> bool {
    name.as_bytes().windows(2).any(|window| matches!(window, [b'~', digit] if digit.is_ascii_digit()))
}

/// A colon that is not part of a time of day.
fn foreign_colon(name: &str) -> bool {
    let mut before = ' ';
    let mut characters = name.chars().peekable();
    while let Some(character) = characters.next() {
        if character == ':' {
            let after = characters.peek().copied().unwrap_or(' ');
            if !before.is_ascii_digit() || !after.is_ascii_digit() {
                return true;
            }
        }
        before = character;
    }
    false
}

fn compile_base(options: &mut Options<'_>) -> Option<Vec<String>> {
    let given = options.has("base");
    let Some(base) = options.text("base") else {
        if given {
            return None;
        }
        options.missing("a path needs base, the directory that relative paths begin at", "write base = \"/srv/data\"");
        return None;
    };
    let Some(below_top) = base.strip_prefix('/') else {
        options.fault("base", "it must be an absolute path with slashes", "write base = \"/srv/data\"");
        return None;
    };
    match directory_names(below_top) {
        Ok(names) => Some(names),
        Err(message) => {
            options.fault("base", message, "write base = \"/srv/data\"");
            None
        }
    }
}

fn compile_root(options: &mut Options<'_>, base: &[String], item: usize, declared: &str) -> Option<Root> {
    let hint = "name a directory below base, such as \"workspace\", or \".\" for base itself";
    if declared.is_empty() {
        options.item_fault("roots", item, "it is empty", hint);
        return None;
    }
    if declared.contains(['*', '?']) {
        options.item_fault("roots", item, "a root is a directory and no pattern, so nothing matches", hint);
        return None;
    }
    let written = declared.strip_prefix("./").unwrap_or(declared);
    let names = match directory_names(written.strip_prefix('/').unwrap_or(written)) {
        _ if declared == "." => Vec::new(),
        Ok(names) => names,
        Err(message) => {
            options.item_fault("roots", item, message, hint);
            return None;
        }
    };
    if !declared.starts_with('/') {
        return Some(Root { declared: declared.to_owned(), names });
    }
    match names.strip_prefix(base) {
        Some(below) => Some(Root { declared: declared.to_owned(), names: below.to_vec() }),
        None => {
            options.item_fault("roots", item, "it lies outside base, so nothing matches", hint);
            None
        }
    }
}

/// The names of a directory as a policy writes it, held to the same rules as the paths that are compared with it.
fn directory_names(written: &str) -> Result<Vec<String>, String> {
    let written = written.strip_suffix('/').unwrap_or(written);
    if written.is_empty() {
        return Ok(Vec::new());
    }
    check_characters(written).map_err(|refusal| refusal.detail().to_owned())?;
    written
        .split('/')
        .map(|name| match name {
            "" | "." | ".." => Err("it must not hold `.`, `..` or empty names".to_owned()),
            _ => check_name(name).map(|()| name.to_owned()).map_err(|refusal| refusal.detail().to_owned()),
        })
        .collect()
}

fn compile_never(pattern: &str, base: &[String]) -> Result<Never, String> {
    if pattern.ends_with('/') {
        return Err("it ends with a slash, which no resolved path does: write `name` or `name/**`".to_owned());
    }
    for name in pattern.split('/') {
        if name.ends_with(['.', ' ']) || name.starts_with('~') {
            return Err("paths spelt so are refused anyway, so nothing matches".to_owned());
        }
    }
    let folded = fold(pattern);
    if !folded.contains('/') {
        return Glob::compile(&folded).map(Never::Name);
    }
    let anchored = match folded.strip_prefix('/') {
        None => format!("**/{folded}"),
        Some(rest) if rest.starts_with("**/") => rest.to_owned(),
        Some(rest) => {
            let folded_base: String = base.iter().map(|name| format!("{}/", fold(name))).collect();
            rest.strip_prefix(&folded_base).ok_or("it lies outside base, so nothing matches")?.to_owned()
        }
    };
    let tree = anchored.strip_suffix("/**").unwrap_or(&anchored);
    Ok(Never::Tree { itself: Glob::compile(tree)?, below: Glob::compile(&format!("{tree}/**"))? })
}
