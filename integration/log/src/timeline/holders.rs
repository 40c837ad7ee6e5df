//! The holders of the lock as the daemon saw them: how many claims, how long, and how they ended.
//!
//! A claim counts from the first cycle that was skipped for it to the line that ended it. The log does not show a
//! claim that caused no skip.

use std::collections::HashMap;
use std::time::Duration;

use super::streak::{StreakEnd, StreakEnds};
use crate::parse::time::LogTime;

/// Most names that have a row of their own.
const NAMES: usize = 10_000;

/// The row of all other names.
const OTHERS: &str = "(other names)";

#[derive(Debug, Default)]
pub struct HolderRow {
    pub name: String,
    claims: Vec<Duration>,
    longest: Duration,
    pub longest_since: Option<LogTime>,
    pub skips: u64,
    pub ends: StreakEnds<u64>,
    /// Time of the last line about the holder.
    pub last: Option<LogTime>,
}

impl HolderRow {
    /// Number of its claims, each of them a streak of skips.
    pub fn claims(&self) -> usize {
        self.claims.len()
    }

    pub fn median(&self) -> Option<Duration> {
        let mut claims = self.claims.clone();
        claims.sort_unstable();
        let (upper, lower) = (claims.len() / 2, claims.len().saturating_sub(1) / 2);
        let millis = |at: usize| claims.get(at).copied().map(beadlock_claim::words::millis);
        Some(Duration::from_millis(
            millis(lower)?.midpoint(millis(upper)?),
        ))
    }

    pub fn longest(&self) -> Option<Duration> {
        self.longest_since.map(|_| self.longest)
    }

    pub fn total(&self) -> Duration {
        self.claims
            .iter()
            .fold(Duration::ZERO, |total, claim| total.saturating_add(*claim))
    }
}

#[derive(Debug, Default)]
pub struct HolderRows {
    rows: HashMap<String, HolderRow>,
}

impl HolderRows {
    /// Adds a claim of `name` that skipped so many cycles.
    pub fn held(&mut self, name: &str, since: LogTime, until: LogTime, skips: u64, end: StreakEnd) {
        let length = until.since(since);
        let row = self.row(name);
        if row.longest_since.is_none() || length > row.longest {
            (row.longest, row.longest_since) = (length, Some(since));
        }
        row.claims.push(length);
        row.skips += skips;
        row.last = row.last.max(Some(until));
        row.ends[end as usize] += 1;
    }

    /// Counts a stale lock of `name` that was removed before it caused a skip.
    pub fn removed_at_once(&mut self, name: &str, at: LogTime) {
        let row = self.row(name);
        row.ends[StreakEnd::RemovedStale as usize] += 1;
        row.last = row.last.max(Some(at));
    }

    /// All holders, those with the longest claims in total first.
    pub fn sorted(&self) -> Vec<&HolderRow> {
        let mut rows: Vec<&HolderRow> = self.rows.values().collect();
        rows.sort_by(|a, b| {
            (b.total(), b.claims())
                .cmp(&(a.total(), a.claims()))
                .then_with(|| a.name.cmp(&b.name))
        });
        rows
    }

    fn row(&mut self, name: &str) -> &mut HolderRow {
        let name = if self.rows.len() < NAMES || self.rows.contains_key(name) {
            name
        } else {
            OTHERS
        };
        let new = || HolderRow {
            name: name.to_owned(),
            ..HolderRow::default()
        };
        self.rows.entry(name.to_owned()).or_insert_with(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> LogTime {
        LogTime(seconds * 1000)
    }

    #[test]
    fn sums_up_each_name() {
        let mut holders = HolderRows::default();
        holders.held("make", at(0), at(10), 2, StreakEnd::Released);
        holders.held("make", at(100), at(400), 60, StreakEnd::RemovedStale);
        holders.held("make", at(500), at(520), 4, StreakEnd::Open);
        holders.held("vc", at(600), at(1000), 9, StreakEnd::TakenOver);
        holders.removed_at_once("gone", at(2000));
        let rows = holders.sorted();
        assert_eq!(
            rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(),
            ["vc", "make", "gone"]
        );
        let make = rows[1];
        assert_eq!(
            (make.claims(), make.skips, make.ends),
            (3, 66, [1, 1, 0, 0, 1])
        );
        assert_eq!(
            (make.median(), make.longest()),
            (
                Some(Duration::from_secs(20)),
                Some(Duration::from_secs(300))
            )
        );
        assert_eq!(
            (make.longest_since, make.total()),
            (Some(at(100)), Duration::from_secs(330))
        );
        assert_eq!(
            (rows[2].claims(), rows[2].median(), rows[2].ends),
            (0, None, [0, 1, 0, 0, 0])
        );
        holders.held("vc", at(2000), at(2200), 1, StreakEnd::AgentStopped);
        assert_eq!(
            holders.sorted()[0].median(),
            Some(Duration::from_secs(300)),
            "between the two in the middle"
        );
    }

    #[test]
    fn ever_new_names_share_a_row_and_a_clock_that_went_back_is_no_trap() {
        let mut holders = HolderRows::default();
        for number in 0..NAMES + 50 {
            holders.held(&number.to_string(), at(10), at(5), 1, StreakEnd::Released);
        }
        assert_eq!(holders.sorted().len(), NAMES + 1);
        let others = holders
            .sorted()
            .into_iter()
            .find(|row| row.name == OTHERS)
            .unwrap();
        assert_eq!((others.claims(), others.total()), (50, Duration::ZERO));
    }
}
