//! The hash chain: every entry is bound to all before it, so that none can change, move or go unnoticed.
//!
//! `leaf = SHA-256(0x00 || JCS(entry with its seq))`, the leaf of RFC 9162's tree as well; `chain =
//! SHA-256(previous chain || leaf)`, from 32 zero bytes on.

use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::{
    entry::{Actor, Entry, EventKind},
    payload::PayloadDigest,
};
use crate::domain::{
    approval::code::ApprovalCode,
    canon::json,
    identity::AgentId,
    ids::{ApprovalId, DecisionId, RunId, ToolUseId},
    verdict::Verdict,
};

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

/// The exact form that is hashed: JCS (RFC 8785) of the entry with its place.
///
/// Its members stand in the order that JCS sorts them into, so that plain serialisation writes canonical JSON without
/// sorting: this is done for every decision. `detail` alone has names that are not known here, and is sorted.
#[derive(Serialize)]
struct Canonical<'a> {
    actor: &'a Actor,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a AgentId>,
    approval: Option<ApprovalId>,
    at: i64,
    call: Option<CanonicalCall<'a>>,
    code: Option<&'a ApprovalCode>,
    decision: Option<DecisionId>,
    detail: &'a RawValue,
    event: EventKind,
    payload: Option<PayloadDigest>,
    policy_version: Option<&'a str>,
    reason: Option<&'a str>,
    reason_code: Option<&'a str>,
    request_id: Option<&'a str>,
    rule: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<&'a RunId>,
    seq: i64,
    tool: Option<&'a str>,
    verdict: Option<Verdict>,
}

#[derive(Serialize)]
struct CanonicalCall<'a> {
    agent: &'a AgentId,
    run: &'a RunId,
    tool_use_id: &'a ToolUseId,
    turn: u32,
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
    hasher.update(canonical(seq, entry)?);
    Ok(hasher.finalize().into())
}

fn canonical(seq: i64, entry: &Entry) -> Result<Vec<u8>, serde_json::Error> {
    let detail = String::from_utf8_lossy(&json::canonical(&entry.detail)?).into_owned();
    let Entry { event, at, request_id, actor, call, tool, decision, approval, code, verdict, .. } = entry;
    let Entry { reason_code, reason, rule, policy_version, payload, agent, run, .. } = entry;
    serde_json::to_vec(&Canonical {
        actor,
        agent: agent.as_ref(),
        approval: *approval,
        at: at.as_micros(),
        call: call.as_ref().map(|call| CanonicalCall {
            agent: &call.agent,
            run: &call.run,
            tool_use_id: &call.tool_use_id,
            turn: call.turn,
        }),
        code: code.as_ref(),
        decision: *decision,
        detail: &RawValue::from_string(detail)?,
        event: *event,
        payload: *payload,
        policy_version: policy_version.as_deref(),
        reason: reason.as_deref(),
        reason_code: reason_code.as_deref(),
        request_id: request_id.as_deref(),
        rule: rule.as_deref(),
        run: run.as_ref(),
        seq,
        tool: tool.as_deref(),
        verdict: *verdict,
    })
}

fn link(previous: &Hash, leaf: &Hash) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update(previous);
    hasher.update(leaf);
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value};
    use uuid::Uuid;

    use super::*;
    use crate::domain::{call::CallKey, time::Timestamp};

    /// The definition: JCS of the entry's own JSON with `seq` among its members.
    fn by_definition(seq: i64, entry: &Entry) -> Vec<u8> {
        let mut value = serde_json::to_value(entry).unwrap();
        value.as_object_mut().unwrap().insert("seq".to_owned(), seq.into());
        json::canonical(&value).unwrap()
    }

    fn text() -> impl Strategy<Value = Option<String>> {
        proptest::option::of(any::<String>())
    }

    proptest! {
        #[test]
        fn what_is_hashed_is_the_canonical_json_of_the_whole_entry(
            seq in 1..9_007_199_254_740_991_i64,
            texts in (text(), text(), text(), text(), text(), text()),
            names in (any::<String>(), any::<String>()),
            detail in proptest::collection::btree_map(any::<String>(), any::<String>(), 0..5),
            with_ids in any::<bool>(),
        ) {
            let actor = Actor { name: names.0, via: names.1 };
            let mut entry = Entry::new(EventKind::Claim, Timestamp::from_micros(seq), actor);
            (entry.request_id, entry.tool, entry.reason_code, entry.reason, entry.rule, entry.policy_version) = texts;
            entry.detail = detail.into_iter().map(|(name, text)| (name, Value::String(text))).collect::<Map<_, _>>();
            if with_ids {
                entry.call = Some(CallKey {
                    agent: AgentId::parse("bot").unwrap(),
                    run: RunId::parse("run-1").unwrap(),
                    turn: 3,
                    tool_use_id: ToolUseId::parse("call-1").unwrap(),
                });
                entry.decision = Some(DecisionId::from_uuid(Uuid::from_u128(1)));
                entry.approval = Some(ApprovalId::from_uuid(Uuid::from_u128(2)));
                entry.code = Some(ApprovalCode::from_bits(7));
                entry.verdict = Some(Verdict::Deny);
                entry.payload = Some(PayloadDigest::from_bytes([9; 32]));
            } else {
                entry.agent = Some(AgentId::parse("bot").unwrap());
                entry.run = Some(RunId::parse("run-1").unwrap());
            }
            prop_assert_eq!(canonical(seq, &entry).unwrap(), by_definition(seq, &entry));
        }
    }
}
