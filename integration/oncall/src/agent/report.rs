//! The `/status` answer of an agent, as a report for people. Nothing in the answer is trusted.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use beadlock_base::duration::shown;
use beadlock_base::escape::{escaped, escaped_path};
use serde::Deserialize;

use beadlock_base::words::counted;
use beadlock_claim::error::Exit;
use beadlock_console::table::{Alignment, Table, common_directory, fitted, terminal_width};
use beadlock_console::talk::Talk;

/// The `/status` answer of an agent: the fields that the report needs.
#[derive(Debug, Deserialize)]
pub struct AgentAnswer {
    pub version: String,
    pub pid: u32,
    #[serde(default)]
    pub host: Option<String>,
    pub since: String,
    #[serde(default)]
    pub ending: bool,
    pub served: u64,
    #[serde(default)]
    pub not_served: u64,
    /// How many databases are in each state.
    pub states: BTreeMap<String, u64>,
    #[serde(default)]
    pub left_out: u64,
    /// The databases that the answer lists, the worst first.
    pub databases: Vec<DatabaseStatus>,
}

#[derive(Debug, Deserialize)]
pub struct DatabaseStatus {
    pub dir: String,
    pub state: String,
    pub age_ms: u64,
    /// The cause of the state.
    pub why: Option<String>,
    /// The command that the agent advises to type.
    pub next: Option<String>,
    pub last: Option<LastCycle>,
    pub streak: Option<CurrentStreak>,
    pub lock: Option<LockSummary>,
    #[serde(default)]
    pub unpushed: Option<UnpushedCommits>,
    pub next_due_ms: Option<u64>,
    /// How long ago the remote last answered the agent, in milliseconds; `None`: not known.
    #[serde(default)]
    pub as_of_age_ms: Option<u64>,
}

/// Commits that wait to be pushed.
#[derive(Debug, Deserialize)]
pub struct UnpushedCommits {
    pub commits: u64,
}

#[derive(Debug, Deserialize)]
pub struct LastCycle {
    pub outcome: String,
    pub reason: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct CurrentStreak {
    pub skips: u64,
}

#[derive(Debug, Deserialize)]
pub struct LockSummary {
    pub holder: String,
    pub pid: i64,
    pub host: String,
}

/// The states in which a database needs a line of its own.
pub const TROUBLE: [&str; 5] = ["not_serving", "failed", "skipped", "local_only", "behind"];

impl AgentAnswer {
    /// How the databases fare, for a probe: 1 for one whose work does not arrive, and for a state of a newer agent; else
    /// 4 for one that is skipped.
    pub fn exit(&self) -> Exit {
        let is_there = |word: &str| self.states.get(word).is_some_and(|count| *count > 0);
        let fine = ["skipped", "starting", "idle", "synced"];
        let fails = |(word, count): (&String, &u64)| *count > 0 && !fine.contains(&word.as_str());
        match self.states.iter().any(fails) {
            true => Exit::Failed,
            false if is_there("skipped") => Exit::Conflict,
            false => Exit::Done,
        }
    }

    /// A line about the agent, one for each database in trouble, the worst first, and one for all others.
    pub fn text(&self, talk: &Talk) -> String {
        self.text_in(terminal_width(), talk.is_verbose())
    }

    fn text_in(&self, room: Option<usize>, is_verbose: bool) -> String {
        let host = self.host.as_deref().unwrap_or("unknown");
        let ending = if self.ending { ", ending" } else { "" };
        let all = counted(self.served + self.not_served, "database", "databases");
        let head = format!(
            "beadlock-agent {}, PID {}, host {}, since {}{ending}: {all}\n",
            escaped(&self.version),
            self.pid,
            escaped(host),
            escaped(&self.since),
        );
        let mut text = fitted(&head, room);
        let is_listed =
            |database: &&DatabaseStatus| is_verbose || TROUBLE.contains(&database.state.as_str());
        let listed: Vec<&DatabaseStatus> = self.databases.iter().filter(is_listed).collect();
        if !listed.is_empty() {
            text += &table(&listed, room);
        }
        let others = self
            .states
            .iter()
            .filter(|(word, count)| **count > 0 && !TROUBLE.contains(&word.as_str()));
        let others: Vec<String> = others
            .map(|(word, count)| format!("{count} {}", escaped(word)))
            .collect();
        if !others.is_empty() && !is_verbose {
            text += &format!("{}\n", others.join(", "));
        }
        if self.left_out > 0 {
            text += &format!("and {} more\n", self.left_out);
        }
        let mut commands = listed
            .iter()
            .filter_map(|database| database.next.as_ref())
            .peekable();
        if commands.peek().is_some() {
            text += "to type:\n";
        }
        text.extend(
            commands
                .take(10)
                .map(|next| format!("  {}\n", escaped(next))),
        );
        text
    }
}

/// The table of these databases. On a terminal the directory that all paths have in common is named once.
fn table(listed: &[&DatabaseStatus], room: Option<usize>) -> String {
    let dirs: Vec<String> = listed
        .iter()
        .map(|database| escaped_path(Path::new(&database.dir)).to_string())
        .collect();
    let common = room.and_then(|_| common_directory(dirs.iter().map(String::as_str)));
    let (left, right) = (Alignment::Left, Alignment::Right);
    let mut table = Table::new([
        ("state", left, 0),
        ("for", right, 0),
        ("database", left, 0),
        ("last", left, 5),
        ("skips", right, 4),
        ("held by", left, 2),
        ("reason", left, 3),
        ("next in", right, 6),
        ("why", left, 0),
    ]);
    for (database, dir) in listed.iter().zip(&dirs) {
        let dir = common
            .and_then(|common| dir.strip_prefix(common))
            .unwrap_or(dir);
        table.row(database.row(dir));
    }
    let below = common
        .map(|common| format!("below {common}\n"))
        .unwrap_or_default();
    below + &table.text(room)
}

/// The age from which the remote's last answer is mentioned for a synced database.
const RECENT: Duration = Duration::from_secs(60);

impl DatabaseStatus {
    /// The cause of the state; of one that is synced, how old that is: `as of 4m ago`.
    fn why(&self) -> Option<String> {
        let why = self.why.as_ref().map(|why| escaped(why).to_string());
        let age = self.as_of_age_ms.map(Duration::from_millis);
        let age = age.filter(|age| self.state == "synced" && *age >= RECENT);
        let age = age.map(|age| format!("as of {} ago", shown(age)));
        let all: Vec<String> = age.into_iter().chain(why).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    fn row(&self, dir: &str) -> [String; 9] {
        let millis = |millis| shown(Duration::from_millis(millis));
        let (last, lock) = (self.last.as_ref(), self.lock.as_ref());
        let held_by = |LockSummary { holder, pid, host }: &LockSummary| {
            format!("{} (PID {pid}, on {})", escaped(holder), escaped(host))
        };
        [
            Some(escaped(&self.state).to_string()),
            Some(millis(self.age_ms)),
            Some(dir.to_owned()),
            last.map(|last| escaped(&last.outcome).to_string()),
            self.streak.as_ref().map(|streak| streak.skips.to_string()),
            lock.map(held_by),
            last.and_then(|last| last.reason.as_ref())
                .map(|reason| escaped(reason).to_string()),
            self.next_due_ms.map(millis),
            self.why(),
        ]
        .map(|cell| cell.unwrap_or_else(|| "-".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status() -> AgentAnswer {
        let row = |dir: &str, state: &str, why: Option<&str>| {
            json!({"dir": dir, "state": state, "age_ms": 2_700_000, "why": why, "next": null, "last": null,
                "streak": null, "lock": null, "next_due_ms": 81})
        };
        let said = json!({
            "version": "0.1.0", "pid": 7, "host": "vm", "since": "2026-11-25T07:00:00Z", "served": 50,
            "states": {"failed": 1, "local_only": 1, "synced": 48},
            "databases": [
                row("/srv/teams/one/.beads", "failed", Some("a rebase is in progress in /srv/teams/one; finish or abort it")),
                row("/srv/teams/two/.beads", "local_only", Some("origin cannot be reached; 3 commits wait")),
                row("/srv/teams/three/.beads", "synced", None),
            ],
        });
        serde_json::from_value(said).unwrap()
    }

    #[test]
    fn the_worst_come_first_and_those_that_are_fine_are_one_line() {
        let text = status().text_in(None, false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "beadlock-agent 0.1.0, PID 7, host vm, since 2026-11-25T07:00:00Z: 50 databases"
        );
        assert!(
            lines[2].starts_with("failed      45m  /srv/teams/one/.beads "),
            "{text}"
        );
        assert!(
            lines[3].starts_with("local_only  45m  /srv/teams/two/.beads "),
            "{text}"
        );
        assert_eq!(lines[4..], ["48 synced"]);
        assert_eq!(
            status().text_in(None, true).matches("synced").count(),
            1,
            "its own line instead"
        );
    }

    #[test]
    fn the_exit_code_is_that_of_the_worst() {
        let exit = |states: &[(&str, u64)]| {
            let mut status = status();
            let states = states.iter();
            status.states = states
                .map(|(word, count)| ((*word).to_owned(), *count))
                .collect();
            status.exit().code()
        };
        assert_eq!(exit(&[]), 0);
        assert_eq!(
            exit(&[("failed", 0), ("synced", 3), ("idle", 1), ("starting", 1)]),
            0
        );
        assert_eq!(exit(&[("skipped", 1), ("synced", 3)]), 4);
        for word in [
            "failed",
            "not_serving",
            "local_only",
            "behind",
            "of a newer agent",
        ] {
            assert_eq!(exit(&[(word, 1), ("skipped", 1)]), 1, "{word}");
        }
    }

    #[test]
    fn what_is_synced_says_of_which_time_that_is() {
        let mut status = status();
        let synced = &mut status.databases[2];
        synced.as_of_age_ms = Some(59_000);
        assert_eq!(synced.why(), None);
        synced.as_of_age_ms = Some(240_000);
        assert_eq!(synced.why().as_deref(), Some("as of 4m ago"));
        synced.why = Some("1 file is not synced: x.key".to_owned());
        let why = Some("as of 4m ago; 1 file is not synced: x.key".to_owned());
        assert_eq!(synced.why(), why);
        synced.state = "behind".to_owned();
        assert_eq!(synced.why().as_deref(), Some("1 file is not synced: x.key"));
    }

    #[test]
    fn on_a_terminal_it_fits_and_no_word_is_torn() {
        let whole = status().text_in(None, false);
        for width in [60, 80, 120] {
            let text = status().text_in(Some(width), false);
            assert!(text.contains("\nbelow /srv/teams/\n"), "{text}");
            for line in text.lines().skip(1) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
            for word in text
                .split_whitespace()
                .filter(|word| !["below", "/srv/teams/"].contains(word))
            {
                assert!(whole.contains(word), "{word} is torn: {text}");
            }
        }
    }
}
