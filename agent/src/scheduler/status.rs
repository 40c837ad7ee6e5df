//! How the databases fare, for who asks from outside.

use super::{CycleState, Scheduler, ServedDatabase};
use crate::outside::{DatabaseSnapshot, Question, Snapshot};

impl Scheduler {
    /// Answers at once; who asks does the rest. One who has gone meanwhile gets nothing.
    pub(super) fn answer(&self, question: Question) {
        match question {
            Question::Turning(answer) => {
                let _ = answer.send(());
            }
            Question::Status(answer) => {
                let awaited = self.settings.awaited.iter().map(|awaited| DatabaseSnapshot {
                    dir: awaited.dir.clone(),
                    state: "not_serving",
                    due: None,
                    last: None,
                    why: Some(awaited.why.clone()),
                });
                let databases = self.databases.values().map(ServedDatabase::seen).chain(awaited).collect();
                let _ = answer.send(Snapshot { is_ending: self.is_ending, databases });
            }
        }
    }
}

impl ServedDatabase {
    fn seen(&self) -> DatabaseSnapshot {
        let state = match self.state {
            _ if self.silent.is_some() => "not_serving",
            CycleState::Running => "running",
            CycleState::Waiting(_) | CycleState::Due if self.is_ready => "ready",
            CycleState::Waiting(_) | CycleState::Due => "waiting",
        };
        let dir = self.subject.database.dir.clone();
        let due = self.silent.is_none().then(|| self.due.at());
        DatabaseSnapshot { dir, state, due, last: self.last.clone(), why: self.silent.clone() }
    }
}
