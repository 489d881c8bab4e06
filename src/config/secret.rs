//! Secrets are named in the settings, never written there: `"env:NAME"` or `"file:PATH"`.

use std::{collections::BTreeMap, ffi::OsString, fmt};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use secrecy::{ExposeSecret as _, SecretBox, SecretString};

/// The text of a secret. Its memory is wiped when it is dropped, and no `Debug` shows it.
#[derive(Clone)]
pub struct Secret(SecretString);

/// A secret of exactly 32 bytes. Its memory is wiped when it is dropped, and no `Debug` shows it.
pub struct SecretBytes(SecretBox<[u8; 32]>);

/// Why a secret cannot be had: what is wrong, and what would be right.
pub(super) type Problem = (String, &'static str);

const REFERENCE: &str = "write \"env:NAME\" or \"file:PATH\"";

/// Where secrets are fetched from that are named outside the settings, by a policy.
#[derive(Clone, Default)]
pub struct SecretSource(BTreeMap<String, OsString>);

impl SecretSource {
    /// Fetches from these variables, and from files.
    pub(super) const fn new(env: BTreeMap<String, OsString>) -> Self {
        Self(env)
    }

    /// The secret that `reference` names, `env:NAME` or `file:PATH`.
    ///
    /// # Errors
    /// What is wrong, after the words "it"; never the secret.
    pub fn fetch(&self, reference: &str) -> Result<Secret, String> {
        Secret::fetch(reference, &self.0).map_err(|(message, _)| message)
    }
}

impl fmt::Debug for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretSource(..)")
    }
}

impl Secret {
    /// The text itself.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Whether `text` refers to a secret.
    pub(super) fn is_reference(text: &str) -> bool {
        text.starts_with("env:") || text.starts_with("file:")
    }

    /// Fetches the secret that `reference` names. One line break at the end of a file is an editor's, not the secret's.
    pub(super) fn fetch(reference: &str, env: &BTreeMap<String, OsString>) -> Result<Self, Problem> {
        let text = if let Some(name) = reference.strip_prefix("env:") {
            let value =
                env.get(name).ok_or_else(|| (format!("names the variable {name}, which is not set"), "set it"))?;
            value
                .to_str()
                .ok_or_else(|| (format!("names the variable {name}, which is not UTF-8"), "write text"))?
                .to_owned()
        } else if let Some(path) = reference.strip_prefix("file:") {
            let text = std::fs::read_to_string(path).map_err(|error| {
                (format!("names the file {path}, which cannot be read: {error}"), "name a readable file")
            })?;
            let line = text.strip_suffix('\n').unwrap_or(&text);
            line.strip_suffix('\r').unwrap_or(line).to_owned()
        } else {
            return Err(("is a secret and must not be written here".to_owned(), REFERENCE));
        };
        if text.is_empty() {
            return Err(("names a secret that is empty".to_owned(), "give it a value"));
        }
        Ok(Self(SecretString::from(text)))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl SecretBytes {
    /// The bytes themselves.
    pub fn expose(&self) -> &[u8; 32] {
        self.0.expose_secret()
    }

    /// Decodes base64 (RFC 4648 section 4, with padding).
    pub(super) fn decode(secret: &Secret) -> Result<Self, Problem> {
        let bytes = STANDARD.decode(secret.expose()).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        bytes.map(|bytes| Self(SecretBox::new(Box::new(bytes)))).ok_or_else(|| {
            ("names a secret that is not 32 bytes in base64".to_owned(), "make one: openssl rand -base64 32")
        })
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretBytes(..)")
    }
}
