//! Hours in which nobody is to be disturbed, by the clock on a wall of theirs.

use std::time::Duration;

use jiff::{civil, tz::TimeZone};

use crate::domain::time::Timestamp;

/// From one time of day to another, perhaps over midnight, in a time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuietHours {
    from: civil::Time,
    until: civil::Time,
    zone: TimeZone,
}

/// Text that gives no quiet hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotQuietHours {
    /// Not two times of a day.
    #[error("is not two different times of a day")]
    Hours,
    /// Not a zone of the IANA time zone database.
    #[error("is no time zone")]
    Zone,
}

impl QuietHours {
    /// Reads `22:00-07:00`, in the IANA time zone `zone`.
    ///
    /// # Errors
    ///
    /// [`NotQuietHours`].
    pub fn parse(hours: &str, zone: &str) -> Result<Self, NotQuietHours> {
        let time = |text: &str| civil::Time::strptime("%H:%M", text.trim()).map_err(|_| NotQuietHours::Hours);
        let (from, until) = hours.split_once('-').ok_or(NotQuietHours::Hours)?;
        let (from, until) = (time(from)?, time(until)?);
        if from == until {
            return Err(NotQuietHours::Hours);
        }
        let zone = TimeZone::get(zone).map_err(|_| NotQuietHours::Zone)?;
        Ok(Self { from, until, zone })
    }

    /// Until when nobody is asked at `now` about what can be decided until `expires_at`; `None` when somebody is: it is not
    /// quiet, or it would be too late afterwards.
    pub fn silences(&self, expires_at: Timestamp, now: Timestamp) -> Option<Timestamp> {
        self.end_at(now).filter(|until| *until < expires_at)
    }

    /// Until when it is quiet at `now`; `None` when it is not.
    pub fn end_at(&self, now: Timestamp) -> Option<Timestamp> {
        let wall = jiff::Timestamp::from_microsecond(now.as_micros()).ok()?.to_zoned_datetime(self.zone.clone());
        let time = wall.time();
        let today = wall.date();
        let ends_on = if self.from < self.until {
            (self.from <= time && time < self.until).then_some(today)
        } else if time >= self.from {
            today.tomorrow().ok()
        } else {
            (time < self.until).then_some(today)
        }?;
        let end = ends_on.to_datetime(self.until).to_zoned_datetime(self.zone.clone()).ok()?;
        let end = Timestamp::from_micros(end.timestamp().as_microsecond());
        // A clock that was put forward may have skipped the end.
        Some(end.max(now.plus(Duration::from_secs(1))))
    }
}
