//! `beadlock hold`, stopped before a certain one of its system calls.

use std::fs;
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Where. Each is before a call; the next one is after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// It has no command's process yet.
    Fork,
    /// It has one, and asks for the gate.
    Gate,
    /// It has the gate and a complete record, and links that.
    Link,
    /// The lock stands; it lets the gate go.
    LetGate,
    /// It has let the gate go, and lets the command execute.
    LetExecute,
    /// The command's process executes the command.
    Execute,
    /// The command has ended; it asks for the gate, to release.
    Release,
}

impl Point {
    pub const ALL: [Self; 7] = [
        Self::Fork,
        Self::Gate,
        Self::Link,
        Self::LetGate,
        Self::LetExecute,
        Self::Execute,
        Self::Release,
    ];

    /// A call with this number and these arguments is the one.
    fn is(self, number: libc::c_long, arguments: &[u64]) -> bool {
        let argument = |at: usize| arguments.get(at).copied().unwrap_or_default();
        let flock =
            |operation: i32| number == libc::SYS_flock && argument(1) & operation as u64 != 0;
        match self {
            Self::Fork => [libc::SYS_clone, libc::SYS_clone3].contains(&number),
            Self::Gate | Self::Release => flock(libc::LOCK_EX),
            Self::Link => number == libc::SYS_linkat,
            Self::LetGate => flock(libc::LOCK_UN),
            // The one byte that the pipe is for.
            Self::LetExecute => number == libc::SYS_write && argument(2) == 1,
            Self::Execute => number == libc::SYS_execve,
        }
    }

    /// Which of these calls it is, from 1: a claim takes the gate, and a release does.
    fn count(self) -> usize {
        if self == Self::Release { 2 } else { 1 }
    }
}

/// A program that stands still.
pub struct Stopped {
    child: Child,
    /// What stands still: the program, or the process of its command.
    traced: Pid,
    /// The program has been waited for behind the child's back: its PID is anybody's.
    is_reaped: bool,
}

impl Stopped {
    /// Runs a shell that stops itself and becomes `beadlock hold` then, up to this point. None where nobody may be
    /// traced.
    pub fn before(point: Point, mut command: Command) -> Option<Self> {
        let child = command.stdout(Stdio::null()).spawn().expect("sh starts");
        let mut stopped = Self {
            traced: pid_of(&child),
            child,
            is_reaped: false,
        };
        stopped.next_status(WaitPidFlag::WUNTRACED, point);
        let mut options = Options::PTRACE_O_TRACESYSGOOD
            | Options::PTRACE_O_TRACEEXEC
            | Options::PTRACE_O_EXITKILL;
        if point == Point::Execute {
            options |= Options::PTRACE_O_TRACEFORK | Options::PTRACE_O_TRACECLONE;
        }
        if ptrace::seize(stopped.traced, options).is_err() {
            stopped.kill();
            return None;
        }
        kill(stopped.traced, Signal::SIGCONT).expect("it is ours");
        stopped.run_to(point);
        Some(stopped)
    }

    fn run_to(&mut self, point: Point) {
        // Until it executes the program it is a shell.
        let (mut executed, mut inside, mut seen) = (false, true, 0);
        loop {
            let pass_on = match self.next_status(WaitPidFlag::__WALL, point) {
                WaitStatus::PtraceEvent(_, _, event) if event == libc::PTRACE_EVENT_EXEC => {
                    (executed, inside) = (true, true);
                    None
                }
                WaitStatus::PtraceEvent(
                    program,
                    _,
                    libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_CLONE,
                ) => {
                    let child = ptrace::getevent(program).expect("the PID of its child");
                    self.traced = Pid::from_raw(child as i32);
                    inside = false;
                    // From here on the program itself goes its way.
                    ptrace::detach(program, None).expect("it is stopped");
                    continue;
                }
                WaitStatus::PtraceSyscall(pid) if executed => {
                    inside = !inside;
                    let is_it = inside
                        && call_of(pid).is_some_and(|(number, words)| point.is(number, &words));
                    seen += usize::from(is_it);
                    if seen == point.count() {
                        return;
                    }
                    None
                }
                WaitStatus::Stopped(_, signal) => Some(signal),
                _ => None,
            };
            ptrace::syscall(self.traced, pass_on).expect("it is stopped");
        }
    }

    /// The next event of the traced process, which must not be its end.
    fn next_status(&mut self, flags: WaitPidFlag, point: Point) -> WaitStatus {
        let status = waitpid(self.traced, Some(flags)).expect("it is ours");
        if matches!(status, WaitStatus::Exited(..) | WaitStatus::Signaled(..)) {
            self.is_reaped = self.traced == pid_of(&self.child);
            panic!("it ended before it came to {point:?}: {status:?}");
        }
        status
    }

    /// The PID of `beadlock hold`.
    pub fn pid(&self) -> i32 {
        pid_of(&self.child).as_raw()
    }

    /// It continues, and nobody stops it any more.
    pub fn go_on(&mut self) {
        ptrace::detach(self.traced, None).expect("it stands still");
    }

    /// `beadlock hold` never continues. A command's process that stands still does.
    pub fn kill(&mut self) {
        let pid = pid_of(&self.child);
        let _ = kill(pid, Signal::SIGKILL);
        let _ = self.child.wait();
        if self.traced != pid {
            let _ = ptrace::detach(self.traced, None);
        }
    }

    /// How it has ended; None as long as it has not.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if !self.is_reaped {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

/// What it is about to call, and with what; None when `/proc` does not say.
fn call_of(pid: Pid) -> Option<(libc::c_long, Vec<u64>)> {
    let text = fs::read_to_string(format!("/proc/{pid}/syscall")).ok()?;
    let mut words = text.split_ascii_whitespace();
    let number = words.next()?.parse().ok()?;
    let arguments =
        words.filter_map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok());
    Some((number, arguments.collect()))
}
