//! The usual interval between cycles, and the gaps in a log.
//!
//! A gap is a time without a line that is longer than five times the usual (median) interval between cycles, and longer
//! than a minute; before three intervals are known, longer than five minutes.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::parse::time::LogTime;

/// A shorter time is never a gap.
const SHORTEST: Duration = Duration::from_secs(60);

/// The limit while the usual interval is unknown.
const UNKNOWN: Duration = Duration::from_secs(300);

/// Most gaps that are remembered: the longest.
const KEPT: usize = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogGap {
    pub from: LogTime,
    pub to: LogTime,
    pub kind: GapKind,
}

/// State of the daemon before a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GapKind {
    Silent,
    InCycle,
    /// The daemon was killed or crashed: the next line is a start, and no stop came before.
    Gone,
}

/// The intervals between cycles, and the gaps.
#[derive(Debug, Default)]
pub struct CycleRhythm {
    /// How often each interval came, in whole seconds.
    intervals: BTreeMap<u64, u64>,
    count: u64,
    last: Option<LogTime>,
    gaps: Vec<LogGap>,
}

impl CycleRhythm {
    pub fn look(&mut self, at: LogTime) {
        if let Some(last) = self.last
            && at >= last
        {
            *self.intervals.entry(at.since(last).as_secs()).or_default() += 1;
            self.count += 1;
        }
        self.last = Some(at);
    }

    /// Notes that another daemon writes from here on.
    pub fn restart(&mut self) {
        self.last = None;
    }

    /// Notes a time without a line, from `from` to `to`.
    pub fn silence(&mut self, from: LogTime, to: LogTime, kind: GapKind) {
        if to.since(from) <= SHORTEST {
            return;
        }
        self.gaps.push(LogGap { from, to, kind });
        if self.gaps.len() > 2 * KEPT {
            self.gaps
                .sort_by_key(|gap| std::cmp::Reverse(gap.to.since(gap.from)));
            self.gaps.truncate(KEPT);
            self.gaps.sort_by_key(|gap| gap.from);
        }
    }

    /// Marks the gap that has just ended: no daemon ran in it.
    pub fn was_gone(&mut self, at: LogTime) {
        if let Some(gap) = self
            .gaps
            .last_mut()
            .filter(|gap| at.since(gap.to) <= Duration::from_secs(2))
        {
            gap.kind = GapKind::Gone;
        }
    }

    pub fn forget(&mut self) {
        self.gaps.clear();
    }

    /// The median interval between cycles, in whole seconds; `None` while there are too few.
    pub fn usual(&self) -> Option<Duration> {
        let mut before = 0;
        let median = self.intervals.iter().find(|(_, count)| {
            before += **count;
            before * 2 > self.count
        });
        median
            .filter(|_| self.count >= 3)
            .map(|(seconds, _)| Duration::from_secs(*seconds))
    }

    /// The limit of gaps: a longer time without a line is one.
    pub fn limit(&self) -> Duration {
        self.usual()
            .map_or(UNKNOWN, |usual| (usual * 5).max(SHORTEST))
    }

    pub fn gaps(&self) -> Vec<LogGap> {
        let limit = self.limit();
        self.gaps
            .iter()
            .filter(|gap| gap.to.since(gap.from) > limit)
            .copied()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> LogTime {
        LogTime(seconds * 1000)
    }

    #[test]
    fn a_gap_is_judged_by_the_usual_interval() {
        let mut rhythm = CycleRhythm::default();
        assert_eq!((rhythm.usual(), rhythm.limit()), (None, UNKNOWN));
        for number in 0..10 {
            rhythm.look(at(number * 30));
        }
        rhythm.look(at(10_000));
        assert_eq!(rhythm.usual(), Some(Duration::from_secs(30)));
        assert_eq!(rhythm.limit(), Duration::from_secs(150));
        rhythm.silence(at(0), at(60), GapKind::Silent);
        rhythm.silence(at(0), at(150), GapKind::Silent);
        rhythm.silence(at(200), at(351), GapKind::InCycle);
        assert_eq!(
            rhythm.gaps(),
            [LogGap {
                from: at(200),
                to: at(351),
                kind: GapKind::InCycle
            }]
        );
    }

    #[test]
    fn a_minute_is_never_a_gap_and_the_clock_may_go_back() {
        let mut rhythm = CycleRhythm::default();
        for number in [0, 0, 1, 1, 2, 0, 1, 2] {
            rhythm.look(at(number));
        }
        assert_eq!(rhythm.usual(), Some(Duration::from_secs(1)));
        rhythm.silence(at(0), at(60), GapKind::Silent);
        rhythm.silence(at(100), at(0), GapKind::Silent);
        assert_eq!(rhythm.gaps(), []);
        rhythm.silence(at(0), at(61), GapKind::Silent);
        rhythm.was_gone(at(61));
        assert_eq!(rhythm.gaps()[0].kind, GapKind::Gone);
    }

    #[test]
    fn of_very_many_the_longest_are_kept() {
        let mut rhythm = CycleRhythm::default();
        for number in 0..50_000 {
            rhythm.silence(
                at(number * 10_000),
                at(number * 10_000 + 301 + number % 7),
                GapKind::Silent,
            );
        }
        assert!(rhythm.gaps().len() >= KEPT && rhythm.gaps.len() <= 2 * KEPT);
    }
}
