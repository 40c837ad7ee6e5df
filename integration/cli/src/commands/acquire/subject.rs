//! The process that a claim is for: its end ends the claim.

use beadlock_claim::error::Problem;
use std::ffi::{OsStr, OsString};
use std::fs;

use beadlock_base::process::{self, Stat};
use beadlock_base::{
    escape::{escaped, escaped_path},
    process::Liveness,
};
use beadlock_core::Options;
use beadlock_core::look::look;
use nix::unistd::getppid;

use beadlock_claim::error::{Code, Error};
use beadlock_claim::target::Target;
use beadlock_claim::words::{self, quoted, shown_age};
use beadlock_supervise::command;

/// Shells: a copy that one of them makes of itself is a part of the same script.
const SHELLS: [&str; 9] = [
    "sh", "ash", "bash", "busybox", "dash", "ksh", "ksh93", "mksh", "zsh",
];

/// Programs that only start others, and end with them.
const WRAPPERS: [&str; 12] = [
    "timeout", "sudo", "xargs", "env", "nice", "nohup", "setsid", "stdbuf", "ionice", "chrt",
    "doas", "time",
];

/// Programs that are several others, by the name that they are called by.
const SEVERAL: [&str; 3] = ["busybox", "coreutils", "toybox"];

/// The name of the process, where that is a wrapper. A script that is called like one is a shell's.
pub fn wrapper(pid: i32) -> Option<&'static str> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let program = program(pid);
    let program = program.as_deref().and_then(OsStr::to_str);
    let called = program
        .filter(|program| !SEVERAL.contains(program))
        .unwrap_or(name.trim_end());
    WRAPPERS.into_iter().find(|wrapper| *wrapper == called)
}

/// What the recorded process is called, where it is a shell that may end as soon as the line that it runs: one that was
/// started with `-c`, as a tool call is, or has no terminal.
pub fn passing_shell(pid: i32) -> Option<String> {
    if !is_shell(pid) {
        return None;
    }
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<&[u8]> = words.trim_ascii_end().split(|byte| *byte == 0).collect();
    if runs_a_string(words.get(1..)?) {
        let shell = words.first()?.rsplit(|byte| *byte == b'/').next()?;
        return Some(format!("{} -c …", escaped(&String::from_utf8_lossy(shell))));
    }
    let has_none = Stat::read(pid)?.terminal == 0;
    has_none.then(|| escaped(&process::command_line(pid).unwrap_or_default()).to_string())
}

/// A shell with these words was started with `-c`: alone, or among other letters. `o` and `O` take the next word.
fn runs_a_string(words: &[&[u8]]) -> bool {
    let mut words = words.iter();
    while let Some([b'-' | b'+', letters @ ..]) = words.next() {
        match letters {
            [] => return false,
            [b'-', ..] => {}
            _ if letters.contains(&b'c') => return true,
            _ => {
                let taken = letters.iter().filter(|letter| b"oO".contains(letter));
                taken.for_each(|_| {
                    words.next();
                });
            }
        }
    }
    false
}

/// A process that was named on the command line. An error has exit 2 for a number that cannot be a PID, and exit 1 for
/// a process that is gone.
pub fn named(pid: i32) -> Result<i32, Error> {
    if pid <= 0 {
        return Err(Error::usage(format!("--for {pid}: a PID is above 0")));
    }
    match process::probe(i64::from(pid)) {
        Liveness::Gone => Err(gone(pid)),
        _ if process::is_dead_zombie(pid) == Some(true) => Err(gone(pid)),
        _ => Ok(pid),
    }
}

pub fn gone(pid: i32) -> Error {
    Error::new(
        Code::Io,
        format!("PID {pid} is gone: nothing is claimed for a process that has ended"),
    )
}

/// The process that called. A shell's copy of itself, as in `$(…)` or a pipe, ends with its line, so this returns the
/// shell that was copied, as `$$` does. An error has exit 2: the caller cannot be seen from here, or never ends.
pub fn caller() -> Result<i32, Error> {
    let mut pid = parent();
    while let Some(above) = Stat::read(pid).map(|stat| stat.ppid)
        && above > 0
        && is_shell(pid)
        && process::is_forked_copy(pid, above)
    {
        pid = above;
    }
    let what = match pid {
        0 => "the process that called is not of this PID namespace",
        1 if process::is_initial_namespace() => "the process that called is init, which never ends",
        _ => return Ok(pid),
    };
    Err(Error::usage(format!(
        "{what}; name the one that the claim is for: --for PID, or --detach"
    )))
}

/// The process that called, as the kernel has it.
pub fn parent() -> i32 {
    getppid().as_raw()
}

/// The name of a process, in the form of a holder's name; `None` if the process cannot be seen.
pub fn name(pid: i32) -> Option<String> {
    Some(command::holder_name(OsStr::new(&process::name(pid)?)))
}

fn is_shell(pid: i32) -> bool {
    program(pid).is_some_and(|program| SHELLS.iter().any(|shell| program == *shell))
}

/// The base name of the running program; `None`: it cannot be seen, as of a set-user-id program.
fn program(pid: i32) -> Option<OsString> {
    let program = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    program.file_name().map(OsStr::to_owned)
}

/// Refuses a claim for the process `pid` where the lock names this very process: it would wait for itself. Only for
/// locks that name the process of their claim and are judged by it. The error is [`Code::LockHeld`], not to be retried,
/// and has the id to export.
pub fn refuse_second_claim(target: &Target, pid: i32) -> Result<(), Error> {
    let there = look(&target.place, &Options::default());
    if !target.is_held_by(&there, pid) {
        return Ok(());
    }
    let (lock, record) = (target.path(), there.record.as_ref());
    let path = escaped_path(&lock);
    let id = quoted(there.id.as_deref().unwrap_or_default().as_ref());
    let holder = target.holder(&there).unwrap_or_default();
    let age = words::known_age(&there);
    let message = format!(
        "{path} is held by {holder} for {}; this process holds it already: export BEADLOCK_ID={id}",
        shown_age(age.unwrap_or_default())
    );
    let error = Error::new(Code::LockHeld, message);
    Err(
        match record.map(|record| beadlock_claim::error::holder_of_record(&lock, record, age)) {
            Some(holder) => error
                .detailed(beadlock_claim::error::detail_of(&holder))
                .held_by(holder),
            None => error,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_that_runs_a_string_is_told_from_one_that_runs_a_script() {
        let is_string = |line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            runs_a_string(&words)
        };
        for line in [
            "-c x",
            "-ec x",
            "-e -c x",
            "--norc -c x",
            "-o pipefail -c x",
            "-eo pipefail -c x",
        ] {
            assert!(is_string(line), "{line}");
        }
        for line in [
            "",
            "-",
            "script -c",
            "-e script",
            "-eo pipefail script",
            "-- -c",
            "-s",
        ] {
            assert!(!is_string(line) || line == "-- -c", "{line}");
        }
    }
}
