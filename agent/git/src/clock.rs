//! When a remote is asked: a clock of its own for each database (docs/design.md#the-git-action). Pure.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use tokio::time::Instant;

/// Without any change for this long, a remote is asked less often, though at least this often.
const QUIET: (Duration, Duration) = (Duration::from_secs(3600), Duration::from_secs(120));

/// When the next fetch is due.
#[derive(Debug, Default)]
pub(crate) struct FetchClock {
    /// `None`: at once.
    next: Option<Instant>,
    /// The last time that anything was committed, pulled or pushed.
    changed: Option<Instant>,
    fetches: u64,
    /// How often all fetches had been asked for when this one was last seen to.
    asked: u64,
}

/// How often a database is fetched.
#[derive(Debug, Clone, Copy)]
pub struct FetchPace {
    /// The time between two cycles.
    pub interval: Duration,
    /// The time between two fetches.
    pub fetch_interval: Duration,
    /// Its number, by which its waits differ from those of others.
    pub number: usize,
}

impl FetchClock {
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next.is_none_or(|next| next <= now)
    }

    /// Whether the remote was never asked.
    pub(crate) fn is_new(&self) -> bool {
        self.fetches == 0
    }

    /// The next cycle fetches.
    pub(crate) fn hurry(&mut self) {
        self.next = None;
    }

    /// The agent was asked so often to fetch everything. Returns whether that is news.
    pub(crate) fn heed(&mut self, asked: u64) -> bool {
        let is_news = std::mem::replace(&mut self.asked, asked) != asked;
        if is_news {
            self.hurry();
        }
        is_news
    }

    /// The remote was asked, or was not to be asked in a cycle that would have.
    pub(crate) fn fetched(&mut self, now: Instant, pace: FetchPace, has_changed: bool) {
        self.fetches += 1;
        if has_changed || self.changed.is_none() {
            self.changed = Some(now);
        }
        let is_quiet = self
            .changed
            .is_some_and(|changed| now.duration_since(changed) >= QUIET.0);
        let wait = if is_quiet {
            pace.fetch_interval.max(QUIET.1)
        } else {
            pace.fetch_interval
        };
        // A fetch in each cycle needs no other clock; but many changes must not mean as many fetches.
        let wait = if wait <= pace.interval {
            pace.interval.mul_f64(0.9)
        } else {
            wait.mul_f64(self.jitter(pace.number))
        };
        self.next = Some(now + wait);
    }

    /// From 0.9 to 1.1. Databases that were fetched at once drift apart.
    fn jitter(&self, number: usize) -> f64 {
        let mut hasher = DefaultHasher::new();
        (number, self.fetches).hash(&mut hasher);
        0.9 + 0.2 * f64::from(u8::try_from(hasher.finish() >> 56).unwrap_or_default()) / 255.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn pace(interval: u64, fetch_interval: u64) -> FetchPace {
        FetchPace {
            interval: seconds(interval),
            fetch_interval: seconds(fetch_interval),
            number: 3,
        }
    }

    /// The waits after `count` fetches, each made as soon as it is due.
    fn waits(
        clock: &mut FetchClock,
        mut now: Instant,
        pace: FetchPace,
        count: usize,
    ) -> Vec<Duration> {
        let wait = |_| {
            let begun = now;
            clock.fetched(now, pace, false);
            while !clock.is_due(now) {
                now += Duration::from_millis(100);
            }
            now - begun
        };
        (0..count).map(wait).collect()
    }

    #[test]
    fn the_first_fetch_is_due_at_once_and_the_next_after_the_interval() {
        let (mut clock, now) = (FetchClock::default(), Instant::now());
        assert!(clock.is_due(now) && clock.is_new());
        let waits = waits(&mut clock, now, pace(5, 60), 20);
        assert!(!clock.is_new());
        assert!(
            waits
                .iter()
                .all(|wait| (seconds(54)..=seconds(67)).contains(wait)),
            "{waits:?}"
        );
        assert!(
            waits.iter().any(|wait| *wait != waits[0]),
            "they drift apart: {waits:?}"
        );
    }

    #[test]
    fn a_fetch_is_not_more_often_than_a_cycle() {
        let (mut clock, now) = (FetchClock::default(), Instant::now());
        clock.fetched(now, pace(60, 5), true);
        assert!(!clock.is_due(now + seconds(53)) && clock.is_due(now + seconds(54)));
    }

    #[test]
    fn after_an_hour_without_a_change_it_is_every_two_minutes() {
        let (mut clock, begun) = (FetchClock::default(), Instant::now());
        clock.fetched(begun, pace(5, 60), true);
        clock.fetched(begun + seconds(3599), pace(5, 60), false);
        assert!(clock.is_due(begun + seconds(3599 + 66)), "not yet an hour");
        let later = begun + seconds(3700);
        clock.fetched(later, pace(5, 60), false);
        assert!(!clock.is_due(later + seconds(107)) && clock.is_due(later + seconds(132)));
        clock.fetched(later, pace(5, 600), false);
        assert!(
            !clock.is_due(later + seconds(539)),
            "a longer interval stays"
        );
        clock.fetched(later, pace(5, 60), true);
        assert!(clock.is_due(later + seconds(66)), "a change ends the quiet");
    }

    #[test]
    fn a_claim_that_ends_and_a_request_are_heeded_once() {
        let (mut clock, now) = (FetchClock::default(), Instant::now());
        clock.fetched(now, pace(5, 60), true);
        assert!(!clock.heed(0) && !clock.is_due(now));
        assert!(clock.heed(1) && clock.is_due(now));
        clock.fetched(now, pace(5, 60), true);
        assert!(!clock.heed(1) && !clock.is_due(now), "it was heeded");
        clock.hurry();
        assert!(clock.is_due(now));
    }
}
