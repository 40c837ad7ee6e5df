//! From the command's start to the end of what must end before the release (docs/design.md#signals).
//!
//! Promises: the command is not reaped here, so its PID answers until the lock is gone. After a signal this
//! returns only when the whole tree has ended. Without one, what the command left behind is reported.

use std::time::{Duration, Instant};
use std::{io, os::fd::AsFd, thread::sleep};

use beadlock_base::process::{self, Stat};
use beadlock_base::{duration::shown, sys::Starting};
use nix::sys::signal::{Signal, kill, killpg, raise};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, getpgid, getpgrp, getppid, getsid};

use crate::on_loss::OnLoss;
use beadlock_base::poll::wait_for_each;
use beadlock_claim::error::Exit;
use beadlock_claim::keeping::{Guard, LossReport};
use beadlock_claim::loss::Loss;
use beadlock_claim::wait::Deadline;
use beadlock_console::end::End;
use beadlock_console::talk::Talk;
use beadlock_supervise::signals::{Received, Signals};
use beadlock_supervise::tree::{self, CommandEnd, Tree};

/// How often the tree is looked at again while its end is waited for. The net only: the last process of the tree is our
/// child by then, and its end reaches us as SIGCHLD.
const NET: Duration = Duration::from_secs(5);
/// After KILL its end is near. A process that may not be killed is asked ever more seldom, up to
/// [`KILL_AGAIN_AT_MOST`].
const KILL_AGAIN: Duration = Duration::from_millis(20);
const KILL_AGAIN_AT_MOST: Duration = Duration::from_secs(2);

/// A command's process, and how it is supervised.
#[derive(Debug)]
pub struct Running {
    /// The PID of the command.
    pub pid: i32,
    /// Whether the command leads a process group of its own.
    pub own_group: bool,
    /// How long what is left after a signal or a loss may take.
    pub kill_after: Duration,
    /// What the loss of a claim means to the command.
    pub on_loss: OnLoss,
    /// Whether the end of the tree is waited for without a signal or a loss, too.
    pub wait_group: bool,
    /// All that the command has started.
    pub tree: Tree,
}

#[derive(Debug)]
pub(crate) struct Ended {
    pub ending: CommandEnd,
    /// What it left behind and is still alive.
    pub left: Vec<Stat>,
    pub interrupted: bool,
    /// The claim that was lost meanwhile, by its place in the list, and how.
    pub lost: Option<(usize, Loss)>,
}

impl Ended {
    /// How the program ends then: as the command did.
    pub fn end(&self) -> End {
        match self.ending {
            CommandEnd::Killed(signal) if signal == Signal::SIGINT as i32 && self.interrupted => {
                End::Interrupted
            }
            CommandEnd::Killed(signal) => End::Code(Exit::Signal(signal).code()),
            CommandEnd::Exited(code) => End::Code(Exit::Command(code).code()),
        }
    }
}

/// What has come to a running command, and when KILL is to come.
#[derive(Debug, Default)]
pub struct Came {
    passed_on: bool,
    /// When the terminal sent its last signal to the command.
    from_terminal: Option<Instant>,
    interrupted: bool,
    lost: Option<(usize, Loss)>,
    /// When the command was seen to have ended.
    ended: Option<Instant>,
    /// When what is left gets KILL, for the first time and again.
    pub deadline: Option<Deadline>,
    /// The pause after the last KILL.
    killed: Option<Duration>,
    asked: Vec<(i32, u64)>,
}

impl Running {
    /// Waits for the command, passes signals on, watches the lock, and waits for the tree where that is asked for.
    /// Fails with what `execve` said of the command, which has not run then.
    pub(crate) fn supervise(
        &self,
        mut starting: Option<Starting>,
        mut guards: Vec<(usize, Guard<'_>)>,
        signals: &mut Signals,
        talk: &Talk,
    ) -> io::Result<Ended> {
        let mut came = Came::default();
        let mut said_waiting = false;
        loop {
            let ending = tree::end_of(self.pid);
            // After that: what has ended the command was sent to us before its end was to be seen.
            let mut has_received = false;
            while let Some(received) = signals.receive() {
                let is_late = guards.iter().any(|(_, guard)| guard.is_late());
                self.receive(received, ending.is_some(), is_late, &mut came);
                has_received = true;
            }
            if has_received && ending.is_none() {
                // The news of its end may have been among them: nothing would wake us for it again.
                continue;
            }
            if ending.is_some()
                && let Some(starting) = starting.take()
            {
                starting.result()?;
            }
            if let Some(ending) = ending {
                let signalled = self.was_ended_by_a_signal(&mut came);
                let left = self.left(signalled || self.wait_group);
                if left.is_empty() || !(signalled || self.wait_group) {
                    return Ok(Ended {
                        ending,
                        left,
                        interrupted: came.interrupted,
                        lost: came.lost,
                    });
                }
                if signalled {
                    came.deadline
                        .get_or_insert_with(|| Deadline::after(self.kill_after));
                }
                if !std::mem::replace(&mut said_waiting, true) {
                    talk.say(&format!(
                        "the command has ended; waiting for {}",
                        tree::names(&left)
                    ));
                }
            } else {
                tree::reap_orphans(self.pid);
            }
            if came.deadline.is_some_and(Deadline::is_over) {
                self.kill_all(&mut came, talk);
            }
            let net = if ending.is_some() { NET } else { Duration::MAX };
            let limit = came
                .deadline
                .map_or(net, |deadline| deadline.left().min(net));
            let limit = guards
                .iter()
                .map(|(_, guard)| guard.left())
                .fold(limit, Duration::min);
            let fds = [Some(signals.as_fd()), starting.as_ref().map(AsFd::as_fd)];
            let fds = fds
                .into_iter()
                .chain(guards.iter().map(|(_, guard)| guard.fd()))
                .collect::<Vec<_>>();
            let ready = wait_for_each(&fds, limit);
            let has_started = ready.get(1) == Some(&true);
            let mut lost = None;
            for (at, (claim, guard)) in guards.iter_mut().enumerate() {
                let woken = ready.get(at + 2) == Some(&true);
                if let Some(told) = guard.look(woken) {
                    lost = Some((*claim, told, guard.is_late()));
                    break;
                }
            }
            if let Some((claim, told, is_late)) = lost {
                self.lose(claim, told, is_late, &mut came, talk);
                // The command is being ended, whatever becomes of the others.
                guards.clear();
            }
            if has_started && let Some(starting) = starting.take() {
                starting.result()?;
            }
        }
    }

    /// A signal of the terminal has ended the command unless it has lived on for `--kill-after` since. Then it has
    /// survived it, as a shell or an interpreter does, and ends later for reasons of its own. Its exit code tells
    /// nothing: a command that tidies up after a Ctrl-C may well end with 0.
    fn was_ended_by_a_signal(&self, came: &mut Came) -> bool {
        let ended = *came.ended.get_or_insert_with(Instant::now);
        let is_near = |signal: Instant| ended.saturating_duration_since(signal) <= self.kill_after;
        came.passed_on || came.from_terminal.is_some_and(is_near)
    }

    /// What lives of the tree of a command that has ended. Mostly nothing, and then our own children tell it, however
    /// many processes there are. The tree's end is not believed by one scan of them all: one may be born while it
    /// goes on.
    pub fn left(&self, must_be_sure: bool) -> Vec<Stat> {
        if let Some(none) = self.tree.orphans(self.pid).filter(Vec::is_empty) {
            return none;
        }
        let all = process::all();
        tree::reap_orphans_of(&all, self.pid);
        let left = self.tree.living_of(all);
        if !left.is_empty() || !must_be_sure {
            return left;
        }
        self.tree
            .orphans(self.pid)
            .unwrap_or_else(|| self.tree.living())
    }

    /// A signal has come: it is passed on where the terminal has not done so, and what is left after the grace is to
    /// end.
    pub fn receive(&self, received: Received, has_ended: bool, is_late: bool, came: &mut Came) {
        let Received {
            signal,
            from_terminal,
        } = received;
        if signal == Signal::SIGCHLD {
            // A command that is to end within a grace must not stop us: nobody would see the grace's end.
            if !is_late && came.deadline.is_none() {
                self.stop_with_the_command();
            }
            return;
        }
        came.interrupted |= signal == Signal::SIGINT;
        // A command that has left our group, as by setsid, does not have what the terminal sent to the group.
        if from_terminal && getpgid(Some(Pid::from_raw(self.pid))) == Ok(getpgrp()) {
            came.from_terminal = Some(Instant::now());
        } else {
            came.passed_on = true;
            self.pass_on(signal, has_ended);
            came.deadline
                .get_or_insert_with(|| Deadline::after(self.kill_after));
        }
    }

    /// A command that stops itself alone, without the terminal: the shell whose job we are would never see it, and keep
    /// the terminal with us. Only where there is such a shell: without one nobody would continue us.
    fn stop_with_the_command(&self) {
        let is_stopped_alone = || {
            // Time for a Ctrl-Z to stop us too, and for an `fg` to make the command go on too.
            self.is_stopped() && {
                sleep(Duration::from_millis(10));
                self.is_stopped()
            }
        };
        // An interactive shell as the command has a group of its own there.
        let is_in_our_session = getsid(Some(Pid::from_raw(self.pid))) == getsid(None);
        if is_a_shells_job() && is_in_our_session && is_stopped_alone() {
            let _ = raise(Signal::SIGSTOP);
            // The process that continued us means the command too, whether or not the whole group has heard it.
            let _ = kill(Pid::from_raw(self.pid), Signal::SIGCONT);
        }
    }

    fn is_stopped(&self) -> bool {
        let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        matches!(
            waitid(Id::Pid(Pid::from_raw(self.pid)), flags),
            Ok(WaitStatus::Stopped(..))
        )
    }

    fn pass_on(&self, signal: Signal, has_ended: bool) {
        // A stopped process takes it only when it goes on.
        for signal in [signal, Signal::SIGCONT] {
            self.send(signal, has_ended);
        }
    }

    /// To the command's group, where it has its own; else to the command, or to what is left of it.
    fn send(&self, signal: Signal, has_ended: bool) {
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

    /// The lock is lost: nobody is kept away any more.
    fn lose(&self, claim: usize, told: LossReport, is_late: bool, came: &mut Came, talk: &Talk) {
        let (cause, subject) = (&told.cause, told.loss.subject());
        let grace = match &told.loss {
            // Before somebody else may have the lock.
            Loss::Overdue { left, .. } | Loss::Fleet { left, .. } => self.kill_after.min(*left),
            // Somebody else may have worked under it for long, and the command stands still: it is not to go on.
            _ if is_late => Duration::ZERO,
            _ => self.kill_after,
        };
        came.lost = Some((claim, told.loss));
        match self.on_loss {
            OnLoss::Kill => {
                came.passed_on = true;
                // First: the reader of the words may have stopped reading.
                let deadline = if grace.is_zero() {
                    self.end_tree(&[Signal::SIGKILL]);
                    came.killed = Some(KILL_AGAIN);
                    Deadline::after(KILL_AGAIN)
                } else {
                    // A stopped process must go on to end.
                    self.end_tree(&[Signal::SIGTERM, Signal::SIGCONT]);
                    Deadline::after(grace)
                };
                came.deadline = Some(
                    came.deadline
                        .map_or(deadline, |other| other.sooner(Some(deadline))),
                );
                talk.warn(&format!(
                    "the {subject} is lost, ending the command: {cause}"
                ));
            }
            OnLoss::Warn => talk.warn(&format!(
                "the {subject} is lost, the command runs on without it: {cause}"
            )),
            OnLoss::Signal(signal) => {
                // Without CONT: a command that somebody has stopped must not go on without its lock.
                self.send(signal, tree::end_of(self.pid).is_some());
                talk.warn(&format!("the {subject} is lost, the command gets {signal} and runs on without it: {cause}"));
            }
        }
    }

    /// Sends each of these signals to the command's group, where it leads one, and to all other processes of the tree.
    pub fn end_tree(&self, signals: &[Signal]) {
        for &signal in signals {
            if self.own_group {
                let _ = killpg(Pid::from_raw(self.pid), signal);
            }
            let is_elsewhere = |stat: &Stat| !self.own_group || stat.pgrp != self.pid;
            let rest: Vec<Stat> = self
                .tree
                .living()
                .into_iter()
                .filter(is_elsewhere)
                .collect();
            tree::signal(&rest, signal);
        }
    }

    /// KILL to whatever lives of it, and again later for as long as something does.
    pub fn kill_all(&self, came: &mut Came, talk: &Talk) {
        let left = self.tree.living();
        let is_first = came.killed.is_none();
        if is_first && !left.is_empty() {
            let limit = shown(self.kill_after);
            talk.warn(&format!(
                "still running {limit} after it was asked to end, killing: {}",
                tree::names(&left)
            ));
            if self.own_group {
                let _ = killpg(Pid::from_raw(self.pid), Signal::SIGKILL);
            }
        }
        let spared = tree::signal(&left, Signal::SIGKILL);
        if is_first && !spared.is_empty() {
            let names = tree::names(&spared);
            talk.warn(&format!(
                "not permitted to kill {names}; the lock stays until they have ended"
            ));
        }
        if tree::end_of(self.pid).is_some() {
            self.tree.kill_orphans(self.pid);
        }
        // What is killed for the first time ends soon; what is asked again and again may not be killed at all.
        let numbers: Vec<(i32, u64)> = left
            .iter()
            .map(|stat| (stat.pid, stat.start_ticks))
            .collect();
        let is_the_same = std::mem::replace(&mut came.asked, numbers.clone()) == numbers;
        let longer = |pause: Duration| (pause * 2).min(KILL_AGAIN_AT_MOST);
        let pause = came
            .killed
            .filter(|_| is_the_same)
            .map_or(KILL_AGAIN, longer);
        came.killed = Some(pause);
        came.deadline = Some(Deadline::after(pause));
    }
}

/// Our parent is a shell with job control, which gives each of its jobs a group: whether we lead ours or are in the
/// middle of a pipe.
fn is_a_shells_job() -> bool {
    let parent = Some(getppid());
    getsid(parent) == getsid(None) && getpgid(parent).is_ok_and(|group| group != getpgrp())
}
