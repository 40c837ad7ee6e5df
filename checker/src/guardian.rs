//! The guardian: the small process beside `beadlock cycle` that holds the same open gate (DESIGN 5).
//!
//! It is the running binary itself, started again with a hidden first argument, as the [`runner`](crate::runner) is.
//! But it runs nothing: the command stays the child of whoever started it, with its terminal and its streams. The
//! guardian only waits for that one process to end, so that the gate stays shut for as long as the command lives,
//! also when its parent was killed. It does not die of the signals that end a daemon, which a service manager sends
//! to everyone at once.
//!
//! | descriptor | is |
//! |---|---|
//! | 0 | the gate, the same open file as the parent's |
//! | 1 | one byte, once it guards; `/dev/null` from then on |
//! | 2 | `/dev/null` |
//!
//! Order: the command's process is there, but does not execute yet; the guardian is started, and guards; the command
//! executes. Whoever of the two is killed from then on, the other one has the gate.
//!
//! `flock` belongs to the open file: letting it go here would let go of the parent's too. As long as the parent
//! lives, it is the one to do so; an orphaned guardian does it before it ends.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_name;
use nix::sys::signal::SigSet;
use nix::unistd::{Pid, chdir, close, dup2_stdout, getppid, setsid};

use crate::facts::Liveness;
use crate::process::{self, Stat};
use crate::{Gate, sys};

/// The hidden first argument: `main` hands the rest to [`main`] before it reads any command line.
pub const ARGUMENT: &str = "__guard-cycle";

/// How long a guardian may take until it guards.
const START: Duration = Duration::from_secs(10);

/// How long it may take to notice that the command has ended. One that somebody has stopped would never.
const END: Duration = Duration::from_secs(1);

/// How often a process is looked at where there is no pidfd.
const POLL: Duration = Duration::from_millis(20);

/// A guardian that guards. [`Guardian::end`] waits for its end and reaps it.
#[derive(Debug)]
#[must_use = "the guardian is to be reaped, by `end`"]
pub struct Guardian {
    child: Child,
}

impl Guardian {
    /// Starts one for the process `pid`, a child that has not been reaped, and returns once it guards. `name` is for
    /// who looks at its command line.
    ///
    /// # Errors
    /// What the system said; nothing is left behind then, and the gate is still this process's.
    pub fn start(gate: &Gate, pid: i32, name: &OsStr) -> io::Result<Self> {
        let shared = gate.share().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
        let (ready, for_guardian) = io::pipe()?;
        let this = Path::new("/proc/self/exe");
        // Where there is no /proc; the first finds the binary also after it was replaced.
        let program = if this.exists() { this.to_path_buf() } else { std::env::current_exe()? };
        let order = Order { parent: std::process::id().cast_signed(), process: Process::of(pid) };
        let mut command = Command::new(program);
        command.arg0(std::env::args_os().next().unwrap_or_default()).arg(ARGUMENT);
        command.args(order.words()).arg(name);
        command.stdin(Stdio::from(shared)).stdout(for_guardian).stderr(Stdio::null());
        let mut guardian = Self { child: command.spawn()? };
        drop(command); // It has the pipe's other end.
        match has_said_so(ready) {
            Ok(()) => Ok(guardian),
            Err(error) => {
                guardian.kill();
                Err(error)
            }
        }
    }

    /// Its PID.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Waits for its end, once the process that it watches has ended, and reaps it; one that is stopped is killed.
    pub fn end(mut self) {
        let deadline = Instant::now() + END;
        // An error: somebody else has reaped it.
        while let Ok(None) = self.child.try_wait() {
            if Instant::now() >= deadline {
                return self.kill();
            }
            sleep(Duration::from_millis(1));
        }
    }

    fn kill(&mut self) {
        // Not reaped a moment ago, so the PID is still its own.
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Waits for the one byte.
fn has_said_so(mut ready: PipeReader) -> io::Result<()> {
    let deadline = Instant::now() + START;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(ready.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return ready.read_exact(&mut [0]),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Whom to watch, and for whom.
#[derive(Debug, PartialEq, Eq)]
struct Order {
    /// Who lets the gate go as long as it lives.
    parent: i32,
    process: Process,
}

impl Order {
    fn words(&self) -> [String; 3] {
        let start = self.process.start_ticks.map_or("-".to_owned(), |ticks| ticks.to_string());
        [self.parent.to_string(), self.process.pid.to_string(), start]
    }

    fn parse(args: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut args = args.into_iter().map(|word| word.into_string().ok());
        let parent = args.next()??.parse().ok()?;
        let pid = args.next()??.parse().ok().filter(|pid| *pid > 0)?;
        let start_ticks = match args.next()??.as_str() {
            "-" => None,
            ticks => Some(ticks.parse().ok()?),
        };
        Some(Self { parent, process: Process { pid, start_ticks } })
    }
}

/// The guardian's `main`, with the arguments after [`ARGUMENT`]. Returns the exit code.
pub fn main(args: impl IntoIterator<Item = OsString>) -> u8 {
    let Some(order) = Order::parse(args) else {
        let _ = writeln!(io::stderr(), "this is for beadlock's own use");
        return 2;
    };
    // Whatever can be blocked: it starts nothing that would inherit it.
    let _ = SigSet::all().thread_block();
    let _ = setsid();
    let _ = set_name(c"beadlock-guard"); // Started by way of /proc it is "exe".
    let _ = chdir("/");
    close_the_rest();
    let end = sys::pidfd_open(order.process.pid);
    // The pipe of a parent that was killed meanwhile: there is nobody to be told.
    let _ = io::stdout().write_all(b".").and_then(|()| io::stdout().flush());
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        let _ = dup2_stdout(null);
    }
    order.process.wait(end);
    if getppid() != Pid::from_raw(order.parent) {
        Gate::unlock(io::stdin());
    }
    0
}

/// What the parent was started with beside its streams: a pipe of somebody else's must not stay open through us.
fn close_the_rest() {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<RawFd>().ok();
    // All first: among them is the descriptor of the listing itself, which is closed by the end of it.
    let fds: Vec<RawFd> = entries.filter_map(number).filter(|fd| *fd > 2).collect();
    for fd in fds {
        let _ = close(fd);
    }
}

/// A process, told from one that has its PID later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    pid: i32,
    /// None where `/proc` does not say.
    start_ticks: Option<u64>,
}

impl Process {
    fn of(pid: i32) -> Self {
        Self { pid, start_ticks: process::start_ticks(pid.into()) }
    }

    /// Returns once it has ended, reaped or not; `end` becomes readable then.
    fn wait(self, end: io::Result<OwnedFd>) {
        // Looked at after the descriptor was opened: it is of this process then, and stays so.
        while !self.has_ended() {
            let Ok(end) = &end else {
                sleep(POLL);
                continue;
            };
            if poll(&mut [PollFd::new(end.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE).is_ok() {
                return;
            }
        }
    }

    fn has_ended(self) -> bool {
        if process::probe(self.pid.into()) == Liveness::Gone {
            return true;
        }
        let Some(stat) = Stat::read(self.pid).filter(|_| process::proc_is_ours()) else { return false };
        self.start_ticks.is_some_and(|ticks| ticks != stat.start_ticks)
            || stat.is_zombie() && process::is_dead_zombie(self.pid) == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_survives_the_command_line() {
        for start_ticks in [Some(4242), None] {
            let order = Order { parent: 7, process: Process { pid: 77, start_ticks } };
            let words = order.words().map(OsString::from).into_iter().chain(["make".into()]);
            assert_eq!(Order::parse(words), Some(order));
        }
        for words in [&[][..], &["1"], &["1", "2"], &["1", "0", "-"], &["1", "-1", "-"], &["1", "2", "x"]] {
            assert_eq!(Order::parse(words.iter().map(OsString::from)), None, "{words:?}");
        }
    }

    #[test]
    fn waits_for_the_end_of_a_process_with_a_pidfd_and_without() {
        for with_pidfd in [true, false] {
            let mut child = Command::new("sleep").arg("60").spawn().unwrap();
            let process = Process::of(child.id().cast_signed());
            assert!(process.start_ticks.is_some() && !process.has_ended());
            let end = if with_pidfd {
                sys::pidfd_open(process.pid)
            } else {
                Err(io::ErrorKind::Unsupported.into())
            };
            let waiting = std::thread::spawn(move || process.wait(end));
            sleep(Duration::from_millis(50));
            assert!(!waiting.is_finished(), "{with_pidfd}");
            child.kill().unwrap();
            waiting.join().unwrap(); // A zombie has ended.
            assert!(process.has_ended());
            child.wait().unwrap();
            process.wait(sys::pidfd_open(process.pid));
        }
    }

    #[test]
    fn a_pid_that_is_another_process_by_now_is_not_waited_for() {
        let me = Process::of(std::process::id().cast_signed());
        let earlier = Process { start_ticks: me.start_ticks.map(|ticks| ticks - 1), ..me };
        assert!(!me.has_ended() && earlier.has_ended());
        earlier.wait(sys::pidfd_open(me.pid));
    }
}
