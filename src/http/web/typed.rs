//! What a person typed into a field of a form.

use serde::Deserialize;

use crate::http::extract::LONGEST_SENTENCE;

/// A sentence, without blanks around it; a field that holds nothing else says nothing.
#[derive(Default, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Typed(Option<String>);

/// A sentence of more bytes than any may have.
#[derive(Debug, thiserror::Error)]
#[error("is longer than {LONGEST_SENTENCE} bytes")]
pub(super) struct TooLong;

impl Typed {
    pub(super) fn text(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl TryFrom<String> for Typed {
    type Error = TooLong;

    fn try_from(text: String) -> Result<Self, TooLong> {
        // Browsers end a line with two characters.
        let text = text.replace("\r\n", "\n");
        let text = text.trim();
        if text.len() > LONGEST_SENTENCE {
            return Err(TooLong);
        }
        Ok(Self(Some(text).filter(|text| !text.is_empty()).map(str::to_owned)))
    }
}

impl From<Typed> for Option<String> {
    fn from(typed: Typed) -> Self {
        typed.0
    }
}
