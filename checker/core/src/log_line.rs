//! The lines of the agent's log, once: what each line is about, how much it matters, and how it begins. The agent
//! writes its lines by this table, and `beadlock log` reads them by it (docs/design.md#the-log).

use std::fmt::Display;

use serde::{Deserialize, Serialize};

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// All is as it should be.
    Info,
    /// Less happens than could.
    Warn,
    /// Something that should have happened did not.
    Error,
}

/// Declares the events and their table: each with its word in a JSON line (the words are a closed list), its level, and
/// how its line begins. Where two lines begin alike, the longer beginning comes first.
macro_rules! events {
    ($($(#[$doc:meta])* $Event:ident: $word:literal, $Level:ident, $beginning:literal;)*) => {
        /// The event that a line reports: one for each beginning of a line.
        #[expect(missing_docs, reason = "the beginning of a line says what it is about")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Event {
            $($(#[$doc])* $Event,)*
        }

        static LINES: &[(Event, &str, Level, &str)] = &[$((Event::$Event, $word, Level::$Level, $beginning),)*];
    };
}

events! {
    CycleStarted: "cycle_started", Info, "Starting sync cycle";
    CycleComplete: "cycle_complete", Info, "Sync cycle complete";
    /// A sync ran to its end, and not everything is at the remote.
    CycleIncomplete: "cycle_incomplete", Warn, "Sync cycle incomplete";
    CycleFailed: "cycle_failed", Error, "Sync cycle failed";
    CycleTimedOut: "cycle_timed_out", Error, "Sync cycle timed out";
    StateNotServing: "state", Warn, "State: not_serving";
    StateFailed: "state", Error, "State: failed";
    StateSkipped: "state", Info, "State: skipped";
    StateLocalOnly: "state", Warn, "State: local_only";
    StateBehind: "state", Warn, "State: behind";
    StateStarting: "state", Info, "State: starting";
    StateIdle: "state", Info, "State: idle";
    StateSynced: "state", Info, "State: synced";
    /// A cycle left the database alone, because its lock could not be checked.
    NotChecked: "skipped", Warn, "Skipping database (lock check failed: ";
    Skipped: "skipped", Info, "Skipping database (";
    /// The holder of the lock, once in a streak of skips.
    Held: "held", Info, "Held since ";
    /// A streak of skips is long, once in it.
    StillSkipping: "still_skipping", Warn, "Still skipping after ";
    /// A streak of skips has ended.
    Resumed: "resumed", Info, "Resumed after ";
    RemovedStale: "removed_stale", Warn, "Removed stale lock (";
    Committed: "committed", Info, "Committed ";
    Pulled: "pulled", Info, "Pulled ";
    /// Records of both sides of a pull have come together.
    Merged: "merged", Info, "Merged ";
    Pushed: "pushed", Info, "Pushed ";
    NotCommitting: "notice", Warn, "Not committing: ";
    /// A file that the agent keeps in git's directory is not written.
    NotWriting: "notice", Warn, "Not writing ";
    /// Once a day, for as long as it is so.
    TrackedSecret: "notice", Warn, "Tracked secret: ";
    NotPulling: "notice", Warn, "Not pulling: ";
    NotPushing: "notice", Warn, "Not pushing: ";
    NothingToSync: "notice", Warn, "Nothing to sync: ";
    OnlyCommitting: "notice", Warn, "Only committing: ";
    Notice: "notice", Warn, "Notice: ";
    CannotReach: "unreachable", Warn, "Cannot reach ";
    CannotPush: "unreachable", Warn, "Cannot push to ";
    PushRefused: "unreachable", Warn, "Push refused by ";
    /// The remote answers again.
    Reached: "reached", Info, "Reached it again after ";
    /// The first line of each log file.
    Header: "header", Info, "beadlock-agent ";
    AgentStarted: "agent_started", Info, "Agent started: ";
    /// The agent was told to end.
    Ending: "ending", Info, "Ending on ";
    AgentStopped: "agent_stopped", Info, "Agent stopped: ";
    /// Another agent serves the database, too.
    AlsoServed: "also_served", Warn, "Served already by ";
    /// The address of the agent's status.
    Listening: "listening", Info, "Listening at ";
    NoGate: "no_gate", Warn, "No gate (";
    /// A session in the fleet has begun.
    FleetJoined: "fleet_joined", Info, "Joined the fleet ";
    /// A session in the fleet has ended; running work is being ended.
    FleetLost: "fleet_lost", Warn, "Lost the fleet: ";
    CannotWatch: "cannot_watch", Warn, "Cannot watch for changes (";
    /// A skip, or the removal of a stale lock, is missing in the audit file.
    SkipNotAudited: "audit_failed", Error, "lock_blocked of ";
    RemovalNotAudited: "audit_failed", Error, "lock_stale_removed of ";
    ConfigurationReloaded: "configuration_reloaded", Info, "Configuration reloaded: ";
    ConfigurationNotReloaded: "configuration_not_reloaded", Error, "Configuration not reloaded: ";
    DatabaseFound: "database_found", Info, "Database found: ";
    DatabaseGone: "database_gone", Info, "Database gone: ";
    DatabaseRedirected: "database_redirected", Warn, "Database redirected: ";
    NothingServed: "not_serving", Error, "Not serving anything: no database to serve was found below ";
    NotServing: "not_serving", Warn, "Not serving ";
    CannotLook: "cannot_look", Warn, "Cannot look below ";
    /// A line that a cycle's command prints. It never begins as another line does.
    Output: "output", Info, "";
}

/// How the line begins by which the original daemon takes a log over.
pub const ORIGINAL_START: &str = "Daemon started (interval: ";

/// The prefix of a line of output that could be taken for the agent's.
pub const MARK: &str = "| ";

impl Event {
    /// Every event there is.
    pub fn all() -> impl Iterator<Item = Self> {
        LINES.iter().map(|(event, ..)| *event)
    }

    /// The event of a message, and the text after its beginning. A message that begins like none of the agent's lines
    /// is output.
    pub fn parse(message: &str) -> (Self, &str) {
        let first = message.as_bytes().first();
        let known = LINES
            .iter()
            .filter(|(.., beginning)| beginning.as_bytes().first() == first);
        let parse = |(event, .., beginning): &(Event, _, _, &str)| {
            Some((*event, message.strip_prefix(beginning)?))
        };
        known
            .filter_map(parse)
            .next()
            .unwrap_or((Self::Output, message))
    }

    /// The word of the event: the value of `event` in a JSON line.
    pub fn word(self) -> &'static str {
        LINES[self as usize].1
    }

    /// How much the event matters.
    pub fn level(self) -> Level {
        LINES[self as usize].2
    }

    /// The state that a line of this event reports, as JSON and labels have it: `local_only`. "" for other events.
    pub fn state(self) -> &'static str {
        match self {
            Self::StateNotServing => "not_serving",
            Self::StateFailed => "failed",
            Self::StateSkipped => "skipped",
            Self::StateLocalOnly => "local_only",
            Self::StateBehind => "behind",
            Self::StateStarting => "starting",
            Self::StateIdle => "idle",
            Self::StateSynced => "synced",
            _ => "",
        }
    }

    /// The beginning of a line of this event; "" for output.
    pub fn beginning(self) -> &'static str {
        LINES[self as usize].3
    }

    /// A line of this event: its beginning, then `rest`.
    pub fn line(self, rest: impl Display) -> EventLine {
        EventLine {
            event: self,
            text: format!("{}{rest}", self.beginning()),
        }
    }
}

/// A line for the log, and its event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EventLine {
    /// The event that the line reports.
    pub event: Event,
    /// The line. It begins as those of its event.
    pub text: String,
}

impl EventLine {
    /// This line with `more` at its end.
    #[must_use]
    pub fn with(mut self, more: &str) -> Self {
        self.text += more;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_order_of_the_events_and_no_beginning_hides_a_later_one() {
        for (at, &(event, word, level, beginning)) in LINES.iter().enumerate() {
            assert_eq!(event as usize, at, "{event:?}");
            assert_eq!(
                (event.word(), event.level(), event.beginning()),
                (word, level, beginning)
            );
            assert_eq!(Event::parse(&format!("{beginning}x")), (event, "x"));
            match event.state() {
                "" => assert_ne!(word, "state", "{event:?}"),
                state => assert_eq!(format!("State: {state}"), beginning),
            }
        }
        assert_eq!(LINES.len(), Event::Output as usize + 1);
    }

    #[test]
    fn a_message_that_only_looks_like_a_line_is_output() {
        for message in [
            "",
            "x",
            " Sync cycle complete",
            "sync cycle complete",
            "Skipping database",
            "é",
            MARK,
        ] {
            assert_eq!(Event::parse(message), (Event::Output, message));
        }
    }
}
