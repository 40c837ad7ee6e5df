//! A lock that is judged by time: it stands only for as long as somebody keeps it up.

pub mod renewal_thread;

use std::time::Duration;

/// So many failures in a row are written down: the document of named locks has the number.
pub const FAILURES_IN_A_ROW: u32 = 3;

/// There is a heartbeat at least this often, whatever the TTL.
const SELDOM: Duration = Duration::from_secs(30);

fn interval(ttl: Duration) -> Duration {
    (ttl / 3).min(SELDOM)
}

/// The times of a lock's heartbeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTimes {
    pub(crate) interval: Duration,
    /// Time after which a heartbeat that has not succeeded is tried again.
    pub again: Duration,
    /// Time without a heartbeat after which the lock is given up: a little before it is stale, so that the work has
    /// ended by then.
    pub give_up: Duration,
    /// Time between the give-up and the moment when the lock is stale.
    pub rest: Duration,
}

impl LeaseTimes {
    /// Time left until the lock is stale, `silent` after the last heartbeat. Zero where it is stale already, as after
    /// the process was stopped.
    pub fn left(&self, silent: Duration) -> Duration {
        (self.give_up + self.rest).saturating_sub(silent)
    }

    pub(crate) fn of(ttl_seconds: u64) -> Self {
        let ttl = Duration::from_secs(ttl_seconds);
        let rest = (ttl / 4).min(Duration::from_secs(10));
        let interval = interval(ttl);
        Self {
            interval,
            again: interval.min(ttl / 8),
            give_up: ttl.saturating_sub(rest),
            rest,
        }
    }

    /// Time without a heartbeat after which the lock is stale.
    pub fn ttl(&self) -> Duration {
        self.give_up.saturating_add(self.rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_a_third_of_the_ttl_and_at_most_30_s() {
        for (ttl, millis) in [
            (1, 333),
            (3, 1000),
            (30, 10_000),
            (90, 30_000),
            (900, 30_000),
            (86_400, 30_000),
        ] {
            assert_eq!(
                interval(Duration::from_secs(ttl)).as_millis(),
                millis,
                "{ttl}"
            );
        }
    }

    #[test]
    fn three_failures_fit_into_the_ttl_and_what_is_given_up_is_not_stale_yet() {
        for ttl in [1, 2, 3, 10, 60, 90, 900, 86_400, u64::MAX] {
            let LeaseTimes {
                interval,
                again,
                give_up,
                rest,
            } = LeaseTimes::of(ttl);
            assert!(
                interval + 3 * again <= give_up,
                "{ttl}: {:?}",
                LeaseTimes::of(ttl)
            );
            assert_eq!(give_up + rest, Duration::from_secs(ttl));
            assert_eq!(LeaseTimes::of(ttl).left(give_up), rest);
            assert_eq!(
                LeaseTimes::of(ttl).left(Duration::from_secs(ttl)),
                Duration::ZERO
            );
            assert_eq!(LeaseTimes::of(ttl).left(Duration::MAX), Duration::ZERO);
            assert!(rest == Duration::from_secs(10) || rest * 4 == Duration::from_secs(ttl));
        }
    }
}
