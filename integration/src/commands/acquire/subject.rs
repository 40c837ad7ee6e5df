//! The process that a claim is for: its end ends the claim.

use std::{ffi::OsStr, fs, path::Path};

use beadlock_checker::internal::{facts::Liveness, process, process::Stat};
use nix::unistd::getppid;

use crate::claim::command;
use crate::error::{Code, Error};

/// Shells: a copy that one of them makes of itself is a part of the same script.
const SHELLS: [&str; 9] = ["sh", "ash", "bash", "busybox", "dash", "ksh", "ksh93", "mksh", "zsh"];

/// Programs that only start others, and end with them.
const WRAPPERS: [&str; 12] =
    ["timeout", "sudo", "xargs", "env", "nice", "nohup", "setsid", "stdbuf", "ionice", "chrt", "doas", "time"];

/// Programs that are several others, by the name that they are called by.
const SEVERAL: [&str; 3] = ["busybox", "coreutils", "toybox"];

/// The name of the process, where that is a wrapper. A script that is called like one is a shell's.
pub fn wrapper(pid: i32) -> Option<&'static str> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let program = fs::read_link(format!("/proc/{pid}/exe")).ok();
    // Of a set-user-id program only the name is to be seen.
    let program = program.as_deref().and_then(Path::file_name).and_then(OsStr::to_str);
    let called = program.filter(|program| !SEVERAL.contains(program)).unwrap_or(name.trim_end());
    WRAPPERS.into_iter().find(|wrapper| *wrapper == called)
}

/// A process that was named on the command line.
///
/// # Errors
/// Exit 2 for a number that is no process's, exit 1 for a process that is gone.
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

/// There is no such process any more.
pub fn gone(pid: i32) -> Error {
    Error::new(Code::Io, format!("PID {pid} is gone: nothing is claimed for a process that has ended"))
}

/// Who called. A shell's copy of itself, as in `$(…)` or a pipe, ends with the line it is in: the shell it is a copy
/// of is meant, as by `$$`.
///
/// # Errors
/// Exit 2 when it is not to be seen, or never ends.
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
    Err(Error::usage(format!("{what}; name the one that the claim is for: --for PID, or --detach")))
}

/// Who called, as the kernel has it.
pub fn parent() -> i32 {
    getppid().as_raw()
}

/// What a process is called, as a holder's name.
pub fn name(pid: i32) -> Option<String> {
    Some(command::holder_name(OsStr::new(&process::name(pid)?)))
}

fn is_shell(pid: i32) -> bool {
    let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    program.file_name().and_then(OsStr::to_str).is_some_and(|name| SHELLS.contains(&name))
}
