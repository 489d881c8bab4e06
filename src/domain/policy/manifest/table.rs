//! Strict reading of one TOML table: each key is asked for by name and type, and what nobody asked for is a fault.
//!
//! It knows TOML and where things stand, and nothing of what the keys mean.

use std::{
    fmt::Display,
    ops::{Range, RangeInclusive},
    str::FromStr,
    time::Duration,
};

use toml::{
    Spanned,
    de::{DeString, DeTable, DeValue},
};

use super::{
    super::{
        document::Document,
        fault::{Faults, Place},
        unsupported,
    },
    At, Section,
};
use crate::domain::{limit::amount::Amount, time::parse_duration};

/// A table being read. Call [`Table::finish`] when every known key was asked for.
pub(super) struct Table<'t> {
    section: Section,
    /// As messages call it, such as `tools.send_email`.
    name: String,
    at: Place,
    entries: Vec<Entry<'t>>,
    /// The keys that were asked for.
    known: Vec<&'static str>,
}

#[derive(Clone, Copy)]
struct Entry<'t> {
    key: &'t Spanned<DeString<'t>>,
    value: &'t Spanned<DeValue<'t>>,
}

impl<'t> Table<'t> {
    /// The table of `section` that messages call `name`; `at` is where people look for it.
    pub(super) fn new(section: Section, name: impl Into<String>, at: Place, table: &'t DeTable<'t>) -> Self {
        let entries = table.iter().map(|(key, value)| Entry { key, value });
        Self { section, name: name.into(), entries: entries.collect(), at, known: Vec::new() }
    }

    /// Where the table stands.
    pub(super) fn at(&self) -> &Place {
        &self.at
    }

    /// As messages call it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A string; it may not be blank.
    pub(super) fn text(&mut self, key: &'static str, faults: &mut Faults<'_>) -> Option<At<String>> {
        let entry = self.take(key)?;
        let text = self.typed(key, &entry, "a string", faults, |value| value.as_str().map(str::to_owned))?;
        if text.value.trim().is_empty() {
            faults.error(&text.at, format!("`{key}` of {} is empty", self.name), "write it out, or take the key out");
            return None;
        }
        Some(text)
    }

    /// `true` or `false`.
    pub(super) fn flag(&mut self, key: &'static str, faults: &mut Faults<'_>) -> Option<At<bool>> {
        let entry = self.take(key)?;
        self.typed(key, &entry, "true or false", faults, |value| value.as_bool())
    }

    /// A whole number within `range`.
    pub(super) fn number(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u32>,
        faults: &mut Faults<'_>,
    ) -> Option<At<u32>> {
        let entry = self.take(key)?;
        let wanted = format!("a whole number from {} to {}", range.start(), range.end());
        self.typed(key, &entry, &wanted, faults, |value| {
            let digits = value.as_integer()?;
            u32::from_str_radix(digits.as_str(), digits.radix()).ok().filter(|number| range.contains(number))
        })
    }

    /// A number above zero, exactly as it is written.
    pub(super) fn amount(&mut self, key: &'static str, faults: &mut Faults<'_>) -> Option<At<Amount>> {
        let entry = self.take(key)?;
        self.typed(key, &entry, "a plain decimal number above zero", faults, |value| {
            let text = match (value.as_integer(), value.as_float()) {
                (Some(digits), _) if digits.radix() == 10 => digits.as_str(),
                (_, Some(float)) => float.as_str(),
                (_, None) => return None,
            };
            Amount::parse(text).filter(|amount| *amount != Amount::ZERO && !amount.is_negative())
        })
    }

    /// A length of time within `range`.
    pub(super) fn duration(
        &mut self,
        key: &'static str,
        range: RangeInclusive<Duration>,
        wanted: &str,
        faults: &mut Faults<'_>,
    ) -> Option<At<Duration>> {
        let entry = self.take(key)?;
        let wanted = format!("a length of time such as \"90s\", \"30m\" or \"4h\", {wanted}");
        self.typed(key, &entry, &wanted, faults, |value| {
            parse_duration(value.as_str()?).filter(|length| range.contains(length))
        })
    }

    /// One of a closed set of words.
    pub(super) fn word<T: FromStr + Display + Copy>(
        &mut self,
        key: &'static str,
        words: &[T],
        faults: &mut Faults<'_>,
    ) -> Option<At<T>> {
        let entry = self.take(key)?;
        self.typed(key, &entry, &one_of(words), faults, |value| value.as_str()?.parse().ok())
    }

    /// A list of words of a closed set.
    pub(super) fn words<T: FromStr + Display + Copy>(
        &mut self,
        key: &'static str,
        words: &[T],
        faults: &mut Faults<'_>,
    ) -> Option<At<Vec<At<T>>>> {
        self.list(key, &one_of(words), faults, |value| value.as_str()?.parse().ok())
    }

    /// A list of strings that are not blank.
    pub(super) fn texts(&mut self, key: &'static str, faults: &mut Faults<'_>) -> Option<At<Vec<At<String>>>> {
        self.list(key, "a string that is not empty", faults, |value| {
            value.as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned)
        })
    }

    /// A string, or a list of them; none may be blank.
    pub(super) fn text_or_texts(&mut self, key: &'static str, faults: &mut Faults<'_>) -> Option<At<Vec<At<String>>>> {
        let is_list = self.entries.iter().any(|entry| entry.key.get_ref() == key && entry.value.get_ref().is_array());
        if is_list {
            return self.texts(key, faults);
        }
        let text = self.text(key, faults)?;
        Some(At { at: text.at.clone(), value: vec![text] })
    }

    /// A table, as JSON.
    pub(super) fn json_table(&mut self, key: &'static str, faults: &mut Faults<'_>) -> Option<Document> {
        let entry = self.take(key)?;
        self.typed(key, &entry, "a table", faults, |value| value.as_table().map(|_| ()))?;
        Document::from_toml(entry.value, &self.place(entry.key.span()), faults)
    }

    /// A table of its own section.
    pub(super) fn table(&mut self, key: &'static str, section: Section, faults: &mut Faults<'_>) -> Option<Self> {
        let entry = self.take(key)?;
        self.typed(key, &entry, "a table", faults, |value| value.as_table().map(|_| ()))?;
        let table = entry.value.get_ref().as_table()?;
        Some(Self::new(section, self.dotted(key), self.place(entry.key.span()), table))
    }

    /// A list of tables of one section.
    pub(super) fn tables(&mut self, key: &'static str, section: Section, faults: &mut Faults<'_>) -> Vec<Self> {
        let Some(entry) = self.take(key) else { return Vec::new() };
        let Some(items) = entry.value.get_ref().as_array() else {
            faults.error(
                &self.place(entry.key.span()),
                format!("`{}` is not a list of tables", self.dotted(key)),
                format!("write [[{}]]", self.dotted(key)),
            );
            return Vec::new();
        };
        let mut tables = Vec::new();
        for item in items {
            let at = self.place(item.span());
            match item.get_ref().as_table() {
                Some(table) => tables.push(Self::new(section, format!("[[{}]]", self.dotted(key)), at, table)),
                None => faults.error(&at, "not a table", format!("write [[{}]]", self.dotted(key))),
            }
        }
        tables
    }

    /// A table whose keys are names that the policy's author chose: each name and its value.
    pub(super) fn named(&mut self, key: &'static str, faults: &mut Faults<'_>) -> Vec<Named<'t>> {
        let Some(entry) = self.take(key) else { return Vec::new() };
        let is_table = self.typed(key, &entry, "a table", faults, |value| value.as_table().map(|_| ()));
        let (Some(_), Some(table)) = (is_table, entry.value.get_ref().as_table()) else { return Vec::new() };
        let named = table.iter().map(|(name, value)| Named {
            name: At { value: name.get_ref().to_string(), at: self.place(name.span()) },
            path: format!("{}.{}", self.dotted(key), name.get_ref()),
            value,
        });
        named.collect()
    }

    /// Reports every key that nobody asked for.
    pub(super) fn finish(self, faults: &mut Faults<'_>) {
        let later: Vec<_> = unsupported::keys(self.section).collect();
        for entry in &self.entries {
            let key = entry.key.get_ref().as_ref();
            if self.known.contains(&key) {
                continue;
            }
            let at = self.place(entry.key.span());
            if later.contains(&key) {
                unsupported::report(faults, &at, &format!("`{key}` of {}", self.name));
                continue;
            }
            let known = self.known.iter().chain(&later).copied();
            let hint = unknown_key_hint(key, known.collect());
            faults.error(&at, format!("unknown key `{key}` in {}", self.name), hint);
        }
    }

    /// Whether the table has no such key, well-typed or not.
    pub(super) fn missing(&self, key: &str) -> bool {
        !self.entries.iter().any(|entry| entry.key.get_ref() == key)
    }

    fn take(&mut self, key: &'static str) -> Option<Entry<'t>> {
        self.known.push(key);
        self.entries.iter().find(|entry| entry.key.get_ref() == key).copied()
    }

    fn typed<T>(
        &self,
        key: &str,
        entry: &Entry<'_>,
        wanted: &str,
        faults: &mut Faults<'_>,
        read: impl FnOnce(&DeValue<'_>) -> Option<T>,
    ) -> Option<At<T>> {
        let at = self.place(entry.value.span());
        match read(entry.value.get_ref()) {
            Some(value) => Some(At { value, at }),
            None => {
                let found = entry.value.get_ref().type_str();
                faults.error(
                    &at,
                    format!("`{key}` of {} is not {wanted}", self.name),
                    format!("this is {found}; write {wanted}", found = with_article(found)),
                );
                None
            }
        }
    }

    fn list<T>(
        &mut self,
        key: &'static str,
        wanted: &str,
        faults: &mut Faults<'_>,
        read: impl Fn(&DeValue<'_>) -> Option<T>,
    ) -> Option<At<Vec<At<T>>>> {
        let entry = self.take(key)?;
        let At { at, .. } = self.typed(key, &entry, "a list", faults, |value| value.as_array().map(|_| ()))?;
        let mut read_items = Vec::new();
        for item in entry.value.get_ref().as_array()? {
            let at = self.place(item.span());
            match read(item.get_ref()) {
                Some(value) => read_items.push(At { value, at }),
                None => faults.error(
                    &at,
                    format!("an item of `{key}` of {} is not {wanted}", self.name),
                    format!("write {wanted}"),
                ),
            }
        }
        Some(At { value: read_items, at })
    }

    fn place(&self, span: Range<usize>) -> Place {
        Place { file: self.at.file, span }
    }

    fn dotted(&self, key: &str) -> String {
        match self.section {
            Section::File => key.to_owned(),
            Section::Defaults
            | Section::Agent
            | Section::Tool
            | Section::Rule
            | Section::Floor
            | Section::Approval
            | Section::Limit
            | Section::MaxSum
            | Section::Lookup => format!("{}.{key}", self.name),
        }
    }
}

/// One entry of a table whose keys are names.
pub(super) struct Named<'t> {
    /// The name.
    pub(super) name: At<String>,
    /// As messages call it, such as `tools.send_email`.
    pub(super) path: String,
    value: &'t Spanned<DeValue<'t>>,
}

impl<'t> Named<'t> {
    /// Its value as a table of `section`.
    pub(super) fn table(&self, section: Section, faults: &mut Faults<'_>) -> Option<Table<'t>> {
        match self.value.get_ref().as_table() {
            Some(table) => Some(Table::new(section, self.path.clone(), self.name.at.clone(), table)),
            None => {
                faults.error(
                    &self.name.at,
                    format!("`{}` is not a table", self.path),
                    format!("write [{}]", self.path),
                );
                None
            }
        }
    }

    /// Its value as JSON.
    pub(super) fn json(&self, faults: &mut Faults<'_>) -> Option<Document> {
        Document::from_toml(self.value, &self.name.at, faults)
    }
}

fn one_of<T: Display>(words: &[T]) -> String {
    let words: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
    format!("one of {}", words.join(", "))
}

fn with_article(type_name: &str) -> String {
    let article = if type_name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {type_name}")
}

fn unknown_key_hint(key: &str, mut known: Vec<&'static str>) -> String {
    known.sort_unstable();
    if !known.contains(&"timeout") && ["timeout", "expire", "expiry"].iter().any(|word| key.contains(word)) {
        return "nothing is ever approved by waiting: an approval nobody decides in its `ttl` expires".to_owned();
    }
    let folded = key.to_lowercase().replace('-', "_");
    let closest = known.iter().min_by_key(|known| strsim::osa_distance(known, &folded));
    match closest {
        Some(closest) if strsim::osa_distance(closest, &folded) <= 1 + closest.len() / 4 => {
            format!("did you mean `{closest}`?")
        }
        Some(_) | None => format!("known here: {}", known.join(", ")),
    }
}
