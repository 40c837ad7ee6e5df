//! The gate keeper: the small process beside `beadlock cycle` that holds the same open gate (docs/design.md#the-gate).
//!
//! It is the running binary itself, started again with a hidden first argument, as the
//! [`runner`](beadlock_checker::internal::runner) is. But it runs nothing: the command stays the child of whoever
//! started it, with its terminal and its streams. The gate keeper only waits, so that the gate stays shut for as long
//! as the command works, also when its parent was killed. It does not die of the signals that end a daemon, which a
//! service manager sends to everyone at once.
//!
//! | descriptor | is |
//! |---|---|
//! | 0 | the gate, the same open file as the parent's |
//! | 1 | one byte, once it guards; `/dev/null` from then on |
//! | 2 | `/dev/null` |
//!
//! Order: the command's process is there, but does not execute yet; the gate keeper is started, and guards; the command
//! executes. Whoever of the two is killed from then on, the other one has the gate. At the end of a cycle the parent
//! lets the gate go, and kills the gate keeper.
//!
//! A parent that is gone has told it nothing. The gate keeper then keeps the gate until the command's process has ended
//! and, where that led a process group of its own, until nobody lives in that group any more: a command that was told
//! to end may have children that still write. A zombie has ended, and an empty group is seen twice. On a terminal the
//! command is in the group of whoever typed it, and that group says nothing: the gate opens there with the end of the
//! command's process.
//!
//! `flock` belongs to the open file: letting it go here would let go of the parent's too. As long as the parent
//! lives, it is the one to do so; an orphaned gate keeper does it before it ends.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::killpg;
use nix::unistd::{Pid, getppid};

use beadlock_checker::internal::beside::{self, has_said_so, this_program};
use beadlock_checker::internal::facts::Liveness;
use beadlock_checker::internal::process::{self, Stat};
use beadlock_checker::internal::{Gate, sys};

/// The hidden first argument: `main` hands the rest to [`main`] before it reads any command line. Who has the gate is
/// told by it as well.
pub const ARGUMENT: &str = beside::GATE_KEEPER;

/// How often a process is looked at where there is no pidfd, and a process group.
const POLL: Duration = Duration::from_millis(20);

/// A gate keeper that guards. [`GateKeeper::end`] ends it and reaps it.
#[derive(Debug)]
#[must_use = "the gate keeper is to be reaped, by `end`"]
pub struct GateKeeper {
    child: Child,
}

impl GateKeeper {
    /// Starts one for `work`, whose process is a child that has not been reaped, and returns once it guards. `name` is
    /// for who looks at its command line.
    ///
    /// # Errors
    /// What the system said; nothing is left behind then, and the gate is still this process's.
    pub fn start(gate: &Gate, work: Work, name: &OsStr) -> io::Result<Self> {
        let shared = gate.share().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
        let (ready, for_gate_keeper) = io::pipe()?;
        let order = Order::to_guard(work);
        let mut command = this_program()?;
        command.arg(ARGUMENT).args(order.words()).arg(name);
        command.stdin(Stdio::from(shared)).stdout(for_gate_keeper).stderr(Stdio::null());
        let mut gate_keeper = Self { child: command.spawn()? };
        drop(command); // It has the pipe's other end.
        match has_said_so(ready) {
            Ok(()) => Ok(gate_keeper),
            Err(error) => {
                gate_keeper.kill();
                Err(error)
            }
        }
    }

    /// Its PID.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Ends it, once the gate was let go, and reaps it.
    pub fn end(mut self) {
        // By the one signal that nobody can keep from it. Until it comes, a death of this process leaves it the gate.
        self.kill();
    }

    fn kill(&mut self) {
        // Not reaped a moment ago, so the PID is still its own.
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// What a gate keeper keeps the gate for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// This process.
    Process(i32),
    /// This process and the process group that it leads.
    Group(i32),
}

/// Whom to watch, and for whom.
#[derive(Debug, PartialEq, Eq)]
struct Order {
    /// Who lets the gate go as long as it lives.
    parent: i32,
    process: Process,
    /// It leads a group of its own.
    leads: bool,
}

impl Order {
    fn to_guard(work: Work) -> Self {
        let (Work::Process(pid) | Work::Group(pid)) = work;
        let parent = std::process::id().cast_signed();
        Self { parent, process: Process::of(pid), leads: matches!(work, Work::Group(_)) }
    }

    fn words(&self) -> [String; 4] {
        let start = self.process.start_ticks.map_or("-".to_owned(), |ticks| ticks.to_string());
        let reach = if self.leads { "group" } else { "process" };
        [self.parent.to_string(), self.process.pid.to_string(), start, reach.to_owned()]
    }

    fn parse(args: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut args = args.into_iter().map(|word| word.into_string().ok());
        let parent = args.next()??.parse().ok()?;
        let pid = args.next()??.parse().ok().filter(|pid| *pid > 0)?;
        let start_ticks = match args.next()??.as_str() {
            "-" => None,
            ticks => Some(ticks.parse().ok()?),
        };
        let leads = match args.next()??.as_str() {
            "group" => true,
            "process" => false,
            _ => return None,
        };
        Some(Self { parent, process: Process { pid, start_ticks }, leads })
    }

    /// Returns once the parent is gone; one that lives ends this process.
    fn wait_for_parent(&self) {
        let is_gone = || getppid() != Pid::from_raw(self.parent);
        // Looked at after the descriptor was opened: it is the parent's then, and stays so.
        let end = sys::pidfd_open(self.parent);
        while !is_gone() {
            let Ok(end) = &end else {
                sleep(POLL);
                continue;
            };
            let _ = poll(&mut [PollFd::new(end.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE);
            // It is a zombie now, and for a moment still our parent.
            sleep(Duration::from_millis(1));
        }
    }
}

/// The gate keeper's `main`, with the arguments after [`ARGUMENT`]. Returns the exit code.
pub fn main(args: impl IntoIterator<Item = OsString>) -> u8 {
    let Some(order) = Order::parse(args) else {
        let _ = writeln!(io::stderr(), "this is for beadlock's own use");
        return 2;
    };
    beside::stand_apart(c"beadlock-guard");
    let end = sys::pidfd_open(order.process.pid);
    beside::say_so();
    order.process.wait(end);
    order.wait_for_parent();
    if order.leads {
        wait_for_group(order.process.pid);
    }
    Gate::unlock(io::stdin());
    0
}

/// Returns once nobody lives in the process group `group`, seen twice: whoever is made while `/proc` is read may be
/// missing there. As long as somebody lives in it, no process and no other group gets its number.
fn wait_for_group(group: i32) {
    let mut seen_empty = false;
    loop {
        let is_empty = is_empty(group);
        if is_empty && seen_empty {
            return;
        }
        seen_empty = is_empty;
        sleep(POLL);
    }
}

fn is_empty(group: i32) -> bool {
    if killpg(Pid::from_raw(group), None) == Err(Errno::ESRCH) {
        return true;
    }
    // A zombie answers, and what `/proc` does not show counts as alive.
    let has_ended = |stat: &Stat| stat.is_zombie() && process::is_dead_zombie(stat.pid) != Some(false);
    process::proc_is_ours() && process::all().iter().all(|stat| stat.pgrp != group || has_ended(stat))
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
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn the_order_survives_the_command_line() {
        for (start_ticks, leads) in [(Some(4242), true), (None, false)] {
            let order = Order { parent: 7, process: Process { pid: 77, start_ticks }, leads };
            let words = order.words().map(OsString::from).into_iter().chain(["make".into()]);
            assert_eq!(Order::parse(words), Some(order));
        }
        for words in [
            &[][..],
            &["1"],
            &["1", "2"],
            &["1", "2", "-"],
            &["1", "2", "-", "make"],
            &["1", "0", "-", "group"],
            &["1", "-1", "-", "group"],
            &["1", "2", "x", "group"],
        ] {
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
    fn a_group_is_empty_when_nobody_lives_in_it() {
        let mut leader = Command::new("sh")
            .args(["-c", "sleep 60 & echo $!; wait"])
            .process_group(0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let group = leader.id().cast_signed();
        let mut line = String::new();
        io::BufRead::read_line(&mut io::BufReader::new(leader.stdout.take().unwrap()), &mut line).unwrap();
        let member = Pid::from_raw(line.trim().parse().unwrap());
        leader.kill().unwrap();
        Process::of(group).wait(sys::pidfd_open(group));
        assert!(!is_empty(group), "its leader has ended, and one of it lives");
        nix::sys::signal::kill(member, nix::sys::signal::Signal::SIGKILL).unwrap();
        // It was never ours to reap; the leader is a zombie of the group.
        wait_for_group(group);
        assert!(is_empty(group));
        leader.wait().unwrap();
    }

    #[test]
    fn a_pid_that_is_another_process_by_now_is_not_waited_for() {
        let me = Process::of(std::process::id().cast_signed());
        let earlier = Process { start_ticks: me.start_ticks.map(|ticks| ticks - 1), ..me };
        assert!(!me.has_ended() && earlier.has_ended());
        earlier.wait(sys::pidfd_open(me.pid));
    }
}
