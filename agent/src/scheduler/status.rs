//! How the databases fare, for those who ask from outside.

use std::borrow::Cow;
use std::sync::Arc;

use super::{CycleState, Scheduler, ServedDatabase};
use crate::http::{DatabaseSnapshot, NOT_SERVING, Question, StatusSnapshot};
use crate::state::{DatabaseState, StateWord};

impl Scheduler {
    /// Answers at once; the asker does the rest. One that has gone meanwhile gets nothing.
    pub(super) fn answer(&self, question: Question) {
        match question {
            Question::Turning(answer) => {
                let _ = answer.send(());
            }
            Question::Status(answer) => {
                let awaited = self.settings.awaited.iter().map(|awaited| {
                    let state =
                        DatabaseState::not_serving(Cow::Borrowed("no_answer"), &awaited.why);
                    DatabaseSnapshot::not_serving(&awaited.dir, Arc::new(state), self.begun)
                });
                let databases = self
                    .databases
                    .values()
                    .map(ServedDatabase::seen)
                    .chain(awaited)
                    .chain(self.unserved.seen())
                    .collect();
                let stale_after = self.settings.agent.stale_after;
                let fleet = self.work.fleet.as_ref().and_then(|fleet| fleet.status());
                let _ = answer.send(StatusSnapshot {
                    is_ending: self.is_ending,
                    databases,
                    fleet,
                    stale_after,
                });
            }
        }
    }
}

impl ServedDatabase {
    fn seen(&self) -> DatabaseSnapshot {
        let phase = match self.state {
            _ if self.silent.is_some() || self.history.word() == StateWord::NotServing => {
                NOT_SERVING
            }
            CycleState::Running => "running",
            CycleState::Waiting(_) | CycleState::Due if self.is_ready => "ready",
            CycleState::Waiting(_) | CycleState::Due => "waiting",
        };
        DatabaseSnapshot {
            dir: self.subject.database.dir.clone(),
            phase,
            state: Arc::clone(&self.history.state),
            since: (self.history.since, self.history.since_wall),
            last_push: self.history.last_push(),
            as_of: self.history.as_of(),
            failures: self.history.failures.clone(),
            due: self.silent.is_none().then(|| self.due.at()),
            last: self.last.clone(),
        }
    }
}
