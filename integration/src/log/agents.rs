//! Starts and stops of the daemon, and which of them is missing.

use std::collections::VecDeque;

use super::event::Agent;
use super::time::At;

/// As many past runs are remembered; all are counted.
const KEPT: usize = 1000;

/// As many that have not said that they stop are remembered while others start.
const SHADOWED: usize = 16;

/// One run of a daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// `beadlock-agent 0.1.0`, or `bd daemon`.
    pub program: String,
    pub pid: Option<i64>,
    pub host: Option<String>,
    /// `None`: before the log begins.
    pub started: Option<At>,
    /// Its last line, or the last sign of a cycle.
    pub last: At,
    pub end: RunEnd,
    /// The signal that it was told to end by.
    pub signal: Option<String>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// Not, as far as the log goes.
    Running,
    /// It said so.
    Stopped(At),
    /// Another one started, and no stop came before: it was killed, or crashed.
    Lost,
}

/// The daemons that write one log.
#[derive(Debug, Default)]
pub struct Agents {
    current: Option<Run>,
    /// Started, and not stopped when the next one started: lost, unless it shows that it lives.
    shadowed: Vec<Run>,
    past: VecDeque<Run>,
    /// Starts in the log.
    pub starts: u64,
    /// Stops in the log.
    pub stops: u64,
    /// Starts before whom somebody did not stop.
    pub lost: u64,
}

impl Agents {
    /// A file begins with who writes it. True when that is somebody new.
    pub fn header(&mut self, agent: &Agent<'_>, at: At) {
        let known = self.current.iter().chain(&self.shadowed).any(|run| run.pid == agent.pid);
        if !known && self.current.is_none() {
            self.current = Some(Run::new(agent, None, at));
        }
    }

    /// A daemon starts. True when the one before it did not stop.
    pub fn started(&mut self, agent: &Agent<'_>, at: At) -> bool {
        self.starts += 1;
        let before = self.current.replace(Run::new(agent, Some(at), at));
        // The header of a new file comes a moment before the start that it is written for.
        let Some(before) = before.filter(|run| !(run.started.is_none() && run.pid == agent.pid)) else {
            return false;
        };
        self.shadowed.push(before);
        if self.shadowed.len() > SHADOWED {
            let lost = self.shadowed.remove(0);
            self.lost(lost);
        }
        true
    }

    /// It was told to end.
    pub fn ending(&mut self, signal: &str, at: At) {
        if let Some(run) = &mut self.current {
            run.last = at;
            run.signal = Some(signal.to_owned());
        }
    }

    /// A daemon ends in order.
    pub fn stopped(&mut self, agent: Option<&Agent<'_>>, at: At) {
        self.stops += 1;
        let is_it = |run: &Run| agent.is_none_or(|agent| agent.pid == run.pid);
        let run = match self.current.take() {
            Some(run) if is_it(&run) => Some(run),
            other => {
                self.current = other;
                self.shadowed.iter().rposition(is_it).map(|at| self.shadowed.remove(at))
            }
        };
        let unknown = Agent { program: "bd daemon", pid: None, host: None };
        let mut run = run.unwrap_or_else(|| Run::new(agent.unwrap_or(&unknown), None, at));
        run.last = at;
        run.end = RunEnd::Stopped(at);
        self.ended(run);
    }

    /// A cycle: somebody lives.
    pub fn alive(&mut self, at: At) {
        if self.current.is_none() {
            self.current = self.shadowed.pop();
        }
        if let Some(run) = &mut self.current {
            run.last = at;
        }
    }

    /// The last that was heard of.
    pub fn latest(&self) -> Option<&Run> {
        self.current.as_ref().or_else(|| self.past.iter().chain(&self.shadowed).max_by_key(|run| run.last))
    }

    /// What is past is not asked for.
    pub fn forget(&mut self) {
        self.past.clear();
        (self.starts, self.stops, self.lost) = (0, 0, 0);
    }

    /// The end of the log: who has not shown itself since another started is lost.
    pub fn finish(&mut self) {
        for run in std::mem::take(&mut self.shadowed) {
            self.lost(run);
        }
    }

    /// All that are remembered, in the order of their starts.
    pub fn runs(&self) -> Vec<&Run> {
        let mut runs: Vec<&Run> = self.past.iter().chain(&self.shadowed).chain(&self.current).collect();
        runs.sort_by_key(|run| run.started.map_or((0, run.last), |started| (1, started)));
        runs
    }

    fn lost(&mut self, mut run: Run) {
        self.lost += 1;
        run.end = RunEnd::Lost;
        self.ended(run);
    }

    fn ended(&mut self, run: Run) {
        self.past.push_back(run);
        if self.past.len() > KEPT {
            self.past.pop_front();
        }
    }
}

impl Run {
    fn new(agent: &Agent<'_>, started: Option<At>, at: At) -> Self {
        Self {
            program: agent.program.to_owned(),
            pid: agent.pid,
            host: agent.host.map(str::to_owned),
            started,
            last: at,
            end: RunEnd::Running,
            signal: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(pid: i64) -> Agent<'static> {
        Agent { program: "beadlock-agent 0.1.0", pid: Some(pid), host: Some("h") }
    }

    fn ends(agents: &mut Agents) -> Vec<(i64, RunEnd)> {
        agents.finish();
        agents.runs().iter().map(|run| (run.pid.unwrap_or(0), run.end)).collect()
    }

    #[test]
    fn a_start_without_a_stop_before_it_is_a_loss() {
        let mut agents = Agents::default();
        agents.header(&agent(1), At(0));
        assert!(!agents.started(&agent(1), At(0)), "its own header");
        agents.alive(At(5));
        assert!(agents.started(&agent(2), At(10)));
        agents.ending("SIGTERM", At(20));
        agents.stopped(Some(&agent(2)), At(21));
        assert!(!agents.started(&agent(3), At(30)));
        let ends = ends(&mut agents);
        assert_eq!(ends, [(1, RunEnd::Lost), (2, RunEnd::Stopped(At(21))), (3, RunEnd::Running)]);
        assert_eq!((agents.starts, agents.stops, agents.lost), (3, 1, 1));
        assert_eq!(agents.runs()[1].signal.as_deref(), Some("SIGTERM"));
    }

    #[test]
    fn one_that_runs_once_beside_another_loses_nobody() {
        let mut agents = Agents::default();
        agents.started(&agent(1), At(0));
        agents.started(&agent(2), At(10));
        agents.stopped(Some(&agent(2)), At(11));
        agents.alive(At(12));
        assert_eq!(ends(&mut agents), [(1, RunEnd::Running), (2, RunEnd::Stopped(At(11)))]);
        agents.started(&agent(3), At(20));
        agents.stopped(Some(&agent(1)), At(21));
        assert_eq!(ends(&mut agents)[0], (1, RunEnd::Stopped(At(21))));
    }

    #[test]
    fn what_began_before_the_log_is_known_by_its_header_or_its_stop() {
        let mut agents = Agents::default();
        agents.header(&agent(1), At(0));
        agents.stopped(Some(&agent(1)), At(5));
        agents.stopped(Some(&agent(9)), At(6));
        agents.stopped(None, At(7));
        assert_eq!(agents.runs().iter().map(|run| run.pid).collect::<Vec<_>>(), [Some(1), Some(9), None]);
        assert!(agents.runs().iter().all(|run| run.started.is_none()));
    }

    #[test]
    fn thousands_of_runs_are_counted_and_the_last_remembered() {
        let mut agents = Agents::default();
        for number in 0..5000 {
            agents.started(&agent(number), At(number));
        }
        agents.finish();
        assert_eq!((agents.starts, agents.lost), (5000, 4999));
        assert_eq!(agents.runs().len(), KEPT + 1);
    }
}
