//! The watchdog: the small process beside a command that does what must be done when its parent is killed.
//!
//! - Under a claim that ends with beadlock it ends the command's whole tree: without a heartbeat there must be no work
//!   (docs/design.md#holding). It also hears of each heartbeat ([`Pulse`]). Where there is none for too long (its
//!   parent was stopped, or hangs, or the machine has slept), it stops the tree until the next heartbeat. Under a claim
//!   in a fleet it hears of each new deadline, and kills the tree when the last one passes: its parent may have been
//!   stopped, and others may begin to work soon (docs/design.md#the-fleet).
//! - Under `beadlock cycle` it is the gate keeper (docs/design.md#the-gate): it holds the same open gate, so that the
//!   gate stays shut for as long as the command works. It waits until the command's process has ended and, where that
//!   led a process group of its own, until no process lives in that group, since children that still write may be left.
//!   Then it opens the gate. On a terminal the command is in the group of its caller, and that group says nothing.
//!
//! | descriptor | is |
//! |---|---|
//! | 0 | a pipe that its parent alone has the other end of: it ends with the parent; heartbeats are told in it |
//! | 1 | one byte, once it watches; `/dev/null` from then on |
//! | 2 | the gate, or the file whose flock ends with the work, shared for as long as it lives; else `/dev/null` |
//! | more | the other files whose flock ends with the work, under a claim of several targets |
//!
//! Order: the command's process is there, but does not execute yet; the watchdog is started, and watches; the command
//! executes. A parent that has seen the end of the command, or lets it go, kills the watchdog. The end of a cycle lets
//! the gate go first. A watchdog does not die of the signals that end a daemon, which a service manager sends to all
//! processes at once.
//!
//! `flock` belongs to the open file: letting it go here would let go of the parent's too. As long as the parent
//! lives, it is the one to do so; an orphaned gate keeper does it before it ends.
//!
//! The kernel tells the command to end at the same moment (`parent_death` of
//! [`Spawn`](beadlock_base::sys::Spawn)). All processes of the tree (`claim/tree.rs`) get TERM, then
//! CONT; what is left after the grace gets KILL, until two looks in a row find nothing.
//!
//! # Limits
//! A stopped process that another program continues, as a shell's `fg` does, works for up to 20 ms before it is stopped
//! again. A process that this user may not signal lives on. A watchdog that is killed itself leaves the command alone
//! with the signal of the kernel, which a set-user-id program does not get.

mod pulse;
mod standstill;

use std::io::{self, PipeWriter};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use std::{collections::HashSet, fs::File, thread::sleep};

use beadlock_base::beside::{self, has_said_so};
use beadlock_base::process::{self, Stat};
use beadlock_base::sys;
use beadlock_core::gate::Gate;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::{sys::signal::Signal, unistd::dup2_stderr};
use pulse::{Came, Heard};
use standstill::Standstill;

use super::request::{AtEnd, HelperRequest, WatchdogRequest};
use crate::claim::tree::{self, Tree};

pub use crate::claim::tree::{KnownCommand, VARIABLE, variable};
pub use pulse::Pulse;

/// The pause between two looks at all processes.
const PAUSE: Duration = Duration::from_millis(10);

/// The pause between two looks at a process group.
const GROUP_PAUSE: Duration = Duration::from_millis(20);

/// How often it is looked whether a stopped process still stands still.
const AGAIN: Duration = Duration::from_millis(20);

/// After this long what gets KILL would have ended if it could.
const LONG: Duration = Duration::from_secs(2);

/// A watchdog that watches. Dropped, it is killed and reaped, and does nothing.
#[derive(Debug)]
#[must_use = "dropped, it watches no more"]
pub struct Watchdog {
    child: Child,
    /// Its end is ours.
    alive: PipeWriter,
}

impl Watchdog {
    /// Starts one for `command`, and returns once it watches. `shared` are the open files that it keeps locked when its
    /// parent is killed. The names of the command and of the target are for `ps`.
    pub fn start(
        command: KnownCommand,
        at_end: AtEnd,
        (name, target): (&str, &str),
        shared: &[BorrowedFd<'_>],
    ) -> io::Result<Self> {
        let mut shared = shared
            .iter()
            .map(BorrowedFd::try_clone_to_owned)
            .collect::<io::Result<Vec<_>>>()?
            .into_iter();
        let first = shared.next();
        let others: Vec<OwnedFd> = shared.collect();
        for fd in &others {
            // It inherits them by their numbers. Nothing else is started before they are closed here.
            fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty()))?;
        }
        let kept = others.iter().map(AsRawFd::as_raw_fd).collect();
        let (watched, alive) = io::pipe()?;
        let (ready, for_watchdog) = io::pipe()?;
        let request = WatchdogRequest {
            parent: std::process::id().cast_signed(),
            command,
            at_end,
            kept,
        };
        let title = request.title(name, target);
        let mut command = beside::helper(&title, &HelperRequest::Watchdog(request))?;
        command.stdin(Stdio::from(watched)).stdout(for_watchdog);
        command.stderr(first.map_or_else(Stdio::null, Stdio::from));
        let watchdog = Self {
            child: command.spawn()?,
            alive,
        };
        drop(command); // It has the pipes' other ends.
        has_said_so(ready)?;
        Ok(watchdog)
    }

    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Where heartbeats are told.
    pub fn pulse(&self) -> io::Result<Pulse> {
        Pulse::on(self.alive.try_clone()?)
    }
}

impl Drop for Watchdog {
    /// Before the pipe is closed, and by the one signal that cannot be blocked.
    fn drop(&mut self) {
        // Not reaped a moment ago, so the PID is still its own.
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

pub fn main(request: WatchdogRequest) {
    let WatchdogRequest {
        command,
        at_end,
        kept,
        ..
    } = request;
    let name = match at_end {
        AtEnd::EndTree { .. } => beside::WATCHDOG,
        AtEnd::OpenGate => c"beadlock-gate",
    };
    beside::stand_apart(name, &kept);
    let end = sys::pidfd_open(command.process.pid).ok();
    // It is there to be open. Nothing that is written to stderr may get into it.
    let shared = io::stderr().as_fd().try_clone_to_owned();
    if shared.is_ok()
        && let Ok(null) = File::options().write(true).open("/dev/null")
    {
        let _ = dup2_stderr(null);
    }
    beside::say_so();
    match at_end {
        AtEnd::EndTree {
            token,
            grace,
            silence,
            deadlines,
        } => {
            let tree = Tree::of_command(command, token);
            let mut heard = Heard::new(silence, deadlines);
            wait_for_parent(&mut heard, || tree.living());
            // What would tidy up would do so under a lock that may be somebody else's.
            let grace = if heard.is_late() {
                Duration::ZERO
            } else {
                grace
            };
            end_tree(&tree, grace, || heard.is_past_deadline());
        }
        AtEnd::OpenGate => {
            wait_for_parent(&mut Heard::new(None, Vec::new()), Vec::new);
            command.process.wait(end);
            // As long as a process lives in the group, no other group gets its number.
            while command.leads && !process::group_is_gone(command.process.pid) {
                sleep(GROUP_PAUSE);
            }
            match shared {
                Ok(gate) => Gate::unlock(gate),
                Err(_) => Gate::unlock(io::stderr()),
            }
        }
    }
}

/// Returns at the parent's end, or past a deadline. Until then a `tree` stands still while there was no heartbeat for
/// too long.
fn wait_for_parent(heard: &mut Heard, tree: impl Fn() -> Vec<Stat>) {
    let mut standstill = Standstill::default();
    let stdin = io::stdin();
    let mut stands = false;
    while heard.wait(stdin.as_fd(), stands.then_some(AGAIN)) == Came::Time {
        if heard.is_late() {
            standstill.keep(&tree);
            stands = true;
        } else if std::mem::take(&mut stands) && !heard.is_over() {
            standstill.end();
        }
    }
}

/// TERM to each process that is found, CONT, and after the grace or past a deadline KILL, until none is found twice in
/// a row.
fn end_tree(tree: &Tree, grace: Duration, is_past_deadline: impl Fn() -> bool) {
    let begun = Instant::now();
    let mut asked = HashSet::new();
    let mut seen_none = false;
    while process::proc_is_ours() {
        let living = tree.living();
        if living.is_empty() && seen_none {
            return;
        }
        seen_none = living.is_empty();
        if begun.elapsed() >= grace || is_past_deadline() {
            tree::signal(&living, Signal::SIGKILL);
        } else {
            let is_new = |stat: &&Stat| asked.insert((stat.pid, stat.start_ticks));
            for stat in living.iter().filter(is_new) {
                tree::signal(std::slice::from_ref(stat), Signal::SIGTERM);
                tree::signal(std::slice::from_ref(stat), Signal::SIGCONT);
            }
        }
        // What it may not kill it need not ask a hundred times a second.
        sleep(if begun.elapsed() > grace.saturating_add(LONG) {
            LONG
        } else {
            PAUSE
        });
    }
}
