//! What the agent says itself, and how it is told from what a cycle's command prints into the same log.
//!
//! Whoever reads a log, `beadlock log` above all, goes by how a line begins. So a line of a command's output that begins
//! like one of the agent's own, at its start or after a `…: ` as a shared log has it, gets [`MARK`] in front, and so
//! does one that begins with the mark itself. Every other line of output stays as it is.

use std::borrow::Cow;
use std::fmt::Display;

use super::this_agent;
use crate::git;

/// How each line begins that the agent writes itself, and the one by which another daemon takes a log over. A line of a
/// command's output never does.
const BEGINNINGS: [&str; 17] = [
    "beadlock-agent ",
    "Agent started: ",
    "Agent stopped: ",
    "Ending on ",
    "Starting sync cycle",
    "Sync cycle complete",
    "Sync cycle failed",
    "Sync cycle timed out",
    "Skipping database (",
    "Removed stale lock (",
    "Held since ",
    "Resumed after ",
    "No gate (",
    "Cannot watch for changes (",
    "lock_blocked of ",
    "lock_stale_removed of ",
    "Daemon started (interval: ",
];

/// Stands in front of a line of output that could be taken for the agent's.
const MARK: &str = "| ";

/// A cycle begins.
pub(crate) const BEGUN: &str = "Starting sync cycle...";

/// A cycle has panicked.
pub(crate) const FAULT: &str = "Sync cycle failed: a fault in beadlock-agent itself; please report it";

/// The database has gone.
pub(crate) fn no_database(why: impl Display) -> String {
    format!("Sync cycle failed: there is no database any more: {why}")
}

/// There can be no gate.
pub(crate) fn no_gate(why: impl Display) -> String {
    format!("No gate ({why}); a claim does not wait for a running cycle here")
}

/// Nothing tells of changes.
pub(crate) fn cannot_watch(why: impl Display) -> String {
    format!("Cannot watch for changes ({why}); cycles start by the clock")
}

/// The first line of each file.
pub(crate) fn header() -> String {
    format!("{}, times in UTC", this_agent())
}

/// The agent starts.
pub(crate) fn started() -> String {
    format!("Agent started: {}", this_agent())
}

/// The agent was told to end, with so many cycles running.
pub(crate) fn ending(signal: &str, running: usize) -> String {
    match running {
        0 => format!("Ending on {signal}"),
        running => format!("Ending on {signal} after {running} running cycles"),
    }
}

/// The agent has ended.
pub(crate) fn stopped() -> String {
    format!("Agent stopped: {}", this_agent())
}

/// It begins as the agent's lines do.
pub(super) fn is_own(text: &str) -> bool {
    BEGINNINGS.iter().chain(&git::BEGINNINGS).any(|beginning| text.starts_with(beginning))
}

/// A line of a command's output as it goes to the log.
pub(super) fn of_command(text: &str) -> Cow<'_, str> {
    let after_a_name = || text.match_indices(": ").any(|(colon, found)| is_own(&text[colon + found.len()..]));
    if text.starts_with(MARK) || is_own(text) || after_a_name() {
        return format!("{MARK}{text}").into();
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::End;
    use crate::database::Streak;
    use beadlock_checker::audit::{Audit, Author, Entry, Event};
    use beadlock_checker::dialect::beads::Record;
    use beadlock_checker::runner::Ended;
    use beadlock_checker::{Decision, Proceed, Reason, Removed, Skip, Watched};
    use std::path::Path;
    use std::time::Duration;
    use tokio::time::Instant;

    /// One of each kind of line that the agent can write.
    fn all() -> Vec<String> {
        let record = || Box::new(Record::new("vc", "1").unwrap());
        let skip = |skip| Decision::Skip(skip);
        let failed = |reason| skip(Skip::CheckFailed { reason, detail: "x".to_owned(), record: None });
        let removed = Removed { record: record(), reason: Reason::PidGone, watched: Watched::ByLease };
        let took = Duration::from_secs(1);
        let ended = |how| End::Failed { how, took };
        let mut lines: Vec<String> = vec![BEGUN.into(), FAULT.into(), no_database("x"), no_gate("x")];
        lines.extend([cannot_watch("x"), header(), started(), stopped()]);
        lines.extend([ending("SIGTERM", 0), ending("SIGINT", 2)]);
        lines.push(Decision::Proceed(Proceed::RemovedStale(removed)).to_string());
        let ends = [
            End::Complete,
            ended(Ended::Exit(3)),
            ended(Ended::Signal(9)),
            ended(Ended::NotStarted("x".to_owned())),
            ended(Ended::TimedOut),
            End::TimedOut { after: took },
            End::RunnerLost { ended: 2 },
        ];
        lines.extend(ends.iter().map(End::to_string));
        let mut streak = Streak::default();
        let skips = [
            skip(Skip::Locked(record(), Reason::PidAlive)),
            skip(Skip::InProgress),
            failed(Reason::Malformed),
            failed(Reason::Invalid),
            failed(Reason::Unreadable),
            failed(Reason::RemovalFailed),
        ];
        lines.extend(skips.iter().flat_map(|skip| streak.skipped(skip, Instant::now(), took)));
        lines.extend(streak.resumed(Instant::now()));
        // No directory to write it in: the audit trail says so in the log.
        let root = tempfile::tempdir().unwrap();
        let (dir, path) = (root.path().join("gone"), Path::new("/l"));
        std::fs::create_dir(&dir).unwrap();
        let audit = Audit::open(&dir.join("audit"), Author::new("x", "1")).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        for event in [Event::LockBlocked, Event::LockStaleRemoved] {
            lines.push(audit.write(&Entry::new(event, "1", "beads:.beads", path)).unwrap_err().to_string());
        }
        lines
    }

    #[test]
    fn every_line_of_the_agent_begins_with_one_of_the_list_and_each_of_the_list_begins_one() {
        let lines = all();
        for line in &lines {
            assert!(is_own(line), "{line}");
        }
        let is_used = |beginning: &&str| lines.iter().any(|line| line.starts_with(*beginning));
        let unused: Vec<_> = BEGINNINGS.iter().filter(|beginning| !is_used(beginning)).collect();
        assert_eq!(unused, [&"Daemon started (interval: "], "another daemon's");
    }

    #[test]
    fn what_could_be_taken_for_the_agents_is_marked() {
        for line in all() {
            assert_eq!(of_command(&line), format!("| {line}"));
            for name in ["/srv/other/.beads", "a: b", ""] {
                let forged = format!("{name}: {line}");
                assert_eq!(of_command(&forged), format!("| {forged}"));
            }
        }
        assert_eq!(of_command("| Sync cycle complete"), "| | Sync cycle complete");
        assert_eq!(of_command("| x"), "| | x");
    }

    #[test]
    fn what_could_not_stays_as_it_is() {
        for line in [
            "",
            "|",
            "|x",
            " | x",
            "one",
            "exported 3 issues: done",
            "error: no such file",
            "sync cycle complete",
            " Sync cycle complete",
            "the Sync cycle complete",
            "x:Skipping database (locked by bob)",
            "Skipping",
            "é: Skip",
        ] {
            assert!(matches!(of_command(line), Cow::Borrowed(same) if same == line), "{line}");
        }
    }
}
