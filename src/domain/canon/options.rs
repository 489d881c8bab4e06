//! Reads the options of an argument declaration strictly, collecting every fault. It knows no kind.

use serde_json::{Map, Value};

use super::OptionFault;

/// The table `[tools.T.arguments.A]` while a kind takes its options from it.
#[derive(Debug)]
pub(super) struct Options<'a> {
    declaration: &'a Map<String, Value>,
    known: Vec<&'static str>,
    faults: Vec<OptionFault>,
}

impl<'a> Options<'a> {
    pub(super) fn of(declaration: &'a Map<String, Value>) -> Self {
        Self { declaration, known: Vec::new(), faults: Vec::new() }
    }

    /// Whether the declaration has this option at all, right or wrong.
    pub(super) fn has(&self, option: &str) -> bool {
        self.declaration.contains_key(option)
    }

    /// Takes a string.
    pub(super) fn text(&mut self, option: &'static str) -> Option<&'a str> {
        self.known.push(option);
        let value = self.declaration.get(option)?;
        if value.as_str().is_none() {
            self.fault(option, "it must be a string", format!("write {option} = \"...\""));
        }
        value.as_str()
    }

    /// Takes `true` or `false`; `false` when it is left out.
    pub(super) fn flag(&mut self, option: &'static str) -> bool {
        self.known.push(option);
        let Some(value) = self.declaration.get(option) else { return false };
        if !value.is_boolean() {
            self.fault(option, "it must be true or false", format!("write {option} = true"));
        }
        value == &Value::Bool(true)
    }

    /// Takes a list of strings that must not be empty.
    pub(super) fn texts(&mut self, option: &'static str) -> Option<Vec<&'a str>> {
        let items = self.list(option)?;
        let mut texts = Vec::with_capacity(items.len());
        for (item, value) in items.iter().enumerate() {
            match value.as_str() {
                Some(text) => texts.push(text),
                None => self.item_fault(option, item, "it must be a string", format!("write {option} = [\"...\"]")),
            }
        }
        Some(texts)
    }

    /// Takes a list of any values that must not be empty.
    pub(super) fn list(&mut self, option: &'static str) -> Option<&'a [Value]> {
        self.known.push(option);
        let value = self.declaration.get(option)?;
        let Some(items) = value.as_array() else {
            self.fault(option, "it must be a list", format!("write {option} = [...]"));
            return None;
        };
        if items.is_empty() {
            self.fault(
                option,
                "the list is empty, so it permits nothing",
                format!("name what is meant in {option}, or leave the option out"),
            );
        }
        Some(items)
    }

    /// Notes a fault of an option as a whole.
    pub(super) fn fault(&mut self, option: &str, message: impl Into<String>, hint: impl Into<String>) {
        self.faults.push(OptionFault {
            option: Some(option.to_owned()),
            item: None,
            message: message.into(),
            hint: hint.into(),
        });
    }

    /// Notes a fault of one item of a list.
    pub(super) fn item_fault(
        &mut self,
        option: &str,
        item: usize,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.faults.push(OptionFault {
            option: Some(option.to_owned()),
            item: Some(item),
            message: message.into(),
            hint: hint.into(),
        });
    }

    /// Notes that the declaration lacks an option.
    pub(super) fn missing(&mut self, message: impl Into<String>, hint: impl Into<String>) {
        self.faults.push(OptionFault { option: None, item: None, message: message.into(), hint: hint.into() });
    }

    /// Ends the reading: options nobody took are faults too.
    ///
    /// # Errors
    /// Every fault noted.
    pub(super) fn finish<T>(mut self, compiled: Option<T>) -> Result<T, Vec<OptionFault>> {
        let known = self.known.join(", ");
        for option in self.declaration.keys() {
            if option == "kind" || self.known.contains(&option.as_str()) {
                continue;
            }
            let hint = if known.is_empty() {
                "this kind has no options: remove it".to_owned()
            } else {
                format!("this kind knows: {known}")
            };
            self.faults.push(OptionFault {
                option: Some(option.clone()),
                item: None,
                message: "this kind has no such option".to_owned(),
                hint,
            });
        }
        match compiled {
            Some(compiled) if self.faults.is_empty() => Ok(compiled),
            Some(_) | None => Err(self.faults),
        }
    }
}
