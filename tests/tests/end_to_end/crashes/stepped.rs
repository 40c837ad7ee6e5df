//! A program that is killed before a certain one of its system calls: a crash that comes at the same place every time.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// The calls that change something which others see. To be killed between any two of the others leaves the same.
const CHANGES: [libc::c_long; 18] = [
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_execve,
    libc::SYS_exit_group,
    libc::SYS_fchmod,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_ftruncate,
    libc::SYS_kill,
    libc::SYS_linkat,
    libc::SYS_openat,
    libc::SYS_pipe2,
    libc::SYS_renameat2,
    libc::SYS_setpgid,
    libc::SYS_setsid,
    libc::SYS_unlinkat,
    libc::SYS_write,
];
/// Of the commands of fcntl.
const SET_LEASE: u64 = 1024;

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
pub enum Stepped {
    /// It was killed before this call.
    Killed,
    /// It ended with this code before it came to that.
    Ended(i32),
    /// Nobody may be stopped by us here.
    Impossible,
}

/// Runs a shell that stops itself and becomes a program then, and kills that before the `at`th of its calls that change
/// something.
#[expect(clippy::zombie_processes, reason = "waitpid has the end of it")]
pub fn kill_at(mut command: Command, at: usize) -> Stepped {
    let mut child = command.spawn().expect("sh starts");
    let pid = Pid::from_raw(child.id().cast_signed());
    waitpid(pid, Some(WaitPidFlag::WUNTRACED)).expect("it stops");
    let options = Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACEEXEC | Options::PTRACE_O_EXITKILL;
    if ptrace::seize(pid, options).is_err() {
        kill(pid, Signal::SIGKILL).expect("it is ours");
        child.wait().expect("it ends");
        return Stepped::Impossible;
    }
    kill(pid, Signal::SIGCONT).expect("it is ours");
    // Until it executes the program it is a shell.
    let (mut executed, mut inside, mut seen) = (false, true, 0);
    loop {
        let status = waitpid(pid, Some(WaitPidFlag::__WALL)).expect("it is ours");
        let pass_on = match status {
            WaitStatus::Exited(_, code) => return Stepped::Ended(code),
            WaitStatus::Signaled(_, signal, _) => return Stepped::Ended(128 + signal as i32),
            WaitStatus::PtraceEvent(_, _, event) if event == libc::PTRACE_EVENT_EXEC => {
                executed = true;
                inside = true;
                None
            }
            WaitStatus::PtraceSyscall(_) if executed => {
                inside = !inside;
                if inside && changes_something(pid) {
                    seen += 1;
                    if seen > at {
                        kill(pid, Signal::SIGKILL).expect("it is ours");
                        assert_eq!(child.wait().expect("it ends").signal(), Some(libc::SIGKILL));
                        return Stepped::Killed;
                    }
                }
                None
            }
            WaitStatus::Stopped(_, signal) => Some(signal),
            _ => None,
        };
        // An error: it was killed by somebody else, which the next round sees.
        let _ = ptrace::syscall(pid, pass_on);
    }
}

/// What it is about to call; `running` or nothing when `/proc` does not say.
fn changes_something(pid: Pid) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    let mut words = text.split_ascii_whitespace();
    let Some(number) = words.next().and_then(|word| word.parse::<libc::c_long>().ok()) else { return false };
    let arguments: Vec<u64> =
        words.filter_map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()).collect();
    let argument = |at: usize| arguments.get(at).copied().unwrap_or_default();
    let writes = (libc::O_CREAT | libc::O_TMPFILE | libc::O_WRONLY | libc::O_RDWR) as u64;
    CHANGES.contains(&number)
        && match number {
            libc::SYS_fcntl => argument(1) == SET_LEASE,
            libc::SYS_openat => argument(2) & writes != 0,
            _ => true,
        }
}
