//! Words for people: the holder of a lock, for how long it holds it, and what can be pasted into a shell.

use std::{io, path::Path, time::Duration};

use beadlock_base::escape::process_name;
use beadlock_base::escape::{escaped, is_harmless};
pub use beadlock_base::shell::{Part, quoted, to_type};
use beadlock_base::{duration::shown, process::Liveness};
use beadlock_base::{error::system_words, filesystem::FileKind, process};
use beadlock_core::record::{Record, StartedAt};
use beadlock_core::{facts, gate::Gate, gate_holders::GateHolder, look::Look};
use nix::errno::Errno;

/// How long ago the lock was acquired, to the millisecond where that is known, else in whole seconds; zero for a time
/// in the future.
pub fn age(look: &Look) -> Duration {
    known_age(look).unwrap_or_default()
}

/// [`age`]; `None` for a time in the future, and where there is no time.
pub fn known_age(look: &Look) -> Option<Duration> {
    facts::age(
        look.record.as_ref()?,
        look.on_disk.map(|file| file.modified),
    )
}

/// How long ago a time was that the lock file contains; `None`: it lies in the future.
pub fn age_of_time(time: StartedAt, look: &Look) -> Option<Duration> {
    facts::age_of_time(time, look.on_disk.map(|file| file.modified))
}

/// [`known_age`] where nothing is known of the file.
pub fn age_of_record(record: &Record) -> Option<Duration> {
    facts::age(record, None)
}

/// The longest address that is written or shown, in characters.
pub const LONGEST_ADDRESS: usize = 1000;

/// Whether a text can be shown as an address: http or https, printable, without spaces, and without a user's name,
/// which would hide the host or tell a password.
pub fn is_address(text: &str) -> bool {
    let rest = ["http://", "https://"].into_iter().find_map(|scheme| {
        let (begin, rest) = text.split_at_checked(scheme.len())?;
        begin.eq_ignore_ascii_case(scheme).then_some(rest)
    });
    let host = rest.map(|rest| rest.split(['/', '?', '#', '\\']).next().unwrap_or_default());
    host.is_some_and(|host| !host.is_empty() && !host.contains('@'))
        && text.chars().count() <= LONGEST_ADDRESS
        && text.chars().all(|c| is_harmless(c) && !c.is_whitespace())
}

/// The address of what a lock is held for. What else a lock file may have in its place is not shown as one.
pub fn about(record: &Record) -> Option<String> {
    record
        .about()
        .filter(|text| is_address(text))
        .map(str::to_owned)
}

/// An age for people. Zero is shown without milliseconds, for the age may be known in whole seconds only.
pub fn shown_age(age: Duration) -> String {
    if age.is_zero() {
        "0s".to_owned()
    } else {
        shown(age)
    }
}

/// Whole milliseconds, [`u64::MAX`] at most.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// True when the holder's process is of this machine and was found alive.
pub fn is_local_and_alive(look: &Look) -> bool {
    look.facts
        .as_ref()
        .is_some_and(|facts| matches!(facts.liveness, Liveness::Alive | Liveness::NotPermitted))
}

/// The command of a holder whose process was found alive here.
pub fn command_of_holder(look: &Look) -> Option<String> {
    let pid = i32::try_from(look.record.as_ref()?.pid())
        .ok()
        .filter(|_| is_local_and_alive(look))?;
    process::command_line(pid).map(|line| escaped(&line).to_string())
}

/// The processes that have the gate of `dir`: `PID 33 (beadlock-agent --db .beads)`. Those of other users may be
/// hidden.
pub fn gate_holders(dir: &Path) -> String {
    match Gate::holders(dir).as_slice() {
        [] => "a process that /proc does not show us".to_owned(),
        holders => names(holders),
    }
}

/// `PID 33 (sleep 60), PID 34 (make)`.
pub fn names(processes: &[GateHolder]) -> String {
    let name = |GateHolder { pid, command }: &GateHolder| process_name(*pid, command);
    processes.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// A sentence about a database whose fleet is left out, for people and for the audit trail.
pub fn fleet_waived(given: &str) -> String {
    format!("{given} has joined a fleet, and with --no-fleet only this machine keeps away")
}

/// The command that shows a process of this machine.
pub fn see(pid: i64) -> String {
    to_type("ps -fp {}", &[Part::Pid(pid)])
}

/// The text between a command to type and its purpose. A shell takes it for a comment, so the line can be pasted.
const COMMENT: &str = "   # ";

/// `beadlock wait .beads   # waits until it is free`; the command alone where there is nothing to say of it.
pub fn with_comment(command: &str, comment: &str) -> String {
    match comment {
        "" => command.to_owned(),
        comment => format!("{command}{COMMENT}{comment}"),
    }
}

/// The inverse of [`with_comment`], for a line of another program: the command, and what it is for.
pub fn without_comment(line: &str) -> (&str, Option<&str>) {
    match line.split_once(COMMENT) {
        Some((command, comment)) => (command, Some(comment)),
        None => (line, None),
    }
}

/// `a directory`, `a FIFO`: the kind of a file, with its article.
pub fn kind_words(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "a file",
        FileKind::Directory => "a directory",
        FileKind::Symlink => "a symbolic link",
        FileKind::Fifo => "a FIFO",
        FileKind::Socket => "a socket",
        FileKind::Device => "a device",
    }
}

/// The system's words for a process or a thread that could not be made.
pub fn of_no_process(error: &io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EAGAIN) => "no more processes are allowed to this user (ulimit -u)".to_owned(),
        _ => system_words(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_told_from_its_comment() {
        for (command, comment, line) in [
            ("kill 7", "ends it", "kill 7   # ends it"),
            ("kill 7", "", "kill 7"),
        ] {
            assert_eq!(with_comment(command, comment), line);
            let comment = Some(comment).filter(|comment| !comment.is_empty());
            assert_eq!(without_comment(line), (command, comment));
        }
    }
}
