//! The states of the databases ([`crate::state`]): told to the log and to the service manager when they change, and the
//! exit code of `--once`.

use std::borrow::Cow;
use std::io::{self, IsTerminal};
use std::time::Duration;

use beadlock_base::escape::escaped_path;
use beadlock_core::Reason;
use beadlock_core::facts;
use tokio::time::Instant;

use super::{Scheduler, ServedDatabase};
use crate::config::RunMode;
use crate::http::EndedCycle;
use crate::log::{self, agent_lines};
use crate::notify;
use crate::outcome::CycleOutcome;
use crate::state::{DatabaseState, StateWord};

/// How often the scheduler looks for states that the log has to be told again.
const REMINDERS: Duration = Duration::from_secs(60);

/// The service manager is told of several changes together.
const TOGETHER: Duration = Duration::from_secs(1);

/// A gate that is busy for less time is about to be let go.
const BUSY: Duration = Duration::from_secs(1);

/// How many databases in trouble are named at the end of one look.
const NAMED: usize = 20;

/// When the scheduler acts for the states next; `None`: there is nothing to do.
#[derive(Debug, Default)]
pub(super) struct StateTimers {
    remind: Option<Instant>,
    tell: Option<Instant>,
}

impl StateTimers {
    pub(super) fn next(&self) -> Option<Instant> {
        [self.remind, self.tell].into_iter().flatten().min()
    }
}

impl Scheduler {
    /// A cycle has ended so.
    pub(super) fn follow(&mut self, number: usize, ended: EndedCycle) {
        let Some(entry) = self.databases.get_mut(&number) else {
            return;
        };
        entry.history.count(&ended.outcome, ended.at);
        let busy_for = entry.gate_was_busy(&ended.outcome);
        // A gate that is busy for a moment, as while a lock is being released, changes no state. One look has no other.
        let is_counted =
            busy_for.is_none_or(|length| length >= BUSY) || self.settings.mode == RunMode::Once;
        let state =
            is_counted.then(|| DatabaseState::of(&ended.outcome, &entry.subject.database.dir));
        entry.last = Some(ended.into());
        if let Some(state) = state {
            self.turn(number, state);
        }
    }

    /// The file system of a database does not answer.
    pub(super) fn silenced(&mut self, number: usize, why: &str) {
        self.turn(
            number,
            DatabaseState::not_serving(Cow::Borrowed("no_answer"), why),
        );
    }

    fn turn(&mut self, number: usize, state: DatabaseState) {
        let Some(entry) = self.databases.get_mut(&number) else {
            return;
        };
        let now = Instant::now();
        // Only a change reads the wall clock: 10,000 idle databases have none.
        if *entry.history.state == state {
            return;
        }
        let is_news = entry.history.turn(state, now, facts::now());
        if is_news {
            log::line(number, entry.state_line());
        }
        self.timers_of_states.remind.get_or_insert(now + REMINDERS);
        if notify::is_asked_for() {
            self.timers_of_states.tell.get_or_insert(now + TOGETHER);
        }
    }

    /// Tells the log what is still in trouble after an hour, and the service manager what has changed.
    pub(super) fn act_for_states(&mut self) {
        let now = Instant::now();
        if self.timers_of_states.remind.is_some_and(|at| at <= now) {
            let mut are_troubled = false;
            for (number, entry) in &mut self.databases {
                are_troubled |= entry.history.word().is_trouble();
                if entry.history.is_to_be_said_again(now) {
                    log::line(*number, entry.state_line());
                }
            }
            self.timers_of_states.remind = are_troubled.then_some(now + REMINDERS);
        }
        if self.timers_of_states.tell.is_some_and(|at| at <= now) {
            self.timers_of_states.tell = None;
            if !self.is_ending && self.settings.mode != RunMode::Once {
                notify::status(&self.summary());
            }
        }
    }

    /// `serving 50 databases: 3 failed, 47 synced`.
    pub(super) fn summary(&self) -> String {
        let served = match self.served() {
            1 => "serving 1 database".to_owned(),
            count => format!("serving {count} databases"),
        };
        let unserved = self.settings.awaited.len() + self.unserved.seen().count();
        let count = |word: StateWord| {
            let here = self
                .databases
                .values()
                .filter(|entry| entry.history.word() == word)
                .count();
            if word == StateWord::NotServing {
                here + unserved
            } else {
                here
            }
        };
        let counts = StateWord::ALL.map(|word| (count(word), word.as_str()));
        let counts: Vec<String> = counts
            .iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, word)| format!("{n} {word}"))
            .collect();
        // At the start there is nothing to tell about them.
        let is_starting = self
            .databases
            .values()
            .all(|entry| entry.history.word() == StateWord::Starting);
        if is_starting && unserved == 0 {
            served
        } else {
            format!("{served}: {}", counts.join(", "))
        }
    }

    /// At the end of one look that was not good: why, for a person or a job that sees no log. A terminal sees the logs.
    pub(super) fn complain_of_states(&self) {
        if io::stderr().is_terminal() {
            return;
        }
        // To be held is not a failure: that is what the agent asks for.
        let troubled = self.databases.values().filter(|entry| {
            entry.history.word().is_trouble() && !matches!(entry.exit_code(), 0 | 4)
        });
        let troubled: Vec<_> = troubled.collect();
        for entry in troubled.iter().take(NAMED) {
            let (dir, word) = (
                escaped_path(&entry.subject.database.dir),
                entry.history.word().as_str(),
            );
            log::complain(format_args!(
                "{dir}: {word}{}",
                entry.history.why_and_next()
            ));
        }
        if let Some(more @ 1..) = troubled.len().checked_sub(NAMED) {
            log::complain(format_args!("and {more} more"));
        }
    }

    /// The exit code of `--once`: that of the worst state.
    pub(super) fn code_of_states(&self) -> u8 {
        let Some(worst) = self
            .databases
            .values()
            .map(|entry| entry.history.word())
            .min()
        else {
            return 0;
        };
        let those = self
            .databases
            .values()
            .filter(|entry| entry.history.word() == worst);
        those.map(ServedDatabase::exit_code).max().unwrap_or(0)
    }
}

impl ServedDatabase {
    /// For how long the gate is busy, after a cycle that ended so.
    fn gate_was_busy(&mut self, outcome: &CycleOutcome) -> Option<Duration> {
        let is_busy = matches!(outcome, CycleOutcome::Skipped(decision) if decision.reason() == Reason::GateBusy);
        if !is_busy {
            self.busy_since = None;
            return None;
        }
        Some(self.busy_since.get_or_insert_with(Instant::now).elapsed())
    }

    /// The exit code of `--once` for this database alone.
    fn exit_code(&self) -> u8 {
        let last = self.last.as_ref().map(|last| &last.outcome);
        DatabaseState::exit_code(self.history.word(), last)
    }

    fn state_line(&self) -> log::AgentLine {
        agent_lines::state(
            self.history.word().event(),
            self.history.since_wall,
            self.history.words(),
        )
    }
}
