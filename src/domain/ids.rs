//! The names of records, runs and tool calls: one type each, so that one can never be passed for another.
//!
//! [`Id`] is an id the service makes, a UUID behind a prefix that says what it names. [`Name`] is text others choose,
//! of a closed set of ASCII characters and 1 to 128 long, so that it means the same in a log line, a URL and a column.

use std::{borrow::Borrow, fmt, marker::PhantomData, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The longest a [`Name`] may be, in characters.
pub const MAX_NAME_LENGTH: usize = 128;

/// What an [`Id`] names.
pub trait IdKind {
    /// The text before the UUID, with its underscore.
    const PREFIX: &'static str;
}

/// What a [`Name`] names, and with which characters.
pub trait NameKind {
    /// What it names, for messages: "run id".
    const WHAT: &'static str;
    /// The permitted characters besides ASCII letters and digits.
    const PUNCTUATION: &'static str;
}

/// Marks the id of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfDecision {}

/// Marks the id of an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfApproval {}

/// Marks the id of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfBatch {}

/// Marks the id of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfGrant {}

/// Marks the id of a message to people or stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfNotice {}

/// Marks the id of a signed-in person's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfSession {}

/// Marks the id of an API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfKey {}

/// Marks the id of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfClaim {}

/// Marks the id of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfRun {}

/// Marks the id a model's provider gave a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfToolUse {}

impl IdKind for OfDecision {
    const PREFIX: &'static str = "dec_";
}

impl IdKind for OfApproval {
    const PREFIX: &'static str = "apr_";
}

impl IdKind for OfBatch {
    const PREFIX: &'static str = "bat_";
}

impl IdKind for OfGrant {
    const PREFIX: &'static str = "gra_";
}

impl IdKind for OfKey {
    const PREFIX: &'static str = "key_";
}

impl IdKind for OfNotice {
    const PREFIX: &'static str = "msg_";
}

impl IdKind for OfSession {
    const PREFIX: &'static str = "ses_";
}

impl NameKind for OfClaim {
    const WHAT: &'static str = "claim id";
    const PUNCTUATION: &'static str = "_.:-";
}

impl NameKind for OfRun {
    const WHAT: &'static str = "run id";
    const PUNCTUATION: &'static str = "_.:-";
}

impl NameKind for OfToolUse {
    const WHAT: &'static str = "tool use id";
    const PUNCTUATION: &'static str = "_.:-";
}

/// A decision: `dec_` and a UUIDv7.
pub type DecisionId = Id<OfDecision>;
/// An approval: `apr_` and a UUIDv7.
pub type ApprovalId = Id<OfApproval>;
/// The calls of one model turn that were asked about together: `bat_` and a UUIDv7.
pub type BatchId = Id<OfBatch>;
/// A grant: `gra_` and a UUIDv7.
pub type GrantId = Id<OfGrant>;
/// A message to people or stacks: `msg_` and a UUIDv7.
pub type NoticeId = Id<OfNotice>;
/// A signed-in person's session, never the secret that opens it: `ses_` and a UUIDv7.
pub type SessionId = Id<OfSession>;
/// An API key's record, never the key itself: `key_` and a UUIDv7.
pub type KeyId = Id<OfKey>;
/// The right to execute one approved call, chosen by the caller so that a lost answer can be asked for again, or by the
/// service when the caller chose none.
pub type ClaimId = Name<OfClaim>;
/// One execution of one agent, named by its stack. Two agents' runs of the same id are two runs.
pub type RunId = Name<OfRun>;
/// What a model's provider called one tool call; unique only within its run and turn.
pub type ToolUseId = Name<OfToolUse>;

/// An id the service made: a prefix and a UUID in lower case with hyphens (RFC 9562), `dec_0197...`.
///
/// The UUID comes in as an argument; being version 7, it sorts by the time it was made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id<K> {
    uuid: Uuid,
    kind: PhantomData<K>,
}

/// Text that is not the id or name it was read as. It never repeats the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// Not an [`Id`] of this kind.
    #[error("not an id of the form {prefix} and a UUID in lower case")]
    Id {
        /// The prefix it should have had.
        prefix: &'static str,
    },
    /// Not a [`Name`] of this kind.
    #[error("a {what} is 1 to {MAX_NAME_LENGTH} ASCII letters, digits and {punctuation}")]
    Name {
        /// What it should have named.
        what: &'static str,
        /// The characters it may have besides letters and digits.
        punctuation: &'static str,
    },
}

impl<K: IdKind> Id<K> {
    /// The id over `uuid`, which should be of version 7.
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self { uuid, kind: PhantomData }
    }

    /// The UUID without its prefix.
    pub const fn uuid(self) -> Uuid {
        self.uuid
    }

    /// Reads an id in exactly the form it is shown in, so that one record has one name.
    ///
    /// # Errors
    ///
    /// [`InvalidName::Id`] for any other text, another spelling of the same UUID included.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let invalid = InvalidName::Id { prefix: K::PREFIX };
        let Some(rest) = text.strip_prefix(K::PREFIX) else { return Err(invalid) };
        match Uuid::try_parse(rest) {
            Ok(uuid) if uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == rest => Ok(Self::from_uuid(uuid)),
            Ok(_) | Err(_) => Err(invalid),
        }
    }
}

impl<K: IdKind> fmt::Display for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", K::PREFIX, self.uuid.hyphenated())
    }
}

impl<K: IdKind> fmt::Debug for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<K: IdKind> FromStr for Id<K> {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl<K: IdKind> Serialize for Id<K> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, K: IdKind> Deserialize<'de> for Id<K> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// A name others choose: 1 to [`MAX_NAME_LENGTH`] ASCII letters, digits and its kind's punctuation. Compared byte for
/// byte.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name<K> {
    text: String,
    kind: PhantomData<K>,
}

impl<K: NameKind> Name<K> {
    /// Reads a name.
    ///
    /// # Errors
    ///
    /// [`InvalidName::Name`] for text that is empty, too long, or has another character.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || K::PUNCTUATION.contains(c);
        if text.is_empty() || text.len() > MAX_NAME_LENGTH || !text.chars().all(allowed) {
            return Err(InvalidName::Name { what: K::WHAT, punctuation: K::PUNCTUATION });
        }
        Ok(Self { text: text.to_owned(), kind: PhantomData })
    }

    /// The name over a UUID the service made, in lower case with hyphens; every kind of name may hold that.
    pub fn from_uuid(uuid: Uuid) -> Self {
        Self { text: uuid.hyphenated().to_string(), kind: PhantomData }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl<K> Borrow<str> for Name<K> {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl<K> fmt::Display for Name<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<K> fmt::Debug for Name<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl<K: NameKind> FromStr for Name<K> {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl<K> Serialize for Name<K> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de, K: NameKind> Deserialize<'de> for Name<K> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}
