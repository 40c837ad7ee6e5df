//! Times of a record: RFC 3339 as Go's `time.Time.UnmarshalJSON` reads it, and the instant that the text means
//! (docs/design.md#reading). Go 1.20 and later have a stricter check, which is switched off there.

use std::{fmt, time::SystemTime};

use jiff::{SignedDuration, civil::DateTime, civil::date};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);

/// First and last instant whose year has four digits in UTC.
const YEAR_0: DateTime = date(0, 1, 1).at(0, 0, 0, 0);
const YEAR_9999: DateTime = date(9999, 12, 31).at(23, 59, 59, 999_999_999);

/// Instant of a record, as the time since the Unix epoch.
///
/// The instant may lie a day outside the years 0 to 9999, because the writer chooses the offset. `Display` stays inside
/// these years: RFC 3339 in UTC, with the fraction of the second if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StartedAt(#[doc(hidden)] pub SignedDuration);

impl StartedAt {
    /// Go's zero time, `0001-01-01T00:00:00Z`. A record with this time has none.
    pub(super) const NEVER: Self = Self(SignedDuration::from_secs(-62_135_596_800));

    /// Makes an instant from the seconds since the Unix epoch, and the nanoseconds after that second.
    pub fn from_unix(seconds: i64, nanos: u32) -> Self {
        let fraction = SignedDuration::from_nanos(i64::from(nanos));
        Self(SignedDuration::from_secs(seconds).saturating_add(fraction))
    }

    /// Returns the instant as the standard library's type. `None`: that type cannot represent it.
    pub fn to_system_time(self) -> Option<SystemTime> {
        let since = self.0.unsigned_abs();
        match self.0.is_negative() {
            true => SystemTime::UNIX_EPOCH.checked_sub(since),
            false => SystemTime::UNIX_EPOCH.checked_add(since),
        }
    }

    /// Age of this instant at `now`; negative if the instant lies in the future.
    #[doc(hidden)]
    pub fn age(self, now: Self) -> SignedDuration {
        now.0.saturating_sub(self.0)
    }

    pub(super) fn has_fraction(self) -> bool {
        self.0.subsec_nanos() != 0
    }

    pub(crate) fn in_whole_seconds(self) -> Self {
        let cut = i64::from(self.0.subsec_nanos() < 0);
        Self(SignedDuration::from_secs(
            self.0.as_secs().saturating_sub(cut),
        ))
    }

    /// Formats the instant as RFC 3339 in UTC, with three digits after the second. The text always has the same length,
    /// so that a refresh can write over it.
    pub(super) fn to_millis(self) -> String {
        let cut = self.0.subsec_nanos().rem_euclid(1_000_000);
        let whole = self
            .0
            .saturating_sub(SignedDuration::from_nanos(i64::from(cut)));
        format!(
            "{:.3}Z",
            EPOCH.saturating_add(whole).clamp(YEAR_0, YEAR_9999)
        )
    }

    /// Reads the instant from a string literal without its quotes. Escapes are not decoded, as in Go.
    pub(super) fn parse(literal: &str) -> Option<Self> {
        let mut rest = Rest(literal.as_bytes());
        let year = i16::from(rest.two_digits()?) * 100 + i16::from(rest.two_digits()?);
        let month = rest.after(b'-')?.two_digits()?;
        let day = rest.after(b'-')?.two_digits()?;
        let hour = rest.after(b'T')?.one_or_two_digits()?;
        let minute = rest.after(b':')?.two_digits()?;
        let second = rest.after(b':')?.two_digits()?;
        let nanos = rest.fraction();
        let offset = rest.offset()?;
        if !rest.0.is_empty() {
            return None;
        }
        let time = jiff::civil::Time::new(hour, minute, second, nanos).ok()?;
        let local = jiff::civil::Date::new(year, month, day)
            .ok()?
            .to_datetime(time);
        Some(Self(local.duration_since(EPOCH).checked_sub(offset)?))
    }
}

impl fmt::Display for StartedAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}Z",
            EPOCH.saturating_add(self.0).clamp(YEAR_0, YEAR_9999)
        )
    }
}

impl Serialize for StartedAt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StartedAt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfText;

        impl de::Visitor<'_> for OfText {
            type Value = StartedAt;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an RFC 3339 time")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<StartedAt, E> {
                StartedAt::parse(text)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_str(OfText)
    }
}

struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn next_if(&mut self, wanted: impl Fn(u8) -> bool) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        wanted(*first).then(|| {
            self.0 = rest;
            *first
        })
    }

    fn after(&mut self, separator: u8) -> Option<&mut Self> {
        self.next_if(|byte| byte == separator).map(|_| self)
    }

    fn digit(&mut self) -> Option<i8> {
        self.next_if(|byte| byte.is_ascii_digit())
            .and_then(|byte| i8::try_from(byte - b'0').ok())
    }

    fn two_digits(&mut self) -> Option<i8> {
        Some(self.digit()? * 10 + self.digit()?)
    }

    fn one_or_two_digits(&mut self) -> Option<i8> {
        let first = self.digit()?;
        Some(self.digit().map_or(first, |second| first * 10 + second))
    }

    /// Reads the nanoseconds after a period or a comma, and drops further digits. A separator without a digit is not
    /// read.
    fn fraction(&mut self) -> i32 {
        let [b'.' | b',', b'0'..=b'9', ..] = self.0 else {
            return 0;
        };
        self.0 = &self.0[1..];
        let mut nanos = 0;
        let mut unit = 100_000_000;
        while let Some(digit) = self.digit() {
            nanos += i32::from(digit) * unit;
            unit /= 10;
        }
        nanos
    }

    /// Reads the offset: `Z`, or a sign, hours up to 24 and minutes up to 60. Go accepts these limits because some
    /// people write them.
    fn offset(&mut self) -> Option<SignedDuration> {
        if self.after(b'Z').is_some() {
            return Some(SignedDuration::ZERO);
        }
        let sign = self.next_if(|byte| matches!(byte, b'+' | b'-'))?;
        let hours = self.two_digits().filter(|hours| *hours <= 24)?;
        let minutes = self
            .after(b':')?
            .two_digits()
            .filter(|minutes| *minutes <= 60)?;
        let offset = SignedDuration::from_secs(i64::from(hours) * 3600 + i64::from(minutes) * 60);
        Some(if sign == b'-' { -offset } else { offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_what_go_accepts() {
        let rows = [
            ("2025-10-25T12:00:00Z", "2025-10-25T12:00:00Z"),
            ("2025-10-25T1:00:00Z", "2025-10-25T01:00:00Z"),
            ("2025-10-25T12:00:00.5Z", "2025-10-25T12:00:00.5Z"),
            ("2025-10-25T12:00:00,25+00:00", "2025-10-25T12:00:00.25Z"),
            (
                "2025-10-25T12:00:00.12345678999999Z",
                "2025-10-25T12:00:00.123456789Z",
            ),
            ("2025-10-25T12:00:00-00:00", "2025-10-25T12:00:00Z"),
            ("2025-10-25T12:00:00+05:30", "2025-10-25T06:30:00Z"),
            ("2025-10-25T12:00:00-24:60", "2025-10-26T13:00:00Z"),
            ("2000-02-29T23:59:59Z", "2000-02-29T23:59:59Z"),
            ("0000-02-29T00:00:00Z", "0000-02-29T00:00:00Z"),
            ("0000-01-01T00:00:00+00:01", "0000-01-01T00:00:00Z"),
            (
                "9999-12-31T23:59:59.999999999Z",
                "9999-12-31T23:59:59.999999999Z",
            ),
            (
                "9999-12-31T23:59:59-24:60",
                "9999-12-31T23:59:59.999999999Z",
            ),
        ];
        for (text, expected) in rows {
            assert_eq!(
                StartedAt::parse(text)
                    .map(|time| time.to_string())
                    .as_deref(),
                Some(expected),
                "{text}"
            );
        }
        assert_eq!(
            StartedAt::parse("0001-01-01T05:30:00+05:30"),
            Some(StartedAt::NEVER)
        );
    }

    #[test]
    fn refuses_what_go_refuses() {
        for text in [
            "",
            "null",
            "2025-10-25",
            "2025-10-25T12:00Z",
            "2025-10-25T12:00:00",
            "2025-10-25t12:00:00Z",
            "2025-10-25T12:00:00z",
            "2025-10-25 12:00:00Z",
            " 2025-10-25T12:00:00Z",
            "2025-10-25T12:00:00Z ",
            "2025-10-25T12:00:00.Z",
            "2025-10-25T12:00:00;5Z",
            "2025-10-25T24:00:00Z",
            "2025-10-25T12:60:00Z",
            "2025-10-25T12:00:60Z",
            "2025-10-25T12:0:00Z",
            "2025-10-25T12:00:0Z",
            "2025-13-25T12:00:00Z",
            "2025-00-25T12:00:00Z",
            "2025-2-25T12:00:00Z",
            "2025-04-31T12:00:00Z",
            "2025-02-29T12:00:00Z",
            "1900-02-29T12:00:00Z",
            "-025-10-25T12:00:00Z",
            "12025-10-25T12:00:00Z",
            "2025-10-25T12:00:00+25:00",
            "2025-10-25T12:00:00+00:61",
            "2025-10-25T12:00:00+0000",
            "2025-10-25T12:00:00+5:00",
            "2025-10-25T12:00:00-+5:00",
            "2025-10-25T12:00:,5Z",
            "2025-10-25T12:00:00+05:30:15",
            "2025-10-25T12:00:00\u{2212}07:00",
            "2025-10-25T12:00:00\\u005a",
        ] {
            assert_eq!(StartedAt::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn whole_seconds_are_those_it_lies_in() {
        assert_eq!(
            StartedAt::from_unix(5, 900_000_000).in_whole_seconds(),
            StartedAt::from_unix(5, 0)
        );
        assert_eq!(
            StartedAt::from_unix(-5, 900_000_000).in_whole_seconds(),
            StartedAt::from_unix(-5, 0)
        );
        assert_eq!(
            StartedAt::from_unix(-5, 0).in_whole_seconds(),
            StartedAt::from_unix(-5, 0)
        );
    }

    #[test]
    fn the_standard_library_has_the_same_instant() {
        let epoch = SystemTime::UNIX_EPOCH;
        let second = std::time::Duration::from_secs(1);
        assert_eq!(
            StartedAt::from_unix(1, 5).to_system_time(),
            Some(epoch + second + second / 200_000_000)
        );
        assert_eq!(
            StartedAt::from_unix(-1, 0).to_system_time(),
            Some(epoch - second)
        );
        assert!(StartedAt::NEVER.to_system_time() < Some(epoch));
    }

    #[test]
    fn no_instant_is_too_far_away() {
        let ends = [
            StartedAt::from_unix(i64::MAX, u32::MAX),
            StartedAt::from_unix(i64::MIN, 0),
        ];
        assert_eq!(ends[0].to_string(), "9999-12-31T23:59:59.999999999Z");
        assert_eq!(ends[1].to_string(), "0000-01-01T00:00:00Z");
        assert_eq!(ends[1].age(ends[0]), SignedDuration::MAX);
        assert!(ends[1].in_whole_seconds() <= ends[1]);
        assert_eq!(
            StartedAt::from_unix(10, 0)
                .age(StartedAt::from_unix(25, 0))
                .as_secs(),
            15
        );
    }
}
