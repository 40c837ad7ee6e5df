//! Words for people: who holds a lock and for how long, and what can be pasted into a shell.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use beadlock_checker::dialect::beads::Record;
use beadlock_checker::escape::{escaped, is_harmless};
use beadlock_checker::facts::Liveness;
use beadlock_checker::{Gate, GateHolder, Look, facts, process, system_words};
use nix::errno::Errno;

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

/// `PID 33 (sleep 60)`.
pub fn process_name(pid: i32, command: &str) -> String {
    if command.is_empty() { format!("PID {pid}") } else { format!("PID {pid} ({})", escaped(command)) }
}

/// The system's words for a process or a thread that could not be made.
pub fn of_no_process(error: &io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EAGAIN) => "no more processes are allowed to this user (ulimit -u)".to_owned(),
        _ => system_words(error),
    }
}

/// A word that a shell reads back as it is, byte by byte; what could not be seen, or would move the cursor, as
/// `$'…'`.
pub fn quoted(word: &OsStr) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(byte);
    match word.to_str() {
        Some(text) if !text.is_empty() && text.bytes().all(|byte| is_plain(&byte)) => text.to_owned(),
        Some(text) if text.chars().all(is_harmless) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => {
            // Only ASCII stands for itself: its neighbours may be cut out of a longer character.
            let shown = |byte: &u8| match *byte {
                b'\'' | b'\\' => format!("\\{}", char::from(*byte)),
                byte @ b' '..=b'~' => char::from(byte).to_string(),
                byte => format!("\\{byte:03o}"),
            };
            format!("$'{}'", word.as_bytes().iter().map(shown).collect::<String>())
        }
    }
}

/// A path that is no option, and that a shell reads back as it is.
pub fn quoted_path(path: &Path) -> String {
    let is_dashed = path.as_os_str().as_bytes().first() == Some(&b'-');
    quoted(if is_dashed { Path::new(".").join(path) } else { path.to_owned() }.as_os_str())
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
        for (word, shell) in [
            (&b"a\nb"[..], r"$'a\012b'"),
            (b"it's\xff1\\", r"$'it\'s\3771\\'"),
            ("\u{202e}x".as_bytes(), r"$'\342\200\256x'"),
            ("schön".as_bytes(), "'schön'"),
        ] {
            assert_eq!(quoted(OsStr::from_bytes(word)), shell);
        }
        assert_eq!(quoted_path(Path::new("-x/.beads")), "./-x/.beads");
        assert_eq!(quoted_path(Path::new("-\n")), r"$'./-\012'");
    }
}
