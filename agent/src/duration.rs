//! Durations as people type and read them: `10s`, `500ms`, `1h30m`; a bare number is seconds (DESIGN 8).

use std::time::Duration;

const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads a DUR.
///
/// # Errors
/// The words for the command line, with examples of what is understood.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    total(text.trim()).ok_or_else(|| format!("'{text}' is not a duration; type 10s, 500ms or 1h30m"))
}

/// The same, and above 0.
///
/// # Errors
/// As [`parse`].
pub(crate) fn parse_above_zero(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err("must be above 0; type 5s or 500ms".to_owned()),
        duration => Ok(duration),
    }
}

fn total(mut text: &str) -> Option<Duration> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_millis(text.parse::<u64>().ok()?.checked_mul(1_000)?));
    }
    let mut millis: u64 = 0;
    while !text.is_empty() {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = text.split_at(digits);
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, rest) = rest.split_at(letters);
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
        millis = millis.checked_add(number.parse::<u64>().ok()?.checked_mul(*factor)?)?;
        text = rest;
    }
    Some(Duration::from_millis(millis))
}

/// How long something took or may take: `340ms`, `1.2s`, `2m`, `1h30m`.
pub(crate) fn words(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let seconds = millis / 1_000;
    match seconds {
        0 => format!("{millis}ms"),
        1..60 if millis % 1_000 < 100 => format!("{seconds}s"),
        1..60 => format!("{seconds}.{}s", millis % 1_000 / 100),
        60..3_600 => pair(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => pair(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => pair(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

fn pair(big: u64, big_unit: &str, small: u64, small_unit: &str) -> String {
    if small == 0 { format!("{big}{big_unit}") } else { format!("{big}{big_unit}{small}{small_unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_type() {
        for (text, millis) in [
            ("5", 5_000),
            ("10s", 10_000),
            ("500ms", 500),
            ("1h30m", 5_400_000),
            ("0", 0),
            ("2m", 120_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in
            ["", "x", "5x", "-1s", "1.5s", "s", "99999999999999999999", "18446744073709551615d", "1 h", "５s"]
        {
            let error = parse(text).unwrap_err();
            assert!(error.contains("type 10s, 500ms or 1h30m"), "{text}: {error}");
        }
        assert!(parse_above_zero("0ms").unwrap_err().contains("above 0"));
    }

    #[test]
    fn says_it_shortly() {
        for (millis, text) in [
            (0, "0ms"),
            (340, "340ms"),
            (1_040, "1s"),
            (1_250, "1.2s"),
            (120_000, "2m"),
            (90_500, "1m30s"),
            (5_400_000, "1h30m"),
            (90_000_000, "1d1h"),
        ] {
            assert_eq!(words(Duration::from_millis(millis)), text);
        }
    }
}
