//! The agent's own lines, and how they are told from what a cycle's command prints into the same log.
//!
//! Readers, above all `beadlock log`, go by how a line begins. So [`MARK`] is put in front of a line of output that
//! begins as one of the agent's own, at its start or after a `…: ` as in a shared log, or with the mark itself.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

use beadlock_base::address::Address;
use beadlock_base::duration::shown;
use beadlock_base::escape::{escaped, escaped_path};
use beadlock_base::shell::{Part, to_type};
use beadlock_core::agent_process::AgentProcess;
use beadlock_core::audit::{self, Event as AuditEvent};
use beadlock_core::database::Database;
use beadlock_core::log_line::{Event, EventLine, MARK, ORIGINAL_START};
use beadlock_core::record::Record;
use beadlock_core::record::beads::StartedAt;
use beadlock_core::zombie::Zombie;
use beadlock_core::{Decision, Reason};

use super::{AgentLine, this_agent};
use crate::cycle_end::CycleEnd;

/// A line with the beginning of its event.
fn said(event: Event, rest: impl Display) -> AgentLine {
    of_sync(event.line(rest))
}

/// A line that a sync has to say.
pub(crate) fn of_sync(EventLine { event, text }: EventLine) -> AgentLine {
    AgentLine::new(event, text)
}

pub(crate) fn begun() -> AgentLine {
    said(Event::CycleStarted, "...")
}

pub(crate) fn fault() -> AgentLine {
    failed("a fault in beadlock-agent itself; please report it")
}

pub(crate) fn no_database(why: impl Display) -> AgentLine {
    failed(format_args!("there is no database any more: {why}"))
}

pub(crate) fn failed(why: impl Display) -> AgentLine {
    said(Event::CycleFailed, format_args!(": {why}"))
}

/// How a cycle has ended.
pub(crate) fn ended(end: &CycleEnd) -> AgentLine {
    AgentLine::new(end.event(), end.to_string())
}

pub(crate) fn skipped(decision: &Decision) -> AgentLine {
    about(decision, of_decision(decision))
}

/// The line of a decision, as the checker words it.
fn of_decision(decision: &Decision) -> AgentLine {
    AgentLine::new(decision.event(), decision.to_string())
}

fn holder(record: &Record) -> String {
    let since = record
        .started_at()
        .map(|time| time.to_string())
        .unwrap_or_default();
    format!(
        "{since} by PID {} on {}",
        record.pid(),
        escaped(record.hostname())
    )
}

pub(crate) fn held(record: &Record, reason: Reason, zombie: Option<&Zombie>) -> AgentLine {
    let zombie = zombie
        .map(|zombie| format!("; {zombie}"))
        .unwrap_or_default();
    said(
        Event::Held,
        format!("{} ({reason}){zombie}", holder(record)),
    )
    .about(record)
    .because(reason)
}

pub(crate) fn still_skipping(decision: &Decision, took: Duration, dir: &Path) -> AgentLine {
    let witness = decision
        .record()
        .map(|record| format!(" since {}", holder(record)))
        .unwrap_or_default();
    let why = decision.why().unwrap_or_default();
    let (took, reason) = (shown(took), decision.reason());
    let command = to_type("beadlock status {}", &[Part::Path(dir)]);
    let rest = format!("{took}: {why}{witness} ({reason}); {command} says what to do");
    about(decision, said(Event::StillSkipping, rest))
}

/// The state of a database, since when it holds; `words` follow its word.
pub(crate) fn state(event: Event, since: StartedAt, words: impl Display) -> AgentLine {
    said(event, words).since(since)
}

/// A session in the fleet at this url has begun.
pub(crate) fn joined_fleet(url: &str) -> AgentLine {
    said(Event::FleetJoined, escaped(url))
}

/// The session in the fleet has ended, for the reason `why`.
pub(crate) fn lost_fleet(why: &str) -> AgentLine {
    said(Event::FleetLost, why)
}

/// `1 skip`, `2 skips`.
pub(crate) fn counted(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

pub(crate) fn resumed(skips: u64, took: Duration) -> AgentLine {
    let skips = counted(skips, "skip");
    said(Event::Resumed, format_args!("{skips} in {}", shown(took)))
}

pub(crate) fn removed_stale(decision: &Decision) -> AgentLine {
    about(decision, of_decision(decision))
}

fn about(decision: &Decision, line: AgentLine) -> AgentLine {
    let line = line.because(decision.reason());
    match decision.record() {
        Some(record) => line.about(record),
        None => line,
    }
}

pub(crate) fn no_gate(why: impl Display) -> AgentLine {
    said(
        Event::NoGate,
        format_args!("{why}); a claim does not wait for a running cycle here"),
    )
}

pub(crate) fn cannot_watch(why: impl Display) -> AgentLine {
    said(
        Event::CannotWatch,
        format_args!("{why}); cycles start by the clock"),
    )
}

/// How many databases are served, are new, have gone, have another policy; and what changes only at the next start.
pub(crate) fn reloaded([all, new, gone, changed]: [usize; 4], kept: &[&str]) -> AgentLine {
    let kept: String = kept
        .iter()
        .map(|what| format!("; another {what} is opened at the next start"))
        .collect();
    let all = counted(all as u64, "database");
    let counts = format_args!("{all}, {new} new, {gone} gone, {changed} changed{kept}");
    said(Event::ConfigurationReloaded, counts)
}

pub(crate) fn not_reloaded(why: impl Display) -> AgentLine {
    said(
        Event::ConfigurationNotReloaded,
        format_args!("{why}; the old one stays"),
    )
}

pub(crate) fn found(dir: &Path) -> AgentLine {
    said(Event::DatabaseFound, escaped_path(dir))
}

pub(crate) fn gone(dir: &Path) -> AgentLine {
    said(Event::DatabaseGone, escaped_path(dir))
}

/// The name of a database leads to another directory than before.
pub(crate) fn redirected(old: &Database, to: &Path) -> AgentLine {
    let (named, old, to) = (
        escaped_path(&old.named),
        escaped_path(&old.dir),
        escaped_path(to),
    );
    said(
        Event::DatabaseRedirected,
        format_args!("{named} leads to {to} now, and led to {old} before"),
    )
}

pub(crate) fn others_gone(count: usize) -> AgentLine {
    said(Event::DatabaseGone, counted(count as u64, "other"))
}

pub(crate) fn not_serving(dir: &Path, why: impl Display) -> AgentLine {
    said(
        Event::NotServing,
        format_args!("{}: {why}", escaped_path(dir)),
    )
}

/// The one run of `--once` has found no database to serve.
pub(crate) fn nothing_served(roots: &[PathBuf]) -> AgentLine {
    let roots: Vec<String> = roots.iter().map(|root| escaped_path(root)).collect();
    said(
        Event::NothingServed,
        format_args!("{}; name another --root, or --db DIR", roots.join(", ")),
    )
}

/// A root, or a directory below one, cannot be read.
pub(crate) fn cannot_look(dir: &Path, why: impl Display) -> AgentLine {
    said(
        Event::CannotLook,
        format_args!("{}: {why}", escaped_path(dir)),
    )
}

/// The first line of each file: which agent writes it.
pub(crate) fn header() -> AgentLine {
    AgentLine::new(Event::Header, format!("{}, times in UTC", this_agent()))
}

pub(crate) fn started() -> AgentLine {
    said(Event::AgentStarted, this_agent())
}

/// Where the agent can be asked how it fares.
pub(crate) fn listening(address: &Address) -> AgentLine {
    said(Event::Listening, address)
}

/// Another agent lives that serves the database.
pub(crate) fn served_by(other: &AgentProcess) -> AgentLine {
    let pid = other.pid;
    let stop = to_type("kill {}", &[Part::Pid(pid)]);
    let name = escaped(&other.name()).to_string();
    let rest = format_args!("{name}; one agent is enough: stop this one, or type: {stop}");
    said(Event::AlsoServed, rest)
}

/// The agent was told to end, with so many cycles running.
pub(crate) fn ending(signal: &str, running: usize) -> AgentLine {
    let after = match running {
        0 => String::new(),
        running => format!(" after {}", counted(running as u64, "running cycle")),
    };
    said(Event::Ending, format_args!("{signal}{after}"))
}

pub(crate) fn stopped() -> AgentLine {
    said(Event::AgentStopped, this_agent().name())
}

/// An entry about this is missing in the audit file.
pub(crate) fn not_audited(about: AuditEvent, failed: &audit::Failed) -> AgentLine {
    let event = match about {
        AuditEvent::LockStaleRemoved => Event::RemovalNotAudited,
        _ => Event::SkipNotAudited,
    };
    AgentLine::new(event, failed.to_string())
}

/// A line of a command's output.
pub(crate) fn output(text: &str) -> AgentLine {
    // It begins as the agent's lines do, or as the line by which another daemon takes a log over.
    let is_own =
        |text: &str| Event::parse(text).0 != Event::Output || text.starts_with(ORIGINAL_START);
    let after_a_name = || {
        text.match_indices(": ")
            .any(|(colon, found)| is_own(&text[colon + found.len()..]))
    };
    let is_marked = text.starts_with(MARK) || is_own(text) || after_a_name();
    AgentLine::new(
        Event::Output,
        format!("{}{text}", if is_marked { MARK } else { "" }),
    )
}

#[cfg(test)]
mod tests;
