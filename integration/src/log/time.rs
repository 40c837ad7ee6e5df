//! Times: as log lines have them, as `--since` and `--until` are typed, and as the report shows them.

use std::fmt;
use std::time::Duration;

use beadlock_checker::internal::{duration, facts};
use jiff::civil::{DateTime, date, time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);

/// The length of `YYYY-MM-DD HH:MM:SS`.
const STAMP: usize = 19;

/// An instant, in milliseconds since the Unix epoch. `Display` is `YYYY-MM-DD HH:MM:SS`, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At(pub i64);

impl At {
    /// By the wall clock.
    pub fn now() -> Self {
        Self::of(facts::now().0)
    }

    fn of(since_epoch: SignedDuration) -> Self {
        Self(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }

    fn utc(civil: DateTime) -> Self {
        Self::of(civil.duration_since(EPOCH))
    }

    /// RFC 3339; `None` when it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let timestamp: Timestamp = text.parse().ok()?;
        Some(Self(timestamp.as_millisecond()))
    }

    /// How long after `earlier` this is; nothing when the clock went back in between.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// So long before this.
    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(millis(duration)))
    }

    fn civil(self) -> DateTime {
        EPOCH.saturating_add(SignedDuration::from_millis(self.0))
    }

    /// RFC 3339, UTC.
    pub fn rfc3339(self) -> String {
        format!("{}Z", self.civil())
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let civil = self.civil();
        let (year, month, day) = (civil.year(), civil.month(), civil.day());
        let (hour, minute, second) = (civil.hour(), civil.minute(), civil.second());
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    }
}

/// In milliseconds.
pub fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// An end of the time that is asked for, as it was typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// That instant.
    At(At),
    /// So long before now.
    Ago(Duration),
}

impl Moment {
    /// The instant, when it is `now`.
    pub fn at(self, now: At) -> At {
        match self {
            Self::At(at) => at,
            Self::Ago(ago) => now.before(ago),
        }
    }
}

/// Parses RFC 3339, `YYYY-MM-DD`, `YYYY-MM-DD HH:MM[:SS]` (UTC), or how long ago: a DUR that also knows days and
/// weeks, such as `3d` or `1w2d`.
///
/// # Errors
/// What is wrong, with examples of what is right.
pub fn parse_moment(text: &str) -> Result<Moment, String> {
    let text = text.trim();
    if let Some(at) = At::parse(text) {
        return Ok(Moment::At(at));
    }
    // An offset without a `Z` or a time would be dropped by the next one in silence.
    if let Ok(civil) = text.parse::<DateTime>()
        && !text.get(10..).is_some_and(|time| time.contains(['+', '-', '[']))
    {
        return Ok(Moment::At(At::utc(civil)));
    }
    ago(text).map(Moment::Ago).ok_or_else(|| {
        format!(
            "{text:?} is neither a time nor a duration back from now; examples: 2026-02-01, \
             '2026-02-01 13:30' (UTC), 2026-02-01T13:30:00+01:00, 2h, 3d"
        )
    })
}

/// The same for the end of the time that is asked for: a date alone is all of that day.
///
/// # Errors
/// As [`parse_moment`].
pub fn parse_end(text: &str) -> Result<Moment, String> {
    const DAY: i64 = 24 * 60 * 60 * 1000;
    let is_date = !text.trim().contains(['T', 't', ' ', ':']);
    parse_moment(text).map(|moment| match moment {
        Moment::At(At(midnight)) if is_date => Moment::At(At(midnight.saturating_add(DAY - 1))),
        moment => moment,
    })
}

fn ago(text: &str) -> Option<Duration> {
    let mut rest = text.strip_suffix(" ago").or_else(|| text.strip_prefix('-')).unwrap_or(text);
    let mut whole = Duration::ZERO;
    for (unit, hours) in [('w', 7 * 24), ('d', 24)] {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        if let Some(after) = after.strip_prefix(unit) {
            let seconds = number.parse::<u64>().ok()?.checked_mul(hours * 3600)?;
            whole = whole.checked_add(Duration::from_secs(seconds))?;
            rest = after.trim_start();
        }
    }
    if rest.is_empty() && whole > Duration::ZERO {
        return Some(whole);
    }
    whole.checked_add(duration::parse(rest).ok()?)
}

/// Whose clock the times without a zone are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    /// The agent's are UTC.
    Utc,
    /// The original daemon's are its machine's local time.
    Local,
}

/// Reads the times of lines. The original daemon's have no zone: they are taken as this machine's local time, or
/// what `$TZ` says.
#[derive(Debug)]
pub struct Clock {
    local: TimeZone,
    /// The last one read: most lines share their second with the line before.
    last: Option<([u8; STAMP], Zone, At)>,
    /// Whether a local time was read.
    pub used_local: bool,
}

impl Clock {
    /// With this machine's zone; UTC where that cannot be known.
    pub fn new() -> Self {
        Self::in_zone(TimeZone::try_system().unwrap_or(TimeZone::UTC))
    }

    fn in_zone(local: TimeZone) -> Self {
        Self { local, last: None, used_local: false }
    }

    /// What the local zone is called.
    pub fn local_name(&self) -> String {
        self.local.iana_name().unwrap_or("this machine's zone").to_owned()
    }

    /// The time at the front of `text`, `YYYY-MM-DD HH:MM:SS` with this `separator` of the date and perhaps a
    /// fraction, and what follows it.
    pub fn read<'a>(&mut self, text: &'a [u8], separator: u8, zone: Zone) -> Option<(At, &'a [u8])> {
        let (stamp, mut rest) = text.split_first_chunk::<STAMP>()?;
        if let [b'.', digits @ ..] = rest {
            let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
            rest = &digits[length..];
        }
        if let Some((last, of, at)) = &self.last
            && last == stamp
            && *of == zone
        {
            return Some((*at, rest));
        }
        let civil = civil(stamp, separator)?;
        let at = match zone {
            Zone::Utc => At::utc(civil),
            Zone::Local => {
                self.used_local = true;
                At(self.local.to_timestamp(civil).ok()?.as_millisecond())
            }
        };
        self.last = Some((*stamp, zone, at));
        Some((at, rest))
    }
}

fn civil(stamp: &[u8; STAMP], separator: u8) -> Option<DateTime> {
    let is_shaped = [(4, separator), (7, separator), (10, b' '), (13, b':'), (16, b':')];
    if is_shaped.iter().any(|(at, byte)| stamp[*at] != *byte) {
        return None;
    }
    let number = |at: usize, width: usize| {
        let digits = &stamp[at..at + width];
        let value = |number: i16, digit: &u8| number * 10 + i16::from(digit - b'0');
        digits.iter().all(u8::is_ascii_digit).then(|| digits.iter().fold(0, value))
    };
    let small = |at| number(at, 2).and_then(|number| i8::try_from(number).ok());
    let day = jiff::civil::Date::new(number(0, 4)?, small(5)?, small(8)?).ok()?;
    let (hour, minute, second) = (small(11)?, small(14)?, small(17)?);
    let is_time = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
    is_time.then(|| day.to_datetime(time(hour, minute, second, 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_may_be_typed() {
        let at = |text: &str| match parse_moment(text).unwrap() {
            Moment::At(at) => at.rfc3339(),
            Moment::Ago(ago) => format!("{}s ago", ago.as_secs()),
        };
        let cases = [
            ("2026-02-01", "2026-02-01T00:00:00Z"),
            ("2026-02-01 13:30", "2026-02-01T13:30:00Z"),
            ("2026-02-01 13:30:05", "2026-02-01T13:30:05Z"),
            ("2026-02-01T13:30:05", "2026-02-01T13:30:05Z"),
            ("2026-02-01T13:30:05Z", "2026-02-01T13:30:05Z"),
            ("2026-02-01T13:30:05.5+01:00", "2026-02-01T12:30:05.5Z"),
            ("2h", "7200s ago"),
            ("90", "90s ago"),
            ("3d", "259200s ago"),
            ("1w2d3h", "788400s ago"),
            ("1d 12h", "129600s ago"),
            ("2h ago", "7200s ago"),
            ("-2h", "7200s ago"),
        ];
        for (text, meant) in cases {
            assert_eq!(at(text), meant, "{text}");
        }
    }

    #[test]
    fn an_end_that_is_a_date_is_the_end_of_that_day() {
        let at = |text: &str| match parse_end(text).unwrap() {
            Moment::At(at) => at.rfc3339(),
            Moment::Ago(ago) => format!("{}s ago", ago.as_secs()),
        };
        for (text, meant) in [
            ("2026-02-01", "2026-02-01T23:59:59.999Z"),
            (" 20260201 ", "2026-02-01T23:59:59.999Z"),
            ("2026-02-01 00:00", "2026-02-01T00:00:00Z"),
            ("2026-02-01T00:00:00Z", "2026-02-01T00:00:00Z"),
            ("3d", "259200s ago"),
        ] {
            assert_eq!(at(text), meant, "{text}");
        }
        assert!(parse_end("2026-02-30").is_err());
    }

    #[test]
    fn refuses_the_rest_with_examples() {
        for text in [
            "",
            "yesterday",
            "2026-02-30",
            "2026-02-01 25:00",
            "--2h",
            "d",
            "w",
            "3dd",
            "1d1d",
            "3y",
            "99999999999999999999d",
            "2026-02-01 13:30[Europe/Berlin]",
        ] {
            let error = parse_moment(text).unwrap_err();
            assert!(error.contains("examples: 2026-02-01, "), "{text}: {error}");
        }
    }

    #[test]
    fn reads_the_times_of_lines() {
        let mut clock = Clock::in_zone(TimeZone::fixed(jiff::tz::offset(2)));
        let (at, rest) = clock.read(b"2026-02-01 10:11:12] x", b'-', Zone::Utc).unwrap();
        assert_eq!((at.to_string().as_str(), rest), ("2026-02-01 10:11:12", &b"] x"[..]));
        let (again, _) = clock.read(b"2026-02-01 10:11:12] y", b'-', Zone::Utc).unwrap();
        assert_eq!((again, clock.used_local), (at, false));
        let (local, rest) = clock.read(b"2026/02/01 10:11:12.123456 x", b'/', Zone::Local).unwrap();
        assert_eq!((local.to_string().as_str(), rest), ("2026-02-01 08:11:12", &b" x"[..]));
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
            assert_eq!(clock.read(wrong.as_bytes(), b'-', Zone::Utc), None, "{wrong}");
        }
    }

    #[test]
    fn an_hour_that_comes_twice_is_no_trap() {
        let Ok(zone) = TimeZone::get("Europe/Berlin") else { return };
        let mut clock = Clock::in_zone(zone);
        let read = |clock: &mut Clock, text: &[u8]| {
            clock.read(text, b'/', Zone::Local).map(|(at, _)| at.to_string())
        };
        assert_eq!(read(&mut clock, b"2026/10/25 02:30:00").as_deref(), Some("2026-10-25 00:30:00"));
        assert_eq!(read(&mut clock, b"2026/03/29 02:30:00").as_deref(), Some("2026-03-29 01:30:00"));
    }
}
