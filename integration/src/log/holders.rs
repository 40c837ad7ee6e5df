//! Who held the lock, as the daemon saw it: how often, for how long, and how it ended.
//!
//! A hold counts from the first cycle that was skipped for it to the line that ended it; a claim that no cycle met
//! is not in the log.

use std::collections::HashMap;
use std::time::Duration;

use super::time::At;

/// Names that are told apart; what comes after them shares one row.
const NAMES: usize = 10_000;

/// The row that they share.
const OTHERS: &str = "(other names)";

/// How a streak of skips ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpellEnd {
    /// The next cycle ran, and no stale lock was removed for it.
    Released,
    /// The daemon found the holder dead and removed the lock.
    RemovedStale,
    /// Another holder's lock, or one that cannot be checked, came without a cycle in between.
    TakenOver,
    /// The daemon was stopped or killed while it went on.
    AgentStopped,
    /// The log ends while it goes on.
    Open,
}

impl SpellEnd {
    /// The word of the JSON report.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::RemovedStale => "removed_stale",
            Self::TakenOver => "taken_over",
            Self::AgentStopped => "agent_stopped",
            Self::Open => "open",
        }
    }
}

/// One holder's name and what was seen of its claims.
#[derive(Debug, Default)]
pub struct Holder {
    /// As the log has it.
    pub name: String,
    /// How long each hold was, in milliseconds.
    holds: Vec<u64>,
    longest: u64,
    /// When the longest began.
    pub longest_since: Option<At>,
    pub skips: u64,
    pub released: u64,
    pub removed_stale: u64,
    pub taken_over: u64,
    pub agent_stopped: u64,
    pub open: u64,
    /// Its last line.
    pub last: Option<At>,
}

impl Holder {
    /// Streaks of skips.
    pub fn claims(&self) -> usize {
        self.holds.len()
    }

    /// `None` when none was seen.
    pub fn median(&self) -> Option<Duration> {
        let mut holds = self.holds.clone();
        holds.sort_unstable();
        let middle = holds.get(holds.len() / 2)?;
        let has_two = holds.len().is_multiple_of(2);
        let lower = if has_two { holds.get(holds.len() / 2 - 1)? } else { middle };
        Some(Duration::from_millis(lower.midpoint(*middle)))
    }

    /// `None` when none was seen.
    pub fn longest(&self) -> Option<Duration> {
        (!self.holds.is_empty()).then(|| Duration::from_millis(self.longest))
    }

    /// All holds together.
    pub fn total(&self) -> Duration {
        Duration::from_millis(self.holds.iter().fold(0, |total: u64, hold| total.saturating_add(*hold)))
    }
}

/// All of them, by name.
#[derive(Debug, Default)]
pub struct Holders {
    rows: Vec<Holder>,
    index: HashMap<String, usize>,
}

impl Holders {
    /// A hold of `name` from `since` that met so many cycles.
    pub fn held(&mut self, name: &str, since: At, end: At, skips: u64, how: SpellEnd) {
        let length = crate::words::millis(end.since(since));
        let row = self.row(name);
        if row.longest_since.is_none() || length > row.longest {
            (row.longest, row.longest_since) = (length, Some(since));
        }
        row.holds.push(length);
        row.skips += skips;
        row.last = row.last.max(Some(end));
        match how {
            SpellEnd::Released => row.released += 1,
            SpellEnd::RemovedStale => row.removed_stale += 1,
            SpellEnd::TakenOver => row.taken_over += 1,
            SpellEnd::AgentStopped => row.agent_stopped += 1,
            SpellEnd::Open => row.open += 1,
        }
    }

    /// A stale lock of `name` was removed that no cycle was skipped for.
    pub fn removed_at_once(&mut self, name: &str, at: At) {
        let row = self.row(name);
        row.removed_stale += 1;
        row.last = row.last.max(Some(at));
    }

    /// Those who held longest first.
    pub fn rows(&self) -> Vec<&Holder> {
        let mut rows: Vec<&Holder> = self.rows.iter().collect();
        rows.sort_by(|a, b| {
            (b.total(), b.claims()).cmp(&(a.total(), a.claims())).then_with(|| a.name.cmp(&b.name))
        });
        rows
    }

    fn row(&mut self, name: &str) -> &mut Holder {
        let name = if self.rows.len() < NAMES || self.index.contains_key(name) { name } else { OTHERS };
        let at = match self.index.get(name) {
            Some(at) => *at,
            None => {
                self.index.insert(name.to_owned(), self.rows.len());
                self.rows.push(Holder { name: name.to_owned(), ..Holder::default() });
                self.rows.len() - 1
            }
        };
        &mut self.rows[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> At {
        At(seconds * 1000)
    }

    #[test]
    fn sums_up_each_name() {
        let mut holders = Holders::default();
        holders.held("make", at(0), at(10), 2, SpellEnd::Released);
        holders.held("make", at(100), at(400), 60, SpellEnd::RemovedStale);
        holders.held("make", at(500), at(520), 4, SpellEnd::Open);
        holders.held("vc", at(600), at(1000), 9, SpellEnd::TakenOver);
        holders.removed_at_once("gone", at(2000));
        let rows = holders.rows();
        assert_eq!(rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["vc", "make", "gone"]);
        let make = rows[1];
        assert_eq!(
            (make.claims(), make.skips, make.released, make.removed_stale, make.open),
            (3, 66, 1, 1, 1)
        );
        assert_eq!(
            (make.median(), make.longest()),
            (Some(Duration::from_secs(20)), Some(Duration::from_secs(300)))
        );
        assert_eq!((make.longest_since, make.total()), (Some(at(100)), Duration::from_secs(330)));
        assert_eq!((rows[2].claims(), rows[2].median(), rows[2].removed_stale), (0, None, 1));
        holders.held("vc", at(2000), at(2200), 1, SpellEnd::AgentStopped);
        assert_eq!(
            holders.rows()[0].median(),
            Some(Duration::from_secs(300)),
            "between the two in the middle"
        );
    }

    #[test]
    fn ever_new_names_share_a_row_and_a_clock_that_went_back_is_no_trap() {
        let mut holders = Holders::default();
        for number in 0..NAMES + 50 {
            holders.held(&number.to_string(), at(10), at(5), 1, SpellEnd::Released);
        }
        assert_eq!(holders.rows().len(), NAMES + 1);
        let others = holders.rows().into_iter().find(|row| row.name == OTHERS).unwrap();
        assert_eq!((others.claims(), others.total()), (50, Duration::ZERO));
    }
}
