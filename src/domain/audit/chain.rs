//! The hash chain: every entry is bound to all before it, so that none can change, move or go unnoticed.
//!
//! `leaf = SHA-256(0x00 || JCS(entry with its seq))`, the leaf of RFC 9162's tree as well; `chain =
//! SHA-256(previous chain || leaf)`, from 32 zero bytes on.

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::entry::Entry;
use crate::domain::canon::json;

/// A SHA-256 hash.
pub type Hash = [u8; 32];

/// The end of the log: how many entries there are, and the chain over them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The `seq` of the last entry; 0 when there is none.
    pub seq: i64,
    /// The chain up to it.
    pub chain: Hash,
}

impl Head {
    /// The head of an empty log.
    pub const EMPTY: Self = Self { seq: 0, chain: [0; 32] };
}

/// An entry in its place.
#[derive(Clone, Debug, PartialEq)]
pub struct SealedEntry {
    /// Its place, from 1 on without a gap.
    pub seq: i64,
    /// What it says.
    pub entry: Entry,
    /// Its own hash.
    pub leaf: Hash,
    /// The chain up to it.
    pub chain: Hash,
}

/// The exact form that is hashed.
#[derive(Serialize)]
struct Canonical<'a> {
    seq: i64,
    #[serde(flatten)]
    entry: &'a Entry,
}

/// Puts an entry at the end of the log. Returns it with the new head.
///
/// # Errors
/// When the entry has no canonical JSON; entries built by this crate always have one.
pub fn seal(head: Head, entry: Entry) -> Result<(SealedEntry, Head), serde_json::Error> {
    let seq = head.seq + 1;
    let leaf = leaf(seq, &entry)?;
    let chain = link(&head.chain, &leaf);
    Ok((SealedEntry { seq, entry, leaf, chain }, Head { seq, chain }))
}

/// What is wrong with an entry in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    /// An entry is missing before this one.
    #[error("an entry is missing: expected seq {expected}")]
    Gap {
        /// The missing `seq`.
        expected: i64,
    },
    /// A column differs from what was hashed.
    #[error("the entry is not what was recorded")]
    Leaf,
    /// The entry does not continue the chain.
    #[error("the entry does not continue the chain")]
    Chain,
}

/// Checks that `sealed` is the entry after `head`. Returns the head after it.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn check(head: Head, sealed: &SealedEntry) -> Result<Head, ChainFault> {
    let expected = head.seq + 1;
    if sealed.seq != expected {
        return Err(ChainFault::Gap { expected });
    }
    if leaf(sealed.seq, &sealed.entry).ok() != Some(sealed.leaf) {
        return Err(ChainFault::Leaf);
    }
    if link(&head.chain, &sealed.leaf) != sealed.chain {
        return Err(ChainFault::Chain);
    }
    Ok(Head { seq: sealed.seq, chain: sealed.chain })
}

fn leaf(seq: i64, entry: &Entry) -> Result<Hash, serde_json::Error> {
    let mut hasher = Sha256::new();
    hasher.update([0]);
    hasher.update(json::canonical(&Canonical { seq, entry })?);
    Ok(hasher.finalize().into())
}

fn link(previous: &Hash, leaf: &Hash) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update(previous);
    hasher.update(leaf);
    hasher.finalize().into()
}
