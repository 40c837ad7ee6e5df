//! When a remote is asked: a clock of its own for each database (docs/design.md#the-git-action). Pure.
//!
//! With `--fetch-interval` the time between two fetches is that. Without, it follows from what happens at the remote:
//! short while the remote moves, longer for many who push there, longer where nothing has moved for an hour, and
//! longer for a host that refuses.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use tokio::time::Instant;

/// With a configured interval: without any change for this long, a remote is asked less often, though at least this
/// often.
const QUIET: (Duration, Duration) = (HOUR, Duration::from_secs(120));

/// The shortest time between two fetches, and the longest, where none is configured.
const SHORTEST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(300);
/// The time that each committer of the last hour adds to the shortest time.
const FOR_EACH: Duration = Duration::from_millis(500);
/// A remote that has moved within this time is asked often. After it the time between two fetches doubles with each
/// [`STEP`].
const HOUR: Duration = Duration::from_secs(3600);
const STEP: Duration = Duration::from_secs(15 * 60);
/// How many times an hour of quiet has doubled the time already.
const FIRST_STEP: u32 = 2;

/// The most committers that are remembered. More would not make the time longer.
const MOST: usize = 600;
/// For how many times the interval the answer of a remote counts, and for how long at least.
const COUNTS: u32 = 3;
const COUNTS_AT_LEAST: Duration = Duration::from_secs(30);
/// The longest interval that a wait for other fetches from the same host can cause.
const LONGEST_TURN: Duration = Duration::from_secs(900);

/// When the next fetch is due.
#[derive(Debug, Default)]
pub(crate) struct FetchSchedule {
    /// When the next fetch is due; `None`: at once.
    next: Option<Instant>,
    /// The last time that anything was committed, pulled or pushed.
    changed: Option<Instant>,
    fetches: u64,
    /// How often all fetches had been asked for when this one was last seen to.
    asked: u64,
    /// The longest time that may pass until the next fetch, as things are.
    in_force: Duration,
    /// Whether the next fetch is due at its time, and not in the first cycle after it.
    is_exact: bool,
    /// When the remote has last told where it is.
    told: Option<Instant>,
    /// The committers of commits that the remote has, as hashes, and when each was last seen.
    committers: HashMap<u32, Instant>,
    has_seen: bool,
}

/// How often a database is fetched.
#[derive(Debug, Clone, Copy)]
pub struct FetchPace {
    /// The time between two cycles.
    pub interval: Duration,
    /// The time between two fetches; `None`: it follows from what happens at the remote.
    pub fetch_interval: Option<Duration>,
    /// The number of the database, by which its waits differ from those of others.
    pub number: usize,
    /// A number of the agent, by which its waits differ from those of other agents.
    pub seed: u64,
    /// How many times the host has the time between two fetches doubled.
    pub doublings: u32,
}

impl FetchSchedule {
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next.is_none_or(|next| next <= now)
    }

    /// Whether the remote was never asked.
    pub(crate) fn is_new(&self) -> bool {
        self.fetches == 0
    }

    /// When a cycle has to come for the next fetch; `None`: one that comes anyway will do.
    pub(crate) fn wakes(&self) -> Option<Instant> {
        self.next.filter(|_| self.is_exact)
    }

    /// The next cycle fetches.
    pub(crate) fn hurry(&mut self) {
        self.next = None;
    }

    /// The remote cannot be asked before `at`: others of this agent have their turns at the host.
    pub(crate) fn postpone(&mut self, at: Instant, now: Instant) {
        self.is_in_turn(now);
        self.next = Some(at);
        self.in_force = self
            .in_force
            .max(at.saturating_duration_since(now) + SHORTEST);
        self.is_exact = true;
    }

    /// Another database fetches from the host just now.
    pub(crate) fn is_in_turn(&mut self, now: Instant) {
        let age = self
            .told
            .map_or(Duration::ZERO, |told| now.saturating_duration_since(told));
        self.in_force = self.in_force.max((age + SHORTEST).min(LONGEST_TURN));
    }

    /// The agent was asked so often to fetch everything. Returns whether that is news.
    pub(crate) fn heed(&mut self, asked: u64) -> bool {
        let is_news = std::mem::replace(&mut self.asked, asked) != asked;
        if is_news {
            self.hurry();
        }
        is_news
    }

    /// The machine has slept: what the remote has told is of before.
    pub(crate) fn slept(&mut self) {
        (self.next, self.told) = (None, None);
    }

    /// The remote has told where it is.
    pub(crate) fn told(&mut self, now: Instant) {
        self.told = Some(now);
    }

    /// Whether what the remote has told still counts: it is not older than three times the interval in force.
    pub(crate) fn is_fresh(&self, now: Instant) -> bool {
        let counts = self.in_force.saturating_mul(COUNTS).max(COUNTS_AT_LEAST);
        self.told
            .is_some_and(|told| now.saturating_duration_since(told) <= counts)
    }

    /// These have committed what the remote has, within the last hour.
    pub(crate) fn saw(&mut self, committers: &[u32], now: Instant) {
        self.has_seen = true;
        self.leave_out_old(now);
        for committer in committers {
            if self.committers.len() < MOST || self.committers.contains_key(committer) {
                self.committers.insert(*committer, now);
            }
        }
    }

    fn leave_out_old(&mut self, now: Instant) {
        self.committers
            .retain(|_, seen| now.saturating_duration_since(*seen) < HOUR);
    }

    /// The remote was asked, or was not to be asked in a cycle that would have.
    pub(crate) fn fetched(&mut self, now: Instant, pace: FetchPace, has_changed: bool) {
        self.fetches += 1;
        self.leave_out_old(now);
        // Where nobody has committed within the last hour, the remote did not move before the agent has started.
        let is_quiet = pace.fetch_interval.is_none() && self.has_seen && self.committers.is_empty();
        if self.changed.is_none() && is_quiet {
            self.changed = now.checked_sub(HOUR);
        } else if has_changed {
            self.changed = Some(now);
        }
        self.changed.get_or_insert(now);
        let quiet = self.changed.map_or(Duration::ZERO, |changed| {
            now.saturating_duration_since(changed)
        });
        let (wait, spread) = match pace.fetch_interval {
            Some(interval) => (configured(interval, quiet), 0.1),
            None => (
                unconfigured(self.committers.len(), quiet, pace.doublings),
                0.2,
            ),
        };
        self.is_exact = pace.fetch_interval.is_none();
        // A fetch in each cycle needs no other clock; but many changes must not mean as many fetches.
        let next = match wait <= pace.interval {
            true => pace.interval.mul_f64(0.9),
            // Agents that were started together drift apart at once.
            false if self.is_exact && self.fetches == 1 => wait.mul_f64(self.chance(pace)),
            false => wait.mul_f64(1.0 - spread + 2.0 * spread * self.chance(pace)),
        };
        self.next = Some(now + next);
        self.in_force = wait.mul_f64(1.0 + spread).max(pace.interval);
    }

    /// A number from 0 to 1, another one each time. So databases that were fetched at once drift apart.
    fn chance(&self, pace: FetchPace) -> f64 {
        let mut hasher = DefaultHasher::new();
        (pace.seed, pace.number, self.fetches).hash(&mut hasher);
        f64::from(u8::try_from(hasher.finish() >> 56).unwrap_or_default()) / 255.0
    }
}

/// The time between two fetches with a configured interval.
fn configured(interval: Duration, quiet: Duration) -> Duration {
    match quiet >= QUIET.0 {
        true => interval.max(QUIET.1),
        false => interval,
    }
}

/// The time between two fetches of a remote that was last seen to move so long ago.
fn unconfigured(committers: usize, quiet: Duration, doublings: u32) -> Duration {
    let committers = u32::try_from(committers).unwrap_or(u32::MAX);
    let busy = SHORTEST.max(FOR_EACH.saturating_mul(committers));
    let steps = match quiet.checked_sub(HOUR) {
        None => 0,
        Some(quiet) => {
            FIRST_STEP
                + u32::try_from(quiet.as_secs() / STEP.as_secs()).unwrap_or(u32::MAX - FIRST_STEP)
        }
    };
    let doublings = steps.saturating_add(doublings).min(16);
    busy.saturating_mul(1 << doublings).min(LONGEST.max(busy))
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
            fetch_interval: Some(seconds(fetch_interval)),
            number: 3,
            seed: 7,
            doublings: 0,
        }
    }

    fn unconfigured_pace() -> FetchPace {
        FetchPace {
            fetch_interval: None,
            ..pace(5, 0)
        }
    }

    /// The waits after `count` fetches, each made as soon as it is due.
    fn waits(
        clock: &mut FetchSchedule,
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
        let (mut clock, now) = (FetchSchedule::default(), Instant::now());
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
        let (mut clock, now) = (FetchSchedule::default(), Instant::now());
        clock.fetched(now, pace(60, 5), true);
        assert!(!clock.is_due(now + seconds(53)) && clock.is_due(now + seconds(54)));
    }

    #[test]
    fn after_an_hour_without_a_change_it_is_every_two_minutes() {
        let (mut clock, begun) = (FetchSchedule::default(), Instant::now());
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
        let (mut clock, now) = (FetchSchedule::default(), Instant::now());
        clock.fetched(now, pace(5, 60), true);
        assert!(!clock.heed(0) && !clock.is_due(now));
        assert!(clock.heed(1) && clock.is_due(now));
        clock.fetched(now, pace(5, 60), true);
        assert!(!clock.heed(1) && !clock.is_due(now), "it was heeded");
        clock.hurry();
        assert!(clock.is_due(now));
    }

    /// The range from 0.8 to 1.2 of a wait.
    fn around(wait: u64) -> std::ops::RangeInclusive<Duration> {
        seconds(wait).mul_f64(0.8)..=seconds(wait).mul_f64(1.2)
    }

    #[test]
    fn without_an_interval_a_remote_that_moves_is_asked_each_ten_seconds() {
        let (mut clock, now) = (FetchSchedule::default(), Instant::now());
        let waits = waits(&mut clock, now, unconfigured_pace(), 50);
        assert!(
            waits[0] <= seconds(10),
            "the first wait is a part of one: {waits:?}"
        );
        assert!(
            waits[1..].iter().all(|wait| around(10).contains(wait)),
            "{waits:?}"
        );
        let mut sorted = waits[1..].to_vec();
        sorted.sort();
        assert!(
            sorted[0] < seconds(9) && sorted[48] > seconds(11),
            "{sorted:?}"
        );
        assert!(
            sorted[24] > seconds(9) && sorted[24] < seconds(11),
            "{sorted:?}"
        );
        assert!(clock.wakes().is_some(), "a cycle comes for it");
    }

    #[test]
    fn a_remote_that_was_quiet_before_the_start_is_asked_rarely_from_the_start() {
        let (mut clock, now) = (FetchSchedule::default(), Instant::now());
        clock.saw(&[], now);
        // All of the remote is news to an agent that has just started.
        clock.fetched(now, unconfigured_pace(), true);
        clock.fetched(now + seconds(40), unconfigured_pace(), false);
        let wait = clock.next.unwrap() - now - seconds(40);
        assert!(around(40).contains(&wait), "{wait:?}");
        clock.fetched(now + seconds(80), unconfigured_pace(), true);
        let wait = clock.next.unwrap() - now - seconds(80);
        assert!(around(10).contains(&wait), "it moves: {wait:?}");
    }

    #[test]
    fn each_of_many_committers_makes_the_wait_longer_for_an_hour() {
        let (mut clock, now) = (FetchSchedule::default(), Instant::now());
        clock.fetched(now, unconfigured_pace(), true);
        let all: Vec<u32> = (0..200).collect();
        clock.saw(&all, now);
        clock.saw(&all[..50], now + seconds(1800));
        for (later, wait) in [(0, 100), (1799, 100), (3599, 100), (3600, 25), (5400, 10)] {
            let now = now + seconds(later);
            clock.fetched(now, unconfigured_pace(), true);
            let found = clock.next.unwrap() - now;
            assert!(around(wait).contains(&found), "after {later} s: {found:?}");
        }
        let crowd: Vec<u32> = (0..100_000).collect();
        clock.saw(&crowd, now);
        assert_eq!(clock.committers.len(), MOST, "memory is bounded");
    }

    #[test]
    fn a_quiet_remote_is_asked_less_and_less_often_and_a_host_that_refuses_too() {
        for (quiet, doublings, wait) in [
            (0, 0, 10),
            (3599, 0, 10),
            (3600, 0, 40),
            (4500, 0, 80),
            (5400, 0, 160),
            (6300, 0, 300),
            (u64::MAX / 2, 0, 300),
            (0, 1, 20),
            (0, 3, 80),
            (0, u32::MAX, 300),
            (3600, 1, 80),
        ] {
            assert_eq!(
                unconfigured(3, seconds(quiet), doublings),
                seconds(wait),
                "{quiet} s, {doublings} doublings"
            );
        }
        assert_eq!(
            unconfigured(1000, seconds(7200), 0),
            seconds(500),
            "never more often than while it moves"
        );
    }

    #[test]
    fn a_wait_is_always_between_the_shortest_and_the_longest() {
        let mut numbers = (0_u64..).map(|number| {
            let mut hasher = DefaultHasher::new();
            number.hash(&mut hasher);
            hasher.finish()
        });
        let mut next = |most: u64| numbers.next().unwrap() % most;
        for _ in 0..20_000 {
            let (committers, quiet, doublings) = (next(2000), next(100_000), next(40));
            let found = unconfigured(
                usize::try_from(committers).unwrap(),
                seconds(quiet),
                u32::try_from(doublings).unwrap(),
            );
            let busy = seconds(10).max(FOR_EACH * u32::try_from(committers).unwrap());
            assert!((busy..=busy.max(LONGEST)).contains(&found));
            let later = unconfigured(usize::try_from(committers).unwrap(), seconds(quiet + 60), 0);
            let sooner = unconfigured(usize::try_from(committers).unwrap(), seconds(quiet), 0);
            assert!(later >= sooner, "quiet never makes it shorter");
        }
    }

    #[test]
    fn an_answer_counts_for_three_intervals_and_not_over_a_sleep() {
        let (mut clock, now) = (FetchSchedule::default(), Instant::now());
        assert!(!clock.is_fresh(now), "it has told nothing");
        clock.told(now);
        clock.fetched(now, unconfigured_pace(), true);
        assert!(clock.is_fresh(now + seconds(36)) && !clock.is_fresh(now + seconds(37)));
        clock.postpone(now + seconds(50), now);
        assert!(
            clock.is_fresh(now + seconds(180)),
            "others have their turns"
        );
        assert!(!clock.is_due(now + seconds(49)) && clock.is_due(now + seconds(50)));
        clock.slept();
        assert!(!clock.is_fresh(now + seconds(1)) && clock.is_due(now));
    }
}
