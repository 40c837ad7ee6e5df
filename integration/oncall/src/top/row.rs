//! One database or lock in the view: what an agent says about it, and what lies there. Pure.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::agent::report::{AgentAnswer, DatabaseStatus, TROUBLE};
use beadlock_base::duration::shown;
use beadlock_base::escape::escaped;
use beadlock_claim::words::{Part, to_type, without_comment};
use beadlock_log::tail::HistoryCell;

/// The states, the worst first: those of an agent that does not run, those of an agent, and those of a lock that no
/// agent was asked about.
const RANKS: [&str; 16] = [
    "stopped",
    "gone",
    "halted",
    "silent",
    "not_serving",
    "failed",
    "unreadable",
    "skipped",
    "held",
    "local_only",
    "behind",
    "stale",
    "starting",
    "idle",
    "synced",
    "free",
];

/// A line of the view. Its texts are escaped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopRow {
    /// The directory, or the target as it was named.
    pub name: String,
    /// The place of its agent; `None`: no agent was asked about it.
    pub agent: Option<usize>,
    pub state: String,
    /// For how long the row had been in that state when it was asked about, in milliseconds.
    pub state_ms: Option<u64>,
    pub holder: Option<String>,
    /// The age of the lock when it was looked at, in milliseconds.
    pub held_ms: Option<u64>,
    /// The rest that is known of the holder: its process and its host.
    pub process: Option<String>,
    /// The processes that wait for the gate.
    pub queue: Option<u64>,
    pub unpushed: Option<u64>,
    pub why: Option<String>,
    pub next: Option<String>,
    pub skips: Option<u64>,
    /// When the answer or the look came, in seconds since the view began.
    pub heard: u64,
    /// Whether its agent has not answered since.
    pub is_old: bool,
    pub history: Vec<HistoryCell>,
}

/// What a look at the lock itself shows: an element of the JSON of `status`.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalLook {
    pub name: String,
    pub seen: Value,
    pub history: Option<LogHistory>,
}

/// The history of a database by its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogHistory {
    pub cells: Vec<HistoryCell>,
    /// The length of all cells together, in seconds and in words. It is the same for all logs of a round.
    pub length: (u64, &'static str),
}

impl TopRow {
    /// The rows of an agent's answer.
    pub fn of_agent(status: &AgentAnswer, agent: usize, heard: u64) -> Vec<Self> {
        status
            .databases
            .iter()
            .map(|database| Self::of_database(database, agent, heard))
            .collect()
    }

    fn of_database(database: &DatabaseStatus, agent: usize, heard: u64) -> Self {
        let lock = database.lock.as_ref();
        let safe = |text: &String| escaped(text).to_string();
        Self {
            name: safe(&database.dir),
            agent: Some(agent),
            state: safe(&database.state),
            state_ms: Some(database.age_ms),
            holder: lock.map(|lock| safe(&lock.holder)),
            process: lock.map(|lock| format!("PID {} on {}", lock.pid, escaped(&lock.host))),
            unpushed: database.unpushed.as_ref().map(|unpushed| unpushed.commits),
            why: database.why.as_ref().map(safe),
            next: database.next.as_ref().map(safe).or_else(|| {
                let log = Path::new(&database.dir).join("daemon.log");
                TROUBLE
                    .contains(&database.state.as_str())
                    .then(|| to_type("beadlock log {}", &[Part::Path(&log)]))
            }),
            skips: database.streak.as_ref().map(|streak| streak.skips),
            heard,
            ..Self::default()
        }
    }

    /// The row of a lock that no agent was asked about.
    pub fn of_look(look: &LocalLook, heard: u64) -> Self {
        let text = |name: &str| {
            look.seen[name]
                .as_str()
                .map(|text| escaped(text).to_string())
        };
        let mut row = Self {
            name: look.name.clone(),
            state: text("verdict").unwrap_or_else(|| "unreadable".to_owned()),
            why: text("message")
                .filter(|message| !message.is_empty())
                .or_else(|| text("error")),
            heard,
            ..Self::default()
        };
        row.take_in(look);
        row.next = row.next.filter(|_| row.state != "free");
        row.state_ms = row.held_ms;
        row.take_in_sync(&look.seen["sync"]);
        row
    }

    /// A database that nobody claims is in the state of its sync, where that is in trouble or not known.
    fn take_in_sync(&mut self, sync: &Value) {
        let text = |name: &str| sync[name].as_str().map(|text| escaped(text).to_string());
        let is_of_lock = !matches!(self.state.as_str(), "free" | "stale");
        let Some(state) = text("state").filter(|_| !is_of_lock && sync["syncing"] != true) else {
            return;
        };
        self.state = match state.as_str() {
            "failing" => "failed".to_owned(),
            "started" | "unknown" => return,
            _ => state,
        };
        self.state_ms = sync["for_ms"].as_u64();
        self.why = text("message");
        self.next = text("next").or(self.next.take());
    }

    /// Adds what the lock itself shows.
    pub fn take_in(&mut self, look: &LocalLook) {
        let seen = &look.seen;
        let text = |name: &str| seen[name].as_str().map(|text| escaped(text).to_string());
        if let Some(holder) = text("holder") {
            self.holder = Some(holder);
            self.held_ms = seen["age_ms"].as_u64();
            let pid = seen["record"]["pid"].as_i64();
            let host = seen["record"]["hostname"]
                .as_str()
                .map(|host| escaped(host).to_string());
            let process = pid.map(|pid| {
                host.map_or(format!("PID {pid}"), |host| format!("PID {pid} on {host}"))
            });
            self.process = process.or(self.process.take());
        }
        self.queue = seen["witnesses"]["gate_waiters"]
            .as_array()
            .map(|waiters| waiters.len() as u64);
        // The lock's own advice is nearer than the agent's, which is to look at it.
        let is_looked_at = !seen.is_null();
        let is_of_lock = is_looked_at
            && matches!(
                self.state.as_str(),
                "skipped" | "held" | "unreadable" | "stale"
            );
        if is_of_lock && seen["verdict"] != "free" {
            self.next = text("next").or(self.next.take());
        }
        if let Some(history) = &look.history {
            self.history.clone_from(&history.cells);
        }
    }

    /// The place of the row's state in the ranking of states; an unknown state is bad.
    pub fn rank(&self) -> usize {
        RANKS
            .iter()
            .position(|word| *word == self.state)
            .unwrap_or(0)
    }

    /// The cell that the row's state makes in a history.
    pub fn cell(&self) -> HistoryCell {
        match self.state.as_str() {
            _ if self.is_old => HistoryCell::Unknown,
            "stopped" | "gone" | "halted" | "not_serving" | "failed" => HistoryCell::Failed,
            "unreadable" => HistoryCell::Unreadable,
            "skipped" | "held" => HistoryCell::Held,
            "local_only" | "behind" => HistoryCell::NotPushed,
            "synced" | "idle" | "free" | "stale" => HistoryCell::Complete,
            _ => HistoryCell::Unknown,
        }
    }

    /// For how long the row has been in its state by now; `None`: not known.
    pub fn state_for(&self, now: u64) -> Option<String> {
        self.state_ms.map(|millis| self.grown(millis, now))
    }

    /// The age of the lock by now; `None`: not known.
    pub fn held_for(&self, now: u64) -> Option<String> {
        self.held_ms.map(|millis| self.grown(millis, now))
    }

    fn grown(&self, millis: u64, now: u64) -> String {
        let since = if self.is_old {
            0
        } else {
            now.saturating_sub(self.heard)
        };
        whole_seconds(millis / 1000 + since)
    }

    /// The command to type, without its comment.
    pub fn command(&self) -> Option<&str> {
        let (command, _) = without_comment(self.next.as_deref()?);
        Some(command.trim())
    }

    /// Whether the words of a filter occur in the row.
    pub fn matches(&self, filter: &str) -> bool {
        let texts = [
            Some(self.name.as_str()),
            Some(self.state.as_str()),
            self.holder.as_deref(),
            self.why.as_deref(),
        ];
        let text = texts
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" ")
            .to_lowercase();
        filter
            .to_lowercase()
            .split_whitespace()
            .all(|word| text.contains(word))
    }
}

/// A length for a view that counts in seconds.
pub fn whole_seconds(seconds: u64) -> String {
    if seconds == 0 {
        "0s".to_owned()
    } else {
        shown(Duration::from_secs(seconds))
    }
}

/// How the lines are sorted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TopSort {
    /// The worst state first, and in it the longest.
    #[default]
    Worst,
    Name,
    /// The oldest lock first.
    Held,
    Unpushed,
}

impl TopSort {
    pub fn next(self) -> Self {
        match self {
            Self::Worst => Self::Name,
            Self::Name => Self::Held,
            Self::Held => Self::Unpushed,
            Self::Unpushed => Self::Worst,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Worst => "worst",
            Self::Name => "name",
            Self::Held => "held",
            Self::Unpushed => "unpushed",
        }
    }

    pub fn sort(self, rows: &mut [TopRow]) {
        use std::cmp::Reverse;
        match self {
            Self::Worst => {
                rows.sort_by_key(|row| (row.rank(), Reverse(row.state_ms), row.name.clone()))
            }
            Self::Name => rows.sort_by_key(|row| row.name.clone()),
            Self::Held => {
                rows.sort_by_key(|row| (Reverse(row.held_ms), row.rank(), row.name.clone()))
            }
            Self::Unpushed => {
                rows.sort_by_key(|row| (Reverse(row.unpushed), row.rank(), row.name.clone()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(name: &str, state: &str, millis: u64) -> TopRow {
        TopRow {
            name: name.to_owned(),
            state: state.to_owned(),
            state_ms: Some(millis),
            ..TopRow::default()
        }
    }

    fn names(sort: TopSort, rows: &[TopRow]) -> Vec<String> {
        let mut rows = rows.to_vec();
        sort.sort(&mut rows);
        rows.into_iter().map(|row| row.name).collect()
    }

    #[test]
    fn the_worst_come_first_and_in_a_state_the_longest() {
        let mut rows = vec![
            row("a", "synced", 9),
            row("b", "skipped", 5),
            row("c", "failed", 1),
            row("d", "skipped", 8),
        ];
        rows[0].unpushed = Some(3);
        rows[1].held_ms = Some(7);
        assert_eq!(names(TopSort::Worst, &rows), ["c", "d", "b", "a"]);
        assert_eq!(names(TopSort::Name, &rows), ["a", "b", "c", "d"]);
        assert_eq!(names(TopSort::Held, &rows)[0], "b");
        assert_eq!(names(TopSort::Unpushed, &rows)[0], "a");
        assert_eq!(row("x", "a state of a newer agent", 0).rank(), 0);
    }

    #[test]
    fn the_lock_itself_says_more_than_the_agent() {
        let mut of_agent = row("/r/.beads", "skipped", 1000);
        of_agent.next = Some("beadlock status /r/.beads".to_owned());
        let seen = json!({"verdict": "held", "holder": "make\u{1b}", "age_ms": 61_000, "next": "kill 7   # ends it",
            "record": {"pid": 7, "hostname": "vm"}, "witnesses": {"gate_waiters": [{}, {}]}});
        of_agent.take_in(&LocalLook {
            name: "/r/.beads".to_owned(),
            seen,
            history: None,
        });
        assert_eq!(of_agent.holder.as_deref(), Some("make\\u{1b}"));
        assert_eq!(
            (of_agent.queue, of_agent.command()),
            (Some(2), Some("kill 7"))
        );
        assert_eq!(of_agent.held_for(9).as_deref(), Some("1m 10s"));
        assert_eq!(of_agent.process.as_deref(), Some("PID 7 on vm"));
        assert!(
            of_agent.matches("MAKE skipped")
                && of_agent.matches("")
                && !of_agent.matches("make synced")
        );
    }
}
