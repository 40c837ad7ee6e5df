//! What a message means: the agent's own lines, and those of the original daemon, to the letter.

use super::line::Writer;
use beadlock_checker::internal::log_line::{self, MARK, ORIGINAL_START};

/// What one line of a log says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// The first line of each of the agent's files.
    Header(Agent<'a>),
    /// A daemon starts.
    Started(Agent<'a>),
    /// A daemon is told to end: by which signal.
    Ending(&'a str),
    /// A daemon ends in order; the original daemon does not say which.
    Stopped(Option<Agent<'a>>),
    /// A cycle begins. The original daemon says so before it looks at the lock.
    Begun,
    /// A cycle did its work, or found that there was none.
    Complete,
    /// A cycle failed: how.
    Failed(&'a str),
    /// What a cycle has done on its way: a commit, a pull, a push.
    Step,
    /// A cycle was ended because it took too long: its time.
    TimedOut(&'a str),
    /// What ends a cycle of the original daemon early, unless it goes on all the same.
    Trouble(&'a str),
    /// Skipped: held by this holder.
    Locked(&'a str),
    /// The same, and the line ends before the name does.
    CutOff(&'a str),
    /// Skipped: somebody has the gate.
    Busy,
    /// Skipped: the lock could not be checked, or a stale one not removed.
    Unreadable(&'a str),
    /// This holder's stale lock was removed.
    Removed(&'a str),
    /// Who holds it, said once in a streak of skips.
    Held(Held<'a>),
    /// A streak of skips has ended.
    Resumed,
    /// A limit or a warning of the daemon that explains why less happens than expected, the end of one, or another
    /// configuration or set of databases.
    Notice,
    /// Anything else, such as the output of a cycle's command.
    Other,
}

/// Who writes a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agent<'a> {
    /// `beadlock-agent 0.1.0`, or `bd daemon`.
    pub program: &'a str,
    /// Its PID, where it says so.
    pub pid: Option<i64>,
    /// Its host, where it says so.
    pub host: Option<&'a str>,
}

/// `Held since SINCE by PID PID on HOST (REASON)`, and after a semicolon what the holder is, where that is a zombie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held<'a> {
    /// When the lock was acquired, RFC 3339.
    pub since: &'a str,
    /// The holder's PID.
    pub pid: i64,
    /// The holder's host.
    pub host: &'a str,
    /// A word of the closed list.
    pub reason: &'a str,
}

/// How the original daemon calls what it does in a cycle.
const MODES: [&str; 6] =
    ["sync cycle", "local sync cycle", "export", "local export", "auto-import", "local auto-import"];

const COMPLETE: [&str; 6] = [
    "Local sync cycle complete",
    "Local local sync cycle complete",
    "Export complete",
    "Local export complete",
    "Auto-import complete",
    "Local auto-import complete",
];

impl<'a> Event<'a> {
    /// Of a message without its time and database, in a log of this writer. Never fails: what is not known is
    /// [`Event::Other`].
    pub fn parse(message: &'a str, writer: Option<Writer>) -> Self {
        if message.starts_with(MARK) {
            return Self::Other;
        }
        let others = || match writer {
            // What its cycles' commands print may be anything but its own lines, and but this one.
            Some(Writer::Agent) => of_original_start(message),
            _ => of_original(message),
        };
        of_agent(message).or_else(others).unwrap_or(Self::Other)
    }

    /// A cycle begins, ends or is skipped: its daemon lives.
    pub fn is_of_a_cycle(&self) -> bool {
        !matches!(
            self,
            Self::Header(_)
                | Self::Started(_)
                | Self::Stopped(_)
                | Self::Ending(_)
                | Self::Notice
                | Self::Other
                | Self::Trouble(_)
        )
    }
}

fn starts(message: &str, fronts: &[&str]) -> bool {
    fronts.iter().any(|front| message.starts_with(front))
}

/// What one of the agent's lines says.
fn of_agent(message: &str) -> Option<Event<'_>> {
    use log_line::Event as Line;
    let (line, rest) = Line::parse(message);
    match line {
        Line::CycleStarted => (rest == "...").then_some(Event::Begun),
        Line::CycleComplete => rest.is_empty().then_some(Event::Complete),
        Line::CycleFailed => rest.strip_prefix(": ").map(Event::Failed),
        Line::CycleTimedOut => {
            let rest = rest.strip_prefix(" after ")?;
            Some(Event::TimedOut(rest.strip_suffix("; command ended").unwrap_or(rest)))
        }
        Line::NotChecked | Line::Skipped => skipped(message.strip_prefix(Line::Skipped.beginning())?),
        Line::Held => held(rest).map(Event::Held),
        Line::Resumed => rest.contains(" skips in ").then_some(Event::Resumed),
        // The last one: a name may have the words in it.
        Line::RemovedStale => rest.rfind("), proceeding").map(|end| Event::Removed(&rest[..end])),
        Line::Committed => step(rest, &[" file ", " files "]),
        Line::Pulled => step(rest, &[" commit from ", " commits from "]),
        Line::Pushed => step(rest, &[" commit to ", " commits to "]),
        Line::Header => agent(message.strip_suffix(", times in UTC")?).map(Event::Header),
        Line::AgentStarted => agent(rest).map(Event::Started),
        Line::AgentStopped => agent(rest).map(|agent| Event::Stopped(Some(agent))),
        Line::Ending => {
            rest.starts_with("SIG").then(|| Event::Ending(rest.split(' ').next().unwrap_or(rest)))
        }
        Line::SkipNotAudited | Line::RemovalNotAudited | Line::Output => None,
        _ => Some(Event::Notice),
    }
}

/// What follows the first bracket of a skip.
fn skipped(rest: &str) -> Option<Event<'_>> {
    if let Some(text) = rest.strip_prefix("locked by ") {
        // A name with a line end of its own is cut in two, and has no bracket.
        return Some(text.strip_suffix(')').map_or(Event::CutOff(text), Event::Locked));
    }
    if let Some(why) = rest.strip_prefix("lock check failed: ") {
        return Some(Event::Unreadable(why.strip_suffix(')').unwrap_or(why)));
    }
    rest.starts_with("a sync cycle or a claim is in progress").then_some(Event::Busy)
}

/// `3 files (1a2b3c4)`, `2 commits from …`, `1 commit to …`.
fn step<'a>(rest: &str, what: &[&str]) -> Option<Event<'a>> {
    let counted = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    (counted.len() < rest.len() && starts(counted, what)).then_some(Event::Step)
}

fn held(rest: &str) -> Option<Held<'_>> {
    let (since, rest) = rest.split_once(" by PID ")?;
    let (pid, rest) = rest.split_once(" on ")?;
    let rest = without_zombie(rest);
    let (host, reason) = rest.strip_suffix(')')?.rsplit_once(" (")?;
    Some(Held { since, pid: pid.parse().ok()?, host, reason })
}

/// What the line says of the lock, without what it says of a holder that is a zombie. Such a holder is of the agent's
/// own host, so the first of these words are the agent's.
fn without_zombie(rest: &str) -> &str {
    if !rest.ends_with("--reap-proven-dead may remove the lock") {
        return rest;
    }
    rest.find("); a zombie: ").and_then(|at| rest.get(..=at)).unwrap_or(rest)
}

fn agent(text: &str) -> Option<Agent<'_>> {
    let (program, rest) = text.split_once(", PID ")?;
    let (pid, host) = rest.split_once(", host ")?;
    program.starts_with(log_line::Event::Header.beginning()).then_some(())?;
    Some(Agent { program, pid: Some(pid.parse().ok()?), host: Some(host) })
}

/// The original daemon starts.
fn of_original_start(message: &str) -> Option<Event<'_>> {
    const BD: Agent<'_> = Agent { program: "bd daemon", pid: None, host: None };
    message.starts_with(ORIGINAL_START).then_some(Event::Started(BD))
}

/// A mode's skip of the original daemon.
fn skipped_by_original(rest: &str) -> Option<Event<'_>> {
    let mode = MODES.iter().find(|mode| rest.starts_with(**mode))?;
    let rest = &rest[mode.len()..];
    if let Some(rest) = rest.strip_prefix(" (") {
        return skipped(rest);
    }
    match rest.strip_prefix(": ")? {
        "JSONL content unchanged" => Some(Event::Complete),
        _ => Some(Event::Notice),
    }
}

/// The original daemon's other lines, older and newer wordings.
fn of_original(message: &str) -> Option<Event<'_>> {
    if let Some(started) = of_original_start(message) {
        return Some(started);
    }
    if let Some(mode) = message.strip_prefix("Starting ").and_then(|rest| rest.strip_suffix("...")) {
        return MODES.contains(&mode).then_some(Event::Begun);
    }
    if let Some(rest) = message.strip_prefix("Skipping ") {
        return skipped_by_original(rest);
    }
    if COMPLETE.contains(&message) {
        return Some(Event::Complete);
    }
    let is_end = starts(message, &["Received signal"]) && message.contains("shutting down")
        || starts(message, &["Context canceled, shutting down", "Parent process died, shutting down"])
        || matches!(message, "Global daemon stopped" | "Daemon stopped");
    if is_end {
        return Some(Event::Stopped(None));
    }
    // `Warning: …` goes on; these do not.
    let front = message.split(": ").next()?;
    let is_trouble = message.len() > front.len()
        && (front.ends_with(" failed") && front.len() < 40 && !front.starts_with("Warning")
            || front == "Error"
            || starts(message, &["Error checking git status: ", "Failed to count issues "]));
    is_trouble.then_some(Event::Trouble(message))
}

#[cfg(test)]
mod tests;
