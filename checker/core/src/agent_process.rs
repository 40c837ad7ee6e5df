//! Which process an agent is, as its log says it, and whether that process lives. A reader of the log can then tell a
//! quiet agent from a killed or a stopped one (docs/design.md#the-log).

use std::{fmt, process};

use crate::facts::Ids;
use beadlock_base::process::Liveness;
use beadlock_base::process::{Stat, is_dead_zombie, probe, proc_is_ours, start_ticks};

/// An agent as its log names it. `Display` is what the log has, and `parse` reads that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentProcess {
    /// Name and version of the program: `beadlock-agent 0.1.0`.
    pub program: String,
    /// PID of the agent in its PID namespace.
    pub pid: i64,
    /// Host of the agent, as the agent calls it.
    pub host: String,
    /// The mark of the process; `None` for older agents, and where the system does not say it.
    mark: Option<ProcessMark>,
}

/// Start time, boot and PID namespace: together with its PID they set a process apart from every other one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ProcessMark {
    /// Start of the process, in clock ticks after boot.
    start_ticks: u64,
    boot_id: String,
    /// PID namespace of the process: `pid:[4026531836]`.
    pid_ns: String,
}

/// Whether a process lives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProcessState {
    /// The process lives.
    Runs,
    /// The process lives but is stopped by a signal (state T); SIGCONT continues it.
    Stopped,
    /// The process has ended.
    Gone,
    /// The process is of another machine, boot or PID namespace, or the system does not say.
    #[default]
    Unknown,
}

impl ProcessState {
    /// True when the process is known not to have ended.
    pub fn lives(self) -> bool {
        matches!(self, Self::Runs | Self::Stopped)
    }
}

impl AgentProcess {
    /// This process, by the name of its program and on a host that its log calls `host`.
    pub fn current(program: &str, host: &str) -> Self {
        Self {
            program: program.to_owned(),
            pid: process::id().into(),
            host: host.to_owned(),
            mark: ProcessMark::current(),
        }
    }

    /// `PROGRAM, PID PID, host HOST`: the process without its mark.
    pub fn name(&self) -> String {
        let Self {
            program, pid, host, ..
        } = self;
        format!("{program}, PID {pid}, host {host}")
    }

    /// Reads what `Display` or [`AgentProcess::name`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, mark) = match ProcessMark::split(text) {
            Some((name, mark)) => (name, Some(mark)),
            None => (text, None),
        };
        let (program, rest) = name.split_once(", PID ")?;
        let (pid, host) = rest.split_once(", host ")?;
        Some(Self {
            program: program.to_owned(),
            pid: pid.parse().ok()?,
            host: host.to_owned(),
            mark,
        })
    }

    /// True when the log says which process the agent is, so that [`AgentProcess::state`] can tell on its machine.
    pub fn is_marked(&self) -> bool {
        self.mark.is_some()
    }

    /// Whether the process lives. Only a process of this boot and this PID namespace is looked at.
    pub fn state(&self) -> ProcessState {
        self.mark
            .as_ref()
            .map_or(ProcessState::Unknown, |mark| mark.state(self.pid))
    }
}

impl ProcessMark {
    fn current() -> Option<Self> {
        let ids = Ids::current();
        Some(Self {
            start_ticks: start_ticks(process::id().into())?,
            boot_id: ids.boot_id.clone()?,
            pid_ns: ids.pid_ns.clone()?,
        })
    }

    /// The text before the mark, and the mark; `None`: the text has no mark.
    fn split(text: &str) -> Option<(&str, Self)> {
        let (rest, pid_ns) = text.rsplit_once(", PID namespace ")?;
        let (rest, boot_id) = rest.rsplit_once(", boot ")?;
        let (rest, start_ticks) = rest.rsplit_once(", start ")?;
        let mark = Self {
            start_ticks: start_ticks.parse().ok()?,
            boot_id: boot_id.to_owned(),
            pid_ns: pid_ns.to_owned(),
        };
        Some((rest, mark))
    }

    fn state(&self, pid: i64) -> ProcessState {
        let ids = Ids::current();
        let is_here = ids.boot_id.as_ref() == Some(&self.boot_id)
            && ids.pid_ns.as_ref() == Some(&self.pid_ns)
            && proc_is_ours();
        let Some(number) = i32::try_from(pid).ok().filter(|_| is_here) else {
            return ProcessState::Unknown;
        };
        match Stat::read(number) {
            None if probe(pid) == Liveness::Gone => ProcessState::Gone,
            None => ProcessState::Unknown,
            Some(stat) if stat.start_ticks != self.start_ticks => ProcessState::Gone,
            Some(stat) if stat.is_zombie() && is_dead_zombie(number) == Some(true) => {
                ProcessState::Gone
            }
            Some(stat) if stat.is_stopped() => ProcessState::Stopped,
            Some(_) => ProcessState::Runs,
        }
    }
}

impl fmt::Display for AgentProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())?;
        let Some(mark) = &self.mark else {
            return Ok(());
        };
        let ProcessMark {
            start_ticks,
            boot_id,
            pid_ns,
        } = mark;
        write!(
            f,
            ", start {start_ticks}, boot {boot_id}, PID namespace {pid_ns}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_this_process_runs() {
        let current = AgentProcess::current("beadlock-agent 1", "a, start 7, boot x");
        let read = AgentProcess::parse(&current.to_string());
        assert_eq!(read, Some(current.clone()));
        assert_eq!(current.state(), ProcessState::Runs);
        let of = |change: fn(&mut AgentProcess, &mut ProcessMark)| {
            let mut other = current.clone();
            let mut mark = other.mark.clone().unwrap();
            change(&mut other, &mut mark);
            other.mark = Some(mark);
            other.state()
        };
        let gone = of(|_, mark| mark.start_ticks += 1);
        assert_eq!(gone, ProcessState::Gone);
        let gone = of(|other, _| other.pid = i64::from(i32::MAX));
        assert_eq!(gone, ProcessState::Gone);
        for change in [
            |other: &mut AgentProcess, _: &mut ProcessMark| other.pid = i64::MAX,
            |_: &mut AgentProcess, mark: &mut ProcessMark| mark.boot_id.push('x'),
            |_: &mut AgentProcess, mark: &mut ProcessMark| mark.pid_ns.push('x'),
        ] {
            assert_eq!(of(change), ProcessState::Unknown);
        }
    }

    #[test]
    fn of_an_agent_without_a_mark_nothing_is_known() {
        let agent = AgentProcess::parse("beadlock-agent 0.1.0, PID 1, host h").unwrap();
        assert_eq!(agent.name(), "beadlock-agent 0.1.0, PID 1, host h");
        assert_eq!(agent.state(), ProcessState::Unknown);
        for text in ["", "PID 7", "x, PID x, host h", "x, PID 7"] {
            assert_eq!(AgentProcess::parse(text), None, "{text}");
        }
    }
}
