//! Structured lines: the `key=value` text and the JSON of Go's slog, which newer versions of the original daemon
//! write, and the JSON of the agent.

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::fmt;

use super::line::{LogLine, LogWriter};
use super::time::LogTime;

/// Parses `time=… level=INFO msg="…" key=value`.
pub fn text(line: &str) -> Option<LogLine<'static>> {
    let (mut at, mut message, mut arguments) = (None, None, Vec::new());
    let mut rest = line;
    while !rest.is_empty() {
        let (key, after) = word(rest, '=')?;
        let (value, after) = word(after.strip_prefix('=')?, ' ')?;
        match key.as_str() {
            "time" if at.is_none() => at = LogTime::parse(&value),
            "level" if message.is_none() => {}
            "msg" if message.is_none() => message = Some(value),
            _ => argument(&mut arguments, key, value),
        }
        rest = after.trim_start_matches(' ');
    }
    let message = filled(&message?, &arguments).into();
    Some(LogLine {
        at: Some(at?),
        message,
        writer: Some(LogWriter::Original),
        ..LogLine::default()
    })
}

/// Parses one JSON object that has a message.
pub fn json(line: &str) -> Option<LogLine<'static>> {
    let Pairs(pairs) = serde_json::from_str(line).ok()?;
    let mut parsed = LogLine {
        writer: Some(LogWriter::Original),
        ..LogLine::default()
    };
    let (mut message, mut arguments) = (None, Vec::new());
    for (key, value) in pairs {
        let string = || value.as_str().map(str::to_owned);
        match key.as_str() {
            "time" => parsed.at = value.as_str().and_then(LogTime::parse),
            "level" => {}
            "message" => {
                parsed.writer = Some(LogWriter::Agent);
                message = string();
            }
            "msg" => message = string(),
            "db" => parsed.database = string(),
            "pid" => parsed.lock.pid = value.as_i64(),
            "host" => parsed.lock.host = string(),
            "since" => parsed.lock.since = string(),
            "reason" => parsed.lock.reason = string(),
            _ => argument(
                &mut arguments,
                key,
                string().unwrap_or_else(|| value.to_string()),
            ),
        }
    }
    let is_agents = parsed.writer == Some(LogWriter::Agent);
    let message = message?;
    parsed.message = if is_agents {
        message
    } else {
        filled(&message, &arguments)
    }
    .into();
    Some(parsed)
}

/// slog pairs the bare arguments of a call into keys and values. The key of an odd last argument is `!BADKEY`.
fn argument(arguments: &mut Vec<String>, key: String, value: String) {
    if key != "!BADKEY" {
        arguments.push(key);
    }
    arguments.push(value);
}

/// Fills in `Skipping %s (locked by %s)`: the original daemon passes printf formats to slog.
fn filled(message: &str, arguments: &[String]) -> String {
    let mut arguments = arguments.iter();
    let mut filled = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = rest.find('%') {
        let (before, verb) = rest.split_at(at);
        filled.push_str(before);
        let is_verb = [b's', b'v', b'd', b'q'].contains(verb.as_bytes().get(1).unwrap_or(&0));
        match is_verb.then(|| arguments.next()).flatten() {
            Some(argument) => {
                filled.push_str(argument);
                rest = &verb[2..];
            }
            None => {
                filled.push('%');
                rest = &verb[1..];
            }
        }
    }
    filled.push_str(rest);
    filled
}

/// Reads a quoted word, or a plain one up to `end`. Returns the word and the rest.
fn word(text: &str, end: char) -> Option<(String, &str)> {
    if !text.starts_with('"') {
        let at = text.find(end).unwrap_or(text.len());
        return Some((text[..at].to_owned(), &text[at..]));
    }
    let mut word = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return Some((word, &text[at + 1..])),
            '\\' => {
                let (_, escape) = characters.next()?;
                unescape(escape, &mut characters, &mut word)?;
            }
            c => word.push(c),
        }
    }
    None
}

/// Reads the rest of one of Go's escapes, after its backslash and first character.
fn unescape(
    escape: char,
    rest: &mut impl Iterator<Item = (usize, char)>,
    word: &mut String,
) -> Option<()> {
    let mut hex = |digits: usize| {
        let mut value = 0;
        for _ in 0..digits {
            value = value * 16 + rest.next()?.1.to_digit(16)?;
        }
        Some(char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER))
    };
    word.push(match escape {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'v' => '\u{b}',
        // A single byte is not a character.
        'x' => hex(2).map(|_| char::REPLACEMENT_CHARACTER)?,
        'u' => hex(4)?,
        'U' => hex(8)?,
        other => other,
    });
    Some(())
}

/// The members of an object in their order; a key may come several times.
struct Pairs(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Pairs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Pairs, M::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(line: &str) -> String {
        text(line).unwrap().message.into_owned()
    }

    #[test]
    fn reads_go_slog_text() {
        let line = r#"time=2026-02-01T10:11:12.044+03:00 level=INFO msg="Sync cycle complete""#;
        let read = text(line).unwrap();
        assert_eq!(
            (read.at.unwrap().to_string().as_str(), &*read.message),
            ("2026-02-01 07:11:12", "Sync cycle complete")
        );
        assert_eq!(
            message("time=2026-02-01T10:11:12Z level=WARN msg=boom path=/x"),
            "boom"
        );
    }

    #[test]
    fn puts_the_arguments_back_where_they_were_meant_to_be() {
        let cases = [
            (
                r#"msg="Starting %s..." !BADKEY="sync cycle""#,
                "Starting sync cycle...",
            ),
            (
                r#"msg="Skipping database (locked by %s)" !BADKEY=vc-executor"#,
                "Skipping database (locked by vc-executor)",
            ),
            (
                r#"msg="Skipping %s (locked by %s)" export=vc-executor"#,
                "Skipping export (locked by vc-executor)",
            ),
            (
                r#"msg="Removed stale lock (%s), proceeding with %s" vc-executor="sync cycle""#,
                "Removed stale lock (vc-executor), proceeding with sync cycle",
            ),
            (
                r#"msg="Skipping database (lock check failed: %v)" !BADKEY="malformed lock file: unexpected EOF""#,
                "Skipping database (lock check failed: malformed lock file: unexpected EOF)",
            ),
            (
                r#"msg="Pull failed: %v" !BADKEY="a\nb\t\"c\"\x00\u202e""#,
                "Pull failed: a\nb\t\"c\"\u{fffd}\u{202e}",
            ),
            (r#"msg="100% of %s" !BADKEY=x"#, "100% of x"),
            (r#"msg="%s and %s" !BADKEY=x"#, "x and %s"),
        ];
        for (rest, expected) in cases {
            assert_eq!(
                message(&format!("time=2026-02-01T10:11:12Z level=INFO {rest}")),
                expected
            );
        }
    }

    #[test]
    fn what_is_neither_is_refused() {
        for line in [
            "time=",
            "time=x msg=y",
            "msg=y",
            "time=2026-02-01T10:11:12Z",
            "time=2026-02-01T10:11:12Z msg=\"x",
            "time flies",
            r#"time=2026-02-01T10:11:12Z msg="\"#,
        ] {
            assert_eq!(text(line), None, "{line}");
        }
        for line in ["{", "[]", "{}", r#"{"msg":1}"#, r#"{"message":"x""#] {
            assert_eq!(json(line), None, "{line}");
        }
    }

    #[test]
    fn reads_json_of_both_daemons() {
        let line = r#"{"time":"2026-02-01T10:11:12Z","level":"info","db":"/r/.beads","event":"skip","message":"Skipping database (locked by vc)","holder":"vc","pid":77,"host":"ci-3","since":"2026-02-01T10:00:00Z","reason":"pid_alive"}"#;
        let read = json(line).unwrap();
        assert_eq!(
            (&*read.message, read.database.as_deref()),
            ("Skipping database (locked by vc)", Some("/r/.beads"))
        );
        assert_eq!(
            (
                read.lock.pid,
                read.lock.host.as_deref(),
                read.lock.reason.as_deref()
            ),
            (Some(77), Some("ci-3"), Some("pid_alive"))
        );
        assert_eq!(read.writer, Some(LogWriter::Agent));
        let line = r#"{"time":"2026-02-01T10:11:12.5+01:00","level":"INFO","msg":"Starting %s...","!BADKEY":"sync cycle","!BADKEY":"x"}"#;
        let read = json(line).unwrap();
        assert_eq!(
            (&*read.message, read.writer),
            ("Starting sync cycle...", Some(LogWriter::Original))
        );
        assert_eq!(read.at.unwrap().rfc3339(), "2026-02-01T09:11:12.5Z");
        assert_eq!(
            json(r#"{"time":7,"message":"x","db":null,"pid":null,"host":[]}"#)
                .unwrap()
                .at,
            None
        );
    }
}
