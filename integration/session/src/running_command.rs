//! The time from the command's start to the end of all processes that must end before the release
//! (docs/design.md#signals).
//!
//! Promises: the command is not reaped here, so its PID answers until the lock is gone. After a signal this
//! returns only when the whole tree has ended. Without one, what the command left behind is reported.

use std::time::{Duration, Instant};
use std::{io, os::fd::AsFd, os::fd::BorrowedFd, thread::sleep};

use beadlock_base::deadline::Demand;
use beadlock_base::process::Stat;
use beadlock_base::{duration::shown, sys::Starting};
use nix::sys::signal::{Signal, kill, killpg, raise};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, getpgid, getpgrp, getppid, getsid};

use crate::on_loss::OnLoss;
use beadlock_base::poll::wait_for_each;
use beadlock_claim::error::Exit;
use beadlock_claim::kept_lock::{LossAlarm, SeenLoss};
use beadlock_claim::loss::Loss;
use beadlock_console::program_end::ProgramEnd;
use beadlock_console::talk::Talk;
use beadlock_supervise::process_tree::{self, CommandEnd, ProcessTree};
use beadlock_supervise::signals::{Received, Signals};
use beadlock_supervise::tree_ending::{Ending, EndingStep, Now, TreeLook};

/// A command's process, and how it is supervised.
#[derive(Debug)]
pub struct RunningCommand {
    /// The PID of the command.
    pub pid: i32,
    /// Whether the command leads a process group of its own.
    pub own_group: bool,
    /// How long the command's tree may take to end after a signal or a loss, before it gets KILL.
    pub kill_after: Duration,
    /// The choice of what happens to the command when a claim is lost.
    pub on_loss: OnLoss,
    /// Whether the end of the tree is waited for without a signal or a loss, too.
    pub wait_group: bool,
    /// All that the command has started.
    pub tree: ProcessTree,
}

/// How a supervised command has ended.
#[derive(Debug)]
pub struct WorkEnd<C> {
    /// As the system says it.
    pub ending: CommandEnd,
    /// What it left behind and is still alive.
    pub left: Vec<Stat>,
    /// SIGINT has come meanwhile.
    pub interrupted: bool,
    /// Why it was not left to itself.
    pub cause: Option<C>,
}

impl<C> WorkEnd<C> {
    /// How the program ends then: as the command did.
    pub fn end(&self) -> ProgramEnd {
        match self.ending {
            CommandEnd::Killed(signal) if signal == Signal::SIGINT as i32 && self.interrupted => {
                ProgramEnd::Interrupted
            }
            CommandEnd::Killed(signal) => ProgramEnd::Code(Exit::Signal(signal).code()),
            CommandEnd::Exited(code) => ProgramEnd::Code(Exit::Command(code).code()),
        }
    }
}

/// What is watched beside a running command, and may be the cause of its end. The first cause is the last thing that is
/// asked of it.
pub trait Alarms {
    /// Why the command is not left to itself.
    type Cause;

    /// What wakes it when it is readable.
    fn fds(&self) -> Vec<Option<BorrowedFd<'_>>>;

    /// How long it may be left alone, unless it is woken.
    fn left(&self) -> Duration;

    /// Looks, when it is time or when the descriptors of these places have woken it.
    fn look(&mut self, woken: &[bool], has_ended: bool) -> Option<Alarm<Self::Cause>>;

    /// The command may have been stopped, and not by itself.
    fn is_late(&self) -> bool {
        false
    }

    /// A signal has come, and was passed on. The tree of a command that survives it must end too where this is a cause.
    fn signalled(&mut self, _signal: Signal) -> Option<Self::Cause> {
        None
    }

    /// There is something else to wait for than the command's end.
    fn is_open(&self) -> bool {
        false
    }

    /// The command has ended, and these are waited for.
    fn waits_for(&mut self, _left: &[Stat]) {}
}

/// What an alarm means to the command.
#[derive(Debug)]
pub struct Alarm<C> {
    /// Why.
    pub cause: C,
    /// What is done to it.
    pub response: Response,
    /// What is said of it then.
    pub words: Option<String>,
}

/// What is done to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Response {
    /// Its tree is ended, with this grace.
    End(Duration),
    /// It gets this signal. Without CONT: a command that somebody has stopped must not go on without its lock.
    Send(Signal),
    /// Nothing.
    GoOn,
}

/// A claim that was lost, by its place in the list, and how.
pub(crate) type LostClaim = (usize, Loss);

/// The claims of a command. The first loss is the cause of its end.
struct LossAlarms<'g> {
    /// Each with the place of its claim in the list.
    guards: Vec<(usize, LossAlarm<'g>)>,
    on_loss: OnLoss,
    kill_after: Duration,
    talk: &'g Talk,
    said_waiting: bool,
}

impl Alarms for LossAlarms<'_> {
    type Cause = LostClaim;

    fn fds(&self) -> Vec<Option<BorrowedFd<'_>>> {
        self.guards.iter().map(|(_, guard)| guard.fd()).collect()
    }

    fn left(&self) -> Duration {
        let all = self.guards.iter().map(|(_, guard)| guard.left());
        all.min().unwrap_or(Duration::MAX)
    }

    fn look(&mut self, woken: &[bool], _has_ended: bool) -> Option<Alarm<Self::Cause>> {
        for (at, (claim, guard)) in self.guards.iter_mut().enumerate() {
            if let Some(told) = guard.look(woken.get(at) == Some(&true)) {
                let (claim, is_late) = (*claim, guard.is_late());
                return Some(self.lost(claim, told, is_late));
            }
        }
        None
    }

    fn is_late(&self) -> bool {
        self.guards.iter().any(|(_, guard)| guard.is_late())
    }

    fn waits_for(&mut self, left: &[Stat]) {
        if !std::mem::replace(&mut self.said_waiting, true) {
            self.talk.say(&format!(
                "the command has ended; waiting for {}",
                process_tree::names(left)
            ));
        }
    }
}

impl LossAlarms<'_> {
    /// The lock is lost: nobody is kept away any more.
    fn lost(&self, claim: usize, told: SeenLoss, is_late: bool) -> Alarm<LostClaim> {
        let (cause, subject) = (&told.cause, told.loss.subject());
        let grace = match &told.loss {
            // Before somebody else may have the lock.
            Loss::Overdue { left, .. } | Loss::Fleet { left, .. } => self.kill_after.min(*left),
            // Somebody else may have worked under it for long, and the command stands still: it is not to go on.
            _ if is_late => Duration::ZERO,
            _ => self.kill_after,
        };
        let (response, what) = match self.on_loss {
            OnLoss::Kill => (Response::End(grace), ", ending the command".to_owned()),
            OnLoss::Warn => (
                Response::GoOn,
                ", the command runs on without it".to_owned(),
            ),
            OnLoss::Signal(signal) => (
                Response::Send(signal),
                format!(", the command gets {signal} and runs on without it"),
            ),
        };
        Alarm {
            words: Some(format!("the {subject} is lost{what}: {cause}")),
            cause: (claim, told.loss),
            response,
        }
    }
}

/// What has come to a running command, and how far its end is.
#[derive(Debug)]
struct SignalState<C> {
    /// A signal was passed on, or there is a cause: the whole tree ends.
    must_end: bool,
    /// When the terminal sent its last signal to the command.
    from_terminal: Option<Instant>,
    interrupted: bool,
    cause: Option<C>,
    /// When the command was seen to have ended.
    ended: Option<Instant>,
    ending: Ending,
    /// What is killed was said, or is not to be said.
    said_killing: bool,
}

impl RunningCommand {
    /// [`Self::run`] under these claims.
    pub(crate) fn supervise(
        &self,
        starting: Option<Starting>,
        guards: Vec<(usize, LossAlarm<'_>)>,
        signals: &mut Signals,
        talk: &Talk,
    ) -> io::Result<WorkEnd<LostClaim>> {
        let mut guards = LossAlarms {
            guards,
            on_loss: self.on_loss,
            kill_after: self.kill_after,
            talk,
            said_waiting: false,
        };
        self.run(starting, &mut guards, signals, talk)
    }

    /// Waits for the command, passes signals on, hears the alarms, and waits for the tree where that is asked for.
    /// Fails with what `execve` said of the command, which has not run then.
    pub fn run<A: Alarms>(
        &self,
        mut starting: Option<Starting>,
        alarms: &mut A,
        signals: &mut Signals,
        talk: &Talk,
    ) -> io::Result<WorkEnd<A::Cause>> {
        let mut came = SignalState {
            must_end: false,
            from_terminal: None,
            interrupted: false,
            cause: None,
            ended: None,
            ending: Ending::waiting(),
            said_killing: false,
        };
        loop {
            let ending = process_tree::end_of(self.pid);
            // After that: what has ended the command was sent to us before its end was to be seen.
            let mut has_received = false;
            while let Some(received) = signals.receive() {
                self.receive(received, ending.is_some(), alarms, &mut came);
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
            let mut limit = Duration::MAX;
            match ending {
                None => {
                    process_tree::reap_orphans(self.pid);
                    if came.ending.left(Instant::now()).is_zero() {
                        self.step(&self.tree.look(self.pid), &mut came, talk);
                    }
                }
                Some(_) if came.cause.is_none() && alarms.is_open() => {}
                Some(ending) => {
                    let signalled = self.was_ended_by_a_signal(&mut came);
                    if signalled {
                        came.ending.kill_within(self.kill_after, Instant::now());
                    }
                    let (look, waits) = (self.tree.look(self.pid), signalled || self.wait_group);
                    if waits && !look.living().is_empty() {
                        alarms.waits_for(look.living());
                    }
                    let step = waits.then(|| self.step(&look, &mut came, talk));
                    let Some(step) = step.filter(|step| !step.done) else {
                        return Ok(WorkEnd {
                            ending,
                            left: look.living().to_vec(),
                            interrupted: came.interrupted,
                            cause: came.cause,
                        });
                    };
                    limit = step.again_in;
                }
            }
            limit = limit.min(came.ending.left(Instant::now()));
            let mut fds = vec![Some(signals.as_fd()), starting.as_ref().map(AsFd::as_fd)];
            if came.cause.is_none() {
                fds.extend(alarms.fds());
                limit = limit.min(alarms.left());
            }
            let ready = wait_for_each(&fds, limit);
            let has_started = ready.get(1) == Some(&true);
            if came.cause.is_none()
                && let Some(alarm) = alarms.look(
                    ready.get(2..).unwrap_or_default(),
                    process_tree::end_of(self.pid).is_some(),
                )
            {
                self.respond(alarm, &mut came, talk);
            }
            if has_started && let Some(starting) = starting.take() {
                starting.result()?;
            }
        }
    }

    /// A signal of the terminal has ended the command unless it has lived on for `--kill-after` since. Then it has
    /// survived it, as a shell or an interpreter does, and ends later for reasons of its own. Its exit code tells
    /// nothing: a command that tidies up after a Ctrl-C may well end with 0.
    fn was_ended_by_a_signal<C>(&self, came: &mut SignalState<C>) -> bool {
        let ended = *came.ended.get_or_insert_with(Instant::now);
        let is_near = |signal: Instant| ended.saturating_duration_since(signal) <= self.kill_after;
        came.must_end || came.from_terminal.is_some_and(is_near)
    }

    /// A signal has come: it is passed on where the terminal has not done so, and what is left after the grace is to
    /// end.
    fn receive<A: Alarms>(
        &self,
        received: Received,
        has_ended: bool,
        alarms: &mut A,
        came: &mut SignalState<A::Cause>,
    ) {
        let Received {
            signal,
            from_terminal,
        } = received;
        if signal == Signal::SIGCHLD {
            // A command that is to end within a grace must not stop us: nobody would see the grace's end.
            let is_late = came.cause.is_none() && alarms.is_late();
            let has_no_end = came.ending.left(Instant::now()) == Duration::MAX;
            if !is_late && has_no_end {
                self.stop_with_the_command();
            }
            return;
        }
        came.interrupted |= signal == Signal::SIGINT;
        // A command that has left our group, as by setsid, does not have what the terminal sent to the group.
        if from_terminal && getpgid(Some(Pid::from_raw(self.pid))) == Ok(getpgrp()) {
            came.from_terminal = Some(Instant::now());
        } else {
            came.must_end = true;
            self.pass_on(signal, has_ended);
            came.ending.kill_within(self.kill_after, Instant::now());
        }
        if came.cause.is_none() {
            came.cause = alarms.signalled(signal);
            came.must_end |= came.cause.is_some();
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

    /// Sends the signal to the command's group, where it has its own; else to the command, or to what is left of its
    /// tree.
    fn send(&self, signal: Signal, has_ended: bool) {
        let pid = Pid::from_raw(self.pid);
        // An error means that nobody is left to hear it. The unreaped command keeps the group's number ours.
        if self.own_group {
            let _ = killpg(pid, signal);
        } else if has_ended {
            process_tree::signal(&self.tree.living(), signal);
        } else {
            let _ = kill(pid, signal);
        }
    }

    fn respond<C>(&self, alarm: Alarm<C>, came: &mut SignalState<C>, talk: &Talk) {
        came.cause = Some(alarm.cause);
        match alarm.response {
            Response::End(grace) => {
                came.must_end = true;
                // The words of the alarm say it, where it has any.
                came.said_killing |= grace.is_zero() && alarm.words.is_some();
                came.ending.ask_within(grace, Instant::now());
                // First: the reader of the words may have stopped reading.
                self.step(&self.tree.look(self.pid), came, talk);
            }
            Response::Send(signal) => self.send(signal, process_tree::end_of(self.pid).is_some()),
            Response::GoOn => {}
        }
        if let Some(words) = alarm.words {
            talk.warn(&words);
        }
    }

    /// One step of the tree's end.
    fn step<C>(&self, look: &TreeLook, came: &mut SignalState<C>, talk: &Talk) -> EndingStep {
        let step = came.ending.next(look, Now::read(), Demand::Nothing);
        for (signal, to) in &step.send {
            if *signal == Signal::SIGKILL {
                let is_said = std::mem::replace(&mut came.said_killing, true);
                self.kill(look.living(), to, (!is_said).then_some(talk));
            } else {
                self.signal_tree(*signal, to);
            }
        }
        step
    }

    /// KILL to these of the living, and to whatever fell to us by that.
    fn kill(&self, living: &[Stat], to: &[Stat], talk: Option<&Talk>) {
        if let Some(talk) = talk
            && !living.is_empty()
        {
            let limit = shown(self.kill_after);
            talk.warn(&format!(
                "still running {limit} after it was asked to end, killing: {}",
                process_tree::names(living)
            ));
        }
        self.signal_tree(Signal::SIGKILL, &[]);
        let refused = process_tree::signal(to, Signal::SIGKILL);
        if let Some(talk) = talk
            && !refused.is_empty()
        {
            let names = process_tree::names(&refused);
            talk.warn(&format!(
                "not permitted to kill {names}; the lock stays until they have ended"
            ));
        }
        if process_tree::end_of(self.pid).is_some() {
            self.tree.kill_orphans(self.pid);
        }
    }

    /// To the command's group, where it leads one, else to the command itself where nobody is seen; and to these
    /// elsewhere.
    fn signal_tree(&self, signal: Signal, to: &[Stat]) {
        let pid = Pid::from_raw(self.pid);
        // The unreaped command keeps its number, and its group's, ours.
        if self.own_group {
            let _ = killpg(pid, signal);
        } else if to.is_empty() {
            let _ = kill(pid, signal);
        }
        let mut elsewhere = to.to_vec();
        elsewhere.retain(|stat| !self.own_group || stat.pgrp != self.pid);
        process_tree::signal(&elsewhere, signal);
    }
}

/// Whether our parent is a shell with job control, which gives each of its jobs a group: we lead ours or are in the
/// middle of a pipe.
fn is_a_shells_job() -> bool {
    let parent = Some(getppid());
    getsid(parent) == getsid(None) && getpgid(parent).is_ok_and(|group| group != getpgrp())
}
