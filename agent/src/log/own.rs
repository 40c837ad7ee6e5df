//! What the agent says itself, and how it is told from what a cycle's command prints into the same log.
//!
//! Whoever reads a log, `beadlock log` above all, goes by how a line begins. So a line of a command's output that begins
//! like one of the agent's own, at its start or after a `…: ` as a shared log has it, gets [`MARK`] in front, and so
//! does one that begins with the mark itself. Every other line of output stays as it is.

use std::borrow::Cow;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

use beadlock_checker::address::Address;
use beadlock_checker::audit;
use beadlock_checker::database::Database;
use beadlock_checker::dialect::Record;
use beadlock_checker::duration::shown;
use beadlock_checker::escape::{escaped, escaped_path};
use beadlock_checker::shell::{Part, to_type};
use beadlock_checker::{Decision, Reason, Skip, Zombie};

use super::line::{Event, Level, Line};
use super::this_agent;

/// How each line begins that the agent writes itself; those of a sync are in [`OF_SYNC`]. A line of a command's output never does.
const BEGINNINGS: [(Event, &str); 25] = [
    (Event::Header, "beadlock-agent "),
    (Event::AgentStarted, "Agent started: "),
    (Event::AgentStopped, "Agent stopped: "),
    (Event::Ending, "Ending on "),
    (Event::CycleStarted, "Starting sync cycle"),
    (Event::CycleComplete, "Sync cycle complete"),
    (Event::CycleFailed, "Sync cycle failed"),
    (Event::CycleTimedOut, "Sync cycle timed out"),
    (Event::Skipped, "Skipping database ("),
    (Event::RemovedStale, "Removed stale lock ("),
    (Event::Held, "Held since "),
    (Event::Resumed, "Resumed after "),
    (Event::StillSkipping, "Still skipping after "),
    (Event::Listening, "Listening at "),
    (Event::NoGate, "No gate ("),
    (Event::CannotWatch, "Cannot watch for changes ("),
    (Event::AuditFailed, "lock_blocked of "),
    (Event::AuditFailed, "lock_stale_removed of "),
    (Event::ConfigurationReloaded, "Configuration reloaded: "),
    (Event::ConfigurationNotReloaded, "Configuration not reloaded: "),
    (Event::DatabaseFound, "Database found: "),
    (Event::DatabaseGone, "Database gone: "),
    (Event::DatabaseRedirected, "Database redirected: "),
    (Event::NotServing, "Not serving "),
    (Event::CannotLook, "Cannot look below "),
];

/// How the lines begin that a sync has for the log, and what each is about.
const OF_SYNC: [(Event, &str); 12] = [
    (Event::Committed, "Committed "),
    (Event::Pulled, "Pulled "),
    (Event::Pushed, "Pushed "),
    (Event::Notice, "Not committing: "),
    (Event::Notice, "Not pulling: "),
    (Event::Notice, "Not pushing: "),
    (Event::Notice, "Nothing to sync: "),
    (Event::Notice, "Only committing: "),
    (Event::Unreachable, "Cannot reach "),
    (Event::Unreachable, "Cannot push to "),
    (Event::Unreachable, "Push refused by "),
    (Event::Reached, "Reached it again after "),
];

/// And the line by which another daemon takes a log over.
const ANOTHER_BEGINS: &str = "Daemon started (interval: ";

/// Stands in front of a line of output that could be taken for the agent's.
const MARK: &str = "| ";

/// A line of the agent's own: what happened, how much it matters, and the words, which begin as the list above has it.
pub(crate) fn said(event: Event, level: Level, words: impl Display) -> Line {
    let line = Line::new(event, level, words.to_string());
    debug_assert!(
        beginnings().any(|(known, beginning)| *known == event && line.message.starts_with(beginning)),
        "not in own::BEGINNINGS: {line:?}"
    );
    line
}

/// A cycle begins.
pub(crate) fn begun() -> Line {
    said(Event::CycleStarted, Level::Info, "Starting sync cycle...")
}

/// A cycle has panicked.
pub(crate) fn fault() -> Line {
    failed("a fault in beadlock-agent itself; please report it")
}

/// The database has gone.
pub(crate) fn no_database(why: impl Display) -> Line {
    failed(format_args!("there is no database any more: {why}"))
}

/// A cycle failed.
pub(crate) fn failed(why: impl Display) -> Line {
    said(Event::CycleFailed, Level::Error, format_args!("Sync cycle failed: {why}"))
}

/// What a sync did or did not do: which of these, its first words say.
pub(crate) fn of_sync(words: &str) -> Line {
    let event = OF_SYNC.iter().find(|(_, beginning)| words.starts_with(beginning));
    let event = event.map_or(Event::Notice, |(event, _)| *event);
    let level = match event {
        Event::Notice | Event::Unreachable => Level::Warn,
        _ => Level::Info,
    };
    said(event, level, words)
}

/// A cycle leaves the database alone.
pub(crate) fn skipped(decision: &Decision) -> Line {
    let level = match decision {
        Decision::Skip(Skip::CheckFailed { .. }) => Level::Warn,
        _ => Level::Info,
    };
    about(decision, said(Event::Skipped, level, decision))
}

/// Since when it is held, as it says.
fn since(record: &Record) -> String {
    record.started_at().map(|time| time.to_string()).unwrap_or_default()
}

/// Who holds it; and that this is a zombie, where it is.
pub(crate) fn held(record: &Record, reason: Reason, zombie: Option<&Zombie>) -> Line {
    let (since, pid, host) = (since(record), record.pid(), escaped(record.hostname()));
    let zombie = zombie.map(|zombie| format!("; {zombie}")).unwrap_or_default();
    let words = format!("Held since {since} by PID {pid} on {host} ({reason}){zombie}");
    said(Event::Held, Level::Info, words).about(record).because(reason)
}

/// It is skipped for longer than is usual, for this reason.
pub(crate) fn still_skipping(decision: &Decision, took: Duration, dir: &Path) -> Line {
    let words = decision.to_string();
    let why = words.strip_prefix("Skipping database (").and_then(|words| words.strip_suffix(')'));
    let witness = decision.record().map(|record| {
        let (since, pid, host) = (since(record), record.pid(), escaped(record.hostname()));
        format!(" since {since} by PID {pid} on {host}")
    });
    let words = format!(
        "Still skipping after {}: {}{} ({}); {} says what to do",
        shown(took),
        why.unwrap_or(&words),
        witness.unwrap_or_default(),
        decision.reason(),
        to_type("beadlock status {}", &[Part::Path(dir)]),
    );
    about(decision, said(Event::StillSkipping, Level::Warn, words))
}

/// Where the agent can be asked how it fares.
pub(crate) fn listening(address: &Address) -> Line {
    said(Event::Listening, Level::Info, format_args!("Listening at {address}"))
}

/// So many cycles were skipped.
pub(crate) fn resumed(skips: u64, took: Duration) -> Line {
    said(Event::Resumed, Level::Info, format_args!("Resumed after {skips} skips in {}", shown(took)))
}

/// A stale lock was removed.
pub(crate) fn removed_stale(decision: &Decision) -> Line {
    about(decision, said(Event::RemovedStale, Level::Warn, decision))
}

fn about(decision: &Decision, line: Line) -> Line {
    let line = line.because(decision.reason());
    match decision.record() {
        Some(record) => line.about(record),
        None => line,
    }
}

/// There can be no gate.
pub(crate) fn no_gate(why: impl Display) -> Line {
    let words = format_args!("No gate ({why}); a claim does not wait for a running cycle here");
    said(Event::NoGate, Level::Warn, words)
}

/// Nothing tells of changes.
pub(crate) fn cannot_watch(why: impl Display) -> Line {
    let words = format_args!("Cannot watch for changes ({why}); cycles start by the clock");
    said(Event::CannotWatch, Level::Warn, words)
}

/// The audit trail has not got a line.
pub(crate) fn audit_failed(failed: &audit::Failed) -> Line {
    said(Event::AuditFailed, Level::Error, failed)
}

/// The configuration was read again: how many databases are served, are new, have gone, have another policy; and what
/// stays as it was, though another is named.
pub(crate) fn reloaded([all, new, gone, changed]: [usize; 4], kept: &[&str]) -> Line {
    let kept =
        kept.iter().map(|what| format!("; another {what} is opened at the next start")).collect::<String>();
    let counts = format_args!("{all} databases, {new} new, {gone} gone, {changed} changed{kept}");
    said(Event::ConfigurationReloaded, Level::Info, format_args!("Configuration reloaded: {counts}"))
}

/// The configuration is what it was.
pub(crate) fn not_reloaded(why: impl Display) -> Line {
    let words = format_args!("Configuration not reloaded: {why}; the old one stays");
    said(Event::ConfigurationNotReloaded, Level::Error, words)
}

/// There is a new database below a root.
pub(crate) fn found(dir: &Path) -> Line {
    said(Event::DatabaseFound, Level::Info, format_args!("Database found: {}", escaped_path(dir)))
}

/// A database below a root is not there any more.
pub(crate) fn gone(dir: &Path) -> Line {
    said(Event::DatabaseGone, Level::Info, format_args!("Database gone: {}", escaped_path(dir)))
}

/// The name of a database leads to another directory than before.
pub(crate) fn redirected(old: &Database, to: &Path) -> Line {
    let (named, old, to) = (escaped_path(&old.named), escaped_path(&old.dir), escaped_path(to));
    let words = format_args!("Database redirected: {named} leads to {to} now, and led to {old} before");
    said(Event::DatabaseRedirected, Level::Warn, words)
}

/// So many more have gone with those that are named.
pub(crate) fn others_gone(count: usize) -> Line {
    said(Event::DatabaseGone, Level::Info, format_args!("Database gone: {count} others"))
}

/// There is a database, and it has no cycles.
pub(crate) fn not_serving(dir: &Path, why: impl Display) -> Line {
    said(Event::NotServing, Level::Warn, format_args!("Not serving {}: {why}", escaped_path(dir)))
}

/// The one run of `--once` has found no database to serve.
pub(crate) fn nothing_served(roots: &[PathBuf]) -> Line {
    let roots: Vec<String> = roots.iter().map(|root| escaped_path(root)).collect();
    let words = format_args!(
        "Not serving anything: no database to serve was found below {}; name another --root, or --db DIR",
        roots.join(", ")
    );
    said(Event::NotServing, Level::Error, words)
}

/// A root, or a directory below one, cannot be read.
pub(crate) fn cannot_look(dir: &Path, why: impl Display) -> Line {
    let words = format_args!("Cannot look below {}: {why}", escaped_path(dir));
    said(Event::CannotLook, Level::Warn, words)
}

/// The first line of each file.
pub(crate) fn header() -> Line {
    said(Event::Header, Level::Info, format_args!("{}, times in UTC", this_agent()))
}

/// The agent starts.
pub(crate) fn started() -> Line {
    said(Event::AgentStarted, Level::Info, format_args!("Agent started: {}", this_agent()))
}

/// The agent was told to end, with so many cycles running.
pub(crate) fn ending(signal: &str, running: usize) -> Line {
    let after = match running {
        0 => String::new(),
        running => format!(" after {running} running cycles"),
    };
    said(Event::Ending, Level::Info, format_args!("Ending on {signal}{after}"))
}

/// The agent has ended.
pub(crate) fn stopped() -> Line {
    said(Event::AgentStopped, Level::Info, format_args!("Agent stopped: {}", this_agent()))
}

/// A line of what a cycle's command prints; never to be taken for one of the agent's own.
pub(crate) fn output(text: &str) -> Line {
    Line::new(Event::Output, Level::Info, of_command(text).into_owned())
}

/// It begins as the agent's lines do.
fn is_own(text: &str) -> bool {
    beginnings().any(|(_, beginning)| text.starts_with(beginning)) || text.starts_with(ANOTHER_BEGINS)
}

fn beginnings() -> impl Iterator<Item = &'static (Event, &'static str)> {
    BEGINNINGS.iter().chain(&OF_SYNC)
}

/// A line of a command's output as it goes to the log.
fn of_command(text: &str) -> Cow<'_, str> {
    let after_a_name = || text.match_indices(": ").any(|(colon, found)| is_own(&text[colon + found.len()..]));
    if text.starts_with(MARK) || is_own(text) || after_a_name() {
        return format!("{MARK}{text}").into();
    }
    text.into()
}

#[cfg(test)]
mod tests;
