//! A log's timelines for people and for programs.
//!
//! [`answer`] says for each database whether it syncs and why not, and [`advice`] what to type. [`text`] and [`json`]
//! render both with the figures of the timelines, [`page`] fits the text into a terminal.

mod advice;
mod answer;
mod json;
mod page;
mod text;

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use beadlock_base::escape::escaped_path;
use serde::Serialize;

use super::here::LockHere;
use super::parse::time::LogTime;
use super::timeline::{LogTimeline, database::DatabaseTimeline};
use beadlock_claim::words::Part;
pub use page::Page;
pub use text::{CLAIM_ENDS, UNREADABLE_ENDS, text};

/// One log, ready to be rendered.
#[derive(Debug)]
pub struct LogReport {
    /// `None`: standard input.
    pub path: Option<PathBuf>,
    pub files: Vec<PathBuf>,
    /// Files that were not read, because they are compressed.
    pub compressed: Vec<PathBuf>,
    pub log: LogTimeline,
    /// The locks that are there now, by the place of their databases; of databases that are skipped alone.
    pub locks: Vec<Option<LockHere>>,
    /// The wall clock, or the end of the window.
    pub end: LogTime,
    /// The database as a command names it, where the log lies in its database.
    pub target: Option<Part<'static>>,
    pub host: Option<String>,
}

impl LogReport {
    fn name(&self) -> String {
        self.path
            .as_deref()
            .map_or_else(|| "standard input".to_owned(), escaped_path)
    }

    /// Each database, and what the log says about it.
    pub fn answers(&self) -> impl Iterator<Item = (&DatabaseTimeline, LogAnswer)> {
        self.log.databases.iter().enumerate().map(|(at, timeline)| {
            let lock = self.locks.get(at).and_then(Option::as_ref);
            (timeline, answer::answer(self, timeline, lock))
        })
    }
}

/// The words of [`LogAnswer::state`], the worst first, each with its heading in a table of several databases.
pub const STATES: [(&str, &str); 17] = [
    ("stopped", "Stopped"),
    ("gone", "Gone"),
    ("halted", "Halted"),
    ("silent", "Silent"),
    ("not_serving", "Not serving"),
    ("failing", "Failing"),
    ("unreadable", "Skipping"),
    ("held", "Skipping"),
    ("busy", "Skipping"),
    ("incomplete", "Not syncing"),
    ("local_only", "Not pushing"),
    ("behind", "Not pulling"),
    ("unknown", "Unknown"),
    ("started", "Starting"),
    ("in_cycle", "In a cycle"),
    ("resumed", "Syncing"),
    ("syncing", "Syncing"),
];

/// Whether a database syncs at the end of its log, since when not, why, and what to type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogAnswer {
    /// A word of `STATES`.
    pub state: &'static str,
    /// Whether the database syncs; `None`: the log cannot say.
    pub syncing: Option<bool>,
    /// Since when it does not sync, or is silent.
    pub since: Option<LogTime>,
    /// The log begins at that time, so it may have been earlier.
    pub is_first: bool,
    /// The time from [`LogAnswer::since`] to [`LogAnswer::as_of`].
    pub duration: Option<Duration>,
    /// The log speaks for the time up to here.
    pub as_of: Option<LogTime>,
    /// The beginning of the message, where that is a heading of `STATES`; else empty.
    pub verdict: &'static str,
    /// The answer in one line for people.
    pub message: String,
    /// The message without what every row of a table has in columns of its own.
    pub because: String,
    pub(crate) more: Vec<String>,
    /// The commands to type; there may be none.
    pub next: Vec<SuggestedCommand>,
    /// The time without a line, where that is too long.
    pub silent: Option<Duration>,
}

/// A command to type, and its purpose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SuggestedCommand {
    pub command: String,
    pub why: Cow<'static, str>,
}

/// The sentence of an answer: `VERDICT since 15:55:57 (45m): BECAUSE`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Statement {
    /// A heading of [`STATES`], or empty.
    verdict: &'static str,
    /// The text after the verdict: since when. Without a verdict, the whole statement.
    rest: String,
    because: Option<String>,
}

impl Statement {
    /// A statement that does not begin with a heading.
    fn plain(words: impl Into<String>, because: Option<&str>) -> Self {
        Self {
            verdict: "",
            rest: words.into(),
            because: because.map(str::to_owned),
        }
    }

    fn of(verdict: &'static str, rest: impl Into<String>, because: impl Into<String>) -> Self {
        Self {
            verdict,
            rest: rest.into(),
            because: Some(because.into()),
        }
    }
}

impl LogAnswer {
    fn new(state: &'static str, syncing: Option<bool>, statement: Statement) -> Self {
        let Statement {
            verdict,
            rest,
            because,
        } = statement;
        let head = format!("{verdict}{rest}");
        let (message, because) = match because {
            Some(because) => (format!("{head}: {because}"), because),
            None => (head.clone(), head),
        };
        Self {
            state,
            syncing,
            verdict,
            message,
            because,
            ..Self::default()
        }
    }

    /// Index of the state in [`STATES`]; a cycle that has not ended in time counts as silence.
    pub(crate) fn rank(&self) -> usize {
        let state = if self.state == "in_cycle" && self.syncing.is_none() {
            "silent"
        } else {
            self.state
        };
        STATES
            .iter()
            .position(|(word, _)| *word == state)
            .unwrap_or(0)
    }

    pub(crate) fn is_trouble(&self) -> bool {
        self.syncing != Some(true) && self.state != "started"
    }
}
