//! The cycles of the databases that are due: the check, the turn and the work, and when each comes again.

use std::sync::Arc;

use beadlock_core::Reason;
use beadlock_core::facts;
use tokio::task::{Id, JoinError};
use tokio::time::Instant;
use tracing::{Instrument, Span, debug, error, info};

use super::checks::PATIENCE;
use super::{CycleState, Scheduler};
use crate::config::RunMode;
use crate::cycle::{self, CheckResult, RunningUpkeep, Subject};
use crate::database::LoggedState;
use crate::diagnostics::events;
use crate::http::EndedCycle;
use crate::log::{self, agent_lines};
use crate::outcome::{CycleFailure, CycleOutcome};

impl Scheduler {
    /// Checks the databases that are due, and gives free jobs to those whose turn it is.
    pub(super) fn start_due(&mut self) {
        while let Some(number) = self.due.pop_front() {
            self.check(number);
        }
        while self.has_a_job()
            && let Some(number) = self.ready.pop_front()
        {
            let Some(entry) = self.databases.get_mut(&number) else {
                continue;
            };
            entry.is_ready = false;
            self.turns.insert(number, Instant::now());
            if entry.state != CycleState::Running {
                self.check(number);
            }
        }
    }

    fn has_a_job(&self) -> bool {
        let kept = self
            .turns
            .values()
            .filter(|since| since.elapsed() < PATIENCE)
            .count();
        self.working.len() + kept < self.settings.agent.jobs.get()
    }

    /// When the scheduler stops to wait for the next check that hangs: another database has its turn, or all end.
    pub(super) fn end_of_patience(&self) -> Option<Instant> {
        let now = Instant::now();
        let turns = self.turns.values().map(|since| *since + PATIENCE);
        turns
            .chain(self.end_of_checks)
            .filter(|end| *end > now)
            .min()
    }

    fn check(&mut self, number: usize) {
        let Some(entry) = self.databases.get_mut(&number) else {
            return;
        };
        if let CycleState::Waiting(Some(key)) =
            std::mem::replace(&mut entry.state, CycleState::Running)
        {
            self.timers.remove(&key);
        }
        // This cycle serves what happened while the database was in the queue.
        entry.take_marks(&self.work);
        entry.begun = Instant::now();
        entry.cycles += 1;
        let Subject {
            database, policy, ..
        } = &entry.subject;
        entry.span = events::cycle(&database.dir, policy.action().name(), entry.cycles);
        let is_its_turn = self.turns.contains_key(&number);
        let why = || {
            if is_its_turn {
                "turn"
            } else {
                entry.due.why(entry.begun)
            }
        };
        debug!(parent: &entry.span, why = why(), "begins");
        entry.due.begun(entry.begun, entry.subject.policy.interval);
        let now = Instant::now();
        entry.checked_since = Some(now);
        self.checking.push_back((now, number));
        let (work, subject) = (Arc::clone(&self.work), entry.subject.clone());
        let span = entry.span.clone();
        let mut told = std::mem::take(&mut entry.told);
        self.checks.put(number, move || {
            (
                span.in_scope(|| cycle::check(&work, &subject, &mut told)),
                told,
            )
        });
    }

    pub(super) fn checked(&mut self, number: usize, answer: Option<(CheckResult, LoggedState)>) {
        let is_its_turn = self.turns.remove(&number).is_some();
        if let Some(entry) = self.databases.get_mut(&number) {
            (entry.checked_since, entry.silent) = (None, None);
        }
        let Some((checked, told)) = answer else {
            return self.faulted(number);
        };
        // A database that has missed its turn may find the job taken.
        let is_a_job_free = self.working.len() < self.settings.agent.jobs.get();
        let may_work = is_a_job_free && (is_its_turn || self.ready.is_empty() && self.has_a_job());
        let Some(entry) = self.databases.get_mut(&number) else {
            return;
        };
        match checked {
            CheckResult::Ended(outcome) => {
                entry.told = told;
                if std::mem::take(&mut entry.is_ready) {
                    self.ready.retain(|ready| *ready != number);
                }
                self.ended(number, outcome);
            }
            CheckResult::Redirected(database) => {
                entry.told = told;
                self.redirected(number, *database);
            }
            CheckResult::Asking => {
                entry.told = told;
                self.has_missed |= self.is_ending || self.settings.mode == RunMode::Once;
                self.next(number, true);
            }
            CheckResult::Free(cycle, right) if may_work && !self.is_ending && !entry.is_leaving => {
                let (work, subject) = (Arc::clone(&self.work), entry.subject.clone());
                let mut told = told;
                let work = async move {
                    (
                        cycle::run(&work, &subject, &mut told, (cycle, right)).await,
                        told,
                    )
                };
                let task = self.working.spawn(work.instrument(entry.span.clone()));
                self.tasks.insert(task.id(), number);
            }
            CheckResult::Free(cycle, right) => {
                debug!(parent: &entry.span, "free, but all jobs are busy: waits for its turn");
                cycle::leave(cycle, right);
                entry.told = told;
                if self.is_ending {
                    self.has_missed = true;
                } else if !std::mem::replace(&mut entry.is_ready, true) {
                    self.ready.push_back(number);
                }
                self.next(number, false);
            }
        }
    }

    pub(super) fn worked(&mut self, task: Result<(Id, (CycleOutcome, LoggedState)), JoinError>) {
        let id = task.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Some(number) = self.tasks.remove(&id) else {
            return;
        };
        let Ok((_, (outcome, told))) = task else {
            return self.faulted(number);
        };
        if let Some(entry) = self.databases.get_mut(&number) {
            entry.told = told;
        }
        self.ended(number, outcome);
    }

    /// A cycle ended in a panic, whose message is on standard error already.
    fn faulted(&mut self, number: usize) {
        log::line(number, agent_lines::fault());
        if let Some(entry) = self.databases.get(&number) {
            let db = &entry.subject.database.dir;
            error!(parent: &entry.span, ?db, "a fault in beadlock-agent itself; please report it");
        }
        let why = "a fault in beadlock-agent itself; please report it";
        self.ended(
            number,
            CycleOutcome::Failed(CycleFailure::new("fault", why)),
        );
    }

    pub(super) fn ended(&mut self, number: usize, outcome: CycleOutcome) {
        let is_busy = matches!(&outcome, CycleOutcome::Skipped(decision) if decision.reason() == Reason::GateBusy);
        if matches!(
            outcome,
            CycleOutcome::Failed(_) | CycleOutcome::NotServed(_)
        ) {
            self.search.doubt();
        }
        self.keep_up(number, &outcome);
        if let Some(entry) = self.databases.get_mut(&number) {
            let took = entry.begun.elapsed();
            self.work.metrics.ended(&outcome, took);
            let span = std::mem::replace(&mut entry.span, Span::none());
            debug!(parent: &span, outcome = outcome.as_str(), ?took, "ended");
            let interval = entry.subject.policy.interval;
            if took > interval {
                info!(parent: &span, ?took, ?interval, "slow: it took longer than its interval");
            }
            // In the log a streak survives a failed check; the status of that cycle does not show it.
            let is_skipped = matches!(outcome, CycleOutcome::Skipped(_));
            let streak = entry.told.streak.running().filter(|_| is_skipped);
            self.follow(
                number,
                EndedCycle {
                    outcome,
                    at: facts::now(),
                    streak,
                },
            );
        }
        self.next(number, is_busy);
    }

    /// Tidies up the repository of a database that has synced, when that is due; ends that when it is claimed.
    fn keep_up(&mut self, number: usize, outcome: &CycleOutcome) {
        let is_claimed = !matches!(outcome, CycleOutcome::Synced(_));
        let is_over =
            |upkeep: &RunningUpkeep| upkeep.has_ended() || is_claimed && upkeep.number == number;
        self.upkeep = self.upkeep.take().filter(|upkeep| !is_over(upkeep));
        let may_begin = !self.is_ending && !is_claimed && self.settings.mode != RunMode::Once;
        if may_begin
            && self.upkeep.is_none()
            && let Some(entry) = self.databases.get_mut(&number)
            && let Some(upkeep) = entry.told.takes_upkeep(Instant::now())
        {
            debug!(db = ?entry.subject.database.dir, ?upkeep, "tidies up the repository");
            self.upkeep = RunningUpkeep::start(&entry.subject, upkeep);
        }
    }

    /// Sets when the database comes again.
    pub(super) fn next(&mut self, number: usize, is_busy: bool) {
        let Some(entry) = self.databases.get_mut(&number) else {
            return;
        };
        if entry.is_leaving {
            self.forget(number);
            self.unwatch_forgotten();
            return;
        }
        let now = Instant::now();
        let mut marks = entry.take_marks(&self.work);
        marks.changed = marks.changed && entry.told.is_news(now);
        let policy = &entry.subject.policy;
        // A command that takes and drops a lock must not make this spin.
        if is_busy {
            entry.due.again_at_the_gate(now, policy.interval);
        } else if marks.lock_gone {
            entry.due.again_soon(now, policy.interval);
        } else {
            entry.due.ended(now, policy.interval);
            entry.due.marked(marks, now, policy.debounce);
        }
        entry.due.wake_at(entry.told.wakes(now));
        entry.state = CycleState::Waiting(None);
        if !self.is_ending && self.settings.mode != RunMode::Once {
            self.wait(number);
        }
    }
}
