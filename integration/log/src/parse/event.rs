//! The meaning of a message: the lines of the agent, and those of the original daemon, to the letter.

use beadlock_core::agent_process::AgentProcess;
use beadlock_core::log_line::{Event as Line, MARK, ORIGINAL_START};
use serde::Serialize;

use super::line::{LockDetails, LogWriter};
use super::time::LogTime;

/// Events that a line of a log can report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DaemonEvent<'a> {
    /// The first line of each of the agent's files.
    Header(DaemonId),
    Started(DaemonId),
    /// This other daemon lives, and serves the database beside the one that writes the line.
    ServedBy(DaemonId),
    Ending(&'a str),
    /// A daemon ends in order. The original daemon does not name itself.
    Stopped(Option<DaemonId>),
    /// A cycle begins. The original daemon logs this before it checks the lock.
    Begun,
    /// A cycle did its work, or found nothing to do.
    Complete,
    /// A cycle ran to its end, and not everything is at the remote, for this reason.
    Incomplete(&'a str),
    Failed(&'a str),
    /// A cycle made a commit, a pull or a push.
    Step,
    TimedOut(&'a str),
    /// An error that usually ends a cycle of the original daemon.
    Trouble(&'a str),
    Locked(&'a str),
    /// Skipped because of a lock; the line ends before the holder's name does.
    CutOff(&'a str),
    Busy,
    /// Skipped because the lock could not be checked, or a stale lock could not be removed.
    Unreadable(&'a str),
    /// The stale lock of this holder was removed.
    Removed(&'a str),
    /// The holder of the lock, logged once in a streak of skips.
    Held(LockDetails),
    Resumed,
    State(StateReport<'a>),
    /// The original daemon looks only when something changes, or (false) also by the clock.
    EventMode(bool),
    /// The original daemon commits in a worktree of this branch.
    SyncBranch(&'a str),
    /// The original daemon serves this database file.
    Serves(&'a str),
    /// A warning or a limit of the daemon, its end, or a change of the configuration or the databases.
    Notice,
    /// Anything else, such as the output of a cycle's command.
    Other,
}

/// The report in a line `State: …`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateReport<'a> {
    /// One of the events whose word is `state`.
    pub state: Line,
    pub since: Option<LogTime>,
    pub why: Option<&'a str>,
    pub next: Option<&'a str>,
}

/// One process of a daemon, as it names itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DaemonId {
    /// `beadlock-agent 0.1.0`, or `bd daemon`.
    pub program: String,
    pub pid: Option<i64>,
    pub host: Option<String>,
    /// The database file that the original daemon serves.
    pub database: Option<String>,
    /// The process as the log names it, so that it can be asked for; `None`: the log does not name it.
    #[serde(skip)]
    pub process: Option<AgentProcess>,
}

impl DaemonId {
    /// The original daemon, which gives neither PID nor host.
    pub fn original() -> Self {
        Self {
            program: "bd daemon".to_owned(),
            pid: None,
            host: None,
            database: None,
            process: None,
        }
    }

    /// The daemon that writes as this one does.
    pub fn writer(&self) -> LogWriter {
        if self.pid.is_some() {
            LogWriter::Agent
        } else {
            LogWriter::Original
        }
    }
}

/// The original daemon's names for the kinds of a cycle.
const MODES: [&str; 7] = [
    "sync cycle",
    "local sync cycle",
    "export",
    "local export",
    "auto-import",
    "local auto-import",
    "import",
];

const COMPLETE: [&str; 6] = [
    "Local sync cycle complete",
    "Local local sync cycle complete",
    "Export complete",
    "Local export complete",
    "Auto-import complete",
    "Local auto-import complete",
];

impl<'a> DaemonEvent<'a> {
    /// The event of a message without its time and database. An unknown message is [`DaemonEvent::Other`].
    pub fn parse(message: &'a str, writer: Option<LogWriter>) -> Self {
        if message.starts_with(MARK) {
            return Self::Other;
        }
        of_agent(message)
            .or_else(|| match writer {
                // The commands of the agent's cycles may print the lines of the original daemon, but not this one.
                Some(LogWriter::Agent) => of_original_start(message),
                _ => of_original(message),
            })
            .unwrap_or(Self::Other)
    }

    /// True when a cycle begins, ends or is skipped, or a state is reported: the daemon is alive.
    pub fn is_of_a_cycle(&self) -> bool {
        use DaemonEvent::{
            Ending, EventMode, Header, Notice, Other, ServedBy, Serves, Started, Stopped,
            SyncBranch, Trouble,
        };
        let is_of_daemon = matches!(
            self,
            Header(_) | Started(_) | Stopped(_) | Ending(_) | EventMode(_) | Serves(_)
        );
        !is_of_daemon
            && !matches!(
                self,
                Notice | ServedBy(_) | Other | Trouble(_) | SyncBranch(_)
            )
    }
}

fn starts(message: &str, fronts: &[&str]) -> bool {
    fronts.iter().any(|front| message.starts_with(front))
}

fn of_agent(message: &str) -> Option<DaemonEvent<'_>> {
    let (line, rest) = Line::parse(message);
    match line {
        _ if line.word() == "state" => state(line, rest),
        Line::CycleStarted => (rest == "...").then_some(DaemonEvent::Begun),
        Line::CycleComplete => rest.is_empty().then_some(DaemonEvent::Complete),
        Line::CycleIncomplete => rest.strip_prefix(": ").map(DaemonEvent::Incomplete),
        Line::CycleFailed => rest.strip_prefix(": ").map(DaemonEvent::Failed),
        Line::CycleTimedOut => {
            let rest = rest.strip_prefix(" after ")?;
            Some(DaemonEvent::TimedOut(
                rest.strip_suffix("; command ended").unwrap_or(rest),
            ))
        }
        Line::NotChecked | Line::Skipped => {
            skipped(message.strip_prefix(Line::Skipped.beginning())?)
        }
        Line::Held => held(rest).map(DaemonEvent::Held),
        Line::Resumed => {
            let is_resumed = rest.contains(" skips in ") || rest.starts_with("1 skip in ");
            is_resumed.then_some(DaemonEvent::Resumed)
        }
        // The last one: a name may have the words in it.
        Line::RemovedStale => rest
            .rfind("), proceeding")
            .map(|end| DaemonEvent::Removed(&rest[..end])),
        Line::Committed => step(rest, &[" file ", " files "]),
        Line::Pulled => step(rest, &[" commit from ", " commits from "]),
        Line::Pushed => step(rest, &[" commit to ", " commits to "]),
        Line::Header => agent(message.strip_suffix(", times in UTC")?).map(DaemonEvent::Header),
        Line::AgentStarted => agent(rest).map(DaemonEvent::Started),
        Line::AgentStopped => agent(rest).map(|agent| DaemonEvent::Stopped(Some(agent))),
        Line::AlsoServed => Some(
            rest.split_once("; ")
                .and_then(|(other, _)| agent(other))
                .map_or(DaemonEvent::Notice, DaemonEvent::ServedBy),
        ),
        Line::Ending => rest
            .starts_with("SIG")
            .then(|| DaemonEvent::Ending(rest.split(' ').next().unwrap_or(rest))),
        Line::SkipNotAudited | Line::RemovalNotAudited | Line::Output => None,
        _ => Some(DaemonEvent::Notice),
    }
}

/// ` since YYYY-MM-DD HH:MM:SS: WHY; type: COMMAND`, of which each part may be missing.
fn state(state: Line, rest: &str) -> Option<DaemonEvent<'_>> {
    let (since, rest) = match rest.strip_prefix(" since ") {
        Some(rest) => (
            Some(LogTime::stamp(rest.get(..LogTime::STAMP)?)?),
            &rest[LogTime::STAMP..],
        ),
        None => (None, rest),
    };
    // The reason may have the words too, so the last ones are the agent's.
    let (rest, next) = rest
        .rsplit_once("; type: ")
        .map_or((rest, None), |(rest, next)| (rest, Some(next)));
    let why = if rest.is_empty() {
        None
    } else {
        Some(rest.strip_prefix(": ")?)
    };
    Some(DaemonEvent::State(StateReport {
        state,
        since,
        why,
        next,
    }))
}

/// The address at which the daemon of this line can be asked.
pub fn listening_at(message: &str) -> Option<&str> {
    match Line::parse(message) {
        (Line::Listening, address) => Some(address),
        _ => None,
    }
}

/// The event of a skip; `rest` is the text after the first bracket of its line.
pub fn skipped(rest: &str) -> Option<DaemonEvent<'_>> {
    if let Some(text) = rest.strip_prefix("locked by ") {
        // A name with a line end of its own is cut in two, and has no bracket.
        return Some(
            text.strip_suffix(')')
                .map_or(DaemonEvent::CutOff(text), DaemonEvent::Locked),
        );
    }
    if let Some(why) = rest.strip_prefix("lock check failed: ") {
        return Some(DaemonEvent::Unreadable(
            why.strip_suffix(')').unwrap_or(why),
        ));
    }
    rest.starts_with("a sync cycle or a claim is in progress")
        .then_some(DaemonEvent::Busy)
}

/// `3 files (1a2b3c4)`, `2 commits from …`, `1 commit to …`.
fn step<'a>(rest: &str, what: &[&str]) -> Option<DaemonEvent<'a>> {
    let counted = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    (counted.len() < rest.len() && starts(counted, what)).then_some(DaemonEvent::Step)
}

/// `SINCE by PID PID on HOST (REASON)`, and words about a zombie after it.
fn held(rest: &str) -> Option<LockDetails> {
    let (since, rest) = rest.split_once(" by PID ")?;
    let (pid, rest) = rest.split_once(" on ")?;
    let (host, reason) = without_zombie(rest).strip_suffix(')')?.rsplit_once(" (")?;
    Some(LockDetails {
        pid: Some(pid.parse().ok()?),
        host: Some(host.to_owned()),
        since: Some(since.to_owned()),
        reason: Some(reason.to_owned()),
    })
}

/// Cuts off the words about a holder that is a zombie. Such a holder is on the agent's own host, so the first of
/// these words are the agent's.
fn without_zombie(rest: &str) -> &str {
    if !rest.ends_with("--reap-proven-dead may remove the lock") {
        return rest;
    }
    rest.find("); a zombie: ")
        .and_then(|at| rest.get(..=at))
        .unwrap_or(rest)
}

fn agent(text: &str) -> Option<DaemonId> {
    let process = AgentProcess::parse(text)?;
    let is_agent = process.program.starts_with(Line::Header.beginning());
    is_agent.then(|| DaemonId {
        program: process.program.clone(),
        pid: Some(process.pid),
        host: Some(process.host.clone()),
        database: None,
        process: Some(process),
    })
}

fn of_original_start(message: &str) -> Option<DaemonEvent<'_>> {
    message
        .starts_with(ORIGINAL_START)
        .then(|| DaemonEvent::Started(DaemonId::original()))
}

/// A skip by the original daemon, after `Skipping `.
fn skipped_by_original(rest: &str) -> Option<DaemonEvent<'_>> {
    let mode = MODES.iter().find(|mode| rest.starts_with(**mode))?;
    let rest = &rest[mode.len()..];
    if let Some(rest) = rest.strip_prefix(" (") {
        return skipped(rest);
    }
    let is_unchanged = rest.strip_prefix(": ")? == "JSONL content unchanged";
    Some(if is_unchanged {
        DaemonEvent::Complete
    } else {
        DaemonEvent::Notice
    })
}

/// Beginnings of the lines by which the original daemon says that it ends.
const ENDS: [&str; 7] = [
    "Context canceled, shutting down",
    "Parent process died, shutting down",
    "Parent process (PID ",
    "RPC server failed: ",
    "Daemon terminated after panic",
    "Global daemon stopped",
    "Daemon stopped",
];

/// Beginnings of the lines by which it says that it looks only at a change. Newer versions use a small letter.
const LOOKS_AT_CHANGES: [&str; 4] = [
    "Using event-driven mode",
    "Export triggered by mutation events",
    "Import triggered by file change",
    "Mutation detected",
];

/// Beginnings of the lines by which it says that it looks by the clock as well.
const LOOKS_BY_CLOCK: [&str; 6] = [
    "Using polling mode",
    "Falling back to polling mode",
    "Auto-pull enabled: ",
    "Periodic remote sync: ",
    "Fallback ticker: ",
    "WARNING: File watcher unavailable",
];

/// Beginnings of its lines that name a branch of its own.
const SYNC_BRANCH: [&str; 4] = [
    "Using sync branch: ",
    "Committed changes to sync branch ",
    "Pulled sync branch ",
    "Pushed sync branch ",
];

/// The event of a line of the original daemon, in its older and newer wordings.
fn of_original(message: &str) -> Option<DaemonEvent<'_>> {
    if let Some(started) = of_original_start(message) {
        return Some(started);
    }
    if let Some(mode) = message
        .strip_prefix("Starting ")
        .and_then(|rest| rest.strip_suffix("..."))
    {
        return MODES.contains(&mode).then_some(DaemonEvent::Begun);
    }
    if let Some(rest) = message.strip_prefix("Skipping ") {
        return skipped_by_original(rest);
    }
    if COMPLETE.contains(&message) {
        return Some(DaemonEvent::Complete);
    }
    if starts(message, &ENDS)
        || message.starts_with("Received signal") && message.contains("shutting down")
    {
        return Some(DaemonEvent::Stopped(None));
    }
    if let Some(path) = message.strip_prefix("Using database: ") {
        return Some(DaemonEvent::Serves(path));
    }
    if let Some(branch) = SYNC_BRANCH
        .iter()
        .find_map(|front| message.strip_prefix(front))
    {
        return Some(DaemonEvent::SyncBranch(
            branch.strip_suffix(" to remote").unwrap_or(branch),
        ));
    }
    let is_like = |front: &&str| {
        message
            .get(..front.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(front))
    };
    if LOOKS_AT_CHANGES.iter().any(&is_like) {
        return Some(DaemonEvent::EventMode(true));
    }
    if LOOKS_BY_CLOCK.iter().any(is_like) {
        return Some(DaemonEvent::EventMode(false));
    }
    // After `Warning: …` the cycle goes on; after these it does not.
    let front = message.split(": ").next()?;
    let is_trouble = message.len() > front.len()
        && (front.ends_with(" failed") && front.len() < 40 && !front.starts_with("Warning")
            || front == "Error"
            || starts(
                message,
                &[
                    "Error checking git status: ",
                    "Error during 3-way merge",
                    "Failed to count issues ",
                ],
            ));
    is_trouble.then_some(DaemonEvent::Trouble(message))
}

#[cfg(test)]
mod tests;
