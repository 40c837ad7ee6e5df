//! What a line of the log says, as data, and its two forms: text and JSON (docs/design.md#the-log).

use std::fmt::Write;

use beadlock_base::escape::is_harmless;
use beadlock_core::Reason;
use beadlock_core::log_line::{Event, Level};
use beadlock_core::record::Record;
use beadlock_core::record::beads::StartedAt;
use clap::ValueEnum;
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum LogFormat {
    /// `[YYYY-MM-DD HH:MM:SS] message`, UTC
    #[default]
    Text,
    /// One JSON object a line
    Json,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AgentLine {
    pub(crate) event: Event,
    pub(crate) message: String,
    pub(crate) lock: LockFields,
}

/// The lock that a line is about, as the lock file has it, untrusted.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct LockFields {
    pub(super) holder: Option<String>,
    pub(super) pid: Option<i64>,
    pub(super) host: Option<String>,
    /// When the lock was acquired, or the state began, RFC 3339.
    pub(super) since: Option<String>,
    /// A word of the closed list.
    pub(super) reason: Option<&'static str>,
}

impl AgentLine {
    /// A line without a lock.
    pub(super) fn new(event: Event, message: String) -> Self {
        Self {
            event,
            message,
            lock: LockFields::default(),
        }
    }

    pub(crate) fn about(mut self, record: &Record) -> Self {
        self.lock.holder = Some(record.holder().to_owned());
        self.lock.pid = Some(record.pid());
        self.lock.host = Some(record.hostname().to_owned());
        self.lock.since = record.started_at().map(|time| time.to_string());
        self
    }

    /// Since when that is so, in whole seconds.
    pub(crate) fn since(mut self, at: StartedAt) -> Self {
        self.lock.since = Some(StartedAt::from_unix(at.0.as_secs(), 0).to_string());
        self
    }

    pub(crate) fn because(mut self, reason: Reason) -> Self {
        self.lock.reason = Some(reason.as_str());
        self
    }

    /// The line of a file in this format, with its newline. `seconds` is Unix time.
    pub(crate) fn in_format(&self, format: LogFormat, seconds: i64, whose: Whose<'_>) -> String {
        match format {
            LogFormat::Text => self.text(seconds, whose.name),
            LogFormat::Json => self.json(seconds, whose.dir),
        }
    }

    /// `[YYYY-MM-DD HH:MM:SS] message`. Control characters in the message are escaped, except tabs.
    fn text(&self, seconds: i64, name: Option<&str>) -> String {
        let stamp = time(seconds).strftime("[%Y-%m-%d %H:%M:%S] ");
        let name = name.map(|name| format!("{name}: ")).unwrap_or_default();
        format!("{stamp}{name}{}\n", one_line(&self.message))
    }

    fn json(&self, seconds: i64, db: Option<&str>) -> String {
        let object = JsonLine {
            time: time(seconds).strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            level: self.event.level(),
            db,
            event: self.event.word(),
            message: &one_line(&self.message),
            lock: &self.lock,
        };
        #[expect(
            clippy::expect_used,
            reason = "strings and integers under fixed names always serialize"
        )]
        let json = serde_json::to_string(&object).expect("strings and integers under fixed names");
        // JSON leaves some characters as they are that a terminal would not; they are in strings only.
        let escaped = |c: char, line: &mut String| {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(line, "\\u{unit:04x}");
            }
        };
        rewritten(&json, is_harmless, escaped) + "\n"
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Whose<'a> {
    /// The name of the database in a shared stream.
    pub(crate) name: Option<&'a str>,
    /// The directory of the database; `None` for a line for all databases.
    pub(crate) dir: Option<&'a str>,
}

/// A JSON line: exactly these keys, in this order.
#[derive(Serialize)]
struct JsonLine<'a> {
    time: String,
    level: Level,
    db: Option<&'a str>,
    event: &'static str,
    message: &'a str,
    #[serde(flatten)]
    lock: &'a LockFields,
}

fn time(seconds: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
}

/// The text with Rust's escapes in the place of all characters that are not `kept`.
pub(crate) fn escaped_unless(kept: impl Fn(char) -> bool, text: &str) -> String {
    rewritten(text, kept, |c, line| line.extend(c.escape_default()))
}

fn rewritten(
    text: &str,
    kept: impl Fn(char) -> bool,
    escaped: impl Fn(char, &mut String),
) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if kept(c) {
            line.push(c)
        } else {
            escaped(c, &mut line)
        }
    }
    line
}

fn one_line(message: &str) -> String {
    escaped_unless(|c| is_harmless(c) || c == '\t', message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use beadlock_core::record::beads;

    const HOSTILE: &str =
        "x\r\n[2026-01-01 00:00:00] Sync cycle complete\u{2028}\u{202e}\u{1b}[1A\u{9b}\ty\u{e0041}";

    fn output(message: &str) -> AgentLine {
        AgentLine::new(Event::Output, message.to_owned())
    }

    #[test]
    fn a_text_stays_in_its_line() {
        let line = output(HOSTILE).text(1_767_225_600, None);
        assert!(
            line.starts_with("[2026-01-01 00:00:00] x\\r\\n[2026"),
            "{line}"
        );
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        assert!(line.contains("\\u{1b}[1A\\u{9b}\ty\\u{e0041}\n"), "{line}");
    }

    #[test]
    fn a_stream_that_several_share_names_the_database() {
        let line = output("x").text(0, Some("/r/.beads"));
        assert_eq!(line, "[1970-01-01 00:00:00] /r/.beads: x\n");
    }

    #[test]
    fn json_has_these_keys_in_this_order_and_says_the_same() {
        let line = output("Sync \"x\"");
        let json = line.json(1_767_225_600, None);
        assert_eq!(
            json,
            concat!(
                r#"{"time":"2026-01-01T00:00:00Z","level":"info","db":null,"event":"output","message":"Sync \"x\"","#,
                r#""holder":null,"pid":null,"host":null,"since":null,"reason":null}"#,
                "\n"
            )
        );
        let record = beads::Record {
            holder: HOSTILE.to_owned(),
            ..beads::Record::new("x", "1").unwrap()
        };
        let line = AgentLine {
            message: HOSTILE.to_owned(),
            ..line
        }
        .about(&Record::from(&record))
        .because(Reason::PidAlive);
        let json = line.json(0, Some(HOSTILE));
        assert!(
            json.trim_end_matches('\n').chars().all(is_harmless),
            "{json}"
        );
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(
            (&read["holder"], &read["db"]),
            (&HOSTILE.into(), &HOSTILE.into()),
            "raw"
        );
        assert_eq!(
            (&read["pid"], &read["host"]),
            (&record.pid.into(), &record.hostname.as_str().into())
        );
        assert_eq!(
            (&read["since"], &read["reason"]),
            (&record.started_at.to_string().into(), &"pid_alive".into())
        );
        let text = line.text(0, None);
        assert_eq!(
            read["message"],
            text["[1970-01-01 00:00:00] ".len()..text.len() - 1],
            "as in the text"
        );
    }

    #[test]
    fn no_time_is_a_trap() {
        for seconds in [i64::MIN, i64::MAX] {
            assert!(output("x").text(seconds, None).starts_with("[1970-"));
        }
    }
}
