//! What an agent says, as a table. Nothing in it is trusted.

use std::path::Path;
use std::time::Duration;

use beadlock_checker::internal::duration::shown;
use beadlock_checker::internal::escape::{escaped, escaped_path};
use serde::Deserialize;

use crate::output::table::{Side, Table};
use crate::output::talk::Talk;

/// No column is wider.
const WIDEST: usize = 60;

/// Its `/status`, as far as the table goes.
#[derive(Debug, Deserialize)]
pub struct AgentStatus {
    version: String,
    pid: u32,
    #[serde(default)]
    host: Option<String>,
    since: String,
    #[serde(default)]
    ending: bool,
    served: u64,
    #[serde(default)]
    not_served: u64,
    skipping: u64,
    #[serde(default)]
    left_out: u64,
    databases: Vec<DatabaseStatus>,
}

#[derive(Debug, Deserialize)]
struct DatabaseStatus {
    dir: String,
    state: String,
    /// Why it is not served.
    #[serde(default)]
    why: Option<String>,
    last: Option<LastCycle>,
    streak: Option<CurrentStreak>,
    lock: Option<LockSummary>,
    next_due_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct LastCycle {
    outcome: String,
    at: String,
    reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct CurrentStreak {
    skips: u64,
    age_ms: u64,
}

#[derive(Debug, Deserialize)]
struct LockSummary {
    holder: String,
    pid: i64,
    host: String,
}

impl AgentStatus {
    /// A line about the agent, and one for each database; those that are skipped for longest come first.
    pub fn text(&self, talk: &Talk) -> String {
        let host = self.host.as_deref().unwrap_or("unknown");
        let ending = if self.ending { ", ending" } else { "" };
        let not_served = match self.not_served {
            0 => String::new(),
            count => format!(", {count} not served"),
        };
        let mut text = format!(
            "beadlock-agent {}, PID {}, host {}, since {}{ending}: {} databases, {} skipping{not_served}\n",
            escaped(&self.version),
            self.pid,
            escaped(host),
            escaped(&self.since),
            self.served,
            self.skipping,
        );
        if self.databases.is_empty() {
            return text;
        }
        let (left, right) = (Side::Left, Side::Right);
        let columns = [
            ("database", left, WIDEST),
            ("state", left, 11),
            ("last", left, 8),
            ("at", left, 20),
            ("skips", right, 9),
            ("for", right, 9),
            ("held by", left, WIDEST),
            ("reason", left, 20),
            ("next in", right, 9),
        ];
        let mut table = Table::new(columns.map(|(head, ..)| head), columns.map(|(_, side, most)| (side, most)));
        self.databases.iter().for_each(|database| table.row(database.row()));
        text.push_str(&table.text(0));
        if self.left_out > 0 {
            text.push_str(&format!("and {} more\n", self.left_out));
        }
        for DatabaseStatus { dir, why, .. } in &self.databases {
            let dir = escaped_path(Path::new(dir));
            text.extend(why.iter().map(|why| format!("{dir} is not served: {}\n", escaped(why))));
        }
        if self.skipping > 0 {
            talk.say("who holds a lock, and what to do: beadlock status DIR");
        }
        text
    }
}

impl DatabaseStatus {
    fn row(&self) -> [String; 9] {
        let millis = |millis| shown(Duration::from_millis(millis));
        let (last, streak, lock) = (self.last.as_ref(), self.streak.as_ref(), self.lock.as_ref());
        let held_by = |LockSummary { holder, pid, host }: &LockSummary| {
            format!("{} (PID {pid}, on {})", escaped(holder), escaped(host))
        };
        [
            Some(end_of(&escaped_path(Path::new(&self.dir)))),
            Some(escaped(&self.state).to_string()),
            last.map(|last| escaped(&last.outcome).to_string()),
            last.map(|last| escaped(&last.at).to_string()),
            streak.map(|streak| streak.skips.to_string()),
            streak.map(|streak| millis(streak.age_ms)),
            lock.map(held_by),
            last.and_then(|last| last.reason.as_ref()).map(|reason| escaped(reason).to_string()),
            self.next_due_ms.map(millis),
        ]
        .map(|cell| cell.unwrap_or_else(|| "-".to_owned()))
    }
}

/// A path as far as there is room for it: its end is what tells it from others.
fn end_of(path: &str) -> String {
    match path.char_indices().rev().nth(WIDEST - 1) {
        Some((at, first)) if at > 0 => format!("…{}", &path[at + first.len_utf8()..]),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_path_the_end_is_shown() {
        for (length, shown) in [(1, 1), (WIDEST, WIDEST), (WIDEST + 1, WIDEST), (500, WIDEST)] {
            let path = "é".repeat(length - 1) + "z";
            let end = end_of(&path);
            assert_eq!((end.chars().count(), end.ends_with('z')), (shown, true), "{length}");
            assert_eq!(end.starts_with('…'), length > WIDEST, "{length}");
        }
    }
}
