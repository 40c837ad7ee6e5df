//! A tree of programs, stopped before each call of some of them that changes a file.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use nix::libc;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::{call_of, seize};

/// What happens before a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It is made.
    GoOn,
    /// Its process is killed.
    Kill,
    /// The program is killed, and all that it has started.
    KillAll,
}

/// A process that is about to change a file, or to start a program.
#[derive(Debug)]
pub struct Step {
    /// How many of them came before.
    pub number: usize,
    /// The process, or a thread of it.
    pub pid: Pid,
    /// The number of the call.
    pub call: libc::c_long,
}

/// How a walk has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walked {
    /// The program's code, or 128 and the signal.
    pub code: i32,
    /// The steps of those that were watched.
    pub steps: usize,
}

/// The calls that change a file, by name or by what is in it; and the start of a program.
const CHANGES: [libc::c_long; 22] = [
    libc::SYS_copy_file_range,
    libc::SYS_execve,
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_fdatasync,
    libc::SYS_fsetxattr,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_linkat,
    libc::SYS_mkdirat,
    libc::SYS_openat,
    libc::SYS_pwrite64,
    libc::SYS_renameat2,
    libc::SYS_sendfile,
    libc::SYS_symlinkat,
    libc::SYS_syncfs,
    libc::SYS_unlinkat,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Those that newer machines do not have.
#[cfg(target_arch = "x86_64")]
const OLD_CHANGES: [libc::c_long; 12] = [
    libc::SYS_chmod,
    libc::SYS_creat,
    libc::SYS_link,
    libc::SYS_mkdir,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_rmdir,
    libc::SYS_symlink,
    libc::SYS_truncate,
    libc::SYS_unlink,
    libc::SYS_utimensat,
    libc::SYS_utimes,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CHANGES: [libc::c_long; 2] = [libc::SYS_truncate, libc::SYS_utimensat];

/// Those whose first argument is the descriptor that they change.
const ON_DESCRIPTORS: [libc::c_long; 12] = [
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_fchown,
    libc::SYS_fdatasync,
    libc::SYS_fsetxattr,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_pwrite64,
    libc::SYS_sendfile,
    libc::SYS_syncfs,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Runs a shell that stops itself and becomes a program then. `is_watched` is told the path and the arguments of each
/// program of the tree; `next` is asked before each step of those. `None` where nobody may be traced.
pub fn walk(
    command: Command,
    is_watched: impl Fn(&[Vec<u8>]) -> bool,
    mut next: impl FnMut(&Step) -> Next,
) -> Option<Walked> {
    let program = seize(command)?;
    let mut walked = Walked { code: 0, steps: 0 };
    // The threads: whether each is watched, and whether it is inside a call.
    let mut threads: HashMap<Pid, (bool, bool)> = HashMap::from([(program, (false, true))]);
    let mut are_to_end = false;
    while !threads.is_empty() {
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        let status = waitpid(Pid::from_raw(-1), Some(flags)).expect("the program is ours");
        let Some(pid) = status.pid() else { continue };
        let mut pass_on = None;
        let thread = threads
            .entry(pid)
            .or_insert_with(|| (is_watched(&arguments(pid)), false));
        match status {
            WaitStatus::Exited(_, code) => {
                threads.remove(&pid);
                walked.code = if pid == program { code } else { walked.code };
                continue;
            }
            WaitStatus::Signaled(_, signal, _) => {
                threads.remove(&pid);
                walked.code = if pid == program {
                    128 + signal as i32
                } else {
                    walked.code
                };
                continue;
            }
            WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_EXEC) => {
                *thread = (is_watched(&arguments(pid)), true);
            }
            WaitStatus::PtraceSyscall(_) => {
                thread.1 = !thread.1;
                if let (true, true, Some(call)) = (thread.0, thread.1, change_of(pid)) {
                    let step = Step {
                        number: walked.steps,
                        pid,
                        call,
                    };
                    walked.steps += 1;
                    match next(&step) {
                        Next::GoOn => {}
                        Next::Kill => {
                            kill(pid, Signal::SIGKILL).expect("it is ours");
                            continue;
                        }
                        Next::KillAll => are_to_end = true,
                    }
                }
            }
            WaitStatus::Stopped(_, signal) => pass_on = Some(signal),
            _ => {}
        }
        if are_to_end {
            // An error: it has ended.
            for pid in threads.keys() {
                let _ = kill(*pid, Signal::SIGKILL);
            }
            continue;
        }
        let is_watched = threads.get(&pid).is_some_and(|thread| thread.0);
        // An error: it was killed by somebody else, which the next round sees.
        let _ = if is_watched {
            ptrace::syscall(pid, pass_on)
        } else {
            ptrace::cont(pid, pass_on)
        };
    }
    Some(walked)
}

/// The path of a program, and its arguments.
fn arguments(pid: Pid) -> Vec<Vec<u8>> {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
}

/// The number of the call that it is about to make, where that changes a file or starts a program.
fn change_of(pid: Pid) -> Option<libc::c_long> {
    let (call, arguments) = call_of(pid)?;
    let argument = |at: usize| arguments.get(at).copied().unwrap_or_default();
    let writes = (libc::O_CREAT | libc::O_TMPFILE | libc::O_WRONLY | libc::O_RDWR) as u64;
    let is_change = (CHANGES.contains(&call) || OLD_CHANGES.contains(&call))
        && match call {
            libc::SYS_openat => argument(2) & writes != 0,
            _ if ON_DESCRIPTORS.contains(&call) => is_file(pid, argument(0)),
            _ => true,
        };
    is_change.then_some(call)
}

/// A descriptor of a file, not of a pipe.
fn is_file(pid: Pid, descriptor: u64) -> bool {
    let path = PathBuf::from(format!("/proc/{pid}/fd/{descriptor}"));
    fs::read_link(path).is_ok_and(|path| path.is_absolute() && !path.starts_with("/dev/null"))
}
