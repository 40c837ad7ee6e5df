//! The daemons that wrote a log: their starts, their stops, and the stops that are missing.

use std::collections::VecDeque;

use serde::Serialize;

use crate::log::parse::{event::DaemonId, line::LogWriter, time::LogTime};

/// As many past runs are remembered; all are counted.
const KEPT: usize = 1000;

/// As many runs without a stop are remembered while other daemons start.
const SHADOWED: usize = 16;

/// One run of a daemon.
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

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentEnd {
    /// The log shows no end.
    Running,
    /// It logged its stop, which is its last line.
    Stopped,
    /// It was killed or crashed: another daemon started, and no stop came before.
    Lost,
}

/// The daemons that write one log.
#[derive(Debug, Default)]
pub struct AgentRuns {
    current: Option<AgentRun>,
    /// Runs without a stop before the next start. They are lost, unless they show later that they are alive.
    shadowed: Vec<AgentRun>,
    past: VecDeque<AgentRun>,
    /// Starts in the log.
    pub starts: u64,
    /// Stops in the log.
    pub stops: u64,
    /// Runs whose stop is missing.
    pub lost: u64,
}

impl AgentRuns {
    /// A file begins with the name of its daemon.
    pub fn header(&mut self, id: &DaemonId, at: LogTime) {
        let is_known = self.shadowed.iter().any(|run| run.id.pid == id.pid);
        if !is_known && self.current.is_none() {
            self.current = Some(AgentRun::new(id.clone(), None, at));
        }
    }

    /// A daemon starts.
    pub fn started(&mut self, id: &DaemonId, at: LogTime) {
        self.starts += 1;
        let before = self.current.replace(AgentRun::new(id.clone(), Some(at), at));
        // An agent writes the header of its file a moment before its start.
        self.shadowed.extend(before.filter(|run| run.started.is_some() || run.id.pid != id.pid));
        if self.shadowed.len() > SHADOWED {
            let run = self.shadowed.remove(0);
            self.without_stop(run);
        }
    }

    /// The original daemon that has just started serves this database file. It starts no second time on one database,
    /// so another one on another database goes on.
    pub fn serves(&mut self, path: &str) {
        let Some(run) = self.current.as_mut().filter(|run| run.id.writer() == LogWriter::Original) else { return };
        run.id.database = Some(path.to_owned());
        for other in &mut self.shadowed {
            other.is_beside |= other.id.database.as_deref().is_some_and(|database| database != path);
        }
    }

    /// A line that only a daemon of this kind writes.
    pub fn wrote(&mut self, writer: LogWriter, at: LogTime) {
        if let Some(run) = self.current.as_mut().filter(|run| run.id.writer() == writer) {
            run.last = at;
        } else if let Some(number) = self.shadowed.iter().rposition(|run| run.id.writer() == writer) {
            let run = &mut self.shadowed[number];
            (run.last, run.is_beside) = (at, true);
            if self.current.is_none() {
                self.current = Some(self.shadowed.remove(number));
            }
        }
    }

    /// The daemons that may still write the log, where there are several.
    pub fn beside(&self) -> Vec<&AgentRun> {
        let runs: Vec<_> = self.sorted().into_iter().filter(|run| run.end == AgentEnd::Running).collect();
        if runs.len() > 1 { runs } else { Vec::new() }
    }

    /// The kind of the daemon that started last and has not stopped.
    pub fn running(&self) -> Option<LogWriter> {
        self.current.as_ref().map(|run| run.id.writer())
    }

    /// The current daemon gets a signal to end.
    pub fn ending(&mut self, signal: &str, at: LogTime) {
        if let Some(run) = &mut self.current {
            run.last = at;
            run.signal = Some(signal.to_owned());
        }
    }

    /// A daemon ends in order.
    pub fn stopped(&mut self, id: Option<&DaemonId>, at: LogTime) {
        self.stops += 1;
        let is_it = |run: &AgentRun| id.is_none_or(|id| id.pid == run.id.pid);
        let run = self
            .current
            .take_if(|run| is_it(run))
            .or_else(|| self.shadowed.iter().rposition(is_it).map(|number| self.shadowed.remove(number)));
        let unknown = || AgentRun::new(id.cloned().unwrap_or_else(DaemonId::original), None, at);
        self.ended(AgentRun { last: at, end: AgentEnd::Stopped, ..run.unwrap_or_else(unknown) });
    }

    /// A cycle shows that a daemon is alive.
    pub fn alive(&mut self, at: LogTime) {
        if self.current.is_none() {
            self.current = self.shadowed.pop();
        }
        if let Some(run) = &mut self.current {
            run.last = at;
        }
    }

    /// The run with the last sign of life.
    pub fn latest(&self) -> Option<&AgentRun> {
        self.current.as_ref().or_else(|| self.past.iter().chain(&self.shadowed).max_by_key(|run| run.last))
    }

    /// Past runs do not count.
    pub fn forget(&mut self) {
        self.past.clear();
        (self.starts, self.stops, self.lost) = (0, 0, 0);
    }

    /// At the end of the log the runs without a stop are lost, unless they have written beside another one.
    pub fn finish(&mut self) {
        for run in std::mem::take(&mut self.shadowed) {
            self.without_stop(run);
        }
    }

    /// The remembered runs in the order of their starts.
    pub fn sorted(&self) -> Vec<&AgentRun> {
        let mut runs: Vec<&AgentRun> = self.past.iter().chain(&self.shadowed).chain(&self.current).collect();
        runs.sort_by_key(|run| run.started.map_or((0, run.last), |started| (1, started)));
        runs
    }

    fn without_stop(&mut self, run: AgentRun) {
        self.lost += u64::from(!run.is_beside);
        let end = if run.is_beside { AgentEnd::Running } else { AgentEnd::Lost };
        self.ended(AgentRun { end, ..run });
    }

    fn ended(&mut self, run: AgentRun) {
        self.past.push_back(run);
        if self.past.len() > KEPT {
            self.past.pop_front();
        }
    }
}

impl AgentRun {
    fn new(id: DaemonId, started: Option<LogTime>, last: LogTime) -> Self {
        Self { id, started, last, end: AgentEnd::Running, signal: None, is_beside: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(pid: i64) -> DaemonId {
        let program = "beadlock-agent 0.1.0".to_owned();
        DaemonId { program, pid: Some(pid), host: Some("h".to_owned()), database: None }
    }

    fn ends(agents: &mut AgentRuns) -> Vec<(i64, AgentEnd)> {
        agents.finish();
        agents.sorted().iter().map(|run| (run.id.pid.unwrap_or(0), run.end)).collect()
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
        assert_eq!(ends, [(1, AgentEnd::Lost), (2, AgentEnd::Stopped), (3, AgentEnd::Running)]);
        assert_eq!((agents.starts, agents.stops, agents.lost), (3, 1, 1));
        assert_eq!(agents.sorted()[1].signal.as_deref(), Some("SIGTERM"));
    }

    #[test]
    fn one_that_runs_once_beside_another_loses_nobody() {
        let mut agents = AgentRuns::default();
        agents.started(&agent(1), LogTime(0));
        agents.started(&agent(2), LogTime(10));
        agents.stopped(Some(&agent(2)), LogTime(11));
        agents.alive(LogTime(12));
        assert_eq!(ends(&mut agents), [(1, AgentEnd::Running), (2, AgentEnd::Stopped)]);
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
        assert_eq!((agents.beside().len(), agents.lost), (0, 1), "on one database the first one was killed");
    }

    #[test]
    fn what_began_before_the_log_is_known_by_its_header_or_its_stop() {
        let mut agents = AgentRuns::default();
        agents.header(&agent(1), LogTime(0));
        agents.stopped(Some(&agent(1)), LogTime(5));
        agents.stopped(Some(&agent(9)), LogTime(6));
        agents.stopped(None, LogTime(7));
        assert_eq!(agents.sorted().iter().map(|run| run.id.pid).collect::<Vec<_>>(), [Some(1), Some(9), None]);
        assert!(agents.sorted().iter().all(|run| run.started.is_none()));
    }

    #[test]
    fn thousands_of_runs_are_counted_and_the_last_remembered() {
        let mut agents = AgentRuns::default();
        for number in 0..5000 {
            agents.started(&agent(number), LogTime(number));
        }
        agents.finish();
        assert_eq!((agents.starts, agents.lost), (5000, 4999));
        assert_eq!(agents.sorted().len(), KEPT + 1);
    }
}
