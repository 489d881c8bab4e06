//! The permit key that all instances share through the store, when the settings name none.

use crate::{
    app::ports::{Entropy, EntropyError, SharedStore, StoreError},
    auth::permit::{InvalidKey, SealError, SealKey, SigningKey},
    domain::time::Timestamp,
};

/// Why there is no key to sign permits with.
#[derive(Debug, thiserror::Error)]
pub enum NoPermitKey {
    /// The store does not give it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No random bytes.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// The library failed.
    #[error(transparent)]
    Library(#[from] SealError),
    /// A new key is none.
    #[error(transparent)]
    Key(#[from] InvalidKey),
    /// The stored one was sealed with another key, or never.
    #[error(
        "the key in the database is not sealed with permits.seal_key; set the one it was sealed with, or take it out"
    )]
    SealedOtherwise,
    /// The stored one is sealed.
    #[error("the key in the database is sealed; set permits.seal_key")]
    Sealed,
}

/// The stored key; a new one, stored now, when there is none.
pub(super) async fn shared(
    store: &SharedStore,
    seal: Option<&SealKey>,
    entropy: &dyn Entropy,
    now: Timestamp,
) -> Result<SigningKey, NoPermitKey> {
    let mut seed = [0; 32];
    entropy.fill(&mut seed)?;
    let fresh = SigningKey::generate(&seed)?;
    let candidate = match seal {
        Some(seal) => {
            let mut nonce = [0; 12];
            entropy.fill(&mut nonce)?;
            seal.seal(fresh.expose_pkcs8_der(), nonce)?
        }
        None => fresh.expose_pkcs8_der().to_vec(),
    };
    let stored = stored(store, &candidate, now).await?;
    match seal {
        Some(seal) => {
            let der = seal.unseal(&stored).map_err(|_| NoPermitKey::SealedOtherwise)?;
            Ok(SigningKey::from_pkcs8_der(&der)?)
        }
        None => SigningKey::from_pkcs8_der(&stored).map_err(|_| NoPermitKey::Sealed),
    }
}

async fn stored(store: &SharedStore, candidate: &[u8], now: Timestamp) -> Result<Vec<u8>, StoreError> {
    const ATTEMPTS: u32 = 5;
    let attempt = async || {
        let mut tx = store.begin().await?;
        let stored = tx.shared_permit_key(candidate, now).await?;
        tx.commit().await?;
        Ok(stored)
    };
    for _ in 1..ATTEMPTS {
        match attempt().await {
            // Instances that start together are in each other's way.
            Err(StoreError::Contended(_)) => {}
            answer => return answer,
        }
    }
    attempt().await
}
