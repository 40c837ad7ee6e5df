//! One look at the log of a database: what it says about the sync, and where its agent can be asked.

use std::path::Path;

use beadlock_core::agent_process::ProcessState;
use beadlock_core::facts;

use super::parse::time::LogTime;
use super::report::LogReport;
pub use super::report::{LogAnswer, STATES};
use super::tail::LogTail;

/// One look at a log: its answer about the database, and the address of its agent.
#[derive(Debug)]
pub struct LogGlance {
    /// Whether the database syncs now, by its log.
    pub answer: LogAnswer,
    /// Where the agent listens, if it may answer: a process that is gone or stands still does not, nor one of another
    /// host by an address of this one.
    pub asked_at: Option<String>,
}

impl LogGlance {
    /// Looks at the log of the database in this directory; `None` where no daemon has logged there.
    pub fn of(dir: &Path) -> Option<Self> {
        let mut tail = LogTail::looking(&dir.join("daemon.log"));
        if !tail.read_on() {
            return None;
        }
        let listens_at = tail.listens_at().map(str::to_owned);
        let (path, mut log) = tail.into_timeline();
        let end = LogTime::now();
        log.finish(end);
        let state = log.agents.latest().map(|run| run.process);
        let may_answer = matches!(
            state,
            None | Some(ProcessState::Runs | ProcessState::Unknown)
        );
        let may_answer = may_answer && !log.is_of_other_host();
        let target = super::target_of(Some(&path));
        let report = LogReport {
            files: vec![path.clone()],
            path: Some(path),
            compressed: Vec::new(),
            log,
            locks: Vec::new(),
            end,
            target,
            host: facts::hostname().map(|name| name.to_string()),
        };
        let answer = report.answers().next().map(|(_, answer)| answer)?;
        Some(Self {
            answer,
            asked_at: listens_at.filter(|_| may_answer),
        })
    }
}
