//! Where settings come from: one TOML file and the variables of the environment, merged into one tree. It must not know
//! what any setting means.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use super::ConfigFault;

const PREFIX: &str = "COUNTERSIGN_";

/// Variables with the prefix that are no settings: which file to read, how to log, and where tests find inputs.
const NO_SETTINGS: [&str; 3] = ["CONFIG", "LOG", "CORPORA"];

/// How variables begin that only tests read.
const TESTS: &str = "TEST_";

/// The file settings are read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingsFile {
    /// None.
    None,
    /// This one, if it is there.
    IfPresent(PathBuf),
    /// This one, which must be there.
    Required(PathBuf),
}

/// Everything settings are read from, as values, so that tests need not touch the process.
#[derive(Clone)]
pub struct Sources {
    /// The file.
    pub file: SettingsFile,
    /// The environment: the settings' variables, and those that secrets name.
    pub env: BTreeMap<String, OsString>,
}

impl Sources {
    /// The sources of this process: the file that was named, or else `countersign.toml` in the working directory if it
    /// is there, and the process's environment.
    pub fn of_process(named: Option<PathBuf>) -> Self {
        let file = named.map_or_else(|| SettingsFile::IfPresent("countersign.toml".into()), SettingsFile::Required);
        // A name that is not UTF-8 can be neither a setting's nor one a secret refers to.
        let env = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect();
        Self { file, env }
    }
}

/// Without the environment, which may hold secrets.
impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").field("file", &self.file).finish_non_exhaustive()
    }
}

/// A place in the merged tree.
#[derive(Debug)]
pub(super) enum Node {
    /// A table of either source.
    Table(BTreeMap<String, Node>),
    /// A value of the file.
    File(toml::Value),
    /// A variable's text, whose type is that of the setting it is for.
    Variable { name: String, text: String },
}

/// Reads both sources; what cannot be read is added to `faults`, and the tree is what could.
pub(super) fn merge(sources: &Sources, faults: &mut Vec<ConfigFault>) -> BTreeMap<String, Node> {
    let mut tree = match read_file(&sources.file) {
        Ok(table) => nodes(table),
        Err(fault) => {
            faults.push(fault);
            BTreeMap::new()
        }
    };
    for (name, value) in &sources.env {
        let Some(path) = name.strip_prefix(PREFIX).filter(|rest| is_setting(rest)) else { continue };
        if is_service_link(path, value) {
            continue;
        }
        let Some(text) = value.to_str() else {
            faults.push(ConfigFault::new(name, "is not UTF-8", "write it in UTF-8"));
            continue;
        };
        let path = path.to_ascii_lowercase();
        let leaf = Node::Variable { name: name.clone(), text: text.to_owned() };
        if !insert(&mut tree, &path, leaf) {
            let message = "contradicts another source: a value where that has a table, or one setting twice";
            faults.push(ConfigFault::new(name, message, "write two underscores between the levels of a setting"));
        }
    }
    tree
}

/// The name of every value in the tree, `table.key`, in order.
pub(super) fn names(tree: &BTreeMap<String, Node>) -> Vec<String> {
    let of_node = |(key, node): (&String, &Node)| match node {
        Node::Table(below) => names(below).into_iter().map(|name| format!("{key}.{name}")).collect(),
        Node::File(_) | Node::Variable { .. } => vec![key.clone()],
    };
    tree.iter().flat_map(of_node).collect()
}

fn is_setting(name: &str) -> bool {
    !NO_SETTINGS.contains(&name) && !name.starts_with(TESTS)
}

/// Whether this is one of the variables that Kubernetes and Docker put into every container beside a service whose name
/// begins with `countersign`: `COUNTERSIGN_SERVICE_HOST`, `COUNTERSIGN_DB_PORT=tcp://10.0.0.7:5432` and their like.
/// Nobody wrote them as settings, and to refuse them would keep the service from starting there at all.
fn is_service_link(name: &str, value: &OsStr) -> bool {
    let name = format!("_{name}");
    let of_port = ["_TCP", "_UDP", "_SCTP"].iter().any(|protocol| name.contains(protocol));
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.contains("_PORT_") && of_port
        || name.ends_with("_PORT") && value.to_str().is_some_and(|value| value.contains("://"))
}

fn read_file(file: &SettingsFile) -> Result<toml::Table, ConfigFault> {
    let (path, required) = match file {
        SettingsFile::None => return Ok(toml::Table::new()),
        SettingsFile::IfPresent(path) => (path, false),
        SettingsFile::Required(path) => (path, true),
    };
    match std::fs::read_to_string(path) {
        Ok(text) => parse_file(path, &text),
        Err(error) if error.kind() == ErrorKind::NotFound && !required => Ok(toml::Table::new()),
        Err(error) => Err(ConfigFault::new(
            path.display().to_string(),
            format!("cannot be read: {error}"),
            "name a readable file",
        )),
    }
}

fn parse_file(path: &Path, text: &str) -> Result<toml::Table, ConfigFault> {
    text.parse::<toml::Table>().map_err(|error| {
        // Not the error's own text: it shows the line, which may hold a password.
        let start = error.span().map_or(0, |span| span.start);
        let line = text.bytes().take(start).filter(|byte| *byte == b'\n').count() + 1;
        let setting = format!("{}, line {line}", path.display());
        ConfigFault::new(setting, format!("is not TOML: {}", error.message()), "see https://toml.io")
    })
}

fn nodes(table: toml::Table) -> BTreeMap<String, Node> {
    table
        .into_iter()
        .map(|(key, value)| {
            let node = match value {
                toml::Value::Table(table) => Node::Table(nodes(table)),
                toml::Value::String(_)
                | toml::Value::Integer(_)
                | toml::Value::Float(_)
                | toml::Value::Boolean(_)
                | toml::Value::Datetime(_)
                | toml::Value::Array(_) => Node::File(value),
            };
            (key, node)
        })
        .collect()
}

/// Puts `leaf` at `path`, whose levels are separated by two underscores; `false` when a value is where a table should
/// be, a table where the value should, or another variable spells the same setting.
fn insert(table: &mut BTreeMap<String, Node>, path: &str, leaf: Node) -> bool {
    let Some((level, rest)) = path.split_once("__") else {
        return match table.get(path) {
            Some(Node::Table(_) | Node::Variable { .. }) => false,
            Some(Node::File(_)) | None => {
                table.insert(path.to_owned(), leaf);
                true
            }
        };
    };
    match table.entry(level.to_owned()).or_insert_with(|| Node::Table(BTreeMap::new())) {
        Node::Table(below) => insert(below, rest, leaf),
        Node::File(_) | Node::Variable { .. } => false,
    }
}
