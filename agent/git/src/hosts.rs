//! How often one host of the network is asked by all databases of an agent together. Pure, but for the lock around it.
//!
//! A host has so many turns a minute. Without one a database is put into a queue, and is told when to come again. As
//! many turns as there are databases before it in the queue are kept for them, so each has its turn.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use beadlock_repository::{Asking, HostRefusal};

/// How often a host is asked within [`MINUTE`].
const FETCHES: usize = 12;
const PUSHES: usize = 30;
const MINUTE: Duration = Duration::from_secs(60);
/// A database that comes so much later than it was told to has lost its place in the queue.
const LATE: Duration = Duration::from_secs(20);
/// For how long a host that refuses is asked less often.
const HOUR: Duration = Duration::from_secs(3600);
/// How many times the time between two fetches is doubled at most.
const DOUBLINGS: u32 = 5;

/// The hosts of the network that the databases of an agent share.
#[derive(Debug, Default)]
pub struct HostLimits(Mutex<HashMap<String, HostLimit>>);

#[derive(Debug, Default)]
struct HostLimit {
    fetches: Turns,
    pushes: Turns,
    /// How many times it has the time between two fetches doubled, and when it has refused, by how it refuses.
    closed: Option<(u32, Instant)>,
    throttled: Option<(u32, Instant)>,
}

/// The turns of the last minute, the oldest first, and the databases that wait for one.
#[derive(Debug, Default)]
struct Turns {
    taken: VecDeque<Instant>,
    /// The databases in the queue: the number of each, and when it was told to come.
    waiting: VecDeque<(usize, Instant)>,
}

impl HostLimits {
    /// Whether a database may ask now; else when it is to come again.
    ///
    /// # Errors
    /// The moment at which its turn will be.
    pub fn may_ask(
        &self,
        host: &str,
        asking: Asking,
        number: usize,
        now: Instant,
    ) -> Result<(), Instant> {
        let mut hosts = self.lock();
        let host = hosts.entry(host.to_owned()).or_default();
        let (turns, most) = host.turns(asking);
        turns.may_take(number, most, now)
    }

    /// The host is being asked.
    pub fn asked(&self, host: &str, asking: Asking, now: Instant) {
        let mut hosts = self.lock();
        let host = hosts.entry(host.to_owned()).or_default();
        let (turns, most) = host.turns(asking);
        turns.forget_old(now);
        turns.taken.push_back(now);
        while turns.taken.len() > 2 * most {
            turns.taken.pop_front();
        }
    }

    /// The host refuses to be asked, or asks for less.
    pub fn refuses(&self, host: &str, refusal: HostRefusal, now: Instant) {
        let mut hosts = self.lock();
        let host = hosts.entry(host.to_owned()).or_default();
        let refused = match refusal {
            HostRefusal::Closed => &mut host.closed,
            HostRefusal::Throttled => &mut host.throttled,
        };
        let is_same = |(_, at): (u32, Instant)| now.saturating_duration_since(at) < MINUTE;
        // Many databases that are refused together are one refusal, that of the first.
        if !refused.is_some_and(is_same) {
            *refused = Some(((doublings(*refused, now) + 1).min(DOUBLINGS), now));
        }
    }

    /// The host has answered: it takes connections again. Where it asks for less, that still holds.
    pub fn answers(&self, host: &str) {
        if let Some(host) = self.lock().get_mut(host) {
            host.closed = None;
        }
    }

    /// How many times the host has the time between two fetches doubled.
    pub fn doublings(&self, host: &str, now: Instant) -> u32 {
        self.lock().get(host).map_or(0, |host| host.doublings(now))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, HostLimit>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HostLimit {
    fn turns(&mut self, asking: Asking) -> (&mut Turns, usize) {
        match asking {
            Asking::Fetch => (&mut self.fetches, FETCHES),
            Asking::Push => (&mut self.pushes, PUSHES),
        }
    }

    fn doublings(&self, now: Instant) -> u32 {
        doublings(self.closed, now).max(doublings(self.throttled, now))
    }
}

/// The doublings of a refusal that is not too old; 0 without one.
fn doublings(refused: Option<(u32, Instant)>, now: Instant) -> u32 {
    let held = refused.filter(|(_, at)| now.saturating_duration_since(*at) < HOUR);
    held.map_or(0, |(doublings, _)| doublings)
}

impl Turns {
    fn forget_old(&mut self, now: Instant) {
        let is_old = |at: &Instant| now.saturating_duration_since(*at) >= MINUTE;
        while self.taken.front().is_some_and(is_old) {
            self.taken.pop_front();
        }
        self.waiting
            .retain(|(_, come)| now.saturating_duration_since(*come) < LATE);
    }

    fn may_take(&mut self, number: usize, most: usize, now: Instant) -> Result<(), Instant> {
        self.forget_old(now);
        let place = self
            .waiting
            .iter()
            .position(|(waiting, _)| *waiting == number);
        let before = place.unwrap_or(self.waiting.len());
        let free = most.saturating_sub(self.taken.len());
        if before < free {
            place.and_then(|place| self.waiting.remove(place));
            return Ok(());
        }
        let come = self.opens(before - free, most, now);
        match place.and_then(|place| self.waiting.get_mut(place)) {
            Some((_, told)) => *told = come,
            None => self.waiting.push_back((number, come)),
        }
        Err(come)
    }

    /// When there will be a turn for a database with `before` others before it, beside those that have a free turn.
    fn opens(&self, before: usize, most: usize, now: Instant) -> Instant {
        let (minutes, place) = (before / most, before % most);
        let first = self.taken.get(place).copied().unwrap_or(now) + MINUTE;
        first + MINUTE * u32::try_from(minutes).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Databases that each ask as soon as they may, and once in `pace`. Returns when each was served.
    fn served(count: usize, pace: Duration, until: Duration) -> Vec<Vec<Duration>> {
        let (limits, begun) = (HostLimits::default(), Instant::now());
        let mut next: Vec<Instant> = (0..count)
            .map(|number| begun + Duration::from_millis(number as u64 * 37 % 5000))
            .collect();
        let mut served = vec![Vec::new(); count];
        loop {
            let (number, now) = next
                .iter()
                .copied()
                .enumerate()
                .min_by_key(|(_, at)| *at)
                .unwrap();
            if now >= begun + until {
                return served;
            }
            next[number] = match limits.may_ask("h", Asking::Fetch, number, now) {
                Ok(()) => {
                    limits.asked("h", Asking::Fetch, now);
                    served[number].push(now - begun);
                    now + pace
                }
                // A cycle comes at its time, or a little later.
                Err(come) => {
                    assert!(come > now, "it would spin");
                    come + Duration::from_millis(number as u64 * 13 % 900)
                }
            };
        }
    }

    #[test]
    fn a_host_is_fetched_from_twelve_times_in_any_minute_and_nobody_starves() {
        for count in [1, 12, 13, 40, 200] {
            let hours = seconds(4 * 3600);
            let served = served(count, seconds(10), hours);
            let mut all: Vec<Duration> = served.iter().flatten().copied().collect();
            all.sort();
            for (first, next) in all.iter().zip(all.iter().skip(FETCHES)) {
                assert!(*next - *first >= MINUTE, "{count}: {first:?} to {next:?}");
            }
            let fewest = served.iter().map(Vec::len).min().unwrap();
            let most = served.iter().map(Vec::len).max().unwrap();
            assert!(
                fewest * 10 >= most * 8,
                "{count} databases: {fewest} to {most} turns each"
            );
            let possible =
                (hours.as_secs() as usize / 5).min(count * hours.as_secs() as usize / 10);
            assert!(
                all.len() * 10 >= possible * 9,
                "{count}: {} of {possible} turns",
                all.len()
            );
        }
    }

    #[test]
    fn who_does_not_come_keeps_nobody_waiting() {
        let (limits, now) = (HostLimits::default(), Instant::now());
        for number in 0..FETCHES {
            assert_eq!(limits.may_ask("h", Asking::Fetch, number, now), Ok(()));
            limits.asked("h", Asking::Fetch, now);
        }
        let gone = limits.may_ask("h", Asking::Fetch, 20, now).unwrap_err();
        assert_eq!(gone, now + MINUTE);
        let other = limits.may_ask("h", Asking::Fetch, 21, now).unwrap_err();
        assert_eq!(other, now + MINUTE);
        assert_eq!(limits.may_ask("h", Asking::Fetch, 21, other), Ok(()));
        assert_eq!(limits.may_ask("other", Asking::Fetch, 21, now), Ok(()));
        assert_eq!(limits.may_ask("h", Asking::Push, 21, now), Ok(()));
    }

    #[test]
    fn a_host_that_refuses_is_asked_half_as_often_for_an_hour() {
        let (limits, now) = (HostLimits::default(), Instant::now());
        assert_eq!(limits.doublings("h", now), 0);
        for later in [0, 1, 30] {
            limits.refuses("h", HostRefusal::Throttled, now + seconds(later));
            assert_eq!(
                limits.doublings("h", now + seconds(later)),
                1,
                "one refusal"
            );
        }
        assert_eq!(limits.doublings("h", now + seconds(3599)), 1);
        assert_eq!(limits.doublings("h", now + seconds(3600)), 0);
        assert_eq!(limits.doublings("other", now), 0);
        for minutes in 2..100 {
            limits.refuses("h", HostRefusal::Throttled, now + seconds(61 * minutes));
        }
        assert_eq!(
            limits.doublings("h", now + seconds(100 * 61)),
            DOUBLINGS,
            "one that always refuses"
        );
        limits.answers("h");
        assert_eq!(limits.doublings("h", now + seconds(100 * 61)), DOUBLINGS);
        limits.refuses("closed", HostRefusal::Closed, now);
        assert_eq!(limits.doublings("closed", now + seconds(1)), 1);
        limits.answers("closed");
        assert_eq!(limits.doublings("closed", now + seconds(1)), 0);
    }
}
