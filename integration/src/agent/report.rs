//! What an agent says, as a table. Nothing in it is trusted.

use std::path::Path;
use std::time::Duration;

use beadlock_checker::internal::duration::shown;
use beadlock_checker::internal::escape::{escaped, escaped_path};
use serde::Deserialize;
use serde_json::Value;

use crate::output::table::{Side, Table};
use crate::output::talk::Talk;

/// No column is wider.
const WIDEST: usize = 60;

/// Its `/status`, as far as the table goes.
#[derive(Debug, Deserialize)]
pub struct Report {
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
    databases: Vec<Database>,
}

#[derive(Debug, Deserialize)]
struct Database {
    dir: String,
    state: String,
    /// Why it is not served.
    #[serde(default)]
    why: Option<String>,
    last: Option<Last>,
    streak: Option<Streak>,
    lock: Option<Lock>,
    next_due_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Last {
    outcome: String,
    at: String,
    reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Streak {
    skips: u64,
    age_ms: u64,
}

#[derive(Debug, Deserialize)]
struct Lock {
    holder: String,
    pid: i64,
    host: String,
}

impl Report {
    /// # Errors
    /// When it is not what an agent says.
    pub fn of(said: &Value) -> serde_json::Result<Self> {
        Self::deserialize(said)
    }

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
        let head = ["database", "state", "last", "at", "skips", "for", "held by", "reason", "next in"];
        let (left, right) = (Side::Left, Side::Right);
        let columns = [
            (left, WIDEST),
            (left, 11),
            (left, 8),
            (left, 20),
            (right, 9),
            (right, 9),
            (left, WIDEST),
            (left, 20),
            (right, 9),
        ];
        let mut table = Table::new(head, columns);
        self.databases.iter().for_each(|database| table.row(database.row()));
        text.push_str(&table.text(0));
        if self.left_out > 0 {
            text.push_str(&format!("and {} more\n", self.left_out));
        }
        for database in &self.databases {
            if let Some(why) = &database.why {
                text.push_str(&format!(
                    "{} is not served: {}\n",
                    escaped_path(Path::new(&database.dir)),
                    escaped(why)
                ));
            }
        }
        if self.skipping > 0 {
            talk.say("who holds a lock, and what to do: beadlock status DIR");
        }
        text
    }
}

impl Database {
    fn row(&self) -> [String; 9] {
        let of_last = |get: fn(&Last) -> Option<&String>| {
            let text = self.last.as_ref().and_then(get);
            text.map_or_else(|| "-".to_owned(), |text| escaped(text).to_string())
        };
        let millis = |millis| shown(Duration::from_millis(millis));
        let (skips, age) = match &self.streak {
            Some(streak) => (streak.skips.to_string(), millis(streak.age_ms)),
            None => ("-".to_owned(), "-".to_owned()),
        };
        let lock = self
            .lock
            .as_ref()
            .map(|lock| format!("{} (PID {}, on {})", escaped(&lock.holder), lock.pid, escaped(&lock.host)));
        [
            end_of(&escaped_path(Path::new(&self.dir))),
            escaped(&self.state).to_string(),
            of_last(|last| Some(&last.outcome)),
            of_last(|last| Some(&last.at)),
            skips,
            age,
            lock.unwrap_or_else(|| "-".to_owned()),
            of_last(|last| last.reason.as_ref()),
            self.next_due_ms.map_or_else(|| "-".to_owned(), millis),
        ]
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
