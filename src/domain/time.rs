//! A moment in time: integer microseconds since the Unix epoch in UTC, and its RFC 3339 text; and lengths of time as
//! people write them in policies and settings.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, format_description::BorrowedFormatItem, macros::format_description};

const RFC3339_MICROS: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z");

/// A moment, exact to the microsecond, in UTC.
///
/// Arithmetic saturates: a time to live can never wrap into the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// The calendar fields that a condition may read as `now`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CalendarFields {
    /// Seconds since the Unix epoch.
    pub unix: i64,
    /// Year of the Gregorian calendar.
    pub year: i64,
    /// 1 to 12.
    pub month: i64,
    /// 1 to 31.
    pub day: i64,
    /// 1 is Monday, 7 is Sunday (ISO 8601).
    pub weekday: i64,
    /// 0 to 23.
    pub hour: i64,
    /// 0 to 59.
    pub minute: i64,
}

impl Timestamp {
    /// The moment `micros` microseconds after the Unix epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// This moment plus `duration`, saturating at the end of representable time.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }

    /// This moment minus `duration`, saturating at the beginning of representable time.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }

    /// How long after `earlier` this is; zero when it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The UTC calendar fields, or `None` for a moment outside the calendar's range.
    pub fn calendar(self) -> Option<CalendarFields> {
        let at = self.to_offset()?;
        Some(CalendarFields {
            unix: at.unix_timestamp(),
            year: i64::from(at.year()),
            month: i64::from(u8::from(at.month())),
            day: i64::from(at.day()),
            weekday: i64::from(at.weekday().number_from_monday()),
            hour: i64::from(at.hour()),
            minute: i64::from(at.minute()),
        })
    }

    /// Reads RFC 3339 text in any offset; `None` when it is not that or outside the range.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let at = OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339).ok()?;
        i64::try_from(at.unix_timestamp_nanos() / 1_000).ok().map(Self)
    }

    fn to_offset(self) -> Option<OffsetDateTime> {
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000).ok()
    }
}

/// Reads a length of time as policies and settings write it: one whole number and one unit, `250ms`, `30s`, `5m`, `4h`
/// or `90d` (a day is 24 hours). `None` for anything else: no sign, no space, no fraction, no second unit, and nothing
/// longer than a century, so that a length added to a moment of this age cannot leave the calendar.
pub fn parse_duration(text: &str) -> Option<Duration> {
    const CENTURY: u64 = 36_525 * 86_400_000;
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let millis_per_unit = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let millis = number.parse::<u64>().ok()?.checked_mul(millis_per_unit)?;
    (millis <= CENTURY).then(|| Duration::from_millis(millis))
}

/// RFC 3339 in UTC with exactly six digits of fraction, as every answer of the service shows time.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_offset().and_then(|at| at.format(RFC3339_MICROS).ok()) {
            Some(text) => f.write_str(&text),
            None => write!(f, "{}us", self.0),
        }
    }
}

/// As the RFC 3339 text of `Display`.
impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// From RFC 3339 text.
impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse_rfc3339(&text).ok_or_else(|| serde::de::Error::custom("not an RFC 3339 time"))
    }
}
