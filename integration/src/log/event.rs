//! What a message means: the agent's own lines, and those of the original daemon, to the letter.

use super::line::Writer;

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

/// What the agent puts in front of a line of a command's output that could be taken for its own.
pub const MARK: &str = "| ";

/// How the agent's lines begin that tell of its surroundings.
const NOTICES: [&str; 19] = [
    "Cannot look below ",
    "Cannot push to ",
    "Cannot reach ",
    "Cannot watch for changes (",
    "Configuration not reloaded: ",
    "Configuration reloaded: ",
    "Database found: ",
    "Database gone: ",
    "Database redirected: ",
    "Listening at ",
    "No gate (",
    "Not committing: ",
    "Not pulling: ",
    "Not pushing: ",
    "Not serving ",
    "Nothing to sync: ",
    "Only committing: ",
    "Push refused by ",
    "Still skipping after ",
];

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
        // By the first letter: most lines of a big log are settled by one comparison.
        let parsed = match message.as_bytes().first() {
            Some(b'S') => started_or_skipped(message),
            Some(b'R') => removed_or_resumed(message),
            Some(b'H') => held(message).map(Self::Held),
            Some(b'b') => header(message).map(Self::Header),
            Some(b'A') => started_or_stopped(message),
            Some(b'E') => ending(message),
            Some(b'C' | b'P') if is_step(message) => Some(Self::Step),
            Some(b'C' | b'D' | b'L' | b'N' | b'O' | b'P') => {
                starts(message, &NOTICES).then_some(Self::Notice)
            }
            _ => None,
        };
        let others = || match writer {
            // What its cycles' commands print may be anything but its own lines, and but this one.
            Some(Writer::Agent) => of_original_start(message),
            _ => of_original(message),
        };
        parsed.or_else(others).unwrap_or(Self::Other)
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

fn started_or_skipped(message: &str) -> Option<Event<'_>> {
    if message == "Starting sync cycle..." {
        return Some(Event::Begun);
    }
    if let Some(rest) = message.strip_prefix("Skipping database (") {
        return skipped(rest);
    }
    if message.starts_with("Still skipping after ") {
        return Some(Event::Notice);
    }
    let rest = message.strip_prefix("Sync cycle ")?;
    if let Some(why) = rest.strip_prefix("failed: ") {
        return Some(Event::Failed(why));
    }
    if let Some(rest) = rest.strip_prefix("timed out after ") {
        return Some(Event::TimedOut(rest.strip_suffix("; command ended").unwrap_or(rest)));
    }
    (rest == "complete").then_some(Event::Complete)
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

fn removed_or_resumed(message: &str) -> Option<Event<'_>> {
    if let Some(rest) = message.strip_prefix("Removed stale lock (") {
        // The last one: a name may have the words in it.
        let end = rest.rfind("), proceeding")?;
        return Some(Event::Removed(&rest[..end]));
    }
    if message.starts_with("Reached it again after ") {
        return Some(Event::Notice);
    }
    message.strip_prefix("Resumed after ")?.split_once(" skips in ").map(|_| Event::Resumed)
}

/// `Committed 3 files (1a2b3c4)`, `Pulled 2 commits from …`, `Pushed 1 commit to …`.
fn is_step(message: &str) -> bool {
    let Some((verb, rest)) = message.split_once(' ') else { return false };
    let what = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    what.len() < rest.len()
        && match verb {
            "Committed" => starts(what, &[" file ", " files "]),
            "Pulled" => starts(what, &[" commit from ", " commits from "]),
            "Pushed" => starts(what, &[" commit to ", " commits to "]),
            _ => false,
        }
}

fn held(message: &str) -> Option<Held<'_>> {
    let (since, rest) = message.strip_prefix("Held since ")?.split_once(" by PID ")?;
    let (pid, rest) = rest.split_once(" on ")?;
    let rest = without_zombie(rest);
    let (host, reason) = rest.strip_suffix(')')?.rsplit_once(" (")?;
    Some(Held { since, pid: pid.parse().ok()?, host, reason })
}

/// What the line says of the lock, without what it says of a holder that is a zombie. Such a holder is of the agent's own host,
/// so the first of these words are the agent's.
fn without_zombie(rest: &str) -> &str {
    if !rest.ends_with("--reap-proven-dead may remove the lock") {
        return rest;
    }
    rest.find("); a zombie: ").and_then(|at| rest.get(..=at)).unwrap_or(rest)
}

fn header(message: &str) -> Option<Agent<'_>> {
    agent(message.strip_suffix(", times in UTC")?)
}

fn agent(text: &str) -> Option<Agent<'_>> {
    let (program, rest) = text.split_once(", PID ")?;
    let (pid, host) = rest.split_once(", host ")?;
    program.starts_with("beadlock-agent ").then_some(())?;
    Some(Agent { program, pid: Some(pid.parse().ok()?), host: Some(host) })
}

fn started_or_stopped(message: &str) -> Option<Event<'_>> {
    if let Some(rest) = message.strip_prefix("Agent started: ") {
        return agent(rest).map(Event::Started);
    }
    let rest = message.strip_prefix("Agent stopped: ")?;
    agent(rest).map(|agent| Event::Stopped(Some(agent)))
}

fn ending(message: &str) -> Option<Event<'_>> {
    let signal = message.strip_prefix("Ending on ")?.split(' ').next()?;
    signal.starts_with("SIG").then_some(Event::Ending(signal))
}

/// The original daemon starts.
fn of_original_start(message: &str) -> Option<Event<'_>> {
    const BD: Agent<'_> = Agent { program: "bd daemon", pid: None, host: None };
    message.starts_with("Daemon started (interval: ").then_some(Event::Started(BD))
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
