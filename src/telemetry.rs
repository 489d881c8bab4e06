//! Where log lines go and in which form: standard error, as text for people or JSON for machines. A leaf: it must not
//! know what is logged.

use tracing::Subscriber;
use tracing_subscriber::{
    EnvFilter,
    fmt::MakeWriter,
    layer::SubscriberExt as _,
    util::{SubscriberInitExt as _, TryInitError},
};

/// The variable that says what is logged, such as `info,countersign=debug`, in the words of
/// [`EnvFilter`].
pub const VARIABLE: &str = "COUNTERSIGN_LOG";

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One line of text an event.
    Text,
    /// One JSON object an event and line, its fields at the top level.
    Json,
}

/// Why nothing can be logged.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// `COUNTERSIGN_LOG` is set to something that is no filter.
    #[error("{VARIABLE} is no filter such as info or info,countersign=debug")]
    Filter(#[source] tracing_subscriber::filter::ParseError),
    /// Something else in this process takes the log lines already.
    #[error("log lines are taken already")]
    Taken(#[source] TryInitError),
}

/// Sends the log lines of this process to standard error from now on, those that [`VARIABLE`] lets pass; when it is empty or
/// not set, those that `otherwise` does.
///
/// # Errors
///
/// [`TelemetryError`], when the filter is none or this was called before.
pub fn start(format: Format, otherwise: &str) -> Result<(), TelemetryError> {
    let filter = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
    let filter = filter.map(|value| value.to_string_lossy().into_owned());
    let subscriber = subscriber(format, filter.as_deref().unwrap_or(otherwise), std::io::stderr)?;
    subscriber.try_init().map_err(TelemetryError::Taken)
}

/// What writes log lines to `writer`.
///
/// # Errors
///
/// [`TelemetryError::Filter`] when `filter` is none.
pub fn subscriber<W>(
    format: Format,
    filter: &str,
    writer: W,
) -> Result<Box<dyn Subscriber + Send + Sync>, TelemetryError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = EnvFilter::builder().parse(filter).map_err(TelemetryError::Filter)?;
    let registry = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
    Ok(match format {
        Format::Text => Box::new(registry.with(lines.with_ansi(false))),
        Format::Json => {
            Box::new(registry.with(lines.json().flatten_event(true).with_current_span(true).with_span_list(false)))
        }
    })
}
