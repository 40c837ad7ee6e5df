//! Another agent that serves a database already, as its log tells: the process of each agent is named there.

use std::borrow::Cow;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use beadlock_base::regular::{self, Links};
use beadlock_core::agent_process::AgentProcess;
use beadlock_core::log_line::Event;
use serde::Deserialize;

/// How much of a log is read, in bytes: its header, and its latest lines.
const HEAD: u64 = 4096;
const TAIL: u64 = 1024 * 1024;

/// No line that names an agent is longer. Of longer ones each piece is taken for a line, so that memory stays small.
const LONGEST_LINE: u64 = 4096;

/// `[YYYY-MM-DD HH:MM:SS] `
const STAMP: usize = 22;

#[derive(Deserialize)]
struct JsonLine {
    message: String,
}

/// The latest agent but this one that this log names, that has not stopped, and that lives.
pub(super) fn that_serves(log: &Path) -> Option<AgentProcess> {
    let mut file = regular::open(log, Links::Refused).ok()?;
    let size = file.metadata().ok()?.len();
    let mut head = Vec::new();
    file.by_ref().take(HEAD).read_to_end(&mut head).ok()?;
    if size > HEAD + TAIL {
        file.seek(SeekFrom::End(-TAIL.cast_signed())).ok()?;
        // The line in which the head ends has no end.
        head.push(b'\n');
    }
    let mut lines = BufReader::new(head.as_slice().chain(file.take(TAIL)));
    // In the order in which they were named last.
    let mut agents: Vec<AgentProcess> = Vec::new();
    let mut line = Vec::new();
    while lines
        .by_ref()
        .take(LONGEST_LINE)
        .read_until(b'\n', &mut line)
        .ok()?
        > 0
    {
        let event = event_of(line.strip_suffix(b"\n").unwrap_or(&line));
        line.clear();
        match event {
            Some(ServingEvent::Serves(agent)) => {
                agents.retain(|known| known.pid != agent.pid);
                agents.push(agent);
            }
            Some(ServingEvent::Stopped(agent)) => agents.retain(|known| known.pid != agent.pid),
            // Whichever it was: better to say nothing than to name a wrong one.
            Some(ServingEvent::NotServed) => agents.clear(),
            None => {}
        }
    }
    let is_other = |agent: &AgentProcess| agent.pid != i64::from(std::process::id());
    agents
        .into_iter()
        .rfind(|agent| is_other(agent) && agent.state().lives())
}

/// A log line about the agent that serves the database.
enum ServingEvent {
    Serves(AgentProcess),
    Stopped(AgentProcess),
    /// An agent leaves the database alone.
    NotServed,
}

fn event_of(line: &[u8]) -> Option<ServingEvent> {
    let line = std::str::from_utf8(line).ok()?;
    let message = match line.as_bytes().first()? {
        b'{' => Cow::Owned(serde_json::from_str::<JsonLine>(line).ok()?.message),
        _ => Cow::Borrowed(line.get(STAMP..)?),
    };
    let agent = match Event::parse(&message) {
        (Event::Header, _) => message.strip_suffix(", times in UTC")?,
        (Event::AgentStarted, agent) => agent,
        (Event::AgentStopped, agent) => {
            return AgentProcess::parse(agent).map(ServingEvent::Stopped);
        }
        (Event::StateNotServing, _) => return Some(ServingEvent::NotServed),
        _ => return None,
    };
    AgentProcess::parse(agent).map(ServingEvent::Serves)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{agent_lines, this_agent};
    use std::fs;
    use std::process::Command;

    #[test]
    fn only_another_agent_that_lives_and_has_not_stopped_serves_it() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("daemon.log");
        assert_eq!(that_serves(&log), None);
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let ours = this_agent().to_string();
        let pid = child.id();
        let ticks = beadlock_base::process::start_ticks(pid.into()).unwrap();
        let of_machine = ours.rsplit_once(", boot ").unwrap().1;
        let name = format!("beadlock-agent 0.1.0, PID {pid}, host h");
        let other = format!("{name}, start {ticks}, boot {of_machine}");
        let stamp = "[2026-02-01 10:00:00] ";
        for text in [
            format!("{stamp}{other}, times in UTC\n{stamp}Agent started: {ours}\nx\n"),
            format!("{stamp}Agent started: {other}\n{stamp}Agent started: {ours}\nx\n"),
            format!("{{\"message\":\"Agent started: {other}\"}}\n{{\"message\":\"x\"}}\n"),
        ] {
            fs::write(&log, &text).unwrap();
            let seen = that_serves(&log).map(|other| other.pid);
            assert_eq!(seen, Some(pid.into()), "{text}");
            fs::write(&log, format!("{text}{stamp}Agent stopped: {name}\n")).unwrap();
            assert_eq!(that_serves(&log), None);
            fs::write(&log, format!("{text}{stamp}State: not_serving since x\n")).unwrap();
        }
        let output = agent_lines::output(&format!("Agent started: {other}")).message;
        fs::write(&log, format!("{stamp}{output}\n")).unwrap();
        assert_eq!(that_serves(&log), None, "a command's output");
        fs::write(&log, format!("{stamp}Agent started: {other}\n")).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(that_serves(&log), None);
    }
}
