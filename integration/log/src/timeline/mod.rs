//! Events to timelines: what a log reports about each database and each daemon. Pure: no files, no clock, no wording.
//!
//! ```text
//! mod.rs       LogTimeline: brings each line to its database
//! database.rs  DatabaseTimeline: cycles, skips and failures of one database
//! state.rs     SyncState, ReportedState: what was reported last
//! spans.rs     LogSpans: when each cycle ran, who held the lock, which state was reported
//! streak.rs    SkipStreak: skips of one cause without a cycle in between; outages
//! holders.rs   the claims of each holder
//! rhythm.rs    the usual interval between cycles, and the gaps
//! agents.rs    the daemons that wrote the log
//! repeats.rs   messages that repeat
//! ```

pub mod agents;
pub mod database;
pub mod holders;
pub mod repeats;
pub mod rhythm;
pub mod spans;
pub mod state;
pub mod streak;

use std::collections::HashMap;

use beadlock_base::escape::escaped;
use beadlock_core::facts;
use beadlock_core::log_line::MARK;
use serde::Serialize;

use super::parse::event::DaemonEvent;
use super::parse::line::{LogLine, LogWriter};
use super::parse::time::{LogClock, LogTime};
use super::window::LogWindow;
use agents::{AgentRuns, ProcessLook};
use database::DatabaseTimeline;

/// Most databases in one log that are told apart.
const DATABASES: usize = 4096;

/// How many lines, and of what kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LineCounts {
    pub all: u64,
    /// Lines without an event, such as a command's output.
    pub other: u64,
    /// Lines that are too long, and were cut.
    pub cut: u64,
    /// Lines before and after the window.
    pub outside: u64,
}

#[derive(Debug, Default)]
pub struct LogTimeline {
    pub agents: AgentRuns,
    pub lines: LineCounts,
    pub writer: Option<LogWriter>,
    pub window: LogWindow,
    /// The first one takes the lines that name no database.
    pub databases: Vec<DatabaseTimeline>,
    clock: LogClock,
    is_open: bool,
    /// The log lies in its database, so every line is about that database.
    of_one: bool,
    last: Option<LogTime>,
    /// No line at the beginning of the log has a time. Then each line counts as written at `now`.
    no_times: Option<bool>,
    now: LogTime,
    names: HashMap<String, usize>,
}

impl LogTimeline {
    pub fn new(window: LogWindow, now: LogTime) -> Self {
        let databases = vec![DatabaseTimeline::default()];
        Self {
            window,
            databases,
            is_open: window.since.is_none(),
            now,
            ..Self::default()
        }
    }

    /// True when the daemon that wrote last is of another host than this one.
    pub fn is_of_other_host(&self) -> bool {
        let host = self.agents.latest().and_then(|run| run.id.host.as_deref());
        let ours = facts::hostname();
        host.zip(ours)
            .is_some_and(|(host, ours)| !host.eq_ignore_ascii_case(&escaped(&ours).to_string()))
    }

    /// Sets the function that tells whether the process of a daemon lives.
    pub fn asking(self, look: ProcessLook) -> Self {
        Self {
            agents: AgentRuns::new(look),
            ..self
        }
    }

    pub fn of_one_database(self) -> Self {
        Self {
            of_one: true,
            ..self
        }
    }

    /// The zone of the times without one, where the log has such times.
    pub fn local_zone(&self) -> Option<String> {
        self.clock.used_local.then(|| self.clock.local_name())
    }

    /// Begins a file, whose first bytes are `head`.
    pub fn begin(&mut self, head: &[u8]) {
        self.writer = LogWriter::guess(head).or(self.writer);
        let has_time = |line: &[u8]| {
            LogLine::parse(line, &mut LogClock::default(), self.writer)
                .at
                .is_some()
        };
        self.no_times
            .get_or_insert(!head.split(|byte| *byte == b'\n').any(has_time));
    }

    pub fn has_no_times(&self) -> bool {
        self.no_times == Some(true)
    }

    /// True when the log has lines, and none of them is in the window.
    pub fn is_all_outside(&self) -> bool {
        self.lines.all == 0 && self.lines.outside > 0
    }

    pub fn add_line(&mut self, raw: &[u8], is_cut: bool) {
        let line = LogLine::parse(raw, &mut self.clock, self.writer);
        self.writer = line.writer.filter(|_| line.at.is_some()).or(self.writer);
        if raw.is_empty() {
            return;
        }
        // A line without a time belongs to the line before it.
        let is_event = || DaemonEvent::parse(&line.message, self.writer) != DaemonEvent::Other;
        let untimed = (self.has_no_times() && is_event()).then_some(self.now);
        let Some(at) = line.at.or(self.last).or(untimed) else {
            self.lines.all += u64::from(self.is_open);
            self.lines.other += u64::from(self.is_open);
            return;
        };
        self.last = Some(at);
        if self.window.until.is_some_and(|until| at > until) {
            self.lines.outside += 1;
            return;
        }
        if self.window.since.is_some_and(|since| at >= since) {
            self.open();
        }
        let (database, event, message) = self.about(&line);
        self.lines.all += 1;
        self.lines.cut += u64::from(is_cut);
        self.lines.other += u64::from(event == DaemonEvent::Other);
        let is_beside = match &event {
            DaemonEvent::Started(id) => self.agents.has_living_beside(Some(id)),
            DaemonEvent::Stopped(id) => self.agents.has_living_beside(id.as_ref()),
            _ => false,
        };
        self.add_to_agents(&event, at);
        if let Some(writer) = self.only_writer(database, &event, message) {
            self.agents.wrote(writer, at);
            // The other daemon has stopped, and this one goes on.
            let is_latest = self
                .agents
                .latest()
                .is_some_and(|run| run.id.writer() == writer);
            self.writer = Some(writer).filter(|_| is_latest).or(self.writer);
        }
        let is_for_all =
            database.is_none() && !event.is_of_a_cycle() && event != DaemonEvent::Other;
        let first = database.unwrap_or(0);
        let whose = if is_for_all {
            0..self.databases.len()
        } else {
            first..first + 1
        };
        // One daemon that comes or goes beside another changes nothing about the database.
        if self.of_one && is_beside {
            return;
        }
        for timeline in &mut self.databases[whose] {
            timeline.add(at, &event, message, &line.lock, self.writer);
        }
    }

    fn add_to_agents(&mut self, event: &DaemonEvent<'_>, at: LogTime) {
        match event {
            DaemonEvent::Header(id) => {
                self.writer = Some(LogWriter::Agent);
                self.agents.header(id, at);
            }
            DaemonEvent::Started(id) => {
                self.writer = Some(id.writer());
                self.agents.started(id, at);
            }
            DaemonEvent::ServedBy(id) => self.agents.lives_beside(id),
            DaemonEvent::Serves(path) => self.agents.serves(path),
            DaemonEvent::Ending(signal) => self.agents.ending(signal, at),
            DaemonEvent::Stopped(id) => self.agents.stopped(id.as_ref(), at),
            event if event.is_of_a_cycle() => self.agents.alive(at),
            _ => {}
        }
    }

    /// The daemon whose line this is, where the other kind of daemon never writes such a line.
    fn only_writer(
        &self,
        database: Option<usize>,
        event: &DaemonEvent<'_>,
        message: &str,
    ) -> Option<LogWriter> {
        use DaemonEvent::{
            EventMode, Failed, Held, Incomplete, Other, Resumed, State, SyncBranch, TimedOut,
        };
        match event {
            Held(_) | Resumed | State(_) | Incomplete(_) | Failed(_) | TimedOut(_) => {
                Some(LogWriter::Agent)
            }
            EventMode(_) | SyncBranch(_) => Some(LogWriter::Original),
            Other if self.writer == Some(LogWriter::Agent) && database.is_none() => {
                // While no cycle of the agent's runs, no command of one prints.
                let is_originals =
                    DaemonEvent::parse(message, Some(LogWriter::Original)).is_of_a_cycle();
                let is_output = || {
                    self.databases
                        .iter()
                        .any(|timeline| timeline.in_cycle().is_some())
                };
                (is_originals && !is_output()).then_some(LogWriter::Original)
            }
            _ => None,
        }
    }

    /// Ends the log, which speaks for the time up to `end`.
    pub fn finish(&mut self, end: LogTime) {
        self.open();
        self.agents.finish();
        if self.databases.len() > 1
            && self
                .databases
                .first()
                .is_some_and(DatabaseTimeline::is_blank)
        {
            self.databases.remove(0);
        }
        for timeline in &mut self.databases {
            timeline.finish(end);
        }
    }

    /// Begins the window, unless it has begun already.
    fn open(&mut self) {
        let Some(since) = self.window.since.filter(|_| !self.is_open) else {
            return;
        };
        self.is_open = true;
        self.lines = LineCounts {
            outside: self.lines.all + self.lines.outside,
            ..LineCounts::default()
        };
        self.agents.forget();
        for timeline in &mut self.databases {
            timeline.forget(since);
        }
    }

    /// The database that a line names, and the event and the message without that name.
    fn about<'a>(&mut self, line: &'a LogLine<'_>) -> (Option<usize>, DaemonEvent<'a>, &'a str) {
        let message: &str = &line.message;
        let is_agent = self.writer == Some(LogWriter::Agent);
        if line.at.is_none() && is_agent && !self.has_no_times() {
            // The agent writes a time in each of its lines.
            return (None, DaemonEvent::Other, message);
        }
        if let Some(name) = line.database.as_ref().filter(|_| !self.of_one) {
            return (
                Some(self.database(name)),
                DaemonEvent::parse(message, self.writer),
                message,
            );
        }
        let may_name = match self.writer {
            Some(LogWriter::Agent) => !self.of_one,
            Some(LogWriter::Original) => false,
            None => true,
        };
        if message.starts_with('/') && may_name {
            // `DIR: message`, where the log is of several databases. Only the agent escapes the colons of a name.
            let colons = if is_agent { 1 } else { usize::MAX };
            for (colon, _) in message.match_indices(": ").take(colons) {
                let (name, text) = (&message[..colon], &message[colon + 2..]);
                let event = DaemonEvent::parse(text, self.writer);
                let is_known = self.names.contains_key(name);
                if text.starts_with(MARK) && !is_known {
                    break;
                }
                use DaemonEvent::{Complete, Other, Trouble};
                if is_known || !matches!(event, Other | Trouble(_) | Complete) {
                    return (Some(self.database(name)), event, text);
                }
            }
        }
        (None, DaemonEvent::parse(message, self.writer), message)
    }

    fn database(&mut self, name: &str) -> usize {
        if let Some(number) = self.names.get(name) {
            return *number;
        }
        if self.databases.len() > DATABASES {
            return 0;
        }
        let mut timeline = DatabaseTimeline::new(Some(name.to_owned()));
        if let Some(since) = self.window.since.filter(|_| self.is_open) {
            timeline.forget(since);
        }
        self.names.insert(name.to_owned(), self.databases.len());
        self.databases.push(timeline);
        self.databases.len() - 1
    }
}

#[cfg(test)]
mod tests;
