//! Whether a lock that is judged by its age is still refreshed: by looks some seconds apart, and by a clock that
//! cannot be set.
//!
//! The age of a lock is a difference of wall-clock times. A step of that clock makes every lock of the machine old at
//! once, also one that its holder refreshes every 3 s. So the age of a lock on this host, whose process may live, is
//! believed only when the lock has been seen to stay the same for a whole interval.

use std::time::{Duration, Instant};

use crate::{lock_file_stat::LockFileStat, record::REFRESH, record::Record, record::RefreshSign};

/// Two looks further apart than this prove nothing: this process stood still in between, and perhaps the holder did
/// too, as in a container that was paused.
const FARTHEST: Duration = REFRESH;

/// Result of earlier looks at one lock. Pass it on in [`Options`](crate::Options); without it a check has seen nothing.
///
/// ```
/// # let dir = std::env::temp_dir();
/// use beadlock_core::{Options, Place};
/// use beadlock_core::{look::look, renewal_watch::RenewalWatch};
///
/// let (place, mut options) = (Place::memory(&dir), Options::default());
/// let seen = look(&place, &options);
/// options.refreshes.see(&seen);
/// // … look again at least every 2 s; after 3.5 s without a refresh a lock that is too old is stale.
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RenewalWatch(Option<UnchangedLock>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct UnchangedLock {
    mark: RenewalMark,
    since: Instant,
    last: Instant,
}

/// The part of a lock that a refresh changes: the time in it, the time of its file, or the file itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RenewalMark {
    file: LockFileStat,
    sign: RefreshSign,
}

impl RenewalMark {
    /// `None`: the lock is not one that is judged by its age.
    pub(crate) fn of(record: &Record, file: LockFileStat) -> Option<Self> {
        Some(Self {
            file,
            sign: record.lock().refresh_sign()?,
        })
    }
}

impl RenewalWatch {
    /// No look so far.
    pub const NONE: Self = Self(None);

    /// Takes note of what a look has shown: `None` for no lock that is judged by its age.
    pub(crate) fn see_at(&mut self, mark: Option<RenewalMark>, now: Instant) {
        self.0 = mark.map(|mark| {
            let since = self.since(mark, now).unwrap_or(now);
            UnchangedLock {
                mark,
                since,
                last: now,
            }
        });
    }

    /// For how long the lock has been seen to stay as it is; zero for one that has not been seen before.
    pub(crate) fn unrefreshed(&self, mark: RenewalMark) -> Duration {
        let now = Instant::now();
        self.since(mark, now)
            .map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// True when this process has looked before, and stood still since: in a container that was paused, for example.
    /// The holder perhaps stood still too, and has had no time to refresh its lock.
    pub(crate) fn has_stood_still(&self) -> bool {
        self.has_stood_still_at(Instant::now())
    }

    fn has_stood_still_at(&self, now: Instant) -> bool {
        self.0
            .is_some_and(|seen| now.saturating_duration_since(seen.last) > FARTHEST)
    }

    pub(crate) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    fn since(&self, mark: RenewalMark, now: Instant) -> Option<Instant> {
        let seen = self.0.filter(|seen| seen.mark == mark)?;
        (now.saturating_duration_since(seen.last) <= FARTHEST).then_some(seen.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::StartedAt;
    use beadlock_base::filesystem::FileKind;

    fn mark(acquired: i64, modified: i64, inode: u64) -> RenewalMark {
        let (kind, modified) = (FileKind::File, StartedAt::from_unix(modified, 0));
        let file = LockFileStat {
            kind,
            size: 100,
            modified,
            owner: 0,
            inode: (1, inode),
        };
        RenewalMark {
            file,
            sign: (Some(77), Some(StartedAt::from_unix(acquired, 0))),
        }
    }

    fn seconds(since: Instant, seconds: u64) -> Instant {
        since + Duration::from_secs(seconds)
    }

    #[test]
    fn a_lock_that_stays_the_same_is_unrefreshed_since_the_first_look() {
        let (begun, mut watch) = (Instant::now(), RenewalWatch::NONE);
        let mark = mark(1, 1, 1);
        assert_eq!(watch.since(mark, begun), None, "never seen");
        for second in [0, 1, 3, 6] {
            watch.see_at(Some(mark), seconds(begun, second));
        }
        assert_eq!(watch.since(mark, seconds(begun, 7)), Some(begun));
    }

    #[test]
    fn a_long_time_without_a_look_is_a_standstill() {
        let (begun, mut watch) = (Instant::now(), RenewalWatch::NONE);
        assert!(!watch.has_stood_still_at(begun), "the first look");
        watch.see_at(Some(mark(1, 1, 1)), begun);
        assert!(!watch.has_stood_still_at(seconds(begun, 3)));
        assert!(watch.has_stood_still_at(seconds(begun, 4)));
    }

    /// A frozen clock writes the same time again, and a rename the same text: the file tells.
    #[test]
    fn each_trace_of_a_refresh_begins_anew() {
        for changed in [mark(2, 1, 1), mark(1, 2, 1), mark(1, 1, 2)] {
            let (begun, mut watch) = (Instant::now(), RenewalWatch::NONE);
            watch.see_at(Some(mark(1, 1, 1)), begun);
            assert_eq!(watch.since(changed, seconds(begun, 1)), None, "{changed:?}");
            watch.see_at(Some(changed), seconds(begun, 2));
            assert_eq!(
                watch.since(changed, seconds(begun, 3)),
                Some(seconds(begun, 2))
            );
        }
    }

    #[test]
    fn a_pause_of_this_process_or_a_look_at_nothing_begins_anew() {
        let (begun, mut watch) = (Instant::now(), RenewalWatch::NONE);
        let mark = mark(1, 1, 1);
        watch.see_at(Some(mark), begun);
        assert_eq!(watch.since(mark, seconds(begun, 4)), None, "it stood still");
        watch.see_at(Some(mark), seconds(begun, 4));
        assert_eq!(
            watch.since(mark, seconds(begun, 5)),
            Some(seconds(begun, 4))
        );
        watch.see_at(None, seconds(begun, 5));
        assert!(watch.is_none());
    }
}
