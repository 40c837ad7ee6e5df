//! Durations as people type and read them. DUR is `10s`, `500ms`, `1h30m`; a bare number is seconds
//! (docs/design.md#settings).

use std::time::Duration;

/// Parses a DUR. Never negative.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no duration; examples: 10s, 500ms, 1h30m, 90 (seconds)");
    let text = text.trim();
    let is_bare = !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let signed = if is_bare {
        format!("{text}s")
    } else {
        text.to_owned()
    };
    if !signed.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(wrong());
    }
    let parsed: jiff::SignedDuration = signed.parse().map_err(|_| wrong())?;
    Duration::try_from(parsed).map_err(|_| wrong())
}

/// Parses a DUR that must not be 0.
pub fn parse_above_zero(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err("must be above 0; type 5s or 500ms".to_owned()),
        duration => Ok(duration),
    }
}

/// Parses a DUR, or `forever`, which is [`Duration::MAX`]: for the limit of a wait.
pub fn parse_or_forever(text: &str) -> Result<Duration, String> {
    match text.trim() {
        "forever" => Ok(Duration::MAX),
        _ => parse(text).map_err(|error| format!("{error}, forever")),
    }
}

/// The time that is left of a wait, for people: `12s left`, or `no time limit` for [`Duration::MAX`].
pub fn left(left: Duration) -> String {
    match left {
        Duration::MAX => "no time limit".to_owned(),
        left => format!("{} left", shown(left)),
    }
}

/// A duration for people: `350ms`, `2.5s`, `1m 30s`, `3h 2m`.
pub fn shown(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..10 if duration.subsec_millis() >= 100 => {
            format!("{seconds}.{}s", duration.subsec_millis() / 100)
        }
        1..60 => format!("{seconds}s"),
        60..3600 => pair(seconds / 60, "m", seconds % 60, "s"),
        3600..86_400 => pair(seconds / 3600, "h", seconds % 3600 / 60, "m"),
        _ => pair(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

fn pair(large: u64, unit: &str, small: u64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{unit}")
    } else {
        format!("{large}{unit} {small}{small_unit}")
    }
}

/// Reads the time between two looks: any duration from 100 ms on.
///
/// # Errors
/// What is wrong with it.
pub fn interval(text: &str) -> Result<Duration, String> {
    let interval = parse(text).map_err(|error| error.to_string())?;
    if interval < Duration::from_millis(100) {
        return Err("it must be at least 100ms".to_owned());
    }
    Ok(interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_contract_names() {
        let cases = [
            ("10s", 10_000),
            ("500ms", 500),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("2m", 120_000),
            ("10", 10_000),
            ("0", 0),
            ("1.5", 1_500),
            ("1.5s", 1_500),
            (" 7 ", 7_000),
        ];
        for (text, millis) in cases {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest_with_examples() {
        for text in [
            "",
            "s",
            "-1",
            "-1s",
            "+1s",
            "1s ago",
            "soon",
            "1d",
            "10 s x",
            "1e3",
            ".",
            "1..2",
            "99999999999999999999",
        ] {
            let error = parse(text).unwrap_err();
            assert!(
                error.contains("is no duration; examples: 10s, 500ms, 1h30m"),
                "{text}: {error}"
            );
        }
        assert!(parse_above_zero("0ms").unwrap_err().contains("above 0"));
    }

    #[test]
    fn a_wait_without_an_end_is_read_and_shown() {
        assert_eq!(parse_or_forever(" forever "), Ok(Duration::MAX));
        assert_eq!(parse_or_forever("90"), Ok(Duration::from_secs(90)));
        let error = parse_or_forever("for ever").unwrap_err();
        assert!(
            error.ends_with("examples: 10s, 500ms, 1h30m, 90 (seconds), forever"),
            "{error}"
        );
        assert!(parse("forever").is_err(), "only a wait may have no end");
        assert_eq!(left(Duration::MAX), "no time limit");
        assert_eq!(left(Duration::from_secs(3)), "3s left");
    }

    #[test]
    fn shows_two_units_at_most() {
        let cases = [
            (0, "0ms"),
            (350, "350ms"),
            (2_000, "2s"),
            (2_560, "2.5s"),
            (59_900, "59s"),
            (90_000, "1m 30s"),
            (3_600_000, "1h"),
            (10_920_000, "3h 2m"),
            (180_000_000, "2d 2h"),
        ];
        for (millis, words) in cases {
            assert_eq!(shown(Duration::from_millis(millis)), words);
        }
    }
}
