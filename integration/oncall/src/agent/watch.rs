//! `beadlock status --agent ADDR --watch`: one line for each change, for a log.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use beadlock_base::address::Address;
use beadlock_base::escape::{escaped, escaped_path};
use beadlock_core::facts;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::ending::EndFlag;
use super::report::{AgentAnswer, TROUBLE};
use beadlock_base::words::counted;
use beadlock_claim::error::Exit;
use beadlock_console::Console;
use beadlock_console::program_end::ProgramEnd;

/// The last answer of the watched agent, which the next answer is compared with.
#[derive(Debug, Default)]
struct WatchedAgent {
    /// The state of each database and its cause, by the directory of the database.
    databases: BTreeMap<String, (String, Option<String>)>,
    /// The process that answered last.
    pid: Option<u32>,
    is_gone: bool,
}

/// Asks the agent at this address every so often, and prints what has changed, until a signal or a closed stdout.
pub fn run(address: &Address, every: Duration, common: &Console) -> ProgramEnd {
    let ended = EndFlag::new();
    let mut watched = WatchedAgent::default();
    loop {
        let lines = match super::look(address, super::client::PATIENCE) {
            Ok((status, _)) => watched.heard(&status),
            Err(error) => watched.lost(&error.to_string()),
        };
        if let Err(error) = print(&lines) {
            if error.kind() != io::ErrorKind::BrokenPipe {
                common
                    .talk
                    .error(&beadlock_console::answers::not_written(&error).to_string());
                return ProgramEnd::Code(Exit::Failed.code());
            }
            return ProgramEnd::Code(Exit::Done.code());
        }
        if has_no_reader() {
            return ProgramEnd::Code(Exit::Done.code());
        }
        let is_told = match &ended {
            Ok(flag) => flag.wait(every),
            Err(_) => {
                std::thread::sleep(every);
                false
            }
        };
        if is_told {
            return ProgramEnd::Code(Exit::Done.code());
        }
    }
}

/// Whether stdout is a pipe whose reader has gone. Nothing may be printed for long, so a write would not tell.
fn has_no_reader() -> bool {
    let stdout = io::stdout();
    let mut asked = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
    let is_answered = poll(&mut asked, PollTimeout::ZERO).is_ok_and(|count| count > 0);
    is_answered
        && asked[0]
            .revents()
            .is_some_and(|events| events.contains(PollFlags::POLLERR))
}

/// Prints the lines, each with the time before it. One write, so that a reader of a pipe has them at once.
fn print(lines: &[String]) -> io::Result<()> {
    let now = facts::now().to_string();
    let time = now.get(..19).unwrap_or(&now).replace('T', " ");
    let text: String = lines
        .iter()
        .map(|line| format!("[{time}] {line}\n"))
        .collect();
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

impl WatchedAgent {
    fn heard(&mut self, status: &AgentAnswer) -> Vec<String> {
        let mut lines = Vec::new();
        let is_first = self.pid.is_none();
        if self.is_gone || self.pid != Some(status.pid) {
            let host = status.host.as_deref().unwrap_or("unknown");
            let counts = status.states.iter().filter(|(_, count)| **count > 0);
            let counts: Vec<String> = counts
                .map(|(word, count)| format!("{count} {}", escaped(word)))
                .collect();
            let all = counted(status.databases.len(), "database", "databases");
            lines.push(format!(
                "beadlock-agent {}, PID {}, host {}: {all}: {}",
                escaped(&status.version),
                status.pid,
                escaped(host),
                counts.join(", ")
            ));
        }
        (self.pid, self.is_gone) = (Some(status.pid), false);
        let mut now = BTreeMap::new();
        for database in &status.databases {
            let state = (database.state.clone(), database.why.clone());
            let is_news = match self.databases.get(&database.dir) {
                Some(before) => *before != state,
                // At first only what is in trouble: the line above counts the others.
                None => !is_first || TROUBLE.contains(&database.state.as_str()),
            };
            if is_news {
                let why = database
                    .why
                    .as_ref()
                    .map(|why| format!(": {}", escaped(why)))
                    .unwrap_or_default();
                lines.push(format!(
                    "{}: {}{why}",
                    shown(&database.dir),
                    escaped(&database.state)
                ));
            }
            now.insert(database.dir.clone(), state);
        }
        let before = std::mem::replace(&mut self.databases, now);
        let gone = before
            .keys()
            .filter(|dir| !self.databases.contains_key(*dir));
        lines.extend(gone.map(|dir| format!("{}: not served any more", shown(dir))));
        lines
    }

    /// The lines for an agent that does not answer: `why` at the first time, then nothing until it answers again.
    fn lost(&mut self, why: &str) -> Vec<String> {
        if std::mem::replace(&mut self.is_gone, true) {
            Vec::new()
        } else {
            vec![why.to_owned()]
        }
    }
}

fn shown(dir: &str) -> String {
    escaped_path(dir.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status(pid: u32, databases: &[(&str, &str, Option<&str>)]) -> AgentAnswer {
        let row = |(dir, state, why): &(&str, &str, Option<&str>)| json!({"dir": dir, "state": state, "age_ms": 1, "why": why});
        let rows: Vec<_> = databases.iter().map(row).collect();
        serde_json::from_value(
            json!({"version": "0.1.0", "pid": pid, "host": "vm", "since": "", "served": rows.len(),
            "states": {"synced": 1, "failed": 0}, "databases": rows}),
        )
        .unwrap()
    }

    #[test]
    fn only_what_changes_is_said() {
        let mut watched = WatchedAgent::default();
        let first = status(
            7,
            &[("/a", "failed", Some("x\u{1b}")), ("/b", "synced", None)],
        );
        let head = "beadlock-agent 0.1.0, PID 7, host vm: 2 databases: 1 synced";
        assert_eq!(watched.heard(&first), [head, "/a: failed: x\\u{1b}"]);
        assert_eq!(watched.heard(&first), [] as [&str; 0]);
        let next = status(
            7,
            &[
                ("/b", "local_only", Some("1 commit waits")),
                ("/c", "synced", None),
            ],
        );
        let expected = [
            "/b: local_only: 1 commit waits",
            "/c: synced",
            "/a: not served any more",
        ];
        assert_eq!(watched.heard(&next), expected);
        assert_eq!(watched.lost("no agent answers"), ["no agent answers"]);
        assert_eq!(watched.lost("no agent answers"), [] as [&str; 0]);
        assert_eq!(
            watched.heard(&next).len(),
            1,
            "it is back, and nothing has changed"
        );
    }
}
