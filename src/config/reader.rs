//! Takes settings out of the merged tree one by one, each as a value of its type, and gathers every fault on the way.
//! It must not know which settings there are.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    path::PathBuf,
    time::Duration,
};

use ipnet::IpNet;
use url::Url;

use super::{ConfigFault, DatabaseUrl, ParseDuration, Secret, SecretBytes, secret::Problem, source::Node};

/// What all sections of one reading share.
pub(super) struct Reader<'a> {
    env: &'a BTreeMap<String, OsString>,
    parse_duration: ParseDuration,
    faults: RefCell<Vec<ConfigFault>>,
}

impl<'a> Reader<'a> {
    /// A reader that finds the variables secrets name in `env`, and has found `faults` already.
    pub(super) fn new(
        env: &'a BTreeMap<String, OsString>,
        parse_duration: ParseDuration,
        faults: Vec<ConfigFault>,
    ) -> Self {
        Self { env, parse_duration, faults: RefCell::new(faults) }
    }

    pub(super) fn into_faults(self) -> Vec<ConfigFault> {
        self.faults.into_inner()
    }

    fn fault(&self, fault: ConfigFault) {
        self.faults.borrow_mut().push(fault);
    }
}

/// One table. Settings are taken by name; what nobody took is unknown, and [`Section::finish`] says so.
pub(super) struct Section<'a> {
    reader: &'a Reader<'a>,
    path: String,
    table: BTreeMap<String, Node>,
    asked: BTreeSet<&'static str>,
}

/// A setting's text, however it came.
enum Scalar {
    Text(String),
    Other(toml::Value),
}

impl<'a> Section<'a> {
    /// The top level.
    pub(super) fn root(reader: &'a Reader<'a>, table: BTreeMap<String, Node>) -> Self {
        Self { reader, path: String::new(), table, asked: BTreeSet::new() }
    }

    /// Whether `key` is set.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Adds a fault of `key`.
    pub(super) fn fault(&self, key: &str, message: impl Into<String>, hint: impl Into<String>) {
        self.reader.fault(ConfigFault::new(self.name(key), message, hint));
    }

    /// Ends the section: every setting nobody asked for is a fault.
    pub(super) fn finish(self) {
        let known = self.asked.iter().copied().collect::<Vec<_>>().join(", ");
        for (key, node) in &self.table {
            let message = match node {
                Node::Table(_) | Node::File(_) => "is no setting".to_owned(),
                Node::Variable { name, .. } => format!("is no setting (from {name})"),
            };
            self.fault(key, message, format!("known here: {known}"));
        }
    }

    /// The table `key`, empty when it is not set.
    pub(super) fn section(&mut self, key: &'static str) -> Section<'a> {
        let table = match self.take(key) {
            Some(Node::Table(table)) => table,
            Some(Node::File(_) | Node::Variable { .. }) => {
                self.fault(key, "is not a table", format!("write [{}]", self.name(key)));
                BTreeMap::new()
            }
            None => BTreeMap::new(),
        };
        Section { reader: self.reader, path: self.name(key), table, asked: BTreeSet::new() }
    }

    /// The table `key`, when it is set.
    pub(super) fn optional_section(&mut self, key: &'static str) -> Option<Section<'a>> {
        let is_set = self.has(key);
        let section = self.section(key);
        is_set.then_some(section)
    }

    /// The tables below the table `key`, by name.
    pub(super) fn entries(&mut self, key: &'static str) -> Vec<(String, Section<'a>)> {
        let section = self.section(key);
        let mut entries = Vec::new();
        for (name, node) in section.table {
            let path = format!("{}.{name}", section.path);
            match node {
                Node::Table(table) => {
                    entries.push((name, Section { reader: self.reader, path, table, asked: BTreeSet::new() }));
                }
                Node::File(_) | Node::Variable { .. } => {
                    let hint = format!("write [{path}]");
                    self.reader.fault(ConfigFault::new(path, "is not a table", hint));
                }
            }
        }
        entries
    }

    /// Text that is not empty.
    pub(super) fn text(&mut self, key: &'static str) -> Option<String> {
        self.parsed(key, "text", "text that is not empty", |scalar| match scalar {
            Scalar::Text(text) => (!text.is_empty()).then_some(text),
            Scalar::Other(_) => None,
        })
    }

    /// The texts of the table `key`, by names that whoever writes them chooses; none when it is not set.
    pub(super) fn texts_by_name(&mut self, key: &'static str) -> BTreeMap<String, String> {
        let section = self.section(key);
        let mut texts = BTreeMap::new();
        for (name, node) in &section.table {
            match node {
                Node::File(toml::Value::String(text)) | Node::Variable { text, .. } if !text.is_empty() => {
                    texts.insert(name.clone(), text.clone());
                }
                Node::File(_) | Node::Variable { .. } | Node::Table(_) => {
                    section.fault(name, "is not text", "write text that is not empty");
                }
            }
        }
        texts
    }

    /// Text of one line, 1 to `longest` characters, none of them a control character.
    pub(super) fn line(&mut self, key: &'static str, longest: usize) -> Option<String> {
        let right = format!("1 to {longest} characters without line breaks");
        self.parsed(key, "one short line", &right, |scalar| match scalar {
            Scalar::Text(text) => {
                let fits = !text.trim().is_empty() && text.chars().count() <= longest;
                (fits && !text.contains(char::is_control)).then_some(text)
            }
            Scalar::Other(_) => None,
        })
    }

    /// A path.
    pub(super) fn path(&mut self, key: &'static str) -> Option<PathBuf> {
        self.text(key).map(PathBuf::from)
    }

    /// `true` or `false`.
    pub(super) fn boolean(&mut self, key: &'static str) -> Option<bool> {
        self.parsed(key, "a boolean", "true or false", |scalar| match scalar {
            Scalar::Text(text) => text.parse().ok(),
            Scalar::Other(value) => value.as_bool(),
        })
    }

    /// A whole number within `range`.
    pub(super) fn number<T>(&mut self, key: &'static str, range: RangeInclusive<u32>) -> Option<T>
    where
        T: TryFrom<u32>,
    {
        let right = format!("a whole number from {} to {}", range.start(), range.end());
        self.parsed(key, "a number it may be", &right, |scalar| {
            let number = match scalar {
                Scalar::Text(text) => text.parse().ok()?,
                Scalar::Other(value) => u32::try_from(value.as_integer()?).ok()?,
            };
            range.contains(&number).then(|| T::try_from(number).ok()).flatten()
        })
    }

    /// A length of time within `range`.
    pub(super) fn duration(&mut self, key: &'static str, range: RangeInclusive<Duration>) -> Option<Duration> {
        let parse = self.reader.parse_duration;
        let right = format!("one like 250ms, 30s, 5m, 4h or 90d, from {:?} to {:?}", range.start(), range.end());
        self.parsed(key, "a length of time it may be", &right, |scalar| match scalar {
            Scalar::Text(text) => parse(&text).filter(|duration| range.contains(duration)),
            Scalar::Other(_) => None,
        })
    }

    /// An IP address and a port.
    pub(super) fn address(&mut self, key: &'static str) -> Option<SocketAddr> {
        self.parsed(key, "an address to listen on", "an IP address and a port, such as 127.0.0.1:8080", |scalar| {
            match scalar {
                Scalar::Text(text) => text.parse().ok(),
                Scalar::Other(_) => None,
            }
        })
    }

    /// A URL to which paths are added, without the slash at its end.
    pub(super) fn base_url(&mut self, key: &'static str) -> Option<String> {
        let right = "one with http or https and without user, query and fragment, such as https://approve.acme.example";
        self.parsed(key, "a web address", right, |scalar| match scalar {
            Scalar::Text(text) => base_url(&text),
            Scalar::Other(_) => None,
        })
    }

    /// A database's URL, in the clear or as a secret: it may hold a password or not.
    pub(super) fn database_url(&mut self, key: &'static str) -> Option<DatabaseUrl> {
        let hint = "write postgres://USER:PASSWORD@HOST/NAME, sqlite://FILE, \"env:NAME\" or \"file:PATH\"";
        let text = self.text(key)?;
        let url = if Secret::is_reference(&text) { self.fetch(key, &text)?.expose().to_owned() } else { text };
        DatabaseUrl::parse(&url).map_err(|message| self.fault(key, message, hint)).ok()
    }

    /// A secret.
    pub(super) fn secret(&mut self, key: &'static str) -> Option<Secret> {
        let reference = self.text(key)?;
        self.fetch(key, &reference)
    }

    /// Tells that a setting is missing.
    pub(super) fn missing(&self, key: &str, hint: &str) {
        self.fault(key, "is missing", hint);
    }

    /// A text that must be there.
    pub(super) fn needed(&mut self, key: &'static str) -> Option<String> {
        if !self.has(key) {
            self.missing(key, "set it");
        }
        self.text(key)
    }

    /// A secret that must be there.
    pub(super) fn needed_secret(&mut self, key: &'static str) -> Option<Secret> {
        if !self.has(key) {
            self.missing(key, "write \"env:NAME\" or \"file:PATH\"");
        }
        self.secret(key)
    }

    /// Secrets, none when not set.
    pub(super) fn secrets(&mut self, key: &'static str) -> Vec<Secret> {
        self.texts(key).iter().filter_map(|reference| self.fetch(key, reference)).collect()
    }

    /// A secret that is 32 bytes in base64.
    pub(super) fn secret_bytes(&mut self, key: &'static str) -> Option<SecretBytes> {
        let secret = self.secret(key)?;
        self.or_fault(key, SecretBytes::decode(&secret))
    }

    /// Texts, none when not set; a variable separates them by commas.
    pub(super) fn texts(&mut self, key: &'static str) -> Vec<String> {
        self.list(key, "a list of texts", "one such as [\"one\", \"two\"]", |text| Some(text.to_owned()))
    }

    /// Networks or single addresses, none when not set.
    pub(super) fn networks(&mut self, key: &'static str) -> Vec<IpNet> {
        self.list(key, "a list of networks", "one such as [\"10.0.0.0/8\", \"127.0.0.1\"]", |text| {
            text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
        })
    }

    fn name(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn take(&mut self, key: &'static str) -> Option<Node> {
        self.asked.insert(key);
        self.table.remove(key)
    }

    /// Takes `key` through `parse`; a fault says that it is not `what` and to write `right`.
    fn parsed<T>(
        &mut self,
        key: &'static str,
        what: &str,
        right: &str,
        parse: impl FnOnce(Scalar) -> Option<T>,
    ) -> Option<T> {
        let (scalar, from) = match self.take(key)? {
            Node::File(toml::Value::String(text)) => (Some(Scalar::Text(text)), String::new()),
            Node::File(value) => (Some(Scalar::Other(value)), String::new()),
            Node::Variable { name, text } => (Some(Scalar::Text(text)), format!(" (from {name})")),
            Node::Table(_) => (None, String::new()),
        };
        let value = scalar.and_then(parse);
        if value.is_none() {
            self.fault(key, format!("is not {what}{from}"), format!("write {right}"));
        }
        value
    }

    /// The same for a list, each item of which goes through `parse`.
    fn list<T>(&mut self, key: &'static str, what: &str, right: &str, parse: impl Fn(&str) -> Option<T>) -> Vec<T> {
        let (texts, from) = match self.take(key) {
            None => return Vec::new(),
            Some(Node::File(toml::Value::Array(items))) => {
                let texts = items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>();
                (texts, String::new())
            }
            Some(Node::Variable { name, text }) => {
                (Some(text.split(',').map(|part| part.trim().to_owned()).collect()), format!(" (from {name})"))
            }
            Some(Node::File(_) | Node::Table(_)) => (None, String::new()),
        };
        let parse_one = |text: &String| if text.is_empty() { None } else { parse(text) };
        let values = texts.and_then(|texts| texts.iter().map(parse_one).collect::<Option<Vec<_>>>());
        if values.is_none() {
            self.fault(key, format!("is not {what}{from}"), format!("write {right}"));
        }
        values.unwrap_or_default()
    }

    fn fetch(&self, key: &str, reference: &str) -> Option<Secret> {
        self.or_fault(key, Secret::fetch(reference, self.reader.env))
    }

    fn or_fault<T>(&self, key: &str, result: Result<T, Problem>) -> Option<T> {
        result.map_err(|(message, hint)| self.fault(key, message, hint)).ok()
    }
}

fn base_url(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    let plain = matches!(url.scheme(), "http" | "https")
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    plain.then(|| url.as_str().trim_end_matches('/').to_owned())
}
