//! One line: when, about which database, what. Whatever it is made of, it is never an error.

use std::borrow::Cow;

use beadlock_checker::internal::log_line::{Event, ORIGINAL_START};

use super::slog::{self, Structured};
use super::time::{At, Clock, Zone};

/// A line, taken apart.
#[derive(Debug, PartialEq)]
pub struct Line<'a> {
    /// `None`: it has no time of its own.
    pub at: Option<At>,
    /// The database that a structured line names; in plain text it is still in front of the message.
    pub database: Option<String>,
    /// What it says.
    pub message: Cow<'a, str>,
    /// What a structured line says besides.
    pub extra: Extra,
    /// Who writes like this; `None` when it could be either.
    pub writer: Option<Writer>,
}

/// Who writes a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// `beadlock-agent`.
    Agent,
    /// The daemon of bd, which this one stands in for.
    Original,
}

impl Writer {
    /// Whose the beginning of a log is, by words that only one of them uses.
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
        let agent = [header, line(Event::Held.beginning()), line(Event::Resumed.beginning())];
        let first = |found: &[Option<usize>]| found.iter().copied().flatten().min();
        match (first(&agent), first(&ORIGINAL.map(line))) {
            (None, None) => None,
            (Some(agent), Some(original)) if original < agent => Some(Self::Original),
            (None, Some(_)) => Some(Self::Original),
            _ => Some(Self::Agent),
        }
    }
}

/// Who holds the lock, as far as a line says it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extra {
    /// The holder's PID.
    pub pid: Option<i64>,
    /// The holder's host.
    pub host: Option<String>,
    /// When the lock was acquired, RFC 3339.
    pub since: Option<String>,
    /// A word of the closed list.
    pub reason: Option<String>,
}

impl Extra {
    /// Takes over what is not known yet.
    pub fn complete(&mut self, other: &Self) {
        fn fill<T: Clone>(mine: &mut Option<T>, other: &Option<T>) {
            if mine.is_none() {
                mine.clone_from(other);
            }
        }
        fill(&mut self.pid, &other.pid);
        fill(&mut self.host, &other.host);
        fill(&mut self.since, &other.since);
        fill(&mut self.reason, &other.reason);
    }
}

impl<'a> Line<'a> {
    /// Takes apart a line without its end. A time without a zone is `writer`'s.
    pub fn parse(raw: &'a [u8], clock: &mut Clock, writer: Option<Writer>) -> Self {
        // A log that was truncated under its writer begins with zeros.
        let mut raw = raw.strip_suffix(b"\r").unwrap_or(raw);
        while let [0, rest @ ..] = raw {
            raw = rest;
        }
        let prefixed = raw.strip_prefix(b"[daemon] ").unwrap_or(raw);
        match prefixed {
            [b'[', b'0'..=b'9', ..] => Self::stamped(prefixed, clock, writer),
            [b'0'..=b'9', ..] => clock.read(prefixed, b'/', Zone::Local).map(|(at, rest)| {
                Self::plain(Some(at), rest.strip_prefix(b" ").unwrap_or(rest), Some(Writer::Original))
            }),
            [b'{', ..] => slog::json(&String::from_utf8_lossy(prefixed)).map(Self::structured),
            [b't', b'i', b'm', b'e', b'=', ..] => {
                slog::text(&String::from_utf8_lossy(prefixed)).map(Self::structured)
            }
            _ => None,
        }
        .unwrap_or_else(|| Self::plain(None, raw, None))
    }

    /// `[YYYY-MM-DD HH:MM:SS] message`: the agent's in UTC, the original daemon's in local time.
    fn stamped(raw: &'a [u8], clock: &mut Clock, writer: Option<Writer>) -> Option<Self> {
        let zone = if writer == Some(Writer::Original) { Zone::Local } else { Zone::Utc };
        let (at, rest) = clock.read(&raw[1..], b'-', zone)?;
        let rest = rest.strip_prefix(b"]")?;
        Some(Self::plain(Some(at), rest.strip_prefix(b" ").unwrap_or(rest), None))
    }

    fn plain(at: Option<At>, message: &'a [u8], writer: Option<Writer>) -> Self {
        let message = String::from_utf8_lossy(message);
        Self { at, database: None, message, extra: Extra::default(), writer }
    }

    fn structured(read: Structured) -> Self {
        let writer = if read.is_agents { Writer::Agent } else { Writer::Original };
        Self {
            at: read.at,
            database: read.database,
            message: Cow::Owned(read.message),
            extra: read.extra,
            writer: Some(writer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(raw: &[u8]) -> (String, String) {
        let line = Line::parse(raw, &mut Clock::new(), Some(Writer::Agent));
        (line.at.map(|at| at.to_string()).unwrap_or_default(), line.message.into_owned())
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
        for line in
            ["2026/02/01 10:11:12 Sync cycle complete", "[daemon] 2026/02/01 10:11:12 Sync cycle complete"]
        {
            let (at, message) = parse(line.as_bytes());
            assert_eq!((at.len(), message.as_str()), (19, "Sync cycle complete"), "{line}");
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
        let guess = |text: &str| Writer::guess(text.as_bytes());
        assert_eq!(
            guess("[2026-02-01 10:11:12] beadlock-agent 0.1.0, PID 7, host h, times in UTC\n"),
            Some(Writer::Agent)
        );
        assert_eq!(
            guess("[2026-02-01 10:11:12] Starting sync cycle...\n[2026-02-01 10:11:12] Exported to JSONL\n"),
            Some(Writer::Original)
        );
        assert_eq!(
            guess("[2026-02-01 10:11:12] Using database: x\n[…] beadlock-agent 0.1.0"),
            Some(Writer::Original)
        );
        assert_eq!(guess("[2026-02-01 10:11:12] Starting sync cycle...\n"), None);
    }
}
