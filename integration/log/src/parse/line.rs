//! One line of a log: its time, its database and its message. Any bytes make a line.

use std::borrow::Cow;

use beadlock_core::log_line::{Event, ORIGINAL_START};
use serde::Serialize;

use super::slog;
use super::time::{LogClock, LogTime, LogZone};

#[derive(Debug, Default, PartialEq)]
pub struct LogLine<'a> {
    /// `None`: the line has no time of its own.
    pub at: Option<LogTime>,
    /// The database that a JSON line names. In plain text the name still stands in front of the message.
    pub database: Option<String>,
    pub message: Cow<'a, str>,
    /// Facts about the lock in a JSON line.
    pub lock: LockDetails,
    /// The daemon that writes lines of this form; `None` when both do.
    pub writer: Option<LogWriter>,
}

/// The daemon that writes a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogWriter {
    Agent,
    /// The daemon of bd, which the agent replaces.
    Original,
}

impl LogWriter {
    /// Looks in the beginning of a log for words that only one of the daemons uses.
    pub fn guess(head: &[u8]) -> Option<Self> {
        const ORIGINAL: [&str; 7] = [
            ORIGINAL_START,
            "Exported to JSONL",
            "Imported from JSONL",
            "Pulled from remote",
            "Using database: ",
            "RPC server ",
            "Received signal ",
        ];
        let head = String::from_utf8_lossy(head);
        let line = |beginning| head.find(&format!("] {beginning}"));
        let header = head.find(Event::Header.beginning());
        let agent = [
            header,
            line(Event::Held.beginning()),
            line(Event::Resumed.beginning()),
            line("State: "),
        ];
        let first = |found: &[Option<usize>]| found.iter().copied().flatten().min();
        match (first(&agent), first(&ORIGINAL.map(line))) {
            (None, None) => None,
            (Some(agent), Some(original)) if original < agent => Some(Self::Original),
            (None, Some(_)) => Some(Self::Original),
            _ => Some(Self::Agent),
        }
    }
}

/// The holder of a lock, as far as the log describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockDetails {
    pub pid: Option<i64>,
    pub host: Option<String>,
    /// When the lock was acquired, RFC 3339.
    pub since: Option<String>,
    /// A word of the closed list.
    pub reason: Option<String>,
}

impl LockDetails {
    /// Fills in the fields that are not known yet.
    pub fn complete(&mut self, other: &Self) {
        self.pid = self.pid.or(other.pid);
        let mine = [&mut self.host, &mut self.since, &mut self.reason];
        for (mine, other) in mine
            .into_iter()
            .zip([&other.host, &other.since, &other.reason])
        {
            if mine.is_none() {
                mine.clone_from(other);
            }
        }
    }
}

impl<'a> LogLine<'a> {
    /// Splits a line that comes without its end. The zone of a time depends on the `writer`.
    pub fn parse(raw: &'a [u8], clock: &mut LogClock, writer: Option<LogWriter>) -> Self {
        let raw = raw.strip_suffix(b"\r").unwrap_or(raw);
        // A log that was truncated while its daemon writes begins with zeros.
        let raw = &raw[raw.iter().take_while(|byte| **byte == 0).count()..];
        let prefixed = raw.strip_prefix(b"[daemon] ").unwrap_or(raw);
        match prefixed {
            [b'[', b'0'..=b'9', ..] => Self::stamped(prefixed, clock, writer),
            [b'0'..=b'9', ..] => clock
                .read(prefixed, b'/', LogZone::Local)
                .map(|(at, rest)| {
                    let writer = Some(LogWriter::Original);
                    Self {
                        writer,
                        ..Self::plain(Some(at), rest.strip_prefix(b" ").unwrap_or(rest))
                    }
                }),
            [b'{', ..] => slog::json(&String::from_utf8_lossy(prefixed)),
            [b't', b'i', b'm', b'e', b'=', ..] => slog::text(&String::from_utf8_lossy(prefixed)),
            _ => None,
        }
        .unwrap_or_else(|| Self::plain(None, raw))
    }

    /// `[YYYY-MM-DD HH:MM:SS] message`: in UTC from the agent, in local time from the original daemon.
    fn stamped(raw: &'a [u8], clock: &mut LogClock, writer: Option<LogWriter>) -> Option<Self> {
        // A line by which a daemon takes the log over says itself who writes it.
        let begins = |beginning: &str| {
            raw.get(22..)
                .is_some_and(|rest| rest.starts_with(beginning.as_bytes()))
        };
        let is_agents =
            begins(Event::Header.beginning()) || begins(Event::AgentStarted.beginning());
        let is_local = begins(ORIGINAL_START) || writer == Some(LogWriter::Original) && !is_agents;
        let zone = if is_local {
            LogZone::Local
        } else {
            LogZone::Utc
        };
        let (at, rest) = clock.read(&raw[1..], b'-', zone)?;
        let rest = rest.strip_prefix(b"]")?;
        Some(Self::plain(
            Some(at),
            rest.strip_prefix(b" ").unwrap_or(rest),
        ))
    }

    fn plain(at: Option<LogTime>, message: &'a [u8]) -> Self {
        Self {
            at,
            message: String::from_utf8_lossy(message),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(raw: &[u8]) -> (String, String) {
        let line = LogLine::parse(raw, &mut LogClock::default(), Some(LogWriter::Agent));
        (
            line.at.map(|at| at.to_string()).unwrap_or_default(),
            line.message.into_owned(),
        )
    }

    #[test]
    fn takes_the_forms_of_both_daemons_apart() {
        for line in [
            "[2026-02-01 10:11:12] Sync cycle complete",
            "[2026-02-01 10:11:12] Sync cycle complete\r",
            "\0\0\0[2026-02-01 10:11:12] Sync cycle complete",
            "time=2026-02-01T10:11:12.000Z level=INFO msg=\"Sync cycle complete\"",
            "{\"time\":\"2026-02-01T10:11:12Z\",\"msg\":\"Sync cycle complete\"}",
            "{\"time\":\"2026-02-01T10:11:12Z\",\"message\":\"Sync cycle complete\"}",
        ] {
            assert_eq!(
                parse(line.as_bytes()),
                ("2026-02-01 10:11:12".into(), "Sync cycle complete".into()),
                "{line}"
            );
        }
        for line in [
            "2026/02/01 10:11:12 Sync cycle complete",
            "[daemon] 2026/02/01 10:11:12 Sync cycle complete",
        ] {
            let (at, message) = parse(line.as_bytes());
            assert_eq!(
                (at.len(), message.as_str()),
                (19, "Sync cycle complete"),
                "{line}"
            );
        }
    }

    #[test]
    fn whatever_else_it_is_it_is_kept() {
        let cases: [(&[u8], &str); 9] = [
            (b"", ""),
            (b"\0", ""),
            (b"plain", "plain"),
            (b"[2026-02-01 10:11:12", "[2026-02-01 10:11:12"),
            (b"[2026-02-01 10:11:12]", ""),
            (b"[2026-13-01 10:11:12] x", "[2026-13-01 10:11:12] x"),
            (b"[2026-02-01 10:11:12] \xff\0\x1b", "\u{fffd}\0\u{1b}"),
            (b"{\"time\":", "{\"time\":"),
            (b"[daemon] x", "[daemon] x"),
        ];
        for (raw, message) in cases {
            assert_eq!(parse(raw).1, message, "{raw:?}");
        }
    }

    #[test]
    fn knows_the_two_apart_by_their_first_words() {
        let guess = |text: &str| LogWriter::guess(text.as_bytes());
        assert_eq!(
            guess("[2026-02-01 10:11:12] beadlock-agent 0.1.0, PID 7, host h, times in UTC\n"),
            Some(LogWriter::Agent)
        );
        assert_eq!(
            guess(
                "[2026-02-01 10:11:12] Starting sync cycle...\n[2026-02-01 10:11:12] Exported to JSONL\n"
            ),
            Some(LogWriter::Original)
        );
        assert_eq!(
            guess("[2026-02-01 10:11:12] Using database: x\n[…] beadlock-agent 0.1.0"),
            Some(LogWriter::Original)
        );
        assert_eq!(
            guess("[2026-02-01 10:11:12] Starting sync cycle...\n"),
            None
        );
    }
}
