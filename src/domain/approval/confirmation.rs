//! The second click that an approve with double confirm takes: a text that one reviewer was given for one approval as it
//! was shown, good once, and neither too early nor too late.

use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::domain::{identity::ReviewerName, ids::ApprovalId, time::Timestamp};

/// How long a reviewer has to look again before the second click counts.
pub const PAUSE: Duration = Duration::from_secs(2);

/// From when on the second click counts no longer, after the first.
pub const GOOD_FOR: Duration = Duration::from_secs(5 * 60);

/// A confirmation that was handed out, without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirmation {
    /// Of which approval.
    pub approval: ApprovalId,
    /// To whom.
    pub reviewer: ReviewerName,
    /// SHA-256 of its text.
    pub hash: [u8; 32],
    /// The hash of the review that was shown at the first click.
    pub review_hash: String,
    /// Not to be given before this.
    pub valid_from: Timestamp,
    /// Nor from this on.
    pub expires_at: Timestamp,
    /// Whether it was given.
    pub spent: bool,
}

/// Why a confirmation does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfirmationFault {
    /// This reviewer was given no such text for this approval, or another one since.
    #[error("this is not the confirmation you were given for this approval")]
    Unknown,
    /// It was given before.
    #[error("this confirmation was used before")]
    Spent,
    /// The reviewer has hardly looked.
    #[error("this confirmation counts from {valid_from} on")]
    Early {
        /// From when on.
        valid_from: Timestamp,
    },
    /// The reviewer has looked elsewhere meanwhile.
    #[error("this confirmation expired at {at}")]
    Expired {
        /// When.
        at: Timestamp,
    },
}

impl Confirmation {
    /// The confirmation with this text, handed out at `now`.
    pub fn new(approval: ApprovalId, reviewer: ReviewerName, review_hash: String, text: &str, now: Timestamp) -> Self {
        let (valid_from, expires_at) = (now.plus(PAUSE), now.plus(GOOD_FOR));
        Self {
            approval,
            reviewer,
            hash: Sha256::digest(text).into(),
            review_hash,
            valid_from,
            expires_at,
            spent: false,
        }
    }

    /// Takes `text` as the second click, on the review that was shown at the first.
    ///
    /// # Errors
    /// Why it does not count.
    pub fn spend(self, text: &str, now: Timestamp) -> Result<Self, ConfirmationFault> {
        let hash: [u8; 32] = Sha256::digest(text).into();
        if hash != self.hash {
            return Err(ConfirmationFault::Unknown);
        }
        if self.spent {
            return Err(ConfirmationFault::Spent);
        }
        if now < self.valid_from {
            return Err(ConfirmationFault::Early { valid_from: self.valid_from });
        }
        if now >= self.expires_at {
            return Err(ConfirmationFault::Expired { at: self.expires_at });
        }
        Ok(Self { spent: true, ..self })
    }
}
