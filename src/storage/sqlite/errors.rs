//! What SQLite's errors mean to a use case.

use sqlx::Error;

use crate::app::ports::StoreError;

/// Primary result codes (<https://www.sqlite.org/rescode.html>).
const BUSY: u32 = 5;
const LOCKED: u32 = 6;
const READ_ONLY: u32 = 8;
const IO: u32 = 10;
const FULL: u32 = 13;
const CANNOT_OPEN: u32 = 14;

/// What an error before the commit means: nothing was written.
pub(super) fn store_error(error: Error) -> StoreError {
    let text = error.to_string();
    match primary_code(&error) {
        Some(BUSY | LOCKED) => StoreError::Contended(text),
        Some(READ_ONLY | IO | FULL | CANNOT_OPEN) => StoreError::Unavailable(text),
        Some(_) => StoreError::Unreadable(text),
        None if is_about_data(&error) => StoreError::Unreadable(text),
        None => StoreError::Unavailable(text),
    }
}

/// What an error of the commit itself means.
pub(super) fn commit_error(error: Error) -> StoreError {
    match primary_code(&error) {
        Some(BUSY | LOCKED) => StoreError::Contended(error.to_string()),
        Some(_) | None => StoreError::CommitUnknown(error.to_string()),
    }
}

fn primary_code(error: &Error) -> Option<u32> {
    let extended: u32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(extended & 0xff)
}

fn is_about_data(error: &Error) -> bool {
    matches!(
        error,
        Error::RowNotFound
            | Error::TypeNotFound { .. }
            | Error::ColumnIndexOutOfBounds { .. }
            | Error::ColumnNotFound(_)
            | Error::ColumnDecode { .. }
            | Error::Decode(_)
            | Error::Encode(_)
    )
}
