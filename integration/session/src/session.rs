//! A command under a list of claims (docs/design.md#holding). The order of things is the contract here:
//!
//! 1. The command's process is made. It waits.
//! 2. The claims are obtained, one after the other, for that process. Of several each is kept up and watched at once,
//!    and all must stand. They share one wait: what one of them has waited for a holder, the next ones do not have.
//! 3. They are kept up. A watchdog ends the command when this process dies, where a claim needs that.
//! 4. The command executes. It is supervised until it has ended, with all that has to end with it.
//! 5. The claims end, the one that was obtained last first. Then the command's process is reaped.

use beadlock_claim::error::Problem;
use std::time::{Duration, Instant};
use std::{ffi::CString, ffi::OsString, io};

use beadlock_base::{error::system_words, helper::Helpers, sys::Waiting};
use beadlock_core::{audit::WorkOutcome, facts::random_id};

mod claims;

use super::steps::Steps;
use crate::interactive_wait::InteractiveWait;
use crate::on_loss::OnLoss;
use crate::running_command::{LostClaim, RunningCommand, WorkEnd};
use crate::session_claim::{CommandProcess, SessionClaim, Watchfulness};
use beadlock_claim::error::{Error, Exit};
use beadlock_claim::observe::{NotAcquired, WaitControl};
use beadlock_claim::report::Report;
use beadlock_claim::{
    environment::Environment,
    event::failed_to,
    kept_lock::first_lost,
    loss::Loss,
    observe::{Claimed, Notice, Observer},
    release_request::ReleaseReason,
};
use beadlock_console::program_end::ProgramEnd;
use beadlock_console::talk::Talk;
use beadlock_supervise::command::{Child, Command, Inheritance, has_terminal};
use beadlock_supervise::process_tree::{self, CommandEnd, ProcessTree};
use beadlock_supervise::signals::Signals;
use beadlock_supervise::watchdog::{self, CommandRef, EndTree, Watchdog};
use claims::{described, guards, late_variables, none_is_claimed, variables_of};

/// A command that is to run under claims, and all that its run needs.
#[derive(Debug)]
pub struct Session<'a> {
    /// The command that runs under the claims.
    pub command: Command,
    /// The choice of what happens to the command when a claim is lost.
    pub on_loss: OnLoss,
    /// How long the command's tree may take to end after a signal or a loss, before it gets KILL.
    pub kill_after: Duration,
    /// Whether the claims stand until everything that the command has started has ended.
    pub wait_group: bool,
    /// The steps of the work, where the protocol asks which one has failed.
    pub steps: Option<Steps>,
    /// In which order the claims are obtained, by their places in the list. The first of the list gives the command's
    /// environment its name.
    pub order: Vec<usize>,
    /// The helpers that this program can run as: the watchdog is one.
    pub helpers: Helpers,
    /// The environment of this process, which the command's comes from.
    pub environment: &'a Environment,
    /// Tells people of waits, losses, and what was left behind.
    pub talk: &'a Talk,
    /// Hears of each claim that stands.
    pub observer: &'a dyn Observer,
}

/// The end of a session whose command has run.
#[derive(Debug)]
pub struct Finished {
    /// How the program ends: as the command did.
    pub end: ProgramEnd,
    /// The loss of a claim, which counts before `end`; `None`: no claim was lost.
    pub lost: Option<Error>,
}

type Claims<'c> = [Box<dyn SessionClaim + 'c>];

impl Session<'_> {
    /// Runs the command under these claims. After an error the command has not run, and no claim stands.
    pub fn run(
        self,
        claims: &mut Claims<'_>,
        signals: &mut Signals,
        report: &mut Report,
    ) -> Result<Finished, NotAcquired> {
        *report = described(claims);
        let token = random_id();
        let ends_with_us = claims.iter().any(|claim| claim.ends_with_us());
        let mut variables = variables_of(claims);
        if claims
            .iter()
            .any(|claim| claim.ends_with_us() && !claim.is_nested())
        {
            let wards = watchdog::variable(&token, self.environment.get(watchdog::VARIABLE));
            variables.push((watchdog::VARIABLE, wards));
        }
        variables.extend(self.steps.as_ref().map(Steps::variable));
        let variables = self.environment.with(&variables);
        let command = if ends_with_us {
            self.command.clone().ending_with_us()
        } else {
            self.command.clone()
        };

        // A claim that stands already has begun what this fails in.
        let stands = claims.iter().any(|claim| claim.stands());
        let of_start = |error: Error| {
            if stands {
                error.ending(Exit::NotStarted)
            } else {
                error
            }
        };
        let tree =
            ProcessTree::as_subreaper().map_err(|error| of_start(Error::of_subreaper(error)))?;
        let own_group = !has_terminal();
        let gate = claims.iter().find_map(|claim| claim.inherited());
        let waiting = command.fork(
            &variables,
            own_group,
            signals.mask_before(),
            Inheritance {
                streams: None,
                gate,
            },
        );
        let waiting = waiting.map_err(|error| of_start(error.into()))?;
        let pid = waiting.pid();
        let Self {
            on_loss,
            kill_after,
            wait_group,
            ..
        } = self;
        let mut running = RunningCommand {
            pid,
            own_group,
            kill_after,
            on_loss,
            wait_group,
            tree,
        };
        let child = Child(pid);
        let mut stage = Stage {
            claims,
            order: &self.order,
            command: &command,
            helpers: self.helpers,
            talk: self.talk,
            observer: self.observer,
            signals,
            report,
        };
        stage.obtain(&running)?;
        let watchdog = stage.begin(&mut running, &token)?;
        stage.announce(pid);
        for helper in self.observer.helpers() {
            running.tree = std::mem::take(&mut running.tree).without(helper);
        }
        let (ended, step) =
            stage.supervise(&mut running, waiting, self.steps.as_ref(), &variables)?;
        let (end, why) = (ended.end(), ReleaseReason::ended(ended.ending));
        let lost = stage.end(ended.cause, why, step.as_deref());
        // The command's tree was to be ended with us for as long as a claim stood.
        drop(watchdog);
        drop(child);
        Ok(Finished { end, lost })
    }
}

struct Stage<'s, 'c> {
    claims: &'s mut Claims<'c>,
    order: &'s [usize],
    command: &'s Command,
    helpers: Helpers,
    talk: &'s Talk,
    observer: &'s dyn Observer,
    signals: &'s mut Signals,
    report: &'s mut Report,
}

impl Stage<'_, '_> {
    /// Obtains the claims in their order. Where one fails, those before it end.
    fn obtain(&mut self, running: &RunningCommand) -> Result<(), NotAcquired> {
        let name = self.command.holder_name();
        let child = CommandProcess {
            pid: running.pid,
            leads: running.own_group,
            name: &name,
        };
        let begun = Instant::now();
        // One of several must not be left alone while the next one is waited for.
        let keeps_up = self.order.len() > 1;
        let limit = self
            .claims
            .iter()
            .map(|claim| claim.wait().limit())
            .max()
            .unwrap_or_default();
        let mut spent = Duration::ZERO;
        for (turn, index) in self.order.iter().enumerate() {
            let Some((before, from_it)) = self.claims.split_at_mut_checked(*index) else {
                continue;
            };
            let Some((claim, after)) = from_it.split_first_mut() else {
                continue;
            };
            if keeps_up {
                claim.wait_at_most(limit.saturating_sub(spent));
            }
            let mut control = InteractiveWait::wait_of(self.signals, self.talk, Some(running.pid));
            let after = guards(after)
                .into_iter()
                .map(|(at, guard)| (index + 1 + at, guard));
            control.others = guards(before).into_iter().chain(after).collect();
            let mut obtained = claim.obtain(child, &mut control);
            if keeps_up && obtained.is_ok() {
                obtained = claim
                    .keep_up()
                    .map_err(|error| error.ending(Exit::NotStarted).into());
            }
            spent += control.for_holder;
            let lost = control.lost.take();
            let stopped = match obtained {
                Ok(()) => {
                    let stopped = control.stop_reason();
                    if turn + 1 == self.order.len() {
                        self.waited(begun);
                    }
                    stopped
                }
                Err(NotAcquired::Failed(error)) if keeps_up && lost.is_none() => {
                    Some(none_is_claimed(error, claim.target(), self.order.len(), spent).into())
                }
                Err(stopped) => Some(stopped),
            };
            if let Some(stopped) = stopped {
                return Err(self.give_up(stopped, lost, !keeps_up));
            }
        }
        let steps = self.take_second_steps(child, limit.saturating_sub(spent))?;
        if keeps_up || steps > 0 {
            self.refuse_loss()
        } else {
            Ok(())
        }
    }

    /// Takes the second steps in their order; the answer is how many there were. Where one fails, all claims end.
    fn take_second_steps(
        &mut self,
        child: CommandProcess<'_>,
        left: Duration,
    ) -> Result<usize, NotAcquired> {
        let mut steps: Vec<(String, usize)> = Vec::new();
        steps.extend(
            self.claims
                .iter()
                .enumerate()
                .filter_map(|(at, claim)| Some((claim.second_step()?.into(), at))),
        );
        steps.sort();
        let mut spent = Duration::ZERO;
        for (_, at) in &steps {
            let Some(claim) = self.claims.get_mut(*at) else {
                continue;
            };
            claim.wait_at_most(left.saturating_sub(spent));
            let kept = claim
                .keep_up()
                .map_err(|error| error.ending(Exit::NotStarted).into());
            let Some(claim) = self.claims.get(*at) else {
                continue;
            };
            let mut control = InteractiveWait::wait_of(self.signals, self.talk, Some(child.pid));
            control.others = guards(self.claims);
            let taken = kept.and_then(|()| claim.take_second_step(child, &mut control));
            spent += control.for_holder;
            let lost = control.lost.take();
            if let Some(stopped) = taken.err().or_else(|| control.stop_reason()) {
                return Err(self.give_up(stopped, lost, false));
            }
        }
        Ok(steps.len())
    }

    /// A claim was not obtained, perhaps since another one is `lost`: all that stand end.
    fn give_up(
        &mut self,
        stopped: NotAcquired,
        lost: Option<(usize, Loss)>,
        is_alone: bool,
    ) -> NotAcquired {
        let is_signal = is_alone || matches!(stopped, NotAcquired::Signalled(_));
        let is_lost = lost.is_some();
        let error = self.end(
            lost,
            if is_signal {
                ReleaseReason::SIGNAL
            } else {
                ReleaseReason::NOT_STARTED
            },
            None,
        );
        error.filter(|_| is_lost).map_or(stopped, NotAcquired::from)
    }

    /// Ends all claims where one of several has been lost since the last look during the waits.
    fn refuse_loss(&mut self) -> Result<(), NotAcquired> {
        let Some((at, loss)) = first_lost(&mut guards(self.claims)) else {
            return Ok(());
        };
        Err(self.give_up(loss.during_the_wait().into(), Some((at, loss)), false))
    }

    fn waited(&mut self, begun: Instant) {
        for (outcome, claim) in self.report.claims.iter_mut().zip(self.claims.iter()) {
            (outcome.id, outcome.nested) = (claim.id(), claim.is_nested());
        }
        if let Some(first) = self.claims.first() {
            self.report.waited = first.id().map(|_| begun.elapsed());
            self.report.id = first.id();
            self.report.nested = first.is_nested();
        }
    }

    /// Keeps the claims up, and starts the watchdog that they need.
    fn begin(
        &mut self,
        running: &mut RunningCommand,
        token: &str,
    ) -> Result<Option<Watchdog>, NotAcquired> {
        let kept = self.claims.iter_mut().try_for_each(|claim| claim.keep_up());
        let watchdog = kept
            .and_then(|()| start_watchdog(self.claims, running, token, self.command, self.helpers));
        let watchdog = match watchdog {
            Ok(watchdog) => watchdog,
            Err(error) => {
                self.end(None, ReleaseReason::NOT_STARTED, None);
                return Err(error.ending(Exit::NotStarted).into());
            }
        };
        let helpers = watchdog.iter().map(Watchdog::pid);
        for pid in helpers.chain(self.claims.iter().filter_map(|claim| claim.helper())) {
            running.tree = std::mem::take(&mut running.tree).without(pid);
        }
        Ok(watchdog)
    }

    /// Tells which claims stand.
    fn announce(&self, pid: i32) {
        for claim in self
            .claims
            .iter()
            .filter(|claim| !claim.is_nested() && !claim.stands())
        {
            let holder = claim.holder().unwrap_or_else(|| self.command.holder_name());
            self.observer.notice(&Notice::Claimed(Claimed {
                in_dolt: claim.target().is_in_dolt(),
                ..claim.announcement(&holder, pid)
            }));
        }
    }

    /// From the command's start to the end of all that has to end with it, and of the rollback after a failure. Returns
    /// the failed step as well.
    fn supervise(
        &mut self,
        running: &mut RunningCommand,
        waiting: Waiting,
        steps: Option<&Steps>,
        variables: &[(OsString, OsString)],
    ) -> Result<(WorkEnd<LostClaim>, Option<String>), NotAcquired> {
        if let Some(error) = self.claims.iter().find_map(|claim| claim.may_begin().err()) {
            self.end(None, ReleaseReason::NOT_STARTED, None);
            return Err(error.ending(Exit::NotStarted).into());
        }
        let late: Vec<CString> = late_variables(self.claims);
        let guards = guards(self.claims);
        let started = waiting.go_with(&late);
        let supervised = started.and_then(|starting| {
            running.supervise(Some(starting), guards, self.signals, self.talk)
        });
        let mut ended = match supervised {
            Ok(ended) => ended,
            Err(error) => {
                self.end(None, ReleaseReason::NOT_STARTED, None);
                return Err(self.command.not_executed(error).into());
            }
        };
        self.report.pid = Some(running.pid);
        self.report.ending = Some(ended.ending);
        self.report.left = ended.left.iter().map(|stat| stat.pid).collect();
        let step = steps.and_then(Steps::failed);
        if let (Some(steps), WorkOutcome::Failure, None) = (
            steps,
            ReleaseReason::ended(ended.ending).result,
            &ended.cause,
        ) {
            ended.cause = self.roll_back(running, steps, variables, step.as_deref());
        }
        let left = process_tree::without_upkeep(&ended.left);
        if let (false, Some(claim)) = (left.is_empty(), self.claims.first()) {
            self.talk
                .warn(&claim.left_behind(&process_tree::names(&left)));
        }
        Ok((ended, step))
    }

    /// Runs the rollback, still under the claims; its failure is a warning. The answer is a loss meanwhile.
    fn roll_back(
        &mut self,
        running: &mut RunningCommand,
        steps: &Steps,
        variables: &[(OsString, OsString)],
        step: Option<&str>,
    ) -> Option<(usize, Loss)> {
        let talk = self.talk;
        let failed = |why: &str| {
            talk.warn(&format!(
                "the rollback failed: {why}; the lock is released all the same"
            ))
        };
        steps.rollback.as_ref()?;
        let targets = || self.claims.iter().map(|claim| claim.target());
        let of_steps = targets()
            .find(|target| target.rules().has_steps)
            .or_else(|| targets().next());
        let given = of_steps
            .map(|target| target.given.clone())
            .unwrap_or_default();
        talk.say(&format!(
            "the command has failed, rolling back under the lock of {given}"
        ));
        let pid = match steps.start_rollback(variables, step)? {
            Ok(pid) => pid,
            Err(error) => {
                failed(&system_words(&error));
                return None;
            }
        };
        let child = Child(pid);
        (running.pid, running.own_group, running.wait_group) = (pid, true, false);
        let guards = guards(self.claims);
        let ended = running.supervise(None, guards, self.signals, talk);
        drop(child);
        let ended = ended.ok()?;
        match ended.ending {
            CommandEnd::Exited(0) => talk.say("the rollback has ended"),
            CommandEnd::Exited(code) => failed(&format!("it ended with code {code}")),
            CommandEnd::Killed(signal) => failed(&format!("it was killed by signal {signal}")),
        }
        ended.cause
    }

    /// Ends every claim, the one that was obtained last first; the answer is the loss that was seen, else the first
    /// one.
    fn end(
        &mut self,
        lost: Option<(usize, Loss)>,
        why: ReleaseReason,
        step: Option<&str>,
    ) -> Option<Error> {
        let mut error = None;
        let (at, mut loss) = lost.map_or((None, None), |(at, loss)| (Some(at), Some(loss)));
        for &index in self.order.iter().rev() {
            let Some(claim) = self.claims.get_mut(index) else {
                continue;
            };
            let known = if at == Some(index) { loss.take() } else { None };
            let ended = claim.end(known, why, step, self.signals);
            if index == 0 {
                (self.report.held, self.report.released) = (ended.held, ended.released);
            }
            if let Some(outcome) = self.report.claims.get_mut(index) {
                (outcome.held, outcome.released) = (ended.held, ended.released);
            }
            let is_seen = at == Some(index);
            error = if is_seen {
                ended.lost.or(error)
            } else {
                error.or(ended.lost)
            };
        }
        error
    }
}

/// The watchdog that the claims need: it ends the command and all that it has started when this process is killed, and
/// stops them while there is no heartbeat, before a lock may be taken as stale.
fn start_watchdog(
    claims: &mut Claims<'_>,
    running: &RunningCommand,
    token: &str,
    command: &Command,
    helpers: Helpers,
) -> Result<Option<Watchdog>, Error> {
    let watched: Vec<(&dyn SessionClaim, Watchfulness<'_>)> = claims
        .iter()
        .filter_map(|claim| Some((&**claim, claim.watched_by()?)))
        .collect();
    if watched.is_empty() {
        return Ok(None);
    }
    let leases = || watched.iter().filter_map(|(_, watched)| watched.lease);
    let grace = leases()
        .map(|lease| lease.ttl() / 2)
        .fold(running.kill_after, Duration::min);
    // After it was given up, and before it is stale.
    let silence = leases().map(|lease| lease.give_up + lease.rest / 2).min();
    let silence = silence.filter(|_| running.on_loss == OnLoss::Kill);
    let deadlines = watched
        .iter()
        .filter_map(|(_, watched)| watched.deadline)
        .collect();
    let at_end = EndTree::EndTree {
        token: token.to_owned(),
        grace,
        silence,
        deadlines,
    };
    let shared: Vec<_> = watched
        .iter()
        .filter_map(|(_, watched)| watched.shares)
        .collect();
    let failed = |error: io::Error| {
        failed_to(
            "start the watchdog that ends the command when this is killed",
            &error,
        )
    };
    let given = watched
        .first()
        .map(|(claim, _)| claim.target().given.as_str())
        .unwrap_or_default();
    let process = CommandRef::of(running.pid, running.own_group);
    let watchdog = Watchdog::start(
        helpers,
        process,
        at_end,
        (&command.holder_name(), given),
        &shared,
    );
    let watchdog = watchdog.map_err(failed)?;
    for (claim, watched) in &watched {
        if watched.lease.is_some() {
            claim.tell(Box::new(watchdog.pulse().map_err(failed)?));
        }
    }
    let in_fleets = claims
        .iter_mut()
        .filter(|claim| claim.watched_by().is_some_and(|by| by.deadline.is_some()));
    for (session, claim) in in_fleets.enumerate() {
        let mut pulse = watchdog.pulse().map_err(failed)?;
        claim.tell_deadlines(Box::new(move |deadline| pulse.deadline(session, deadline)));
    }
    Ok(Some(watchdog))
}
