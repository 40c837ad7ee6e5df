//! The daemons that wrote a log: their starts, their stops, and the stops that are missing.

use serde::Serialize;

use crate::log::parse::{event::DaemonId, line::LogWriter, time::LogTime};

/// As many runs are remembered; all are counted.
const KEPT: usize = 1000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentRun {
    #[serde(flatten)]
    pub id: DaemonId,
    /// `None`: before the log begins.
    pub started: Option<LogTime>,
    /// Its last line or its last cycle.
    pub last: LogTime,
    pub end: AgentEnd,
    /// The signal that told it to end.
    pub signal: Option<String>,
    /// It has shown that it lives after the start of another daemon.
    #[serde(skip)]
    is_beside: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentEnd {
    Running,
    /// It logged its stop, which is its last line.
    Stopped,
    /// It was killed or crashed: another daemon started, and no stop came before.
    Lost,
}

#[derive(Debug, Default)]
pub struct AgentRuns {
    /// In the order of their starts. The last one without a stop writes; one before it may be lost, or write beside it.
    runs: Vec<AgentRun>,
    pub starts: u64,
    pub stops: u64,
    /// Runs whose stop is missing.
    pub lost: u64,
}

impl AgentRuns {
    /// A file begins with the name of its daemon.
    pub fn header(&mut self, id: &DaemonId, at: LogTime) {
        if self.current().is_none() {
            self.add(id.clone(), None, at);
        }
    }

    pub fn started(&mut self, id: &DaemonId, at: LogTime) {
        self.starts += 1;
        // An agent writes the header of its file a moment before its start.
        self.runs.pop_if(|run| {
            run.end == AgentEnd::Running && run.started.is_none() && run.id.pid == id.pid
        });
        self.add(id.clone(), Some(at), at);
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

    /// A line that only a daemon of this kind writes.
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
            self.add(id.cloned().unwrap_or_else(DaemonId::original), None, at);
        }
        if let Some(run) = self.runs.iter_mut().rfind(is_it) {
            (run.last, run.end) = (at, AgentEnd::Stopped);
        }
    }

    /// A cycle shows that a daemon is alive.
    pub fn alive(&mut self, at: LogTime) {
        if let Some(run) = self.current() {
            run.last = at;
        }
    }

    /// The run with the last sign of life.
    pub fn latest(&self) -> Option<&AgentRun> {
        let running = self.runs.iter().rfind(|run| run.end == AgentEnd::Running);
        running.or_else(|| self.runs.iter().max_by_key(|run| run.last))
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

    /// At the end of the log the runs without a stop are lost, unless they have written beside another one.
    pub fn finish(&mut self) {
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

    fn add(&mut self, id: DaemonId, started: Option<LogTime>, last: LogTime) {
        if self.runs.len() == KEPT {
            self.lost += u64::from(self.runs.remove(0).is_lost());
        }
        self.runs.push(AgentRun {
            id,
            started,
            last,
            end: AgentEnd::Running,
            signal: None,
            is_beside: false,
        });
    }
}

impl AgentRun {
    /// It is lost, where another one has started after it.
    fn is_lost(&self) -> bool {
        self.end == AgentEnd::Running && !self.is_beside
    }
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
