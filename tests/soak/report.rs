//! What the witnesses have seen, as one table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;

use super::site::{NAIVE, Site};
use beadlock_tests::Pulse;

/// What is known when all is over.
pub struct Report {
    /// How often each role entered in the 200.
    pub entered: BTreeMap<String, usize>,
    /// Cycles and claims of the control.
    pub control: [usize; 2],
    /// Lines of those who met somebody: in the 200, in the control.
    pub overlaps: [Vec<String>; 2],
    /// Databases without a single cycle.
    pub never_served: usize,
    /// Skips in the logs.
    pub skips: usize,
    /// Stale locks that the agents removed.
    pub removed: usize,
}

impl Report {
    pub fn of(site: &Site) -> Self {
        let read = |name: &str| fs::read_to_string(site.ground().join(name)).unwrap_or_default();
        let mut entered = BTreeMap::new();
        let mut control = [0, 0];
        let mut served = BTreeSet::new();
        let of_control = format!("{}-", NAIVE.0);
        for line in read("entered").lines() {
            let (role, name) = line.split_once(' ').unwrap_or((line, ""));
            if name.starts_with(&of_control) {
                control[usize::from(role != "cycle")] += 1;
                continue;
            }
            *entered.entry(role.to_owned()).or_default() += 1;
            if role == "cycle" {
                served.insert(name.to_owned());
            }
        }
        let in_control = format!(" in {of_control}");
        let (naive, ours) = read("overlaps")
            .lines()
            .map(str::to_owned)
            .partition(|line| line.contains(&in_control));
        let logs = || {
            site.databases
                .iter()
                .flat_map(|database| fs::read_dir(&database.beads))
                .flatten()
                .flatten()
        };
        let (mut skips, mut removed) = (0, 0);
        for log in logs().filter(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .starts_with("daemon.log")
        }) {
            let text = fs::read_to_string(log.path()).unwrap_or_default();
            skips += text.matches("Skipping database").count();
            removed += text.matches("Removed stale lock").count();
        }
        Self {
            entered,
            control,
            overlaps: [ours, naive],
            never_served: site.databases.len() - served.len(),
            skips,
            removed,
        }
    }

    /// What has not happened yet, without which the rest shows nothing.
    pub fn lacking(&self, site: &Site) -> Option<String> {
        if self.overlaps[1].is_empty() {
            return Some(
                "the naive daemon is not found out: the witnesses may be blind".to_owned(),
            );
        }
        for kind in ["hold", "acquire", "recipe", "in-place", "malformed"] {
            if !self.entered.contains_key(kind) {
                return Some(format!("a claim by {kind}"));
            }
        }
        for kind in ["hold", "acquire", "recipe", "in-place", "agent"] {
            let killed = format!("kills: {kind}");
            if !site.counts().keys().any(|what| what.starts_with(&killed)) {
                return Some(format!("a kill of {kind}"));
            }
        }
        if !site
            .counts()
            .contains_key("kept out by the work of a killed agent")
        {
            return Some("work that outlives its agent".to_owned());
        }
        (self.skips == 0 || self.removed == 0 || self.never_served > 0)
            .then(|| "skips, removals and a cycle of each".to_owned())
    }

    /// The table.
    pub fn table(&self, site: &Site, unsynced: usize, pulses: [Pulse; 3]) -> String {
        let mut rows = vec![("databases".to_owned(), site.databases.len().to_string())];
        let mut row = |what: String, value: String| rows.push((what, value));
        for (role, count) in &self.entered {
            let what = if role == "cycle" {
                "cycles".to_owned()
            } else {
                format!("claims: {role}")
            };
            row(what, count.to_string());
        }
        for (what, count) in site.counts().iter() {
            row(what.clone(), count.to_string());
        }
        row("skips in the logs".to_owned(), self.skips.to_string());
        row(
            "stale locks removed by an agent".to_owned(),
            self.removed.to_string(),
        );
        row("overlaps".to_owned(), self.overlaps[0].len().to_string());
        row(
            "control: cycles, claims".to_owned(),
            format!("{}, {}", self.control[0], self.control[1]),
        );
        row(
            "control: overlaps".to_owned(),
            self.overlaps[1].len().to_string(),
        );
        row(
            "unsynced after the last release".to_owned(),
            unsynced.to_string(),
        );
        let [start, warm, end] = pulses;
        row(
            "RSS of the steady agent, KiB".to_owned(),
            format!("{} warm, {} end", warm.rss, end.rss),
        );
        row(
            "its descriptors".to_owned(),
            format!("{} start, {} end", start.fds, end.fds),
        );
        row(
            "its watches".to_owned(),
            format!("{} start, {} end", start.watches, end.watches),
        );
        let mut table = format!("seed {}\n", site.seed);
        for (what, value) in rows {
            let _ = writeln!(table, "{what:40} {value}");
        }
        table
    }
}
