//! The times of log lines.

use std::fmt;
use std::time::Duration;

use beadlock_core::facts;
use jiff::civil::{DateTime, date};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::{Serialize, Serializer};

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);

const STAMP: usize = LogTime::STAMP;

/// Milliseconds since the Unix epoch. `Display` is `YYYY-MM-DD HH:MM:SS` in UTC; JSON has RFC 3339.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogTime(pub i64);

impl LogTime {
    /// The length of `YYYY-MM-DD HH:MM:SS`.
    pub const STAMP: usize = 19;

    /// The time by this machine's clock.
    pub fn now() -> Self {
        Self::of(facts::now().0)
    }

    fn of(since_epoch: SignedDuration) -> Self {
        Self(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }

    /// A time of day in UTC.
    pub fn utc(civil: DateTime) -> Self {
        Self::of(civil.duration_since(EPOCH))
    }

    /// Parses `YYYY-MM-DD HH:MM:SS`, UTC.
    pub fn stamp(text: &str) -> Option<Self> {
        civil(text.as_bytes().try_into().ok()?, b'-').map(Self::utc)
    }

    /// Parses a time with its offset from UTC, as RFC 3339 has it; `None`: the text is no such time.
    pub fn parse(text: &str) -> Option<Self> {
        let timestamp: Timestamp = text.parse().ok()?;
        Some(Self(timestamp.as_millisecond()))
    }

    /// The time from `earlier` to this; zero when the clock went back in between.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    pub(crate) fn is_same_day(self, other: Self) -> bool {
        self.civil().date() == other.civil().date()
    }

    pub(crate) fn civil(self) -> DateTime {
        EPOCH.saturating_add(SignedDuration::from_millis(self.0))
    }

    pub(crate) fn rfc3339(self) -> String {
        format!("{}Z", self.civil())
    }
}

impl LogTime {
    /// `2026-11-25`
    pub fn day(self) -> String {
        let civil = self.civil();
        let (year, month, day) = (civil.year(), civil.month(), civil.day());
        format!("{year:04}-{month:02}-{day:02}")
    }

    /// `15:55:57`
    pub fn time_of_day(self) -> String {
        let civil = self.civil();
        let (hour, minute, second) = (civil.hour(), civil.minute(), civil.second());
        format!("{hour:02}:{minute:02}:{second:02}")
    }
}

impl fmt::Display for LogTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.day(), self.time_of_day())
    }
}

impl Serialize for LogTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.rfc3339())
    }
}

/// How a time without a zone is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogZone {
    /// The agent writes UTC.
    Utc,
    /// The original daemon writes the local time of its machine.
    Local,
}

/// Reads the times of lines. A local time is taken as this machine's, or as `$TZ` says.
#[derive(Debug)]
pub(crate) struct LogClock {
    local: TimeZone,
    /// The last time that was read: most lines share their second with the line before.
    last: Option<([u8; STAMP], LogZone, LogTime)>,
    /// True once a local time was read.
    pub used_local: bool,
}

impl Default for LogClock {
    /// A clock with this machine's zone, or UTC where that is unknown.
    fn default() -> Self {
        Self::in_zone(TimeZone::try_system().unwrap_or(TimeZone::UTC))
    }
}

impl LogClock {
    fn in_zone(local: TimeZone) -> Self {
        Self {
            local,
            last: None,
            used_local: false,
        }
    }

    pub fn local_name(&self) -> String {
        self.local
            .iana_name()
            .unwrap_or("this machine's zone")
            .to_owned()
    }

    /// Reads `YYYY-MM-DD HH:MM:SS` at the front of `text`, with this `separator` in the date. Skips a fraction of a
    /// second and returns the rest.
    pub fn read<'a>(
        &mut self,
        text: &'a [u8],
        separator: u8,
        zone: LogZone,
    ) -> Option<(LogTime, &'a [u8])> {
        let (stamp, mut rest) = text.split_first_chunk::<STAMP>()?;
        if let [b'.', digits @ ..] = rest {
            let length = digits
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            rest = &digits[length..];
        }
        if let Some((last, of, at)) = &self.last
            && (last, *of) == (stamp, zone)
        {
            return Some((*at, rest));
        }
        let civil = civil(*stamp, separator)?;
        let at = match zone {
            LogZone::Utc => LogTime::utc(civil),
            LogZone::Local => {
                self.used_local = true;
                LogTime(self.local.to_timestamp(civil).ok()?.as_millisecond())
            }
        };
        self.last = Some((*stamp, zone, at));
        Some((at, rest))
    }
}

fn civil(mut stamp: [u8; STAMP], separator: u8) -> Option<DateTime> {
    let shape = [
        (4, separator),
        (7, separator),
        (10, b' '),
        (13, b':'),
        (16, b':'),
    ];
    // The parser would take a 60th second for the 59th.
    if shape.iter().any(|(at, byte)| stamp[*at] != *byte) || stamp[17] >= b'6' {
        return None;
    }
    (stamp[4], stamp[7]) = (b'-', b'-');
    std::str::from_utf8(&stamp).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_times_of_lines() {
        let mut clock = LogClock::in_zone(TimeZone::fixed(jiff::tz::offset(2)));
        let (at, rest) = clock
            .read(b"2026-02-01 10:11:12] x", b'-', LogZone::Utc)
            .unwrap();
        assert_eq!(
            (at.to_string().as_str(), rest),
            ("2026-02-01 10:11:12", &b"] x"[..])
        );
        let (again, _) = clock
            .read(b"2026-02-01 10:11:12] y", b'-', LogZone::Utc)
            .unwrap();
        assert_eq!((again, clock.used_local), (at, false));
        let (local, rest) = clock
            .read(b"2026/02/01 10:11:12.123456 x", b'/', LogZone::Local)
            .unwrap();
        assert_eq!(
            (local.to_string().as_str(), rest),
            ("2026-02-01 08:11:12", &b" x"[..])
        );
        assert!(clock.used_local);
        for wrong in [
            "2026-02-30 10:11:12",
            "2026-02-01 24:11:12",
            "2026-02-01T10:11:12",
            "2026-02-01 10:11:1",
            "2026-02-0x 10:11:12",
            "+026-02-01 10:11:12",
            "",
        ] {
            assert_eq!(
                clock.read(wrong.as_bytes(), b'-', LogZone::Utc),
                None,
                "{wrong}"
            );
        }
    }

    #[test]
    fn an_hour_that_comes_twice_is_no_trap() {
        let Ok(zone) = TimeZone::get("Europe/Berlin") else {
            return;
        };
        let mut clock = LogClock::in_zone(zone);
        let read = |clock: &mut LogClock, text: &[u8]| {
            clock
                .read(text, b'/', LogZone::Local)
                .map(|(at, _)| at.to_string())
        };
        assert_eq!(
            read(&mut clock, b"2026/10/25 02:30:00").as_deref(),
            Some("2026-10-25 00:30:00")
        );
        assert_eq!(
            read(&mut clock, b"2026/03/29 02:30:00").as_deref(),
            Some("2026-03-29 01:30:00")
        );
    }
}
