//! What the store still has of a held call, checked against its approval: the input, and the review that was shown.

use std::collections::BTreeSet;

use serde::Deserialize as _;
use serde_json::Value;

use super::{App, error::Error, ports::StoreError};
use crate::domain::{
    approval::state::{Approval, ServiceDenial},
    audit::payload::{Payload, PayloadDigest},
    canon::json::ArgsHash,
    facts::Facts,
    lookup::LookupResults,
    policy::Tool,
    review::{Review, ReviewHash},
};

/// Something that was stored when a call was held.
pub(super) enum Kept<T> {
    /// As it was.
    Held(T),
    /// It was erased, or never kept; that is no objection.
    Erased,
    /// Something else is there now.
    Differs,
}

/// The input of a held call: arguments, context, rationale, facts, lookups.
pub(super) type KeptInput = Kept<Value>;

/// Both.
pub(super) struct KeptCall {
    pub(super) input: KeptInput,
    pub(super) review: Kept<Review>,
}

impl KeptCall {
    /// Why nobody may be asked about the call any more, if something was exchanged.
    pub(super) fn exchanged(&self) -> Option<ServiceDenial> {
        match (&self.input, &self.review) {
            (Kept::Differs, _) => Some(ServiceDenial::StoredArgumentsDiffer),
            (_, Kept::Differs) => Some(ServiceDenial::StoredReviewDiffers),
            (Kept::Held(_) | Kept::Erased, Kept::Held(_) | Kept::Erased) => None,
        }
    }
}

impl KeptCall {
    /// Whether people can still be shown what would run.
    pub(super) const fn is_whole(&self) -> bool {
        matches!((&self.input, &self.review), (Kept::Held(_), Kept::Held(_)))
    }
}

impl<T> Kept<T> {
    /// The thing itself.
    pub(super) fn held(self) -> Option<T> {
        match self {
            Self::Held(held) => Some(held),
            Self::Erased | Self::Differs => None,
        }
    }
}

impl KeptInput {
    /// A member of the input, unless it is not there or null.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        match self {
            Self::Held(input) => input.get(name).filter(|value| !value.is_null()),
            Self::Erased | Self::Differs => None,
        }
    }

    /// What the lookups found when the call was held.
    pub(super) fn lookups(&self) -> LookupResults {
        self.get("lookups").and_then(|lookups| LookupResults::deserialize(lookups).ok()).unwrap_or_default()
    }

    /// Why a path does not lead to where it led when the call was held, if it does not. What was found then and is no
    /// longer stored is no answer.
    pub(super) fn moved_path(&self, tool: Option<&Tool>, now: &Facts) -> Option<String> {
        if !tool.is_some_and(Tool::looks_at_disk) {
            return None;
        }
        let then = self.get("facts").and_then(|facts| Facts::deserialize(facts).ok()).unwrap_or_default();
        let places: BTreeSet<_> = then.paths.keys().chain(now.paths.keys()).collect();
        let moved = places.into_iter().find(|place| then.paths.get(*place) != now.paths.get(*place))?;
        Some(format!("argument `{moved}` does not lead to where it led when the call was held"))
    }
}

impl App {
    /// The input that `approval` was made of, checked against it.
    pub(super) async fn kept_input(&self, approval: &Approval) -> Result<KeptInput, Error> {
        let stored = match self.kept_payload(approval.payload).await? {
            Kept::Held(stored) => stored,
            Kept::Erased => return Ok(Kept::Erased),
            Kept::Differs => return Ok(Kept::Differs),
        };
        let input: Value = serde_json::from_str(stored.body()).unwrap_or_default();
        let hash = input.get("args").and_then(Value::as_object).and_then(|args| ArgsHash::of(args).ok());
        Ok(if hash == Some(approval.args_hash) { Kept::Held(input) } else { Kept::Differs })
    }

    /// Input and review of `approval`, checked against it.
    pub(super) async fn kept_call(&self, approval: &Approval) -> Result<KeptCall, Error> {
        let input = self.kept_input(approval).await?;
        Ok(KeptCall { input, review: self.review_of(approval).await? })
    }

    /// The review of `approval`, checked against it.
    pub(super) async fn review_of(&self, approval: &Approval) -> Result<Kept<Review>, Error> {
        let Some(shown) = approval.review else { return Ok(Kept::Erased) };
        Ok(match self.kept_payload(shown.payload).await? {
            Kept::Held(stored) if ReviewHash::of(stored.body()) == shown.hash => {
                Review::read(stored.body()).map_or(Kept::Differs, Kept::Held)
            }
            Kept::Held(_) | Kept::Differs => Kept::Differs,
            Kept::Erased => Kept::Erased,
        })
    }

    async fn kept_payload(&self, digest: PayloadDigest) -> Result<Kept<Payload>, Error> {
        match self.store.payload(digest).await {
            Ok(Some(stored)) if stored.digest() == digest => Ok(Kept::Held(stored)),
            // That is how a store answers when the payload is not the one its digest names.
            Ok(Some(_)) | Err(StoreError::Unreadable(_)) => Ok(Kept::Differs),
            Ok(None) => Ok(Kept::Erased),
            Err(error) => Err(error.into()),
        }
    }
}
