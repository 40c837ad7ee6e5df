//! From the command's start to the end of what must end before the release (DESIGN 7, "Signals and terminals").
//!
//! Promises: the command is not reaped here, so its PID answers until the lock is gone. After a signal this
//! returns only when the whole tree has ended. Without one, what the command left behind is reported.

use std::os::fd::AsFd;
use std::time::Duration;

use beadlock_checker::process::Stat;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::event::wait_for;
use super::signals::{Received, Signals};
use super::tree::{self, Ending, Tree};
use super::wait::Deadline;
use crate::talk::Talk;
use beadlock_checker::duration::shown;

/// How often the tree is looked at again, beside every SIGCHLD, while its end is waited for.
const NET: Duration = Duration::from_millis(200);
/// After KILL its end is near.
const NET_AFTER_KILL: Duration = Duration::from_millis(20);

/// A command that runs.
#[derive(Debug)]
pub struct Running {
    /// Its PID.
    pub pid: i32,
    /// It leads a process group of its own.
    pub own_group: bool,
    /// How long what is left after a signal may take.
    pub kill_after: Duration,
    /// Wait for all that the command started.
    pub wait_group: bool,
    /// What it has started.
    pub tree: Tree,
}

/// What became of it.
#[derive(Debug)]
pub struct Ended {
    /// How the command itself ended.
    pub ending: Ending,
    /// What it left behind and is still alive.
    pub left: Vec<Stat>,
    /// SIGINT came.
    pub interrupted: bool,
}

/// What has come while it runs.
#[derive(Debug, Default)]
struct Came {
    passed_on: bool,
    from_terminal: bool,
    interrupted: bool,
    /// When what is left gets KILL.
    deadline: Option<Deadline>,
    killed: bool,
}

impl Running {
    /// Waits for the command, passes signals on, and waits for the tree where that is asked for.
    pub fn supervise(&self, signals: &mut Signals, talk: &Talk) -> Ended {
        let mut came = Came::default();
        let mut said_waiting = false;
        loop {
            let ending = tree::ending(self.pid);
            tree::reap_orphans(self.pid);
            if let Some(ending) = ending {
                // Who survives a Ctrl-C and ends well later (a shell, an interpreter) has not been ended by it.
                let signalled = came.passed_on || came.from_terminal && ending != Ending::Exited(0);
                let must_end = signalled || self.wait_group;
                let left = self.left(must_end);
                if left.is_empty() || !must_end {
                    return Ended { ending, left, interrupted: came.interrupted };
                }
                if signalled {
                    came.deadline.get_or_insert_with(|| Deadline::after(self.kill_after));
                }
                if !std::mem::replace(&mut said_waiting, true) {
                    talk.say(&format!("the command has ended; waiting for {}", tree::names(&left)));
                }
            }
            if came.deadline.is_some_and(Deadline::is_over) {
                self.kill_all(&mut came, talk);
            }
            let net = match (&came, ending) {
                (Came { killed: true, .. }, _) => NET_AFTER_KILL,
                (_, Some(_)) => NET,
                _ => Duration::MAX,
            };
            let limit =
                came.deadline.filter(|_| !came.killed).map_or(net, |deadline| deadline.left().min(net));
            wait_for([Some(signals.as_fd())], limit);
            while let Some(received) = signals.next() {
                self.receive(received, ending.is_some(), &mut came);
            }
        }
    }

    /// What lives of the tree. Its end is believed only when seen twice: a process may be born while one looks.
    fn left(&self, must_be_sure: bool) -> Vec<Stat> {
        let left = self.tree.living();
        if left.is_empty() && must_be_sure { self.tree.living() } else { left }
    }

    fn receive(&self, received: Received, has_ended: bool, came: &mut Came) {
        let Received { signal, from_terminal } = received;
        if signal == Signal::SIGCHLD {
            return;
        }
        came.interrupted |= signal == Signal::SIGINT;
        if from_terminal {
            came.from_terminal = true;
        } else {
            came.passed_on = true;
            self.pass_on(signal, has_ended);
            came.deadline.get_or_insert_with(|| Deadline::after(self.kill_after));
        }
    }

    fn pass_on(&self, signal: Signal, has_ended: bool) {
        // A stopped process takes its TERM only when it goes on.
        let and_then = (signal == Signal::SIGTERM).then_some(Signal::SIGCONT);
        for signal in [Some(signal), and_then].into_iter().flatten() {
            let pid = Pid::from_raw(self.pid);
            // An error means that nobody is left to hear it. The unreaped command keeps the group's number ours.
            if self.own_group {
                let _ = killpg(pid, signal);
            } else if has_ended {
                tree::signal(&self.tree.living(), signal);
            } else {
                let _ = kill(pid, signal);
            }
        }
    }

    fn kill_all(&self, came: &mut Came, talk: &Talk) {
        let left = self.tree.living();
        if !std::mem::replace(&mut came.killed, true) && !left.is_empty() {
            let limit = shown(self.kill_after);
            talk.warn(&format!("still running {limit} after the signal, killing: {}", tree::names(&left)));
            if self.own_group {
                let _ = killpg(Pid::from_raw(self.pid), Signal::SIGKILL);
            }
            let spared = tree::signal(&left, Signal::SIGKILL);
            if !spared.is_empty() {
                let names = tree::names(&spared);
                talk.warn(&format!("not permitted to kill {names}; the lock stays until they have ended"));
            }
        } else {
            tree::signal(&left, Signal::SIGKILL);
        }
    }
}
