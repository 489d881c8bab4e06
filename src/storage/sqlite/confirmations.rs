//! Confirmations that reviewers were given: one for each approval and reviewer, the last.

use sqlx::SqliteConnection;

use super::errors::store_error;
use crate::{
    app::ports::StoreError,
    domain::{approval::confirmation::Confirmation, identity::ReviewerName, ids::ApprovalId},
    storage::rows::ConfirmationRow,
};

/// The last confirmation of `reviewer` for `approval`.
pub(super) async fn of(
    connection: &mut SqliteConnection,
    approval: ApprovalId,
    reviewer: &ReviewerName,
) -> Result<Option<Confirmation>, StoreError> {
    sqlx::query_as::<_, ConfirmationRow>(
        "select hash, review_hash, valid_from, expires_at, spent from confirmations
         where approval_id = $1 and reviewer = $2",
    )
    .bind(approval.to_string())
    .bind(reviewer.as_str())
    .fetch_optional(connection)
    .await
    .map_err(store_error)?
    .map(|row| row.into_confirmation(approval, reviewer))
    .transpose()
}

/// Stores a confirmation in place of the last one.
pub(super) async fn put(connection: &mut SqliteConnection, confirmation: &Confirmation) -> Result<(), StoreError> {
    sqlx::query(
        "insert into confirmations (approval_id, reviewer, hash, review_hash, valid_from, expires_at, spent)
         values ($1, $2, $3, $4, $5, $6, $7)
         on conflict (approval_id, reviewer) do update set
             hash = excluded.hash, review_hash = excluded.review_hash, valid_from = excluded.valid_from,
             expires_at = excluded.expires_at, spent = excluded.spent",
    )
    .bind(confirmation.approval.to_string())
    .bind(confirmation.reviewer.as_str())
    .bind(confirmation.hash.as_slice())
    .bind(&confirmation.review_hash)
    .bind(confirmation.valid_from.as_micros())
    .bind(confirmation.expires_at.as_micros())
    .bind(confirmation.spent)
    .execute(connection)
    .await
    .map_err(store_error)?;
    Ok(())
}
