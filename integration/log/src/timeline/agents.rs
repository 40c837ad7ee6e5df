//! The daemons that wrote a log: their starts, their stops, and the stops that are missing.

use beadlock_core::agent_process::{AgentProcess, ProcessState};
use serde::{Serialize, Serializer};

use crate::parse::{event::DaemonId, line::LogWriter, time::LogTime};

/// Most runs that are remembered; all are counted.
const KEPT: usize = 1000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentRun {
    #[serde(flatten)]
    pub id: DaemonId,
    /// Time of its start; `None`: before the log begins.
    pub started: Option<LogTime>,
    /// Time of its last line or its last cycle.
    pub last: LogTime,
    pub end: AgentEnd,
    /// The signal that told it to end.
    pub signal: Option<String>,
    /// Whether its process lives now.
    #[serde(serialize_with = "process_word")]
    pub process: ProcessState,
    /// True when it has shown that it lives after the start of another daemon.
    #[serde(skip)]
    is_beside: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentEnd {
    Running,
    /// The daemon logged its stop, which is its last line.
    Stopped,
    /// The daemon was killed or crashed: its process is gone, or another one started, and no stop came before.
    Lost,
}

/// Tells whether the process of a daemon lives.
pub type ProcessLook = fn(&AgentProcess) -> ProcessState;

#[derive(Debug)]
pub struct AgentRuns {
    look: ProcessLook,
    /// In the order of their starts. The last one without a stop writes; one before it may be lost, or write beside it.
    runs: Vec<AgentRun>,
    pub starts: u64,
    pub stops: u64,
    /// Runs whose stop is missing.
    pub lost: u64,
}

impl Default for AgentRuns {
    /// Asks for no process: the state of each is unknown.
    fn default() -> Self {
        Self::new(|_| ProcessState::Unknown)
    }
}

impl AgentRuns {
    pub fn new(look: ProcessLook) -> Self {
        Self {
            look,
            runs: Vec::new(),
            starts: 0,
            stops: 0,
            lost: 0,
        }
    }

    /// True when a daemon whose process lives has not stopped, besides the one with this id.
    pub fn has_living_beside(&self, id: Option<&DaemonId>) -> bool {
        let pid = id.and_then(|id| id.pid);
        self.runs.iter().any(|run| run.lives() && run.id.pid != pid)
    }

    /// Notes the name of a daemon at the beginning of a file; it may be one of several.
    pub fn header(&mut self, id: &DaemonId, at: LogTime) {
        let is_known = |run: &AgentRun| run.end == AgentEnd::Running && run.id.pid == id.pid;
        if self.runs.iter().any(is_known) {
            return;
        }
        let run = self.run(id.clone(), None, at);
        if run.process.lives() || self.current().is_none() {
            self.add(run);
        }
    }

    pub fn started(&mut self, id: &DaemonId, at: LogTime) {
        self.starts += 1;
        // An agent writes the header of its file a moment before its start.
        self.runs.pop_if(|run| {
            run.end == AgentEnd::Running && run.started.is_none() && run.id.pid == id.pid
        });
        let run = self.run(id.clone(), Some(at), at);
        self.add(run);
    }

    /// The original daemon that has just started serves this database file. It starts no second time on one database,
    /// so another one on another database goes on.
    pub fn serves(&mut self, path: &str) {
        let Some((run, others)) = self.runs.split_last_mut() else {
            return;
        };
        if run.id.writer() == LogWriter::Original {
            run.id.database = Some(path.to_owned());
            for other in others {
                other.is_beside |= other
                    .id
                    .database
                    .as_deref()
                    .is_some_and(|database| database != path);
            }
        }
    }

    /// Notes that another daemon has found this one alive.
    pub fn lives_beside(&mut self, id: &DaemonId) {
        let is_it = |run: &&mut AgentRun| run.end == AgentEnd::Running && run.id.pid == id.pid;
        if let Some(run) = self.runs.iter_mut().rfind(is_it) {
            run.is_beside = true;
        }
    }

    /// Notes a line that only a daemon of this kind writes.
    pub fn wrote(&mut self, writer: LogWriter, at: LogTime) {
        let is_it = |run: &AgentRun| run.end == AgentEnd::Running && run.id.writer() == writer;
        if let Some(number) = self.runs.iter().rposition(is_it) {
            self.runs[number].last = at;
            self.runs[number].is_beside |= number + 1 < self.runs.len();
        }
    }

    pub fn ending(&mut self, signal: &str, at: LogTime) {
        if let Some(run) = self.current() {
            run.last = at;
            run.signal = Some(signal.to_owned());
        }
    }

    pub fn stopped(&mut self, id: Option<&DaemonId>, at: LogTime) {
        self.stops += 1;
        let is_it = |run: &&mut AgentRun| {
            run.end == AgentEnd::Running && id.is_none_or(|id| id.pid == run.id.pid)
        };
        if !self.runs.iter_mut().any(|mut run| is_it(&mut run)) {
            let run = self.run(id.cloned().unwrap_or_else(DaemonId::original), None, at);
            self.add(run);
        }
        if let Some(run) = self.runs.iter_mut().rfind(is_it) {
            (run.last, run.end) = (at, AgentEnd::Stopped);
        }
    }

    /// Notes a cycle, which shows that the daemon is alive.
    pub fn alive(&mut self, at: LogTime) {
        if let Some(run) = self.current() {
            run.last = at;
        }
    }

    /// The run with the last sign of life.
    pub fn latest(&self) -> Option<&AgentRun> {
        let living = self.runs.iter().rfind(|run| run.lives());
        let running = || self.runs.iter().rfind(|run| run.end == AgentEnd::Running);
        living
            .or_else(running)
            .or_else(|| self.runs.iter().max_by_key(|run| run.last))
    }

    /// The daemons that may still write the log, where there are several.
    pub fn beside(&self) -> Vec<&AgentRun> {
        let runs: Vec<_> = self
            .runs
            .iter()
            .filter(|run| run.end == AgentEnd::Running)
            .collect();
        if runs.len() > 1 { runs } else { Vec::new() }
    }

    pub fn forget(&mut self) {
        self.runs.retain(|run| run.end == AgentEnd::Running);
        (self.starts, self.stops, self.lost) = (0, 0, 0);
    }

    /// At the end of the log the runs without a stop are lost whose processes are gone; of those of which nothing is
    /// known the earlier ones, unless they have written beside another one.
    pub fn finish(&mut self) {
        let is_gone =
            |run: &AgentRun| run.end == AgentEnd::Running && run.process == ProcessState::Gone;
        for run in self.runs.iter_mut().filter(|run| is_gone(run)) {
            run.end = AgentEnd::Lost;
            self.lost += 1;
        }
        let last = self
            .runs
            .iter()
            .rposition(|run| run.end == AgentEnd::Running)
            .unwrap_or(0);
        for run in self.runs.iter_mut().take(last).filter(|run| run.is_lost()) {
            run.end = AgentEnd::Lost;
            self.lost += 1;
        }
        self.runs
            .sort_by_key(|run| run.started.map_or((0, run.last), |started| (1, started)));
    }

    /// The remembered runs, after [`AgentRuns::finish`] in the order of their starts.
    pub fn all(&self) -> &[AgentRun] {
        &self.runs
    }

    fn current(&mut self) -> Option<&mut AgentRun> {
        self.runs
            .iter_mut()
            .rfind(|run| run.end == AgentEnd::Running)
    }

    fn run(&self, id: DaemonId, started: Option<LogTime>, last: LogTime) -> AgentRun {
        let process = id.process.as_ref().map(self.look).unwrap_or_default();
        AgentRun {
            id,
            started,
            last,
            end: AgentEnd::Running,
            signal: None,
            process,
            is_beside: process.lives(),
        }
    }

    fn add(&mut self, run: AgentRun) {
        if self.runs.len() == KEPT {
            self.lost += u64::from(self.runs.remove(0).is_lost());
        }
        self.runs.push(run);
    }
}

impl AgentRun {
    /// True when its process lives, and it has not said that it stops.
    pub fn lives(&self) -> bool {
        self.end == AgentEnd::Running && self.process.lives()
    }

    /// True when it runs where its number is not known here: in another PID namespace, or on another machine.
    pub fn is_elsewhere(&self) -> bool {
        let is_marked = self
            .id
            .process
            .as_ref()
            .is_some_and(AgentProcess::is_marked);
        is_marked && self.process == ProcessState::Unknown
    }

    /// True when the run counts as lost, provided that another one has started after it.
    fn is_lost(&self) -> bool {
        self.end == AgentEnd::Running && !self.is_beside
    }
}

/// Writes the state as a word; null: it is not known.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn process_word<S: Serializer>(state: &ProcessState, serializer: S) -> Result<S::Ok, S::Error> {
    let word = match state {
        ProcessState::Runs => Some("runs"),
        ProcessState::Stopped => Some("stopped"),
        ProcessState::Gone => Some("gone"),
        ProcessState::Unknown => None,
    };
    word.serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(pid: i64) -> DaemonId {
        let program = "beadlock-agent 0.1.0".to_owned();
        DaemonId {
            program,
            pid: Some(pid),
            host: Some("h".to_owned()),
            database: None,
            process: None,
        }
    }

    fn ends(agents: &mut AgentRuns) -> Vec<(i64, AgentEnd)> {
        agents.finish();
        agents
            .all()
            .iter()
            .map(|run| (run.id.pid.unwrap_or(0), run.end))
            .collect()
    }

    #[test]
    fn a_start_without_a_stop_before_it_is_a_loss() {
        let mut agents = AgentRuns::default();
        agents.header(&agent(1), LogTime(0));
        agents.started(&agent(1), LogTime(0));
        agents.alive(LogTime(5));
        agents.started(&agent(2), LogTime(10));
        agents.ending("SIGTERM", LogTime(20));
        agents.stopped(Some(&agent(2)), LogTime(21));
        agents.started(&agent(3), LogTime(30));
        let ends = ends(&mut agents);
        assert_eq!(
            ends,
            [
                (1, AgentEnd::Lost),
                (2, AgentEnd::Stopped),
                (3, AgentEnd::Running)
            ]
        );
        assert_eq!((agents.starts, agents.stops, agents.lost), (3, 1, 1));
        assert_eq!(agents.all()[1].signal.as_deref(), Some("SIGTERM"));
    }

    /// The later one has looked: the earlier one is not lost, wherever it runs.
    #[test]
    fn one_that_another_has_found_alive_is_not_lost() {
        let mut agents = AgentRuns::default();
        agents.started(&agent(1), LogTime(0));
        agents.started(&agent(2), LogTime(10));
        agents.lives_beside(&agent(1));
        agents.lives_beside(&agent(9));
        assert_eq!(
            ends(&mut agents),
            [(1, AgentEnd::Running), (2, AgentEnd::Running)]
        );
    }

    #[test]
    fn one_that_runs_once_beside_another_loses_nobody() {
        let mut agents = AgentRuns::default();
        agents.started(&agent(1), LogTime(0));
        agents.started(&agent(2), LogTime(10));
        agents.stopped(Some(&agent(2)), LogTime(11));
        agents.alive(LogTime(12));
        assert_eq!(
            ends(&mut agents),
            [(1, AgentEnd::Running), (2, AgentEnd::Stopped)]
        );
        agents.started(&agent(3), LogTime(20));
        agents.stopped(Some(&agent(1)), LogTime(21));
        assert_eq!(ends(&mut agents)[0], (1, AgentEnd::Stopped));
    }

    #[test]
    fn daemons_of_two_databases_and_of_two_kinds_write_beside_each_other() {
        let mut agents = AgentRuns::default();
        let start = |agents: &mut AgentRuns, path: &str, at| {
            agents.started(&DaemonId::original(), LogTime(at));
            agents.serves(path);
        };
        start(&mut agents, "/a/beads.db", 0);
        start(&mut agents, "/b/beads.db", 10);
        agents.started(&agent(7), LogTime(20));
        agents.wrote(LogWriter::Original, LogTime(30));
        agents.finish();
        assert_eq!((agents.beside().len(), agents.lost), (3, 0));
        let mut agents = AgentRuns::default();
        start(&mut agents, "/a/beads.db", 0);
        start(&mut agents, "/a/beads.db", 10);
        agents.finish();
        assert_eq!(
            (agents.beside().len(), agents.lost),
            (0, 1),
            "on one database the first one was killed"
        );
    }

    #[test]
    fn what_began_before_the_log_is_known_by_its_header_or_its_stop() {
        let mut agents = AgentRuns::default();
        agents.header(&agent(1), LogTime(0));
        agents.stopped(Some(&agent(1)), LogTime(5));
        agents.stopped(Some(&agent(9)), LogTime(6));
        agents.stopped(None, LogTime(7));
        assert_eq!(
            agents
                .all()
                .iter()
                .map(|run| run.id.pid)
                .collect::<Vec<_>>(),
            [Some(1), Some(9), None]
        );
        assert!(agents.all().iter().all(|run| run.started.is_none()));
    }

    #[test]
    fn thousands_of_runs_are_counted_and_the_last_remembered() {
        let mut agents = AgentRuns::default();
        for number in 0..5000 {
            agents.started(&agent(number), LogTime(number));
        }
        agents.finish();
        assert_eq!((agents.starts, agents.lost), (5000, 4999));
        assert_eq!(agents.all().len(), KEPT);
    }
}
