//! The lines of the agent's log, once: what each line is about, how much it matters, and how it begins. The agent
//! writes its lines by this table, and `beadlock log` reads them by it (docs/design.md#the-log).

use std::fmt::Display;

use serde::Serialize;

/// What a line is about: one for each beginning of a line.
#[expect(missing_docs, reason = "the beginning of a line says what it is about")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    CycleStarted,
    CycleComplete,
    CycleFailed,
    CycleTimedOut,
    /// A cycle left the database alone, because its lock could not be checked.
    NotChecked,
    Skipped,
    /// The holder of the lock, once in a streak of skips.
    Held,
    /// A streak of skips is long, once in it.
    StillSkipping,
    /// A streak of skips has ended.
    Resumed,
    RemovedStale,
    Committed,
    Pulled,
    Pushed,
    NotCommitting,
    NotPulling,
    NotPushing,
    NothingToSync,
    OnlyCommitting,
    CannotReach,
    CannotPush,
    PushRefused,
    /// The remote answers again.
    Reached,
    /// The first line of each file.
    Header,
    AgentStarted,
    /// The agent was told to end.
    Ending,
    AgentStopped,
    /// The address of the agent's status.
    Listening,
    NoGate,
    CannotWatch,
    /// A skip, or the removal of a stale lock, is missing in the audit file.
    SkipNotAudited,
    RemovalNotAudited,
    ConfigurationReloaded,
    ConfigurationNotReloaded,
    DatabaseFound,
    DatabaseGone,
    DatabaseRedirected,
    NothingServed,
    NotServing,
    CannotLook,
    /// What a cycle's command prints. It never begins as another line does.
    Output,
}

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As it should be.
    Info,
    /// Less happens than could.
    Warn,
    /// What should have happened did not.
    Error,
}

/// An event, its word in a JSON line (the words are a closed list), its level, and how its line begins. The order is
/// that of [`Event`]; where two lines begin alike, the longer beginning comes first.
type Row = (Event, &'static str, Level, &'static str);

#[rustfmt::skip]
static LINES: [Row; 40] = [
    (Event::CycleStarted, "cycle_started", Level::Info, "Starting sync cycle"),
    (Event::CycleComplete, "cycle_complete", Level::Info, "Sync cycle complete"),
    (Event::CycleFailed, "cycle_failed", Level::Error, "Sync cycle failed"),
    (Event::CycleTimedOut, "cycle_timed_out", Level::Error, "Sync cycle timed out"),
    (Event::NotChecked, "skipped", Level::Warn, "Skipping database (lock check failed: "),
    (Event::Skipped, "skipped", Level::Info, "Skipping database ("),
    (Event::Held, "held", Level::Info, "Held since "),
    (Event::StillSkipping, "still_skipping", Level::Warn, "Still skipping after "),
    (Event::Resumed, "resumed", Level::Info, "Resumed after "),
    (Event::RemovedStale, "removed_stale", Level::Warn, "Removed stale lock ("),
    (Event::Committed, "committed", Level::Info, "Committed "),
    (Event::Pulled, "pulled", Level::Info, "Pulled "),
    (Event::Pushed, "pushed", Level::Info, "Pushed "),
    (Event::NotCommitting, "notice", Level::Warn, "Not committing: "),
    (Event::NotPulling, "notice", Level::Warn, "Not pulling: "),
    (Event::NotPushing, "notice", Level::Warn, "Not pushing: "),
    (Event::NothingToSync, "notice", Level::Warn, "Nothing to sync: "),
    (Event::OnlyCommitting, "notice", Level::Warn, "Only committing: "),
    (Event::CannotReach, "unreachable", Level::Warn, "Cannot reach "),
    (Event::CannotPush, "unreachable", Level::Warn, "Cannot push to "),
    (Event::PushRefused, "unreachable", Level::Warn, "Push refused by "),
    (Event::Reached, "reached", Level::Info, "Reached it again after "),
    (Event::Header, "header", Level::Info, "beadlock-agent "),
    (Event::AgentStarted, "agent_started", Level::Info, "Agent started: "),
    (Event::Ending, "ending", Level::Info, "Ending on "),
    (Event::AgentStopped, "agent_stopped", Level::Info, "Agent stopped: "),
    (Event::Listening, "listening", Level::Info, "Listening at "),
    (Event::NoGate, "no_gate", Level::Warn, "No gate ("),
    (Event::CannotWatch, "cannot_watch", Level::Warn, "Cannot watch for changes ("),
    (Event::SkipNotAudited, "audit_failed", Level::Error, "lock_blocked of "),
    (Event::RemovalNotAudited, "audit_failed", Level::Error, "lock_stale_removed of "),
    (Event::ConfigurationReloaded, "configuration_reloaded", Level::Info, "Configuration reloaded: "),
    (Event::ConfigurationNotReloaded, "configuration_not_reloaded", Level::Error, "Configuration not reloaded: "),
    (Event::DatabaseFound, "database_found", Level::Info, "Database found: "),
    (Event::DatabaseGone, "database_gone", Level::Info, "Database gone: "),
    (Event::DatabaseRedirected, "database_redirected", Level::Warn, "Database redirected: "),
    (Event::NothingServed, "not_serving", Level::Error, "Not serving anything: no database to serve was found below "),
    (Event::NotServing, "not_serving", Level::Warn, "Not serving "),
    (Event::CannotLook, "cannot_look", Level::Warn, "Cannot look below "),
    (Event::Output, "output", Level::Info, ""),
];

/// How the line begins by which the original daemon takes a log over.
pub const ORIGINAL_START: &str = "Daemon started (interval: ";

/// Stands in front of a line of output that could be taken for the agent's.
pub const MARK: &str = "| ";

impl Event {
    /// Every event there is.
    pub fn all() -> impl Iterator<Item = Self> {
        LINES.iter().map(|(event, ..)| *event)
    }

    /// What a message is about, and what follows its beginning. All that begins like none of the agent's lines is
    /// output.
    pub fn parse(message: &str) -> (Self, &str) {
        let first = message.as_bytes().first();
        let known = LINES.iter().filter(|(.., beginning)| beginning.as_bytes().first() == first);
        let parse = |(event, .., beginning): &Row| Some((*event, message.strip_prefix(beginning)?));
        known.filter_map(parse).next().unwrap_or((Self::Output, message))
    }

    /// Its word: the value of `event` in a JSON line.
    pub fn word(self) -> &'static str {
        LINES[self as usize].1
    }

    /// How much it matters.
    pub fn level(self) -> Level {
        LINES[self as usize].2
    }

    /// How its line begins; "" for output.
    pub fn beginning(self) -> &'static str {
        LINES[self as usize].3
    }

    /// Its line: the beginning, and what follows it.
    pub fn line(self, rest: impl Display) -> String {
        format!("{}{rest}", self.beginning())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_order_of_the_events_and_no_beginning_hides_a_later_one() {
        for (at, (event, word, level, beginning)) in LINES.into_iter().enumerate() {
            assert_eq!(event as usize, at, "{event:?}");
            assert_eq!((event.word(), event.level(), event.beginning()), (word, level, beginning));
            assert_eq!(Event::parse(&format!("{beginning}x")), (event, "x"));
        }
        assert_eq!(LINES.len(), Event::Output as usize + 1);
    }

    #[test]
    fn a_message_that_only_looks_like_a_line_is_output() {
        for message in
            ["", "x", " Sync cycle complete", "sync cycle complete", "Skipping database", "é", MARK]
        {
            assert_eq!(Event::parse(message), (Event::Output, message));
        }
    }
}
