//! The time window of `--since` and `--until`.

use std::time::Duration;

use beadlock_base::duration;
use jiff::civil::{DateTime, Time};
use jiff::{Span, SpanRelativeTo};

use super::parse::time::LogTime;
use beadlock_claim::words::millis;

const DAY: i64 = 24 * 60 * 60 * 1000;

/// The time that the user asks for; both ends belong to it.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogWindow {
    pub since: Option<LogTime>,
    pub until: Option<LogTime>,
}

/// An end of the window as the user typed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowEnd {
    At(LogTime),
    /// A time this long before now.
    Ago(Duration),
    /// The last time that a clock in UTC showed this.
    Clock(Time),
    /// The day that lies so many days before the day of now, in UTC: its beginning, or its end.
    Day {
        ago: i64,
        is_end: bool,
    },
}

impl WindowEnd {
    /// The point in time, seen from `now`.
    pub fn at(self, now: LogTime) -> LogTime {
        let today = LogTime::utc(now.civil().date().to_datetime(Time::midnight())).0;
        match self {
            Self::At(at) => at,
            Self::Ago(ago) => LogTime(now.0.saturating_sub_unsigned(millis(ago))),
            Self::Clock(time) => {
                let at = LogTime::utc(now.civil().date().to_datetime(time));
                if at > now {
                    LogTime(at.0.saturating_sub(DAY))
                } else {
                    at
                }
            }
            Self::Day { ago, is_end: false } => LogTime(today.saturating_sub(ago * DAY)),
            Self::Day { ago, is_end: true } => {
                LogTime(today.saturating_sub(ago * DAY).saturating_add(DAY - 1))
            }
        }
    }
}

/// Parses RFC 3339, `YYYY-MM-DD`, `YYYY-MM-DD HH:MM[:SS]`, `HH:MM[:SS]`, `today`, `yesterday` (all UTC), or a duration
/// back from now. The duration may have days and weeks, such as `3d`, `1w2d` or `2h ago`.
///
/// # Errors
/// What is wrong, with examples of what is right.
pub fn parse_since(text: &str) -> Result<WindowEnd, String> {
    let text = text.trim();
    if let Some(at) = LogTime::parse(text) {
        return Ok(WindowEnd::At(at));
    }
    // `DateTime` ignores an offset that has no `Z` or time before it.
    if let Ok(civil) = text.parse::<DateTime>()
        && !text
            .get(10..)
            .is_some_and(|time| time.contains(['+', '-', '[']))
    {
        return Ok(WindowEnd::At(LogTime::utc(civil)));
    }
    match text.to_ascii_lowercase().as_str() {
        "today" => {
            return Ok(WindowEnd::Day {
                ago: 0,
                is_end: false,
            });
        }
        "yesterday" => {
            return Ok(WindowEnd::Day {
                ago: 1,
                is_end: false,
            });
        }
        _ => {}
    }
    clock(text).map(WindowEnd::Clock).or_else(|| ago(text).map(WindowEnd::Ago)).ok_or_else(|| {
        format!(
            "{text:?} is neither a time nor a duration back from now; examples: 2026-02-01, '2026-02-01 13:30', 02:00 \
             (the last one that has passed), yesterday, today (all UTC), 2026-02-01T13:30:00+01:00, 2h, '2h ago', 3d"
        )
    })
}

/// Parses the same forms for the end of the window. A day means its end.
///
/// # Errors
/// As [`parse_since`].
pub fn parse_until(text: &str) -> Result<WindowEnd, String> {
    let is_date = !text.trim().contains(['T', 't', ' ', ':']);
    parse_since(text).map(|end| match end {
        WindowEnd::At(LogTime(midnight)) if is_date => {
            WindowEnd::At(LogTime(midnight.saturating_add(DAY - 1)))
        }
        WindowEnd::Day { ago, .. } => WindowEnd::Day { ago, is_end: true },
        end => end,
    })
}

/// `02:00`, `2:00`, `02:00:30`.
fn clock(text: &str) -> Option<Time> {
    let is_clock = text.contains(':')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b':');
    let padded = if text.find(':') == Some(1) {
        format!("0{text}")
    } else {
        text.to_owned()
    };
    padded.parse().ok().filter(|_| is_clock)
}

/// `90`, `2h`, `-2h`, `2h ago`, `1w2d3h`, `1d 12h`.
fn ago(text: &str) -> Option<Duration> {
    if let Ok(duration) = duration::parse(text) {
        return Some(duration);
    }
    let span: Span = text.parse().ok()?;
    let duration = span
        .to_duration(SpanRelativeTo::days_are_24_hours())
        .ok()?
        .unsigned_abs();
    (!text.starts_with('+') && !duration.is_zero()).then_some(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At a quarter past three in the night of a Sunday.
    fn seen(end: &Result<WindowEnd, String>) -> String {
        let now = LogTime::parse("2026-03-01T03:15:00Z").unwrap();
        end.as_ref().unwrap().at(now).rfc3339()
    }

    #[test]
    fn reads_what_may_be_typed() {
        let cases = [
            (
                "2026-02-01",
                "2026-02-01T00:00:00Z",
                "2026-02-01T23:59:59.999Z",
            ),
            (
                " 20260201 ",
                "2026-02-01T00:00:00Z",
                "2026-02-01T23:59:59.999Z",
            ),
            (
                "2026-02-01 00:00",
                "2026-02-01T00:00:00Z",
                "2026-02-01T00:00:00Z",
            ),
            (
                "2026-02-01 13:30",
                "2026-02-01T13:30:00Z",
                "2026-02-01T13:30:00Z",
            ),
            (
                "2026-02-01 13:30:05",
                "2026-02-01T13:30:05Z",
                "2026-02-01T13:30:05Z",
            ),
            (
                "2026-02-01T13:30:05",
                "2026-02-01T13:30:05Z",
                "2026-02-01T13:30:05Z",
            ),
            (
                "2026-02-01T13:30:05Z",
                "2026-02-01T13:30:05Z",
                "2026-02-01T13:30:05Z",
            ),
            (
                "2026-02-01T13:30:05.5+01:00",
                "2026-02-01T12:30:05.5Z",
                "2026-02-01T12:30:05.5Z",
            ),
            ("02:00", "2026-03-01T02:00:00Z", "2026-03-01T02:00:00Z"),
            ("2:00", "2026-03-01T02:00:00Z", "2026-03-01T02:00:00Z"),
            ("03:15", "2026-03-01T03:15:00Z", "2026-03-01T03:15:00Z"),
            ("03:15:01", "2026-02-28T03:15:01Z", "2026-02-28T03:15:01Z"),
            ("23:30", "2026-02-28T23:30:00Z", "2026-02-28T23:30:00Z"),
            ("00:00", "2026-03-01T00:00:00Z", "2026-03-01T00:00:00Z"),
            ("today", "2026-03-01T00:00:00Z", "2026-03-01T23:59:59.999Z"),
            (
                "Yesterday",
                "2026-02-28T00:00:00Z",
                "2026-02-28T23:59:59.999Z",
            ),
            ("2h", "2026-03-01T01:15:00Z", "2026-03-01T01:15:00Z"),
            ("2h ago", "2026-03-01T01:15:00Z", "2026-03-01T01:15:00Z"),
            ("-2h", "2026-03-01T01:15:00Z", "2026-03-01T01:15:00Z"),
            ("90", "2026-03-01T03:13:30Z", "2026-03-01T03:13:30Z"),
            ("3d", "2026-02-26T03:15:00Z", "2026-02-26T03:15:00Z"),
            ("1w2d3h", "2026-02-20T00:15:00Z", "2026-02-20T00:15:00Z"),
            ("1d 12h", "2026-02-27T15:15:00Z", "2026-02-27T15:15:00Z"),
        ];
        for (text, since, until) in cases {
            assert_eq!(
                (
                    seen(&parse_since(text)).as_str(),
                    seen(&parse_until(text)).as_str()
                ),
                (since, until),
                "{text}"
            );
        }
    }

    #[test]
    fn refuses_the_rest_with_examples() {
        for text in [
            "",
            "tomorrow",
            "yesterday ago",
            "2026-02-30",
            "2026-02-01 25:00",
            "24:00",
            "12:60",
            "1:2",
            "001:00",
            "12:",
            ":12",
            "12:00:00:00",
            "+2:00",
            "--2h",
            "d",
            "w",
            "3dd",
            "1d1d",
            "3y",
            "99999999999999999999d",
            "2026-02-01 13:30[Europe/Berlin]",
        ] {
            let error = parse_since(text).unwrap_err();
            for example in [
                "examples: 2026-02-01, ",
                "02:00",
                "yesterday",
                "today",
                "2h ago",
            ] {
                assert!(error.contains(example), "{text}: {error}");
            }
            assert!(parse_until(text).is_err(), "{text}");
        }
    }
}
