//! Words for people: who holds a lock and for how long, and what can be pasted into a shell.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use beadlock_checker::dialect::beads::Record;
use beadlock_checker::escape::{escaped, escaped_path};
use beadlock_checker::facts::Liveness;
use beadlock_checker::{Gate, GateHolder, Look, facts, process};
use nix::errno::Errno;

use beadlock_checker::duration::shown;

/// The lock file of the database in `dir`.
pub fn lock_path(dir: &Path) -> PathBuf {
    dir.join(".exclusive-lock")
}

/// How long ago the lock was acquired, by the wall clock; a time in the future is no age at all.
pub fn age(record: &Record) -> Duration {
    Duration::try_from(record.started_at.age(facts::now())).unwrap_or_default()
}

/// True when the holder's process is of this machine and was found alive.
pub fn is_local_and_alive(look: &Look) -> bool {
    look.facts
        .as_ref()
        .is_some_and(|facts| matches!(facts.liveness, Liveness::Alive | Liveness::NotPermitted))
}

/// `make (PID 77: make release, on ci-3)`; the command only when the process is of this machine.
pub fn holder(look: &Look) -> Option<String> {
    let record = look.record.as_ref()?;
    let pid = i32::try_from(record.pid).ok().filter(|_| is_local_and_alive(look));
    let command = pid.and_then(process::command_line).map(|line| format!(": {}", escaped(&line)));
    let (name, host) = (escaped(&record.holder), escaped(&record.hostname));
    Some(format!("{name} (PID {}{}, on {host})", record.pid, command.unwrap_or_default()))
}

/// Who has the gate of `dir`: `PID 33 (beadlock-agent --db .beads)`; other users' processes may not be seen.
pub fn gate_holders(dir: &Path) -> String {
    let holders = Gate::holders(dir);
    let names: Vec<String> =
        holders.iter().map(|GateHolder { pid, command }| process_name(*pid, command)).collect();
    if names.is_empty() { "a process that /proc does not show us".to_owned() } else { names.join(", ") }
}

/// `PID 33 (sleep 60)`.
pub fn process_name(pid: i32, command: &str) -> String {
    if command.is_empty() { format!("PID {pid}") } else { format!("PID {pid} ({})", escaped(command)) }
}

/// A duration as a phrase.
pub fn for_how_long(duration: Duration) -> String {
    format!("for {}", shown(duration))
}

/// The system's own words, without Rust's `(os error N)`.
pub fn of_system(error: &io::Error) -> String {
    error
        .raw_os_error()
        .map_or_else(|| error.to_string(), |errno| Errno::from_raw(errno).desc().to_lowercase())
}

/// A word that a shell reads back as it is.
pub fn quoted(word: &OsStr) -> String {
    let text = escaped_path(Path::new(word));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_typed_survives_a_shell() {
        for (word, shell) in
            [("make", "make"), ("a b", "'a b'"), ("it's", r"'it'\''s'"), ("", "''"), ("$(x)", "'$(x)'")]
        {
            assert_eq!(quoted(OsStr::new(word)), shell);
        }
    }
}
