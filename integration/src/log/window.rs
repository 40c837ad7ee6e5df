//! The time window of `--since` and `--until`.

use std::time::Duration;

use beadlock_checker::internal::duration;
use jiff::civil::DateTime;

use super::parse::time::LogTime;
use crate::words::millis;

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
    /// This long before now.
    Ago(Duration),
}

impl WindowEnd {
    /// The point in time, seen from `now`.
    pub fn at(self, now: LogTime) -> LogTime {
        match self {
            Self::At(at) => at,
            Self::Ago(ago) => LogTime(now.0.saturating_sub_unsigned(millis(ago))),
        }
    }
}

/// Parses RFC 3339, `YYYY-MM-DD`, `YYYY-MM-DD HH:MM[:SS]` (UTC), or a duration back from now. The duration may have
/// days and weeks, such as `3d` or `1w2d`.
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
        && !text.get(10..).is_some_and(|time| time.contains(['+', '-', '[']))
    {
        return Ok(WindowEnd::At(LogTime::utc(civil)));
    }
    ago(text).map(WindowEnd::Ago).ok_or_else(|| {
        format!(
            "{text:?} is neither a time nor a duration back from now; examples: 2026-02-01, \
             '2026-02-01 13:30' (UTC), 2026-02-01T13:30:00+01:00, 2h, 3d"
        )
    })
}

/// Parses the same forms for the end of the window. A date alone means the end of that day.
///
/// # Errors
/// As [`parse_since`].
pub fn parse_until(text: &str) -> Result<WindowEnd, String> {
    const DAY: i64 = 24 * 60 * 60 * 1000;
    let is_date = !text.trim().contains(['T', 't', ' ', ':']);
    parse_since(text).map(|end| match end {
        WindowEnd::At(LogTime(midnight)) if is_date => WindowEnd::At(LogTime(midnight.saturating_add(DAY - 1))),
        end => end,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_may_be_typed() {
        let at = |text: &str| match parse_since(text).unwrap() {
            WindowEnd::At(at) => at.rfc3339(),
            WindowEnd::Ago(ago) => format!("{}s ago", ago.as_secs()),
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
        let at = |text: &str| match parse_until(text).unwrap() {
            WindowEnd::At(at) => at.rfc3339(),
            WindowEnd::Ago(ago) => format!("{}s ago", ago.as_secs()),
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
        assert!(parse_until("2026-02-30").is_err());
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
            let error = parse_since(text).unwrap_err();
            assert!(error.contains("examples: 2026-02-01, "), "{text}: {error}");
        }
    }
}
