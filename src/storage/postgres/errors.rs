//! What Postgres's errors mean to a use case.

use sqlx::Error;

use crate::app::ports::StoreError;

/// What an error before the commit of a transaction means: nothing was written, and what stood in the way may be gone.
pub(super) fn store_error(error: Error) -> StoreError {
    if lost_connection(&error) { StoreError::Contended(error.to_string()) } else { read_error(error) }
}

/// What an error of a connection, or of a read of its own, means.
pub(super) fn read_error(error: Error) -> StoreError {
    let text = error.to_string();
    match sql_state(&error).as_deref() {
        // Serialization failure, deadlock, lock time-out.
        Some("40001" | "40P01" | "55P03") => StoreError::Contended(text),
        // No such table, column or function: another schema than this version's. Data that does not fit.
        Some(state) if state.starts_with("42") || state.starts_with("22") || state.starts_with("23") => {
            StoreError::Unreadable(text)
        }
        Some(_) => StoreError::Unavailable(text),
        None if is_about_data(&error) => StoreError::Unreadable(text),
        None => StoreError::Unavailable(text),
    }
}

/// What an error of the commit itself means: when the server answered, that nothing was written.
pub(super) fn commit_error(error: Error) -> StoreError {
    if lost_connection(&error) { StoreError::CommitUnknown(error.to_string()) } else { read_error(error) }
}

/// Whether the server, or the way to it, went away. Its own words for that come in classes 08 and 57P, and when it ends
/// an idle transaction.
fn lost_connection(error: &Error) -> bool {
    match sql_state(error) {
        Some(state) => state.starts_with("08") || state.starts_with("57P") || state == "25P03",
        None => matches!(error, Error::Io(_) | Error::Tls(_) | Error::Protocol(_) | Error::WorkerCrashed),
    }
}

/// The five characters of <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
fn sql_state(error: &Error) -> Option<String> {
    error.as_database_error()?.code().map(|code| code.into_owned())
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
